package observe

import (
	"fmt"
	"path"
	"slices"

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

// check refuses what can never match anything (filter_invalid).
func (f *Filter) check() error {
	if n := len(f.Conversations) + len(f.Interactions) + len(f.Tools) + len(f.Kinds); n > maxNames {
		return invalid("it names more than %d things", maxNames).WithHint("leave a list out and choose among what comes")
	}
	for _, glob := range f.Tools {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			return invalid("%q is no pattern for tool names", glob).WithHint("write a name, or a glob such as math.*")
		}
	}
	for _, glob := range f.Kinds {
		if !slices.ContainsFunc(Kinds(), func(k Kind) bool { return matches(glob, string(k)) }) {
			return invalid("there is no kind of changes %.80q", glob).WithHint("use %s", fmt.Sprint(Kinds()))
		}
	}
	return nil
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "filter_invalid", "the filter cannot be used: "+format, args...)
}

func matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// fits looks at all but the conversation.
func (f *Filter) fits(c *Change) bool {
	return (len(f.Interactions) == 0 || slices.Contains(f.Interactions, c.Interaction)) &&
		anyMatches(f.Kinds, []string{string(c.Kind)}) && anyMatches(f.Tools, c.Tools)
}

// anyMatches reports whether one of the names fits one of the globs, if there
// are any.
func anyMatches(globs, names []string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return matches(glob, name) })
	})
}
