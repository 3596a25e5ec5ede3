package clock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/tool"
	"steward/internal/tools/local"
	"steward/test/localtest"
	"steward/test/must"
	_ "steward/test/seed"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	z := must.Get(time.LoadLocation(name))
	return z
}

// registered returns the tools in a registry.
func registered(t testing.TB, opt local.Options) *tool.Registry {
	t.Helper()
	return localtest.Register(t, must.Get(Tools(opt)))
}

// berlin are options of a fixed moment, in which the user ann lives in Berlin.
func berlin(t testing.TB) local.Options {
	now := time.Date(2026, 11, 5, 13, 3, 22, 5, time.UTC)
	return local.Options{
		Now: func() time.Time { return now },
		Zone: func(user string) *time.Location {
			if user == "ann" {
				return zoneOf(t, "Europe/Berlin")
			}
			return nil
		},
	}
}

func TestNow(t *testing.T) {
	r := registered(t, berlin(t))
	localtest.Table(t, r, []localtest.Row{
		{"time.now", `{}`, "2026-11-05T14:03:22+01:00 (Thursday, Europe/Berlin, CET)"},
		{"time.now", `{"zone":"UTC"}`, "2026-11-05T13:03:22Z (Thursday, UTC)"},
		{"time.now", `{"zone":"utc"}`, "2026-11-05T13:03:22Z (Thursday, UTC)"},
		{"time.now", `{"zone":"Asia/Tokyo"}`, "2026-11-05T22:03:22+09:00 (Thursday, Asia/Tokyo, JST)"},
		{"time.now", `{"zone":"asia/tokyo"}`, "2026-11-05T22:03:22+09:00 (Thursday, Asia/Tokyo, JST)"},
		{"time.now", `{"zone":"Tokyo"}`, "2026-11-05T22:03:22+09:00 (Thursday, Asia/Tokyo, JST)"},
		{"time.now", `{"zone":" new york "}`, "2026-11-05T08:03:22-05:00 (Thursday, America/New_York, EST)"},
		{"time.now", `{"zone":"America/Sao_Paulo"}`, "2026-11-05T10:03:22-03:00 (Thursday, America/Sao_Paulo)"},
		{"time.now", `{"zone":"Kathmandu"}`, "2026-11-05T18:48:22+05:45 (Thursday, Asia/Kathmandu)"},
		{"time.now", `{"zone":"Local"}`, "zone_unknown"},
		{"time.now", `{"zone":"local"}`, "zone_unknown"},
		{"time.now", `{"zone":"Atlantis"}`, "zone_unknown"},
		{"time.now", `{"zone":"Europe/Atlantis"}`, "zone_unknown"},
		{"time.now", `{"zone":"../../etc/passwd"}`, "zone_unknown"},
		{"time.now", `{"zone":1}`, "args_invalid"},
	})
	k := kit{opt: berlin(t)}
	if z, err := k.zone("", "bob"); err != nil || z != time.UTC {
		t.Errorf("a user without a zone: %v, %v", z, err)
	}
	if got, err := localtest.Call(t, registered(t, local.Options{}), "time.now", `{}`); err != nil || !strings.HasSuffix(got, "UTC)") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestConvert(t *testing.T) {
	const (
		gap = "\nNote: 2026-03-29 02:30 does not exist in Europe/Berlin: the clocks are set forward then. 03:30 is meant instead."
	)
	localtest.Table(t, registered(t, berlin(t)), []localtest.Row{
		{"time.convert", `{"time":"15:30","to":"Tokyo"}`, "2026-11-05T15:30:00+01:00 (Thursday, Europe/Berlin, CET) = 2026-11-05T23:30:00+09:00 (Thursday, Asia/Tokyo, JST)"},
		{"time.convert", `{"time":"3:30 pm","from":"Berlin","to":"UTC"}`, "2026-11-05T15:30:00+01:00 (Thursday, Europe/Berlin, CET) = 2026-11-05T14:30:00Z (Thursday, UTC)"},
		{"time.convert", `{"time":"9am","from":"America/New_York"}`, "2026-11-05T09:00:00-05:00 (Thursday, America/New_York, EST) = 2026-11-05T15:00:00+01:00 (Thursday, Europe/Berlin, CET)"},
		{"time.convert", `{"time":"2026-07-01 12:00","from":"Europe/Berlin","to":"America/New_York"}`, "2026-07-01T12:00:00+02:00 (Wednesday, Europe/Berlin, CEST) = 2026-07-01T06:00:00-04:00 (Wednesday, America/New_York, EDT)"},
		{"time.convert", `{"time":"2026-07-01T12:00:00+05:30","from":"UTC","to":"UTC"}`, "2026-07-01T06:30:00Z (Wednesday, UTC) = 2026-07-01T06:30:00Z (Wednesday, UTC)"},
		{"time.convert", `{"time":"2026-07-01t12:00z","to":"UTC"}`, "2026-07-01T14:00:00+02:00 (Wednesday, Europe/Berlin, CEST) = 2026-07-01T12:00:00Z (Wednesday, UTC)"},
		{"time.convert", `{"time":"2026-03-29 02:30","to":"UTC"}`, "2026-03-29T03:30:00+02:00 (Sunday, Europe/Berlin, CEST) = 2026-03-29T01:30:00Z (Sunday, UTC)" + gap},
		{"time.convert", `{"time":"now","to":"UTC"}`, "2026-11-05T14:03:22+01:00 (Thursday, Europe/Berlin, CET) = 2026-11-05T13:03:22Z (Thursday, UTC)"},
		{"time.convert", `{"time":"Noon","to":"UTC"}`, "2026-11-05T12:00:00+01:00 (Thursday, Europe/Berlin, CET) = 2026-11-05T11:00:00Z (Thursday, UTC)"},
		{"time.convert", `{"time":"midnight","to":"UTC"}`, "2026-11-05T00:00:00+01:00 (Thursday, Europe/Berlin, CET) = 2026-11-04T23:00:00Z (Wednesday, UTC)"},
		{"time.convert", `{"time":"2026-02-30 12:00","to":"UTC"}`, "time_invalid"},
		{"time.convert", `{"time":"25:00","to":"UTC"}`, "time_invalid"},
		{"time.convert", `{"time":"soon","to":"UTC"}`, "time_invalid"},
		{"time.convert", `{"time":"15:30","from":"nowhere","to":"UTC"}`, "zone_unknown"},
		{"time.convert", `{"time":"15:30","to":"nowhere"}`, "zone_unknown"},
		{"time.convert", `{"to":"UTC"}`, "args_invalid"},
	})
}

// For every minute around every clock change of some zones, a time is converted to a moment at which the
// clocks show it.
func TestWallClocks(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Apia", "UTC"} {
		zone := zoneOf(t, name)
		rapid.Check(t, func(t *rapid.T) {
			at := time.Unix(rapid.Int64Range(1e9, 2e9).Draw(t, "at")/60*60, 0).In(zone)
			wall := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
			got, note := wallTime(wall, zone)
			got = got.In(zone)
			if got.Format("2006-01-02 15:04") != wall.Format("2006-01-02 15:04") {
				t.Fatalf("%s in %s became %s (%s)", wall, name, got, note)
			}
			if note != "" {
				t.Fatalf("%s is there: %s", at, note)
			}
		})
	}
	// Samoa skipped a whole day.
	apia := zoneOf(t, "Pacific/Apia")
	if _, note := wallTime(time.Date(2011, 12, 30, 12, 0, 0, 0, time.UTC), apia); !strings.Contains(note, "does not exist") {
		t.Errorf("%q", note)
	}
}

func TestWhatTheClockMakesObsolete(t *testing.T) {
	s := localtest.NewSession(t, registered(t, berlin(t)))
	s.Expect("time.now", `{}`)
	s.Expect("time.now", `{"zone":"Tokyo"}`) // both zones were asked for
	s.Expect("time.now", `{}`, "time.now{}")
	s.Expect("time.convert", `{"time":"15:30","to":"Tokyo"}`)
	s.Expect("time.convert", `{"time":"15:30","to":"UTC"}`)
	s.Expect("time.convert", `{"time":"15:30","to":"UTC"}`, `time.convert{"time":"15:30","to":"UTC"}`)
	fell := s.Aged(maxClockAge)
	if !slices.Equal(fell, []string{`time.now{"zone":"Tokyo"}`, "time.now{}"}) {
		t.Errorf("too old are %q", fell)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	localtest.Described(t, registered(t, local.Options{}), "time.convert time.now")
}
