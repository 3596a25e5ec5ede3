//go:build linux

package postgres

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/store"
	"steward/test/postgres"
)

// Batches are counted by outcome, each is timed once, and nothing waits when all are done.
func TestCommitsAreCounted(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	x := telemetry.New("test", nil)
	s := open(t, c.URL(postgres.App, name), func(o *Options) { o.Telemetry = x })
	served := func() string {
		w := httptest.NewRecorder()
		x.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	for range 3 {
		if _, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("one"), `"x"`)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{{URI: conv("one"), If: store.If{Absent: true}}}}); !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	text := served()
	for _, want := range []string{`steward_store_commits_total{outcome="committed"} 3`, `steward_store_commits_total{outcome="refused"} 1`, "steward_store_commit_seconds_count 4", "steward_store_group_batches_sum 4"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if n := s.Queued(); n != 0 {
		t.Errorf("%d batches wait", n)
	}
	if s.Head() != 3 {
		t.Errorf("the newest entry is %d", s.Head())
	}
	if n, err := s.Size(t.Context()); n < 1<<20 || err != nil {
		t.Errorf("the database has %d bytes, %v", n, err)
	}
}

// A store whose server is away says so.
func TestReady(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	p := postgres.NewProxy(t, c)
	s := open(t, p.URL(postgres.App, name), func(o *Options) { o.Patience = 100 * time.Millisecond })
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Refuse(true)
	p.Break()
	if err := s.Ready(t.Context()); !fault.HasCode(err, "store_unreachable") {
		t.Errorf("without a server: %v", err)
	}
}
