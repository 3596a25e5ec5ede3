package api_test

import (
	"testing"

	"steward/client"
)

func TestTheHeartbeatOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/heartbeat", "", 200, `"on":false`)
	w.want("ana", "POST", "/heartbeat/run", `{}`, 409, "heartbeat_off")
	w.want("ana", "PUT", "/heartbeat", `{"every":"30m","quiet":"22:00-7:00","tools":{"reminder.create":"ask"}}`, 200, `"note":"keep it running"`)
	h := get[client.Heartbeat](w, "GET", "/heartbeat", "")
	if !h.On || h.Every != "30m0s" || h.Quiet != "22:00-07:00" || len(h.Jobs) != 4 || h.Calls.Max != 40 || h.Tools["reminder.create"] != "ask" || h.Tools["@action"] != "deny" {
		t.Errorf("%+v", h)
	}
	w.want("ana", "POST", "/heartbeat/run", `{"kind":"daily"}`, 200, `"job":"daily-review"`)
	w.want("ana", "POST", "/heartbeat/run", `{"kind":"daily"}`, 409, "job_busy")
	w.want("ana", "POST", "/heartbeat/run", `{"kind":"hourly"}`, 400, "review_unknown")
	for body, code := range map[string]string{`{"every":"1s"}`: "every_invalid", `{"every":"often"}`: "every_invalid", `{"at":"noon"}`: "time_invalid", `{"quiet":"night"}`: "quiet_invalid",
		`{"quiet":"9-5"}`: "job_invalid", `{"reviews":["hourly"]}`: "review_unknown", `{"conversation_id":"x"}`: "conversation_invalid", `{"tools":{"x.y":"maybe"}}`: "job_invalid"} {
		w.want("ana", "PUT", "/heartbeat", body, 400, code)
	}
	if after := get[client.Heartbeat](w, "GET", "/heartbeat", ""); after.Every != h.Every {
		t.Errorf("a request that was refused has changed it: %+v", after)
	}
	w.want("ana", "PUT", "/heartbeat", `{"reviews":["weekly"],"quiet":"off"}`, 200, `"every":"15m0s"`)
	for _, j := range get[client.Heartbeat](w, "GET", "/heartbeat", "").Jobs {
		if active := j.Kind == "heartbeat" || j.Kind == "weekly"; active != (j.State == "active") {
			t.Errorf("%+v", j)
		}
	}

	// A job of one's own under the name is not replaced.
	w.want("eve", "POST", "/jobs", `{"text":"x","every":"day","name":"weekly-review"}`, 201, "")
	w.want("eve", "PUT", "/heartbeat", `{}`, 409, "name_taken")
	w.want("eve", "GET", "/heartbeat", "", 200, `"jobs":[]`)

	w.service = true
	w.want("ana", "GET", "/heartbeat", "", 200, `"on":true`)
	w.want("ana", "PUT", "/heartbeat", `{}`, 403, "heartbeat_person")
	w.want("ana", "DELETE", "/heartbeat", "", 403, "heartbeat_person")
	w.want("ana", "POST", "/heartbeat/run", `{}`, 403, "heartbeat_person")
	w.service = false
	w.want("ana", "DELETE", "/heartbeat", "", 200, `"on":false`)
}
