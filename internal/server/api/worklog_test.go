package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/worklog"
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
	d := &double{}
	status, _, body, err := request(t, d, "ana", "GET", root+"/log?conversation="+mine.ID.String()+"&interaction="+said[1].Interaction.String()+
		"&tool=math.*&outcome=success&since=2030-01-01T00:00:00Z&branches=all&limit=5&after=c", "")
	asked := "ana|" + mine.ID.String() + "|true|" + said[1].Interaction.String() + "|math.*|success|2030-01-01T00:00:00Z|true|c|5"
	if err != nil || status != 200 || body != `{"entries":[`+doneJSON+`],"next":"more"}` || d.asked != asked {
		t.Errorf("%d %s %v\n%s", status, body, err, d.asked)
	}
	if _, _, body, _ := request(t, d, "eve", "GET", root+"/log", ""); body != `{"entries":[]}` || d.asked != "eve||false||||0001-01-01T00:00:00Z|true||100" {
		t.Error(body, d.asked)
	}
	for query, want := range map[string]string{
		"conversation=x": "404 conversation_not_found", "interaction=x": "404 interaction_not_found", "since=yesterday": "400 time_invalid",
		"until=1": "400 time_invalid", "limit=0": "400 limit_invalid", "branches=some": "400 branches_invalid",
	} {
		status, _, body, err := request(t, d, "ana", "GET", root+"/log?"+query, "")
		var v struct{ Error struct{ Code string } }
		if err = errors.Join(err, json.Unmarshal([]byte(body), &v)); err != nil || fmt.Sprint(status, " ", v.Error.Code) != want {
			t.Errorf("%s: %d %s %v", query, status, body, err)
		}
	}
	if status, _, _, _ := request(t, &double{fail: errors.New("no")}, "ana", "GET", root+"/log", ""); status != 500 {
		t.Error(status)
	}
}

func TestWorkLogEntry(t *testing.T) {
	d := &double{}
	status, _, body, err := request(t, d, "ana", "GET", root+"/log/"+done.ID, "")
	want := `{"entry":` + doneJSON + `,"messages":[{"id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]}]}`
	if err != nil || status != 200 || body != want || d.asked != done.ID {
		t.Errorf("%d %s %v (%s)", status, body, err, d.asked)
	}
	if status, _, _, _ := request(t, d, "eve", "GET", root+"/log/"+done.ID, ""); status != 404 {
		t.Error(status)
	}
}
