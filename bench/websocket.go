package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"steward/bench/bare"
	"steward/internal/face/chat"
	"steward/internal/face/httpauth"
)

// remote is a contender that serves WebSockets in a process of its own; this
// process is its clients, whose work is not counted.
type remote struct {
	folder string
	server *process
	addr   string
}

func openRemote(kind string) func(dir, model string) (contender, error) {
	return func(dir, model string) (contender, error) {
		p, err := start(kind, dir, model)
		if err != nil {
			return nil, err
		}
		addr, err := p.line()
		return &remote{dir, p, addr}, err
	}
}

func (r *remote) chat(int) (func(string) (string, error), error) {
	ctx := context.Background()
	ws, _, err := websocket.Dial(ctx, "ws://"+r.addr+"/ws", nil)
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	conv := ""
	return func(text string) (string, error) {
		msg := map[string]string{"type": "message", "content": text}
		if conv != "" {
			msg["conversation_id"] = conv
		}
		b, err := json.Marshal(msg)
		if err != nil {
			return "", err
		}
		if err := ws.Write(ctx, websocket.MessageText, b); err != nil {
			return "", err
		}
		for {
			_, b, err := ws.Read(ctx)
			if err != nil {
				return "", err
			}
			var f struct {
				Type, Content, Code string
				Conversation        string `json:"conversation_id"`
			}
			switch {
			case bytes.HasPrefix(b, []byte(`{"type":"complete"`)), bytes.HasPrefix(b, []byte(`{"type":"error"`)), bytes.HasPrefix(b, []byte(`{"type":"accepted"`)):
				if err := json.Unmarshal(b, &f); err != nil {
					return "", err
				}
			default:
				continue
			}
			conv = f.Conversation
			switch f.Type {
			case "complete":
				return f.Content, nil
			case "error":
				return "", fmt.Errorf("error frame %s: %s", f.Code, b)
			}
		}
	}, nil
}

func (r *remote) checkpoint() error  { return checkpoint(r.folder) }
func (r *remote) dir() string        { return r.folder }
func (r *remote) pid() int           { return r.server.cmd.Process.Pid }
func (b *bareLoop) pid() int         { return os.Getpid() }
func (s *steward) pid() int          { return os.Getpid() }
func (s *steward) checkpoint() error { return checkpoint(s.folder) }

// serveWS runs a WebSocket server of one of the contenders until its standard
// input ends.
func serveWS(kind, dir, model string) error {
	var handler http.Handler
	switch kind {
	case "child-serve-bare":
		l, err := bare.Open(filepath.Join(dir, "bare.db"), model)
		if err != nil {
			return err
		}
		handler = bareWS(l)
	case "child-serve-steward":
		s, err := newSteward(dir, model)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		handler = httpauth.New(httpauth.Options{Logger: log}).Wrap(chat.Handler(chat.Options{Node: s.node, Logger: log}), nil)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	go http.Serve(ln, handler)
	_, err = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
	return err
}

// bareWS serves the bare loop: a conversation a connection, a frame a token.
func bareWS(l *bare.Loop) http.Handler {
	next := make(chan int64, 1)
	next <- 1
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		n := <-next
		next <- n + 1
		c := l.NewChat(n)
		for {
			_, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			var in struct{ Content string }
			if err := json.Unmarshal(b, &in); err != nil {
				return
			}
			answer, err := c.Turn(r.Context(), in.Content, func(piece string) {
				ws.Write(r.Context(), websocket.MessageText, frame("token", piece))
			})
			if err != nil {
				return
			}
			if err := ws.Write(r.Context(), websocket.MessageText, frame("complete", answer)); err != nil {
				return
			}
		}
	})
}

func frame(kind, content string) []byte {
	b := append([]byte(`{"type":"`), kind...)
	b = append(b, `","content":`...)
	b = strconv.AppendQuote(b, content)
	return append(b, '}')
}

// cpuOf is what a process has used so far, user and system, in steps of the
// kernel's clock tick (10 ms).
func cpuOf(pid int) (time.Duration, error) {
	if pid == os.Getpid() {
		return cpuTime(), nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	user, err := strconv.Atoi(f[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
