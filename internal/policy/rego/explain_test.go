package rego

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/policy"
)

func TestExplain(t *testing.T) {
	text := `package steward

deny contains sprintf("not to %s", [to]) if {
	input.tool.name == "email.send"
	some to in {input.args.to}
	not friend(to)
}

friend(who) if who == "bob"

deny contains "never" if {
	input.point == "model"
}
`
	j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": text})})
	q := policy.Question{User: "ann", Tool: send(), Attended: true, Args: []byte(`{"to":"eve"}`)}
	e, err := j.Explain(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if d := judged(t, j, q); e.Verdict != d.Verdict || e.Reason != d.Reason || e.Rule != d.Rule || e.Version != d.Version || e.Verdict != policy.Deny {
		t.Errorf("%+v; judged %+v", e, d)
	}
	rule := func(e Explained, where string) RuleTrace {
		t.Helper()
		for _, r := range e.Rules {
			if r.Where == where {
				return r
			}
		}
		t.Fatalf("nothing of %s in %+v", where, e.Rules)
		return RuleTrace{}
	}
	if r := rule(e, "house.rego:3"); !r.Fired || strings.Join(r.Reasons, "") != "not to eve" || r.Verdict != policy.Deny {
		t.Errorf("%+v", r)
	}
	for _, r := range e.Rules {
		if r.Where == "house.rego:11" || strings.HasPrefix(r.Where, "default/models") {
			t.Errorf("%s is not about calls", r.Where)
		}
		if !r.Fired && (r.Failed == "" || r.FailedAt == "") {
			t.Errorf("%+v does not say what did not hold", r)
		}
	}
	q.Args = []byte(`{"to":"bob"}`)
	if e, err = j.Explain(t.Context(), q); err != nil || e.Verdict != policy.Ask {
		t.Fatalf("%+v, %v", e, err)
	}
	if r := rule(e, "house.rego:3"); r.Fired || r.Failed != "not friend(to)" || r.FailedAt != "house.rego:6" {
		t.Errorf("%+v", r)
	}
	q.Tool = clock()
	if e, err = j.Explain(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if r := rule(e, "house.rego:3"); r.Fired || r.Failed != `input.tool.name == "email.send"` || r.FailedAt != "house.rego:4" {
		t.Errorf("%+v", r)
	}
	if _, err := j.Explain(t.Context(), policy.Question{Point: "x"}); !fault.HasCode(err, "policy_point") {
		t.Error(err)
	}
	if _, err := j.Explain(t.Context(), policy.Question{User: "ghost", Tool: clock()}); !fault.HasCode(err, "user_disabled") {
		t.Error(err)
	}
	if _, err := j.Explain(t.Context(), policy.Question{User: "ann", Tool: send(), Args: []byte("{")}); err == nil {
		t.Error("arguments that are none are explained")
	}
}

func TestUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policies")
	read := func() string {
		b, err := os.ReadFile(filepath.Join(dir, TemplateFile))
		if err != nil {
			return ""
		}
		return string(b)
	}
	all, err := Templates()
	if err != nil || len(all) != 4 {
		t.Fatal(all, err)
	}
	versions := map[string]bool{}
	for _, x := range append(all, all...) {
		if x.About == "" {
			t.Errorf("%s is about nothing", x.Name)
		}
		file, err := Use(dir, x.Name, false)
		if err != nil || read() != x.Text || (file == "") != (x.Text == "") {
			t.Fatalf("%s: %s %v", x.Name, file, err)
		}
		c, err := Check(dir, map[string]any{"approve": "actions"})
		if err != nil || c.Version == "" || len(c.Files) < 5 || c.Tests != 0 {
			t.Fatalf("%d files of version %s, %v", len(c.Files), c.Version, err)
		}
		versions[c.Version] = true
	}
	if len(versions) != len(all) {
		t.Errorf("%d versions of %d templates", len(versions), len(all))
	}
	if _, err := Use(dir, "palace", false); !fault.HasCode(err, "template_unknown") {
		t.Error(err)
	}
	put(t, dir, TemplateFile, "package steward\n\nx := 1\n")
	if _, err := Use(dir, "team", false); !fault.HasCode(err, "policy_changed") {
		t.Error(err)
	}
	if _, err := Use(dir, "team", true); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, TemplateFile+".old")); err != nil || string(b) != "package steward\n\nx := 1\n" {
		t.Errorf("%s, %v", b, err)
	}
	if c, err := Check(filepath.Join(dir, "none"), nil); err != nil || c.Version == "" {
		t.Errorf("%+v, %v", c, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Use(filepath.Join(file, "x"), "team", false); !fault.HasCode(err, "policy_unreadable") {
		t.Error(err)
	}
}
