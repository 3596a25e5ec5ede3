package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/conversation"
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

func TestHistory(t *testing.T) {
	answers(t, []exchange{
		{"ana", "GET", conv + "/messages?branch=" + twigID + "&reverse=true", "", 200,
			`{"messages":[{"interaction_id":"` + inter1 + `","branch":"main","pinned":true,"id":"` + user1 + `","role":"user","blocks":[{"type":"text","text":"2+2?"}]},` +
				`{"interaction_id":"` + inter1 + `","branch":"` + twigID + `","state":"superseded","reason":"newer","by":"files.write","changed":"2030-01-02T03:04:05Z","superseded_by":"` + user1 + `","shown":false,` +
				`"id":"` + answer1 + `","role":"assistant","blocks":[{"type":"text","text":"4"}],"final":true}]}`, "ana " + twigID + " true false"},
		{"ana", "GET", conv + "/branches", "", 200, `{"branches":[{"id":"main","created":"2030-01-02T03:04:05Z","preferred":false,"revision":0,"messages":2,"own":2,"begins":"2+2?"},{` + twigJSON + `,"stem":"main","messages":1,"own":0}]}`, "branches false"},
		{"ana", "GET", conv + "/branches?deleted=true", "", 200, `{"branches":[{"id":"main","created":"2030-01-02T03:04:05Z","preferred":false,"revision":0,"messages":2,"own":2,"begins":"2+2?"},{` + twigJSON + `,"stem":"main","messages":1,"own":0}]}`, "branches true"},
		{"ana", "POST", conv + "/branches", `{"message":"` + user1 + `","before":true,"title":" B "}`, 201, "{" + twigJSON + "}", "fork " + user1 + " true B"},
		{"ana", "POST", conv + "/branches", `{}`, 201, "{" + twigJSON + "}", "fork  false"},
		{"ana", "PATCH", conv + "/branches/main", `{"title":"x"}`, 204, "", "title main x"},
		{"ana", "PATCH", conv + "/branches/main", `{"title":""}`, 204, "", "title main"},
		{"ana", "PATCH", conv + "/branches/" + twigID, `{"title":"x","preferred":true}`, 204, "", "title " + twigID + " x switch " + twigID},
		{"ana", "PATCH", conv + "/branches/" + twigID, `{"preferred":true}`, 204, "", "switch " + twigID},
		{"ana", "DELETE", conv + "/branches/" + twigID, "", 204, "", "delete " + twigID},
		{"ana", "POST", conv + "/branches/main/copy", "", 201, `{"conversation_id":"` + twigID + `"}`, "copy main"},
		{"ana", "POST", conv + "/undelete", `{}`, 204, "", "undelete"},
		{"ana", "POST", conv + "/undelete", `{"branch":"` + twigID + `"}`, 204, "", "undelete " + twigID},
		{"ana", "POST", conv + "/rewind", `{"message":"` + user1 + `","withdraw":true}`, 201, "{" + twigJSON + `,"withdrawn":2}`, "rewind " + user1 + " true"},
		{"ana", "GET", conv + "/messages/" + user1 + "/siblings", "", 200, `{"siblings":[{"branch":"main","message_id":"` + user1 + `","preferred":false},{"branch":"` + twigID + `","message_id":"` + answer1 + `","preferred":true}]}`, "siblings " + user1},
		{"ana", "POST", conv + "/messages/remove", `{"messages":["` + user1 + `","` + answer1 + `"]}`, 201, "{" + twigJSON + "}", "remove [" + user1 + " " + answer1 + "]"},
		{"ana", "POST", conv + "/messages/insert", `{"after":"` + user1 + `","text":"by the way"}`, 201, "{" + twigJSON + `,"message_id":"NEW"}`, "insert " + user1 + " user by the way user"},
		{"ana", "POST", conv + "/messages/insert", `{"role":"assistant","text":"ok"}`, 201, "{" + twigJSON + `,"message_id":"NEW"}`, "insert  assistant ok user"},
		{"ana", "POST", conv + "/messages/mark", `{"messages":["` + user1 + `"],"state":"superseded","reason":"r","by":"` + answer1 + `"}`, 200, `{"changed":1}`, "mark superseded r " + answer1 + " [" + user1 + "]"},
		{"ana", "POST", conv + "/messages/trust", `{"messages":["` + user1 + `"]}`, 204, "", "trust untrusted [" + user1 + "]"},
		{"ana", "POST", conv + "/messages/trust", `{"messages":["` + user1 + `"],"labels":["private","untrusted"]}`, 204, "", "trust private,untrusted [" + user1 + "]"},
		{"ana", "POST", conv + "/messages/pin", `{"messages":["` + user1 + `"]}`, 204, "", "pin true [" + user1 + "]"},
		{"ana", "POST", conv + "/messages/pin", `{"messages":["` + user1 + `"],"pinned":false}`, 204, "", "pin false [" + user1 + "]"},
		{"ana", "GET", conv + "/interactions/" + inter1, "", 200, `{"id":"` + inter1 + `","origin":"user","started":"2030-01-02T03:04:05Z","stopped":"2030-01-02T03:05:05Z","outcome":"answered","state":"active","tools":{"math.add":2},` +
			`"messages":[{"message_id":"` + user1 + `","role":"user","state":"active"},{"message_id":"` + answer1 + `","role":"assistant","state":"superseded"}],"changes":[` + changeOne + `]}`, "interaction " + inter1},
		{"ana", "POST", conv + "/interactions/" + inter1 + "/merge", `{"from":"` + user1 + `"}`, 204, "", "merge " + inter1 + " " + user1},
		{"ana", "POST", conv + "/interactions/" + inter1 + "/rollback", `{"tool":"files.write"}`, 200, `{"restored":3}`, "rollback " + inter1 + " files.write"},
		{"ana", "POST", conv + "/interactions/" + inter1 + "/rollback", `{}`, 200, `{"restored":3}`, "rollback " + inter1},
		{"ana", "GET", conv + "/changes?interaction=" + inter1 + "&tool=files.write", "", 200, `{"changes":[` + changeOne + `]}`, "audit " + inter1 + " files.write"},
		{"ana", "GET", conv + "/changes", "", 200, `{"changes":[` + changeOne + `]}`, "audit"},
		{"ana", "POST", conv + "/tidy", `{"how":"optimize","tools":["a.b","c.d"]}`, 200, `{"changed":4}`, "tidy optimize [a.b c.d]"},
	}...)
}

