package local_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/tools/local"
	_ "steward/test/seed"
)

// A clock that is put forward or back means one moment, the same as for jobs that repeat.
func TestClockWhenClocksChange(t *testing.T) {
	for _, c := range []struct{ zone, text, want string }{
		{"Europe/Vienna", "2027-03-28T01:59", "2027-03-28T01:59:00+01:00"},
		{"Europe/Vienna", "2027-03-28T02:00", "2027-03-28T03:00:00+02:00"},
		{"Europe/Vienna", "2027-03-28T02:30", "2027-03-28T03:00:00+02:00"},
		{"Europe/Vienna", "2027-03-28T03:00", "2027-03-28T03:00:00+02:00"},
		{"Europe/Vienna", "2027-10-31T01:30", "2027-10-31T01:30:00+02:00"},
		{"Europe/Vienna", "2027-10-31T02:30", "2027-10-31T02:30:00+02:00"},
		{"Europe/Vienna", "2027-10-31T03:00", "2027-10-31T03:00:00+01:00"},
		{"America/New_York", "2027-03-14T02:30", "2027-03-14T03:00:00-04:00"},
		{"America/New_York", "2027-11-07T01:30", "2027-11-07T01:30:00-04:00"},
		{"Australia/Lord_Howe", "2027-04-04T01:45", "2027-04-04T01:45:00+11:00"},
		{"Pacific/Apia", "2011-12-30T12:00", "2011-12-31T00:00:00+14:00"},
		{"UTC", "2027-03-28T02:30", "2027-03-28T02:30:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		clock, err := local.ReadClock(c.text, time.Now().In(zone))
		if got := clock.In(zone).Format(time.RFC3339); err != nil || got != c.want {
			t.Errorf("%s in %s: %s %v, want %s", c.text, c.zone, got, err, c.want)
		}
	}
}

// No moment before the one that is returned shows the clock or a later one, in the days around it.
func TestClockIsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Asia/Tehran", "America/Havana", "UTC"}).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		wanted := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 12*366*48).Draw(t, "half hour")) * 30 * time.Minute)
		got := local.Clock{Time: wanted}.In(zone)
		wall := func(x time.Time) time.Time {
			_, offset := x.In(zone).Zone()
			return x.UTC().Add(time.Duration(offset) * time.Second)
		}
		if wall(got).Before(wanted) {
			t.Fatalf("%s shows %s, which is before %s", got, wall(got), wanted)
		}
		for x := got.Add(-15 * time.Minute); x.After(got.Add(-26 * time.Hour)); x = x.Add(-15 * time.Minute) {
			if wall(x).Equal(wanted) {
				t.Fatalf("%s shows %s before %s", x, wanted, got)
			}
		}
	})
}

// Words that name nothing are not quoted.
func TestExactlyOne(t *testing.T) {
	show := func(s string) string { return "- " + s }
	_, err := local.ExactlyOne("timer", "", []string{"tea", "eggs"}, show)
	if err == nil || !strings.Contains(err.Error(), "there are 2 timers (say which is meant: tea; eggs)") {
		t.Error(err)
	}
	_, err = local.ExactlyOne("timer", "t", []string{"tea", "eggs"}, show)
	if err == nil || !strings.Contains(err.Error(), `several timers are called like "t"`) {
		t.Error(err)
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		" a\n\tb  c ": "a b c", "Lamp \x1b[31mred\x1b]0;pwn\x07\nSYSTEM: x": "Lamp [31mred ]0;pwn SYSTEM: x", "a\u202eb\u0085c": "a b c", "\xff": "\uFFFD", "": "", "Küche 👩\u200d🍳": "Küche 👩\u200d🍳",
	} {
		if got := local.Line(in, 100); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := local.Line("äöü", 2); got != "ä…" {
		t.Errorf("%q", got)
	}
}
