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

const (
	root  = "/api/v1"
	conv  = root + "/conversations/00000000-0000-7000-8000-000000000001"
	other = root + "/conversations/00000000-0000-7000-8000-0000000000ff"
	told  = `{"id":"00000000-0000-7000-8000-000000000001","title":"Sums","created":"2030-01-02T03:04:05Z","updated":"2030-01-02T04:04:05Z","agent":"assistant","model":"test/one","metadata":{"k":"v"},"messages":2,"tool_calls":1,"tokens":{"input":9,"output":3}}`
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
		asked              string
	}{
		{"GET", root + "/conversations", "", 200, `{"conversations":[` + told + `],"next":"c\"2"}`, "ana  100"},
		{"GET", root + "/conversations?after=c1&limit=1000", "", 200, `{"conversations":[` + told + `],"next":"c\"2"}`, "ana c1 1000"},
		{"GET", conv, "", 200, told, ""},
		{"PATCH", conv, `{"title":" Höhere Sums "}`, 200, strings.Replace(told, "Sums", "Höhere Sums", 1), ""},
		{"DELETE", conv, "", 204, "", ""},
		{"GET", conv + "/messages?limit=2", "", 200, `{"messages":[{"interaction_id":"00000000-0000-7000-8000-000000000009","id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]},` +
			`{"interaction_id":"00000000-0000-7000-8000-000000000009","id":"00000000-0000-7000-8000-000000000003","role":"assistant","blocks":[{"type":"text","text":"4"}],"final":true}],"next":"c\"2"}`, "ana  2"},
		{"GET", conv + "/messages?after=end", "", 200, `{"messages":[]}`, "ana end 100"},
		{"GET", conv + "/export", "", 200, "in json!", ""},
		{"GET", conv + "/export?format=json", "", 200, "in json!", ""},
		{"GET", conv + "/export?format=markdown", "", 200, "in markdown!", ""},
		{"GET", root + "/profile", "", 200, "{}", ""},
		{"PUT", root + "/profile", `{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-at","units":"metric"}`, 200,
			`{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-AT","units":"metric"}`, ""},
		{"GET", root + "/models", "", 200, `{"aliases":["default"],"models":[{"name":"test/one","provider":"test","created":"2030-01-02T03:04:05Z","window":1000}],` +
			`"errors":{"down":{"code":"unreachable","message":"not reached","remedy":"start it"}}}`, ""},
	} {
		d := &double{}
		status, h, body, err := request(t, d, "ana", c.method, c.path, c.body)
		if err != nil || status != c.status || body != c.answer || d.asked != c.asked {
			t.Errorf("%s %s: got %d %s, %v (asked %q)\nwant %d %s (asked %q)", c.method, c.path, status, body, err, d.asked, c.status, c.answer, c.asked)
		}
		want := "application/json"
		if strings.HasSuffix(c.path, "markdown") {
			want = "text/markdown; charset=utf-8"
		}
		if status == 200 && h.Get("Content-Type") != want {
			t.Errorf("%s %s: %s", c.method, c.path, h.Get("Content-Type"))
		}
	}
}

