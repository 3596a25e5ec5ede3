package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/server/auth"
)

// The API in this process behaves like one over the network: it returns coded errors,
// and stops when the caller cancels.
func TestTheAPIWithin(t *testing.T) {
	env := user(t)
	if code, _, errs := in(t, "", env, "ask", "-q", "What is 6 times 7?"); code != command.ExitOK {
		t.Fatal(errs)
	}
	a := &command.Program{App: app.App{Environ: env, Dir: t.TempDir(), Stderr: io.Discard}}
	ctx := context.Background()
	for _, need := range []command.Need{command.NeedReadOnly, command.NeedDatabase, command.NeedIdleNode, command.NeedNode} {
		if err := a.With(ctx, need, func(s *command.Session) error {
			if err := s.Call(ctx, "GET /nothing", nil, nil, nil); !fault.HasCode(err, "unknown_url") {
				t.Error(err)
			}
			list, err := s.Conversations(ctx, 5)
			if err != nil || len(list) != 1 || list[0].Title != "What is 6 times 7?" {
				t.Fatalf("%v %v", err, list)
			}
			if err := s.Call(ctx, "GET /conversations", nil, nil, &[]int{}); !fault.HasCode(err, "server_unreachable") {
				t.Error(err)
			}
			if err := s.Call(ctx, "POST /x", nil, make(chan int), nil); err == nil {
				t.Error("a channel was sent")
			}
			if err := s.Call(ctx, "bad\x00method /x", nil, nil, nil); err == nil {
				t.Error("a bad method was sent")
			}
			var b strings.Builder
			if err := s.Export(ctx, list[0].ID, "json", false, &b); err != nil || !strings.Contains(b.String(), "steward_export") {
				t.Errorf("%v %s", err, &b)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	c := client.New(client.Options{URL: "http://127.0.0.1:1", Fault: auth.FaultOf})
	if err := c.Call(ctx, "GET /x", nil, nil, nil); !fault.HasCode(err, "server_unreachable") {
		t.Error(err)
	}
}
