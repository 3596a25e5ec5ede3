package rego

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// lines is a log that can be waited for.
type lines struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the log has a text.
func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(l.String(), text) {
		<-l.more
	}
	l.mu.Lock()
	l.buf.Reset()
	l.mu.Unlock()
}

// TestHotReload changes the policies of an authorizer that is in use.
func TestHotReload(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "here")
	said := newLines()
	j := opened(t, Options{Dir: dir, Quiet: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(said, nil))})
	q := policy.Question{User: "ann", Tool: clock()}
	first := judged(t, j, q)
	if first.Verdict != policy.Allow {
		t.Fatalf("%+v", first)
	}

	put(t, dir, "house.rego", "package steward\n\ndeny contains \"not now\" if true\n")
	said.await(t, "policies changed")
	denied := judged(t, j, q)
	if denied.Verdict != policy.Deny || denied.Reason != "not now" || denied.Rule != "house.rego:3" || denied.Version == first.Version {
		t.Fatalf("%+v", denied)
	}

	// With invalid policies, the previous version stays in force, and the error is logged.
	put(t, dir, "house.rego", "package steward\n\ndeny contains \"x\" if nothing\n")
	said.await(t, "house.rego:3")
	if d := judged(t, j, q); d.Reason != "not now" || d.Version != denied.Version {
		t.Fatalf("%+v", d)
	}
	if err := j.Broken(); !fault.HasCode(err, "policy_invalid") || !strings.Contains(err.Error(), "house.rego:3") {
		t.Fatal(err)
	}

	// The previous text is restored.
	put(t, dir, "house.rego", "package steward\n\ndeny contains \"not now\" if true\n")
	said.await(t, "policies restored to those in force")
	if err := j.Broken(); err != nil {
		t.Fatal(err)
	}

	// Changes of data.json and in subfolders count.
	put(t, dir, "data.json", `{"closed": ["time.now"]}`)
	said.await(t, "policies changed")
	put(t, dir, "more/rules.rego", "package steward\n\ndeny contains \"closed\" if input.tool.name in data.closed\n")
	said.await(t, "policies changed")
	if d := judged(t, j, q); d.Reason != "closed; not now" || d.Rule != "house.rego:3, more/rules.rego:3" {
		t.Fatalf("%+v", d)
	}

	// Removing a file removes its rules. Removing the folder does not.
	if err := os.Remove(filepath.Join(dir, "house.rego")); err != nil {
		t.Fatal(err)
	}
	said.await(t, "policies changed")
	if d := judged(t, j, q); d.Reason != "closed" {
		t.Fatalf("%+v", d)
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	said.await(t, "changed policies are invalid")
	if d := judged(t, j, q); d.Reason != "closed" || !fault.HasCode(j.Broken(), "policy_unreadable") {
		t.Fatalf("%+v", d)
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	said.await(t, "policies restored to those in force")
}

// TestReloadWhileJudging checks that each decision uses a single version.
func TestReloadWhileJudging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := opened(t, Options{Dir: dir, Quiet: time.Hour})
	var work sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				d, err := j.Authorize(t.Context(), policy.Question{User: "ann", Tool: clock()})
				if err != nil || (d.Verdict == policy.Deny) != (d.Reason == "not now") {
					t.Errorf("%+v, %v", d, err)
				}
			}
		})
	}
	for i := range 6 {
		text := "package steward\n"
		if i%2 == 0 {
			text += "\ndeny contains \"not now\" if true\n"
		}
		put(t, dir, "house.rego", text+strings.Repeat("#", i)+"\nx := 1\n")
		if err := j.Reload(); err != nil {
			t.Error(err)
		}
	}
	stop()
	work.Wait()
}

// TestPeopleChange checks that a changed role takes effect at once.
func TestPeopleChange(t *testing.T) {
	who := &changing{roles: []string{policy.RoleMember}}
	j := opened(t, Options{Directory: who})
	q := policy.Question{Point: policy.PointAgent, User: "local"}
	for range 2 {
		if d := judged(t, j, q); d.Verdict != policy.Deny {
			t.Fatalf("%+v", d)
		}
	}
	who.set(policy.RoleAdmin)
	if d := judged(t, j, q); d.Verdict != policy.Allow {
		t.Fatalf("%+v", d)
	}
	who.set(policy.RoleGuest)
	if d := judged(t, j, q); d.Verdict != policy.Deny {
		t.Fatalf("%+v", d)
	}
}

// changing is a directory of one user.
type changing struct {
	mu    sync.Mutex
	roles []string
}

func (c *changing) set(role string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roles = []string{role}
}

func (c *changing) Principal(context.Context, string) (policy.Principal, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return policy.Principal{User: "ann", Roles: c.roles}, nil
}

