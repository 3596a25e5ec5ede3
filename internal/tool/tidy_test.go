package tool_test

import (
	"context"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// plainTool is a tool with a spec only.
type plainTool struct{ spec tool.Spec }

func (p plainTool) Spec() tool.Spec { return p.spec }
func (p plainTool) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("done"), nil
}

type tidyTool struct{ plainTool }

func (tidyTool) Obsolete(context.Context, tool.PastCall, []tool.PastCall) ([]tool.Obsolete, error) {
	return nil, nil
}

func tidySpec(log tool.LogSpec, ss ...tool.Strategy) tool.Spec {
	return tool.Spec{Name: "files.read", Description: "Reads a file.", Effect: tool.Query, Tidy: ss, Log: log,
		Input: []byte(`{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}`)}
}

func TestCheckSpecTidy(t *testing.T) {
	for _, c := range []struct {
		code string // "": valid
		s    tool.Strategy
	}{
		{"", tool.Strategy{Kind: tool.ByParameters, Parameters: []string{"path", "limit"}}},
		{"", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.list"}}},
		{"", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.list"}, Parameters: []string{"path"}, Cascade: []string{"files.find"}}},
		{"", tool.Strategy{Kind: tool.ByAge, MaxAge: time.Minute}},
		{"", tool.Strategy{Kind: tool.Custom}},
		{"tool_tidy_invalid", tool.Strategy{}},
		{"tool_tidy_invalid", tool.Strategy{Kind: "magic"}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByParameters}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByParameters, Parameters: []string{"file"}}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByParameters, Parameters: []string{""}}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByTool}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files"}}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.list"}, Cascade: []string{"Files.Find"}}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.list"}, Parameters: []string{"file"}}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByAge}},
		{"tool_tidy_invalid", tool.Strategy{Kind: tool.ByAge, MaxAge: -time.Second}},
	} {
		good := tool.Strategy{Kind: tool.ByAge, MaxAge: time.Hour}
		_, _, err := tool.CheckSpec(tidySpec(tool.LogSpec{}, good, c.s))
		if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	// A schema that allows additional properties allows any parameter.
	open := tidySpec(tool.LogSpec{Summary: "Read {anything}"}, tool.Strategy{Kind: tool.ByParameters, Parameters: []string{"any"}})
	open.Input = []byte(`{"type":"object"}`)
	if _, _, err := tool.CheckSpec(open); err != nil {
		t.Error(err)
	}
}

func TestCheckSpecLog(t *testing.T) {
	for _, c := range []struct {
		good bool
		log  tool.LogSpec
	}{
		{true, tool.LogSpec{}},
		{true, tool.LogSpec{Summary: "Read a file"}},
		{true, tool.LogSpec{Summary: "Read {path}, {limit} lines", Parameters: []string{"path"}, Secret: []string{"limit"}, Impact: []string{"path"}}},
		{true, tool.LogSpec{Summary: "Read {path} for {limit:duration|long}"}},
		{false, tool.LogSpec{Summary: "Read {file:duration}"}},
		{false, tool.LogSpec{Summary: "Read {file}"}},
		{false, tool.LogSpec{Summary: "Read {}"}},
		{false, tool.LogSpec{Summary: "Read {path"}},
		{false, tool.LogSpec{Summary: "Read path}"}},
		{false, tool.LogSpec{Summary: "Read {path} and {path"}},
		{false, tool.LogSpec{Parameters: []string{"file"}}},
		{false, tool.LogSpec{Secret: []string{"password"}}},
		{false, tool.LogSpec{Impact: []string{"file"}}},
	} {
		_, _, err := tool.CheckSpec(tidySpec(c.log))
		if c.good && err != nil || !c.good && !fault.HasCode(err, "tool_log_invalid") {
			t.Errorf("%+v: %v", c.log, err)
		}
	}
}

// TestCustomNeedsAnOptimizer checks that only an Optimizer can have a custom strategy, also through the
// registry.
func TestCustomNeedsAnOptimizer(t *testing.T) {
	spec := tidySpec(tool.LogSpec{}, tool.Strategy{Kind: tool.Custom})
	var r tool.Registry
	if err := r.Add(plainTool{spec}); !fault.HasCode(err, "tool_tidy_invalid") {
		t.Errorf("a plain tool: %v", err)
	}
	must.Do(t, r.Add(tidyTool{plainTool{spec}}))
	got, _ := r.Get("files.read")
	if _, ok := tool.OptimizerOf(got); !ok {
		t.Error("the optimizer is not found through the registry")
	}
	if _, ok := tool.OptimizerOf(plainTool{spec}); ok {
		t.Error("a plain tool is an optimizer")
	}
}
