package edge_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/server/hooks"
	"steward/test/edge"
)

// callHook calls a webhook, and returns the status and the answer.
func callHook(t *testing.T, url, secret, body string, at time.Time) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(hooks.Header, fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(hooks.Sign([]byte(secret), at.Unix(), []byte(body)))))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A call of a webhook begins its job once, however often it is repeated and Steward is killed. Its body is untrusted,
// and its secret is shown once.
func TestAWebhookBeginsAJob(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{})
	var hook struct {
		client.Job
		URL, Secret string
	}
	n.JSON(&hook, "jobs", "add", "Say what came in", "--webhook", "--name", "deploy")
	if len(hook.Secret) != 64 || !strings.HasSuffix(hook.URL, hook.Path) || hook.Path == "" {
		t.Fatalf("%+v", hook)
	}
	for _, args := range [][]string{{"jobs", "show", "deploy"}, {"jobs", "show", "deploy", "--json"}, {"jobs", "list", "--json"}} {
		if out := n.Must(args...); strings.Contains(out, hook.Secret) {
			t.Errorf("%v shows the secret", args)
		}
	}
	url := func() string { // the port differs after each start
		notice, err := os.ReadFile(n.Data("server.json"))
		if err != nil {
			t.Fatal(err)
		}
		var at struct{ URL string }
		if err := json.Unmarshal(notice, &at); err != nil {
			t.Fatal(err)
		}
		return at.URL + hook.Path
	}
	now := time.Now()
	const body = `{"branch":"main"}`
	status, first := callHook(t, url(), hook.Secret, body, now)
	if status != http.StatusAccepted {
		t.Fatal(status, first)
	}
	var answer struct {
		ID string `json:"occurrence_id"`
	}
	if err := json.Unmarshal([]byte(first), &answer); err != nil || answer.ID == "" {
		t.Fatal(first, err)
	}
	history := func() (list []client.Occurrence) { n.JSON(&list, "jobs", "history", "deploy"); return list }
	for range 2 {
		n.Kill()
		n.Serve()
		if status, again := callHook(t, url(), hook.Secret, body, now); status != http.StatusAccepted || !strings.Contains(again, answer.ID) {
			t.Error(status, again)
		}
	}
	n.Until("the job is done", func() bool { list := history(); return len(list) == 1 && list[0].State == "done" })
	for _, c := range []struct {
		secret, body string
		at           time.Time
		status       int
	}{{hook.Secret, body, now.Add(-time.Hour), 401}, {strings.Repeat("0", 64), body, now, 404}, {hook.Secret, strings.Repeat("x", 65<<10), now, 413}} {
		if status, got := callHook(t, url(), c.secret, c.body, c.at); status != c.status {
			t.Errorf("%d %s", status, got)
		}
	}
	if list := history(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	shown := n.Must("messages", "list", "--conversation", history()[0].Conversation, "--json")
	if !strings.Contains(shown, "untrusted") || !strings.Contains(shown, "branch") {
		t.Errorf("the body is not there, or not untrusted:\n%s", shown)
	}
	old := hook.Secret
	n.JSON(&hook, "jobs", "edit", "deploy", "--webhook")
	if status, _ := callHook(t, url(), old, "new", time.Now()); status != 404 {
		t.Error(status)
	}
	if status, got := callHook(t, url(), hook.Secret, "new", time.Now()); status != http.StatusAccepted {
		t.Error(status, got)
	}
	n.Must("jobs", "remove", "deploy")
	if status, _ := callHook(t, url(), hook.Secret, "newer", time.Now()); status != 404 {
		t.Error(status)
	}
}
