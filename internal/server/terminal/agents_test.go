package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"steward/internal/record"
	"steward/internal/server/terminal"
)

func (n node) agents(ctx context.Context) ([]terminal.AgentLine, error) {
	var out []terminal.AgentLine
	for _, a := range n.Node.Agents(ctx) {
		out = append(out, terminal.AgentLine{Path: a.Path, Description: a.Description + "\nmore"})
	}
	return out, nil
}

// newest returns the conversation that was used last.
func (n node) newest(t *testing.T) record.Conversation {
	t.Helper()
	list, _, err := n.Conversations(t.Context(), "", 1)
	if err != nil || len(list) == 0 {
		t.Fatalf("conversations: %v, %v", list, err)
	}
	return list[0]
}

func TestAgentsTakeOver(t *testing.T) {
	n := newNode(t)
	s := start(t, options(n))
	s.wait("hello there")
	s.keys("one\r")
	s.wait("you said: one", "scripted/one")
	s.keys("/agents\r")
	s.wait("assistant", "answers when no other", "poet", "/agent NAME")
	s.keys("/agent pot\r")
	s.wait("did you mean /agent poet?")
	s.keys("/agent nobody at all\r")
	s.wait("there is no agent nobody at all")
	s.keys("/agent po\t")
	s.wait("poet")
	s.keys("\r")
	s.wait("from your next message on: poet")
	s.keys("two\r")
	s.wait("you said: two", "scripted/one")
	if c := n.newest(t); c.Agent != "poet" || c.Messages != 4 {
		t.Errorf("the conversation: %+v", c)
	}
	s.keys("/agents\r")
	s.wait("* poet")
	s.keys("/quit\r")
	s.end()
}

func TestAnAgentFromTheBeginning(t *testing.T) {
	n := newNode(t)
	o := options(n)
	o.Agent, o.Agents = "poet", nil
	s := start(t, o)
	s.wait("hello there")
	s.keys("one\r")
	s.wait("you said: one", "scripted/one")
	if c := n.newest(t); c.Agent != "poet" {
		t.Errorf("the conversation is %q's", c.Agent)
	}
	s.keys("/agents\r")
	s.wait("cannot be listed here")
	s.keys("/agent assistant\r")
	s.wait("from your next message on: assistant")
	s.keys("two\r")
	s.wait("you said: two", "scripted/one")
	if c := n.newest(t); c.Agent != "assistant" {
		t.Errorf("the conversation is %q's", c.Agent)
	}
	s.keys("/quit\r")
	s.end()
}

func TestAgentsThatCannotBeHad(t *testing.T) {
	n := newNode(t)
	o := options(n)
	o.Agents = func(context.Context) ([]terminal.AgentLine, error) { return nil, errors.New("no agents today") }
	s := start(t, o)
	s.wait("hello there")
	s.keys("/agent poet\r")
	s.wait("no agents today")
	s.keys("/quit\r")
	s.end()
}

func TestPlainWithAnAgent(t *testing.T) {
	n := newNode(t)
	var out bytes.Buffer
	if err := terminal.Plain(t.Context(), terminal.Options{Node: n, Shelf: n, Agent: "poet"}, strings.NewReader("one\n"), &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if c := n.newest(t); c.Agent != "poet" || out.String() != "you said: one\n" {
		t.Errorf("%s's conversation: %s", c.Agent, out.String())
	}
}
