package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
	"steward/internal/store"
)

var acted = runtime.IntentView{ID: id.ID{15: 7}, State: intent.Done, Tool: "mail.send", Args: json.RawMessage(`{}`), Created: at, Changed: at}

func (d *double) own(user, what string) (runtime.IntentView, error) {
	d.asked = what
	if user != "ana" {
		return runtime.IntentView{}, fault.New(fault.NotFound, "intent_not_found", "there is no action")
	}
	v := acted
	if strings.HasPrefix(what, "retry waiting") {
		v.State = intent.Awaiting
	}
	return v, d.fail
}

func (d *double) Intents(_ context.Context, user string, f runtime.IntentFilter, after store.Cursor, limit int) ([]runtime.IntentView, store.Cursor, error) {
	v, err := d.own(user, fmt.Sprint(f.State, "|", f.Dead, "|", f.Conversation, "|", after, "|", limit))
	if err != nil {
		return []runtime.IntentView{}, "", d.fail
	}
	return []runtime.IntentView{v}, "next", nil
}

func (d *double) Intent(_ context.Context, user, which string) (runtime.IntentView, error) {
	return d.own(user, "show "+which)
}

func (d *double) AnswerIntent(_ context.Context, user, which, hash, reason string, approve bool) (runtime.IntentView, error) {
	return d.own(user, fmt.Sprint("answer ", which, "|", hash, "|", reason, "|", approve))
}

func (d *double) CancelIntent(_ context.Context, user, which string) (runtime.IntentView, error) {
	return d.own(user, "cancel "+which)
}

func (d *double) RetryIntent(ctx context.Context, user, which string) (runtime.IntentView, error) {
	if _, bound := ctx.Deadline(); !bound {
		return runtime.IntentView{}, errors.New("it would wait for ever")
	}
	return d.own(user, "retry "+which)
}

func (d *double) UndoIntent(_ context.Context, user, which string) (runtime.IntentView, error) {
	return d.own(user, "undo "+which)
}

func (d *double) ResolveIntent(_ context.Context, user, which string, w effect.Resolution) (runtime.IntentView, error) {
	return d.own(user, fmt.Sprint("resolve ", which, "|", w.Done, "|", w.Note))
}

func TestIntents(t *testing.T) {
	b, err := json.Marshal(acted)
	if err != nil {
		t.Fatal(err)
	}
	one := string(b)
	answers(t, []exchange{
		{"ana", "GET", "/intents", "", 200, `{"intents":[` + one + `],"next":"next"}`, "|false||" + "|100"},
		{"ana", "GET", "/intents?state=failed&dead=true&limit=5&after=x&conversation=" + id.ID{15: 1}.String(), "", 200, `{"intents":[` + one + `],"next":"next"}`,
			"failed|true|00000000-0000-0000-0000-000000000001|x|5"},
		{"eve", "GET", "/intents", "", 200, `{"intents":[]}`, "|false||" + "|100"},
		{"ana", "GET", "/intents/12345678", "", 200, one, "show 12345678"},
		{"ana", "GET", "/intents/cld:a.B.1%2Feffect.Intent.0", "", 200, one, "show cld:a.B.1/effect.Intent.0"},
		{"ana", "POST", "/intents/x/approve", `{"hash":"h"}`, 200, one, "answer x|h||true"},
		{"ana", "POST", "/intents/x/deny", `{"hash":"h","reason":"no"}`, 200, one, "answer x|h|no|false"},
		{"ana", "POST", "/intents/x/cancel", `{}`, 200, one, "cancel x"},
		{"ana", "POST", "/intents/x/undo", "", 200, one, "undo x"},
		{"ana", "POST", "/intents/waiting/retry", "", 202, strings.Replace(one, `"done"`, `"awaiting_approval"`, 1), "retry waiting"},
		{"ana", "POST", "/intents/x/resolve", `{"done":true,"note":"seen"}`, 200, one, "resolve x|true|seen"},
	}...)
	refuses(t, []exchange{
		{"eve", "GET", "/intents/x", "", 404, "intent_not_found", ""},
		{"eve", "POST", "/intents/x/undo", "", 404, "intent_not_found", ""},
		{"eve", "POST", "/intents/x/approve", "{}", 404, "intent_not_found", ""},
		{"eve", "POST", "/intents/x/resolve", "{}", 400, "done_missing", ""},
		{"eve", "POST", "/intents/x/resolve", `{"done":false}`, 404, "intent_not_found", ""},
	}...)
}

// A service approves nothing by this way either; it may say no.
func TestIntentsOfServices(t *testing.T) {
	d := &double{}
	h := api.Handler(api.Options{Node: d})
	bot := httpauth.Caller{User: "ana", Roles: []string{policy.RoleService}}
	for path, want := range map[string]int{"/intents/x/approve": 403, "/intents/x/deny": 200} {
		w := httptest.NewRecorder()
		d.asked = ""
		r := httptest.NewRequest("POST", root+path, strings.NewReader(`{"hash":"h"}`))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r.WithContext(httpauth.With(r.Context(), bot)))
		if w.Code != want || (d.asked == "") != (want == 403) {
			t.Errorf("%s: %d %s (%q)", path, w.Code, w.Body, d.asked)
		}
	}
}
