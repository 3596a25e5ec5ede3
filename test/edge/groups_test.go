package edge_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"steward/internal/settings"
	"steward/internal/tool"
	"steward/test/davtest"
	"steward/test/edge"
	"steward/test/homeassistant"
	"steward/test/mailtest"
)

// group is a group of built-in tools.
type group struct {
	missing string // what has to be set; empty: it works without settings
	tool    string // one of its tools; empty: it has none until something is installed or added
	args    string // of a call that only reads; empty: the tool acts, so that a person would be asked
	says    string // in the result
}

// TestEveryGroupOfTools: each group of built-in tools stands in what steward doctor says. Without
// settings it works, or doctor and the model are told what to set. With its settings alone, a piped
// chat calls its tools. A new group fails the test until it has a line here.
func TestEveryGroupOfTools(t *testing.T) {
	t.Parallel()
	groups := map[string]group{
		"reminder":  {tool: "reminder.list", args: `{}`},
		"timer":     {tool: "timer.list", args: `{}`},
		"job":       {tool: "job.list", args: `{}`},
		"goal":      {tool: "goal.list", args: `{}`},
		"project":   {tool: "project.list", args: `{}`},
		"calendar":  {tool: "calendar.search", args: `{"query":"dentist"}`},
		"todo":      {tool: "todo.list", args: `{}`},
		"basics":    {tool: "math.add", args: `{"a":17,"b":25}`, says: "42"},
		"shell":     {tool: "shell.run"},
		"skills":    {},
		"web":       {tool: "web.search", args: `{"query":"steward"}`, says: "A page about stewards"},
		"browser":   {},
		"weather":   {tool: "weather.forecast", args: `{"place":"Graz"}`, says: "Open-Meteo"},
		"notify":    {missing: "notify.ntfy.topic", tool: "notify.send"},
		"message":   {missing: "channels add", tool: "message.chats"},
		"mail":      {missing: "accounts add", tool: "mail.search", args: `{}`, says: "a letter"},
		"contacts":  {missing: "contacts.NAME", tool: "contacts.search", args: `{"query":"Ann"}`, says: "Ann Example"},
		"documents": {tool: "documents.search", args: `{"query":"a trip"}`},
		"graph":     {tool: "graph.query", args: `{"query":"SELECT ?s WHERE { ?s ?p ?o }"}`},
		"memory":    {tool: "memory.search", args: `{"query":"a trip"}`},
		"home":      {missing: "home connect", tool: "home.list", args: `{"kind":"light"}`, says: "Hall light"},
	}
	const window = "windows: {openai/gpt-test: 400000}\nmodels: {default: openai/gpt-test}\n"
	n := edge.New(t, edge.Options{Env: []string{"STEWARD_TOOLS_SHOWN=1000", "STEWARD_TOOLS_SHOWN_TOKENS=1000000"}}) // the model calls what it is shown
	told := toolTalk(t, n, groups, window)
	for name, g := range groups {
		switch _, has := told.results[g.tool]; {
		case g.missing == "":
			if status := told.checks[name].Status; status != "ok" && name != "browser" && name != "web" { // these need Chromium and the Internet
				t.Errorf("%s without settings: %+v", name, told.checks[name])
			}
		case has || told.checks[name].Status != "off" || !strings.Contains(told.checks[name].Remedy, g.missing) || !strings.Contains(told.results["steward.abilities"], g.missing):
			t.Errorf("%s without settings: %v %+v, and the model is told: %s", name, has, told.checks[name], told.results["steward.abilities"])
		}
	}

	box := mailtest.Start(t)
	box.Put(t, "INBOX", letter("a letter"))
	book := davtest.Start(t)
	book.Put(davtest.People+"ann.vcf", "BEGIN:VCARD\nVERSION:3.0\nUID:1\nFN:Ann Example\nEND:VCARD\n")
	house := homeassistant.Start(t, nil, homeassistant.Entity{ID: "light.hall", Name: "Hall light", State: "off"})
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, map[string]string{ //nolint:errcheck // the caller may be gone
			"/search":   `{"results":[{"url":"https://example.com/","title":"A page about stewards","content":"They look after things."}]}`,
			"/places":   `{"results":[{"name":"Graz","country":"Austria","latitude":47.07,"longitude":15.44,"timezone":"Europe/Vienna"}]}`,
			"/forecast": `{"timezone":"Europe/Vienna","current":{"time":"2026-11-24T02:15","temperature_2m":3.2,"weather_code":61},"daily":{"time":["2026-11-24"],"weather_code":[61]}}`,
		}[r.URL.Path])
	}
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	n.Env = append(n.Env, "SSL_CERT_FILE="+n.Write(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: box.Certificate.Raw})), "ca.pem"))
	told = toolTalk(t, n, groups, window+fmt.Sprintf("web: {search: {engine: searxng, url: %q}}\nweather: {url: %q, places_url: %q}\nnotify: {webhook: {url: %q}}\n"+
		"mail: {home: {address: %q, imap: %q, smtp: %q, tls: implicit, password: %q}}\ncontacts: {home: {url: %q, user: %q, password: %q}}\nhome: {url: %q, token: %q}\nchannels: {door: {kind: webhook, base_url: %q, token: 0123456789abcdef0123456789abcdef}}\n", s.URL, s.URL+"/forecast", s.URL+"/places", s.URL+"/hook", mailtest.User, box.IMAP, box.SMTP, mailtest.Password,
		book.URL+"/card/", davtest.User, davtest.Password, house.URL, homeassistant.Token, s.URL+"/door"))
	for name, g := range groups {
		if status := told.checks[name].Status; status != "ok" && name != "browser" {
			t.Errorf("%s with its settings: %+v", name, told.checks[name])
		}
		if result, has := told.results[g.tool]; g.tool != "" && (!has || !strings.Contains(result, g.says) || strings.Contains(result, "[error]")) {
			t.Errorf("%s with its settings: %v %q", name, has, result)
		}
	}
	documented(t, told.offered)
}

