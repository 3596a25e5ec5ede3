package events

import (
	"strings"

	"steward/internal/fault"
	"steward/internal/resource"
)

// Filter says which events are told: those that fit every list that is not
// empty. The zero Filter lets all through.
type Filter struct {
	Sources  []string // as in Event.Source; "agent:*" and the like fit all that begin so
	Details  []DetailType
	Prefixes []resource.URI // events about a resource at or below one of them
	Types    []string       // events about a resource of one of these types; "common.*" fits all that begin so
	Bodies   bool           // the bodies of the resources are told too
}

// maxNames bounds the lists of a filter together.
const maxNames = 1000

// matcher is a filter made ready.
type matcher struct {
	sources, types words
	details        map[DetailType]struct{} // nil: any
	prefixes       []resource.URI          // never empty
	exact          []string                // all types, where none is a beginning
	bodies         bool
}

// words are names, and beginnings of names. The zero value fits all.
type words struct {
	names      map[string]struct{}
	beginnings []string
}

func wordsOf(list []string) words {
	var w words
	for _, s := range list {
		if b, ok := strings.CutSuffix(s, "*"); ok {
			w.beginnings = append(w.beginnings, b)
			continue
		}
		if w.names == nil {
			w.names = map[string]struct{}{}
		}
		w.names[s] = struct{}{}
	}
	return w
}

func (w *words) any() bool { return w.names == nil && w.beginnings == nil }

func (w *words) fit(s string) bool {
	if w.any() {
		return true
	}
	if _, ok := w.names[s]; ok {
		return true
	}
	for _, b := range w.beginnings {
		if strings.HasPrefix(s, b) {
			return true
		}
	}
	return false
}

// compile refuses what can never match anything (filter_invalid).
func (f Filter) compile() (*matcher, error) {
	if n := len(f.Sources) + len(f.Details) + len(f.Prefixes) + len(f.Types); n > maxNames {
		return nil, invalid("it names more than %d things", maxNames).With("leave a list out and choose among what comes")
	}
	for _, s := range f.Sources {
		if !sourceWord(s) {
			return nil, invalid("%.80q is no source", s).With("write user:NAME, agent:PATH, service:NAME or system, or the beginning of one and *")
		}
	}
	for _, t := range f.Types {
		if !typeWord(t) {
			return nil, invalid("%.80q is no type", t).With("write a type such as common.Message, or its beginning and *, as in common.*")
		}
	}
	m := &matcher{sources: wordsOf(f.Sources), types: wordsOf(f.Types), prefixes: shortest(f.Prefixes), bodies: f.Bodies}
	if m.types.beginnings == nil {
		for t := range m.types.names {
			m.exact = append(m.exact, t)
		}
	}
	for _, d := range f.Details {
		if d != Put && d != Get && d != Delete {
			return nil, invalid("there is no detail type %.80q", d).With("use %s, %s or %s", Put, Get, Delete)
		}
		if m.details == nil {
			m.details = map[DetailType]struct{}{}
		}
		m.details[d] = struct{}{}
	}
	return m, nil
}

// shortest leaves out what lies below another of the prefixes, so that no
// event is found twice.
func shortest(list []resource.URI) []resource.URI {
	if len(list) == 0 {
		return []resource.URI{{}}
	}
	var out []resource.URI
	for i, p := range list {
		covered := false
		for j, q := range list {
			covered = covered || p.Under(q) && (p != q || j < i)
		}
		if !covered {
			out = append(out, p)
		}
	}
	return out
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "filter_invalid", "the filter cannot be used: "+format, args...)
}

func sourceWord(s string) bool {
	b, open := strings.CutSuffix(s, "*")
	if strings.Contains(b, "*") {
		return false
	}
	for _, start := range []string{userSource, agentSource, serviceSource} {
		if strings.HasPrefix(b, start) && (open || len(b) > len(start)) || open && strings.HasPrefix(start, b) {
			return true
		}
	}
	return s == systemSource || open && strings.HasPrefix(systemSource, b)
}

// typeWord reports whether s is a type, or the beginning of one and "*".
func typeWord(s string) bool {
	if b, open := strings.CutSuffix(s, "*"); open {
		return !strings.ContainsAny(b, "*/: \x00")
	}
	u, err := resource.Parse(resource.Scheme + s + ".x")
	return err == nil && u.Type() == s && u.Parent().Zero()
}

// fits looks at all that policy has no say in. It does not look at spaces.
func (m *matcher) fits(t *told) bool {
	if m.details != nil {
		if _, ok := m.details[t.Detail]; !ok {
			return false
		}
	}
	return m.sources.fit(t.Source) && m.about(t)
}

// about reports whether one resource of the event is of one of the types and
// below one of the prefixes.
func (m *matcher) about(t *told) bool {
	if m.fitsResource(t.URI, t.uriType) {
		return true
	}
	if !t.own {
		return false
	}
	for i := range t.Resources {
		if m.fitsResource(t.Resources[i].URI, t.Resources[i].Type) {
			return true
		}
	}
	return false
}

func (m *matcher) fitsResource(u resource.URI, typ string) bool {
	if !m.types.fit(typ) {
		return false
	}
	for _, p := range m.prefixes {
		if u.Under(p) {
			return true
		}
	}
	return false
}
