package rego

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
)

// TestRefused checks that invalid policies are refused with the position of the fault.
func TestRefused(t *testing.T) {
	head := "package steward\n\n"
	for _, c := range []struct{ name, text, place, says string }{
		{"no package", "deny contains \"x\" if true\n", "house.rego:1", "package"},
		{"empty", "", "house.rego:1", "empty"},
		{"syntax", head + "deny contains \"x\" if {\n", "house.rego:", ""},
		{"version 0", head + "deny[\"x\"] { true }\n", "house.rego:3", "if"},
		{"plain deny", head + "deny if input.attended\n", "house.rego:3", "contains \"why\""},
		{"deny as a value", head + "deny := set()\n", "house.rego:3", "contains \"why\""},
		{"default allow", head + "default allow := true\n", "house.rego:3", "contains \"why\""},
		{"allow everything", head + "allow := {\"x\"}\n", "house.rego:3", "contains \"why\""},
		{"deny as a function", head + "deny(x) if x == 1\n", "house.rego:3", "contains \"why\""},
		{"deny below", head + "deny.x contains 1 if true\n", "house.rego:3", "contains \"why\""},
		{"another default", head + "default trusted := true\n", "house.rego:3", "default"},
		{"package over a rule", "package steward.deny\n\nx := 1\n", ":", "deny"},
		{"package over the twins", "package steward.steward__deny\n\nx := 1\n", ":", "steward__deny"},
		{"hidden name", head + "steward__deny contains [\"a\", \"b\"] if true\n", "house.rego:3", "are reserved"},
		{"settings", "package settings\n\napprove := \"unfixed\"\n", "", "settings"},
		{"network", head + "deny contains \"x\" if http.send({\"method\": \"get\", \"url\": \"http://x\"}).status_code == 200\n", "house.rego:3", "http.send"},
		{"names", head + "deny contains \"x\" if net.lookup_ip_addr(\"x\")\n", "house.rego:3", "net.lookup_ip_addr"},
		{"environment", head + "deny contains \"x\" if opa.runtime().env.HOME\n", "house.rego:3", "opa.runtime"},
		{"clock", head + "deny contains \"x\" if time.now_ns() > 0\n", "house.rego:3", "time.now_ns"},
		{"chance", head + "deny contains \"x\" if rand.intn(\"x\", 2) == 0\n", "house.rego:3", "rand.intn"},
		{"ids", head + "deny contains \"x\" if uuid.rfc4122(\"x\") == \"\"\n", "house.rego:3", "uuid"},
		{"itself", head + "deny contains \"x\" if rego.parse_module(\"x\", \"y\")\n", "house.rego:3", "rego.parse_module"},
		{"certificates", head + "deny contains \"x\" if crypto.x509.parse_certificates(\"x\")\n", "house.rego:3", "x509"},
		{"tokens", head + "deny contains \"x\" if io.jwt.decode(\"x\")\n", "house.rego:3", "io.jwt"},
		{"signing", head + "deny contains \"x\" if providers.aws.sign_req({}, {}, 1)\n", "house.rego:3", "providers"},
		{"unused", head + "deny contains \"x\" if {\n\tx := input.agent\n}\n", "house.rego:4", "unused"},
		{"recursion", head + "a if b\n\nb if a\n", "house.rego:", "recursive"},
		{"misspelt input", head + "deny contains \"x\" if input.tool.nme == \"a\"\n", "house.rego:3", "did you mean input.tool.name?"},
		{"misspelt top", head + "deny contains \"x\" if input.usr.name == \"a\"\n", "house.rego:3", "did you mean input.user.name?"},
		{"far off", head + "deny contains \"x\" if input.weather == \"a\"\n", "house.rego:3", "unknown field input.weather"},
		{"misspelt in else", head + "a := 1 if input.attended\n\nelse := 2 if input.atended\n", "house.rego:5", "input.attended"},
		{"unknown name", head + "deny contains \"x\" if input.agent == email\n", "house.rego:3", "unsafe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, map[string]string{"house.rego": c.text})
			j, err := Open(Options{Dir: dir})
			if err == nil {
				closed(t, j)
				t.Fatal("it was taken")
			}
			if !fault.HasCode(err, "policy_invalid") || fault.Of(err).Remedy == "" || !strings.Contains(err.Error(), c.place) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if _, again := Check(dir, nil); again == nil || again.Error() != err.Error() {
				t.Errorf("check says %v", again)
			}
		})
	}
}

