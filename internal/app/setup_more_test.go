package app

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/server/api"
	"steward/internal/server/auth"
)

// browse serves a node, and returns a function that signs a user in at its page.
func browse(t *testing.T, a *App, l *Local) func(user string) *signedIn {
	t.Helper()
	s, err := a.Listen(t.Context(), a.Set, l, "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // the node is closed as well
	return func(user string) *signedIn {
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
}

// A setting is changed in the browser: what is wrong stands at its field and changes nothing, what is in force at
// once and what waits for the next start is said, and what could open Steward is not changed there.
func TestSettingsAreChangedInTheBrowser(t *testing.T) {
	a, l, file := withoutModels(t)
	signIn := browse(t, a, l)
	boss := signIn("local")
	read := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := read()
	boss.want("GET", "/settings/all?q=limits", "", 200, `id="setting-limits.day_cost"`, `data-field-key="limits.day_cost"`)
	if text := boss.want("GET", "/settings/all?q=listen", "", 200, `id="setting-listen"`); strings.Contains(text, `data-field-key="listen"`) {
		t.Error("the address can be changed")
	}
	boss.want("POST", "/do/setting-ask", `{"key":"routing","on":"all"}`, 200, "auto", "always", "started again")
	boss.want("POST", "/do/setting-save", `{"key":"limits.day_cost","value":"lots"}`, 400, "setting_invalid", `"field":"value"`)
	boss.want("POST", "/do/setting-save", `{"key":"limits.time","value":""}`, 400, "setting_invalid")
	boss.want("POST", "/do/setting-save", `{"key":"listen","value":"0.0.0.0:80"}`, 403, "setting_guarded")
	boss.want("POST", "/do/setting-save", `{"key":"hosts","value":"evil.example"}`, 404, "setting_unknown")
	if read() != before {
		t.Fatalf("a wrong value was written:\n%s", read())
	}
	boss.want("POST", "/do/setting-save", `{"key":"limits.day_cost","value":"1.5","on":"all"}`, 200, "setting-limits.day_cost", "in force")
	boss.want("POST", "/do/setting-save", `{"key":"routing","value":"off","on":"all"}`, 200, "from the next start on")
	if !strings.Contains(read(), "day_cost: 1.5") || !strings.Contains(read(), `routing: "off"`) {
		t.Errorf("%s", read())
	}
	boss.want("POST", "/do/setting-unset", `{"key":"routing","on":"all"}`, 200)
	boss.want("POST", "/do/start-folder", `{"folder":"relative"}`, 400, `"field":"folder"`)
	boss.want("POST", "/do/start-folder", `{"folder":" "}`, 400, `"field":"folder"`)
	boss.want("POST", "/do/start-folder", `{"folder":"~/Work"}`, 200, "start-folder", "from the next start on")

	boss.want("POST", "/do/user-add", `{"user":"ann","role":"admin"}`, 200)
	boss.want("POST", "/do/user-add", `{"user":"bob.b","role":"member"}`, 200)
	boss.want("GET", "/settings/budgets", "", 200, `id="budget-ann"`, "limits.day_cost", "$1.50")
	boss.want("POST", "/do/budget-save", `{"user":"bob.b","day_cost":"5","day_tokens":"some"}`, 400, `"field":"day_tokens"`)
	if strings.Contains(read(), "bob") {
		t.Error("half a budget was written")
	}
	boss.want("POST", "/do/budget-save", `{"user":"bob.b","day_cost":"0.25","day_tokens":""}`, 200, "own limit", "$0.25")
	ann, bob := signIn("ann"), signIn("bob.b")
	bob.want("GET", "/settings", "", 200, "Your budget today", "$0.25")
	for path, status := range map[string]int{"/settings/budgets": 403, "/settings/start": 403, "/settings/skills": 403, "/settings/all": 403} {
		bob.want("GET", path, "", status)
	}
	if text := bob.want("GET", "/settings/agents", "", 200); strings.Contains(text, "server-ask") {
		t.Error("an ordinary user is offered what is refused")
	}
	for name, body := range map[string]string{"setting-save": `{"key":"limits.day_cost","value":"9"}`, "setting-unset": `{"key":"limits.day_cost"}`, "budget-save": `{"user":"bob.b","day_cost":"9"}`,
		"server-known-add": `{"name":"github","secret.GITHUB_PERSONAL_ACCESS_TOKEN":"0123456789"}`, "sign-in-begin": `{"name":"wiki"}`, "sign-in-wait": `{"name":"wiki"}`, "sign-in-answer": `{"name":"wiki","address":"x"}`,
		"skill-find": `{"source":"/"}`, "skill-approve": `{"source":"/","name":"x","hash":"x"}`, "skill-remove": `{"name":"x"}`, "start-folder": `{"folder":"/"}`, "start-connect": `{"key":"sk-x0123456789abcdef","provider":"openai"}`} {
		bob.want("POST", "/do/"+name, body, 403)
	}
	ann.want("POST", "/do/setting-save", `{"key":"limits.cost","value":"2"}`, 200)
	ann.want("POST", "/do/setting-save", `{"key":"workspace","value":"/"}`, 403, "setting_guarded")
	ann.want("GET", "/settings/start", "", 200, "Only the machine")
	ann.want("POST", "/do/skill-find", `{"source":"/"}`, 403, "admin_only")
	ann.want("POST", "/do/server-known-add", `{"name":"fetch"}`, 403, "program_guarded")
	for _, key := range []string{"limits.day_cost", "limits.cost"} { // the price of a server of one's own is not known
		boss.want("POST", "/do/setting-unset", `{"key":"`+key+`","on":"budgets"}`, 200, `"budgets"`)
	}
	boss.want("GET", "/settings/start", "", 200, `data-do="start-connect"`, `id="start-folder"`)
	boss.want("POST", "/do/start-connect", `{"key":"","provider":""}`, 400, `"field":"key"`)
	boss.want("POST", "/do/start-connect", `{"key":"nobody-knows-this","provider":""}`, 400, `"field":"provider"`)
	boss.want("POST", "/do/start-connect", `{"key":"sk-office-wrong0000000","name":"office","url":"`+officeModels(t)+`"}`, 400, "key_refused", `"field":"key"`)
	boss.want("POST", "/do/start-connect", `{"key":"`+goodKey+`","name":"office","url":"`+officeModels(t)+`"}`, 200, "start-models", "office/large")
	boss.want("POST", "/do/start-model", `{"model":"office/small"}`, 200, "office/small")
}

// What a variable sets cannot be changed in the file, and the page says where it is.
func TestASettingThatAVariableSets(t *testing.T) {
	a, l, _ := withoutModels(t)
	a.Environ = append(a.Environ, "STEWARD_LIMITS_DAY_COST=3")
	if _, err := l.setup.Set(t.Context(), "local", "limits.day_cost", new("4")); !fault.HasCode(err, "setting_overridden") || !strings.Contains(err.Error(), "STEWARD_LIMITS_DAY_COST") {
		t.Error(err)
	}
}

// A server that is there, and its secret, stay as they are when another of its name is added.
func TestKnownServersInTheBrowser(t *testing.T) {
	a, l, _ := withoutModels(t)
	boss := browse(t, a, l)("local")
	store := secret.NewStore(secret.Folder(a.Set.Data))
	boss.want("POST", "/do/server-ask", `{}`, 200, `data-field-name=\"github\"`, `data-field-name=\"fetch\"`)
	boss.want("POST", "/do/server-known-ask", `{"name":"github"}`, 200, "GITHUB_PERSONAL_ACCESS_TOKEN", "https://github.com/settings/personal-access-tokens")
	boss.want("POST", "/do/server-known-add", `{"name":"github"}`, 400, "secret_missing", `"field":"secret.GITHUB_PERSONAL_ACCESS_TOKEN"`)
	boss.want("POST", "/do/server-known-add", `{"name":"github","secret.GITHUB_PERSONAL_ACCESS_TOKEN":"x"}`, 400, `"field":"secret.GITHUB_PERSONAL_ACCESS_TOKEN"`)
	boss.want("POST", "/do/server-known-add", `{"name":"github","secret.GITHUB_PERSONAL_ACCESS_TOKEN":"github_pat_0123456789"}`, 200, "mcp%3Agithub")
	if text := boss.want("GET", "/settings/agents", "", 200); strings.Contains(text, "github_pat_") {
		t.Error("the token is shown")
	}
	boss.want("POST", "/do/server-known-ask", `{"name":"github"}`, 200, "is stored already")
	boss.want("POST", "/do/server-known-add", `{"name":"github","secret.GITHUB_PERSONAL_ACCESS_TOKEN":"another_0123456789"}`, 409, "mcp_server_exists")
	if kept, err := store.Get("GITHUB_PERSONAL_ACCESS_TOKEN"); err != nil || kept != "github_pat_0123456789" {
		t.Error(kept, err)
	}
	boss.want("POST", "/do/server-add", `{"name":"wiki","url":"http://127.0.0.1:9/mcp","token":"wiki-token-0123456789"}`, 200)
	boss.want("POST", "/do/server-add", `{"name":"wiki","url":"http://127.0.0.1:9/other","token":"other-token-0123456789"}`, 409, `"field":"name"`)
	if kept, err := store.Get("MCP_WIKI_TOKEN"); err != nil || kept != "wiki-token-0123456789" {
		t.Error("the token of the server that is there was replaced:", kept, err)
	}
	boss.want("POST", "/do/server-add", `{"name":"Wiki!","url":"http://127.0.0.1:9/mcp"}`, 400, `"field":"name"`)
	boss.want("POST", "/do/server-add", `{"name":"docs","url":"docs"}`, 400, `"field":"url"`)
	boss.want("POST", "/do/sign-in-begin", `{"name":"wiki"}`, 422, "mcp_no_sign_in")
	boss.want("POST", "/do/sign-in-begin", `{"name":"nobody"}`, 404)
	boss.want("POST", "/do/sign-in-wait", `{"name":"wiki"}`, 404)
	boss.want("POST", "/do/server-add", `{"name":"dead","url":"http://127.0.0.1:9/mcp"}`, 200)
	if status, text := boss.do("POST", "/do/sign-in-begin", `{"name":"dead"}`); status == 200 || status == 401 || status == 500 {
		t.Errorf("%d %s", status, text)
	}
}

func TestSkillsInTheBrowser(t *testing.T) {
	a, l, _ := withoutModels(t)
	boss := browse(t, a, l)("local")
	dir := filepath.Join(t.TempDir(), "pdf-forms")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("---\nname: pdf-forms\ndescription: Fills forms.\n---\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("First <b>read</b> the form.\n")
	boss.want("GET", "/settings/skills", "", 200, `data-do="skill-ask"`)
	for _, source := range []string{"", "relative/path", "/nowhere/at/all"} {
		if status, text := boss.do("POST", "/do/skill-find", `{"source":"`+source+`"}`); status < 400 || status >= 500 || !strings.Contains(text, `"field":"source"`) {
			t.Errorf("%q: %d %s", source, status, text)
		}
	}
	boss.want("POST", "/do/skill-find", `{"source":"`+dir+`"}`, 200, "pdf-forms", `\u0026lt;b\u0026gt;read`, "skill-approve")
	found, err := l.setup.FindSkills(t.Context(), dir)
	if err != nil || len(found) != 1 || found[0].State != "new" {
		t.Fatal(found, err)
	}
	approve := `{"source":"` + dir + `","name":"pdf-forms","hash":"` + found[0].Hash + `"}`
	write("Something else.\n")
	boss.want("POST", "/do/skill-approve", approve, 409, "skill_changed")
	write("First <b>read</b> the form.\n")
	boss.want("POST", "/do/skill-approve", approve, 200)
	boss.want("GET", "/settings/skills", "", 200, "/settings/skills/pdf-forms", "Fills forms.")
	boss.want("GET", "/settings/skills/pdf-forms", "", 200, "&lt;b&gt;read", dir)
	write("First read the whole form.\n")
	boss.want("POST", "/do/skill-find", `{"source":"`+dir+`","only":"pdf-forms"}`, 200, "has changed", "+First read the whole form.")
	boss.want("GET", "/settings/skills/other", "", 404)
	boss.want("POST", "/do/skill-remove-ask", `{"name":"pdf-forms"}`, 200, "skill-remove")
	boss.want("POST", "/do/skill-remove", `{"name":"pdf-forms"}`, 200)
	boss.want("POST", "/do/skill-remove", `{"name":"pdf-forms"}`, 404)
}

// A messenger is set up with what its guide asks for, and an error stands at its field.
func TestMessengersInTheBrowser(t *testing.T) {
	a, l, file := withoutModels(t)
	boss := browse(t, a, l)("local")
	text := boss.want("POST", "/do/channel-ask", `{}`, 200)
	for _, kind := range ChannelKinds() {
		if !strings.Contains(text, `data-field-kind=\"`+kind+`\"`) {
			t.Errorf("%s cannot be chosen", kind)
		}
		boss.want("POST", "/do/channel-guide", `{"kind":"`+kind+`"}`, 200, `name=\"token\"`, "channel-add")
	}
	boss.want("POST", "/do/channel-guide", `{"kind":"pigeon"}`, 400)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer door.Close()
	add := func(name, token string) string {
		return `{"kind":"webhook","name":"` + name + `","token":"` + token + `","base_url":"` + door.URL + `","unchecked":true}`
	}
	boss.want("POST", "/do/channel-add", add("Door!", "0123456789abcdef0123456789abcdef"), 400, `"field":"name"`)
	boss.want("POST", "/do/channel-add", add("door", "x"), 400, `"field":"token"`)
	boss.want("POST", "/do/channel-add", add("door", "0123456789abcdef0123456789abcdef"), 200, "started again")
	boss.want("POST", "/do/channel-add", add("door", "ffffffffffffffffffffffffffffffff"), 409, `"field":"name"`)
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "store:CHANNEL_DOOR") {
		t.Errorf("%v %s", err, b)
	}
	if kept, err := secret.NewStore(secret.Folder(a.Set.Data)).Get("CHANNEL_DOOR"); err != nil || kept != "0123456789abcdef0123456789abcdef" {
		t.Error("the token of the channel that is there was replaced:", kept, err)
	}
	boss.want("POST", "/do/pair", `{"code":"AAAABBBB","user":"local"}`, 404, `"field":"code"`)
}

// A new file of policies does not replace another of its name.
func TestPoliciesAreNotReplaced(t *testing.T) {
	a, l, _ := withoutModels(t)
	boss := browse(t, a, l)("local")
	boss.want("POST", "/do/policy-save", `{"name":"house.rego","text":"package steward\n# mine\n","old":""}`, 200)
	for _, do := range []string{"policy-try", "policy-save"} {
		boss.want("POST", "/do/"+do, `{"name":"house.rego","text":"package steward\n","old":""}`, 409, `"field":"name"`)
	}
	if b, err := os.ReadFile(filepath.Join(PoliciesFolder(a.Set.Data), "house.rego")); err != nil || !strings.Contains(string(b), "# mine") {
		t.Errorf("%v %s", err, b)
	}
	boss.want("POST", "/do/policy-try", `{"name":"house.rego","text":"package steward\nx","old":"house.rego"}`, 400, `"field":"text"`)
	boss.want("POST", "/do/policy-ask", `{"name":"house.rego","text":"package steward\n# edited\n","old":"house.rego"}`, 200, "# edited")
	boss.want("POST", "/do/policy-save", `{"name":"house.rego","text":"package steward\n# edited\n","old":"house.rego"}`, 200)
}

// An administrator sees the budgets of all users, and everybody else only their own.
func TestBudgets(t *testing.T) {
	_, l, _ := withoutModels(t)
	if _, err := l.Keys.AddUser(t.Context(), "local", "ann", identity.AccountChange{}); err != nil {
		t.Fatal(err)
	}
	h := api.Handler(l.apiOptions(l.setup.(*setupService).set))
	get := func(user string, admin bool) (out client.Budgets) {
		r := httptest.NewRequest("GET", "/api/v1/budgets", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: user, Admin: admin})))
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 200 {
			t.Fatal(w.Code, err, w.Body)
		}
		return out
	}
	if b := get("ann", false); len(b.Users) != 1 || b.Users[0].Name != "ann" {
		t.Errorf("%+v", b)
	}
	if b := get("local", true); len(b.Users) != 2 || b.Ends.Sub(b.Begins) < 22*time.Hour {
		t.Errorf("%+v", b)
	}
}

// A server that does not answer, or is not listed yet, has a screen with what to do next.
func TestADeadServerInTheBrowser(t *testing.T) {
	a, l, _ := withoutModels(t)
	boss := browse(t, a, l)("local")
	boss.want("POST", "/do/server-add", `{"name":"dead","url":"http://127.0.0.1:9/mcp"}`, 200)
	text := boss.want("GET", "/settings/agents/inspect?path=mcp:dead", "", 200, `data-do="server-remove-ask"`, "http://127.0.0.1:9/mcp")
	if strings.Contains(text, "Back to the chat") {
		t.Error("it is a dead end")
	}
	boss.want("GET", "/settings/agents/inspect?path=mcp:nobody", "", 404)
}
