package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	mine = record.Conversation{ID: id.ID{6: 0x70, 8: 0x80, 15: 1}, Owner: "ana", Title: "Sums", Created: at, Updated: at.Add(time.Hour),
		Agent: "assistant", Model: "test/one", Messages: 2, ToolCalls: 1, Tokens: message.Usage{Input: 9, Output: 3}, Metadata: map[string]string{"k": "v"}}
	at   = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	said = []conversation.Entry{
		{Message: &message.Message{ID: id.ID{6: 0x70, 8: 0x80, 15: 2}, Role: message.User, Blocks: []message.Block{&message.Text{Text: "2+2?"}}}, Interaction: id.ID{6: 0x70, 8: 0x80, 15: 9}, Shown: true},
		{Message: &message.Message{ID: id.ID{6: 0x70, 8: 0x80, 15: 3}, Role: message.Assistant, Final: true, Blocks: []message.Block{&message.Text{Text: "4"}}}, Interaction: id.ID{6: 0x70, 8: 0x80, 15: 9}, Shown: true},
	}
)

// double stands in for the runtime and the users: one conversation of ana's.
type double struct {
	api.Node
	fail     error
	cut      bool // Export fails after its first bytes
	asked    string
	deleted  bool
	people   *identity.Registry // nil: a new one
	inserted id.ID
	erased   []string
}

func (d *double) find(user string, conv id.ID) error {
	if d.fail != nil {
		return d.fail
	}
	if user != "ana" || conv != mine.ID {
		return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", conv)
	}
	return nil
}

func (d *double) Conversations(_ context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error) {
	d.asked = fmt.Sprint(user, " ", after, " ", limit)
	if d.fail != nil || user != "ana" {
		return nil, "", d.fail
	}
	return []record.Conversation{mine}, "c\"2", nil
}

func (d *double) Conversation(_ context.Context, user string, conv id.ID) (record.Conversation, error) {
	return mine, d.find(user, conv)
}

func (d *double) ReadMessages(_ context.Context, user string, conv id.ID, r runtime.Reading) ([]conversation.Entry, store.Cursor, error) {
	d.asked = fmt.Sprint(user, " ", r.After, " ", r.Limit)
	switch {
	case r.After == "end":
		return nil, "", d.find(user, conv)
	case r.Branch != "" || r.Reverse || r.Deleted:
		d.asked = fmt.Sprint(user, " ", r.Branch, " ", r.Reverse, " ", r.Deleted)
		return changed, "", d.find(user, conv)
	}
	return said, "c\"2", d.find(user, conv)
}

func (d *double) Rename(_ context.Context, user string, conv id.ID, title string) (record.Conversation, error) {
	c := mine
	c.Title = title
	return c, d.find(user, conv)
}

func (d *double) Erase(_ context.Context, user string, conv id.ID, names ...string) error {
	return d.ask(user, conv, "erase", names)
}

func (d *double) EraseUser(_ context.Context, by, user string) error {
	d.erased = append(d.erased, by+" "+user)
	return nil
}

func (d *double) EraseEvent(_ context.Context, by, user string, which id.ID) error {
	d.erased = append(d.erased, by+" "+user+" "+which.String())
	return nil
}

func (d *double) EraseMessages(_ context.Context, user string, conv id.ID, msgs ...id.ID) error {
	return d.ask(user, conv, "erase messages", msgs)
}

func (d *double) Delete(_ context.Context, user string, conv id.ID) error {
	d.deleted = true
	return d.find(user, conv)
}

func (d *double) ExportAs(_ context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error {
	if err := d.find(user, conv); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "in "+o.Format+map[bool]string{true: " masked"}[o.MaskPrivate]); err != nil {
		return err
	}
	if d.cut {
		return fault.New(fault.Unavailable, "store_broken", "no more")
	}
	_, err := io.WriteString(w, "!")
	return err
}

func (d *double) Models(context.Context) (llm.Listing, []string) {
	return llm.Listing{Models: []llm.Listed{{Provider: "test", Info: llm.Info{Name: "one", Created: at, Window: 1000}}},
		Errors: map[string]error{"down": fault.New(fault.Unavailable, "unreachable", "not reached").WithHint("start it")}}, []string{"default"}
}

// request sends one as a caller ("-": none) and returns status, head and body.
func request(t *testing.T, d *double, caller, method, path, body string) (int, http.Header, string, error) {
	t.Helper()
	if d.people == nil {
		d.people = identity.New(storetest.NewModel())
	}
	h := api.Handler(api.Options{Node: d, People: d.people, Logger: slog.New(slog.DiscardHandler)})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, admin := strings.CutSuffix(caller, "+admin"); caller != "-" {
			r = r.WithContext(httpauth.With(r.Context(), httpauth.Caller{User: user, Admin: admin}))
		}
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	defer s.Close()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := s.Client().Do(r)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, strings.TrimSpace(string(b)), err
}

