//go:build long

package calendar

import (
	"fmt"
	"steward/internal/fault"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever others wrote into a calendar, a look at it ends, is bounded, and still shows the other events.
func TestWhatAnInvitationMayCost(t *testing.T) {
	event := func(lines string) string {
		return "BEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Hostile\r\n" + lines + "\r\nEND:VEVENT\r\n"
	}
	rule := func(rule string) string { return event("DTSTART:20260304T100000Z\r\nRRULE:" + rule) }
	many := func(name string) string { // 600,000 dates in lines of at most 75 bytes
		return event("DTSTART;TZID=Europe/Vienna:20260304T110000\r\nRRULE:FREQ=DAILY\r\n" + name + ";TZID=Europe/Vienna:\r\n " +
			strings.Repeat("20260304T110000,20260304T110000,20260304T110000,20260304T110000,\r\n ", 150_000) + "20260304T110000")
	}
	below := func(n int) (list string) { // the numbers below n
		for i := range n {
			list += fmt.Sprintf(",%d", i)
		}
		return list[1:]
	}
	for name, content := range map[string]string{
		"every second for ever":          rule("FREQ=SECONDLY"),
		"an hour that never comes":       rule("FREQ=HOURLY;INTERVAL=24;BYHOUR=1"),
		"a minute that never comes":      rule("FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1"),
		"the 30th of February":           rule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
		"each second of each day":        rule("FREQ=YEARLY;BYMONTH=3,4,5,6;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=" + below(24) + ";BYMINUTE=" + below(60) + ";BYSECOND=" + below(60)),
		"a day behind the year":          rule("FREQ=MONTHLY;BYDAY=53MO,-53MO"),
		"an Easter far away":             rule("FREQ=YEARLY;BYEASTER=100000"),
		"a step of many years":           rule("FREQ=DAILY;INTERVAL=9223372036854775807"),
		"600,000 exceptions":             many("EXDATE"),
		"600,000 dates":                  many("RDATE"),
		"a million lines of nothing":     strings.Repeat("X:\r\n", 1_000_000),
		"a million lines in an event":    event("DTSTART:20260304T100000Z\r\n" + strings.Repeat("X:\r\n", 1_000_000)),
		"100,000 events that repeat":     strings.Repeat(rule("FREQ=DAILY"), 100_000),
		"100,000 events that are broken": strings.Repeat(event("DTSTART:never"), 100_000),
		"100,000 events without an end":  strings.Repeat("BEGIN:VEVENT\r\nUID:1\r\n", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := open(t, "BEGIN:VCALENDAR\r\n"+"BEGIN:VEVENT\r\nUID:2\r\nDTSTART:20260304T150000Z\r\nSUMMARY:Mine\r\nEND:VEVENT\r\n"+content+"END:VCALENDAR\r\n")
			got := s.Call("q", "calendar.list", `{"date":"2026-03-04","until":"2026-03-30"}`)
			if !strings.Contains(got, `"Mine"`) || len(got) > 1<<20 {
				t.Errorf("%d bytes: %.300s", len(got), got)
			}
		})
	}
}

// What others put into a calendar does not hide other events, and a look at it ends.
func TestHostileObjects(t *testing.T) {
	mine := vevent("UID:m\nDTSTART:20260304T150000Z\nSUMMARY:Mine")
	many := make([]string, 20_000) // 5 MB of rules that never come true
	for i := range many {
		many[i] = vevent(fmt.Sprintf("UID:%d\nDTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", i))
	}
	for name, texts := range map[string][]string{
		"every second for ever": {vevent("UID:1\nDTSTART:19700101T000000Z\nSUMMARY:Beat\nRRULE:FREQ=SECONDLY")},
		"no calendar":           {"\xff\xfe\x00", "BEGIN:VCALENDAR", "", "BEGIN:VEVENT\nDTSTART;X=\"\nEND:VEVENT", "<!doctype html>"},
		"nonsense":              {vevent("UID:1\nDTSTART:nonsense"), vevent("UID:2\nDTSTART:99999999T999999Z"), vevent("DTSTART:20260304T150000Z\nDTEND:20200304T150000Z"), vevent("UID:3")},
		"broken encodings":      {vevent("UID:1\nDTSTART:20260304T150000Z\nSUMMARY:\xe4\xf6\xfc")},
		"never":                 many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := raw(t, append([]string{mine}, texts...)...)
			got := s.Call("q", "calendar.list", `{"date":"2026-03-04"}`)
			if !strings.Contains(got, `"Mine"`) || len(got) > 100_000 || !utf8.ValidString(got) {
				t.Errorf("%d bytes: %.300s", len(got), got)
			}
		})
	}
	t.Run("100,000 events", func(t *testing.T) {
		t.Parallel()
		all := make([]string, 100_000)
		for i := range all {
			all[i] = vevent(fmt.Sprintf("UID:%d\nDTSTART:20260304T150000Z\nSUMMARY:Event", i))
		}
		if _, err := raw(t, all...).Try("q", "calendar.list", `{}`); !fault.HasCode(err, "dav_too_large") {
			t.Errorf("17 MB: %v", err)
		}
		got := raw(t, all[:20_000]...).Call("q", "calendar.list", `{"date":"2026-03-04"}`)
		if strings.Count(got, "\n") > 110 || !strings.Contains(got, "only 2000 of the events are shown") {
			t.Errorf("%d bytes: %.300s", len(got), got)
		}
	})
}
