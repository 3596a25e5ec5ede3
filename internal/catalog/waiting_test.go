package catalog

import (
	"context"
	"testing"

	"steward/test/must"
)

func waits(c *Catalog) map[string]string {
	out := map[string]string{}
	for _, l := range Waiting(c.Listings()) {
		out[l.Path] = l.Question()
	}
	return out
}

func TestWhatWaits(t *testing.T) {
	w := newWorld(t)
	w.agent("desk", "mcp: {calendar: {}}\n")
	w.agent("desk/agents/mail", "")
	w.agent("desk/agents/mail/agents/filter", "")
	w.agent("other", "")
	w.write("broken/agent.yaml", "name: broken\nnonsense: 1\n")
	w.edge.offer("calendar", spec("calendar.add", "Adds."))
	c := w.open()
	first := waits(c)
	if len(first) != 4 || first["desk"] == "" || first["desk/mail/filter"] == "" || first["broken"] != "" {
		t.Fatalf("%v", first)
	}

	// An inspection starts the sources, and does not change the question.
	inspect(t, c, "desk")
	if now := waits(c); now["desk"] != first["desk"] {
		t.Errorf("%v", now)
	}
	approve(t, c, "desk")
	if now := waits(c); len(now) != 3 || now["desk"] != "" {
		t.Errorf("%v", now)
	}
	if told := VisibleToUsers(c.Listings()); len(told) != 1 || told[0].Path != "desk" || told[0].Hash != "" || told[0].Dir != "" || told[0].Tools != nil {
		t.Errorf("%+v", told)
	}

	// Nothing below a denied agent waits.
	must.Get(c.Deny(context.Background(), "local", "desk/mail", ""))
	if now := waits(c); len(now) != 1 || now["other"] != first["other"] {
		t.Errorf("%v", now)
	}

	// A changed byte or other tools change the question.
	w.agent("other", "version: 2.0.0\n")
	rescan(t, c)
	if now := waits(c); now["other"] == "" || now["other"] == first["other"] {
		t.Errorf("%v", now)
	}
	w.edge.offer("calendar", spec("calendar.add", "Adds."), spec("calendar.drop", "Drops."))
	w.edge.last("calendar").env.Changed()
	until(t, c, "desk waits again", func() bool { return waits(c)["desk"] != "" })
	if now := waits(c); now["desk"] == first["desk"] {
		t.Errorf("%v", now)
	}
}
