// Package clock provides the tools that tell the time and convert it between time zones.
package clock

import (
	"context"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the zones, for machines without them

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

type nowArgs struct {
	Zone string `json:"zone,omitzero" jsonschema:"an IANA time zone such as Europe/Berlin, or its city; the user's own unless given" maxlen:"64"`
}

type convertArgs struct {
	Time string `json:"time" jsonschema:"a time of day (15:30, 3:30 pm; today is meant), a date and time (2026-03-29 15:30), or RFC 3339" maxlen:"64"`
	From string `json:"from,omitzero" jsonschema:"the time zone of the given time: an IANA name such as Europe/Berlin, or its city; the user's own unless given" maxlen:"64"`
	To   string `json:"to,omitzero" jsonschema:"the time zone that is wanted: an IANA name such as Asia/Tokyo, or its city; the user's own unless given" maxlen:"64"`
}

// maxClockAge is how long the result of time.now is good enough.
const maxClockAge = 15 * time.Minute

// kit is what the tools have in common.
type kit struct{ opt local.Options }

// Tools returns the tools.
func Tools(opt local.Options) ([]tool.Tool, error) {
	k := &kit{opt}
	to := local.NewKit(tool.Env{Name: "time"}, "")
	local.Query(to, tool.Spec{Name: "now", Sentences: nowSentences,
		Description: "Tells the current date, time and day of the week: what time it is now, here or in another city or time zone, and what day it is today.",
		Log:         tool.LogSpec{Summary: "Look up the time in {zone|your time zone}"},
		// The time is soon wrong, and obsolete once it is asked for again.
		Tidy: append(local.ReplacesEarlier("zone"), tool.Strategy{Kind: tool.ByAge, MaxAge: maxClockAge})},
		func(_ context.Context, in tool.Invocation, a nowArgs) (string, error) {
			zone, err := k.zone(a.Zone, in.User)
			if err != nil {
				return "", err
			}
			return stamp(k.opt.Time().In(zone)), nil
		})
	local.Query(to, tool.Spec{Name: "convert",
		Description: "Converts a time from one time zone or city to another: what time it is there when it is a given time here.",
		Log:         tool.LogSpec{Summary: "Convert {time} from {from|your time zone} to {to|your time zone}"},
		Tidy:        local.ReplacesEarlier("time", "from", "to")},
		func(_ context.Context, in tool.Invocation, a convertArgs) (string, error) {
			from, err := k.zone(a.From, in.User)
			if err != nil {
				return "", err
			}
			to, err := k.zone(a.To, in.User)
			if err != nil {
				return "", err
			}
			return convert(a.Time, k.opt.Time(), from, to)
		})
	return to.Tools()
}

// The sentences by which people ask for the time.
var nowSentences = []string{
	"what time is it in {zone:place=Tokyo}",
	"what time is it [now] [in {zone:place}] [now]", "(what is|what's) the [current] (time|local time) [now] [in {zone:place}]", "the time [in {zone:place}]", "how late is it [in {zone:place}]", "[current] time in {zone:place}",
	"(what|which) day is (it|today|it today)", "(what is|what's) (today's date|the date|the date today|today)", "what's the day today",
	"de: wie spät ist es in {zone:place=Tokyo}",
	"de: wie spät ist es [jetzt|gerade] [in {zone:place}] [jetzt|gerade]", "de: wie viel uhr ist es [jetzt|gerade] [in {zone:place}]", "de: welcher tag ist heute", "de: welches datum (ist|haben wir) heute", "de: der wievielte ist heute",
}

// stamp formats a time for a model and a person.
func stamp(t time.Time) string {
	abbreviation, _ := t.Zone()
	if strings.HasPrefix(abbreviation, "+") || strings.HasPrefix(abbreviation, "-") || abbreviation == "UTC" {
		abbreviation = ""
	} else {
		abbreviation = ", " + abbreviation
	}
	return fmt.Sprintf("%s (%s, %s%s)", t.Format(time.RFC3339), t.Weekday(), t.Location(), abbreviation)
}

// zone finds a time zone by its IANA name or its city, in any case.
func (k *kit) zone(name, user string) (*time.Location, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return k.opt.Location(user), nil
	}
	// Zones are named like America/New_York.
	city := strings.ReplaceAll(cases.Title(language.Und).String(strings.ReplaceAll(name, "_", " ")), " ", "_")
	for _, try := range []string{name, strings.ToUpper(name), city} {
		if z, err := time.LoadLocation(try); err == nil && !strings.EqualFold(try, "local") {
			return z, nil
		}
	}
	if !strings.Contains(city, "/") {
		for _, area := range []string{"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian", "America/Argentina", "America/Indiana"} {
			if z, err := time.LoadLocation(area + "/" + city); err == nil {
				return z, nil
			}
		}
	}
	return nil, fault.New(fault.NotFound, "zone_unknown", "there is no time zone %.80q", name).
		WithHint("use an IANA name such as Europe/Berlin, America/New_York or UTC")
}

// convert answers in words, so that it can mention a clock change.
func convert(text string, now time.Time, from, to *time.Location) (string, error) {
	c, err := local.ReadClock(text, now.In(from))
	if err != nil {
		return "", err
	}
	t, note := c.Time, ""
	if !c.Fixed {
		t, note = wallTime(t, from)
	}
	return fmt.Sprintf("%s = %s%s", stamp(t.In(from)), stamp(t.In(to)), note), nil
}

// wallTime returns the moment at which the clocks of a zone show wall's time. If that time is skipped in
// spring, note says so; if it comes twice in autumn, the moment is one of both.
func wallTime(wall time.Time, zone *time.Location) (t time.Time, note string) {
	t = time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	if is, want := t.Format(time.DateTime), wall.Format(time.DateTime); is != want {
		note = fmt.Sprintf("\nNote: %s does not exist in %s: the clocks are set forward then. %s is meant instead.", want[:16], zone, is[11:16])
	}
	return t, note
}
