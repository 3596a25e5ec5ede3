package messaging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/webhook"
	"steward/internal/fault"
)

// memory is a network of two ends in memory, which virtual time passes in.
type memory struct {
	dialled chan net.Conn
	closed  chan struct{}
}

func newMemory() *memory { return &memory{make(chan net.Conn), make(chan struct{})} }

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.dialled:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error { close(m.closed); return nil }

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// client returns a client whose connections end here, each for one request.
func (m *memory) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case m.dialled <- theirs:
			return ours, nil
		case <-m.closed:
		case <-ctx.Done():
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}}}
}

// wired is a service that is a program at the other end of a webhook: everything passes over HTTP.
type wired struct {
	*service
	t       *testing.T
	out, in *memory // to the program, and to Steward
	servers []*http.Server
	ends    sync.WaitGroup

	mu      sync.Mutex
	current *webhook.Channel
	signed  int
}

const secretOfWebhook = "0123456789abcdef0123456789abcdef"

func newWired(t *testing.T, s *service) *wired {
	x := &wired{service: s, t: t, out: newMemory(), in: newMemory()}
	x.serve(x.out, http.HandlerFunc(x.take))
	x.serve(x.in, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.channel().ServeHTTP(w, r) }))
	return x
}

func (x *wired) serve(at *memory, h http.Handler) {
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	x.servers = append(x.servers, s)
	x.ends.Go(func() { s.Serve(at) }) //nolint:errcheck // it ends when it is closed
}

func (x *wired) close() {
	for _, s := range x.servers {
		s.Close() //nolint:errcheck // the test is over
	}
	x.ends.Wait()
}

// renew makes a new adapter, as after a restart.
func (x *wired) renew() channel.Channel {
	c, err := webhook.New(channel.Options{Token: secretOfWebhook, BaseURL: "http://program.example/steward", Client: x.out.client(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.current = c
	return c
}

func (x *wired) channel() *webhook.Channel {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.current
}

// take is what the program does with a post.
func (x *wired) take(w http.ResponseWriter, r *http.Request) {
	var p webhook.Post
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, "no post", http.StatusBadRequest)
		return
	}
	if p.Key == "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	id, err := x.Send(r.Context(), channel.Outgoing{Key: p.Key, At: channel.Address{Chat: p.Chat, Thread: p.Thread}, Text: p.Text})
	switch {
	case fault.Is(err, fault.RateLimited):
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case err != nil:
		panic(http.ErrAbortHandler) // the connection breaks
	default:
		json.NewEncoder(w).Encode(map[string]string{"message": id}) //nolint:errcheck // the adapter may be gone
	}
}

// tell posts what waits until done is closed, each event until it is accepted.
func (x *wired) tell(done <-chan struct{}) {
	client := x.in.client()
	for {
		batch, n := x.batch()
		for _, u := range batch {
			for !x.post(client, u) {
				select {
				case <-time.After(50 * time.Millisecond):
				case <-done:
					return
				}
			}
		}
		x.acknowledge(n)
		if len(batch) == 0 {
			select {
			case <-x.news:
			case <-done:
				return
			}
		}
	}
}

func (x *wired) post(client *http.Client, u channel.Update) bool {
	body, err := json.Marshal(webhook.Event{ID: u.ID, Chat: u.Address.Chat, From: webhook.Person(u.From), Text: u.Text})
	if err != nil {
		x.t.Error(err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://steward.example/channels/phone", bytes.NewReader(body))
	if err != nil {
		x.t.Error(err)
	}
	x.signed++
	r.Header.Set(webhook.SignatureHeader, webhook.Sign(secretOfWebhook, time.Now().Add(-time.Duration(x.signed%250)*time.Second), body))
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()        //nolint:errcheck // it was only read
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // as above
	return resp.StatusCode == http.StatusNoContent
}

// TestNothingIsLostAtTheWire is the proof over HTTP, with the adapter for webhooks.
func TestNothingIsLostAtTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := wireStorm()
		s := newService(webhookLimits())
		w := newWired(t, s)
		defer w.close()
		done := make(chan struct{})
		w.ends.Go(func() { w.tell(done) })
		defer close(done)
		x.over(t, s, w.renew)
	})
}

func webhookLimits() channel.Limits { return (&webhook.Channel{}).Limits() }
