package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
)

var (
	side    = id.ID{6: 0x70, 8: 0x80, 15: 0xb1}
	twig    = record.Branch{ID: side.String(), Title: "B", Created: at, Used: at, Parent: record.MainBranch, View: record.View{Revision: 3, Start: record.Point{Branch: "main", Pos: 2}, Summary: "cld:x"}}
	changed = []conversation.Entry{
		{Message: said[0].Message, Interaction: said[0].Interaction, Branch: "main", Pinned: true, Shown: true, Change: record.Change{State: record.Active}},
		{Message: said[1].Message, Interaction: said[0].Interaction, Branch: twig.ID, Change: record.Change{State: record.Superseded, At: at, Tool: "files.write", Actor: "agent:x", Reason: "newer", By: said[0].ID}},
	}
	audited = []conversation.Optimization{{Message: said[1].ID, Change: record.Change{State: record.Invalidated, At: at, Actor: "agent:assistant", Tool: "files.write",
		Call: "c/0", Interaction: said[0].Interaction, Strategy: "parameter", Reason: "read again", Undone: at.Add(time.Second), UndoneBy: "ana"}}}
)

const twigJSON = `"id":"00000000-0000-7000-8000-0000000000b1","title":"B","created":"2030-01-02T03:04:05Z","used":"2030-01-02T03:04:05Z","parent":"main","preferred":true,"revision":3,"cut":true,"summary":"cld:x"`

// ask notes what the double was asked, as the caller that it was asked for.
func (d *double) ask(user string, conv id.ID, parts ...any) error {
	if err := d.find(user, conv); err != nil {
		return err
	}
	d.asked = strings.TrimSpace(fmt.Sprintln(parts...))
	return nil
}

func (d *double) Paths(_ context.Context, user string, conv id.ID, deleted bool) ([]runtime.Path, error) {
	return []runtime.Path{{Branch: record.Branch{ID: "main", Created: at}, Messages: 2, Own: 2, Begins: "2+2?"}, {Branch: twig, Preferred: true, Stem: "main", Messages: 1}}, d.ask(user, conv, "branches", deleted)
}

func (d *double) Siblings(_ context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error) {
	return []conversation.Sibling{{Branch: "main", Message: msg}, {Branch: twig.ID, Message: said[1].ID, Current: true}}, d.ask(user, conv, "siblings", msg)
}

func (d *double) Fork(_ context.Context, user string, conv id.ID, f conversation.Fork) (record.Branch, error) {
	return twig, d.ask(user, conv, "fork", f.Message, f.Before, f.Title)
}

func (d *double) Switch(_ context.Context, user string, conv id.ID, branch string) error {
	return d.ask(user, conv, d.asked, "switch", branch)
}

func (d *double) TitleBranch(_ context.Context, user string, conv id.ID, branch, title string) error {
	return d.ask(user, conv, "title", branch, title)
}

func (d *double) DeleteBranch(_ context.Context, user string, conv id.ID, branch string) error {
	return d.ask(user, conv, "delete", branch)
}

func (d *double) Undelete(_ context.Context, user string, conv id.ID, branch string) error {
	return d.ask(user, conv, "undelete", branch)
}

func (d *double) Rewind(_ context.Context, user string, conv, msg id.ID, withdraw bool) (record.Branch, int, error) {
	return twig, 2, d.ask(user, conv, "rewind", msg, withdraw)
}

func (d *double) Remove(_ context.Context, user string, conv id.ID, msgs ...id.ID) (record.Branch, error) {
	return twig, d.ask(user, conv, "remove", msgs)
}

func (d *double) Insert(_ context.Context, user string, conv, after id.ID, m *message.Message) (record.Branch, error) {
	if err := message.Validate(m); err != nil {
		return record.Branch{}, err
	}
	d.inserted = m.ID
	return twig, d.ask(user, conv, "insert", after, m.Role, m.Text(), m.Blocks[0].Base().Origin)
}

