package events

import (
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store/follow"
)

// Filter selects events. An event matches if it matches every list that is not empty, so the zero
// Filter matches all events.
type Filter struct {
	Sources  []string // as in Event.Source; "agent:*" and the like fit all that begin so
	Details  []DetailType
	Prefixes []resource.URI // events about a resource at or below one of them; a short one means its place in every space, see resource.URI.Below
	Types    []string       // events about a resource of one of these types; "common.*" matches by prefix
	Bodies   bool           // deliver the bodies of the resources, too
	// Recheck is how often the rights of a subscriber are checked while nothing happens, and the shortest time
	// between two empty batches. Zero: Options.Recheck.
	Recheck time.Duration
}

// maxNames bounds the lists of a filter together.
const maxNames = 1000

// check refuses a filter that can never match anything (filter_invalid).
func (f *Filter) check() error {
	if n := len(f.Sources) + len(f.Details) + len(f.Prefixes) + len(f.Types); n > maxNames {
		return tooManyNames()
	}
	for _, s := range f.Sources {
		if !sourceWord(s) {
			return invalid("invalid source %.80q", s).WithHint("write user:NAME, agent:PATH, service:NAME or system, or the beginning of one and *")
		}
	}
	for _, t := range f.Types {
		if !typeWord(t) {
			return invalid("invalid type %.80q", t).WithHint("write a type such as common.Message, or its beginning and *, as in common.*")
		}
	}
	for _, d := range f.Details {
		if !slices.Contains(DetailTypes(), d) {
			return invalid("unknown detail type %.80q", d).WithHint("use %s, %s or %s", Put, Get, Delete)
		}
	}
	return nil
}

// fits checks an event against the parts of the filter that the log's index does not cover.
func (f *Filter) fits(x *Event) bool {
	return (len(f.Details) == 0 || slices.Contains(f.Details, x.Detail)) && follow.Match(f.Sources, x.Source)
}

func tooManyNames() error {
	return invalid("it has more than %d elements", maxNames).WithHint("leave a list out, and filter the events that you receive")
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "filter_invalid", "invalid filter: "+format, args...)
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

// typeWord reports whether s is a type, or a prefix of a type followed by "*".
func typeWord(s string) bool {
	if b, open := strings.CutSuffix(s, "*"); open {
		return !strings.ContainsAny(b, "*/: \x00")
	}
	u, err := resource.Parse(resource.Scheme + s + ".x")
	return err == nil && u.Type() == s && u.Parent().Zero()
}
