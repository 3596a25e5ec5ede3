package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/settings"
)

const goodKey = "sk-office-0123456789abcdef"

// officeModels is a server of models that takes goodKey, as
// https://platform.openai.com/docs/api-reference/chat/create describes it. Its model does not use tools.
func officeModels(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+goodKey:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"object":"list","data":[{"id":"large","object":"model","created":2},{"id":"small","object":"model","created":1}]}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","model":"large","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}]}`+"\n\n"+
				`data: {"id":"x","object":"chat.completion.chunk","model":"large","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// withoutModels is a node on which only the built-in provider answers. It looks for no server of this machine.
func withoutModels(t *testing.T) (*App, *Local, string) {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, ".config/steward/steward.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "providers:\n"
	for v := range Vendors().All() {
		if v.Access == "local" {
			text += "  " + v.Name + ":\n    off: true\n"
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &App{Stderr: io.Discard, Dir: t.TempDir(), Environ: []string{"HOME=" + home}}
	set, err := a.Settings()
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.OpenLocal(t.Context(), set, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, l, file
}

func TestAProviderIsConnectedWhileStewardRuns(t *testing.T) {
	a, l, file := withoutModels(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	url := officeModels(t)
	stored := func() string {
		key, _ := secret.NewStore(secret.Folder(a.Set.Data)).Get(KeySecret("office"))
		return key
	}
	answers := func() string {
		r, err := l.node.Resolve("")
		if err != nil {
			t.Fatal(err)
		}
		return r.Models[0]
	}
	for code, in := range map[string]client.Connection{
		"key_refused":           {Provider: "office", Key: "sk-office-wrong0000000", BaseURL: url},
		"provider_unknown":      {Key: "nobody-knows-this-key"},
		"key_invalid":           {Provider: "openai", Key: "command:touch"},
		"base_url_missing":      {Provider: "office", Key: goodKey},
		"base_url_invalid":      {Provider: "office", Key: goodKey, BaseURL: "file:///etc/passwd"},
		"key_missing":           {Provider: "openai"},
		"provider_name_invalid": {Provider: "a.b", Key: goodKey, BaseURL: url},
	} {
		if _, err := l.setup.Connect(t.Context(), "local", in); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) || stored() != "" || answers() != "offline/steward" {
		t.Fatalf("a connection that failed changed something: %v\n%s", err, after)
	}

	tried, err := l.setup.Connect(t.Context(), "local", client.Connection{Provider: "office", Key: goodKey, BaseURL: url})
	if err != nil || tried.Model != "office/large" || tried.Tools || !tried.Default {
		t.Fatal(tried, err)
	}
	if after, err := os.ReadFile(file); err != nil || strings.Contains(string(after), goodKey) || !strings.Contains(string(after), "store:office_api_key") || stored() != goodKey {
		t.Fatalf("%v\n%s", err, after)
	}
	if answers() != "office/large" {
		t.Errorf("the node asks %s", answers())
	}
	if err := l.setup.Use(t.Context(), "local", "office/small"); err != nil || answers() != "office/small" {
		t.Error(err, answers())
	}
	if err := l.setup.Use(t.Context(), "local", "nobody/small"); !fault.HasCode(err, "model_not_found") {
		t.Error(err)
	}
	for name, ask := range map[string]func() (any, error){
		"settings":  func() (any, error) { return l.setup.Settings(t.Context()) },
		"providers": func() (any, error) { return l.setup.Providers(t.Context()) },
	} {
		x, err := ask()
		b, _ := json.Marshal(x)
		if err != nil || strings.Contains(string(b), goodKey) || !strings.Contains(string(b), "office") {
			t.Errorf("%s: %v %s", name, err, b)
		}
	}
	if err := l.setup.Disconnect(t.Context(), "local", "office"); err != nil || answers() != "offline/steward" || stored() != "" {
		t.Error(err, answers(), stored())
	}
	if err := l.setup.Disconnect(t.Context(), "local", "offline"); !fault.HasCode(err, "provider_not_found") {
		t.Error(err)
	}
	if _, err := l.setup.Connect(t.Context(), "local", client.Connection{Provider: "office", Key: goodKey, BaseURL: url}); err != nil {
		t.Errorf("it cannot be connected again: %v", err)
	}
}

// browser is signed in at the page.
type signedIn struct {
	t    *testing.T
	url  string
	http *http.Client
}

func (b *signedIn) do(method, path, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", b.url)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	res, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (b *signedIn) want(method, path, body string, status int, parts ...string) string {
	b.t.Helper()
	got, text := b.do(method, path, body)
	if got != status {
		b.t.Errorf("%s %s: %d %.600s", method, path, got, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			b.t.Errorf("%s %s %s: %q is not in %.2000s", method, path, body, p, text)
		}
	}
	return text
}

func TestSettingsInTheBrowser(t *testing.T) {
	a, l, _ := withoutModels(t)
	s, err := a.Listen(t.Context(), a.Set, l, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the node is closed as well
	signIn := func(user string) *signedIn {
		link, err := l.Keys.NewLink(t.Context(), "local", user, linkFor)
		if err != nil {
			t.Fatal(err)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &signedIn{t, s.URL, &http.Client{Jar: jar}}
		b.want("POST", "/in", `{"link":"`+link+`"}`, 200)
		return b
	}
	boss := signIn("local")
	boss.want("GET", "/", "", 200, `id="connect"`, `href="/settings/start"`)
	boss.want("GET", "/settings", "", 200, `data-do="sign-out"`, `data-change="language"`)
	boss.want("GET", "/settings/models", "", 200, `data-do="provider-ask"`, `id="local"`)
	boss.want("GET", "/settings/people", "", 200, `href="/settings/people/local"`)
	boss.want("GET", "/settings/agents", "", 200)
	boss.want("GET", "/settings/channels", "", 200)
	boss.want("GET", "/settings/policy", "", 200, "default/")
	boss.want("GET", "/settings/all?q=day_cost", "", 200, "limits.day_cost")

	connect := `{"provider":"other","name":"office","url":"` + officeModels(t) + `","key":"%s"}`
	boss.want("POST", "/do/provider-connect", fmt.Sprintf(connect, "sk-office-wrong0000000"), 400, "key_refused")
	if text := boss.want("POST", "/do/provider-connect", fmt.Sprintf(connect, goodKey), 200, "provider-office", "office/large"); strings.Contains(text, goodKey) {
		t.Error("the key is shown")
	}
	if text := boss.want("GET", "/", "", 200); strings.Contains(text, `id="connect"`) {
		t.Error("a model answers, and the page asks for one")
	}
	boss.want("POST", "/do/model-use", `{"model":"office/small"}`, 200, "office/small")

	boss.want("POST", "/do/user-add", `{"user":"ann","display":"Ann","role":"member"}`, 200, "/settings/people/ann")
	boss.want("POST", "/do/invite", `{"user":"ann"}`, 200, s.URL+"/in#")
	boss.want("POST", "/do/key-add", `{"user":"ann","name":"script"}`, 200, "sk-steward-")
	boss.want("GET", "/settings/people/ann", "", 200, "script", `data-do="key-revoke-ask"`)
	boss.want("POST", "/do/user-remove", `{"user":"ann","confirm":"an"}`, 400)

	for _, url := range []string{"file:///bin/sh", "sh", "https://wiki.example/${HOME}"} {
		boss.want("POST", "/do/server-add", `{"name":"wiki","url":"`+url+`"}`, 400, "mcp_url_invalid")
	}
	boss.want("POST", "/do/server-add", `{"name":"wiki","url":"http://127.0.0.1:9/mcp","token":"wiki-token-0123456789"}`, 200)
	if b, err := os.ReadFile(filepath.Join(a.Set.Data, "mcp.json")); err != nil || strings.Contains(string(b), "wiki-token") || !strings.Contains(string(b), "${MCP_WIKI_TOKEN}") {
		t.Errorf("%v %s", err, b)
	}
	boss.want("POST", "/do/server-remove", `{"name":"wiki"}`, 200)
	boss.want("POST", "/do/channel-add", `{"kind":"pigeon","token":"0123456789abcdef"}`, 400, "channel_kind_unknown")
	boss.want("POST", "/do/channel-add", `{"kind":"webhook","token":"env:HOME"}`, 400, "token_invalid")
	boss.want("POST", "/do/channel-test", `{"name":"webhook"}`, 404)
	boss.want("POST", "/do/channel-remove", `{"name":"webhook"}`, 404)

	boss.want("POST", "/do/policy-ask", `{}`, 200, "house.rego")
	boss.want("POST", "/do/policy-try", `{"name":"house.rego","text":"package steward\ndeny {"}`, 400, "policy_invalid")
	boss.want("POST", "/do/policy-try", `{"name":"house.rego","text":"package steward\n"}`, 200, "policy-save")
	boss.want("POST", "/do/policy-save", `{"name":"house.rego","text":"package steward\n"}`, 200)
	if b, err := os.ReadFile(filepath.Join(PoliciesFolder(a.Set.Data), "house.rego")); err != nil || string(b) != "package steward\n" {
		t.Errorf("%v %s", err, b)
	}

	ann := signIn("ann")
	ann.want("GET", "/settings", "", 200, "Ann")
	for _, path := range []string{"models", "people", "people/local", "policy", "all", "channels"} {
		status, text := ann.do("GET", "/settings/"+path, "")
		if status != 403 && (path != "policy" || strings.Contains(text, "default/")) {
			t.Errorf("%s: %d", path, status)
		}
	}
	for name, body := range map[string]string{"provider-connect": fmt.Sprintf(connect, goodKey), "model-use": `{"model":"offline/steward"}`, "model-test": `{"model":"office/small"}`, "provider-remove": `{"name":"office"}`,
		"user-add": `{"user":"eve"}`, "invite": `{"user":"local"}`, "key-add": `{"user":"local"}`, "group-add": `{"name":"x"}`, "server-add": `{"name":"wiki","url":"http://127.0.0.1:9/mcp"}`, "policy-try": `{"name":"a.rego","text":"package steward"}`, "policy-save": `{"name":"a.rego","text":"package steward"}`, "channel-add": `{"kind":"webhook","token":"0123456789abcdef"}`} {
		ann.want("POST", "/do/"+name, body, 403)
	}
	list, err := l.Keys.Sessions(t.Context(), identity.Local)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	ann.want("POST", "/do/session-end", `{"id":"`+list[0].ID.String()+`"}`, 404)
	boss.want("POST", "/do/language", `{"value":"de"}`, 200)
	boss.want("GET", "/settings", "", 200, "Einstellungen")
	boss.want("POST", "/do/language", `{"value":"xx"}`, 400)
	boss.want("POST", "/do/sign-out", `{}`, 200)
	boss.want("GET", "/settings", "", 401)
	if list, err := l.Keys.Sessions(t.Context(), identity.Local); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// A change that makes the settings unreadable is taken back.
func TestAChangeThatFailsIsTakenBack(t *testing.T) {
	_, l, file := withoutModels(t)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	err = l.setup.(*setupService).change(t.Context(), "local", func(_ *App, _ *settings.Loaded, file string) error {
		return settings.Edit(file, settings.Change{Key: "limits.parallel", Value: "many"})
	})
	if after, _ := os.ReadFile(file); err == nil || string(after) != string(before) {
		t.Errorf("%v\n%s", err, after)
	}
}