func (d *double) Interaction(_ context.Context, user string, conv, inter id.ID) (conversation.Interaction, error) {
	return conversation.Interaction{ID: inter, Origin: "user", Started: at, Stopped: at.Add(time.Minute), Outcome: "answered", State: record.Active,
		Tools: map[string]int{"math.add": 2}, Entries: changed, Changes: audited}, d.ask(user, conv, "interaction", inter)
}

func (d *double) Merge(_ context.Context, user string, conv, into, from id.ID) error {
	return d.ask(user, conv, "merge", into, from)
}

func (d *double) Mark(_ context.Context, user string, conv id.ID, v conversation.Verdict, msgs ...id.ID) (int, error) {
	return len(msgs), d.ask(user, conv, "mark", v.State, v.Reason, v.By, msgs)
}

func (d *double) FindCall(_ context.Context, user, callID string) ([]conversation.Called, error) {
	if user != "ana" || callID != "call_1" {
		return nil, nil
	}
	return []conversation.Called{{Entry: changed[0], Conversation: mine.ID}}, nil
}

func (d *double) Trust(_ context.Context, user string, conv id.ID, labels message.Labels, msgs ...id.ID) error {
	return d.ask(user, conv, "trust", labels, msgs)
}

func (d *double) Pin(_ context.Context, user string, conv id.ID, pinned bool, msgs ...id.ID) error {
	return d.ask(user, conv, "pin", pinned, msgs)
}

func (d *double) Audit(_ context.Context, user string, conv, interaction id.ID, tool string) ([]conversation.Optimization, error) {
	return audited, d.ask(user, conv, "audit", interaction, tool)
}

func (d *double) Rollback(_ context.Context, user string, conv, interaction id.ID, tool string) (int, error) {
	return 3, d.ask(user, conv, "rollback", interaction, tool)
}

func (d *double) Tidy(_ context.Context, user string, conv id.ID, how runtime.Tidying, tools []string) (int, error) {
	return 4, d.ask(user, conv, "tidy", how, tools)
}

func (d *double) CopyBranch(_ context.Context, user string, conv id.ID, branch string) (id.ID, error) {
	return side, d.ask(user, conv, "copy", branch)
}

const (
	user1     = "00000000-0000-7000-8000-000000000002"
	answer1   = "00000000-0000-7000-8000-000000000003"
	inter1    = "00000000-0000-7000-8000-000000000009"
	twigID    = "00000000-0000-7000-8000-0000000000b1"
	changeOne = `{"message_id":"` + answer1 + `","state":"invalidated","at":"2030-01-02T03:04:05Z","actor":"agent:assistant","tool":"files.write","call":"c/0","interaction_id":"` + inter1 + `","strategy":"parameter","reason":"read again","undone":"2030-01-02T03:04:06Z","undone_by":"ana"}`
)

