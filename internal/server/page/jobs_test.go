package page_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/internal/heartbeat"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/tools/home"
	"steward/internal/tools/job"
	"steward/internal/tools/local"
	"steward/test/homeassistant"
)

// desk is the page over a node with jobs, and a home that is ana's.
type desk struct {
	*testing.T
	page   http.Handler
	alarms *jobs.Scheduler
}

func newDesk(t *testing.T, s *homeassistant.Server) *desk {
	t.Helper()
	d := &desk{T: t}
	f := furnishing{model: agreeing{}}
	var house *home.Home
	if s != nil {
		house = home.New(home.Options{URL: s.URL, Token: homeassistant.Secret, Transport: http.DefaultTransport, For: tool.OwnedBy([]string{"ana"}, nil), Timing: home.Timing{Answer: 30 * time.Second, Wait: 30 * time.Second}})
		k := local.NewKit(tool.Env{Name: "home"}, "")
		home.Add(k, house)
		var err error
		if f.tools, err = k.Tools(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := house.Check(t.Context()); err != nil { // so that the screen need not wait for the connection
			t.Fatal(err)
		}
		f.close = house.Close
	}
	f.node = func(o *runtime.Options) { d.alarms = jobs.New(jobs.Options{Store: o.Store}) }
	f.api = func(o *api.Options) {
		o.Home, o.Jobs = house, job.Service{Jobs: d.alarms}
		o.Heartbeat = heartbeat.Service{Jobs: d.alarms, Settings: heartbeat.Settings{Every: 15 * time.Minute, At: "08:00", Caps: heartbeat.Caps{Calls: 40}}}
	}
	d.page = newHouseOf(t, f).own
	return d
}

func (d *desk) as(user string, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	d.page.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: user})))
	return w.Code, w.Body.String()
}

// screen returns a screen as ana sees it. It has all parts.
func (d *desk) screen(path string, parts ...string) string {
	d.Helper()
	status, body := d.as("ana", httptest.NewRequest("GET", path, nil))
	if status != 200 {
		d.Fatalf("%s: %d %s", path, status, body)
	}
	for _, p := range parts {
		if !strings.Contains(body, p) {
			d.Errorf("%s lacks %q", path, p)
		}
	}
	return body
}

// reply is the answer to an action: HTML is that of all its patches.
type reply struct{ HTML, Go, Toast string }

// do does an action as ana. It is answered with a status.
func (d *desk) do(status int, name string, fields map[string]any) (out reply) {
	d.Helper()
	in, err := json.Marshal(fields)
	if err != nil {
		d.Fatal(err)
	}
	got, body := d.as("ana", httptest.NewRequest("POST", "/do/"+name, strings.NewReader(string(in))))
	if got != status {
		d.Fatalf("%s %s: %d %s", name, in, got, body)
	}
	var x struct {
		Patches   []struct{ HTML string }
		Go, Toast string
	}
	if status != 200 {
		return reply{HTML: body}
	}
	if err := json.Unmarshal([]byte(body), &x); err != nil {
		d.Fatal(err)
	}
	for _, p := range x.Patches {
		out.HTML += p.HTML
	}
	out.Go, out.Toast = x.Go, x.Toast
	return out
}

// field returns what a button of HTML sends.
func (d *desk) field(in, name string) string {
	d.Helper()
	m := regexp.MustCompile(`data-field-` + name + `="([^"]*)"`).FindStringSubmatch(in)
	if m == nil {
		d.Fatalf("no button sends %s: %s", name, in)
	}
	return html.UnescapeString(m[1])
}

