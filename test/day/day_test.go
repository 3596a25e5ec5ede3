// Package day lives a day with Steward on a virtual clock, and records it in docs/guides/a-day.md.
package day

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	"steward/test/network"
)

var update = flag.Bool("update", false, "write the transcript into the documentation")

// day is the household: Ann, her phone, her home, her mail, and the Steward between them.
type day struct {
	t     *testing.T
	dir   string
	zone  *time.Location
	net   *network.Network
	phone *phone
	home  *homeassistant.Server
	mail  *mailtest.Server

	app    *app.App
	local  *app.Local
	server *app.Server
	voice  *app.Voice

	mu    sync.Mutex
	lines []line
	calls int // of the model

	restless bool // Steward is restarted all the time
}

type line struct {
	at        time.Time
	who, what string
	scene     bool
	section   int // the number of the scene
}

// rank orders what happens at the same moment, and in no order of its own.
func (l line) rank() int {
	switch {
	case l.scene:
		return 0
	case strings.HasPrefix(l.what, questionChanges):
		return 2
	case l.who == theHome, l.who == theMail:
		return 3
	case strings.HasPrefix(l.who, "Steward, "):
		return 4
	}
	return 1
}

const (
	theHome         = "Home Assistant"
	theMail         = "The mail server"
	questionChanges = "changes the question to: "
)

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
log: {level: info}
profile: {time_zone: Europe/Vienna}
home: {url: "http://127.0.0.1:8123", token: %q}
channels: {telegram: {token: %q, base_url: "http://127.0.0.1:8443"}}
mail: {home: {address: "Ann <ann@example.com>", imap: "127.0.0.1:1143", smtp: "127.0.0.1:1587", tls: none, user: %q, password: %q}}
wyoming: {listen: "127.0.0.1:10300", user: local, hidden: true}
`

func TestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.live()
		d.count()
		page := d.page()
		if *update {
			d.check(os.WriteFile(document, []byte(page), 0o644)) //nolint:gosec // a page of the documentation
		}
		written, err := os.ReadFile(document)
		d.check(err)
		if string(written) != page {
			t.Errorf("%s is not what happened; go test ./test/day -update writes it:\n%s", document, page)
		}
	})
}

// document is the page that TestADay writes.
const document = "../../docs/guides/a-day.md"

func newDay(t *testing.T) *day {
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	d := &day{t: t, dir: t.TempDir(), zone: zone, net: network.New(t)}
	begin := time.Date(2026, 12, 1, 21, 0, 0, 0, zone) // a Tuesday
	time.Sleep(time.Until(begin))
	d.phone = newPhone(d)
	d.home = homeassistant.New(t, []homeassistant.Area{{ID: "bedroom", Name: "Bedroom"}, {ID: "kitchen", Name: "Kitchen"}},
		homeassistant.Entity{ID: "light.bedroom", Name: "Bedroom light", Area: "bedroom", State: "off"},
		homeassistant.Entity{ID: "light.kitchen", Name: "Kitchen light", Area: "kitchen", State: "on"})
	d.home.Called = func(c homeassistant.Call) {
		d.tell(theHome, fmt.Sprintf("carries out %s.%s for %s", c.Domain, c.Service, strings.Join(c.Entities, ", ")))
	}
	d.mail = mailtest.StartOn(t, d.net.ListenAt(1143), d.net.ListenAt(1587))
	d.mail.Hold(func(raw string) {
		m, err := mail.ReadMessage(strings.NewReader(raw))
		d.check(err)
		body, err := io.ReadAll(m.Body)
		d.check(err)
		d.tell(theMail, fmt.Sprintf("sends to %s: %s: %s", m.Header.Get("To"), m.Header.Get("Subject"), strings.TrimSpace(string(body))))
	})
	d.net.Serve(9001, edge.Script(t, d.model))
	d.net.Serve(8123, d.home)
	d.net.Serve(8443, d.phone)
	t.Cleanup(d.home.Cut)
	d.check(os.WriteFile(filepath.Join(d.dir, "steward.yaml"), fmt.Appendf(nil, settings, homeassistant.Token, botToken, mailtest.User, mailtest.Password), 0o600))
	t.Cleanup(func() {
		if d.local != nil {
			d.close()
		}
		if t.Failed() {
			b, err := os.ReadFile(filepath.Join(d.dir, "log"))
			t.Logf("%.20000s\n%s%v", b, d.page(), err)
		}
	})
	d.open()
	return d
}

// until lets time pass until a time of day.
func (d *day) until(clock string) {
	d.t.Helper()
	if d.restless { // what Ann has just done is being dealt with
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		d.close()
		d.open()
	}
	now := time.Now().In(d.zone)
	at, err := time.ParseInLocation("2006-01-02 15:04", now.Format(time.DateOnly)+" "+clock, d.zone)
	d.check(err)
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	time.Sleep(at.Sub(now))
	synctest.Wait()
	if d.restless {
		d.close()
		d.open()
	}
}

// off stops Steward until a time of day.
func (d *day) off(clock string) {
	d.t.Helper()
	d.tell("Steward", "is stopped")
	d.close()
	restless := d.restless
	d.restless = false
	d.until(clock)
	d.restless = restless
	d.tell("Steward", "is started again")
	d.open()
}

func (d *day) live() {
	d.scene("The evening before", "Ann writes to the bot for the first time. It does not know her, and gives her a code. She enters it at the terminal, where only she is.")
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

	d.scene("A standing approval, and a job", "Ann does not want to be asked about lights again. Approvals for good are given at the terminal. Then she wants to be woken.")
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

	d.scene("Lights off by voice", "Home Assistant hears the sentence, and sends it to Steward over the Wyoming protocol. No language model is asked: the words are clear.")
	d.hear("Turn off the bedroom light")
	d.until("06:59")

	d.scene("Waking up", "The job begins by itself.")
	d.until("07:30")

	d.scene("A meeting is moved by mail", "Bob writes. The heartbeat looks every 15 minutes, and calls a model only because something has changed. It may tell and propose, not act. "+
		"Ann asks for it, and Steward asks her before each thing that it does. It is stopped while a question is open, and the button still works.")
	d.post("Bob <bob@example.com>", "Our meeting", "Could we meet at eleven rather than at ten?")
	d.until("08:01")
	d.phone.say("Move it to eleven and tell Bob")
	d.until("08:10")
	d.off("08:20")
	d.until("08:21")
	d.phone.press("Allow once")
	d.until("08:22")
	d.phone.press("Allow once")
	d.until("09:00")

	d.scene("A timer across a restart", "The timer is set by voice, again without a language model. Steward is stopped and started while it runs.")
	d.hear("Set a timer for 45 minutes for the bread")
	d.until("09:30")
	d.off("09:40")
	d.until("10:00")

	d.scene("The meeting begins soon", "The heartbeat looks half an hour ahead in the calendar.")
	d.until("19:00")

	d.scene("The daily review", "It comes once a day, at the time that Ann has chosen.")
	d.until("22:00")

	d.scene("Good night", "")
	d.hear("Turn off the kitchen light")
	d.until("22:30")
}

// count checks that each effect has happened once.
func (d *day) count() {
	d.t.Helper()
	var calls []string
	for _, c := range d.home.Calls() {
		calls = append(calls, c.Service+" "+strings.Join(c.Entities, ","))
	}
	same(d.t, "calls of services", calls, "turn_on light.bedroom", "turn_off light.bedroom", "turn_on light.bedroom", "turn_off light.kitchen")
	var sent []string
	for _, m := range d.mail.Sent() {
		sent = append(sent, m.From+" to "+strings.Join(m.To, ","))
	}
	same(d.t, "e-mails", sent, "ann@example.com to bob@example.com")
	var asked, said []string
	for _, text := range d.phone.texts() {
		first, _, _ := strings.Cut(text, "\n")
		if strings.HasPrefix(first, "May I do this? ") {
			asked = append(asked, strings.TrimPrefix(first, "May I do this? "))
			if !strings.Contains(text, "✓ Allowed by") {
				d.t.Errorf("it does not say that it was decided: %s", text)
			}
			continue
		}
		text, _, _ = strings.Cut(text, "\n\nSources:")
		said = append(said, strings.ReplaceAll(hidden(text), "\n\n", " / "))
	}
	same(d.t, "questions", asked, `Add "Meeting with Bob" to the calendar, Wed 2 Dec 2026 10:00`, `Control "bedroom light": turn_on`,
		`Create the job "Wake me: turn on the bedroom light and tell me what is on"`, `Move "Meeting with Bob" to Wed 2 Dec 2026 11:00`, `Send an e-mail to bob@example.com: "Re: Our meeting"`)
	same(d.t, "messages", said, "I do not know you yet. The owner of this Steward can let you in with: / steward pair CODE / The code is valid for one hour.", "You are paired with the user local. Write to me as you would in a chat; /help lists the commands.",
		"The meeting with Bob is in your calendar, tomorrow at ten.", "The light is on.", "A new conversation begins with your next message.", "I will wake you every weekday at seven.",
		"Job wake-up / Good morning, Ann. Today you meet Bob at ten.", "Heartbeat / Bob asks to meet at eleven rather than at ten [1]. Shall I move the meeting and answer him?", "The meeting is at eleven now, and Bob knows.",
		`The timer "bread" is over.`, "Heartbeat / The meeting with Bob begins at eleven [1].", "Daily review / The meeting with Bob was moved to eleven, and he has your answer [1].")
	list, err := d.local.Own.Intents(d.t.Context(), client.IntentQuery{}, 100)
	d.check(err)
	var done []string
	for _, in := range slices.Backward(list) {
		done = append(done, in.Tool+" "+in.State)
	}
	slices.Sort(done)
	same(d.t, "actions", done, "calendar.add done", "calendar.move done", "home.control done", "home.control done", "home.control done", "home.control done",
		"job.create done", "mail.send done", "timer.set done")
	diary, err := os.ReadFile(filepath.Join(d.dir, "data", "private", "root", "calendar", "local", "calendar.ics"))
	d.check(err)
	if n := strings.Count(string(diary), "BEGIN:VEVENT"); n != 1 || !strings.Contains(string(diary), "DTSTART:20261202T100000Z") {
		d.t.Errorf("%d events: %s", n, diary)
	}
	for name, want := range map[string]int{"wake-up": 1, "daily-review": 1} {
		history, err := d.local.Own.JobHistory(d.t.Context(), name, 50)
		d.check(err)
		if len(history) != want {
			d.t.Errorf("%s began %d times", name, len(history))
		}
	}
	inbox, err := d.local.Own.ChannelInbox(d.t.Context(), false)
	d.check(err)
	outbox, err := d.local.Own.ChannelOutbox(d.t.Context(), false)
	d.check(err)
	if len(inbox) > 0 || len(outbox) > 0 {
		d.t.Errorf("it is not settled: %+v %+v", inbox, outbox)
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const head = `# A day with Steward

