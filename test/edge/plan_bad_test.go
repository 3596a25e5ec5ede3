package edge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// TestBadPlansAreRefusedInWords: a plan that does not hold is capped, or refused with a reason that says what to do, and
// nothing of it is begun.
func TestBadPlansAreRefusedInWords(t *testing.T) {
	t.Parallel()
	const head = `{"analysis":"a","plan":"p","confidence":1,`
	list := func(n int, each string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+each, i)
		}
		return "[" + b.String()[1:] + "]"
	}
	deep := `{"name":"leaf","purpose":"x"}`
	for i := range 50 {
		deep = fmt.Sprintf(`{"name":"t%d","purpose":"x","subtasks":[%s]}`, i, deep)
	}
	hundred := list(50, `{"name":"t%d","purpose":"x"}`)
	bad := map[string]struct{ plan, want string }{
		"an unknown tool":    {head + `"selected_tools":["timer.sett"]}`, `unknown_tool: in request, there is no tool "timer.sett" (did you mean timer.set`},
		"an unknown agent":   {head + `"subtasks":[{"name":"a","purpose":"x","assistant":"boss"}]}`, `there is no agent "boss"; leave assistant out`},
		"forty tools":        {head + `"selected_tools":` + list(40, `"t%d"`) + `}`, "it selects 40 tools, and 15 are the most: choose"},
		"a hundred tools":    {head + `"selected_tools":` + list(100, `"t%d"`) + `}`, "selected_tools"},
		"a cycle":            {head + `"subtasks":[{"name":"a","purpose":"x","after":["b"]},{"name":"b","purpose":"x","after":["a"]}]}`, "none of these can begin, because they wait for each other: a, b; remove one of the names in after"},
		"fifty levels":       {head + `"subtasks":[` + deep + `]}`, "tasks are nested more than 8 levels deep: put its steps into the task above"},
		"ten thousand tasks": {head + `"subtasks":` + list(10_000, `{"name":"t%d","purpose":"x"}`) + `}`, "50"},
		"a tree of 2,550":    {head + `"subtasks":` + list(50, `{"name":"t%d","purpose":"x","subtasks":`+strings.ReplaceAll(hundred, "%", "%%")+`}`) + `}`, "the plan has more than 200 tasks: divide it into fewer"},
		"no JSON":            {head + `"subtasks":[`, "JSON"},
		"an unknown member":  {head + `"steps":["x"]}`, "steps"},
		"no purpose":         {head[:len(head)-1] + `,"subtasks":[{"name":"a","purpose":" "}]}`, "purpose and instructions are both missing"},
		"the planner's tool": {head + `"selected_tools":["plan.start"]}`, `there is no tool "plan.start"`},
	}
	var mu sync.Mutex
	told := map[string]string{}
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		b, known := bad[in.User()]
		switch {
		case !known:
			t.Errorf("something was begun: %.500s", in.User())
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: b.plan}}}
		case in.Rounds() == 1:
			mu.Lock()
			told[in.User()] = in.Results()[0]
			mu.Unlock()
		}
		return edge.Reply{Text: "It cannot be planned."}
	})})
	c := n.Dial()
	defer c.Close()
	for name, b := range bad {
		a := c.Turn(map[string]any{"content": name, "agent": "planner"}, nil)
		got := told[name]
		if !strings.Contains(got, b.want) || len(got) > 3000 || a.Text != "It cannot be planned." || len(a.Asked) > 0 {
			t.Errorf("%s: %.3000s\n%+v", name, got, a.Text)
		}
		t.Logf("%s: %s", name, got)
	}
}

// TestAPlanHasNoMoreThanItIsGiven: a plan without tools is worked on without any, more model calls than there are get capped,
// a tool that policy denies stays denied, and a tree whose first task has spent its budget ends with what is missing named.
func TestAPlanHasNoMoreThanItIsGiven(t *testing.T) {
	t.Parallel()
	plans := map[string]string{
		"no tools":  `{"analysis":"a","plan":"p","confidence":1,"purpose":"Think","max_iterations":900}`,
		"denied":    `{"analysis":"a","plan":"p","confidence":1,"purpose":"Write","selected_tools":["files.write"]}`,
		"expensive": `{"analysis":"a","plan":"p","confidence":1,"max_tokens":20000,"subtasks":[{"name":"talk","purpose":"Talk"},{"name":"more","purpose":"Say more","after":["talk"]}]}`,
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		purpose, _, _ := strings.Cut(in.User(), "\n")
		switch {
		case plans[purpose] != "" && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plans[purpose]}}}
		case strings.Contains(in.Messages[0].Text(), "You judge"):
			return edge.Reply{Text: `{"achieved":false,"reasons":"half of it is missing"}`}
		case purpose == "Think":
			if len(in.Tools) > 2 || !strings.Contains(in.Messages[0].Text(), "You have 15 steps.") {
				t.Errorf("%d tools: %s", len(in.Tools), in.Messages[0].Text())
			}
		case purpose == "Write" && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: object{"path": "workspace/a.txt", "content": "x"}}}}
		case purpose == "Talk":
			return edge.Reply{Text: strings.Repeat("so it goes on ", 10_000)}
		case purpose == "Say more":
			t.Error("there was nothing left to say more")
		}
		return edge.Reply{Text: "Said: " + strings.Join(in.Results(), "\n")}
	})})
	n.Write("package steward\n\ndeny contains \"no files here\" if input.tool.name == \"files.write\"\n", "data", "policies", "house.rego")
	n.Serve()
	c := n.Dial()
	defer c.Close()
	for name, want := range map[string][]string{"no tools": {"Said:"}, "denied": {"permission_denied: in request, this user may not use the tool \"files.write\": plan without it"}, "expensive": {"talk: done", "more: failed", "the agent of this task has reached a limit", "does not cover this call", "of 20000 tokens are spent"}} {
		a := c.Turn(map[string]any{"content": name, "agent": "planner"}, nil)
		for _, w := range want {
			if !strings.Contains(a.Text, w) || len(a.Asked) > 0 {
				t.Errorf("%s lacks %q: %.2000s", name, w, a.Text)
			}
		}
	}
	var all []json.RawMessage
	if n.JSON(&all, "approvals", "list"); len(all) > 0 {
		t.Errorf("%s", all)
	}
}
