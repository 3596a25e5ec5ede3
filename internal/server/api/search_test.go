package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
)

// Search finds one message of ana's.
func (d *double) Search(_ context.Context, user string, q search.Query) (search.Page, error) {
	d.asked = fmt.Sprint(user, "|", q.Text, "|", q.Conversation, "|", q.Role, "|", q.Tool, "|", q.Since.Format(time.RFC3339), "|",
		q.Until.IsZero(), "|", q.Around, "|", q.Limit, "|", q.After)
	if d.fail != nil || user != "ana" {
		return search.Page{}, d.fail
	}
	return found, nil
}

var found = search.Page{Next: "more", Hits: []search.Hit{{
	Line:         search.Line{Message: said[1].ID, Role: message.Assistant, At: at, Text: "It is 4"},
	URI:          record.InteractionURI(mine.ID, said[1].Interaction).ChildID(record.TypeMessage, said[1].ID),
	Conversation: mine.ID, Interaction: said[1].Interaction, Title: "Sums", Seq: 7, Labels: message.Private | message.Untrusted,
	Spans:  []search.Span{{From: 6, To: 7}},
	Before: []search.Line{{Message: said[0].ID, Role: message.User, At: at, Text: "2+2?"}},
	After:  []search.Line{{Message: id.ID{15: 9}, Role: message.Tool, Tool: "math.add", At: at, Text: "4"}},
}}}

func TestSearch(t *testing.T) {
	d := &double{}
	status, _, body, err := request(t, d, "ana", "GET", root+"/search?q=It+%224%22&conversation="+mine.ID.String()+
		"&role=assistant&tool=math.add&since=2030-01-01T00:00:00Z&around=1&limit=5&after=c", "")
	want := `{"hits":[{"id":"00000000-0000-7000-8000-000000000003","role":"assistant","at":"2030-01-02T03:04:05Z","text":"It is 4",` +
		`"uri":"cld:common.Conversation.00000000-0000-7000-8000-000000000001/common.Interaction.00000000-0000-7000-8000-000000000009/common.Message.00000000-0000-7000-8000-000000000003",` +
		`"conversation_id":"00000000-0000-7000-8000-000000000001","title":"Sums","interaction_id":"00000000-0000-7000-8000-000000000009",` +
		`"seq":7,"spans":[[6,7]],` +
		`"before":[{"id":"00000000-0000-7000-8000-000000000002","role":"user","at":"2030-01-02T03:04:05Z","text":"2+2?"}],` +
		`"after":[{"id":"00000000-0000-0000-0000-000000000009","role":"tool","tool":"math.add","at":"2030-01-02T03:04:05Z","text":"4"}],"labels":["private","untrusted"]}],"next":"more"}`
	asked := `ana|It "4"|` + mine.ID.String() + `|assistant|math.add|2030-01-01T00:00:00Z|true|1|5|c`
	if err != nil || status != 200 || body != want || d.asked != asked {
		t.Errorf("%d %s %v\n%s", status, body, err, d.asked)
	}
	var back search.Page
	if err := json.Unmarshal([]byte(body), &back); err != nil || fmt.Sprint(back) != fmt.Sprint(found) {
		t.Errorf("%v read back: %+v", err, back)
	}
	if _, _, body, _ := request(t, d, "eve", "GET", root+"/search?q=4", ""); body != `{"hits":[]}` {
		t.Error(body)
	}
	refuses(t, exchange{"ana", "GET", "/search?q=4&role=system", "", 400, "role_unknown", ""})
}
