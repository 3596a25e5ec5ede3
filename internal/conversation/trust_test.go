package conversation_test

import (
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// A person's decision to trust a message removes the label from the view. The record
// says who decided, and nothing else changes.
func TestTrust(t *testing.T) {
	e, db := engine(t)
	s := create(e)
	conv := s.Conversation().ID
	m := say(message.User, "from somebody")
	m.Blocks[0].Base().Labels = message.Private | message.Untrusted
	commit := s.Begin(conversation.Opening{Request: id.New(), Interaction: id.New(), Origin: "user", Message: m, Run: record.Run{ID: id.New(), Agent: "assistant"}})
	must(t, second(commit(t.Context())))
	finish(t, s, "noted")
	opened := func() message.Labels {
		t.Helper()
		s, err := e.Open(t.Context(), anna, conv)
		must(t, err)
		return s.Labels()
	}
	if l := opened(); l != message.Private|message.Untrusted {
		t.Fatal(l)
	}
	sc := anna
	sc.Actor = "anna"
	for _, bad := range []message.Labels{0, message.Secret, message.Untrusted | message.Secret} {
		if err := e.Trust(t.Context(), sc, conv, bad, m.ID); !fault.HasCode(err, "label_stays") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := e.Trust(t.Context(), sc, conv, message.Untrusted, id.New()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a message that is not there: %v", err)
	}
	if err := e.Trust(t.Context(), store.ForUser("bert"), conv, message.Untrusted, m.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody else's: %v", err)
	}
	must(t, e.Trust(t.Context(), sc, conv, message.Untrusted, m.ID))
	if l := opened(); l != message.Private {
		t.Errorf("after the decision it is shown as %v", l)
	}
	got, err := e.Find(t.Context(), anna, conv, m.ID)
	if err != nil || !message.LabelsOf(got.Blocks).Has(message.Untrusted) {
		t.Errorf("the message itself: %+v, %v", got, err)
	}
	r, err := db.Get(t.Context(), anna, record.TrustURI(conv, m.ID))
	if err != nil || !strings.Contains(string(r.Body), `"by":"anna"`) || !strings.Contains(string(r.Body), `"untrusted"`) {
		t.Errorf("the record: %s, %v", r.Body, err)
	}
	page, err := db.Log(t.Context(), anna, store.LogQuery{Type: record.TypeTrust})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Actor != "anna" {
		t.Errorf("the log: %+v, %v", page.Entries, err)
	}
}
