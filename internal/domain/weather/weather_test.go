package weather

import (
	"strings"
	"testing"
	"time"

	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
)

func open(t *testing.T, opt Options) *localtest.Source {
	opt.Now = func() time.Time { return time.Date(2026, 7, 31, 23, 0, 0, 0, time.UTC) }
	opt.Zone = func(string) *time.Location { return time.FixedZone("X", 7200) } // August already
	return localtest.Open(t, Opener(opt), localtest.Env(t, "weather"), "")
}

func TestWhatIsUsual(t *testing.T) {
	s := open(t, Options{})
	for args, want := range map[string]string{
		`{"city":"Vienna","month":"march"}`:                         "In Vienna, Austria in March it is usually 3 to 11 °C (average low and high), with about 50 mm of rain in the month. This is the usual weather, no forecast:",
		`{"city":"wien"}`:                                           "In Vienna, Austria in August it is usually 16 to 27 °C",
		`{"city":"ZÜRICH","date":"2026-01-05"}`:                     "In Zurich, Switzerland in January it is usually -1 to 4 °C",
		`{"city":"the city of New York (NY)","date":"2026-07-04"}`:  "In New York, United States in July",
		`{"city":"São Paulo or Rio de Janeiro","month":"february"}`: "In Rio de Janeiro, Brazil in February",
	} {
		if got := s.Call("q", "weather.usual", args); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
	if _, err := s.Try("q", "weather.usual", `{"city":"Atlantis"}`); !fault.HasCode(err, "place_unknown") || !strings.Contains(err.Error(), "Vienna") {
		t.Errorf("%v", err)
	}
	if _, err := s.Try("q", "weather.usual", `{"city":"Oslo","date":"soon"}`); !fault.HasCode(err, "time_invalid") {
		t.Errorf("%v", err)
	}
	if got := s.Call("q", "weather.cities", `{}`); strings.Count(got, ";") < 35 {
		t.Errorf("the cities: %s", got)
	}
	f := open(t, Options{Fahrenheit: func(string) bool { return true }})
	if got := f.Call("q", "weather.usual", `{"city":"Moscow","month":"january"}`); !strings.Contains(got, "16 to 25 °F") {
		t.Errorf("in °F: %s", got)
	}
}

// The table is whole and plausible: lows below highs, warm summers on the
// right half of the year, rain within what the earth has.
func TestTheTable(t *testing.T) {
	n, err := parse(climate)
	if err != nil {
		t.Fatal(err)
	}
	south := map[string]bool{"Auckland": true, "Buenos Aires": true, "Cape Town": true, "Melbourne": true, "Sydney": true, "Rio de Janeiro": true, "Nairobi": true}
	names := map[string]bool{}
	for _, c := range n.list {
		name, _, _ := strings.Cut(c.name, ",")
		if names[name] {
			t.Errorf("%s is there twice", name)
		}
		names[name] = true
		for i, m := range c.months {
			next := c.months[(i+1)%12]
			if m[0] <= m[1] || m[0] > 45 || m[1] < -20 || m[2] < 0 || m[2] > 450 || m[0]-next[0] > 12 || next[0]-m[0] > 12 {
				t.Errorf("%s, month %d: %v, then %v", c.name, i+1, m, next)
			}
		}
		if c.months[0][0] > c.months[6][0] != south[name] && name != "Singapore" && name != "Bangkok" {
			t.Errorf("%s: January %v, July %v", c.name, c.months[0], c.months[6])
		}
	}
	for _, bad := range []string{"A|B|C", "A|B||1/2/3", "A|B||" + strings.Repeat("1/2 ", 12), "A|B||" + strings.Repeat("1/2/x ", 12)} {
		if _, err := parse(bad); !fault.HasCode(err, "climate_invalid") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestUnknownMembersAreRefused(t *testing.T) {
	if _, err := Opener(Options{})(localtest.Env(t, "w"), localtest.Decoder("city: x")); err == nil {
		t.Error("an unknown member was accepted")
	}
}
