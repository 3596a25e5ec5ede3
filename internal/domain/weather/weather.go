// Package weather tells an agent what the weather is usually like in each month. It has no forecast, and
// says so.
package weather

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/domain/local"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:weather"

// Options configure the source. The zero value works.
type Options struct {
	Now        func() time.Time                 // nil: time.Now
	Zone       func(user string) *time.Location // a user's time zone; nil, or a nil result: UTC
	Fahrenheit func(user string) bool           // whether a user prefers Fahrenheit; nil: none does
}

// declaration is the declaration in agent.yaml. It has no members.
type declaration struct{}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	known := readNormals()
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		s := service{local.Options{Now: opt.Now, Zone: opt.Zone}, opt.Fahrenheit, known}
		k := local.NewKit(env, Kind)
		local.Query(k, tool.Spec{Name: "usual", Tidy: local.Again("city", "month", "date"),
			Description: "Tells what the weather is usually like in a city in a month: temperature and rain, cold or warm, wet or dry. Climate normals, no forecast.",
			Log:         tool.LogSpec{Summary: "Look up the usual weather in {city}"}}, s.usual)
		local.Query(k, tool.Spec{Name: "cities",
			Description: "Lists the cities and places of which the usual weather is known.",
			Log:         tool.LogSpec{Summary: "List the cities whose weather is known"}}, s.cities)
		return k.Source()
	}
}

type service struct {
	local.Options
	fahrenheit func(user string) bool
	known      *normals
}

type usualArgs struct {
	City  string `json:"city" jsonschema:"the city or place" minlen:"1" maxlen:"100"`
	Date  string `json:"date,omitzero" jsonschema:"the day that is asked about, where one is: its month counts" format:"date"`
	Month string `json:"month,omitzero" jsonschema:"the month; this one unless given" enum:"january,february,march,april,may,june,july,august,september,october,november,december"`
}

func (s service) usual(_ context.Context, in tool.Invocation, a usualArgs) (string, error) {
	day, err := s.day(in.User, a)
	if err != nil {
		return "", err
	}
	c, err := s.known.at(a.City)
	if err != nil {
		return "", err
	}
	unit, conv := "°C", func(c int) int { return c }
	if s.fahrenheit != nil && s.fahrenheit(in.User) {
		unit, conv = "°F", func(c int) int { return int(float64(c)*9/5+32.5+1000) - 1000 }
	}
	m := c.months[day.Month()-1]
	return fmt.Sprintf("In %s in %s it is usually %d to %d %s (average low and high), with about %d mm of rain in the month. This is the usual weather, no forecast: rounded averages of about 1991 to 2020.",
		c.name, day.Month(), conv(m[1]), conv(m[0]), unit, m[2]), nil
}

// day returns a day of the requested month.
func (s service) day(user string, a usualArgs) (time.Time, error) {
	zone := s.Location(user)
	now := s.Time().In(zone)
	if a.Month != "" {
		for m := time.January; m <= time.December; m++ {
			if strings.EqualFold(m.String(), a.Month) {
				return time.Date(now.Year(), m, 15, 12, 0, 0, 0, zone), nil
			}
		}
	}
	return local.Day(a.Date, now)
}

func (s service) cities(context.Context, tool.Invocation, struct{}) (string, error) {
	var out []string
	for _, c := range s.known.list {
		out = append(out, c.name)
	}
	return strings.Join(out, "; "), nil
}
