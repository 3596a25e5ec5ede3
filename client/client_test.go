package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/client"
)

// canned is a server with canned answers that records its requests.
func canned(t *testing.T, answers map[string]string) (*client.Client, func() []string) {
	t.Helper()
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		line := strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(b))
		asked = append(asked, line)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s without the credential", line)
		}
		answer, ok := answers[line]
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"error":{"code":"conversation_not_found","message":"there is none","kind":"not_found","remedy":"look","retry":"after","retry_after_ms":1500}}`)
		case answer == "":
			w.WriteHeader(http.StatusNoContent)
		default:
			io.WriteString(w, answer)
		}
	}))
	t.Cleanup(s.Close)
	return client.New(client.Options{URL: s.URL + "/", Token: func() (string, error) { return "secret", nil }}), func() []string { return asked }
}

func TestCalls(t *testing.T) {
	ctx := t.Context()
	c, asked := canned(t, map[string]string{
		"GET /api/v1/conversations?limit=3":                                    `{"conversations":[{"id":"a","messages":2},{"id":"b"}],"next":"n"}`,
		"GET /api/v1/conversations?after=n&limit=1":                            `{"conversations":[{"id":"c"}]}`,
		"GET /api/v1/users/a%2Fb":                                              `{"user":"a/b","groups":["x"]}`,
		"DELETE /api/v1/conversations/a?erase=true":                            "",
		"GET /api/v1/conversations/a/export?format=markdown":                   "# Talk",
		`POST /api/v1/conversations/a/tidy {"how":"compact","tools":null}`:     `{"changed":7}`,
		"GET /api/v1/resources/item?space=group%3Ax&uri=cld%3Ah.N.1&version=2": `{"uri":"cld:h.N.1","version":2,"body":{"a":1}}`,
		"GET /api/v1/log?branches=all&limit=1&since=2030-01-02T03%3A04%3A05Z":  `{"entries":[{"id":"m/0","took_ms":5}]}`,
	})
	list, err := c.Conversations(ctx, 3)
	if err != nil || len(list) != 3 || list[0].Messages != 2 || list[2].ID != "c" {
		t.Error(list, err)
	}
	if u, err := c.User(ctx, "a/b"); err != nil || !slices.Equal(u.Groups, []string{"x"}) {
		t.Error(u, err)
	}
	if err := c.DeleteConversation(ctx, "a", true); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := c.Export(ctx, "a", "markdown", false, &b); err != nil || b.String() != "# Talk" {
		t.Error(&b, err)
	}
	if n, err := c.Tidy(ctx, "a", "compact"); err != nil || n != 7 {
		t.Error(n, err)
	}
	if r, err := c.Resource(ctx, client.Item{URI: "cld:h.N.1", Space: "group:x", Version: 2}); err != nil || string(r.Body) != `{"a":1}` {
		t.Error(r, err)
	}
	if l, err := c.Log(ctx, client.LogQuery{AllBranches: true, Since: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}, 1); err != nil || l[0].TookMS != 5 {
		t.Error(l, err)
	}
	_, err = c.Conversation(ctx, "gone")
	var e *client.Error
	if !errors.As(err, &e) || e.Code != "conversation_not_found" || e.After() != 1500*time.Millisecond || e.Error() != "there is none (look)" {
		t.Errorf("%v", err)
	}
	if len(asked()) != 9 {
		t.Error(asked())
	}
}

// A missing or garbled member of an answer is an error, never an empty list.
func TestGarbledAnswers(t *testing.T) {
	ctx := t.Context()
	for _, answer := range []string{`{}`, `x`, `{"groups":7}`, `{"groups":[7]}`, `{"groups":[{"name":"a"}`} {
		c, _ := canned(t, map[string]string{"GET /api/v1/groups": answer})
		var e *client.Error
		if list, err := c.Groups(ctx); !errors.As(err, &e) || e.Code != "server_unreachable" {
			t.Errorf("%s: %v %v", answer, list, err)
		}
	}
	gone := client.New(client.Options{URL: "http://127.0.0.1:1"})
	var e *client.Error
	if _, err := gone.Groups(ctx); !errors.As(err, &e) || e.Code != "server_unreachable" || e.Remedy == "" {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := gone.Groups(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := gone.Dial(ctx); !errors.As(err, &e) || e.Code != "server_unreachable" {
		t.Error(err)
	}
}
