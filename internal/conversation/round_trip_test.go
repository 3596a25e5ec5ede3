package conversation_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	_ "steward/test/seed"
)

type errorer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func export(t errorer, e *conversation.Engine, conv id.ID) string {
	t.Helper()
	var out strings.Builder
	must(t, e.ExportAs(context.Background(), anna, conv, conversation.ExportOptions{Format: "json"}, &out))
	return out.String()
}

// reimport imports what was exported.
func reimport(t errorer, e *conversation.Engine, sc store.Scope, text string) (conversation.Imported, error) {
	t.Helper()
	for c, err := range importexport.Read(context.Background(), strings.NewReader(text), importexport.Options{Codecs: codecs()}) {
		if err != nil {
			return conversation.Imported{}, err
		}
		return e.Import(context.Background(), sc, "anna", c)
	}
	t.Fatal("nothing to import")
	return conversation.Imported{}, nil
}

// same compares two exports, ignoring the conversations' ids.
func same(t errorer, a string, x id.ID, b string, y id.ID) {
	t.Helper()
	a, b = trusted(a), trusted(b)
	if a, b := strings.ReplaceAll(a, x.String(), "C"), strings.ReplaceAll(b, y.String(), "C"); a != b {
		la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
		for i := range min(len(la), len(lb)) {
			if la[i] != lb[i] {
				t.Fatalf("line %d differs:\n%s\n%s", i+1, la[i], lb[i])
			}
		}
		t.Fatalf("the exports have %d and %d lines", len(la), len(lb))
	}
}

// trusted removes the label untrusted from an export, since all imported content
// has it.
func trusted(text string) string {
	text = keptRest.ReplaceAllStringFunc(text, func(rest string) string {
		b, err := base64.StdEncoding.DecodeString(keptRest.FindStringSubmatch(rest)[1])
		if err != nil {
			return rest
		}
		return strings.NewReplacer(`"labels":2}`, `"labels":0}`, `"labels":3}`, `"labels":1}`, `"labels":6}`, `"labels":4}`).Replace(string(b))
	})
	return strings.NewReplacer(`,"labels":["untrusted"]`, "", `,"untrusted"]`, "]", `"untrusted",`, "").Replace(text)
}

// keptRest is the rest of a result in an export.
var keptRest = regexp.MustCompile(`"body":"([A-Za-z0-9+/=]*)"`)

// shownTo returns the model's view of a conversation, without its id.
func shownTo(t errorer, e *conversation.Engine, conv id.ID) string {
	t.Helper()
	s, err := e.Open(context.Background(), anna, conv)
	must(t, err)
	var b []byte
	for _, m := range s.Transcript().Messages() {
		b = append(message.Append(b, m), '\n')
	}
	return strings.ReplaceAll(trusted(string(b)), conv.String(), "C")
}

// author changes a conversation as people, models and tools do.
type author struct {
	t    *rapid.T
	e    *conversation.Engine
	db   store.Store
	conv id.ID
}

