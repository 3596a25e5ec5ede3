package rego

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/tool"
	_ "steward/test/seed"
)

// anyQuestion draws questions from few values, so that they often match rules and
// hit the cache.
func anyQuestion() *rapid.Generator[policy.Question] {
	return rapid.Custom(func(t *rapid.T) policy.Question {
		pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
		yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
		q := policy.Question{
			Point: rapid.SampledFrom(policy.Points()).Draw(t, "point"),
			User:  pick("user", "boss", "ann", "kim", "gus", "bot", "zoe", ""), Agent: pick("agent", "", "assistant", "email", "email/filter"),
			Tool: tool.Spec{Name: pick("tool", "light.on", "email.send", "web.fetch", "conversation.search"), Effect: tool.Effect(pick("effect", "query", "action", "")),
				Origin: pick("origin", "", "own", "mcp:web"), Reach: tool.Reach(pick("reach", "", "here", "out")), Asks: yes("asks")},
			Labels: message.Labels(rapid.IntRange(0, 9).Draw(t, "labels")), Attended: yes("attended"),
			Flow: policy.Flow{Fixed: yes("fixed"), Why: pick("why", "", "late")}, Action: pick("action", "read", "write", "delete"),
			Resource: policy.Resource{Type: pick("type", "home.Note", "tool.Tool", "identity.Key"), Space: resource.Space(pick("space", "user:ann", "group:family", "system", ""))},
			Model:    policy.Model{Provider: pick("provider", "openai", "ollama"), Name: "m", Local: yes("local")}, Target: pick("target", "", "email"),
			Left: policy.Left{Tokens: rapid.IntRange(0, 2).Draw(t, "tokens"), Cost: float64(rapid.IntRange(0, 1).Draw(t, "cost"))},
			At:   time.Date(2026, 3, rapid.IntRange(1, 7).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), 5, 6, 0, time.UTC),
		}
		if yes("has args") {
			q.Args = []byte(`{"amount":` + pick("amount", "1", "200") + `,"to":"` + pick("to", "bob", "eve") + `"}`)
		}
		q.Lineage = rapid.SliceOfN(rapid.SampledFrom([]string{"assistant", "email"}), 0, 2).Draw(t, "lineage")
		return q
	})
}

// probing is a policy that reads nearly all fields, in many ways.
const probing = `package steward

import data.lists

pay if {
	call
	input.args.amount > lists.limit
}

deny contains "too much" if pay

ask contains sprintf("%v", [input.args.to]) if {
	call
	input.args.to in lists.strangers
}

deny contains "night" if {
	input.point in {"tool", "model"}
	input.time.hour >= 22
	input.time.weekday != "sunday"
}

deny contains "not by this agent" if {
	call
	input.tool.name == "email.send"
	startswith(input.agent, "email/")
}

deny contains "not for others" if {
	call
	input.tool.name == "light.on"
	some a in input.lineage
	a == "email"
}

trusted if {
	input.tool.name == "light.on"
	not odd
}

odd if {
	some k, v in input.labels
	v
	k == "untrusted"
}

near contains p if {
	some p in ["bob", "eve"]
	p == input.args.to
}

twice[x] := count([y | some y in near; y == x]) if some x in near

ask contains sprintf("%d for %s", [n, x]) if {
	call
	some x, n in twice
	every y in near {
		y != "bob"
	}
}

level := "high" if input.labels.secret

level := "low" if input.labels.private

deny contains "at a high level" if {
	input.point == "model"
	level == "high"
}

cap contains 10 if {
	call
	input.budget.tokens == 1
}

cap contains 20 if input.budget.cost > 0

approvers := "parents" if "children" in input.user.groups

mask contains concat("/", ["", f]) if {
	some f in ["a", "b"]
	input.target == "email"
}
`

func probed(t testing.TB) string {
	return folder(t, map[string]string{"probing.rego": probing, "data.json": `{"lists": {"limit": 100, "strangers": ["eve"]}}`})
}

