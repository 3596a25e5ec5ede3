package calendar

import (
	"strings"
	"testing"
)

// outlook is a calendar as Outlook writes it: with Windows' name of the zone, and its definition.
const outlook = `BEGIN:VCALENDAR
BEGIN:VTIMEZONE
TZID:Pacific Standard Time
BEGIN:STANDARD
DTSTART:16010101T020000
TZOFFSETFROM:-0700
TZOFFSETTO:-0800
RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=1SU;BYMONTH=11
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:-0800
TZOFFSETTO:-0700
RRULE:FREQ=YEARLY;INTERVAL=1;BYDAY=2SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
BEGIN:VEVENT
UID:1
DTSTART;TZID=Pacific Standard Time:20260305T010000
DTEND;TZID=Pacific Standard Time:20260305T020000
SUMMARY:Call
END:VEVENT
END:VCALENDAR
`

func listed(t *testing.T, content, tool, args string) string {
	t.Helper()
	s, _ := open(t, strings.ReplaceAll(content, "\n", "\r\n"))
	return s.Call("q", tool, args)
}

// The hour of an event is that of its own zone, whether its text defines the zone, or the name is known.
func TestZonesOfOtherPrograms(t *testing.T) {
	custom := strings.NewReplacer("TZID:Pacific Standard Time", "TZID:Customized Time Zone", "TZID=Pacific Standard Time", `TZID="Customized Time Zone"`).Replace(outlook)
	undefined := outlook[:strings.Index(outlook, "BEGIN:VTIMEZONE")] + outlook[strings.Index(outlook, "BEGIN:VEVENT"):]
	for name, content := range map[string]string{
		"Outlook":          outlook,
		"its own name":     custom,
		"not defined":      undefined,
		"in lower case":    strings.ReplaceAll(undefined, "Pacific Standard Time", "pacific standard time"),
		"of the database":  strings.ReplaceAll(outlook, "Pacific Standard Time", "America/Los_Angeles"),
		"a longer name":    strings.ReplaceAll(undefined, "Pacific Standard Time", "/example.org/20260101/America/Los_Angeles"),
		"an offset":        strings.ReplaceAll(undefined, "TZID=Pacific Standard Time", `TZID="UTC-08:00"`),
		"Libical's origin": strings.Replace(custom, "BEGIN:STANDARD", "X-LIC-LOCATION:America/Los_Angeles\nBEGIN:STANDARD", 1),
		"a broken zone":    strings.Replace(outlook, "FREQ=YEARLY", "FREQ=SECONDLY", 1),
	} {
		if got := listed(t, content, "calendar.list", `{"date":"2026-03-05"}`); !strings.Contains(got, "10:00–11:00") || strings.Contains(got, "unknown") {
			t.Errorf("%s: %s", name, got)
		}
		if got := listed(t, content, "calendar.free", `{"date":"2026-03-05"}`); !strings.Contains(got, "08:00–10:00, 11:00–20:00") {
			t.Errorf("%s: %s", name, got)
		}
	}
	unknown := strings.ReplaceAll(undefined, "Pacific Standard Time", "Mars Time")
	for _, tool := range []string{"calendar.list", "calendar.free"} {
		if got := listed(t, unknown, tool, `{"date":"2026-03-05"}`); !strings.Contains(got, `its time zone "Mars Time" is unknown, and was taken for Europe/Vienna`) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := listed(t, unknown, "calendar.search", `{"query":"call"}`); !strings.Contains(got, `"Mars Time" is unknown`) {
		t.Error(got)
	}
}

// A repetition keeps its hour in a defined zone when the clocks change there: on 8 March 2026, and in Vienna on
// 29 March.
func TestRepetitionsInADefinedZone(t *testing.T) {
	weekly := strings.Replace(strings.ReplaceAll(outlook, "Pacific Standard Time", "Ours"), "SUMMARY", "RRULE:FREQ=WEEKLY\nSUMMARY", 1)
	got := listed(t, weekly, "calendar.list", `{"date":"2026-03-05","until":"2026-11-06"}`)
	for _, want := range []string{"Thu 5 Mar 2026 10:00", "Thu 12 Mar 2026 09:00", "Thu 26 Mar 2026 09:00", "Thu 2 Apr 2026 10:00", "Thu 29 Oct 2026 09:00", "Thu 5 Nov 2026 10:00"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}

// What is excluded, added and changed is meant by its day as well as by its time.
func TestDaysOfATimedSeries(t *testing.T) {
	const daily = "UID:1\nDTSTART;TZID=Europe/Vienna:20260304T180000\nDTEND;TZID=Europe/Vienna:20260304T190000\nSUMMARY:Run\nRRULE:FREQ=DAILY;COUNT=4\n"
	const wed, thu, fri, sat = "Wed 4 Mar 2026 18:00", "Thu 5 Mar 2026 18:00", "Fri 6 Mar 2026 18:00", "Sat 7 Mar 2026 18:00"
	for _, c := range []struct {
		lines string
		want  []string
		none  string
	}{
		{daily + "EXDATE;VALUE=DATE:20260305", []string{wed, fri, sat}, "5 Mar"},
		{daily + "EXDATE;VALUE=DATE:20260305,20260306\nEXDATE;TZID=Europe/Vienna:20260307T180000", []string{wed}, "7 Mar"},
		{daily + "EXDATE:20260305T180000", []string{wed, fri}, "5 Mar"}, // without a zone it is that of the series
		{daily + "EXDATE:20260305T170000Z", []string{wed, fri}, "5 Mar"},
		{daily + "EXDATE;TZID=W. Europe Standard Time:20260305T180000", []string{wed, fri}, "5 Mar"},
		{daily + "RDATE;VALUE=DATE:20260310", []string{sat, "Tue 10 Mar 2026 18:00–19:00"}, "11 Mar"},
		{daily + "RDATE;VALUE=PERIOD:20260310T100000Z/PT2H,20260311T100000Z/20260311T103000Z", []string{"Tue 10 Mar 2026 11:00–13:00", "Wed 11 Mar 2026 11:00–11:30"}, "12 Mar"},
		{strings.Replace(daily, "COUNT=4", "UNTIL=20260306", 1), []string{wed, thu, fri}, "7 Mar"},
		{daily + "END:VEVENT\nBEGIN:VEVENT\nUID:1\nRECURRENCE-ID;VALUE=DATE:20260305\nDTSTART;TZID=Europe/Vienna:20260305T200000\nDTEND;TZID=Europe/Vienna:20260305T210000\nSUMMARY:Run", []string{wed, "Thu 5 Mar 2026 20:00", fri}, "Thu 5 Mar 2026 18:00"},
		{"UID:1\nDTSTART;VALUE=DATE:20260304\nSUMMARY:Day\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260305T000000", []string{"Wed 4 Mar", "Fri 6 Mar"}, "Thu 5 Mar"},
	} {
		got := listed(t, "BEGIN:VCALENDAR\nBEGIN:VEVENT\n"+c.lines+"\nEND:VEVENT\nEND:VCALENDAR\n", "calendar.list", `{"date":"2026-03-04","until":"2026-03-20"}`)
		_, got, _ = strings.Cut(got, "\n") // the first line names the span
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s is missing in\n%s", c.lines, want, got)
			}
		}
		if strings.Contains(got, c.none) {
			t.Errorf("%s: %s in\n%s", c.lines, c.none, got)
		}
	}
}

// A byte order mark at the beginning of a file hides no event.
func TestACalendarWithAByteOrderMark(t *testing.T) {
	bare := "\ufeff" + outlook[strings.Index(outlook, "BEGIN:VEVENT"):]
	for _, content := range []string{"\ufeff" + outlook, bare} {
		if got := listed(t, content, "calendar.list", `{"date":"2026-03-05"}`); !strings.Contains(got, `"Call"`) {
			t.Error(got)
		}
	}
}
