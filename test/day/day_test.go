// Package day lives a day with Steward on a virtual clock, and records it in docs/guides/a-day.md.
package day

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/app"
	"steward/internal/effect"
	"steward/internal/intent"
	"steward/test/edge"
	"steward/test/homeassistant"
	"steward/test/mailtest"
)

var update = flag.Bool("update", false, "write the transcript into the documentation")

// day is the household: Ann, her phone, her home, her mail, and the Steward between them.
type day struct {
	t     *testing.T
	dir   string
	zone  *time.Location
	net   *network
	phone *phone
	home  *homeassistant.Server
	mail  *mailtest.Server

	app     *app.App
	local   *app.Local
	server  *app.Server
	voice   *app.Voice
	failure func() string

	mu    sync.Mutex
	lines []line
	calls int // of the model
}

type line struct {
	at        time.Time
	who, what string
	scene     bool
}

func (d *day) tell(who, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line{at: time.Now(), who: who, what: what})
}

func (d *day) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// until lets time pass until a time of day.
func (d *day) until(clock string) {
	d.t.Helper()
	now := time.Now().In(d.zone)
	at, err := time.ParseInLocation("2006-01-02 15:04", now.Format(time.DateOnly)+" "+clock, d.zone)
	d.check(err)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	time.Sleep(at.Sub(now))
	synctest.Wait()
}

// open starts Steward as steward serve does.
func (d *day) open() {
	d.t.Helper()
	logs, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	d.check(err)
	d.app = &app.App{Stderr: logs, Dir: d.dir, Serving: true, Config: filepath.Join(d.dir, "steward.yaml"), Data: filepath.Join(d.dir, "data"),
		Environ: []string{"HOME=" + d.dir, "PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=http://127.0.0.1:9001/v1", "OLLAMA_HOST=127.0.0.1:1"},
		Outside: app.Outside{Dial: d.net.Dial, Listen: d.net.Listen, Poll: time.Hour}}
	set, err := d.app.Settings()
	d.check(err)
	log := d.app.Logger(set, logs)
	ctx := context.Background()
	d.local, err = d.app.OpenLocal(ctx, set, log)
	d.check(err)
	d.server, err = d.app.Listen(ctx, set, d.local, set.Listen, log)
	d.check(err)
	d.voice, err = d.app.ListenVoice(ctx, set, d.local, log)
	d.check(err)
	synctest.Wait()
}

// close stops Steward.
func (d *day) close() {
	d.t.Helper()
	d.check(d.voice.Close())
	d.check(d.server.Close())
	d.check(d.local.Close())
	d.check(d.app.Stderr.(io.Closer).Close())
	d.local = nil
	synctest.Wait()
}

const settings = `
listen: 127.0.0.1:7420
log: {level: debug}
profile: {time_zone: Europe/Vienna}
home: {url: "http://127.0.0.1:8123", token: %q}
channels: {telegram: {token: %q, base_url: "http://127.0.0.1:8443"}}
mail: {home: {address: "Ann <ann@example.com>", imap: "127.0.0.1:1143", smtp: "127.0.0.1:1587", tls: none, user: %q, password: %q}}
wyoming: {listen: "127.0.0.1:10300", user: local, hidden: true, model: offline/steward}
`

func TestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone, err := time.LoadLocation("Europe/Vienna")
		if err != nil {
			t.Fatal(err)
		}
		d := &day{t: t, dir: t.TempDir(), zone: zone, net: &network{t: t, listeners: map[string]*listener{}}}
		begin := time.Date(2026, 12, 1, 21, 0, 0, 0, zone) // a Tuesday
		time.Sleep(begin.Sub(time.Now()))
		d.phone = newPhone(d)
		d.home = homeassistant.New(t, []homeassistant.Area{{ID: "bedroom", Name: "Bedroom"}, {ID: "kitchen", Name: "Kitchen"}},
			homeassistant.Entity{ID: "light.bedroom", Name: "Bedroom light", Area: "bedroom", State: "off"},
			homeassistant.Entity{ID: "light.kitchen", Name: "Kitchen light", Area: "kitchen", State: "on"})
		d.home.Called = func(c homeassistant.Call) {
			d.tell("Home Assistant", fmt.Sprintf("%s.%s %s", c.Domain, c.Service, strings.Join(c.Entities, ", ")))
		}
		d.mail = mailtest.StartOn(t, d.net.listen(1143), d.net.listen(1587))
		d.net.serve(9001, edge.Script(t, d.model))
		d.net.serve(8123, d.home)
		d.net.serve(8443, d.phone)
		t.Cleanup(d.home.Cut)
		d.check(os.WriteFile(filepath.Join(d.dir, "steward.yaml"), fmt.Appendf(nil, settings, homeassistant.Token, botToken, mailtest.User, mailtest.Password), 0o600))
		t.Cleanup(func() {
			if t.Failed() {
				b, _ := os.ReadFile(filepath.Join(d.dir, "log"))
				t.Logf("%.20000s", b)
			}
			for _, l := range d.lines {
				t.Log(l.at.In(zone).Format("15:04:05"), l.who, ":", l.what)
			}
		})
		t.Cleanup(func() {
			if d.local != nil {
				d.close()
			}
		})
		d.open()
		d.live()
		d.close()
	})
}

