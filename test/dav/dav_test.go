//go:build long

// Package dav_test uses the calendar, the to-do list and the contacts through the built binary, at a
// Radicale server. scripts/test-long runs it.
package dav_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/test/edge"
	"steward/test/must"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

const password = "correct-horse"

// start starts Radicale with a calendar, a to-do list and an address book of ann's. It ends with the test.
func start(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	at := l.Addr().String()
	must.Do(t, l.Close())
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "config")
	must.Do(t, os.WriteFile(users, []byte("ann:"+password+"\n"), 0o600))
	must.Do(t, os.WriteFile(config, []byte("[server]\nhosts = "+at+"\n[auth]\ntype = htpasswd\nhtpasswd_encryption = plain\nhtpasswd_filename = "+users+
		"\ndelay = 0\n[storage]\nfilesystem_folder = "+filepath.Join(dir, "store")+"\n"), 0o600))
	cmd := exec.Command("radicale", "--config", config)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() }) //nolint:errcheck // nobody uses it any more
	url = "http://" + at + "/"
	deadline := time.Now().Add(time.Minute)
	for {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close() //nolint:errcheck // it was only a look
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("Radicale does not answer")
		}
		<-time.After(20 * time.Millisecond)
	}
	calendar := func(component string) string {
		return `<C:mkcalendar xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><set><prop><displayname>` + component + `</displayname><C:supported-calendar-component-set><C:comp name="` + component + `"/></C:supported-calendar-component-set></prop></set></C:mkcalendar>`
	}
	ask(t, "MKCALENDAR", url+"ann/events/", calendar("VEVENT"))
	ask(t, "MKCALENDAR", url+"ann/tasks/", calendar("VTODO"))
	ask(t, "MKCOL", url+"ann/people/", `<mkcol xmlns="DAV:" xmlns:A="urn:ietf:params:xml:ns:carddav"><set><prop><resourcetype><collection/><A:addressbook/></resourcetype><displayname>People</displayname></prop></set></mkcol>`)
	return url
}

// ask makes a request as another program of ann's.
func ask(t *testing.T, method, url, body string) string {
	t.Helper()
	req := must.Get(http.NewRequest(method, url, strings.NewReader(body)))
	req.SetBasicAuth("ann", password)
	if method == http.MethodPut {
		req.Header.Set("Content-Type", map[bool]string{true: "text/vcard", false: "text/calendar"}[strings.HasSuffix(url, ".vcf")])
	}
	resp := must.Get(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	text := string(must.Get(io.ReadAll(resp.Body)))
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, url, resp.Status, text)
	}
	return text
}

const standup = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Other//EN\r\nBEGIN:VEVENT\r\nUID:2\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=Europe/Vienna:20300304T080000\r\n" +
	"DTEND;TZID=Europe/Vienna:20300304T083000\r\nSUMMARY:Standup\r\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE\r\nX-OTHER:stays\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

const ann = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:1\r\nFN:Ann Example\r\nN:Example;Ann;;;\r\nTEL;TYPE=CELL:+43 660 1234567\r\nEMAIL:ann@example.org\r\nCATEGORIES:friends,work\r\nEND:VCARD\r\n"

type args = map[string]any