// A person describes a job in words, sees when it begins, adds it, changes it and deletes it.
func TestJobsOnThePage(t *testing.T) {
	d := newDesk(t, nil)
	d.screen("/jobs", "You have no jobs yet", "Heartbeat and reviews", `data-do="job-ask"`)
	d.screen("/home", "steward home connect")
	form := d.do(200, "job-ask", map[string]any{}).HTML
	for _, name := range []string{"text", "when", "file", "home", "mailAccount", "onType", "webhook", "cron", "rule", "missed", "overlap", "checkTool"} {
		if !strings.Contains(form, `name="`+name+`"`) {
			t.Errorf("the form has no field %s", name)
		}
	}
	for when, want := range map[string]string{"every weekday at 7:00": "every weekday at 7:00", "in 20 minutes": "once, on ", "tomorrow at 9:00": "once, on "} {
		if seen := d.do(200, "job-preview", map[string]any{"text": "Tell me the news", "when": when}).HTML; !strings.Contains(seen, want) || !strings.Contains(seen, "<time") {
			t.Errorf("%s: %s", when, seen)
		}
	}
	if wrong := d.do(400, "job-preview", map[string]any{"text": "Tell me the news", "when": "sometimes"}).HTML; !strings.Contains(wrong, "how often") {
		t.Error(wrong)
	}
	seen := d.do(200, "job-preview", map[string]any{"text": "Tell me <b>the news</b>", "when": "every weekday at 7:00", "name": "news", "zone": "UTC", "tools": "mail.send: deny\n", "retries": "2", "notify": true}).HTML
	if n := strings.Count(seen, "<time"); n != 3 {
		t.Errorf("%d times in %s", n, seen)
	}
	d.screen("/jobs", "You have no jobs yet") // nothing is stored before
	if r := d.do(200, "job-save", map[string]any{"edit": "", "job": d.field(seen, "job")}); r.Go != "/jobs/news" {
		t.Fatalf("%+v", r)
	}
	d.screen("/jobs", `href="/jobs/news"`, "Tell me &lt;b&gt;the news&lt;/b&gt;", "every weekday at 7:00", "It has not run yet.")
	d.screen("/jobs/news", "mail.send: deny", "Steward", `data-do="job-run"`, `data-do="job-pause"`)

	if now := d.do(200, "job-run", map[string]any{"name": "news"}).HTML; !strings.Contains(now, "begun by you") {
		t.Error(now)
	}
	if now := d.do(200, "job-pause", map[string]any{"name": "news"}).HTML; !strings.Contains(now, `data-do="job-resume"`) {
		t.Error(now)
	}
	d.do(200, "job-resume", map[string]any{"name": "news"})

	// A change that says nothing new about when leaves it.
	if form := d.do(200, "job-edit-ask", map[string]any{"name": "news"}).HTML; !strings.Contains(form, `value="every weekday at 7:00"`) {
		t.Error(form)
	}
	seen = d.do(200, "job-preview", map[string]any{"edit": "news", "before": "every weekday at 7:00", "when": "every weekday at 7:00", "text": "Tell me more", "zone": "UTC", "quiet": "22:00-6:00"}).HTML
	if job := d.field(seen, "job"); strings.Contains(job, "every") {
		t.Error(job)
	}
	d.do(200, "job-save", map[string]any{"edit": "news", "job": d.field(seen, "job")})
	d.screen("/jobs/news", "Tell me more", "every weekday at 7:00", "22:00-06:00")
	seen = d.do(200, "job-preview", map[string]any{"edit": "news", "before": "every weekday at 7:00", "when": "every 2 hours", "text": "Tell me more", "zone": "UTC"}).HTML
	d.do(200, "job-save", map[string]any{"edit": "news", "job": d.field(seen, "job")})
	d.screen("/jobs/news", "every 2 hours")

	if status, _ := d.as("eve", httptest.NewRequest("GET", "/jobs/news", nil)); status != 404 {
		t.Errorf("eve sees it: %d", status)
	}
	if ask := d.do(200, "job-remove-ask", map[string]any{"name": "news"}).HTML; !strings.Contains(ask, "with its history") {
		t.Error(ask)
	}
	d.do(200, "job-remove", map[string]any{"name": "news"})
	d.screen("/jobs", "You have no jobs yet")
}

// Reminders that are due later are listed, the next one first.
func TestRemindersOnThePage(t *testing.T) {
	d := newDesk(t, nil)
	for i, text := range []string{"Second <b>", "First"} {
		at := time.Now().Add(time.Duration(5-i) * time.Hour).UTC()
		if _, err := d.alarms.Set(t.Context(), record.Alarm{ID: id.New(), User: "ana", Kind: "reminder", Text: text, Created: time.Now().UTC(), Start: at, Next: at}); err != nil {
			t.Fatal(err)
		}
	}
	body := d.screen("/jobs", "Reminders and timers", "First", "Second &lt;b&gt;")
	if strings.Index(body, "First") > strings.Index(body, "Second") {
		t.Error("the later one comes first")
	}
	if _, body := d.as("eve", httptest.NewRequest("GET", "/jobs", nil)); strings.Contains(body, "First") {
		t.Error("eve sees them")
	}
}

