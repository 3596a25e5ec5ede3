package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// receivers is a transport that answers as servers would: no connection is made.
type receivers func(r *http.Request, body map[string]any) int

func (f receivers) RoundTrip(r *http.Request) (*http.Response, error) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.WriteHeader(f(r, body))
	return w.Result(), nil
}

func token(context.Context) (string, error) { return "tk_secret", nil }

func TestEveryReceiverIsTold(t *testing.T) {
	got := map[string]map[string]any{}
	n := New(Options{Ntfy: Ntfy{Topic: "ann-7f3", Token: token}, Webhook: Webhook{URL: "https://hook.example/x"},
		Now: func() time.Time { return time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC) },
		Transport: receivers(func(r *http.Request, body map[string]any) int {
			got[r.URL.String()] = body
			if r.URL.Host == "ntfy.sh" && r.Header.Get("Authorization") != "Bearer tk_secret" || r.URL.Host != "ntfy.sh" && r.Header.Get("Authorization") != "" {
				t.Errorf("%s: %v", r.URL, r.Header)
			}
			return http.StatusOK
		})})
	if err := n.Notify(t.Context(), "ann", "Dentist\nat nine", "Leave at half past eight."); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	want := `{"https://hook.example/x":{"text":"Leave at half past eight.","time":"2026-11-24T08:00:00Z","title":"Dentist at nine","user":"ann"},` +
		`"https://ntfy.sh":{"message":"Leave at half past eight.","title":"Dentist at nine","topic":"ann-7f3"}}`
	if err != nil || string(b) != want {
		t.Errorf("%s\nwant %s", b, want)
	}
	if strings.Join(n.Receivers(), " ") != "ntfy webhook" {
		t.Error(n.Receivers())
	}
}

// The caller may end in the meantime: once one receiver was notified, the others are too.
func TestNobodyIsToldHalf(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	mails := 0
	n := New(Options{Webhook: Webhook{URL: "https://hook.example/x"},
		Mail: func(ctx context.Context, _, _ string) error {
			if ctx.Err() == nil {
				mails++
			}
			return ctx.Err()
		},
		Transport: receivers(func(*http.Request, map[string]any) int {
			cancel()
			return http.StatusOK
		})})
	if err := n.Notify(ctx, "ann", "Dentist", "at nine"); err != nil {
		t.Fatal(err)
	}
	if mails != 1 {
		t.Errorf("%d e-mails", mails)
	}
}

// A busy receiver is asked again, one that refuses is not, and one that works is enough.
func TestReceiversThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		asked   int32
		webhook bool
		code    string
	}{"busy": {503, 3, false, "notify_failed"}, "refuses": {403, 1, false, "notify_failed"}, "one works": {503, 3, true, ""}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				o := Options{Ntfy: Ntfy{Topic: "t"}, Transport: receivers(func(r *http.Request, _ map[string]any) int {
					if r.URL.Host != "ntfy.sh" {
						return http.StatusNoContent
					}
					asked.Add(1)
					return c.status
				})}
				if c.webhook {
					o.Webhook.URL = "https://hook.example/"
				}
				err := New(o).Notify(t.Context(), "ann", "", "x")
				if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) || asked.Load() != c.asked {
					t.Errorf("%v after %d tries", err, asked.Load())
				}
			})
		})
	}
	if err := New(Options{}).Notify(t.Context(), "ann", "", "x"); !fault.HasCode(err, "notify_off") {
		t.Error(err)
	}
}

func TestSend(t *testing.T) {
	var reply string
	n := New(Options{Ntfy: Ntfy{Topic: "t"}, Transport: receivers(func(_ *http.Request, body map[string]any) int {
		reply, _ = body["message"].(string)
		return http.StatusOK
	})})
	k := local.NewKit(tool.Env{Name: "notify"}, "domain:notify")
	Add(k, n)
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ä", 1800)
	b, _ := json.Marshal(map[string]string{"text": long}) //nolint:errcheck // a map of texts
	if _, err := list[0].Call(t.Context(), tool.Invocation{Args: b, User: "ann"}); err != nil || len(reply) > MaxText || !strings.HasSuffix(reply, "ä…") {
		t.Errorf("%v: %d bytes", err, len(reply))
	}
	if s := list[0].Spec(); s.Effect != tool.Action || !s.Out() {
		t.Errorf("%+v", s)
	}
}

// The receivers are their owner's: nobody else is offered the tool.
func TestTheToolIsTheOwners(t *testing.T) {
	k := local.NewKit(tool.Env{Name: "notify"}, "domain:notify")
	Add(k, New(Options{For: tool.OwnedBy(nil, nil)}))
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	if a := list[0].Spec().For; a.Admits("guest", nil) || !a.Admits(tool.OwnUser, nil) {
		t.Errorf("it is for %+v", a)
	}
}