<!-- TestADay writes this page: go test ./test/day -run TestADay -update -->

This is a day of Ann's, who reaches Steward by [Telegram](messengers.md), by the voice of her [home](home-assistant.md) and at a terminal. A test lives it on a virtual clock: the whole of ` + "`steward serve`" + ` runs with its database, and only the services around it (Telegram, Home Assistant, the mail server, the language model) are doubles. The test fails if the day is not as it stands here, or if anything happens twice.

Lines of *the model* are what the language model wants. Whatever it wants goes through [approvals](approvals.md).
`

// hidden hides what differs from day to day.
func hidden(text string) string {
	return regexp.MustCompile(`steward pair [A-Z0-9]{8}`).ReplaceAllString(text, "steward pair CODE")
}

// page returns the day as a page of the documentation.
func (d *day) page() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	b.WriteString(head)
	open, section := false, 0
	for i := range d.lines {
		if d.lines[i].scene {
			section++
		}
		d.lines[i].section = section
	}
	slices.SortStableFunc(d.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.section, b.section), a.at.Compare(b.at), cmp.Compare(a.rank(), b.rank()))
	})
	for _, l := range d.lines {
		if l.scene {
			if open {
				b.WriteString("```\n")
			}
			fmt.Fprintf(&b, "\n## %s\n\n", l.who)
			if l.what != "" {
				b.WriteString(l.what + "\n\n")
			}
			b.WriteString("```text\n")
			open = true
			continue
		}
		what := hidden(l.what)
		fmt.Fprintf(&b, "%s  %s\n", l.at.In(d.zone).Format("15:04"), l.who)
		for line := range strings.SplitSeq(what, "\n") {
			b.WriteString(strings.TrimRight("       "+line, " ") + "\n")
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// scene begins a part of the day.
func (d *day) scene(title, about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line{at: time.Now(), who: title, what: about, scene: true})
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
		{" begins on ", nil, "The meeting with Bob begins at eleven [1]."},
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
	if bytes.Contains(a.Body, []byte("You read what a person has written to an assistant")) { // a conversation rests
		return edge.Reply{Text: `{"facts":[]}`}
	}
	d.mu.Lock()
	d.calls++
	d.mu.Unlock()
	time.Sleep(700 * time.Millisecond) // a model takes its time
	asked := a.User()
	for _, s := range scripts() {
		if !strings.Contains(asked, s.asked) {
			continue
		}
		n := a.Rounds()
		if n < len(s.calls) {
			b, err := json.Marshal(s.calls[n].Args)
			d.check(err)
			d.tell("The model", fmt.Sprintf("calls %s %s", s.calls[n].Name, b))
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
