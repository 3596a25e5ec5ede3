package edge_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// request is a request as "steward requests list --json" prints it.
type request struct {
	ID, User, Kind, State, Status, Message string
	Conversation                           string `json:"conversation_id"`
}

func requests(n *edge.Node, args ...string) []request {
	n.T.Helper()
	var list []request
	n.JSON(&list, append([]string{"requests", "list"}, args...)...)
	return list
}

// hangs returns a reply that never ends.
func hangs(begun chan<- struct{}) edge.Reply {
	return edge.Reply{Raw: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case begun <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}}
}

// begin sends a message and returns without waiting for its turn.
func begin(n *edge.Node, text string) (conversation string) {
	c := n.Dial()
	defer c.Close()
	c.Send(map[string]any{"type": "message", "content": text})
	for {
		if f := c.Read(); f.Type == "accepted" {
			return f.Conversation
		}
	}
}

// last returns the text of a conversation's newest message.
func last(n *edge.Node, conversation string) string {
	var page struct {
		Messages []struct{ Blocks []struct{ Text string } }
	}
	n.Get("/api/v1/conversations/"+conversation+"/messages?limit=1&reverse=true", &page)
	if len(page.Messages) == 0 || len(page.Messages[0].Blocks) == 0 {
		return ""
	}
	return page.Messages[0].Blocks[0].Text
}

func without(env []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e, p) })
	})
}

// A start from a shell without the provider's key, whatever its purpose, ends
// no turn, cancels no question and lets no other model take over.
func TestAStartWithoutTheKeyKeepsOpenWork(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "notes/paid.txt", "content": "10"}}}}
		}
		return edge.Reply{Text: "It is written: " + in.Results()[0]}
	})})
	n.Write("folders:\n  - {name: notes, path: "+n.Dir+"/notes, write: true}\n", ".config", "steward", "steward.yaml")
	if err := os.MkdirAll(n.Dir+"/notes", 0o700); err != nil {
		t.Fatal(err)
	}
	n.Serve()
	conv := begin(n, "Pay 10.")
	waiting := func() (ids []string) {
		var list []struct {
			ID string `json:"intent_id"`
		}
		n.JSON(&list, "approvals", "list")
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return ids
	}
	n.Until("the question", func() bool { return len(waiting()) == 1 })
	n.Kill()

	env := n.Env
	n.Env = without(env, "OPENAI_")
	for _, args := range [][]string{{"resources", "list"}, {"policy", "show"}, {"policy", "explain", "files.write"}, {"requests", "list"},
		{"conversations", "list"}, {"log"}, {"doctor"}, {"models"}, {"agents", "list"}, {"intents", "list"}, {"approvals", "list"}, {"__complete", "conversations", "show", ""}} {
		n.Run(args...)
		if len(waiting()) != 1 {
			t.Fatalf("steward %v: the question is gone", args)
		}
	}
	n.Serve()
	if len(waiting()) != 1 {
		t.Fatal("steward serve: the question is gone")
	}
	n.Must("approvals", "approve", "--yes", waiting()[0])
	n.Until("the turn waits for its model", func() bool {
		list := requests(n)
		return len(list) == 1 && list[0].Status == "waiting for its model" && strings.Contains(list[0].Message, "OPENAI_API_KEY") && list[0].Conversation == conv
	})
	if b, err := os.ReadFile(n.Dir + "/notes/paid.txt"); err != nil || string(b) != "10" {
		t.Errorf("%s %v", b, err)
	}
	n.Stop()
	n.Env = env
	n.Serve()
	n.Until("the turn goes on", func() bool { return strings.HasPrefix(last(n, conv), "It is written: ") })
	n.Until("nothing waits", func() bool { return len(requests(n)) == 0 })
}

// A turn whose server is down at the start waits for the server and continues
// as soon as it is back.
func TestATurnGoesOnWhenItsServerIsBack(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	hang.Store(true)
	begun := make(chan struct{}, 1)
	script := edge.Script(t, func(in edge.Asked) edge.Reply {
		if hang.Load() {
			return hangs(begun)
		}
		return edge.Reply{Text: "Here I am."}
	})
	n := edge.Serve(t, edge.Options{Model: script})
	conv := begin(n, "Hello?")
	<-begun
	n.Kill()

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	n.Env = append(without(n.Env, "OPENAI_BASE_URL="), "OPENAI_BASE_URL=http://"+address+"/v1")
	n.Serve()
	c := n.Dial()
	c.Send(map[string]any{"type": "resume", "conversation_id": conv})
	for told := false; !told; {
		f := c.Read()
		told = f.Type == "notice" && strings.Contains(string(f.Raw), `"waiting":true`) && strings.Contains(f.Text, "cannot be reached")
	}
	c.Close()
	hang.Store(false)
	if ln, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(script)
	s.Listener.Close()
	s.Listener = ln
	s.Start()
	defer func() { s.CloseClientConnections(); s.Close() }()
	n.Until("the turn goes on", func() bool { return last(n, conv) == "Here I am." })
}

// A turn that was running at two crashes in a row is not resumed until somebody
// asks for it. An orderly stop does not count as a crash.
func TestATurnIsParkedAfterTwoCrashes(t *testing.T) {
	t.Parallel()
	var hang atomic.Bool
	hang.Store(true)
	begun := make(chan struct{}, 1)
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if hang.Load() {
			return hangs(begun)
		}
		return edge.Reply{Text: "Done at last."}
	})})
	conv := begin(n, "Take the node down.")
	other := begin(n, "Take the node down, too.")
	<-begun
	n.Kill()
	n.Serve()
	<-begun
	n.Stop() // an orderly stop resets the count
	n.Serve()
	<-begun
	n.Kill()
	n.Serve()
	<-begun
	n.Kill()
	n.Serve()
	parked := requests(n, "--all-users")
	if len(parked) != 2 || parked[0].Status != "parked" || parked[1].Status != "parked" || parked[0].User != "local" {
		t.Fatalf("%+v", parked)
	}
	// Each watcher is told, even one that comes back with the cursor at which
	// it was told before: its answer may have been lost in another crash.
	c, cursor := n.Dial(), ""
	for range 2 {
		c = n.Dial()
		c.Send(map[string]any{"type": "resume", "conversation_id": conv, "cursor": cursor})
		told := c.Read()
		for told.Type != "error" {
			told = c.Read()
		}
		if told.Code != "turn_parked" {
			t.Errorf("%s", told.Raw)
		}
		cursor = told.Cursor
	}
	if a := c.Turn(map[string]any{"conversation_id": conv, "content": "Well?"}, nil); a.Code != "turn_parked" {
		t.Errorf("%s: %s", a.Code, a.Text)
	}
	hang.Store(false)
	for _, r := range parked {
		if r.Conversation == other {
			n.Must("requests", "cancel", r.ID)
		} else {
			n.Must("requests", "resume", r.ID)
		}
	}
	n.Until("the resumed turn is answered", func() bool { return last(n, conv) == "Done at last." })
	if a := c.Turn(map[string]any{"conversation_id": other, "content": "And you?"}, nil); a.Text != "Done at last." {
		t.Errorf("after the cancelled turn: %s %s", a.Code, a.Text)
	}
	if list := requests(n); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