func TestRefusedData(t *testing.T) {
	for _, text := range []string{`{`, `[]`, `null`, `{"settings": {"approve": "unfixed"}}`, `{"steward": {"trusted": true}}`} {
		if _, err := Open(Options{Dir: folder(t, map[string]string{"data.json": text})}); !fault.HasCode(err, "policy_invalid") || !strings.Contains(err.Error(), "data.json") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Open(Options{Dir: folder(t, map[string]string{"default/x.rego": "package steward\n"})}); !fault.HasCode(err, "policy_unreadable") {
		t.Error(err)
	}
	if _, err := Open(Options{Dir: folder(t, map[string]string{"big.rego": strings.Repeat("#", maxFile+1)})}); !fault.HasCode(err, "policy_unreadable") {
		t.Error(err)
	}
	if _, err := Open(Options{Dir: folder(t, map[string]string{"x.rego/y": ""}) + "/x.rego/y"}); !fault.HasCode(err, "policy_unreadable") {
		t.Error(err)
	}
}

// TestCannotWiden checks that a user's file cannot remove a reason of the default
// bundle to deny or to ask.
func TestCannotWiden(t *testing.T) {
	text := `package steward

allow contains "I say so" if true

mask contains "" if false

extra contains x if some x in deny
`
	j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": text, "tools.rego": "package steward\n\nquery if false\n"})})
	for _, q := range []policy.Question{
		{User: "gus", Tool: send(), Attended: true},
		asksModel(false, 4),
		{User: "bot", Tool: send(), Attended: true},
	} {
		if d := judged(t, j, q); d.Verdict != policy.Deny {
			t.Errorf("%+v: %+v", q, d)
		}
	}
	if d := judged(t, j, policy.Question{User: "ann", Tool: send(), Attended: true}); d.Verdict != policy.Ask {
		t.Errorf("%+v", d)
	}
	// A user's rule can allow what no rule forbids.
	if d := judged(t, j, policy.Question{Point: policy.PointAgent, User: "ann"}); d.Verdict != policy.Allow || d.Rule != "house.rego:3" {
		t.Errorf("%+v", d)
	}
}

// TestFailuresDeny checks that errors, conflicts and invalid obligations deny.
func TestFailuresDeny(t *testing.T) {
	for _, c := range []struct{ name, rules, says string }{
		{"builtin", `deny contains "x" if to_number(input.agent) > 3`, "to_number"},
		{"builtin in what allows", `allow contains "x" if to_number(input.agent) > 3`, "to_number"},
		{"division", `ask contains "x" if 1 / count(input.lineage) > 0`, "divide by zero"},
		{"another value", "query := false", "conflict"},
		{"conflict", "x := 1 if true\nx := 2 if input.agent == \"a\"\n\nask contains \"x\" if x == 1", "conflict"},
		{"cap", `cap contains -1 if true`, "cap is -1"},
		{"cap as text", `cap contains "many" if true`, "cap"},
		{"cap of parts", `cap := 1.5 if true`, "cap"},
		{"mask", `mask contains "body" if true`, "JSON pointer"},
		{"mask as number", `mask contains 3 if true`, "JSON pointer"},
		{"approvers", `approvers := 3 if true`, "group"},
		{"no approvers", `approvers := "" if true`, "group"},
		{"two groups", `approvers contains x if some x in ["a", "b"]`, "two groups"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": "package steward\n\n" + c.rules + "\n"})})
			for range 2 {
				d := judged(t, j, policy.Question{User: "ann", Agent: "a", Tool: clock()})
				if d.Verdict != policy.Deny || !strings.Contains(d.Reason, c.says) || !strings.Contains(d.Reason, "policy evaluation failed") {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

func TestArguments(t *testing.T) {
	j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": "package steward\n\ndeny contains \"not him\" if input.args.to == \"eve\"\n"})})
	for args, want := range map[string]string{
		`{"to":"eve"}`:            "not him",
		`{"to":"bob"}`:            "email.send changes something",
		`{"to":"bob","to":"eve"}`: "policy evaluation failed",
		`{"to": "bob"}`:           "policy evaluation failed", // not canonical: differs from what the executor would get
		`{"to":"b\u006fb"}`:       "policy evaluation failed",
		`{`:                       "policy evaluation failed",
		``:                        "email.send changes something",
	} {
		d := judged(t, j, policy.Question{User: "ann", Tool: send(), Attended: true, Args: []byte(args)})
		if !strings.Contains(d.Reason, want) {
			t.Errorf("%s: %+v; want %s", args, d, want)
		}
	}
}

// TestTimeout checks that a slow policy is stopped, and denies.
func TestTimeout(t *testing.T) {
	slow := `package steward

deny contains "much ado" if {
	some a in numbers.range(1, 3000)
	some b in numbers.range(1, 3000)
	a * b == -1
	input.agent != ""
}
`
	j := opened(t, Options{Dir: folder(t, map[string]string{"slow.rego": slow}), Timeout: 50 * time.Millisecond})
	q := policy.Question{User: "ann", Agent: "a", Tool: clock()}
	d := judged(t, j, q)
	if d.Verdict != policy.Deny || !strings.Contains(d.Reason, "did not decide within 50ms") {
		t.Errorf("%+v", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := j.Authorize(ctx, q)
	if err != nil || got.Verdict != policy.Deny {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := j.Explain(t.Context(), q); err != nil && !fault.HasCode(err, "policy_failed") {
		t.Error(err)
	}
}

// FuzzPolicy checks that any user's file is either refused or decides. It never
// panics and never removes a reason of the default bundle.
func FuzzPolicy(f *testing.F) {
	f.Add("trusted if input.tool.name == \"light.on\"")
	f.Add("deny contains \"x\" if { some x in ask; x != \"\" }")
	f.Add("allow contains x if { x := input.args[_] }")
	f.Add("guest if false\nquery if true")
	f.Add("mask contains \"/a\" if true\ncap := 3")
	f.Add("allow contains \"x\" if true with input.user.roles as [\"admin\"]")
	f.Add("default guest := true")
	f.Add("\x00\xff")
	f.Add("deny contains 1")
	f.Add("ask := {\"a\"} if false")
	f.Fuzz(func(t *testing.T, rules string) {
		if len(rules) > 1<<12 {
			return
		}
		src, err := readSources("")
		if err != nil {
			t.Fatal(err)
		}
		src.add("house.rego", []byte("package steward\n\n"+rules))
		p, err := compile(src, nil)
		if err != nil {
			if !fault.HasCode(err, "policy_invalid") {
				t.Fatal(err)
			}
			return
		}
		j := opened(t, Options{Timeout: 200 * time.Millisecond})
		j.now.Store(p)
		for _, q := range []policy.Question{
			{User: "gus", Tool: send(), Attended: true, Args: []byte(`{"a":1}`)},
			{User: "ann", Tool: send()},
			asksModel(false, 4),
		} {
			if d := judged(t, j, q); d.Verdict == policy.Allow && !strings.Contains(rules, "trusted") && !strings.Contains(rules, "own_notes") {
				t.Errorf("%q allows %+v: %+v", rules, q, d)
			}
		}
	})
}