// TestCachedIsUncached checks that a decision is the same from the cache, from the
// fields that a point's rules read, and from the whole input.
func TestCachedIsUncached(t *testing.T) {
	dirs := map[string]string{"default": "", "probing": probed(t)}
	for _, name := range []string{"family", "team", "locked"} {
		dirs[name] = t.TempDir()
		if _, err := Use(dirs[name], name, false); err != nil {
			t.Fatal(err)
		}
	}
	for name, dir := range dirs {
		for _, approve := range []string{"actions", "unfixed"} {
			t.Run(name+" "+approve, func(t *testing.T) {
				j := opened(t, Options{Dir: dir, Settings: map[string]any{"approve": approve}, Zone: func(string) *time.Location { return time.UTC }})
				p := j.now.Load()
				book := map[policy.Point]*point{} // with the whole input
				for at := range p.points {
					pt, err := p.point(at)
					if err != nil {
						t.Fatal(err)
					}
					pt.members = members(readsAll)
					book[at] = pt
				}
				allowed := 0
				rapid.Check(t, func(rt *rapid.T) {
					q := anyQuestion().Draw(rt, "question")
					want := j.byTheBook(rt, p, book[q.Point], q)
					for range 2 {
						got, err := j.Authorize(context.Background(), q)
						if err != nil || shape(got) != shape(want) {
							rt.Fatalf("%+v\n%+v, %v\nby the book %+v", q, got, err, want)
						}
					}
					if want.Verdict == policy.Allow {
						allowed++
					}
				})
				if allowed == 0 {
					t.Error("nothing was allowed")
				}
			})
		}
	}
}

// shape returns a decision in a form for comparison, without the wording of an
// error.
func shape(d policy.Decision) string {
	if why, _, failed := strings.Cut(d.Reason, "could not decide"); failed {
		d.Reason = why
	}
	return fmt.Sprintf("%+v", d)
}

// byTheBook decides without the cache, with the whole input, for each agent of the
// lineage.
func (j *Authorizer) byTheBook(t *rapid.T, p *program, at *point, q policy.Question) policy.Decision {
	one := func(agent string, lineage []string) policy.Decision {
		a := asked{Question: q, opt: &j.opt}
		a.Agent, a.Lineage = agent, lineage
		if err := a.identify(context.Background()); err != nil {
			t.Fatal(err)
		}
		d, err := j.evaluate(context.Background(), p, at, &a)
		if err != nil {
			d = p.undecided(err)
		}
		return d
	}
	d := one(q.Agent, q.Lineage)
	for i := len(q.Lineage) - 1; i >= 0 && d.Verdict != policy.Deny; i-- {
		before := d
		if other := one(q.Lineage[i], q.Lineage[:i]); shape(other) != shape(d) {
			d = policy.Stricter(before, other)
		}
	}
	a := asked{Question: q, opt: &j.opt}
	if err := a.identify(context.Background()); err != nil {
		t.Fatal(err)
	}
	return a.denyForService(d)
}

// TestReads checks which fields a point's rules can read. Only these are put into
// the input.
func TestReads(t *testing.T) {
	read := func(j *Authorizer, at policy.Point) []string {
		var out []string
		for _, m := range j.now.Load().points[at].members {
			out = append(out, table[m.index].path)
		}
		return out
	}
	j := opened(t, Options{Settings: map[string]any{"approve": "actions"}})
	for at, want := range map[policy.Point][]string{
		policy.PointAccess:   {"user.name", "user.roles", "user.groups", "action", "resource.type", "resource.owner"},
		policy.PointModel:    {"labels.private", "labels.untrusted", "labels.secret", "model.provider", "model.name", "model.local"},
		policy.PointAgent:    {"user.name", "user.roles"},
		policy.PointDelegate: nil,
		policy.PointTool: {"user.roles", "tool.name", "tool.effect", "tool.origin", "tool.out", "tool.asks",
			"labels.private", "labels.untrusted", "labels.secret", "flow.fixed", "flow.why", "flow.to", "flow.cleared", "flow.refused"},
	} {
		if got := read(j, at); !slices.Equal(got, want) {
			t.Errorf("%s reads %v, want %v", at, got, want)
		}
	}
	for rule, want := range map[string]string{
		`input.args.to == "bob"`:                             "args",
		`input.args[_] == "bob"`:                             "args",
		`x := "tool"; input[x].name == "bob"`:                "resource.uri", // everything
		`x := input; x.agent == "bob"`:                       "resource.uri",
		`walk(input, [_, v]); v == "bob"`:                    "resource.uri",
		`input.labels[input.agent]`:                          "agent",
		`some k; input.flow[k] == "bob"`:                     "flow.open",
		`helper == "bob"`:                                    "time.minute",
		`f("bob")`:                                           "budget.cost",
		`not input.attended`:                                 "attended",
		`count([x | some x in input.lineage]) > 0`:           "lineage",
		`every x in input.tool.targets { x != "bob" }`:       "tool.targets",
		`input.resource.metadata.purpose == "bob"`:           "resource.metadata",
		`{"a": input.tool.version}.a == "bob"`:               "tool.version",
		`[input.tool.async][0]`:                              "tool.async",
		`true with input.tool as {"name": input.model.name}`: "model.name",
		`large with input.point as "tool"`:                   "args",
	} {
		text := "package steward\n\nhelper := x if x := input.time.minute\n\nf(x) if input.budget.cost == x\n\n" +
			"large if { input.point == \"tool\"; input.args.amount > 100 }\n\ndeny contains \"it is so\" if { " + rule + " }\n"
		j := opened(t, Options{Dir: folder(t, map[string]string{"a.rego": text})})
		if got := read(j, policy.PointDelegate); !slices.Contains(got, want) {
			t.Errorf("%s reads %v, not %s", rule, got, want)
		}
	}
}

