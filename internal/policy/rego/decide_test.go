package rego

import (
	"strings"
	"testing"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/tool"
)

// The tools of the tests.
func clock() tool.Spec { return tool.Spec{Name: "time.now", Effect: tool.Query} }
func fetch() tool.Spec { return tool.Spec{Name: "web.fetch", Effect: tool.Query, Origin: "mcp:web"} }
func note() tool.Spec {
	return tool.Spec{Name: "state.put", Effect: tool.Action, Origin: tool.OriginOwn}
}
func send() tool.Spec {
	return tool.Spec{Name: "email.send", Effect: tool.Action, Origin: "domain:email", Targets: []string{"to"}}
}

const tainted = message.Private | message.Untrusted

// TestAlways: what is denied for its arguments, or since nothing allows it, may be allowed
// with others.
func TestAlways(t *testing.T) {
	text := `package steward

deny contains "outside" if {
	input.tool.name == "state.put"
	not safe
}

safe if startswith(input.args.path, "/safe")

deny contains "no mail" if {
	input.tool.name == "email.send"
	mine(input.user.name)
}

mine(who) if who == "ann"

deny contains "not there" if elsewhere

elsewhere if {
	input.tool.name == "web.fetch"
	not input.args.url
}
`
	j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": text})})
	for _, c := range []struct {
		q    policy.Question
		want bool
	}{
		{policy.Question{User: "ann", Tool: note(), Attended: true}, false},
		{policy.Question{User: "ann", Tool: fetch(), Attended: true}, false},
		{policy.Question{User: "ann", Tool: send(), Attended: true}, true},
		{policy.Question{User: "gus", Tool: fetch(), Attended: true}, true},
	} {
		if d := judged(t, j, c.q); d.Verdict != policy.Deny || d.Always != c.want {
			t.Errorf("%s of %s: %+v", c.q.Tool.Name, c.q.User, d)
		}
	}
}