// history are the routes for branches and what becomes of messages, each with
// a request that is served.
var history = []struct {
	method, path, body string
	status             int
	answer             string
	asked              string
}{
	{"GET", "/messages?branch=" + twigID + "&reverse=true", "", 200,
		`{"messages":[{"interaction_id":"` + inter1 + `","branch":"main","pinned":true,"id":"` + user1 + `","role":"user","blocks":[{"type":"text","text":"2+2?"}]},` +
			`{"interaction_id":"` + inter1 + `","branch":"` + twigID + `","state":"superseded","reason":"newer","by":"files.write","changed":"2030-01-02T03:04:05Z","superseded_by":"` + user1 + `","shown":false,` +
			`"id":"` + answer1 + `","role":"assistant","blocks":[{"type":"text","text":"4"}],"final":true}]}`, "ana " + twigID + " true false"},
	{"GET", "/branches", "", 200, `{"branches":[{"id":"main","created":"2030-01-02T03:04:05Z","preferred":false,"revision":0,"messages":2,"own":2,"begins":"2+2?"},{` + twigJSON + `,"stem":"main","messages":1,"own":0}]}`, "branches false"},
	{"GET", "/branches?deleted=true", "", 200, `{"branches":[{"id":"main","created":"2030-01-02T03:04:05Z","preferred":false,"revision":0,"messages":2,"own":2,"begins":"2+2?"},{` + twigJSON + `,"stem":"main","messages":1,"own":0}]}`, "branches true"},
	{"POST", "/branches", `{"message":"` + user1 + `","before":true,"title":" B "}`, 201, "{" + twigJSON + "}", "fork " + user1 + " true B"},
	{"POST", "/branches", `{}`, 201, "{" + twigJSON + "}", "fork  false"},
	{"PATCH", "/branches/main", `{"title":"x"}`, 204, "", "title main x"},
	{"PATCH", "/branches/main", `{"title":""}`, 204, "", "title main"},
	{"PATCH", "/branches/" + twigID, `{"title":"x","preferred":true}`, 204, "", "title " + twigID + " x switch " + twigID},
	{"PATCH", "/branches/" + twigID, `{"preferred":true}`, 204, "", "switch " + twigID},
	{"DELETE", "/branches/" + twigID, "", 204, "", "delete " + twigID},
	{"POST", "/branches/main/copy", "", 201, `{"conversation_id":"` + twigID + `"}`, "copy main"},
	{"POST", "/undelete", `{}`, 204, "", "undelete"},
	{"POST", "/undelete", `{"branch":"` + twigID + `"}`, 204, "", "undelete " + twigID},
	{"POST", "/rewind", `{"message":"` + user1 + `","withdraw":true}`, 201, "{" + twigJSON + `,"withdrawn":2}`, "rewind " + user1 + " true"},
	{"GET", "/messages/" + user1 + "/siblings", "", 200, `{"siblings":[{"branch":"main","message_id":"` + user1 + `","preferred":false},{"branch":"` + twigID + `","message_id":"` + answer1 + `","preferred":true}]}`, "siblings " + user1},
	{"POST", "/messages/remove", `{"messages":["` + user1 + `","` + answer1 + `"]}`, 201, "{" + twigJSON + "}", "remove [" + user1 + " " + answer1 + "]"},
	{"POST", "/messages/insert", `{"after":"` + user1 + `","text":"by the way"}`, 201, "{" + twigJSON + `,"message_id":"NEW"}`, "insert " + user1 + " user by the way user"},
	{"POST", "/messages/insert", `{"role":"assistant","text":"ok"}`, 201, "{" + twigJSON + `,"message_id":"NEW"}`, "insert  assistant ok user"},
	{"POST", "/messages/mark", `{"messages":["` + user1 + `"],"state":"superseded","reason":"r","by":"` + answer1 + `"}`, 200, `{"changed":1}`, "mark superseded r " + answer1 + " [" + user1 + "]"},
	{"POST", "/messages/trust", `{"messages":["` + user1 + `"]}`, 204, "", "trust untrusted [" + user1 + "]"},
	{"POST", "/messages/trust", `{"messages":["` + user1 + `"],"labels":["private","untrusted"]}`, 204, "", "trust private,untrusted [" + user1 + "]"},
	{"POST", "/messages/pin", `{"messages":["` + user1 + `"]}`, 204, "", "pin true [" + user1 + "]"},
	{"POST", "/messages/pin", `{"messages":["` + user1 + `"],"pinned":false}`, 204, "", "pin false [" + user1 + "]"},
	{"GET", "/interactions/" + inter1, "", 200, `{"id":"` + inter1 + `","origin":"user","started":"2030-01-02T03:04:05Z","stopped":"2030-01-02T03:05:05Z","outcome":"answered","state":"active","tools":{"math.add":2},` +
		`"messages":[{"message_id":"` + user1 + `","role":"user","state":"active"},{"message_id":"` + answer1 + `","role":"assistant","state":"superseded"}],"changes":[` + changeOne + `]}`, "interaction " + inter1},
	{"POST", "/interactions/" + inter1 + "/merge", `{"from":"` + user1 + `"}`, 204, "", "merge " + inter1 + " " + user1},
	{"POST", "/interactions/" + inter1 + "/rollback", `{"tool":"files.write"}`, 200, `{"restored":3}`, "rollback " + inter1 + " files.write"},
	{"POST", "/interactions/" + inter1 + "/rollback", `{}`, 200, `{"restored":3}`, "rollback " + inter1},
	{"GET", "/changes?interaction=" + inter1 + "&tool=files.write", "", 200, `{"changes":[` + changeOne + `]}`, "audit " + inter1 + " files.write"},
	{"GET", "/changes", "", 200, `{"changes":[` + changeOne + `]}`, "audit"},
	{"POST", "/tidy", `{"how":"optimize","tools":["a.b","c.d"]}`, 200, `{"changed":4}`, "tidy optimize [a.b c.d]"},
}