func TestRadicale(t *testing.T) {
	url := start(t)
	ask(t, http.MethodPut, url+"ann/events/2.ics", standup)
	ask(t, http.MethodPut, url+"ann/people/1.vcf", ann)
	call := func(name string, a args) edge.Call { return edge.Call{Name: name, Args: a} }
	steps := []struct {
		call edge.Call
		want string // a regular expression about the result
	}{
		{call("calendar.add", args{"title": "Dentist", "start": "2030-03-05T09:00:00Z"}), `Added "Dentist".*It is in cloud/VEVENT`},
		{call("calendar.list", args{"date": "2030-03-04", "until": "2030-03-07"}), `(?s)Standup.*Mon 4 Mar.*Dentist.*Standup.*Wed 6 Mar`},
		{call("calendar.add", args{"title": "Tea", "start": "2030-03-05T09:30:00Z"}), `overlaps with "Dentist"`},
		{call("calendar.move", args{"event": "dentist", "date": "2030-03-05", "start": "2030-03-07T09:00:00Z"}), `Moved "Dentist", Thu 7 Mar 2030 09:00`},
		{call("calendar.move", args{"event": "standup", "date": "2030-03-06", "start": "2030-03-07T08:15:00Z"}), `Moved "Standup", Thu 7 Mar 2030 08:15`},
		{call("calendar.remove", args{"event": "standup", "date": "2030-03-11"}), `Removed "Standup"`},
		{call("calendar.list", args{"date": "2030-03-06", "until": "2030-03-13"}), `(?s)Thu 7 Mar 2030 08:15.*Dentist.*Wed 13 Mar`},
		{call("calendar.remove", args{"event": "tea", "date": "2030-03-05"}), `Removed "Tea"`},
		{call("calendar.free", args{"date": "2030-03-07", "minutes": 15}), `Free on Thu 7 Mar 2030: 08:00–08:15, 08:45–09:00, 10:00–20:00`},
		{call("calendar.add", args{"title": "Choir", "start": "2030-03-27T19:00:00", "repeat": "weekly", "attendees": []string{"bob@example.org"}}), `The server sends no invitations: bob@example.org must be notified`},
		{call("calendar.list", args{"date": "2030-04-03"}), `"Choir", Wed 3 Apr 2030 19:00–20:00, with bob@example.org \(repeats\)`},
		{call("todo.add", args{"title": "Buy milk", "due": "2030-03-06"}), `Added the task "Buy milk"`},
		{call("todo.add", args{"title": "Pay; the, rent"}), `Added the task`},
		{call("todo.list", args{}), `(?s)1. Buy milk \(due on 2030-03-06\) in cloud/VTODO.*2. Pay; the, rent`},
		{call("todo.complete", args{"task": "milk"}), `Completed the task "Buy milk"`},
		{call("todo.delete", args{"task": "rent"}), `Deleted the task`},
		{call("todo.list", args{"show": "all"}), `^1. Buy milk \(done\) in cloud/VTODO$`},
		{call("contacts.search", args{"query": "ann"}), `Ann Example, ann@example.org, \+43 660 1234567 \(mobile\) in cloud/People`},
		{call("contacts.add", args{"name": "Zoe Müller", "emails": []string{"zoe@example.com"}, "note": "a; b, c\nd"}), `Added "Zoe Müller" to cloud/People`},
		{call("contacts.edit", args{"contact": "Ann Example", "phones": []string{"+43 1 555"}}), `Changed the contact "Ann Example"`},
		{call("contacts.search", args{"query": "MÜLLER"}), `Zoe Müller, zoe@example.com, note: a; b, c d in`},
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		var i int
		if _, err := fmt.Sscanf(in.User(), "step %d", &i); err == nil && in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{steps[i].call}}
		}
		return edge.Reply{Text: strings.Join(in.Results(), "\n")}
	})})
	account := fmt.Sprintf("cloud: {url: '%s', user: ann, password: %s}", url, password)
	n.Write("calendars: {"+account+"}\ncontacts: {"+account+"}\nprofile: {time_zone: UTC}\n", ".config", "steward", "steward.yaml")
	n.Serve()
	for i, s := range steps {
		if a := n.Ask(fmt.Sprintf("step %d", i), func(edge.Approval) string { return "approve" }); !regexp.MustCompile(s.want).MatchString(a.Text) {
			t.Errorf("%s %v: %q (%s), want %s", s.call.Name, s.call.Args, a.Text, a.Code, s.want)
		}
	}
	// What other programs have written is still there.
	for at, wants := range map[string][]string{"events/2.ics": {"X-OTHER:stays", "EXDATE;TZID=Europe/Vienna:20300311T080000", "RECURRENCE-ID;TZID=Europe/Vienna:20300306T080000"},
		"people/1.vcf": {"CATEGORIES:friends,work", "TEL:+43 1 555", "FN:Ann Example"}} {
		text := ask(t, http.MethodGet, url+"ann/"+at, "")
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", at, want, text)
			}
		}
	}
	out := n.Run("doctor")
	for _, want := range []string{"cloud/VEVENT", "cloud/VTODO", "cloud/People"} {
		if !strings.Contains(out.Out, want) {
			t.Errorf("doctor lacks %s:\n%s", want, out.Out)
		}
	}
}
