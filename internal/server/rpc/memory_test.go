package rpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/server/auth"
	"steward/test/rpc/pb"
)

func TestGetWindow(t *testing.T) {
	s := serve(t, auth.Options{Keys: keys{}}, Options{})
	conv := id.New()
	s.node.window = func(user string, asked id.ID) (client.Context, error) {
		if user != "anna" || asked != conv {
			return client.Context{}, fault.New(fault.NotFound, "conversation_not_found", "there is none")
		}
		return client.Context{Conversation: conv.String(), Agent: "assistant", Model: "box/m", Window: 32000, Tokens: 900, Free: 23100, Counted: "estimated",
			Categories: []client.ContextCategory{{Name: client.ContextFacts, Pieces: 1, Tokens: 40, Bytes: 120, Most: 600, Each: true}, {Name: client.ContextAnswer, Tokens: 8000}},
			Pieces: []client.ContextPiece{{Category: client.ContextFacts, Name: "My car is blue", Why: "similarity 0.71", Tokens: 40, Bytes: 120,
				URI: "cld:memory.Fact.x", Labels: []string{"private"}}}}, nil
	}
	for _, name := range []string{conv.String(), "cld:common.Conversation." + conv.String()} {
		var got pb.Window
		if err := s.grpc("/memory.Memory/GetWindow", &pb.WindowRequest{For: name}, &got, "authorization", "Bearer "+annas); err != nil {
			t.Fatal(err)
		}
		if got.For != "cld:common.Conversation."+conv.String() || got.Budget != 32000 || got.Free != 23100 || got.Allocation[0].Most != 600 || !got.Allocation[0].Each ||
			got.Allocation[1].Tokens != 8000 || got.Pieces[0].Why != "similarity 0.71" || got.Pieces[0].Labels[0] != "private" || got.Counted != "estimated" {
			t.Errorf("%v", &got)
		}
	}
	for _, name := range []string{"", "x", "cld:x", id.New().String(), "cld:memory.Fact." + id.New().String()} {
		if err := s.grpc("/memory.Memory/GetWindow", &pb.WindowRequest{For: name}, &pb.Window{}, "authorization", "Bearer "+annas); status.Code(err) != codes.NotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
}
