package rego

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/tool"
)

func TestATrialChangesNothing(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close() //nolint:errcheck // it returns none
	const rule = "package steward\n\ndeny contains \"no mail\" if {\n\tinput.point == \"tool\"\n\tinput.tool.name == \"mail.list\"\n}\n"
	x, err := j.Explain(t.Context(), policy.Question{Point: policy.PointTool, User: "local", Attended: true, Tool: tool.Spec{Name: "mail.list", Effect: tool.Query}})
	if err != nil {
		t.Fatal(err)
	}
	trial, err := j.Try("house.rego", rule)
	if err != nil {
		t.Fatal(err)
	}
	now, then, err := trial.Decide(policy.PointTool, x.Input)
	if err != nil || now.Verdict != x.Verdict || then.Verdict != policy.Deny || then.Reason != "no mail" {
		t.Errorf("%v %+v %+v", err, now, then)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Error("a trial has written a file")
	}
	for _, name := range []string{"../x.rego", "default/tools.rego", "a.json", ".rego", ""} {
		if err := j.Write(t.Context(), name, rule); !fault.HasCode(err, "policy_file_invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := j.Write(t.Context(), "house.rego", "package steward\ndeny {"); !fault.HasCode(err, "policy_invalid") {
		t.Error(err)
	}
	if err := j.Write(t.Context(), "house.rego", rule); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "house.rego")); err != nil || string(b) != rule {
		t.Errorf("%v %s", err, b)
	}
}
