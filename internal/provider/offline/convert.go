package offline

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// asNumber turns a mention into a number that the parameter wants; sure says
// how well it fits, 0 that it does not.
func (p *param) asNumber(m *mention, now time.Time) (v float64, sure float64) {
	switch m.kind {
	case mnNumber:
		v, sure = p.scaled(m)
	case mnSpan:
		switch {
		case p.unit.dim == dimTime:
			v, sure = p.inUnits(m.span), 0.9
			if m.part {
				sure = 0.4
			}
		case p.unit.dim == dimNone && p.is(roleSpan):
			v, sure = leadingNumber(m.text), 0.5
		}
	case mnWhen:
		switch {
		case m.part:
		case p.is(roleUnix):
			v, sure = float64(m.when.time(now).Unix()), 0.7
			if strings.Contains(p.hint, "milli") {
				v *= 1000
			}
		case m.when.date && !m.when.clock && contains(p.nameWord, "year"):
			v, sure = float64(m.when.year), 0.4
		case m.when.clock && !m.when.date && contains(p.nameWord, "hour"):
			v, sure = float64(m.when.hour), 0.6
		}
	case mnCode:
		digits := strings.TrimPrefix(m.text, "#")
		if n, err := strconv.ParseInt(digits, 10, 53); err == nil && digits != m.text {
			v, sure = float64(n), 0.6
		}
	}
	if sure > 0 && !p.holds(v) {
		return 0, 0
	}
	return v, sure
}

// scaled converts a number with a unit to the unit that is wanted.
func (p *param) scaled(m *mention) (float64, float64) {
	v, sure := m.num, 0.45
	switch {
	case m.unit.dim == dimNone:
		if m.ordinal && !p.is(roleOrdinal) {
			sure = 0.3
		}
	case m.unit.dim == dimPercent:
		if p.schema.Maximum != nil && *p.schema.Maximum <= 1 && v > 1 {
			v /= 100
		}
		if p.unit.dim == dimPercent || p.schema.Maximum != nil && *p.schema.Maximum == 100 || strings.Contains(p.hint, "percent") {
			sure = 0.8
		} else if p.unit.dim != dimNone {
			sure = 0.1
		}
	case m.unit.dim == dimMoney:
		if p.named(roleAmount) {
			sure = 0.75
		} else if p.unit.dim != dimNone && p.unit.dim != dimMoney {
			return 0, 0
		}
	case p.unit.dim == m.unit.dim:
		sure = 0.85
		if p.unit.factor != m.unit.factor && p.unit.factor != 0 {
			v = round(v * m.unit.factor / p.unit.factor)
		}
	case p.unit.dim != dimNone:
		return 0, 0
	case m.unit.dim == dimMass || m.unit.dim == dimLength || m.unit.dim == dimVolume || m.unit.dim == dimData:
		sure = 0.3
	case m.unit.dim == dimTemperature && contains(p.nameWord, stem("temperature")):
		sure = 0.85
	}
	return v, sure
}

func round(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return v
	}
	return r
}

func (p *param) inUnits(s span) float64 {
	if p.unit.months > 0 && s.seconds == 0 {
		return float64(s.months) / float64(p.unit.months)
	}
	return round(s.total() / p.unit.factor)
}

func leadingNumber(text string) float64 {
	v, _ := numberAt(tokenize(text), 0)
	return v
}

// holds reports whether the number is within the schema's bounds.
func (p *param) holds(v float64) bool {
	s := p.schema
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return false
	case p.shape == shInteger && (v != math.Trunc(v) || math.Abs(v) > 1<<53):
		return false
	case s.Minimum != nil && v < *s.Minimum, s.Maximum != nil && v > *s.Maximum:
		return false
	case s.ExclusiveMinimum != nil && v <= *s.ExclusiveMinimum, s.ExclusiveMaximum != nil && v >= *s.ExclusiveMaximum:
		return false
	}
	return true
}

// asWhen writes a point in time in the form that the parameter wants, "" if
// it does not fit.
func (p *param) asWhen(m *mention, now time.Time) (string, float64) {
	if !p.is(roleWhen | roleStart | roleEnd) {
		return "", 0
	}
	w := m.when
	t := w.time(now)
	sure := 0.7
	if p.strong&roleWhen == 0 {
		sure = 0.45
	}
	form := p.timeForm()
	if form == roleMoment && !w.date && strings.Contains(p.hint, "time of day") {
		form = roleTime
	}
	switch form {
	case roleDate:
		if !w.date {
			return "", 0
		}
		if w.clock {
			sure -= 0.15
		}
		return t.Format("2006-01-02"), sure
	case roleTime:
		if !w.clock {
			return "", 0
		}
		if w.date {
			sure -= 0.15
		}
		if p.schema.Format == "time" {
			return t.Format("15:04:05Z07:00"), sure
		}
		return t.Format("15:04"), sure
	case roleMoment:
		if m.part {
			return "", 0
		}
		if w.date && w.clock {
			sure += 0.1
		}
		return t.Format(time.RFC3339), sure
	}
	if m.part {
		sure -= 0.2
	}
	return m.text, sure - 0.1
}