func TestHeartbeatOnThePage(t *testing.T) {
	d := newDesk(t, nil)
	d.do(200, "heartbeat-ask", map[string]any{})
	on := d.do(200, "heartbeat-on", map[string]any{"every": "30m", "quiet": "22:00-7:00", "reviews": []string{"daily"}, "tools": "reminder.create: ask"}).HTML
	for _, part := range []string{"every 30m", "quiet 22:00-07:00", "0 of 40 calls of models today", "Daily review", `data-do="heartbeat-run"`} {
		if !strings.Contains(on, part) {
			t.Errorf("%q is not in %s", part, on)
		}
	}
	if n := strings.Count(on, `data-do="heartbeat-run"`); n != 2 {
		t.Errorf("%d of the heartbeat and the reviews are on: %s", n, on)
	}
	d.screen("/jobs", "You have no jobs yet", "every 30m") // they are not listed as jobs too
	d.do(200, "heartbeat-run", map[string]any{"kind": "heartbeat"})
	d.screen("/jobs/heartbeat", "begun by you")
	if off := d.do(200, "heartbeat-off", map[string]any{}).HTML; !strings.Contains(off, "Turn on …") {
		t.Error(off)
	}
}

// The home shows states as they change. A click asks as every action does, and nothing is sent before the answer.
func TestHomeOnThePage(t *testing.T) {
	called := make(chan homeassistant.Call, 9)
	s := homeassistant.Start(t, []homeassistant.Area{{ID: "kitchen", Name: "Kitchen"}},
		homeassistant.Entity{ID: "light.kitchen", Name: "Kitchen <i>light</i>", Area: "kitchen", State: "on", Attributes: map[string]any{"brightness": 128}},
		homeassistant.Entity{ID: "light.left", Name: "Left", Area: "kitchen", State: "off"},
		homeassistant.Entity{ID: "lock.front_door", Name: "Front door", State: "locked"})
	s.Do(func(s *homeassistant.Server) { s.Called = func(c homeassistant.Call) { called <- c } })
	d := newDesk(t, s)
	d.screen("/home", `id="device-light.kitchen"`, "Kitchen &lt;i&gt;light&lt;/i&gt;", `role="switch"`, `type="range"`, "Brightness 50 %", "Steward asks you each time", `data-field-action="unlock"`)
	if body := d.screen("/home?query=left"); strings.Contains(body, "lock.front_door") {
		t.Error("a search shows all devices")
	}
	if _, body := d.as("eve", httptest.NewRequest("GET", "/home", nil)); !strings.Contains(body, "No home is connected") || strings.Contains(body, "Kitchen") {
		t.Error(body)
	}
	ask := d.do(200, "home-do", map[string]any{"device": "lock.front_door", "action": "unlock"}).HTML
	if !strings.Contains(ask, `data-do="answer"`) || strings.Contains(ask, `data-do="always"`) {
		t.Error(ask)
	}
	select {
	case c := <-called:
		t.Fatalf("%+v was done before anybody approved", c)
	default:
	}
	d.do(200, "answer", map[string]any{"id": d.field(ask, "id"), "hash": d.field(ask, "hash"), "verdict": "allow"})
	if c := <-called; c.Service != "unlock" || c.Entities[0] != "lock.front_door" {
		t.Errorf("%+v", c)
	}
	set := d.do(200, "home-set", map[string]any{"device": "light.kitchen", "name": "brightness", "value": "30"}).HTML
	d.do(200, "answer", map[string]any{"id": d.field(set, "id"), "hash": d.field(set, "hash"), "verdict": "allow"})
	if c := <-called; c.Data["brightness_pct"] != 30. {
		t.Errorf("%+v", c)
	}

	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.page.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Caller{User: "ana"})))
	}))
	defer web.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+"/live?of=home&query=left", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	until := func(part string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) || line == "" {
				t.Fatalf("%q has not come: %v", part, err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var list []struct{ ID, HTML string }
				if err := json.Unmarshal([]byte(data), &list); err != nil {
					t.Fatal(err)
				}
				for _, p := range list {
					if (p.ID == "home" || p.ID == "device-light.left") && strings.Contains(p.HTML, part) {
						return
					}
				}
			}
		}
	}
	until(`aria-checked="false"`)
	s.Set("light.left", "on")
	until(`aria-checked="true"`)
}
