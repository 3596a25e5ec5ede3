package api_test

import (
	"testing"
	"time"

	"steward/client"
)

// Usage is summed up by day, agent, model and user, of the caller alone unless an admin asks for all.
func TestUsage(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/usage", "", 200, `"by":"day","rows":[],"total":{"calls":0,"usage":{}}}`)
	first := w.say("ana", "", "hello")
	w.say("ana", first.Conversation, "test.get b") // two model calls, and one result
	w.say("eve", "", "hello")
	w.want("ana", "DELETE", "/conversations/"+first.Conversation, "", 204, "")

	of := func(query string) client.UsageReport { return get[client.UsageReport](w, "GET", "/usage"+query, "") }
	day := of("")
	if len(day.Rows) != 1 || day.Rows[0].Calls != 3 || day.Rows[0].Usage != (client.Usage{Input: 27, Output: 9}) || day.Total.Calls != 3 || day.To.Sub(day.From) < 29*24*time.Hour {
		t.Errorf("%+v", day)
	}
	if _, err := time.Parse(time.DateOnly, day.Rows[0].Key); err != nil {
		t.Error(err)
	}
	for by, key := range map[string]string{"agent": "assistant", "model": "test/one", "user": "ana"} {
		if rep := of("?by=" + by); len(rep.Rows) != 1 || rep.Rows[0].Key != key || rep.Rows[0].Calls != 3 {
			t.Errorf("%+v", rep)
		}
	}
	w.want("boss+admin", "GET", "/usage?by=user&all_users=true", "", 200, `"rows":[{"key":"ana","calls":3,"usage":{"input":27,"output":9}},{"key":"eve","calls":1,"usage":{"input":9,"output":3}}],"total":{"calls":4`)
	w.want("ana", "GET", "/usage?from=2001-01-01T00:00:00Z&to=2001-02-01T00:00:00Z", "", 200, `"rows":[]`)

	w.want("ana", "GET", "/usage?by=colour", "", 400, "by_unknown")
	w.want("ana", "GET", "/usage?from=2001-01-01T00:00:00Z", "", 400, "time_invalid")
	w.want("ana", "GET", "/usage?from=yesterday", "", 400, "time_invalid")
	w.want("ana", "GET", "/usage?all_users=true", "", 403, "admin_only")
}
