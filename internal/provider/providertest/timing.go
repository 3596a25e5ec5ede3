package providertest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
)

func timing(t *testing.T, v Vendor) {
	e := v.script(t, Plain)
	t.Run("cancelling reaches the server", func(t *testing.T) {
		v.leaves(t, e, func(m llm.Model) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var last error
			for _, err := range m.Stream(ctx, requestOf(Plain)) {
				cancel()
				last = err
			}
			if f := fault.Of(last); last == nil || f.Code != "cancelled" || !errors.Is(last, context.Canceled) {
				t.Errorf("the last error is %v", last)
			}
		})
	})
	t.Run("breaking the loop reaches the server", func(t *testing.T) {
		v.leaves(t, e, func(m llm.Model) {
			for _, err := range m.Stream(context.Background(), requestOf(Plain)) {
				if err != nil {
					t.Error(err)
				}
				break
			}
		})
	})
	t.Run("a cancelled context asks nobody", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if p := play(ctx, t, v.model(t, script{}.client(), Options{}), requestOf(Plain)); fault.Of(p.err).Code != "cancelled" {
			t.Errorf("the error is %v", p.err)
		}
	})
	begun := *e
	begun.Body = e.Body[:bytes.LastIndexByte(e.Body[:len(e.Body)*2/3], '\n')+1]
	some := bytes.TrimSuffix(begun.raw(true), []byte("0\r\n\r\n")) // cut between two chunks
	head := some[:bytes.Index(some, []byte("\r\n\r\n"))+4]
	for _, c := range []struct {
		name string
		said []byte // before the other side goes silent
		opt  Options
		code string
		took time.Duration
	}{
		{"nothing comes", nil, Options{FirstByte: 3 * time.Second, Idle: time.Second}, "first_byte_timeout", 3 * time.Second},
		{"only a head comes", head, Options{FirstByte: 3 * time.Second, Idle: time.Second}, "first_byte_timeout", 3 * time.Second},
		{"nothing comes, by default", nil, Options{}, "first_byte_timeout", 120 * time.Second},
		{"it stops coming", some, Options{FirstByte: 3 * time.Second, Idle: time.Second}, "idle_timeout", time.Second},
		{"it stops coming, by default", some, Options{}, "idle_timeout", 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) { v.silent(t, script{what: c.said, hold: true}, c.opt, c.code, c.took) })
	}
	t.Run("a slow reader is no silence", func(t *testing.T) { v.slowReader(t, e) })
}

// leaves: the server says half of its answer and then waits for its client to go.
func (v Vendor) leaves(t *testing.T, e *Exchange, client func(llm.Model)) {
	t.Helper()
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		for k, vs := range e.Header {
			w.Header()[k] = vs
		}
		w.Write(e.Body[:len(e.Body)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	client(v.model(t, s.Client(), Options{BaseURL: s.URL}))
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the server still has its client after 10 s")
	}
}

func (v Vendor) silent(t *testing.T, sc script, opt Options, code string, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := play(t.Context(), t, v.model(t, sc.client(), opt), requestOf(Plain))
		if p.err == nil || fault.Of(p.err).Code != code || !fault.Of(p.err).Recoverable() {
			t.Errorf("the error is %v, want %s", p.err, code)
		}
		if d := time.Since(start); d != took {
			t.Errorf("it took %s, want %s", d, took)
		}
	})
}

// slowReader: the time limits are on the provider, not on who reads.
func (v Vendor) slowReader(t *testing.T, e *Exchange) {
	synctest.Test(t, func(t *testing.T) {
		m := v.model(t, script{what: e.raw(false), piece: func() int { return 200 }}.client(), Options{Idle: time.Second})
		for _, err := range m.Stream(t.Context(), requestOf(Plain)) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // of the bubble's clock
		}
	})
}
