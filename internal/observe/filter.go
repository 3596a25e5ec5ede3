package observe

import (
	"path"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
)

// Filter says which changes are told: those that fit every list that is not
// empty. The zero Filter lets all through.
type Filter struct {
	Conversations []id.ID  // one that is not there, or is not the observer's, has no changes
	Interactions  []id.ID  // in which the change was caused
	Tools         []string // names and globs such as math.*; changes without a tool do not fit
	Kinds         []string // names of kinds and globs such as message_*
}

// maxNames bounds the lists of a filter together.
const maxNames = 1000

// matcher is a filter made ready.
type matcher struct {
	conversations, interactions map[id.ID]struct{} // nil: any
	tools                       []string
	kinds                       map[Kind]struct{}
}

// compile refuses what can never match anything (filter_invalid).
func (f Filter) compile() (*matcher, error) {
	if n := len(f.Conversations) + len(f.Interactions) + len(f.Tools) + len(f.Kinds); n > maxNames {
		return nil, invalid("it names more than %d things", maxNames).With("leave a list out and choose among what comes")
	}
	m := &matcher{conversations: set(f.Conversations), interactions: set(f.Interactions), tools: f.Tools}
	for _, glob := range f.Tools {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return nil, invalid("%q is no pattern for tool names", glob).With("write a name, or a glob such as math.*")
		}
	}
	for _, glob := range f.Kinds {
		fits := false
		for _, k := range Kinds() {
			ok, err := path.Match(glob, string(k))
			if fits = fits || ok; !ok || err != nil {
				continue
			}
			if m.kinds == nil {
				m.kinds = map[Kind]struct{}{}
			}
			m.kinds[k] = struct{}{}
		}
		if !fits {
			return nil, invalid("there is no kind of changes %.80q", glob).With("use %s", allKinds())
		}
	}
	return m, nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "filter_invalid", "the filter cannot be used: "+format, args...)
}

func allKinds() string {
	var b strings.Builder
	for i, k := range Kinds() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}

func set(ids []id.ID) map[id.ID]struct{} {
	if len(ids) == 0 {
		return nil
	}
	m := make(map[id.ID]struct{}, len(ids))
	for _, x := range ids {
		m[x] = struct{}{}
	}
	return m
}

func (m *matcher) fits(c *Change) bool {
	return among(m.conversations, c.Conversation) && among(m.interactions, c.Interaction) &&
		among(m.kinds, c.Kind) && m.fitsTool(c.Tools)
}

func among[K comparable](m map[K]struct{}, k K) bool {
	if m == nil {
		return true
	}
	_, ok := m[k]
	return ok
}

func (m *matcher) fitsTool(names []string) bool {
	if len(m.tools) == 0 {
		return true
	}
	for _, name := range names {
		for _, glob := range m.tools {
			if ok, _ := path.Match(glob, name); ok { // the globs have been checked
				return true
			}
		}
	}
	return false
}