// TestMemory checks that the cache is bounded and follows the clock.
func TestMemory(t *testing.T) {
	dir := folder(t, map[string]string{"house.rego": "package steward\n\ndeny contains \"night\" if input.time.hour >= 22\n\n" +
		"deny contains \"not him\" if input.args.to == \"eve\"\n"})
	j := opened(t, Options{Dir: dir, Zone: func(string) *time.Location { return time.UTC }})
	q := policy.Question{User: "ann", Tool: clock(), At: time.Date(2026, 3, 1, 21, 59, 0, 0, time.UTC)}
	if d := judged(t, j, q); d.Verdict != policy.Allow {
		t.Fatalf("%+v", d)
	}
	q.At = q.At.Add(time.Minute)
	if d := judged(t, j, q); d.Verdict != policy.Deny {
		t.Fatalf("%+v", d)
	}
	q.At = q.At.Add(-time.Minute)
	q.Args = []byte(`{"to":"` + strings.Repeat("e", maxKey) + `"}`)
	known := &j.now.Load().points[policy.PointTool].known
	before := len(known.m)
	if d := judged(t, j, q); d.Verdict != policy.Allow || len(known.m) != before {
		t.Fatalf("%+v, %d remembered", d, len(known.m))
	}
	for i := range maxKnown + 10 {
		known.put([]byte{byte(i), byte(i >> 8)}, policy.Decision{})
	}
	if len(known.m) > maxKnown {
		t.Errorf("%d remembered", len(known.m))
	}
}

// TestLineage checks that an agent gains nothing by asking another one to act.
func TestLineage(t *testing.T) {
	text := `package steward

deny contains "the helper does nothing outside" if {
	input.agent == "helper"
	input.tool.out
}

ask contains "the secretary is watched" if {
	call
	input.agent == "secretary"
}

cap contains 100 if input.agent == "helper"

cap contains 50 if input.agent == "email"

mask contains "/a" if input.agent == "helper"

mask contains "/b" if input.agent == "email"

approvers contains "parents" if input.agent == "secretary"

approvers contains "board" if input.agent == "chief"

deny contains "second hand" if input.lineage == ["assistant", "third"]
`
	j := opened(t, Options{Dir: folder(t, map[string]string{"house.rego": text})})
	for _, c := range []struct {
		agent   string
		lineage []string
		tool    string
		want    policy.Verdict
		why     string
	}{
		{"email", nil, "web.fetch", policy.Allow, "queries"},
		{"helper", nil, "web.fetch", policy.Deny, "helper"},
		{"email", []string{"assistant", "helper"}, "web.fetch", policy.Deny, "helper"},
		{"email", []string{"helper", "assistant"}, "web.fetch", policy.Deny, "helper"},
		{"email", []string{"assistant", "helper"}, "time.now", policy.Allow, "queries"},
		{"email", []string{"secretary"}, "time.now", policy.Ask, "watched"},
		{"secretary", []string{"chief"}, "time.now", policy.Deny, "only one group"},
		{"email", []string{"assistant", "third", "email"}, "time.now", policy.Deny, "second hand"},
		{"email", []string{"assistant", "third"}, "time.now", policy.Deny, "second hand"},
	} {
		q := policy.Question{User: "ann", Agent: c.agent, Lineage: c.lineage, Attended: true, Tool: clock()}
		if c.tool == "web.fetch" {
			q.Tool = fetch()
		}
		if d := judged(t, j, q); d.Verdict != c.want || !strings.Contains(d.Reason, c.why) {
			t.Errorf("%v: %+v", c, d)
		}
	}
	d := judged(t, j, policy.Question{User: "ann", Agent: "email", Lineage: []string{"helper"}, Attended: true, Tool: clock()})
	if d.Cap != 50 || strings.Join(d.Mask, " ") != "/a /b" {
		t.Errorf("%+v", d)
	}
	e, err := j.Explain(t.Context(), policy.Question{User: "ann", Agent: "email", Lineage: []string{"helper", "assistant"}, Tool: fetch()})
	if err != nil || e.Agent != "helper" || e.Verdict != policy.Deny || !strings.Contains(e.Rule, "house.rego:3") {
		t.Errorf("%+v, %v", e, err)
	}
}

// A folder that changes all the time is read nevertheless.
func TestReloadInARestlessFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := newLines()
	j := opened(t, Options{Dir: dir, Quiet: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(said, nil))})
	stop, restless := make(chan struct{}), sync.WaitGroup{}
	restless.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte(time.Now().String()), 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	})
	put(t, dir, "house.rego", "package steward\n\ndeny contains \"not now\" if true\n")
	said.await(t, "policies changed")
	close(stop)
	restless.Wait()
	if d := judged(t, j, policy.Question{User: "ann", Tool: clock()}); d.Reason != "not now" {
		t.Errorf("%+v", d)
	}
}
