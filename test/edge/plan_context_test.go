package edge_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
)

// carryOut returns a model that plans so, and works as the agents of the tasks.
func carryOut(t *testing.T, plan object, work func(in edge.Asked) edge.Reply) edge.Options {
	return edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case !strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			return work(in)
		case in.Rounds() == 0:
			return edge.Reply{Input: 5000, Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
		}
		return edge.Reply{Input: 5000, Text: "answer: " + strings.Join(in.Results(), " ")}
	})}
}

// TestATaskKnowsWhatItIsPartOf: a task is told the purposes of the tasks above it and the outputs of what they come after; it asks
// about the plan, and the answer has the labels of everything that it was made from.
func TestATaskKnowsWhatItIsPartOf(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	read := make(chan struct{})
	sim.offers(reads("look"), func(context.Context, *sdk.CallToolRequest) string { return "The hut costs 80." })
	plan := object{"purpose": "A trip to the mountains", "analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		{"name": "hut", "purpose": "Find a hut", "selected_tools": []string{"sim.look"}},
		{"name": "booking", "purpose": "Book everything", "after": []string{"hut"}, "subtasks": []object{{"name": "list", "purpose": "Write the list"}}},
		{"name": "tea", "purpose": "Set the timer", "selected_tools": []string{"timer.set"}},
	}}
	n := edge.New(t, carryOut(t, plan, func(in edge.Asked) edge.Reply {
		system, user := in.Messages[0].Text(), in.User()
		switch {
		case strings.HasPrefix(system, "You have divided a request"):
			if !inOrder(user, []string{"Find a hut", "hut: 80", "Set the timer", "What does the hut cost?"}) {
				t.Errorf("asked %s", user)
			}
			return edge.Reply{Text: "It costs 80."}
		case strings.HasPrefix(user, "Find a hut"):
			if in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: "sim.look", Args: object{}}}}
			}
			return edge.Reply{Text: "hut: 80"}
		case strings.HasPrefix(user, "Write the list"):
			if !inOrder(user, []string{"what this is a part of", "Book everything", "A trip to the mountains", "the output of the task hut", "hut: 80"}) {
				t.Errorf("the list is asked for with %s", user)
			}
			close(read)
			return edge.Reply{Text: "listed"}
		case in.Rounds() == 0:
			<-read
			return edge.Reply{Calls: []edge.Call{{Name: "plan.ask", Args: object{"question": "What does the hut cost?"}}}}
		case in.Rounds() == 1:
			if got := in.Results(); len(got) != 1 || !strings.Contains(got[0], "It costs 80.") {
				t.Errorf("%q", got)
			}
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 60, "name": "tea"}}}}
		}
		return edge.Reply{Text: "set"}
	}))
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	n.Must("agents", "approve", "mcp:sim", "--yes")
	n.Serve()
	c := n.Dial()
	defer c.Close()
	c.Send(map[string]any{"type": "message", "content": "Plan the trip", "agent": "planner"})
	var intents []struct {
		ID, State string
		Labels    []string
	}
	n.Until("the timer's intent", func() bool { n.JSON(&intents, "intents", "list"); return len(intents) == 1 })
	if !slices.Contains(intents[0].Labels, "untrusted") {
		t.Errorf("the answer about the plan loses labels: %+v", intents)
	}
	if intents[0].State == "awaiting_approval" {
		n.Must("intents", "approve", intents[0].ID)
	}
	n.Until("the record", func() bool { return strings.Contains(n.Run("plans", "list").Out, "done") })
}