// TestDefault has an example of each rule of the default bundle.
func TestDefault(t *testing.T) {
	fixed := policy.Flow{Fixed: true}
	open := policy.Flow{Open: []string{""}, Why: "it was decided late"}
	nobody := "is a program that cannot approve it"
	for _, c := range []struct {
		name string
		q    policy.Question
		want policy.Verdict
		why  string
		rule string
	}{
		{"query", policy.Question{User: "ann", Tool: clock()}, policy.Allow, "queries change nothing", "default/tools.rego:"},
		{"intent", policy.Question{Point: policy.PointIntent, User: "ann", Tool: send(), Attended: true}, policy.Ask, "email.send changes something", "default/tools.rego:"},
		{"action", policy.Question{User: "ann", Tool: send(), Attended: true, Flow: fixed}, policy.Ask, "email.send changes something", "default/tools.rego:"},
		{"unattended", policy.Question{User: "ann", Tool: send()}, policy.Ask, "email.send changes something", "default/tools.rego:"},
		{"service", policy.Question{User: "bot", Tool: send(), Attended: true}, policy.Deny, nobody, "default/tools.rego:"},
		{"service looks", policy.Question{User: "bot", Tool: clock()}, policy.Allow, "queries", "default/tools.rego:"},
		{"own notes", policy.Question{User: "ann", Tool: note()}, policy.Allow, "own notes", "default/tools.rego:"},
		{"no effect", policy.Question{User: "ann", Tool: tool.Spec{Name: "x.y"}, Attended: true}, policy.Deny, "neither", "default/tools.rego:"},
		{"odd effect", policy.Question{User: "ann", Tool: tool.Spec{Name: "x.y", Effect: "write"}, Attended: true}, policy.Deny, "neither", "default/tools.rego:"},
		{"leak", policy.Question{User: "ann", Tool: fetch(), Attended: true, Labels: tainted, Flow: open}, policy.Ask, "others wrote: it was decided late", "default/tools.rego:"},
		{"no leak when fixed", policy.Question{User: "ann", Tool: fetch(), Attended: true, Labels: tainted, Flow: fixed}, policy.Allow, "queries", ""},
		{"no leak here", policy.Question{User: "ann", Tool: clock(), Labels: tainted, Flow: open}, policy.Allow, "queries", ""},
		{"secret leak", policy.Question{User: "ann", Tool: fetch(), Attended: true, Labels: message.Secret | message.Untrusted, Flow: fixed}, policy.Ask, "secret", ""},
		{"secret leak of one's own idea", policy.Question{User: "ann", Tool: fetch(), Attended: true, Labels: message.Secret, Flow: fixed}, policy.Ask, "secret", ""},
		{"unknown label", policy.Question{User: "ann", Tool: fetch(), Attended: true, Labels: 1<<6 | message.Untrusted, Flow: fixed}, policy.Ask, "secret", ""},
		{"leaking action", policy.Question{User: "ann", Tool: send(), Attended: true, Labels: tainted, Flow: open}, policy.Ask, "email.send changes something; email.send could send out", ""},
		{"a program's leak", policy.Question{User: "bot", Attended: true, Tool: fetch(), Labels: tainted, Flow: open}, policy.Deny, nobody, ""},
		{"guest looks", policy.Question{User: "gus", Tool: clock()}, policy.Allow, "", ""},
		{"guest uses foreign tools", policy.Question{User: "gus", Tool: fetch()}, policy.Deny, "guests use nothing else", ""},
		{"guest acts", policy.Question{User: "gus", Tool: send(), Attended: true}, policy.Deny, "guests change nothing", ""},
		{"guest's notes", policy.Question{User: "gus", Tool: note(), Attended: true}, policy.Deny, "guests change nothing", ""},
		{"disabled", policy.Question{User: "ghost", Tool: clock()}, policy.Deny, "not let in any more", ""},
		{"own", accessTo("ann", policy.Delete, "home.Note", "user:ann"), policy.Allow, "your own", "default/access.rego:"},
		{"another's", accessTo("ann", policy.Read, "home.Note", "user:bob"), policy.Deny, "no rule allows it", ""},
		{"another's, as admin", accessTo("boss", policy.Read, "home.Note", "user:ann"), policy.Deny, "no rule allows it", ""},
		{"group's", accessTo("ann", policy.Write, "home.Note", "group:family"), policy.Allow, "member of the group", ""},
		{"another group's", accessTo("ann", policy.Read, "home.Note", "group:parents"), policy.Deny, "no rule allows it", ""},
		{"tools", accessTo("ann", policy.Read, "tool.Tool", resource.System), policy.Allow, "everybody", ""},
		{"tools, written", accessTo("ann", policy.Write, "tool.Tool", resource.System), policy.Deny, "no rule allows it", ""},
		{"keys", accessTo("ann", policy.Read, "identity.Key", resource.System), policy.Deny, "no rule allows it", ""},
		{"system, as admin", accessTo("boss", policy.Write, "home.Note", resource.System), policy.Allow, "administrator", ""},
		{"guest writes", accessTo("gus", policy.Write, "home.Note", "user:gus"), policy.Deny, "guests change nothing", ""},
		{"guest reads", accessTo("gus", policy.Read, "home.Note", "user:gus"), policy.Allow, "your own", ""},
		{"nobody's", accessTo("", policy.Read, "home.Note", "user:"), policy.Deny, "no rule allows it", ""},
		{"the machine's own user approves", policy.Question{Point: policy.PointAgent, User: "local"}, policy.Allow, "own user", "default/agents.rego:"},
		{"admin approves", policy.Question{Point: policy.PointAgent, User: "boss"}, policy.Deny, "", ""},
		{"member approves", policy.Question{Point: policy.PointAgent, User: "ann"}, policy.Deny, "no rule allows it", ""},
		{"delegation", policy.Question{Point: policy.PointDelegate, User: "ann", Target: "email"}, policy.Allow, "agents may ask", "default/agents.rego:"},
		{"cloud", asksModel(false, tainted), policy.Allow, "models may be asked", "default/models.rego:"},
		{"secret to the cloud", asksModel(false, message.Secret), policy.Deny, "what is secret stays here, and openai/gpt is a model in the cloud", "default/models.rego:"},
		{"secret at home", asksModel(true, message.Secret), policy.Allow, "", ""},
		{"no such point", policy.Question{Point: "everything", User: "boss"}, policy.Deny, "unknown decision point", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := opened(t, Options{})
			for range 2 { // the second time from the cache
				d := judged(t, j, c.q)
				if d.Verdict != c.want || !strings.Contains(d.Reason, c.why) || !strings.HasPrefix(d.Rule, c.rule) {
					t.Fatalf("%+v; want %s because %q by %q", d, c.want, c.why, c.rule)
				}
			}
		})
	}
}

