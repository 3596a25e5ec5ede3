package edge_test

import (
	"testing"

	"steward/test/edge"
)

// What "policy explain" says about a call is what happens to it. This also
// holds for a tool that asks each time, for another user's data, for a call
// that a standing approval covers, and where nobody is there to answer.
func TestWhatIsExplainedIsWhatHappens(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: calling(t)})
	n.Write("package steward\n\ntrusted if input.tool.name in {\"house.light\", \"house.door\"}\n", "data", "policies", "house.rego")
	n.Write("name: house\ndescription: Looks after the house.\ntools: [mail.*]\nprocess:\n  house:\n    command: ./house\n    tools:\n"+
		"      - {name: look, description: Looks., effect: query}\n      - {name: light, description: Lights., effect: action}\n"+
		"      - {name: heat, description: Heats., effect: action}\n      - {name: door, description: Opens., effect: action, asks: true}\n", "data", "agents", "house", "agent.yaml")
	n.Write(edge.Tool+"answer null\n", "data", "agents", "house", "house")
	n.Write("mail: {home: {address: me@example.com, imap: '127.0.0.1:1', password: x}}\n", ".config", "steward", "steward.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	people := map[string]*edge.Conn{"local": n.Dial(), "bob": newUser(n, "bob")}
	explained := func(tool, user string, more ...string) (verdict, rule string) {
		t.Helper()
		var out []struct{ Verdict, Rule string }
		if n.JSON(&out, append([]string{"policy", "explain", "--agent", "house", "--tool", tool, "--user", user}, more...)...); len(out) != 1 {
			t.Fatal(out)
		}
		return out[0].Verdict, out[0].Rule
	}
	check := func(tool, user, want string) {
		t.Helper()
		a := people[user].Turn(map[string]any{"content": tool, "agent": "house"}, func(edge.Approval) string { return "deny" })
		got := "allow"
		switch {
		case len(a.Asked) > 0:
			got = "ask"
		case len(a.Results) != 1:
			t.Fatalf("%s: %+v", tool, a)
		case a.Results[0].Status == "denied":
			got = "deny"
		}
		if told, rule := explained(tool, user); told != want || got != want {
			t.Errorf("%s of %s is explained as %s (%s) and becomes %s, want %s", tool, user, told, rule, got, want)
		}
	}
	check("house.look", "local", "allow")
	check("house.light", "local", "allow")
	check("house.heat", "local", "ask")
	check("house.door", "local", "ask") // trusted, but asks each time
	check("mail.search", "local", "allow")
	check("mail.search", "bob", "deny") // another user's mailbox
	if told, rule := explained("house.door", "local", "--alone"); told != "deny" || rule != "tool.asks" {
		t.Errorf("with nobody there: %s by %s", told, rule)
	}
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "house.heat", "agent": "house"})
	for {
		f := c.Read()
		if f.Approval != nil && f.Status == "awaiting_approval" {
			n.Must("approvals", "approve", f.Approval.ID, "--always", "--exactly", "--yes")
		}
		if f.Type == "complete" || f.Type == "error" {
			break
		}
	}
	check("house.heat", "local", "allow") // by the standing approval
	check("house.heat", "bob", "ask")
}
