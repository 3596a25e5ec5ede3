// Package day lives a day with Steward on a virtual clock, and records it in docs/guides/a-day.md.
package day

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/app"
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
wyoming: {listen: "127.0.0.1:10300", user: local, hidden: true}
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
		})
		d.open()
		d.live()
		d.close()
		for _, l := range d.lines {
			t.Log(l.at.In(zone).Format("15:04:05"), l.who, ":", l.what)
		}
	})
}

func (d *day) live() {
	d.phone.say("Hello")
	synctest.Wait()
	d.until("21:30")
}

// model is the language model: it answers what the day needs.
func (d *day) model(a edge.Asked) edge.Reply {
	d.mu.Lock()
	d.calls++
	d.mu.Unlock()
	return edge.Reply{Text: "Hello Ann."}
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

var _ net.Listener = (*listener)(nil)
var _ = slog.Default