func accessTo(user, action, typ string, space resource.Space) policy.Question {
	return policy.Question{Point: policy.PointAccess, User: user, Action: action, Resource: policy.Resource{Type: typ, Space: space}}
}

func asksModel(local bool, l message.Labels) policy.Question {
	return policy.Question{Point: policy.PointModel, User: "ann", Labels: l, Model: policy.Model{Provider: "openai", Name: "gpt", Local: local}}
}

// TestAsFixed compares the default bundle with policy.Fixed, on what Fixed knows:
// calls by members without untrusted data.
func TestAsFixed(t *testing.T) {
	j := opened(t, Options{Settings: map[string]any{"approve": "actions"}})
	for _, effect := range []tool.Effect{tool.Query, tool.Action, "", "write"} {
		for _, origin := range []string{"", tool.OriginOwn, "mcp:web", "domain:email"} {
			for _, attended := range []bool{false, true} {
				q := policy.Question{User: "ann", Attended: attended, Flow: policy.Flow{Fixed: true}, Tool: tool.Spec{Name: "files.write", Effect: effect, Origin: origin}}
				want, err := policy.Fixed{}.Authorize(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got := judged(t, j, q)
				if got.Verdict == policy.Ask && !attended { // as the effect engine treats it
					got.Verdict, got.Reason = policy.Deny, want.Reason
				}
				if got.Verdict != want.Verdict || got.Reason != want.Reason {
					t.Errorf("%q of %q, attended %v: %+v; want %+v", effect, origin, attended, got, want)
				}
			}
		}
	}
}

func TestUnfixed(t *testing.T) {
	j := opened(t, Options{Settings: map[string]any{"approve": "unfixed"}})
	q := policy.Question{User: "ann", Tool: send(), Flow: policy.Flow{Fixed: true}, Labels: tainted}
	if d := judged(t, j, q); d.Verdict != policy.Allow || d.Reason != "it is trusted" {
		t.Errorf("%+v", d)
	}
	q.Flow = policy.Flow{}
	q.Attended = true
	if d := judged(t, j, q); d.Verdict != policy.Ask {
		t.Errorf("%+v", d)
	}
	q.Flow.Fixed, q.Tool.Asks = true, true
	if d := judged(t, j, q); d.Verdict != policy.Ask {
		t.Errorf("%+v", d)
	}
	q.Tool.Asks, q.User = false, "gus"
	if d := judged(t, j, q); d.Verdict != policy.Deny {
		t.Errorf("%+v", d)
	}
}

// TestTrusted tests "trusted", the rule that users are meant to extend.
func TestTrusted(t *testing.T) {
	dir := folder(t, map[string]string{"house.rego": "package steward\n\ntrusted if input.tool.name == \"light.on\"\n"})
	j := opened(t, Options{Dir: dir})
	light := tool.Spec{Name: "light.on", Effect: tool.Action, Origin: "domain:home"}
	if d := judged(t, j, policy.Question{User: "ann", Tool: light}); d.Verdict != policy.Allow {
		t.Errorf("%+v", d)
	}
	if d := judged(t, j, policy.Question{User: "ann", Tool: send(), Attended: true}); d.Verdict != policy.Ask {
		t.Errorf("%+v", d)
	}
	// Even a trusted call is asked about if it could leak data.
	d := judged(t, j, policy.Question{User: "ann", Tool: light, Attended: true, Labels: tainted})
	if d.Verdict != policy.Ask || strings.Contains(d.Reason, "changes something") {
		t.Errorf("%+v", d)
	}
}