func TestHistory(t *testing.T) {
	for _, c := range history {
		d := &double{}
		status, _, body, err := request(t, d, "ana", c.method, conv+c.path, c.body)
		want := strings.Replace(c.answer, "NEW", d.inserted.String(), 1)
		if err != nil || status != c.status || body != want || d.asked != c.asked {
			t.Errorf("%s %s: got %d %s, %v (asked %q)\nwant %d %s (asked %q)", c.method, c.path, status, body, err, d.asked, c.status, want, c.asked)
		}
	}
}

// What belongs to somebody else answers as what is not there does, and what
// fails says no more than that.
func TestHistoryIsNobodyElses(t *testing.T) {
	for _, c := range history {
		d := &double{}
		_, _, none, err := request(t, d, "eve", c.method, other+c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		status, _, foreign, err := request(t, d, "eve", c.method, conv+c.path, c.body)
		foreign = strings.Replace(foreign, "000000000001", "0000000000ff", 1)
		if err != nil || status != 404 || foreign != none || !strings.Contains(foreign, `"conversation_not_found"`) {
			t.Errorf("%s %s: got %d %s, and %s of one that is not there", c.method, c.path, status, foreign, none)
		}
		for _, bad := range []string{root + "/conversations/x", root + "/conversations/00000000-0000-0000-0000-000000000000"} {
			if status, _, body, err := request(t, d, "ana", c.method, bad+c.path, c.body); err != nil || status != 404 || !strings.Contains(body, `"conversation_not_found"`) {
				t.Errorf("%s %s%s: %d %s %v", c.method, bad, c.path, status, body, err)
			}
		}
		d.fail = errors.New("open /secret/path: no")
		if status, _, body, err := request(t, d, "ana", c.method, conv+c.path, c.body); err != nil || status != 500 || strings.Contains(body, "secret") {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, status, body, err)
		}
		if status, _, _, err := request(t, d, "-", c.method, conv+c.path, c.body); err != nil || status != 401 {
			t.Errorf("%s %s without a caller: %d %v", c.method, c.path, status, err)
		}
	}
}