func (d *day) live() {
	d.phone.say("Hello")
	d.until("21:01")
	code := regexp.MustCompile(`steward pair (\w+)`).FindStringSubmatch(strings.Join(d.phone.texts(), " "))
	if code == nil {
		d.t.Fatal("there is no code to pair")
	}
	d.tell("Ann, at the terminal", "steward pair CODE")
	_, err := d.local.Own.Pair(d.t.Context(), code[1], "")
	d.check(err)
	d.until("21:05")
	d.phone.say("Put the meeting with Bob into tomorrow at ten")
	d.until("21:06")
	d.phone.press("Allow once")
	d.until("21:10")
	d.phone.say("Turn on the bedroom light")
	d.until("21:11")
	d.tell("Ann, at the terminal", "steward approvals approve ID --always --pattern 'device any' --pattern 'action any'")
	d.allow("home.control", "device any", "action any")
	d.until("21:14")
	d.phone.say("/new")
	d.until("21:15")
	d.phone.say("Every weekday at seven, turn on the bedroom light and tell me what is on")
	d.until("21:16")
	d.phone.press("Allow once")
	d.until("21:20")
	d.tell("Ann, at the terminal", "steward heartbeat on --reviews daily --at 20:00")
	_, err = d.local.Own.HeartbeatOn(d.t.Context(), client.NewHeartbeat{Reviews: []string{"daily"}, At: "20:00"})
	d.check(err)
	d.until("22:00")
	d.hear("Turn off the bedroom light")
	d.until("06:59")

	d.until("07:30")
	d.post("Bob <bob@example.com>", "Our meeting", "Could we meet at eleven rather than at ten?")
	d.until("08:01")
	d.phone.say("Move it to eleven and tell Bob")
	d.until("08:10")
	d.close()
	d.until("08:20")
	d.open()
	d.until("08:21")
	d.phone.press("Allow once")
	d.until("08:22")
	d.phone.press("Allow once")
	d.until("09:00")
	d.hear("Set a timer for 45 minutes for the bread")
	d.until("09:30")
	d.close()
	d.until("09:40")
	d.open()
	d.until("10:00")
	d.until("20:01")
	d.hear("Turn off the kitchen light")
	d.until("20:10")
}

// allow answers the question about a tool with a standing approval.
func (d *day) allow(tool string, pattern ...string) {
	d.t.Helper()
	var list struct{ Approvals []effect.Question }
	d.check(d.local.Own.Call(d.t.Context(), "GET /approvals", nil, nil, &list))
	if len(list.Approvals) != 1 || list.Approvals[0].Tool != tool {
		d.t.Fatalf("%d questions: %+v", len(list.Approvals), list.Approvals)
	}
	q := list.Approvals[0]
	p, err := intent.ParsePattern(strings.Join(pattern, "\n"), q.Pattern)
	d.check(err)
	b, err := json.Marshal(p)
	d.check(err)
	d.check(d.local.Own.Call(d.t.Context(), "GET /approvals/{id}", client.Params{"id": q.ID, "pattern": string(b)}, nil, &q))
	d.check(d.local.Own.AnswerApproval(d.t.Context(), q.ID, client.Answer{Approve: true, Hash: q.Hash, Standing: "always", Pattern: p}))
	synctest.Wait()
}

