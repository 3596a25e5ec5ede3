package edge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"steward/test/edge"
)

// remoteNotes starts a gRPC server that answers each call with a note. It
// returns the server's address and a .proto file whose methods declare what
// they make obsolete.
func remoteNotes(t *testing.T) (address, proto string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.String("noted far away"))
	}))
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(s.Stop)
	return l.Addr().String(), `syntax = "proto3";
package memos;
import "steward/options.proto";
message Note { string path = 1; }
service Notes {
  rpc Read(Note) returns (Note) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Write(Note) returns (Note) { option (steward.tidy) = {by: "tools" tools: "read" parameters: "path"}; }
}
`
}

// notebook serves a node with a user's own tools: a program, an MCP server and
// a gRPC service. Each declares what its calls make obsolete. The model calls
// the tools that the user names, one after the other.
func notebook(t *testing.T) (*edge.Node, *edge.Conn) {
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		calls := strings.Fields(in.User())
		if in.Rounds() < len(calls) && strings.Contains(calls[0], ".") {
			return edge.Reply{Calls: []edge.Call{{Name: calls[in.Rounds()], Args: map[string]any{"path": "a"}}}}
		}
		return edge.Reply{Text: "done"}
	})})
	sim := newSimulator(t)
	path := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	look := reads("look")
	look.InputSchema, look.Meta = path, sdk.Meta{"steward/tidy": []any{map[string]any{"by": "parameters", "parameters": []string{"path"}}}}
	sim.offers(look, func(context.Context, *sdk.CallToolRequest) string { return "seen" })
	address, proto := remoteNotes(t)
	n.Write(proto, "data", "agents", "memos", "tools", "memos.proto")
	n.Write(fmt.Sprintf(`name: memos
description: Keeps memos.
mcp: {sim: {url: %q}}
grpc: {far: {host: %q, services: [memos.Notes]}}
process:
  memos:
    command: ./memos
    tools:
      - {name: read, description: Reads., effect: query, input: {type: object, properties: {path: {type: string}}}}
      - {name: list, description: Lists., effect: query, input: {type: object, properties: {path: {type: string}}}}
      - name: write
        description: Writes.
        input: {type: object, properties: {path: {type: string}}}
        tidy: [{by: tools, tools: [read], parameters: [path], cascade: [list]}]
`, sim.url, address), "data", "agents", "memos", "agent.yaml")
	n.Write(edge.Tool+`answer '"noted"'`, "data", "agents", "memos", "memos")
	shown := n.Must("agents", "approve", "--all", "--yes")
	for _, want := range []string{"earlier results of memos.read with the same path, and with them results of memos.list",
		"earlier results of far.read with the same path", "earlier results of its own calls with the same path"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the approval does not show %q:\n%s", want, shown)
		}
	}
	n.Serve()
	return n, n.Dial()
}

// kept is a message as the API returns it.
type kept struct {
	ID, State, Role string
	Interaction     string `json:"interaction_id"`
	Blocks          []struct{ Name, Text string }
}

// messages returns all messages of a conversation.
func messages(n *edge.Node, conv string) []kept {
	n.T.Helper()
	var out struct{ Messages []kept }
	n.Get("/api/v1/conversations/"+conv+"/messages?limit=200", &out)
	return out.Messages
}

// stale returns the names of the tools whose results are obsolete, in order.
func stale(n *edge.Node, conv string) string {
	n.T.Helper()
	var out []string
	for _, m := range messages(n, conv) {
		if m.Role == "tool" && m.State == "invalidated" {
			out = append(out, m.Blocks[0].Name)
		}
	}
	return strings.Join(out, " ")
}

// The declarations of a program, an MCP server and a gRPC service decide what
// becomes of earlier results, cascades included. A rollback undoes what one
// turn declared, but not what a write of another turn has also made obsolete.
func TestToolsOfAUserDeclareWhatTheirCallsMakeObsolete(t *testing.T) {
	t.Parallel()
	n, c := notebook(t)
	conv := ""
	turn := func(words string) edge.Answer {
		t.Helper()
		m := map[string]any{"content": words, "agent": "memos"}
		if conv != "" {
			m["conversation_id"] = conv
		}
		a := c.Turn(m, func(edge.Approval) string { return "approve" })
		if a.Text != "done" {
			t.Fatalf("%s: %+v", words, a)
		}
		conv = a.Conversation
		return a
	}
	turn("memos.read memos.list far.read sim.look")
	if got := stale(n, conv); got != "" {
		t.Errorf("obsolete at once: %s", got)
	}
	turn("sim.look")
	turn("far.write")
	first := turn("memos.write")
	second := turn("memos.write")
	if got := stale(n, conv); got != "memos.read memos.list far.read sim.look" {
		t.Errorf("obsolete are: %s", got)
	}
	for _, x := range []struct {
		of       edge.Answer
		restored int
		left     string
	}{{first, 0, "memos.read memos.list far.read sim.look"}, {second, 2, "far.read sim.look"}} {
		inter := x.of.Frames[0].Interaction
		status, body := n.HTTP(http.MethodPost, "/api/v1/conversations/"+conv+"/interactions/"+inter+"/rollback", map[string]any{})
		if want := fmt.Sprintf(`{"restored":%d}`, x.restored); status != http.StatusOK || strings.TrimSpace(string(body)) != want {
			t.Errorf("%d %s, want %s", status, body, want)
		}
		if got := stale(n, conv); got != x.left {
			t.Errorf("obsolete after the rollback: %s, want %s", got, x.left)
		}
	}
}

// If a message replaces others and is then deleted, the others are shown again.
// When it is restored, they are hidden again.
func TestDeletingASuccessorRestoresAMessage(t *testing.T) {
	t.Parallel()
	var seen []string
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		seen = nil
		for _, m := range in.Messages {
			if m.Role == "user" {
				seen = append(seen, m.Text())
			}
		}
		return edge.Reply{Text: "noted"}
	})})
	c := n.Dial()
	conv := c.Turn(map[string]any{"content": "first words"}, nil).Conversation
	say := func(words string) string {
		t.Helper()
		c.Turn(map[string]any{"content": words, "conversation_id": conv}, nil)
		return strings.Join(seen, " | ")
	}
	say("in short")
	list := messages(n, conv)
	mark := func(state, by string, m kept) {
		t.Helper()
		body := map[string]any{"messages": []string{m.ID}, "state": state}
		if by != "" {
			body["by"] = by
		}
		if status, got := n.HTTP(http.MethodPost, "/api/v1/conversations/"+conv+"/messages/mark", body); status/100 != 2 {
			t.Fatalf("%d %s", status, got)
		}
	}
	mark("superseded", list[2].ID, list[0])
	if got := say("one"); strings.Contains(got, "first words") {
		t.Errorf("superseded: %s", got)
	}
	mark("deleted", "", list[2])
	if got := say("two"); !strings.Contains(got, "first words") || strings.Contains(got, "in short") {
		t.Errorf("the one that stood for it is deleted: %s", got)
	}
	mark("active", "", list[2])
	if got := say("three"); strings.Contains(got, "first words") || !strings.Contains(got, "in short") {
		t.Errorf("and is back: %s", got)
	}
}