// exchange is a request, and what it is answered with: a status and the whole
// body, or a status and the code of an error.
type exchange struct {
	user, method, path, body string
	status                   int
	answer                   string
	asked                    string // of the double
}

// answers wants requests to be answered, and the double to be asked as is said.
func answers(t *testing.T, list ...exchange) {
	t.Helper()
	for _, c := range list {
		d := &double{}
		status, _, body, err := request(t, d, c.user, c.method, root+c.path, c.body)
		want := strings.Replace(c.answer, "NEW", d.inserted.String(), 1)
		if err != nil || status != c.status || body != want || d.asked != c.asked {
			t.Errorf("%s %s: got %d %s, %v (asked %q)\nwant %d %s (asked %q)", c.method, c.path, status, body, err, d.asked, c.status, want, c.asked)
		}
	}
}

// refuses wants requests to be refused with a code.
func refuses(t *testing.T, list ...exchange) {
	t.Helper()
	for _, c := range list {
		status, _, body, err := request(t, &double{}, c.user, c.method, root+c.path, c.body)
		var v struct {
			Error struct{ Code, Message, Kind string }
		}
		err = errors.Join(err, json.Unmarshal([]byte(body), &v))
		if err != nil || status != c.status || v.Error.Code != c.answer || v.Error.Message == "" || v.Error.Kind == "" {
			t.Errorf("%s %s %.60s: got %d %s, %v; want %d %s", c.method, c.path, c.body, status, body, err, c.status, c.answer)
		}
	}
}

const (
	root = "/api/v1"
	conv = "/conversations/00000000-0000-7000-8000-000000000001"
	told = `{"id":"00000000-0000-7000-8000-000000000001","title":"Sums","created":"2030-01-02T03:04:05Z","updated":"2030-01-02T04:04:05Z","agent":"assistant","model":"test/one","metadata":{"k":"v"},"messages":2,"tool_calls":1,"tokens":{"input":9,"output":3}}`
)

func TestAnswers(t *testing.T) {
	answers(t, []exchange{
		{"ana", "GET", "/conversations", "", 200, `{"conversations":[` + told + `],"next":"c\"2"}`, "ana  100"},
		{"ana", "GET", "/conversations?after=c1&limit=1000", "", 200, `{"conversations":[` + told + `],"next":"c\"2"}`, "ana c1 1000"},
		{"eve", "GET", "/conversations", "", 200, `{"conversations":[]}`, "eve  100"},
		{"ana", "GET", conv, "", 200, told, ""},
		{"ana", "PATCH", conv, `{"title":" Höhere Sums "}`, 200, strings.Replace(told, "Sums", "Höhere Sums", 1), ""},
		{"ana", "DELETE", conv, "", 204, "", ""},
		{"ana", "GET", conv + "/messages?limit=2", "", 200, `{"messages":[{"interaction_id":"00000000-0000-7000-8000-000000000009","id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]},` +
			`{"interaction_id":"00000000-0000-7000-8000-000000000009","id":"00000000-0000-7000-8000-000000000003","role":"assistant","blocks":[{"type":"text","text":"4"}],"final":true}],"next":"c\"2"}`, "ana  2"},
		{"ana", "GET", conv + "/messages?after=end", "", 200, `{"messages":[]}`, "ana end 100"},
		{"ana", "GET", conv + "/export", "", 200, "in json!", ""},
		{"ana", "GET", conv + "/export?format=markdown&mask_private=true", "", 200, "in markdown masked!", ""},
		{"ana", "GET", "/profile", "", 200, "{}", ""},
		{"ana", "PUT", "/profile", `{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-at","units":"metric"}`, 200,
			`{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-AT","units":"metric"}`, ""},
		{"ana", "GET", "/messages?call=call_1", "", 200, `{"messages":[{"conversation_id":"` + mine.ID.String() + `","interaction_id":"00000000-0000-7000-8000-000000000009","branch":"main","pinned":true,` +
			`"id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]}]}`, ""},
		{"bob", "GET", "/messages?call=call_1", "", 200, `{"messages":[]}`, ""},
		{"ana", "GET", "/models", "", 200, `{"aliases":["default"],"models":[{"name":"test/one","provider":"test","created":"2030-01-02T03:04:05Z","window":1000}],` +
			`"errors":{"down":{"code":"unreachable","message":"not reached","remedy":"start it"}}}`, ""},
	}...)
	for path, want := range map[string]string{conv: "application/json", conv + "/export": "application/json", conv + "/export?format=markdown": "text/markdown; charset=utf-8"} {
		if _, h, _, err := request(t, &double{}, "ana", "GET", root+path, ""); err != nil || h.Get("Content-Type") != want {
			t.Errorf("%s: %s, %v", path, h.Get("Content-Type"), err)
		}
	}
}

