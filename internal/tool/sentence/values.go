package sentence

import (
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// values reads the values of a sentence.
type values struct {
	words []word
	now   time.Time

	moments [][]moment // by word, if they were read
	read    []bool
}

// value is a value that ends before a word, as the arguments that it fills.
type value struct {
	end  int
	args []any
}

// low returns a word in lower case, or "" beyond the end.
func (v *values) low(at int) string {
	if at < 0 || at >= len(v.words) {
		return ""
	}
	return v.words[at].low
}

// is reports whether a word is one of a list, with a space before and after each.
func (v *values) is(at int, list string) bool {
	w := v.low(at)
	return w != "" && strings.Contains(list, " "+w+" ")
}

// at returns the values that a slot may take at a word, the longest first.
func (v *values) at(s slot, at int) (out []value) {
	if at >= len(v.words) {
		return nil
	}
	one := func(ok bool, arg any) []value {
		if !ok {
			return nil
		}
		return []value{{at + 1, []any{arg}}}
	}
	w := v.words[at]
	switch s.kind {
	case "number":
		n, end := v.count(at)
		if end == 0 || n != float64(int64(n)) {
			return nil
		}
		return []value{{end, []any{int64(n)}}}
	case "minutes", "seconds":
		seconds, end := v.length(at)
		if s.kind == "minutes" {
			seconds /= 60
		}
		if end == 0 || seconds < 1 || seconds != float64(int64(seconds)) {
			return nil
		}
		return []value{{end, []any{int64(seconds)}}}
	case "url":
		if !isURL(w.text) && isHost(w.low) {
			return one(!w.quoted, "https://"+w.text)
		}
		return one(!w.quoted && isURL(w.text), w.text)
	case "email":
		a, err := mail.ParseAddress(w.text)
		return one(err == nil && a.Address == w.text, w.text)
	case "file":
		path := w.text
		if s.folder != "" && !strings.Contains(path, "/") {
			path = s.folder + "/" + path
		}
		dot := strings.LastIndexByte(w.text, '.')
		return one(!isURL(w.text) && !isHost(w.low) && !strings.ContainsAny(w.text, "\n@") && (strings.Contains(w.text, "/") || dot > 0 && dot < len(w.text)-1), path)
	case "folder":
		return one(!strings.Contains(" the my a all these this here there it files folder folders ", " "+w.low+" ") && !strings.ContainsAny(w.text, "\n ") && !IsFile(w.text), w.text)
	case "time":
		for _, c := range v.clocks(at, true) {
			if h, ok := c.alone(); ok {
				out = append(out, value{c.end, []any{twoDigits(h, c.minute)}})
			}
		}
		return out
	}
	moments := v.momentsAt(at)
	if s.kind == "waking" { // "set an alarm for 7"
		for _, c := range v.clocks(at, true) {
			moments = append(moments[:len(moments):len(moments)], moment{day: v.now, timed: true, clock: c, end: c.end})
		}
	}
	for _, m := range moments {
		if args := m.args(s.kind, v.now); args != nil {
			out = append(out, value{m.end, args})
		}
	}
	return out
}

// IsFile reports whether a name is that of a file and not of a folder, because it has an extension.
func IsFile(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && dot < len(name)-1
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// isHost reports whether a word is the address of a site without "https://".
func isHost(word string) bool {
	host, _, _ := strings.Cut(word, "/")
	dot := strings.LastIndexByte(host, '.')
	return dot > 0 && strings.Contains(" com org net info eu de at ch uk fr it io dev app ", " "+host[dot+1:]+" ") && !strings.ContainsAny(host, "@:")
}

// args returns a moment as the arguments of a kind of slot, or nil if it has not what the slot needs.
func (m moment) args(kind string, now time.Time) []any {
	switch kind {
	case "date":
		if m.timed || m.part != "" {
			return nil
		}
		return []any{m.day.Format(time.DateOnly)}
	case "span":
		if m.timed || m.part != "" {
			return nil
		}
		if m.weekend {
			return []any{m.day.Format(time.DateOnly), m.day.AddDate(0, 0, 1).Format(time.DateOnly)}
		}
		return []any{m.day.Format(time.DateOnly)}
	case "days":
		n := int(dayOf(m.day).Sub(dayOf(now)).Hours()/24+0.5) + 1
		if m.weekend {
			n++
		}
		if m.timed || n < 1 || n > 14 {
			return nil
		}
		return []any{int64(n)}
	case "waking":
		if m.clock.open && m.clock.hour >= 4 && m.clock.hour <= 11 && m.timed && m.part == "" {
			return m.waking(now)
		}
		return m.args("when", now)
	case "moment", "when", "hour", "weekly":
		if kind == "weekly" && !(m.weekly && m.timed) {
			return nil
		}
		if span := hours[m.part]; kind == "hour" && !m.timed && span != nil {
			return []any{m.day.Format(time.DateOnly), span[0], span[1]}
		}
		t, ok := m.time(now, kind == "when")
		if !ok {
			return nil
		}
		if kind != "hour" {
			return []any{t.Format(time.RFC3339)}
		}
		to := "23:59"
		if until := t.Add(time.Hour); until.Day() == t.Day() {
			to = until.Format("15:04")
		}
		return []any{t.Format(time.DateOnly), t.Format("15:04"), to}
	}
	return nil
}

// waking returns the next morning at a time at which people get up.
func (m moment) waking(now time.Time) []any {
	if m.weekend {
		return nil
	}
	t := time.Date(m.day.Year(), m.day.Month(), m.day.Day(), m.clock.hour, m.clock.minute, 0, 0, now.Location())
	if !m.dated && !t.After(now) {
		t = time.Date(m.day.Year(), m.day.Month(), m.day.Day()+1, m.clock.hour, m.clock.minute, 0, 0, now.Location())
	}
	if !t.After(now) {
		return nil
	}
	return []any{t.Format(time.RFC3339)}
}

// startsTime reports whether a time begins at a word: a day, a time of day after a preposition, or a length of
// time after one.
func (v *values) startsTime(at int) bool {
	if v.is(at, " in for für nach within binnen ") {
		_, end := v.length(at + 1)
		return end > 0
	}
	return len(v.momentsAt(at)) > 0
}
