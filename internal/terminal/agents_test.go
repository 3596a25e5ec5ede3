package terminal_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/server/websocket"
	"steward/internal/terminal"
)

// poets are agents that need no approval any more; err: they cannot be listed.
type poets struct {
	websocket.Agents
	err error
}

func (p poets) Listings() []catalog.Listing {
	return []catalog.Listing{{Path: "poet", Kind: catalog.KindAgent, Description: "rhymes\nmore", Status: catalog.Approved, Usable: true}}
}
func (p poets) List(context.Context) ([]catalog.Listing, error) { return p.Listings(), p.err }
func (poets) Changed() <-chan struct{}                          { return nil }

// newest returns the last used conversation.
func (n node) newest(t *testing.T) client.Conversation {
	t.Helper()
	list, err := n.Conversations(t.Context(), 1)
	if err != nil || len(list) == 0 {
		t.Fatalf("conversations: %v, %v", list, err)
	}
	return list[0]
}

func TestAgentsTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := nodeWith(t, poets{}, policy.Fixed{})
		s := start(t, options(n))
		s.wait("hello there")
		s.enter("one", "you said: one", "scripted/one")
		s.enter("/agents", "assistant", "answers unless you", "poet", "rhymes", "/agent NAME")
		s.enter("/agent pot", "did you mean /agent poet?")
		s.enter("/agent nobody at all", "there is no agent nobody at all")
		s.keys("/agent po\t")
		s.wait("poet")
		s.enter("", "from your next message on: poet")
		s.enter("two", "you said: two", "scripted/one")
		if c := n.newest(t); c.Agent != "poet" || c.Messages != 4 {
			t.Errorf("the conversation: %+v", c)
		}
		s.enter("/agents", "* poet")
		s.enter("/agent", "agent:", "› assistant", "poet")
		s.enter("assis", "from your next message on: assistant")
		s.quit()
	})
}

func TestAgentsThatCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, options(nodeWith(t, poets{err: fault.New(fault.Unavailable, "none_today", "no agents today")}, policy.Fixed{})))
		s.shows("hello there", "no agents today")
		s.enter("/agent poet", "no agents today")
		s.enter("/approve poet", "no agents today")
		s.quit()
	})
}

func TestPlainWithAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var out bytes.Buffer
		if err := terminal.Plain(t.Context(), terminal.Options{Client: n.Client, Agent: "poet"}, strings.NewReader("one\n"), &out, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if c := n.newest(t); c.Agent != "poet" || out.String() != "you said: one\n" {
			t.Errorf("%s's conversation: %s", c.Agent, out.String())
		}
	})
}