func TestHistoryRefuses(t *testing.T) {
	const zero = "00000000-0000-0000-0000-000000000000"
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/messages?reverse=perhaps", "", "400 reverse_invalid"},
		{"GET", "/messages?deleted=perhaps", "", "400 deleted_invalid"},
		{"GET", "/branches?deleted=perhaps", "", "400 deleted_invalid"},
		{"POST", "/branches", "", "400 invalid_json"},
		{"POST", "/branches", `{"message":"x"}`, "400 member_invalid"},
		{"POST", "/branches", `{"Title":"x"}`, "400 unknown_member"},
		{"POST", "/branches", `{"title":"a\nb"}`, "400 title_invalid"},
		{"PATCH", "/branches/main", `{}`, "400 change_missing"},
		{"PATCH", "/branches/main", `{"title":"` + strings.Repeat("x", 201) + `"}`, "400 title_invalid"},
		{"PATCH", "/branches/none", `{"title":"x"}`, "404 branch_not_found"},
		{"PATCH", "/branches/" + zero, `{"title":"x"}`, "404 branch_not_found"},
		{"PATCH", "/branches/..%2F..", `{"title":"x"}`, "404 branch_not_found"},
		{"DELETE", "/branches/%00", "", "404 branch_not_found"},
		{"POST", "/branches/x/copy", "", "404 branch_not_found"},
		{"POST", "/undelete", `{"branch":"a/b"}`, "404 branch_not_found"},
		{"POST", "/undelete", "", "400 invalid_json"},
		{"POST", "/rewind", `{}`, "400 message_missing"},
		{"POST", "/rewind", `{"message":7}`, "400 member_invalid"},
		{"GET", "/messages/x/siblings", "", "404 message_not_found"},
		{"GET", "/messages/" + zero + "/siblings", "", "404 message_not_found"},
		{"POST", "/messages/remove", `{}`, "400 messages_missing"},
		{"POST", "/messages/remove", `[]`, "400 member_invalid"},
		{"POST", "/messages/insert", `{"text":" "}`, "400 message_empty"},
		{"POST", "/messages/insert", `{"text":"x","role":"system"}`, "400 role_unknown"},
		{"POST", "/messages/insert", `{"text":"` + strings.Repeat("x", 2<<20) + `"}`, "413 too_large"},
		{"POST", "/messages/mark", `{"state":"archived"}`, "400 messages_missing"},
		{"POST", "/messages/mark", `{"messages":null,"state":"archived"}`, "400 messages_missing"},
		{"POST", "/messages/pin", `{"messages":[]}`, "400 messages_missing"},
		{"POST", "/messages/pin", `{"messages":["` + strings.Repeat("x", 70000) + `"]}`, "413 too_large"},
		{"GET", "/interactions/x", "", "404 interaction_not_found"},
		{"GET", "/interactions/" + zero, "", "404 interaction_not_found"},
		{"POST", "/interactions/x/merge", `{"from":"` + user1 + `"}`, "404 interaction_not_found"},
		{"POST", "/interactions/" + inter1 + "/merge", `{}`, "400 interaction_missing"},
		{"POST", "/interactions/" + inter1 + "/merge", `{"from":"` + zero + `"}`, "400 interaction_missing"},
		{"POST", "/interactions/x/rollback", `{}`, "404 interaction_not_found"},
		{"POST", "/interactions/" + inter1 + "/rollback", `{`, "400 invalid_json"},
		{"GET", "/changes?interaction=x", "", "404 interaction_not_found"},
		{"GET", "/changes?interaction=" + zero, "", "404 interaction_not_found"},
		{"POST", "/tidy", `x`, "400 invalid_json"},
		{"PUT", "/tidy", ``, "405 method_not_allowed"},
	} {
		status, _, body, err := request(t, &double{}, "ana", c.method, conv+c.path, c.body)
		var v struct {
			Error struct{ Code, Message, Kind string }
		}
		if err == nil {
			err = json.Unmarshal([]byte(body), &v)
		}
		if got := fmt.Sprint(status, " ", v.Error.Code); err != nil || got != c.want || v.Error.Message == "" {
			t.Errorf("%s %s %.60s: got %s %s, %v; want %s", c.method, c.path, c.body, got, body, err, c.want)
		}
	}
}

// A refusal of the node reaches the caller with its code.
func TestHistoryTellsOfRefusals(t *testing.T) {
	d := &double{fail: fault.New(fault.Invalid, "splits_call", "no").WithHint("take another")}
	if status, _, body, err := request(t, d, "ana", "POST", conv+"/branches", `{"message":"`+user1+`"}`); err != nil || status != 400 || !strings.Contains(body, `"remedy":"take another"`) {
		t.Errorf("%d %s %v", status, body, err)
	}
}
