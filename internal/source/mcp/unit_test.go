package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/sandbox"
	"steward/internal/tool"
	"steward/test/must"
)

// pipes returns a connection to a program. The test acts as the program.
func pipes() (c *lines, in *io.PipeReader, out *io.PipeWriter) {
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	return newLines(theirs, ours, slog.New(slog.DiscardHandler), func() {}, func(error) {}, func() {}, &progress{}), in, out
}

// A server that does not answer a request of newer versions counts as an older one.
func TestSilenceIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, in, out := pipes()
		go func() { _, _ = io.Copy(io.Discard, in) }()
		id := must.Get(jsonrpc.MakeID(float64(1)))
		began := time.Now()
		must.Do(t, c.Write(t.Context(), &jsonrpc.Request{ID: id, Method: "server/discover"}))
		m, err := c.Read(t.Context())
		r, ok := m.(*jsonrpc.Response)
		if err != nil || !ok || r.Error == nil || time.Since(began) != discoverFor {
			t.Errorf("%+v, %v after %v", m, err, time.Since(began))
		}
		c.Close()
		out.Close()
		c.done.Wait()
	})
}

func TestClosedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, out := pipes()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Read(done); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		m := &mark{}
		// Nothing reads the input: the first write blocks for ever, and the second never starts.
		stuck, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer stop()
		if err := c.Write(stuck, &jsonrpc.Request{Method: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := c.Write(context.WithValue(stuck, markKey{}, m), &jsonrpc.Request{Method: "b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if m.sent.Load() {
			t.Error("it has not left")
		}
		out.Close()
		if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) || !broken(err) {
			t.Error(err)
		}
		c.Close()
		c.Close()
		if err := c.Write(t.Context(), &jsonrpc.Request{Method: "c"}); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		if _, err := c.Read(t.Context()); !errors.Is(err, io.EOF) || c.SessionID() != "" {
			t.Error(err)
		}
		c.done.Wait()
	})
}

// The error of a program that ended contains its stderr, even if that arrives some time after the end of
// its output.
func TestEndThatIsKnownLate(t *testing.T) {
	s := must.Get(open(tool.Env{Name: "srv"}, Decl{Command: []string{"sh", "-c", "exec >&-; sleep 1; echo no config >&2; exit 3"}}))
	defer s.Close()
	_, err := s.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_start_failed")
	if f := fault.Of(err); !strings.Contains(f.Message, "exited before it answered; it said: no config") || !strings.Contains(f.Remedy, "yourself") {
		t.Errorf("%+v", f)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p rateLimiter
		began := time.Now()
		for range 3*maxPace + 1 {
			if !p.wait(1, nil) {
				t.Fatal("it was not stopped")
			}
		}
		if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("%v", took)
		}
		stop := make(chan struct{})
		close(stop)
		if p.wait(10*maxPace, stop) {
			t.Error("it was stopped")
		}
	})
}

func TestOddResults(t *testing.T) {
	var asks sdk.CallToolResult
	must.Do(t, json.Unmarshal([]byte(`{"resultType":"input_required","inputRequests":{}}`), &asks))
	if _, err := result("a", &asks); !fault.HasCode(err, "mcp_input_needed") {
		t.Error(err)
	}
	if _, err := result("a", &sdk.CallToolResult{StructuredContent: func() {}}); !fault.HasCode(err, "mcp_answer_invalid") {
		t.Error(err)
	}
	r, err := result("a", &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{}, &sdk.ResourceLink{}, &sdk.EmbeddedResource{}}, StructuredContent: []any{1}})
	if err != nil || len(r.Content) != 3 || !strings.HasSuffix(text(r), "[1]") {
		t.Errorf("%s, %v", text(r), err)
	}
	f := contents(&sdk.ResourceContents{URI: "/", Blob: []byte("x")}).(*message.File)
	if f.Name != "resource.octet-stream" && f.Name != "resource" || f.MIME != "application/octet-stream" {
		t.Errorf("%+v", f)
	}
	if got := link("a", &sdk.ResourceLink{Name: "n", URI: "u"}); got != "[resource n: u, to be read with a.read_resource]" {
		t.Error(got)
	}
	if got := tool.Clip("aéé", 2); got != "a…" {
		t.Error(got)
	}
	if !broken(os.ErrClosed) || broken(io.ErrNoProgress) {
		t.Error("broken")
	}
	if _, err := asJSON(func() {}); !fault.HasCode(err, "tool_output_invalid") {
		t.Error(err)
	}
}

// A call that ends because its server floods says so, even if it did not notice that itself.
func TestHungUpByAFlood(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	x := &session{src: &source{env: tool.Env{Name: "srv", Log: log}, keeper: &sandbox.Keeper[*session]{}}, over: make(chan struct{})}
	x.calls, x.hangUp = context.WithCancelCause(t.Context())
	close(x.over)
	x.setReason(fmt.Errorf("reading: %w", errFlood))
	x.hangUp(errHungUp)
	if err := x.failed(t.Context(), "calling srv.work", 0, context.Canceled); !fault.HasCode(err, "mcp_server_floods") {
		t.Error(err)
	}
}

// Only a bounded part of a long line is held in memory.
func TestALineThatIsTooLarge(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", maxMessage-1)+"\n{}"), 64<<10)
	if line, err := readLine(r); err != nil || len(line) != maxMessage-1 {
		t.Errorf("%d, %v", len(line), err)
	}
	if line, err := readLine(r); err != nil || string(line) != "{}" {
		t.Errorf("%s, %v", line, err)
	}
	if _, err := readLine(r); err != io.EOF {
		t.Error(err)
	}
	if _, err := readLine(bufio.NewReader(zeros{})); !errors.Is(err, errTooLarge) {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
