//go:build linux

package postgres

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
	"steward/test/postgres"
)

func alone(o *Options) { o.Shared = false }

// A second Steward is refused while the first has the database, and told where that
// is. It may read. When the first has ended, it may have the database.
func TestOneStewardADatabase(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	url := c.URL(postgres.App, name)
	first := open(t, url, alone)
	commit(t, first, put(conv("c"), "1"))
	for _, o := range []Options{{URL: url, Patience: 1}, {URL: url, Patience: 1, Shared: true}} {
		s, err := Open(t.Context(), o)
		if err == nil {
			s.Close()
		}
		wantCode(t, err, "store_in_use")
		host, _ := os.Hostname()
		d := fault.Of(err).Details
		if since, err := time.Parse(time.RFC3339, fmt.Sprint(d["since"])); err != nil || time.Since(since).Abs() > time.Hour {
			t.Errorf("in use since %v", d["since"])
		}
		if d["pid"] != fmt.Sprint(os.Getpid()) || !strings.HasPrefix(host, fmt.Sprint(d["host"])) {
			t.Errorf("in use by %v", d)
		}
	}
	reader := open(t, url, func(o *Options) { o.ReadOnly, o.Patience = true, 1 })
	if r, err := reader.Get(t.Context(), ada, conv("c")); err != nil || string(r.Body) != "1" {
		t.Errorf("a reader gets %v, %v", r, err)
	}
	wantCode(t, reader.Claim(t.Context()), "store_in_use")
	_, err := NewTransfer(t.Context(), Options{URL: url, Patience: 1})
	wantCode(t, err, "store_in_use")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	// Those of a cluster share it, and keep out one without a cluster.
	nodes := []*Store{open(t, url), open(t, url)}
	for i, s := range nodes {
		commit(t, s, put(conv(fmt.Sprint(i)), ""))
	}
	_, err = Open(t.Context(), Options{URL: url, Patience: 1})
	wantCode(t, err, "store_in_use")
}

// A Steward that has lost its session, and with it the database to another one,
// writes nothing any more until it has the database again. It still reads.
func TestALostDatabase(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	proxy := postgres.NewProxy(t, c)
	first := open(t, proxy.URL(postgres.App, name), quiet, alone)
	u := conv("c")
	commit(t, first, put(u, "first"))
	// The network is cut in the middle of a commit, before the server hears of it.
	// PostgreSQL ends the session, and the second has the database before the first
	// is back.
	var second *Store
	first.hold = sync.OnceFunc(func() {
		proxy.Refuse(true)
		proxy.Break()
		second = open(t, c.URL(postgres.App, name), quiet, alone)
		commit(t, second, store.Change{URI: u, Body: []byte("second"), If: store.If{Version: 1}})
		proxy.Refuse(false)
	})
	for range 2 {
		_, err := first.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("stale"), "")}})
		wantCode(t, err, "store_in_use")
		wantCode(t, first.Ready(t.Context()), "store_in_use")
	}
	if r, err := first.Get(t.Context(), ada, u); err != nil || string(r.Body) != "second" {
		t.Errorf("the first reads %v, %v", r, err)
	}
	commit(t, second, put(u, "third"))
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	for { // until PostgreSQL has ended the session of the second
		_, err := first.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{{URI: u, Body: []byte("fourth"), If: store.If{Version: 3}}}})
		if err == nil {
			break
		}
		wantCode(t, err, "store_in_use")
	}
	if err := first.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if page, err := first.Log(t.Context(), ada, store.LogQuery{}); err != nil || len(page.Entries) != 4 {
		t.Errorf("the log has %v, %v", page.Entries, err)
	}
}

// A connection breaks for the Steward only, and the server keeps the session, with
// its locks, in the middle of a transaction. The Steward ends that session and goes on.
func TestAnOrphanedSession(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	proxy := postgres.NewProxy(t, c)
	s := open(t, proxy.URL(postgres.App, name), quiet, alone)
	commit(t, s, put(conv("before"), ""))
	s.hold = sync.OnceFunc(func() { proxy.Next(postgres.Orphan) })
	if r := commit(t, s, put(conv("c"), "")); r.Seq != 2 {
		t.Errorf("receipt %+v", r)
	}
}

// An idle Steward that has lost its session notices that by itself.
func TestAnIdleStewardTakesItsDatabaseAgain(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	s := open(t, c.URL(postgres.App, name), quiet, alone, func(o *Options) { o.claimCheck = time.Millisecond })
	above := connected(t, c.Super(name))
	was, found, err := holderOf(t.Context(), above)
	if err != nil || !found || was.name != s.name {
		t.Fatalf("%+v, %v, %v", was, found, err)
	}
	if _, err := above.Exec(t.Context(), "SELECT pg_terminate_backend($1)", int32(was.pid)); err != nil {
		t.Fatal(err)
	}
	for h := was; !found || h.pid == was.pid || h.name != s.name; {
		if h, found, err = holderOf(t.Context(), above); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, s, put(conv("c"), ""))
}
