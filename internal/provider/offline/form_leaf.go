package offline

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// num is the likeness where a name asks for one, else what the schema allows
// nearest to a number of the request or to zero.
func (f *form) num(s *jsonschema.Schema, name string) any {
	v := 0.0
	if !f.plain {
		switch {
		case about(name, sureWords):
			v = f.sure
			if f.evaluates() {
				v = f.degree()
			}
			if s.Maximum != nil && *s.Maximum > 1 {
				v *= *s.Maximum
			} else if s.Maximum == nil && (typeOf(s) == "integer" || strings.Contains(strings.ToLower(s.Description), "percent") || strings.Contains(s.Description, "100")) {
				v *= 100
			}
		case about(name, countWords):
			v = float64(len(f.clauses) + 1)
		}
	}
	return f.fit(s, v)
}

// fit moves a number to the nearest that the schema allows.
func (f *form) fit(s *jsonschema.Schema, v float64) any {
	step := 0.0
	if s.MultipleOf != nil {
		step = *s.MultipleOf
	}
	integer := typeOf(s) == "integer"
	if integer && step != math.Trunc(step) {
		step = 0
	}
	if integer && step == 0 {
		step = 1
	}
	low, high := math.Inf(-1), math.Inf(1)
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.ExclusiveMinimum != nil && *s.ExclusiveMinimum >= low {
		low = beyond(*s.ExclusiveMinimum, s, 1, step)
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	if s.ExclusiveMaximum != nil && *s.ExclusiveMaximum <= high {
		high = beyond(*s.ExclusiveMaximum, s, -1, step)
	}
	v = min(max(v, low), high)
	if step > 0 {
		n := math.Round(v / step)
		if n*step < low {
			n = math.Ceil(low / step)
		}
		if n*step > high {
			n = math.Floor(high / step)
		}
		v = n * step
	}
	return v
}

// beyond is a number just past an excluded bound.
func beyond(bound float64, s *jsonschema.Schema, sign, step float64) float64 {
	if step > 0 {
		return bound + sign*step/2
	}
	gap := 1.0
	if s.Minimum != nil || s.ExclusiveMinimum != nil {
		if other := maxBound(s); !math.IsInf(other, 0) {
			gap = math.Abs(other-minBound(s)) / 1024
		}
	}
	if n := bound + sign*min(gap, 1); n != bound {
		return n
	}
	return math.Nextafter(bound, bound+sign)
}

func minBound(s *jsonschema.Schema) float64 {
	if s.ExclusiveMinimum != nil {
		return *s.ExclusiveMinimum
	}
	return *s.Minimum
}

func maxBound(s *jsonschema.Schema) float64 {
	switch {
	case s.ExclusiveMaximum != nil:
		return *s.ExclusiveMaximum
	case s.Maximum != nil:
		return *s.Maximum
	}
	return math.Inf(1)
}

// str writes what the name asks for, within the schema's bounds.
func (f *form) str(s *jsonschema.Schema, name string) any {
	if f.plain {
		return f.sized(s, "")
	}
	switch s.Format {
	case "date":
		return f.now().Format("2006-01-02")
	case "date-time":
		return f.now().Format(time.RFC3339)
	case "time":
		return f.now().Format("15:04:05Z07:00")
	case "email":
		return "user@example.com"
	case "uri", "url":
		return "https://example.com/"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	}
	return f.sized(s, f.prose(name))
}

func (f *form) now() time.Time {
	if len(f.clauses) > 0 {
		return f.clauses[0].reading.now
	}
	return time.Unix(0, 0).UTC()
}

// sized fits a text to the schema's length and pattern.
func (f *form) sized(s *jsonschema.Schema, text string) string {
	if s.MaxLength != nil && utf8.RuneCountInString(text) > *s.MaxLength {
		text = string([]rune(text)[:max(0, *s.MaxLength)])
	}
	if s.MinLength != nil {
		if n := *s.MinLength - utf8.RuneCountInString(text); n > 0 && n < 1<<16 {
			text += strings.Repeat("-", n)
		}
	}
	p := &param{schema: s}
	if s.Pattern != "" && !p.matches(text) {
		least := 0
		if s.MinLength != nil {
			least = *s.MinLength
		}
		return matching(s.Pattern, least)
	}
	return text
}
