package tool

import (
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
)

func TestFit(t *testing.T) {
	if name, full := QualifiedName("sim", "look"); name != "sim.look" || full != "" {
		t.Errorf("%s %s", name, full)
	}
	seen := map[string]bool{}
	for _, category := range []string{"s", strings.Repeat("s", 40)} {
		for _, end := range []string{"", "a", "b", "_c.d"} {
			word := strings.Repeat("very_long_", 20) + "x" + end
			name, full := QualifiedName(category, word)
			again, _ := QualifiedName(category, word)
			if name != again || seen[name] || full != category+"."+word || checkName(name) != nil {
				t.Errorf("%s (%v): %s, again %s", word, checkName(name), name, again)
			}
			seen[name] = true
		}
	}
}

func TestMatched(t *testing.T) {
	m := map[string]int{"*": 1, "sim.*": 2, "sim.read_*": 3, "sim.read_all": 4, "pay": 5}
	for names, want := range map[string]int{"other": 1, "sim.look": 2, "sim.read_one": 3, "sim.read_all": 4, "sim.pay pay": 5} {
		if _, got, ok := BestMatch(m, strings.Fields(names)...); got != want || !ok {
			t.Errorf("%s: %d, want %d", names, got, want)
		}
	}
	if key, _, ok := BestMatch(map[string]int{"a*": 1}, "b"); ok || key != "" {
		t.Error("what matches nothing was matched")
	}
}

func TestDeclaredLog(t *testing.T) {
	o := Overrides{Log: map[string]LogDecl{"work*": {Summary: "Work on {n}", Impact: []string{"n"}, Secret: []string{"key"}}}}
	s := Spec{Name: "srv.work", Description: "It works.", Effect: Action, Origin: "mcp:srv",
		Input: []byte(`{"type":"object","properties":{"n":{"type":"integer"},"key":{"type":"string"}}}`)}
	before := Fingerprint(s)
	if err := o.Apply(&s, Env{}, nil, false, "work"); err != nil || s.Log.Summary != "Work on {n}" || s.Log.Impact[0] != "n" || s.Log.Secret[0] != "key" {
		t.Errorf("%+v, %v", s.Log, err)
	}
	if Fingerprint(s) == before {
		t.Error("an approval does not cover the words")
	}
	if _, _, err := CheckSpec(s); err != nil {
		t.Error(err)
	}
	s.Log.Impact = []string{"m"}
	if _, _, err := CheckSpec(s); !fault.HasCode(err, "tool_log_invalid") {
		t.Error(err)
	}
	for _, bad := range []string{strings.Repeat("x", maxSummary+1), "two\nlines", "un\u200bseen"} {
		if _, err := (LogDecl{Summary: bad}).Spec(); !fault.HasCode(err, "tool_log_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestDeclaredTidy(t *testing.T) {
	got, err := DeclaredTidy("notes", []StrategyDecl{
		{By: "parameters", Parameters: []string{"path"}, Cascade: []string{"list"}},
		{By: "tools", Tools: []string{"read", "files.read"}}, {By: "age", MaxAge: "10m"},
	}, false)
	if err != nil || len(got) != 3 || got[0].Cascade[0] != "notes.list" || strings.Join(got[1].Tools, " ") != "notes.read files.read" || got[2].MaxAge != 10*time.Minute {
		t.Errorf("%+v %v", got, err)
	}
	for i, want := range []string{"earlier results of its own calls with the same path, and with them results of notes.list",
		"earlier results of notes.read, files.read", "its results that are older than 10m0s"} {
		if got[i].Description() != want {
			t.Errorf("%s", got[i].Description())
		}
	}
	for name, d := range map[string]StrategyDecl{"custom": {By: "custom"}, "no duration": {By: "age", MaxAge: "soon"}, "another source": {By: "tools", Tools: []string{"mail.read"}}} {
		if _, err := DeclaredTidy("notes", []StrategyDecl{d}, true); !fault.HasCode(err, "tool_tidy_invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DeclaredTidy("notes", make([]StrategyDecl, maxStrategies+1), true); err == nil {
		t.Error("any number of strategies is taken")
	}
}
