// Package agents_test tests the agents of examples/agents: whether requests are
// routed to the right tool, and whole turns through a node.
package agents_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tools/calendar"
	"steward/internal/tools/clock"
	"steward/internal/tools/files"
	"steward/internal/tools/local"
	"steward/internal/tools/mail"
	"steward/internal/tools/math"
	"steward/internal/tools/reminder"
	"steward/internal/tools/task"
	"steward/internal/tools/weather"
	"steward/internal/tools/web"
	"steward/test/mailtest"
	"steward/test/must"
	"steward/test/storetest"
)

// now is a Wednesday, 11:00 in Vienna.
var now = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

const zoneName = "Europe/Vienna"

func zone(tb testing.TB) *time.Location {
	z, err := time.LoadLocation(zoneName)
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

// copyAgents copies the example agents into a folder.
func copyAgents(tb testing.TB, dir string) {
	tb.Helper()
	from := filepath.Join("..", "..", "examples", "agents")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// desk holds what Steward's own tools work with: a mail server, and a site with a
// search engine that speaks SearXNG's API and a forecast that speaks Open-Meteo's.
type desk struct {
	mail *mailtest.Server
	site *httptest.Server
}

// found is a page of the site.
const found = "<title>The history of lighthouses</title><p>The Pharos of Alexandria was built in the third century before our era."

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	mux := http.NewServeMux()
	d := &desk{mail: mailtest.Start(tb), site: httptest.NewServer(mux)}
	tb.Cleanup(d.site.Close)
	d.mail.Put(tb, "INBOX", "From: Cafe Molina <cafe@example.org>\nTo: ann@example.com\nSubject: Invoice 2026-118\nMessage-ID: <1@example.org>\n\nThe sum of 42.50 EUR is due.\n")
	for path, body := range map[string]string{
		"/search":      fmt.Sprintf(`{"results":[{"title":"Lighthouses","url":"%s/lighthouses","content":"The Pharos"}]}`, d.site.URL),
		"/lighthouses": found,
		"/v1/search":   `{"results":[{"name":"Vienna","latitude":48.2,"longitude":16.4,"country":"Austria"}]}`,
		"/v1/forecast": `{"timezone":"Europe/Vienna","current":{"time":"2026-03-04T11:00","temperature_2m":9.5,"weather_code":3},"daily":{"time":["2026-03-04"],"weather_code":[61]}}`,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			if path == "/lighthouses" {
				w.Header().Set("Content-Type", "text/html")
			}
			io.WriteString(w, body) //nolint:errcheck // the caller may be gone
		})
	}
	return d
}

// tools returns Steward's own tools as internal/app makes them, but with a given
// clock.
func (d *desk) tools(tb testing.TB, dir string, alarms *jobs.Scheduler, now func() time.Time) *tool.Registry {
	tb.Helper()
	z := zone(tb)
	env := func(name string) tool.Env {
		return tool.Env{Name: name, Data: filepath.Join(dir, "private", "root", name), Log: slog.New(slog.DiscardHandler)}
	}
	opt := local.Options{Now: now, Zone: func(string) *time.Location { return z }}
	var list []tool.Tool
	for _, add := range []func() ([]tool.Tool, error){
		math.Tools,
		func() ([]tool.Tool, error) { return clock.Tools(local.Options{Now: now}) },
		func() ([]tool.Tool, error) {
			return files.Tools(files.Options{Folders: []files.Folder{{Name: "workspace", Path: filepath.Join(dir, "workspace"), Write: true, Make: true}},
				Trash: func(string) string { return filepath.Join(dir, "trash") }})
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("calendar"), calendar.Kind)
			calendar.Add(k, must.Get(local.NewPlace(env("calendar"), calendar.File)), calendar.Options{Options: opt})
			return k.Tools()
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("todo"), task.Kind)
			task.Add(k, must.Get(local.NewPlace(env("todo"), task.File)), task.Options{Options: opt})
			return k.Tools()
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("timer"), tool.OriginOwn)
			reminder.AddTimers(k, reminder.Options{Options: opt, Alarms: alarms})
			return k.Tools()
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("weather"), "domain:weather")
			weather.AddForecast(k, weather.ForecastOptions{Transport: d.site.Client().Transport, Forecast: d.site.URL + "/v1/forecast", Places: d.site.URL + "/v1/search"})
			return k.Tools()
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("web"), "domain:web")
			web.Add(k, web.Options{Transport: d.site.Client().Transport, Search: web.Search{Engine: "searxng", URL: d.site.URL}})
			return k.Tools()
		},
		func() ([]tool.Tool, error) {
			k := local.NewKit(env("mail"), "domain:mail")
			notes := must.Get(local.NewPlace(env("mail"), "mail"))
			mail.Add(k, notes, mail.Options{Options: opt, Dial: new(net.Dialer).DialContext, Roots: d.mail.Roots, Accounts: []mail.Account{{Name: "home", Address: "Me <ann@example.com>",
				IMAP: d.mail.IMAP, SMTP: d.mail.SMTP, User: mailtest.User, TLS: mail.Implicit, For: tool.OwnedBy(nil, nil),
				Secret: func(context.Context) (string, error) { return mailtest.Password, nil }}}})
			return k.Tools()
		},
	} {
		more, err := add()
		must.Do(tb, err)
		list = append(list, more...)
	}
	r := &tool.Registry{}
	for _, t := range list {
		must.Do(tb, r.Add(t))
	}
	return r
}