func (a *author) check(err error) {
	a.t.Helper()
	for _, code := range []string{"splits_call", "message_not_found", "branch_last", "conversation_empty", "branch_not_found"} {
		if fault.HasCode(err, code) {
			return // some draws are not possible
		}
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// pick draws a message of the preferred branch.
func (a *author) pick() id.ID {
	page, _, err := a.e.Messages(context.Background(), anna, a.conv, "", 1000, false)
	a.check(err)
	if len(page) == 0 {
		return id.ID{}
	}
	return page[rapid.IntRange(0, len(page)-1).Draw(a.t, "message")].ID
}

// turn runs a turn with some calls, whose results may contain secrets and exceed the
// size limit.
func (a *author) turn() {
	ctx := context.Background()
	s, err := a.e.Open(ctx, anna, a.conv)
	a.check(err)
	labels := rapid.SampledFrom([]message.Labels{0, 0, message.Untrusted, message.Private, message.Secret}).Draw(a.t, "labels")
	m := say(message.User, rapid.StringMatching(`[a-z ä"<]{1,20}`).Draw(a.t, "words"))
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: m,
		Run: record.Run{ID: id.New(), Agent: "assistant"}})
	_, err = commit(ctx)
	a.check(err)
	for range rapid.IntRange(0, 2).Draw(a.t, "rounds") {
		ask := &message.Message{ID: id.New(), Role: message.Assistant, Usage: message.Usage{Input: 5}, Blocks: []message.Block{
			&message.ToolCall{Common: message.Common{Labels: labels}, CallID: "c", Name: "a.b", Args: []byte(`{"x":1}`)}}}
		res := &message.ToolResult{Call: message.Ref{Message: ask.ID}, CallID: "c", Name: "a.b", Status: message.OK}
		body := &message.Text{Common: message.Common{Labels: labels}, Text: "result"}
		res.Content = []message.Block{body}
		if rapid.Bool().Draw(a.t, "long") {
			rest := s.MessageURI(ask.ID).Child("tool.Overflow", "0")
			res.Rest = rest.String()
			body.Text += " read on at " + res.Rest
			_, err := a.db.Commit(ctx, anna, store.Batch{Changes: []store.Change{{URI: rest, Body: fmt.Appendf(nil, "{\"tool\":\"a.b\",\"labels\":%d}\nthe rest", labels)}}})
			a.check(err)
		}
		_, err = s.Append(ctx, ask, &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
		a.check(err)
	}
	answer := say(message.Assistant, "done")
	answer.Final = true
	_, err = s.Finish(ctx, answer, "answered", "", nil)
	a.check(err)
}

func (a *author) act() {
	ctx := context.Background()
	switch rapid.IntRange(0, 9).Draw(a.t, "act") {
	case 0:
		_, err := a.e.Fork(ctx, anna, a.conv, conversation.Fork{Message: a.pick(), Before: rapid.Bool().Draw(a.t, "before"), Title: "another way"})
		a.check(err)
	case 1:
		branches, err := a.e.Branches(ctx, anna, a.conv)
		a.check(err)
		a.check(a.e.Switch(ctx, anna, a.conv, rapid.SampledFrom(branches).Draw(a.t, "branch").ID))
	case 2:
		state := rapid.SampledFrom([]record.Validity{record.Active, record.Invalidated, record.Archived, record.Deleted}).Draw(a.t, "state")
		a.check(second(a.e.Mark(ctx, anna, a.conv, conversation.Verdict{State: state, Reason: "because"}, a.pick())))
	case 3:
		a.check(a.e.Pin(ctx, anna, a.conv, rapid.Bool().Draw(a.t, "pin"), a.pick()))
	case 4:
		_, err := a.e.Remove(ctx, anna, a.conv, a.pick())
		a.check(err)
	case 5:
		m := say(message.User, "a remark")
		_, err := a.e.Insert(ctx, anna, a.conv, a.pick(), m)
		a.check(err)
	case 6:
		s, err := a.e.Open(ctx, anna, a.conv)
		a.check(err)
		if s.Head().Zero() {
			return
		}
		commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "fit"),
			Run: record.Run{ID: id.New(), Agent: "assistant"}})
		_, err = commit(ctx)
		a.check(err)
		_, err = s.Fit(ctx, conversation.Window{Tokens: 500, Count: func(*message.Message) int64 { return 50 }})
		a.check(err)
		_, err = s.Finish(ctx, nil, "stopped", "", nil)
		a.check(err)
	case 7:
		branches, err := a.e.Branches(ctx, anna, a.conv)
		a.check(err)
		a.check(a.e.DeleteBranch(ctx, anna, a.conv, rapid.SampledFrom(branches).Draw(a.t, "branch").ID))
	default:
		a.turn()
	}
}

// After any changes, exporting, importing and exporting a conversation again gives
// the same export and the same view.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	e, db := engine(t)
	rapid.Check(t, func(t *rapid.T) {
		s := create(e)
		a := &author{t: t, e: e, db: db, conv: s.Conversation().ID}
		commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: say(message.User, "begin"),
			Run: record.Run{ID: id.New(), Agent: "assistant"}})
		must(t, second(commit(context.Background())))
		must(t, second(s.Finish(context.Background(), nil, "stopped", "", nil)))
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			a.act()
		}
		first := export(t, e, a.conv)
		got, err := reimport(t, e, anna, first)
		must(t, err)
		again := got.Conversation.ID
		second := export(t, e, again)
		same(t, first, a.conv, second, again)
		if n := strings.Count(first, `,"message":{"`) - strings.Count(first, `"branch":"","pos":0`); got.Stored != n {
			t.Fatalf("%d messages are told, and %d stored", n, got.Stored)
		}
		if !strings.Contains(first, "[secret]") && !strings.Contains(first, `"deleted"`) && !deletions(t, e, a.conv) {
			if x, y := shownTo(t, e, a.conv), shownTo(t, e, again); x != y {
				t.Fatalf("a model is shown\n%s\nand of what was imported\n%s", x, y)
			}
		}
		third, err := reimport(t, e, anna, second)
		must(t, err)
		same(t, second, again, export(t, e, third.Conversation.ID), third.Conversation.ID)
		restored(t, conversation.New(db, conversation.Options{Key: func() ([]byte, error) { return []byte("key"), nil }}), a.conv)
	})
}

// restored checks that a signed export comes back with its labels.
func restored(t errorer, e *conversation.Engine, conv id.ID) {
	t.Helper()
	body := func(text string) string { return text[:strings.LastIndex(text, "\n\"mac\":")] }
	signed := regexp.MustCompile(`\n"signed":"[0-9a-f]*",`)
	text := export(t, e, conv)
	for got, err := range e.ImportAll(context.Background(), anna, "anna", strings.NewReader(text), importexport.Options{}) {
		must(t, err)
		x := got.Conversation.ID
		want := strings.ReplaceAll(signed.ReplaceAllString(body(text), ""), conv.String(), "C")
		again := strings.ReplaceAll(signed.ReplaceAllString(body(export(t, e, x)), ""), x.String(), "C")
		if want != again {
			t.Fatalf("exported\n%s\nand restored\n%s", want, again)
		}
	}
}

// deletions reports whether something of a conversation was deleted.
func deletions(t errorer, e *conversation.Engine, conv id.ID) bool {
	list, err := e.Audit(context.Background(), anna, conv, id.ID{}, "")
	must(t, err)
	for _, o := range list {
		if o.State == record.Deleted {
			return true
		}
	}
	return false
}
