package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

var done = worklog.Entry{ID: said[1].ID.String() + "/0", At: at, Took: 1500 * time.Millisecond, Conversation: mine.ID, Title: "Sums",
	Interaction: said[1].Interaction, Request: id.ID{15: 8}, Actor: "ana", Tool: "math.add", Summary: "Added 2 and 2",
	Parameters: map[string]any{"a": 2, "b": 2}, Outcome: worklog.Success, Impact: []string{"x"},
	Call:     record.InteractionURI(mine.ID, said[1].Interaction).ChildID(record.TypeMessage, said[1].ID),
	Messages: []id.ID{said[1].ID, {15: 7}}, Obsolete: true}

const doneJSON = `{"id":"00000000-0000-7000-8000-000000000003/0","at":"2030-01-02T03:04:05Z",` +
	`"conversation_id":"00000000-0000-7000-8000-000000000001","title":"Sums","interaction_id":"00000000-0000-7000-8000-000000000009",` +
	`"request_id":"00000000-0000-0000-0000-000000000008","actor":"ana","tool":"math.add","summary":"Added 2 and 2","parameters":{"a":2,"b":2},` +
	`"outcome":"success","impact":["x"],"call":"cld:common.Conversation.00000000-0000-7000-8000-000000000001/common.Interaction.00000000-0000-7000-8000-000000000009/common.Message.00000000-0000-7000-8000-000000000003",` +
	`"messages":["00000000-0000-7000-8000-000000000003","00000000-0000-0000-0000-000000000007"],"obsolete":true,"took_ms":1500}`

// WorkLog has one call, of ana's.
func (d *double) WorkLog(_ context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error) {
	d.asked = fmt.Sprint(user, "|", f.Conversation, "|", f.AllBranches, "|", f.Interaction, "|", f.Tool, "|", f.Outcome, "|",
		f.Since.Format(time.RFC3339), "|", f.Until.IsZero(), "|", after, "|", limit)
	if d.fail != nil || user != "ana" {
		return nil, "", d.fail
	}
	return []worklog.Entry{done}, "more", nil
}

func (d *double) WorkLogEntry(_ context.Context, user, ref string) (worklog.Entry, []*message.Message, error) {
	d.asked = ref
	if user != "ana" {
		return worklog.Entry{}, nil, fault.New(fault.NotFound, "call_not_found", "there is no tool call %q", ref)
	}
	return done, []*message.Message{said[0].Message}, nil
}

func TestWorkLog(t *testing.T) {
	answers(t, []exchange{
		{"ana", "GET", "/log?conversation=" + mine.ID.String() + "&interaction=" + said[1].Interaction.String() + "&tool=math.*&outcome=success&since=2030-01-01T00:00:00Z&branches=all&limit=5&after=c", "",
			200, `{"entries":[` + doneJSON + `],"next":"more"}`,
			"ana|" + mine.ID.String() + "|true|" + said[1].Interaction.String() + "|math.*|success|2030-01-01T00:00:00Z|true|c|5"},
		{"eve", "GET", "/log", "", 200, `{"entries":[]}`, "eve||false||||0001-01-01T00:00:00Z|true||100"},
		{"ana", "GET", "/log/" + done.ID, "", 200,
			`{"entry":` + doneJSON + `,"messages":[{"id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]}]}`, done.ID},
	}...)
	refuses(t, []exchange{
		{"ana", "GET", "/log?branches=some", "", 400, "branches_invalid", ""},
		{"ana", "GET", "/log?outcome=done", "", 400, "outcome_unknown", ""},
		{"eve", "GET", "/log/" + done.ID, "", 404, "call_not_found", ""},
	}...)
}