// post delivers an e-mail to Ann.
func (d *day) post(from, subject, body string) {
	d.tell(from, "writes to Ann: "+subject+": "+body)
	d.mail.Put(d.t, "INBOX", fmt.Sprintf("From: %s\nTo: ann@example.com\nSubject: %s\nMessage-ID: <%d@example.com>\nDate: %s\n\n%s\n",
		from, subject, time.Now().Unix(), time.Now().In(d.zone).Format(time.RFC1123Z), body))
}

type args = map[string]any

// scripts are what the model does about a request: its calls one after the other, and then its answer, in
// which %s stands for the last result.
func scripts() []script {
	return []script{
		{"Put the meeting with Bob", []edge.Call{{Name: "calendar.add", Args: args{"title": "Meeting with Bob", "start": "2026-12-02T10:00:00"}}}, "The meeting with Bob is in your calendar, tomorrow at ten."},
		{"Turn on the bedroom light", []edge.Call{{Name: "home.control", Args: args{"device": "bedroom light", "action": "turn_on"}}}, "The light is on."},
		{"Every weekday at seven", []edge.Call{{Name: "job.create", Args: args{"text": "Wake me: turn on the bedroom light and tell me what is on", "every": "weekday", "at": "7:00", "name": "wake-up"}}},
			"I will wake you every weekday at seven."},
		{"Wake me", []edge.Call{{Name: "home.control", Args: args{"device": "bedroom light", "action": "turn_on"}}, {Name: "calendar.list", Args: args{}}}, "Good morning, Ann. Today you meet Bob at ten."},
		{"Move it to eleven", []edge.Call{{Name: "mail.search", Args: args{"from": "bob"}}, {Name: "calendar.move", Args: args{"event": "Meeting with Bob", "start": "2026-12-02T11:00:00"}},
			{Name: "mail.send", Args: args{"to": []string{"bob@example.com"}, "subject": "Re: Our meeting", "body": "Eleven is fine. See you then."}}}, "The meeting is at eleven now, and Bob knows."},
		{"Heartbeat, from", nil, "Bob asks to meet at eleven rather than at ten [1]. Shall I move the meeting and answer him?"},
		{"Daily review, from", nil, "The meeting with Bob was moved to eleven, and he has your answer [1]."},
	}
}

type script struct {
	asked  string
	calls  []edge.Call
	answer string
}

// model is the language model: it does what the scripts say.
func (d *day) model(a edge.Asked) edge.Reply {
	d.mu.Lock()
	d.calls++
	d.mu.Unlock()
	asked := a.User()
	for _, s := range scripts() {
		if !strings.Contains(asked, s.asked) {
			continue
		}
		n := a.Rounds()
		if n < len(s.calls) {
			b, err := json.Marshal(s.calls[n].Args)
			d.check(err)
			d.tell("(the model)", fmt.Sprintf("calls %s %s", s.calls[n].Name, b))
			return edge.Reply{Calls: s.calls[n : n+1]}
		}
		return edge.Reply{Text: s.answer}
	}
	d.t.Errorf("the model does not know what to do about %.3000q", asked)
	return edge.Reply{Text: "I do not know."}
}

// hear has Ann say something to the voice assistant of the home, as Home Assistant sends it.
func (d *day) hear(text string) string {
	d.t.Helper()
	d.tell("Ann, by voice", text)
	c, err := d.net.Dial(d.t.Context(), "tcp", "127.0.0.1:10300")
	d.check(err)
	defer c.Close()
	data := fmt.Sprintf(`{"text":%q,"language":"en","context":{"conversation_id":"01J%d","device_id":"kitchen"}}`, text, time.Now().UnixNano())
	fmt.Fprintf(c, `{"type":"transcript","version":"1.7.2","data_length":%d}`+"\n%s", len(data), data)
	in := bufio.NewReader(c)
	head, err := in.ReadBytes('\n')
	d.check(err)
	var h struct {
		Type   string `json:"type"`
		Length int    `json:"data_length"`
	}
	d.check(json.Unmarshal(head, &h))
	b := make([]byte, h.Length)
	_, err = io.ReadFull(in, b)
	d.check(err)
	var said struct{ Text string }
	d.check(json.Unmarshal(b, &said))
	d.tell("Steward, by voice", said.Text)
	return said.Text
}