// What is read of a request is refused where it is read, whichever the route.
func TestWhatIsReadIsChecked(t *testing.T) {
	const zero = "00000000-0000-0000-0000-000000000000"
	refuses(t, []exchange{
		{"-", "GET", "/conversations", "", 401, "unauthenticated", ""},
		{"ana", "GET", "/conversations?limit=0", "", 400, "limit_invalid", ""},
		{"ana", "GET", "/conversations?limit=1001", "", 400, "limit_invalid", ""},
		{"ana", "GET", "/conversations?limit=x", "", 400, "limit_invalid", ""},
		{"ana", "GET", "/search?q=4&limit=101", "", 400, "limit_invalid", ""},
		{"ana", "GET", "/search?q=4&around=6", "", 400, "around_invalid", ""},
		{"ana", "GET", "/search?q=4&since=yesterday", "", 400, "time_invalid", ""},
		{"ana", "GET", conv + "/messages?reverse=perhaps", "", 400, "reverse_invalid", ""},
		{"ana", "GET", "/conversations/x", "", 404, "conversation_not_found", ""},
		{"ana", "GET", "/conversations/" + zero, "", 404, "conversation_not_found", ""},
		{"ana", "GET", "/log?conversation=x", "", 404, "conversation_not_found", ""},
		{"ana", "GET", conv + "/messages/x/siblings", "", 404, "message_not_found", ""},
		{"ana", "GET", conv + "/changes?interaction=" + zero, "", 404, "interaction_not_found", ""},
		{"ana", "GET", "/search?q=a&q=b", "", 400, "parameter_repeated", ""},
		{"ana", "PATCH", conv, `{`, 400, "invalid_json", ""},
		{"ana", "PATCH", conv, "", 400, "invalid_json", ""},
		{"ana", "PATCH", conv, `{"Title":"x"}`, 400, "unknown_member", ""},
		{"ana", "PATCH", conv, `[]`, 400, "member_invalid", ""},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 70000) + `"}`, 413, "too_large", ""},
		{"ana", "POST", conv + "/messages/insert", `{"text":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "too_large", ""},
		{"ana", "GET", "/nothing", "", 404, "unknown_url", ""},
		{"ana", "GET", "", "", 404, "unknown_url", ""},
		{"ana", "PUT", conv, "", 405, "method_not_allowed", ""},
	}...)
	if _, h, _, _ := request(t, &double{}, "ana", "PUT", root+conv, ""); h.Get("Allow") != "GET, PATCH, DELETE" {
		t.Error(h.Get("Allow"))
	}
}

func TestRefusals(t *testing.T) {
	refuses(t, []exchange{
		{"eve", "GET", conv, "", 404, "conversation_not_found", ""},
		{"ana", "PATCH", conv, `{"title":" "}`, 400, "title_invalid", ""},
		{"ana", "PATCH", conv, `{"title":"a\nb"}`, 400, "title_invalid", ""},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 201) + `"}`, 400, "title_invalid", ""},
		{"ana", "GET", conv + "/export?format=pdf", "", 400, "format_unknown", ""},
		{"ana", "GET", "/messages", "", 400, "call_missing", ""},
		{"ana", "PUT", "/profile", `{"time_zone":"X/Y"}`, 400, "time_zone_unknown", ""},
		{"ana", "GET", "/keys", "", 403, "admin_only", ""},
		{"ana", "POST", "/keys", `{"user":"ana"}`, 403, "admin_only", ""},
		{"ana", "DELETE", "/keys/00000000-0000-7000-8000-000000000001", "", 403, "admin_only", ""},
		{"local+admin", "POST", "/keys", `{"user":"A B"}`, 400, "user_invalid", ""},
		{"local+admin", "POST", "/keys", `{"user":"ana","expires":"tomorrow"}`, 400, "member_invalid", ""},
		{"local+admin", "DELETE", "/keys/x", "", 404, "key_not_found", ""},
		{"ana", "GET", "/audit/verify?anchor=1:a&anchor=2:b", "", 422, "audit_unsupported", ""},
		{"ana", "GET", "/resources", "", 422, "resources_unsupported", ""},
		{"ana", "POST", "/agents/inspect", `{"path":"x"}`, 422, "agents_unsupported", ""},
		{"ana", "GET", "/policy", "", 422, "policy_unsupported", ""},
	}...)
	answers(t, exchange{"ana", "GET", "/agents", "", 200, `{"agents":[]}`, ""})
}