// TestATaskGoesToTheAgentThatItIsFor: a task that names no agent is given to the one of the level that it is certainly for, unless policy
// does not let the user ask it, or it lacks a tool that the plan selected.
func TestATaskGoesToTheAgentThatItIsFor(t *testing.T) {
	t.Parallel()
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		{"name": "rain", "purpose": "Find out if it will rain in Graz tomorrow"},
		{"name": "alarm", "purpose": "Find out if it will rain in Linz tomorrow", "selected_tools": []string{"timer.set"}},
		{"name": "poem", "purpose": "Write a poem about cheese"},
	}}
	n := edge.New(t, carryOut(t, plan, func(edge.Asked) edge.Reply { return edge.Reply{Text: "did it"} }))
	n.Write(`name: weather_man
description: Tells what the weather will be, in any place.
capabilities: [weather, forecast, rain, snow, temperature]
examples: [{say: "Will it rain tomorrow in Vienna?"}, {say: "How cold is it in Graz?"}, {say: "Find out if there will be snow in Innsbruck"}, {say: "What is the weather in Linz?"}, {say: "Do I need an umbrella tomorrow?"}, {say: "Tell me the forecast for the weekend"}]
`, "data", "agents", "weather_man", "agent.yaml")
	n.Write("name: cook\ndescription: Knows recipes.\nexamples: [{say: How do I make a soup?}, {say: What can I cook with leeks?}]\n", "data", "agents", "cook", "agent.yaml")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	agents := func() string {
		t.Helper()
		n.Must("ask", "-q", "--agent", "planner", "Rain in Graz, and a poem")
		var p carriedOut
		n.JSON(&p, "plans", "show", "last")
		var out []string
		for _, x := range p.Tasks {
			out = append(out, x.Name+":"+x.Agent)
		}
		return strings.Join(out, " ")
	}
	if got := agents(); got != "rain:weather_man alarm: poem:" {
		t.Error(got)
	}
	n.Write("package steward\n\ndeny contains \"not for you\" if {\n\tinput.point == \"delegate\"\n\tinput.target == \"weather_man\"\n}\n", "data", "policies", "house.rego")
	n.Stop()
	n.Serve()
	if got := agents(); got != "rain: alarm: poem:" {
		t.Errorf("with the policy: %s", got)
	}
}

// TestATaskReadsALongOutputToItsEnd: a task is given the beginning of what another one brought, and reads on to the end. It reads
// nothing of other plans.
func TestATaskReadsALongOutputToItsEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("die Hütte ist schön, ", 1500) + "and costs 80."
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		{"name": "look", "purpose": "Look around"}, {"name": "sum", "purpose": "Sum up", "after": []string{"look"}}}}
	at := regexp.MustCompile(`beginning of \d+ bytes. If you have the tool plan.read, read on with it: task "([^"]+)", offset (\d+)`)
	var mu sync.Mutex
	var other string
	n := edge.New(t, carryOut(t, plan, func(in edge.Asked) edge.Reply {
		mu.Lock()
		defer mu.Unlock()
		given := at.FindStringSubmatch(in.User())
		read := func(task string, offset int) edge.Reply {
			return edge.Reply{Calls: []edge.Call{{Name: "plan.read", Args: object{"task": task, "offset": offset}}}}
		}
		switch {
		case strings.HasPrefix(in.User(), "Look around"):
			return edge.Reply{Text: long}
		case given == nil:
			t.Errorf("asked %s", in.User())
			return edge.Reply{Text: "?"}
		case in.Rounds() == 0 && other != "":
			return read(other, 0)
		case in.Rounds() > 0 && strings.Contains(in.Results()[0], "the plan has no task"):
			return edge.Reply{Text: "refused"}
		}
		offset, err := strconv.Atoi(given[2])
		if err != nil {
			t.Error(err)
		}
		if in.Rounds() > 0 {
			part := in.Results()[0]
			text, ends, _ := strings.Cut(part, "\n[Bytes ")
			var from, to, all int
			if _, err := fmt.Sscanf(ends, "%d to %d of %d", &from, &to, &all); err != nil || long[from:to] != text || all != len(long) {
				t.Errorf("%v: %.200s", err, part)
			}
			if offset = to; to == all {
				other = given[1]
				return edge.Reply{Text: "summed up after " + strconv.Itoa(in.Rounds())}
			}
		}
		return read(given[1], offset)
	}))
	n.Serve()
	if out := n.Must("ask", "-q", "--agent", "planner", "Look and sum up"); !strings.Contains(out, "summed up after 2") {
		t.Error(out)
	}
	if out := n.Must("ask", "-q", "--agent", "planner", "Look and sum up"); !strings.Contains(out, "refused") {
		t.Error(out)
	}
}
