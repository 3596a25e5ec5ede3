package edge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
)

// Files that other programs wrote are read, searched and edited in their own encoding and with their own line ends.
func TestFilesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Steps(
			edge.Call{Name: "files.read", Args: map[string]any{"path": in.User()}},
			edge.Call{Name: "files.edit", Args: map[string]any{"path": in.User(), "old": "one\ntwo", "new": "1 é\n2"}},
			edge.Call{Name: "files.search", Args: map[string]any{"query": "Café", "path": "docs"}},
		)(in)
	})})
	n.Write(fmt.Sprintf("folders: [{name: docs, path: %q, write: true}]\n", filepath.Join(n.Dir, "docs")), ".config", "steward", "steward.yaml")
	wide := func(s string) string { // in UTF-16, the low byte first
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, r := range s {
			b.WriteByte(byte(r))
			b.WriteByte(byte(r >> 8))
		}
		return b.String()
	}
	latin := strings.NewReplacer("é", "\xe9")
	files := map[string][2]string{
		"utf8.txt":  {"Café\r\none\r\ntwo\r\n", "Café\r\n1 é\r\n2\r\n"},
		"latin.txt": {latin.Replace("Café\r\none\r\ntwo\r\n"), latin.Replace("Café\r\n1 é\r\n2\r\n")},
		"wide.txt":  {wide("Café\r\none\r\ntwo\r\n"), wide("Café\r\n1 é\r\n2\r\n")},
	}
	for name, text := range files {
		n.Write(text[0], "docs", name)
	}
	n.Serve()
	for name, text := range files {
		a := n.Ask("docs/"+name, func(edge.Approval) string { return "approve" })
		got, err := os.ReadFile(filepath.Join(n.Dir, "docs", name))
		if err != nil || string(got) != text[1] {
			t.Errorf("%s is now %q: %v: %s", name, got, err, a.Text)
		}
		if !strings.Contains(a.Text, "docs/"+name+":1:") {
			t.Errorf("%s is not found: %s", name, a.Text)
		}
	}
}

// An event's hour is that of its own zone, as other programs name and define zones.
func TestEventsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	event := func(uid, zone, more string) string {
		return "BEGIN:VEVENT\nUID:" + uid + "\nDTSTAMP:20260101T000000Z\nDTSTART;TZID=" + zone + ":20300304T010000\nDTEND;TZID=" + zone + ":20300304T020000\nSUMMARY:" + uid + "\n" + more + "END:VEVENT\n"
	}
	const ours = "BEGIN:VTIMEZONE\nTZID:Ours\nBEGIN:STANDARD\nDTSTART:16010101T000000\nTZOFFSETFROM:-0500\nTZOFFSETTO:-0500\nEND:STANDARD\nEND:VTIMEZONE\n"
	n := edge.New(t, edge.Options{
		Model:    edge.Script(t, edge.Steps(edge.Call{Name: "calendar.list", Args: map[string]any{"date": "2030-03-04", "until": "2030-03-07"}})),
		Settings: "profile: {time_zone: UTC}\n",
	})
	n.Write("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Other//EN\r\n"+strings.ReplaceAll(ours+event("windows", "Pacific Standard Time", "")+event("defined", "Ours", "")+
		event("unknown", "Mars Time", "")+event("series", "Europe/Vienna", "RRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20300305\n"), "\n", "\r\n")+"END:VCALENDAR\r\n",
		"data", "private", "root", "calendar", "local", "calendar.ics")
	got := n.Must("ask", "-q", "what is on")
	for _, want := range []string{
		`"windows", Mon 4 Mar 2030 09:00–10:00`, `"defined", Mon 4 Mar 2030 06:00–07:00`, `its time zone "Mars Time" is unknown`,
		`"series", Mon 4 Mar 2030 00:00–01:00`, `"series", Wed 6 Mar 2030 00:00–01:00`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %s: %s", want, got)
		}
	}
	if strings.Contains(got, `"series", Tue 5 Mar`) {
		t.Errorf("what is excluded is there: %s", got)
	}
}