// elsewhere are quoted names that look like those of tools: files, roles of a database, members of messages, and tools that only
// a planner, its tasks or a calendar of a server has.
var elsewhere = strings.Fields("notes.txt steward.yaml steward.notices text.format plan.start plan.ask plan.read calendar.respond documents.db steward.db steward.reads steward.writes steward.all")

// documented checks that the tools that documents name are there.
func documented(t *testing.T, offered []string) {
	t.Helper()
	groups, keys := map[string]bool{}, map[string]bool{}
	for _, name := range offered {
		group, _, _ := strings.Cut(name, ".")
		groups[group] = true
	}
	for k := range settings.Keys() {
		for path := k.Path; path != ""; {
			keys[path] = true
			path = path[:max(0, strings.LastIndexByte(path, '.'))]
		}
	}
	files, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents", err)
	}
	quoted := regexp.MustCompile("`([a-z]+)\\.([a-z_*]+)`")
	for _, file := range append(files, "../../README.md", "../../ARCHITECTURE.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + "." + m[2]
			_, alias := tool.Alias(name)
			if groups[m[1]] && !slices.Contains(elsewhere, name) && !alias && !keys[strings.TrimSuffix(name, ".*")] && !slices.ContainsFunc(offered, func(o string) bool { return tool.PatternMatches(name, o) }) {
				t.Errorf("%s names %s, and there is no such tool, alias or setting", strings.TrimPrefix(file, "../../"), name)
			}
		}
	}
}

// heard is what the doctor and the tools said.
type heard struct {
	checks  map[string]struct{ Status, Message, Remedy string }
	offered []string          // the tools that the model was shown
	results map[string]string // by tool; empty: it was not called, as it acts
}

// toolTalk writes the settings, asks the doctor, and has a chat call a tool of each group.
func toolTalk(t *testing.T, n *edge.Node, groups map[string]group, settings string) heard {
	t.Helper()
	told := heard{checks: map[string]struct{ Status, Message, Remedy string }{}, results: map[string]string{}}
	var called []string
	model := httptest.NewServer(edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() > 0 {
			for i, result := range in.Results() {
				told.results[called[i]] = result
			}
			return edge.Reply{Text: "done"}
		}
		var offered []string
		for _, tool := range in.Tools {
			offered = append(offered, strings.ReplaceAll(tool.Function.Name, "__", "."))
		}
		told.offered = offered
		called = []string{"steward.abilities"}
		calls := []edge.Call{{Name: "steward.abilities", Args: "{}"}}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			g := groups[name]
			if !slices.Contains(offered, g.tool) {
				continue
			}
			told.results[g.tool] = ""
			if g.args != "" && (g.says == "" || strings.Contains(settings, name+":") || name == "basics") { // the Internet is not asked
				called = append(called, g.tool)
				calls = append(calls, edge.Call{Name: g.tool, Args: g.args})
			}
		}
		return edge.Reply{Calls: calls}
	}))
	defer model.Close()
	env := n.Env
	n.Env = append(slices.Clip(env), "OPENAI_API_KEY=test-key", "OPENAI_BASE_URL="+model.URL+"/v1")
	defer func() { n.Env = env }()
	n.Write(settings, ".config", "steward", "steward.yaml")
	var out struct {
		Checks []struct{ Name, Status, Message, Remedy string }
	}
	if err := json.Unmarshal([]byte(n.Run("doctor", "--json").Out), &out); err != nil {
		t.Fatal(err)
	}
	others := strings.Fields("backup channel settings data token database disk policies port models openai ollama offline clock sandbox terminal indexes")
	for _, c := range out.Checks {
		if !slices.Contains(others, c.Name) {
			told.checks[c.Name] = struct{ Status, Message, Remedy string }{c.Status, c.Message, c.Remedy}
		}
	}
	if got, want := slices.Sorted(maps.Keys(told.checks)), slices.Sorted(maps.Keys(groups)); !slices.Equal(got, want) {
		t.Errorf("the doctor knows the groups %v, the test %v", got, want)
	}
	if r := n.RunIn("what can you do?\n", "chat"); r.Code != 0 || !strings.Contains(r.Out, "done") {
		t.Fatalf("%+v", r)
	}
	return told
}