func TestHistoryRefuses(t *testing.T) {
	const zero = "00000000-0000-0000-0000-000000000000"
	refuses(t, []exchange{
		{"ana", "POST", conv + "/branches", `{"message":"x"}`, 400, "member_invalid", ""},
		{"ana", "POST", conv + "/branches", `{"title":"a\nb"}`, 400, "title_invalid", ""},
		{"ana", "PATCH", conv + "/branches/main", `{}`, 400, "change_missing", ""},
		{"ana", "PATCH", conv + "/branches/main", `{"title":"` + strings.Repeat("x", 201) + `"}`, 400, "title_invalid", ""},
		{"ana", "PATCH", conv + "/branches/none", `{"title":"x"}`, 404, "branch_not_found", ""},
		{"ana", "PATCH", conv + "/branches/" + zero, `{"title":"x"}`, 404, "branch_not_found", ""},
		{"ana", "PATCH", conv + "/branches/..%2F..", `{"title":"x"}`, 404, "branch_not_found", ""},
		{"ana", "DELETE", conv + "/branches/%00", "", 404, "branch_not_found", ""},
		{"ana", "POST", conv + "/branches/x/copy", "", 404, "branch_not_found", ""},
		{"ana", "POST", conv + "/undelete", `{"branch":"a/b"}`, 404, "branch_not_found", ""},
		{"ana", "POST", conv + "/rewind", `{}`, 400, "message_missing", ""},
		{"ana", "POST", conv + "/rewind", `{"message":7}`, 400, "member_invalid", ""},
		{"ana", "POST", conv + "/messages/remove", `{}`, 400, "messages_missing", ""},
		{"ana", "POST", conv + "/messages/remove", `[]`, 400, "member_invalid", ""},
		{"ana", "POST", conv + "/messages/insert", `{"text":" "}`, 400, "message_empty", ""},
		{"ana", "POST", conv + "/messages/insert", `{"text":"x","role":"system"}`, 400, "role_unknown", ""},
		{"ana", "POST", conv + "/messages/mark", `{"state":"archived"}`, 400, "messages_missing", ""},
		{"ana", "POST", conv + "/messages/mark", `{"messages":null,"state":"archived"}`, 400, "messages_missing", ""},
		{"ana", "POST", conv + "/messages/pin", `{"messages":[]}`, 400, "messages_missing", ""},
		{"ana", "GET", conv + "/interactions/x", "", 404, "interaction_not_found", ""},
		{"ana", "GET", conv + "/interactions/" + zero, "", 404, "interaction_not_found", ""},
		{"ana", "POST", conv + "/interactions/x/merge", `{"from":"` + user1 + `"}`, 404, "interaction_not_found", ""},
		{"ana", "POST", conv + "/interactions/" + inter1 + "/merge", `{}`, 400, "interaction_missing", ""},
		{"ana", "POST", conv + "/interactions/" + inter1 + "/merge", `{"from":"` + zero + `"}`, 400, "interaction_missing", ""},
		{"ana", "POST", conv + "/interactions/x/rollback", `{}`, 404, "interaction_not_found", ""},
		{"ana", "GET", conv + "/changes?interaction=x", "", 404, "interaction_not_found", ""},
		{"ana", "GET", conv + "/changes?interaction=" + zero, "", 404, "interaction_not_found", ""},
	}...)
}
