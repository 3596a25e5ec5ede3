package dav

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// A zone that Steward writes is read back as it is, also under a name that says nothing.
func TestWrittenZonesAreReadBack(t *testing.T) {
	for _, name := range []string{"Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
		got := defined("x", Lines(Zone(loc, from)))
		if got == nil {
			t.Fatalf("%s is not read", name)
		}
		for at := from; at.Year() < 2034; at = at.Add(7 * time.Hour) {
			_, a := at.In(loc).Zone()
			_, b := at.In(got).Zone()
			if a != b {
				t.Fatalf("%s at %v: %d, want %d", name, at, b, a)
			}
		}
	}
}

// Each of Windows' names leads to a zone.
func TestWindowsZones(t *testing.T) {
	for name, iana := range windowsZones {
		if named(iana) == nil {
			t.Errorf("%s: there is no %s", name, iana)
		}
	}
}

// The forms of rules that zones have.
func TestRulesOfZones(t *testing.T) {
	const head = "BEGIN:STANDARD\nDTSTART:20001029T030000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0100\nRRULE:"
	for _, c := range []struct{ rule, from string }{ // from when on it is standard time in 2026, in UTC
		{"FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU", "2026-10-25T01:00:00Z"},
		{"FREQ=YEARLY;BYDAY=4SU;BYMONTH=10;WKST=MO", "2026-10-25T01:00:00Z"},
		{"FREQ=YEARLY;BYMONTH=10;BYDAY=SU;BYMONTHDAY=25,26,27,28,29,30,31", "2026-10-25T01:00:00Z"},
		{"FREQ=YEARLY;BYMONTH=10;BYMONTHDAY=-1", "2026-10-31T01:00:00Z"},
		{"FREQ=YEARLY", "2026-10-29T01:00:00Z"},
		{"FREQ=YEARLY;INTERVAL=2;BYMONTH=10;BYMONTHDAY=1", "2026-10-01T01:00:00Z"},
	} {
		loc := defined("x", Lines("TZID:x\n"+head+c.rule+"\nEND:STANDARD\nBEGIN:DAYLIGHT\nDTSTART:20000326T020000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU;UNTIL=20991231T000000Z\nEND:DAYLIGHT\n"))
		if loc == nil {
			t.Errorf("%s is not read", c.rule)
			continue
		}
		_, end := time.Date(2026, 7, 1, 0, 0, 0, 0, loc).ZoneBounds()
		if got := end.UTC().Format(time.RFC3339); got != c.from {
			t.Errorf("%s: %s, want %s", c.rule, got, c.from)
		}
	}
	for _, rule := range []string{"FREQ=DAILY", "FREQ=YEARLY;BYMONTH=13", "FREQ=YEARLY;BYDAY=XX", "FREQ=YEARLY;INTERVAL=0", "FREQ=YEARLY;BYSETPOS=1", "BYMONTH=1", "FREQ=YEARLY;COUNT=-1"} {
		if defined("x", Lines(head+rule+"\nEND:STANDARD\n")) != nil {
			t.Errorf("%s is read", rule)
		}
	}
}