// timeForm decides between a date, a time of day, both, or the words as said (0).
func (p *param) timeForm() role {
	switch p.schema.Format {
	case "date":
		return roleDate
	case "time":
		return roleTime
	case "date-time":
		return roleMoment
	}
	switch {
	case strings.Contains(p.hint, "natural language") || strings.Contains(p.hint, "as said") || strings.Contains(p.hint, "like \"tomorrow"):
		return 0
	case strings.Contains(p.hint, "yyyy-mm-ddt") || strings.Contains(p.hint, "rfc 3339") || strings.Contains(p.hint, "rfc3339") || strings.Contains(p.hint, "date and time") || strings.Contains(p.hint, "datetime") || strings.Contains(p.hint, "timestamp"):
		return roleMoment
	case strings.Contains(p.hint, "yyyy-mm-dd"):
		return roleDate
	case strings.Contains(p.hint, "hh:mm"):
		return roleTime
	case strings.Contains(p.hint, "iso 8601") && p.named(roleMoment) && !p.named(roleDate|roleTime):
		return roleMoment
	case p.named(roleDate) && !p.named(roleTime):
		return roleDate
	case p.named(roleTime) && !p.named(roleDate):
		return roleTime
	case p.weak&roleDate != 0 && p.weak&roleTime == 0:
		return roleDate
	case p.weak&roleTime != 0 && p.weak&roleDate == 0:
		return roleTime
	}
	return roleMoment
}

// asSpan writes a length of time for a parameter of text.
func (p *param) asSpan(m *mention) (string, float64) {
	if !p.is(roleSpan) {
		return "", 0
	}
	switch {
	case p.schema.Format == "duration" || strings.Contains(p.hint, "iso 8601"):
		return isoSpan(m.span), 0.8
	case strings.Contains(p.hint, "1h30m") || strings.Contains(p.hint, "go duration") || strings.Contains(p.hint, "like 30m") || strings.Contains(p.hint, "90s"):
		return goSpan(m.span), 0.8
	}
	return m.text, 0.7
}

// isoSpan writes an ISO 8601 duration.
func isoSpan(s span) string {
	var b strings.Builder
	b.WriteByte('P')
	if y := s.months / 12; y > 0 {
		b.WriteString(strconv.Itoa(y) + "Y")
	}
	if m := s.months % 12; m > 0 {
		b.WriteString(strconv.Itoa(m) + "M")
	}
	secs := s.seconds
	if secs >= 86400 {
		d := math.Floor(secs / 86400)
		b.WriteString(strconv.FormatFloat(d, 'f', 0, 64) + "D")
		secs -= d * 86400
	}
	if secs > 0 {
		b.WriteString("T" + clockSpan(secs, "H", "M", "S"))
	}
	if b.Len() == 1 {
		return "PT0S"
	}
	return b.String()
}

func goSpan(s span) string {
	if s.total() == 0 {
		return "0s"
	}
	return clockSpan(s.total(), "h", "m", "s")
}

func clockSpan(secs float64, h, m, s string) string {
	out := ""
	if n := math.Floor(secs / 3600); n > 0 {
		out += strconv.FormatFloat(n, 'f', 0, 64) + h
		secs -= n * 3600
	}
	if n := math.Floor(secs / 60); n > 0 {
		out += strconv.FormatFloat(n, 'f', 0, 64) + m
		secs -= n * 60
	}
	if secs = round(secs); secs > 0 {
		out += strconv.FormatFloat(secs, 'f', -1, 64) + s
	}
	return out
}

// languages that people name, with their ISO 639-1 codes.
var languages = map[string]string{
	"english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt", "dutch": "nl", "polish": "pl",
	"russian": "ru", "ukrainian": "uk", "turkish": "tr", "arabic": "ar", "hebrew": "he", "hindi": "hi", "chinese": "zh", "japanese": "ja",
	"korean": "ko", "swedish": "sv", "danish": "da", "norwegian": "no", "finnish": "fi", "greek": "el", "czech": "cs", "hungarian": "hu",
	"romanian": "ro", "bulgarian": "bg", "thai": "th", "vietnamese": "vi", "latin": "la", "swahili": "sw", "catalan": "ca", "croatian": "hr",
	"deutsch": "de", "englisch": "en", "französisch": "fr", "spanisch": "es", "anglais": "en", "allemand": "de", "inglés": "en", "alemán": "de",
}

// wantsCode reports whether the parameter asks for a code instead of a name.
func (p *param) wantsCode() bool {
	return strings.Contains(p.hint, "code") || strings.Contains(p.hint, "iso") || strings.Contains(p.name, "code") ||
		p.schema.MaxLength != nil && *p.schema.MaxLength <= 5 || p.schema.Pattern != "" && strings.Contains(p.schema.Pattern, "[")
}