func TestNobodyElses(t *testing.T) {
	if _, _, body, err := request(t, &double{}, "eve", "GET", root+"/conversations", ""); err != nil || body != `{"conversations":[]}` {
		t.Errorf("got %s, %v", body, err)
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"title":"x"}`}, {"DELETE", "", ""}, {"GET", "/messages", ""}, {"GET", "/export", ""}, {"GET", "/export?format=markdown", ""},
	} {
		_, _, none, err := request(t, &double{}, "eve", c.method, other+c.path, c.body)
		if err != nil {
			t.Fatal(err)
		}
		status, _, foreign, err := request(t, &double{}, "eve", c.method, conv+c.path, c.body)
		foreign = strings.Replace(foreign, "000000000001", "0000000000ff", 1)
		if err != nil || status != 404 || foreign != none || !strings.Contains(foreign, `"conversation_not_found"`) {
			t.Errorf("%s %s: got %d %s, and %s of one that is not there", c.method, c.path, status, foreign, none)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		caller, method, path, body string
		want                       string
	}{
		{"-", "GET", root + "/conversations", "", "401 unauthenticated"},
		{"ana", "GET", root + "/conversations?limit=0", "", "400 limit_invalid"},
		{"ana", "GET", root + "/conversations?limit=1001", "", "400 limit_invalid"},
		{"ana", "GET", root + "/conversations?limit=x", "", "400 limit_invalid"},
		{"ana", "GET", conv + "/messages?limit=-1", "", "400 limit_invalid"},
		{"ana", "GET", root + "/conversations/x", "", "404 conversation_not_found"},
		{"ana", "GET", root + "/conversations/x/messages", "", "404 conversation_not_found"},
		{"ana", "GET", root + "/conversations/x/export", "", "404 conversation_not_found"},
		{"ana", "DELETE", root + "/conversations/x", "", "404 conversation_not_found"},
		{"ana", "PATCH", root + "/conversations/x", "", "404 conversation_not_found"},
		{"ana", "PATCH", conv, `{`, "400 invalid_json"},
		{"ana", "PATCH", conv, `{"Title":"x"}`, "400 unknown_member"},
		{"ana", "PATCH", conv, `{"title":" "}`, "400 title_invalid"},
		{"ana", "PATCH", conv, `{"title":"a\nb"}`, "400 title_invalid"},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 201) + `"}`, "400 title_invalid"},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 70000) + `"}`, "413 too_large"},
		{"ana", "GET", conv + "/export?format=pdf", "", "400 format_unknown"},
		{"ana", "PUT", root + "/profile", `{"time_zone":"X/Y"}`, "400 time_zone_unknown"},
		{"ana", "PUT", root + "/profile", `{"timezone":"UTC"}`, "400 unknown_member"},
		{"ana", "GET", root + "/keys", "", "403 admin_only"},
		{"ana", "POST", root + "/keys", `{"user":"ana"}`, "403 admin_only"},
		{"ana", "DELETE", root + "/keys/00000000-0000-7000-8000-000000000001", "", "403 admin_only"},
		{"local+admin", "POST", root + "/keys", `{"user":"A B"}`, "400 user_invalid"},
		{"local+admin", "POST", root + "/keys", `{"user":"ana","expires":"tomorrow"}`, "400 member_invalid"},
		{"local+admin", "DELETE", root + "/keys/x", "", "404 key_not_found"},
		{"ana", "GET", root + "/nothing", "", "404 unknown_url"},
		{"ana", "GET", root, "", "404 unknown_url"},
		{"ana", "PUT", conv, "", "405 method_not_allowed GET, PATCH, DELETE"},
		{"ana", "DELETE", root + "/profile", "", "405 method_not_allowed GET, PUT"},
	} {
		status, h, body, err := request(t, &double{}, c.caller, c.method, c.path, c.body)
		var v struct {
			Error struct{ Code, Message, Kind string }
		}
		if err == nil {
			err = json.Unmarshal([]byte(body), &v)
		}
		got := strings.TrimSpace(fmt.Sprint(status, " ", v.Error.Code, " ", h.Get("Allow")))
		if err != nil || got != c.want || v.Error.Message == "" || v.Error.Kind == "" {
			t.Errorf("%s %s %.60s: got %s %s, %v; want %s", c.method, c.path, c.body, got, body, err, c.want)
		}
	}
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
	for path, method := range map[string]string{"/conversations": "GET", conv[len(root):]: "GET",
		conv[len(root):] + "/messages": "GET", conv[len(root):] + "/export": "GET"} {
		status, _, body, err := request(t, d, "ana+admin", method, root+path, "")
		if err != nil || status != 500 || !strings.Contains(body, `"internal"`) || strings.Contains(body, "secret") {
			t.Errorf("%s: got %d %s, %v", path, status, body, err)
		}
	}
	// What breaks off must not look whole.
	_, _, body, err := request(t, &double{cut: true}, "ana", "GET", conv+"/export", "")
	if err == nil {
		t.Errorf("got %q and no error", body)
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

func TestParametersAreGivenOnce(t *testing.T) {
	for path, want := range map[string]string{
		"/search?q=a&q=b": "parameter_repeated", "/conversations?limit=1&limit=2": "parameter_repeated",
		"/audit/verify?anchor=1:a&anchor=2:b": "audit_unsupported", "/log?outcome=done": "outcome_unknown",
		"/resources?bodies=true": "resources_unsupported", "/resources?bodies=yes": "bodies_invalid", "/search?mode=hybrid&q=a": "parameter_unknown", "/messages": "call_missing",
	} {
		_, _, body, err := request(t, &double{}, "ana", "GET", root+path, "")
		if err != nil || !strings.Contains(body, `"code":"`+want+`"`) {
			t.Errorf("%s: %s, %v, want %s", path, body, err, want)
		}
	}
}

func TestCallsAreFoundByTheProvidersID(t *testing.T) {
	for user, want := range map[string]string{
		"ana": `{"messages":[{"conversation_id":"` + mine.ID.String() + `","interaction_id":"00000000-0000-7000-8000-000000000009","branch":"main","pinned":true,` +
			`"id":"00000000-0000-7000-8000-000000000002","role":"user","blocks":[{"type":"text","text":"2+2?"}]}]}`,
		"bob": `{"messages":[]}`,
	} {
		if status, _, body, err := request(t, &double{}, user, "GET", root+"/messages?call=call_1", ""); err != nil || status != 200 || body != want {
			t.Errorf("%s: %d %s, %v", user, status, body, err)
		}
	}
}