func TestKeys(t *testing.T) {
	d := &double{}
	status, _, body, err := request(t, d, "local+admin", "POST", root+"/keys", `{"user":"ana","name":"laptop","expires":"2040-01-01T00:00:00Z"}`)
	var k client.Key
	if err = errors.Join(err, json.Unmarshal([]byte(body), &k)); err != nil || status != 201 || !k.Usable || !identity.WellFormed(k.Secret) ||
		k.User != "ana" || k.Name != "laptop" || k.Expires.Year() != 2040 {
		t.Errorf("got %d %s, %v", status, body, err)
	}
	if status, _, body, err := request(t, d, "local+admin", "DELETE", root+"/keys/"+k.ID, ""); err != nil || status != 204 {
		t.Errorf("got %d %s, %v", status, body, err)
	}
	_, _, body, err = request(t, d, "local+admin", "GET", root+"/keys?user=ana", "")
	if err != nil || !strings.Contains(body, `"revoked":`) || !strings.Contains(body, `"usable":false`) || strings.Contains(body, k.Secret) {
		t.Errorf("got %s, %v", body, err)
	}
	if _, _, body, _ = request(t, d, "local+admin", "GET", root+"/keys?user=bo", ""); body != `{"keys":[]}` {
		t.Error(body)
	}
}

func TestFailures(t *testing.T) {
	d := &double{fail: errors.New("open /secret/path: no")}
	for _, path := range []string{"/conversations", conv, conv + "/messages", conv + "/export", conv + "/branches", "/requests", "/log", "/search?q=4", "/approvals", "/grants"} {
		status, _, body, err := request(t, d, "ana+admin", "GET", root+path, "")
		if err != nil || status != 500 || !strings.Contains(body, `"internal"`) || strings.Contains(body, "secret") {
			t.Errorf("%s: got %d %s, %v", path, status, body, err)
		}
	}
	// What breaks off must not look whole.
	_, _, body, err := request(t, &double{cut: true}, "ana", "GET", root+conv+"/export", "")
	if err == nil {
		t.Errorf("got %q and no error", body)
	}
	// A refusal of the node reaches the caller with its code.
	d.fail = fault.New(fault.Invalid, "splits_call", "no").WithHint("take another")
	if status, _, body, err := request(t, d, "ana", "POST", root+conv+"/branches", `{}`); err != nil || status != 400 || !strings.Contains(body, `"remedy":"take another"`) {
		t.Errorf("%d %s %v", status, body, err)
	}
}

func TestHealth(t *testing.T) {
	var ready error
	h := api.Health(func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return ready
	})
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	check := func(method, path string, status int, body string) {
		t.Helper()
		if s, b := get(method, path); s != status || body != "" && b != body {
			t.Errorf("%s %s: got %d %s", method, path, s, b)
		}
	}
	check("GET", "/healthz", 200, `{"status":"ok"}`)
	check("GET", "/readyz", 200, `{"status":"ready"}`)
	ready = fault.New(fault.Unavailable, "disk_full", "/secret/path is full")
	check("GET", "/healthz", 200, `{"status":"ok"}`)
	check("GET", "/readyz", 503, `{"code":"disk_full","status":"unavailable"}`)
	check("POST", "/healthz", 405, "")
}

// Every route of the table refuses what it would have to pass over.
func TestEveryRouteRefusesUnknownParameters(t *testing.T) {
	routes := api.Routes()
	if len(routes) < 60 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		for _, name := range []string{"id", "branch", "message", "interaction", "block", "user", "group"} {
			path = strings.ReplaceAll(path, "{"+name+"}", mine.ID.String())
		}
		for query, code := range map[string]string{"stat=done": "parameter_unknown", "Limit=1": "parameter_unknown", "%zz": "query_invalid"} {
			d := &double{}
			status, _, body, err := request(t, d, "ana+admin", method, path+"?"+query, "{}")
			if err != nil || status != 400 || !strings.Contains(body, `"code":"`+code+`"`) || d.asked != "" {
				t.Errorf("%s?%s: %d %s, %v, asked %q", route, query, status, body, err, d.asked)
			}
		}
	}
}
