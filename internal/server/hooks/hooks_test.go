package hooks_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/server/hooks"
	"steward/test/storetest"
)

const secret = "0123456789abcdef0123456789abcdef"

type world struct {
	*testing.T
	handler http.Handler
	jobs    *jobs.Scheduler
	hook    id.ID
	now     time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, hook: id.New(), now: time.Unix(1_800_000_000, 0)}
	w.jobs = jobs.New(jobs.Options{Store: storetest.NewModel(), Now: func() time.Time { return w.now }})
	j := record.Job{User: "ann", Name: "deploy", Text: "look"}
	j.Hook = w.hook
	if _, err := w.jobs.AddJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

func (w *world) start() {
	w.handler = hooks.Handler(hooks.Options{Jobs: w.jobs, Now: func() time.Time { return w.now }, Secret: func(name string) (string, error) {
		if name == record.HookSecret(w.hook) {
			return secret, nil
		}
		return "", fault.New(fault.NotFound, "secret_missing", "there is none")
	}})
}

// post sends a body, and returns the status with the answer.
func (w *world) post(path, body, header string) (int, string) {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set(hooks.Header, header)
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// signed returns the header for a body.
func signed(key string, at time.Time, body string) string {
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(hooks.Sign([]byte(key), at.Unix(), []byte(body))))
}

func (w *world) occurrences() []record.Occurrence {
	w.Helper()
	list, err := w.jobs.Occurrences(w.Context(), "ann", "deploy", 200)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// The example is what openssl computes: printf '%s' '1800000000.hello' | openssl dgst -sha256 -hmac KEY.
func TestSign(t *testing.T) {
	if got := hex.EncodeToString(hooks.Sign([]byte(secret), 1_800_000_000, []byte("hello"))); got != "39706bacbde2185b15fbccac16f140b668f7b8af141d56332dcda9f9d5d4ed7d" {
		t.Error(got)
	}
}

func TestACall(t *testing.T) {
	w := newWorld(t)
	at := hooks.Prefix + w.hook.String()
	header := signed(secret, w.now, "hello")
	code, first := w.post(at, "hello", header)
	if code != http.StatusAccepted || !strings.Contains(first, `"state":"due"`) {
		t.Fatal(code, first)
	}
	if list := w.occurrences(); len(list) != 1 || list[0].Text != "hello" || list[0].Cause == "" {
		t.Fatalf("%+v", list)
	}
	for range 3 { // replays, also after a restart
		w.start()
		if code, again := w.post(at, "hello", header); code != http.StatusAccepted || again != first {
			t.Error(code, again)
		}
	}
	w.now = w.now.Add(hooks.Window + time.Second)
	if code, got := w.post(at, "hello", header); code != http.StatusUnauthorized || !strings.Contains(got, "hook_late") {
		t.Error(code, got)
	}
	if code, got := w.post(at, "hello", signed(secret, w.now.Add(hooks.Window+time.Second), "hello")); code != http.StatusUnauthorized || !strings.Contains(got, "hook_late") {
		t.Error(code, got)
	}
	if n := len(w.occurrences()); n != 1 {
		t.Errorf("%d occurrences", n)
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	at, unknown := hooks.Prefix+w.hook.String(), hooks.Prefix+id.New().String()
	good := signed(secret, w.now, "hello")
	_, wrong := w.post(at, "hello", signed("another", w.now, "hello"))
	for _, c := range []struct {
		path, body, header string
		status             int
		code               string
	}{
		{at, "hello", signed("another", w.now, "hello"), 404, "hook_unknown"},
		{at, "hello!", good, 404, "hook_unknown"},
		{unknown, "hello", good, 404, "hook_unknown"},
		{hooks.Prefix, "hello", good, 404, "hook_unknown"},
		{hooks.Prefix + "../hooks", "hello", good, 404, "hook_unknown"},
		{at + "/more", "hello", good, 404, "hook_unknown"},
		{at, "hello", "", 401, "hook_unsigned"},
		{at, "hello", "sha256=00", 401, "hook_unsigned"},
		{at, "hello", strings.Replace(good, "t=", "t=x", 1), 401, "hook_unsigned"},
		{at, "hello", good[:len(good)-2], 401, "hook_unsigned"},
		{at, "\xff", signed(secret, w.now, "\xff"), 400, "hook_text"},
		{at, strings.Repeat("x", 64<<10+1), good, 413, "body_too_large"},
	} {
		status, got := w.post(c.path, c.body, c.header)
		if status != c.status || !strings.Contains(got, c.code) {
			t.Errorf("%s %.20q %q: %d %s", c.path, c.body, c.header, status, got)
		}
		if c.code == "hook_unknown" && got != wrong {
			t.Errorf("the answer tells an unknown webhook from a wrong signature: %s", got)
		}
	}
	if n := len(w.occurrences()); n != 0 {
		t.Errorf("%d occurrences", n)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	if rec.Code != http.StatusBadRequest || rec.Header().Get("Allow") != "POST" {
		t.Error(rec.Code, rec.Header())
	}
}

// A webhook takes 64 KiB, and no more than so many calls a minute.
func TestManyCalls(t *testing.T) {
	w := newWorld(t)
	at := hooks.Prefix + w.hook.String()
	big := strings.Repeat("x", 64<<10)
	if code, got := w.post(at, big, signed(secret, w.now, big)); code != http.StatusAccepted {
		t.Fatal(code, got)
	}
	codes := map[int]int{}
	for i := range 40 {
		body := fmt.Sprint(i)
		code, _ := w.post(at, body, signed(secret, w.now, body))
		codes[code]++
	}
	if codes[http.StatusAccepted] != 23 || codes[http.StatusTooManyRequests] != 17 { // 24 wait; then neither more nor faster
		t.Error(codes)
	}
	if code, _ := w.post(at, "bad", signed("another", w.now, "bad")); code != http.StatusNotFound {
		t.Error(code)
	}
}