// TestInput checks that policies see exactly the listed fields.
func TestInput(t *testing.T) {
	q := policy.Question{Point: policy.PointTool, User: "kim", Agent: "email", Lineage: []string{"assistant"}, Action: "undo",
		Tool: tool.Spec{Name: "email.send", Effect: tool.Action, Origin: "domain:email", Targets: []string{"to"}, Yields: message.Private,
			Metadata: resource.Metadata{Purpose: "mail"}}, Args: []byte(`{"n":12345678901234567890,"to":["bob"]}`),
		Labels: message.Untrusted, Flow: policy.Flow{Open: []string{"/to"}, Why: "late"}, Attended: true,
		Model: policy.Model{Provider: "ollama", Name: "m", Local: true}, Target: "x", Left: policy.Left{Tokens: 7, Cost: 0.5},
		Resource: policy.Resource{Type: "home.Note", Space: "group:family", URI: resource.Root("home.Note", "a")},
		At:       time.Date(2026, 3, 1, 23, 59, 58, 0, time.UTC)}
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	j := opened(t, Options{Zone: func(user string) *time.Location {
		if user != "kim" {
			t.Errorf("the zone of %s", user)
		}
		return zone
	}})
	e, err := j.Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(e.Input, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"action":"undo","agent":"email","args":{"n":12345678901234567890,"to":["bob"]},"attended":true,"budget":{"cost":0.5,"tokens":7},` +
		`"flow":{"cleared":false,"fixed":false,"open":["/to"],"refused":false,"to":"","why":"late"},"labels":{"private":false,"secret":false,"untrusted":true},"lineage":["assistant"],` +
		`"model":{"local":true,"name":"m","provider":"ollama"},"point":"tool",` +
		`"resource":{"metadata":{"applicability":"","evaluation":"","instructions":"","purpose":""},"owner":{"kind":"group","name":"family"},"space":"group:family","type":"home.Note","uri":"cld:home.Note.a"},` +
		`"target":"x","time":{"date":"2026-03-02","hour":0,"minute":59,"rfc3339":"2026-03-02T00:59:58+01:00","weekday":"monday"},` +
		`"tool":{"asks":false,"async":false,"dedupes":false,"delivery":"inline","description":"","effect":"action","full_name":"email.send","metadata":{"applicability":"","evaluation":"","instructions":"","purpose":"mail"},` +
		`"name":"email.send","origin":"domain:email","out":true,"reach":"out","targets":["to"],"version":"","yields":{"private":true,"secret":false,"untrusted":false}},` +
		`"user":{"groups":["family","children"],"name":"kim","roles":["member"]}}`
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(got, wanted, func(x, y any) bool { return fmt.Sprint(x) == fmt.Sprint(y) }) {
		t.Errorf("%s\nwant %s", e.Input, want)
	}
	if !strings.Contains(string(e.Input), "12345678901234567890") {
		t.Error("a number has lost digits")
	}
	if n := len(Fields()); n != len(table)+1 || Fields()[0] != "point" {
		t.Error(n)
	}
}
