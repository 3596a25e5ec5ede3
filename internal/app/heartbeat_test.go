package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/heartbeat"
	"steward/internal/identity"
	"steward/internal/settings"
	"steward/internal/tools/calendar"
	"steward/internal/tools/task"
	"steward/test/storetest"
)

// Tasks and events are found in the one window in which they are due.
func TestWhatIsDue(t *testing.T) {
	set := &settings.Loaded{Settings: settings.Defaults()}
	set.Data, set.Profile.TimeZone = t.TempDir(), "Europe/Vienna"
	l := &Local{Log: slog.New(slog.DiscardHandler), Keys: identity.New(storetest.NewModel())}
	write := func(name, file, text string) {
		t.Helper()
		place, accounts, err := l.diary(set, name, file, "")
		if err != nil || len(accounts.List) > 0 {
			t.Fatal(err)
		}
		path := place.For(identity.Local)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("todo", task.File, "- [ ] water the plants (due 2026-03-29)\n- [x] pay (due 2026-03-29)\n- [ ] some day\n- [ ] call Bob (due 2026-03-31)\n")
	write("calendar", calendar.File, strings.ReplaceAll(`BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//x//x//EN
BEGIN:VEVENT
UID:1
DTSTAMP:20260301T000000Z
SUMMARY:Dentist
LOCATION:Main Street 1
DTSTART:20260329T120000Z
DTEND:20260329T130000Z
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTAMP:20260301T000000Z
SUMMARY:Stand-up
RRULE:FREQ=DAILY
DTSTART:20260301T073000Z
DTEND:20260301T074500Z
END:VEVENT
END:VCALENDAR
`, "\n", "\r\n"))
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	look := func(s heartbeat.Source, now time.Time, from, to time.Time) (out []string) {
		t.Helper()
		f, err := s.Look(t.Context(), heartbeat.Window{User: identity.Local, Zone: vienna, Until: now, DueAfter: from, DueUntil: to})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range f.Changes {
			out = append(out, c.Text)
		}
		return out
	}
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, vienna) }
	tasks, events := l.dueTasks(set), l.dueEvents(set)
	found := map[string]int{}
	for now := at(28, 12, 0); now.Before(at(30, 12, 0)); now = now.Add(15 * time.Minute) { // the clocks change on the 29th
		for _, text := range append(look(tasks, now, now.Add(15*time.Minute), now.Add(30*time.Minute)), look(events, now, now.Add(15*time.Minute), now.Add(30*time.Minute))...) {
			found[text]++
		}
	}
	for text, n := range map[string]int{
		`the task "water the plants" is due on Sun 29 Mar`:            1,
		`"Dentist" begins on Sun 29 Mar at 14:00, at "Main Street 1"`: 1,
		`"Stand-up" begins on Sun 29 Mar at 09:30`:                    1,
		`"Stand-up" begins on Mon 30 Mar at 09:30`:                    1,
	} {
		if found[text] != n {
			t.Errorf("%s: found %d times", text, found[text])
		}
		delete(found, text)
	}
	if len(found) > 0 {
		t.Errorf("%v", found)
	}
	// After days without Steward: what should have been done is told, and what is over is not.
	if got := look(tasks, at(31, 12, 0), at(28, 0, 0), at(31, 12, 30)); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := look(events, at(31, 12, 0), at(28, 0, 0), at(31, 12, 30)); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