// openCatalog opens a catalog of a copy of the example agents and approves all
// of them.
func openCatalog(tb testing.TB, dir string, st store.Store, names func() []string) *catalog.Catalog {
	tb.Helper()
	agents := filepath.Join(dir, "agents")
	copyAgents(tb, agents)
	c, err := catalog.Open(context.Background(), catalog.Options{Store: st, Folders: []string{agents}, Data: filepath.Join(dir, "private"),
		Names: names, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	list, err := c.List(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	for _, l := range list {
		if len(l.Problems) > 0 {
			tb.Fatalf("%s: %+v", l.Path, l.Problems)
		}
		in, err := c.Inspect(context.Background(), l.Path)
		if err != nil {
			tb.Fatal(err)
		}
		for _, w := range in.Warnings {
			if strings.HasSuffix(w, "which does not exist") {
				continue // this world has only some of Steward's tools
			}
			tb.Errorf("%s: %s", l.Path, w)
		}
		if _, err := c.Approve(context.Background(), "ann", l.Path, in.Hash, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// levels returns the tools that each agent of a tree sees, as the runtime
// provides them: those of Steward's own that it names, at the top all, and its
// children's NAME.ask.
func levels(tb testing.TB, tree *catalog.Tree, tools *tool.Registry) map[string]*llm.Toolset {
	tb.Helper()
	read := effect.New(effect.Options{Store: storetest.NewModel(), Authorizer: policy.Fixed{}}).ReadTool()
	out := map[string]*llm.Toolset{}
	for path, a := range tree.ByPath {
		specs := []tool.Spec{read.Spec()}
		if path == "" {
			specs = append(specs, tools.Specs()...)
			specs = append(specs, tool.Spec{Name: "conversation.search", Effect: tool.Query, Input: []byte(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
				Description: "Searches the text of the user's earlier conversations and of this one: messages and tool results. Use it when the user refers to an earlier conversation. Newest first."})
		}
		if len(a.Uses) > 0 {
			known := slices.DeleteFunc(slices.Clone(a.Uses), func(p string) bool { return !tools.Knows(p) })
			specs = append(specs, must.Get(tools.Select(known...))...)
		}
		for _, c := range a.Children {
			specs = append(specs, tool.Spec{Name: c.Name + ".ask", Effect: tool.Query, Origin: "agent:" + c.Path,
				Description: "Asks the agent " + c.Name + ", which works on it by itself and answers.\n" + strings.TrimSpace(c.Description),
				Input:       []byte(`{"type":"object","properties":{"request":{"type":"string","minLength":1,"description":"What it is to do or to tell, with all that it has to know: it sees nothing of this conversation."}},"required":["request"],"additionalProperties":false}`)})
		}
		out[path] = llm.NewToolset(specs...)
	}
	return out
}
