// Package weather tells an agent of the weather. A Forecaster is where that
// comes from; the local stand-in knows only what is usual, month by month, and
// says so.
package weather

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:weather"

// Report is what is known of the weather at a place on a day.
type Report struct {
	Place     string // as it is known: "Vienna, Austria"
	High, Low int    // °C
	Rain      int    // mm: in the month where Forecast is false, else on the day
	Forecast  bool   // of that very day, not what is usual in its month
	Source    string
}

// Forecaster knows the weather. Safe for concurrent use.
type Forecaster interface {
	// At tells of a place on a day. Errors: place_unknown (NotFound).
	At(ctx context.Context, place string, day time.Time) (Report, error)
	// Places lists the places that are known, if they can be listed.
	Places(ctx context.Context) ([]string, error)
}

// Options configure the source. The zero value works.
type Options struct {
	Now        func() time.Time                 // nil: time.Now
	Zone       func(user string) *time.Location // of a user; nil, or a nil answer: UTC
	Fahrenheit func(user string) bool           // whether a user reads those; nil: none does
	Forecaster Forecaster                       // nil: what is usual
}

// declaration is what agent.yaml says: nothing so far.
type declaration struct{}

// Opener makes the source.
func Opener(opt Options) tool.Opener {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	common := tool.Spec{Reach: tool.ReachOut, Yields: message.Untrusted} // a service of others
	if opt.Forecaster == nil {
		opt.Forecaster, common = Normals(), tool.Spec{}
	}
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		s := service{opt}
		k := local.NewKit(env, Kind)
		again := []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"city", "month", "date"}}}
		local.Query(k, tool.Spec{Name: "usual", Reach: common.Reach, Yields: common.Yields, Tidy: again,
			Description: "Tells what the weather is usually like in a city in a month: temperature and rain, cold or warm, wet or dry. Climate normals, no forecast.",
			Log:         tool.LogSpec{Summary: "Look up the usual weather in {city}"}}, s.usual)
		local.Query(k, tool.Spec{Name: "cities", Reach: common.Reach, Yields: common.Yields,
			Description: "Lists the cities and places of which the usual weather is known.",
			Log:         tool.LogSpec{Summary: "List the cities whose weather is known"}}, s.cities)
		return k.Source()
	}
}

type service struct{ opt Options }

type usualArgs struct {
	City  string `json:"city"`
	Month string `json:"month,omitzero"`
	Date  string `json:"date,omitzero"`
}

// JSONSchema has the format that the tags cannot give.
func (usualArgs) JSONSchema() string {
	return `{"type":"object","properties":{
"city":{"type":"string","minLength":1,"maxLength":100,"description":"the city or place"},
"month":{"type":"string","enum":["january","february","march","april","may","june","july","august","september","october","november","december"],"description":"the month; this one unless given"},
"date":{"type":"string","format":"date","description":"the day that is asked about, where one is: its month counts"}},
"required":["city"],"additionalProperties":false}`
}

func (s service) usual(ctx context.Context, in tool.Invocation, a usualArgs) (string, error) {
	day, err := s.day(in.User, a)
	if err != nil {
		return "", err
	}
	r, err := s.opt.Forecaster.At(ctx, a.City, day)
	if err != nil {
		return "", err
	}
	unit, conv := "°C", func(c int) int { return c }
	if s.opt.Fahrenheit != nil && s.opt.Fahrenheit(in.User) {
		unit, conv = "°F", func(c int) int { return int(float64(c)*9/5+32.5+1000) - 1000 }
	}
	if r.Forecast {
		return fmt.Sprintf("In %s on %s: %d to %d %s, %d mm of rain (%s).", r.Place, day.Format("Mon 2 Jan"), conv(r.Low), conv(r.High), unit, r.Rain, r.Source), nil
	}
	return fmt.Sprintf("In %s in %s it is usually %d to %d %s (average low and high), with about %d mm of rain in the month. This is the usual weather, no forecast: %s.",
		r.Place, day.Month(), conv(r.Low), conv(r.High), unit, r.Rain, r.Source), nil
}

// day is the one whose month is meant.
func (s service) day(user string, a usualArgs) (time.Time, error) {
	zone := time.UTC
	if s.opt.Zone != nil {
		if z := s.opt.Zone(user); z != nil {
			zone = z
		}
	}
	now := s.opt.Now().In(zone)
	if a.Month != "" {
		for m := time.January; m <= time.December; m++ {
			if strings.EqualFold(m.String(), a.Month) {
				return time.Date(now.Year(), m, 15, 12, 0, 0, 0, zone), nil
			}
		}
	}
	if a.Date == "" {
		return now, nil
	}
	t, err := time.ParseInLocation(time.DateOnly, a.Date, zone)
	if err != nil {
		return t, fault.New(fault.Invalid, "time_invalid", "%.40q is no date", a.Date).With("write it like 2026-03-29")
	}
	return t, nil
}

func (s service) cities(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
	list, err := s.opt.Forecaster.Places(ctx)
	return strings.Join(list, "; "), err
}
