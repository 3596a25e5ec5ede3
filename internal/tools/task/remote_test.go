package task

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/dav"
	"steward/test/davtest"
	"steward/test/localtest"
)

func onServer(t *testing.T) (*localtest.Source, *davtest.Server) {
	server := davtest.Start(t)
	opt := options()
	opt.Accounts = dav.Accounts{Transport: http.DefaultTransport, List: []dav.Account{{Setting: "calendars.cloud", Name: "cloud", URL: server.URL, User: davtest.User, Secret: davtest.Secret}}}
	return localtest.Open(t, opener(opt), localtest.Env(t, "todo")), server
}

func vtodo(lines string) string {
	return "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Other//EN\nBEGIN:VTODO\nDTSTAMP:20260101T000000Z\n" + lines + "\nEND:VTODO\nEND:VCALENDAR\n"
}

func TestOnAServer(t *testing.T) {
	s, server := onServer(t)
	server.Put(davtest.Tasks+"1.ics", vtodo("UID:1\nSUMMARY:Water the plants\nX-OTHER:stays\nDUE;TZID=Europe/Vienna:20260307T090000"))
	server.Put(davtest.Tasks+"2.ics", vtodo("UID:2\nSUMMARY:Old thing\nSTATUS:COMPLETED"))
	server.Put(davtest.Tasks+"3.ics", vtodo("UID:3\nSUMMARY:Bins\nDUE:whenever\nRRULE:FREQ=WEEKLY"))
	for range 2 {
		if got := s.Call("a", "todo.add", `{"title":"Buy milk","due":"2026-03-06"}`); got != `Added the task "Buy milk", due on 2026-03-06.` {
			t.Errorf("told %s", got)
		}
	}
	if got, want := s.Call("q", "todo.list", `{}`), "1. Buy milk (due on 2026-03-06) in cloud/Tasks\n2. Water the plants (due on 2026-03-07) in cloud/Tasks\n3. Bins in cloud/Tasks"; got != want {
		t.Errorf("listed %s", got)
	}
	if got := s.Call("q", "todo.list", `{"show":"completed"}`); got != "4. Old thing (done) in cloud/Tasks" {
		t.Errorf("completed %s", got)
	}
	if _, err := s.Try("x", "todo.complete", `{"task":"bins"}`); !fault.HasCode(err, "task_repeats") || !tool.CertainlyNotDone(err) {
		t.Errorf("%v", err)
	}
	done := `{"task":"water"}`
	if got := s.Call("b", "todo.complete", done); got != `Completed the task "Water the plants".` {
		t.Errorf("told %s", got)
	}
	if text := strings.Join(server.In(davtest.Tasks), ""); !strings.Contains(text, "PERCENT-COMPLETE:100") || !strings.Contains(text, "X-OTHER:stays") {
		t.Errorf("written\n%s", text)
	}
	if ok, _ := s.Settle("b", "todo.complete", done); !ok {
		t.Error("it is not found")
	}
	if _, err := s.Undo(s.Invocation("b", "todo.complete", done), "todo.complete"); err != nil {
		t.Error(err)
	}
	s.Call("c", "todo.delete", `{"task":"milk"}`)
	if got := s.Call("q", "todo.list", `{}`); strings.Contains(got, "milk") || !strings.Contains(got, "Water") {
		t.Errorf("listed %s", got)
	}
	if _, err := s.Undo(s.Invocation("c", "todo.delete", `{"task":"milk"}`), "todo.delete"); err != nil {
		t.Error(err)
	}
	if got := s.Call("q", "todo.list", `{"due_before":"2026-03-06"}`); got != "1. Buy milk (due on 2026-03-06) in cloud/Tasks" {
		t.Errorf("listed %s", got)
	}
	server.Before = func(r *http.Request) int {
		if r.Method == http.MethodPut {
			server.Put(davtest.Tasks+"1.ics", vtodo("UID:1\nSUMMARY:Water the flowers"))
		}
		return 0
	}
	if _, err := s.Try("d", "todo.complete", done); !fault.HasCode(err, "changed_since") {
		t.Errorf("%v", err)
	}
}
