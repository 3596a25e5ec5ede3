//go:build long

package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is the kind of an operation.
type kind string

const (
	send       kind = "send"       // adds a message at the end of the preferred branch
	replace    kind = "replace"    // replaces a message on a new branch
	regenerate kind = "regenerate" // answers a message again on a new branch
	fork       kind = "fork"       // creates a branch that departs before or after a message
	remove     kind = "remove"     // creates a branch without a message
	move       kind = "switch"     // prefers another branch
	read       kind = "read"       // reads the preferred branch's messages and their states
	branches   kind = "branches"   // lists all branches and the preferred one
	again      kind = "again"      // sends a message a second time
	mark       kind = "mark"       // archives a message or makes it active again
	pin        kind = "pin"        // pins or unpins a message
)

// call is a request. Messages and branches are identified by their ids.
type call struct {
	kind
	message string // the message written, replaced, …
	target  string // the message replaced, or the branch switched to
	before  bool   // fork: before the message
	on      bool   // mark, pin: the new state
}

// answer is the result of a call.
type answer struct {
	rank   int    // position among the changes in the log; 0: nothing was written
	branch string // the branch written to, or created
	parent string // parent of the created branch
	list   []string
}

// world is the state of a conversation. Its maps are immutable.
type world struct {
	rank      int // rank of the newest change; reads are consistent with it
	preferred string
	lists     map[string][]string // the user's messages, by branch
	home      map[string]string   // the branch on which each message was written
	is        map[string]bool     // "mark M": M is archived; "pin M": M is pinned
}

func begin(first string) world {
	return world{preferred: "main", lists: map[string][]string{"main": {first}}, home: map[string]string{first: "main"}, is: map[string]bool{}}
}

// states returns the suffix that describes a message's states.
func states(archived, pinned bool) string {
	s := ""
	if archived {
		s += " archived"
	}
	if pinned {
		s += " pinned"
	}
	return s
}

// with returns a copy of the world with a new list for a branch.
func (w world) with(branch string, list []string) world {
	w.lists = maps.Clone(w.lists)
	w.lists[branch] = list
	w.rank++
	return w
}

// holding returns the branch from which a change of the message departs.
func (w world) holding(message string) string {
	if slices.Contains(w.lists[w.preferred], message) {
		return w.preferred
	}
	return w.home[message]
}

// upTo returns a branch's list up to a message.
func (w world) upTo(branch, message string, including bool) []string {
	list := w.lists[branch]
	at := slices.Index(list, message)
	if including {
		at++
	}
	return slices.Clone(list[:at])
}

// step reports whether an operation can have its outcome in this state, and
// returns the next state. Changes must come in the log's order; the checker
// finds out whether that order agrees with what every client saw.
func (w world) step(c call, a answer) (bool, world) {
	if a.rank != 0 && a.rank != w.rank+1 {
		return false, w
	}
	switch c.kind {
	case send:
		if a.branch != w.preferred {
			return false, w
		}
		next := w.with(w.preferred, append(slices.Clone(w.lists[w.preferred]), c.message))
		next.home = maps.Clone(w.home)
		next.home[c.message] = w.preferred
		return true, next
	case replace, regenerate, fork, remove:
		return w.depart(c, a)
	case move:
		if _, ok := w.lists[c.target]; !ok {
			return false, w
		}
		w.preferred = c.target
		w.rank++
		return true, w
	case mark, pin:
		about := string(c.kind) + " " + c.message
		if a.rank == 0 { // no change: the state was the same before
			return w.is[about] == c.on, w
		}
		w.is = maps.Clone(w.is)
		w.is[about] = c.on
		w.rank++
		return true, w
	case read:
		same := func(said, is string) bool { return said == is+states(w.is["mark "+is], w.is["pin "+is]) }
		return slices.EqualFunc(a.list, w.lists[w.preferred], same), w
	case branches:
		return a.branch == w.preferred && slices.Equal(a.list, slices.Sorted(maps.Keys(w.lists))), w
	case again:
		_, ok := w.home[c.message]
		return ok, w
	}
	return false, w
}

// depart creates a branch.
func (w world) depart(c call, a answer) (bool, world) {
	about := c.message
	if c.kind == replace {
		about = c.target
	}
	from := w.holding(about)
	if c.kind == remove || about == "" {
		from = w.preferred
	}
	if _, there := w.lists[a.branch]; there || from == "" || a.parent != "" && a.parent != from {
		return false, w
	}
	var list []string
	switch {
	case about == "": // at the end
		list = slices.Clone(w.lists[from])
	case c.kind == replace:
		list = append(w.upTo(from, about, false), c.message)
	case c.kind == remove:
		list = slices.DeleteFunc(slices.Clone(w.lists[from]), func(m string) bool { return m == about })
	default:
		list = w.upTo(from, about, !c.before)
	}
	next := w.with(a.branch, list)
	next.preferred = a.branch
	if c.kind == replace {
		next.home = maps.Clone(w.home)
		next.home[c.message] = a.branch
	}
	return true, next
}

// model returns the checker's model of the conversation.
func model(first string) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return begin(first) },
		Step:  func(s, in, out any) (bool, any) { return s.(world).step(in.(call), out.(answer)) },
		Equal: func(a, b any) bool { return a.(world).rank == b.(world).rank },
		DescribeOperation: func(in, out any) string {
			c, a := in.(call), out.(answer)
			return fmt.Sprintf("%s %s %s before=%v on=%v -> %d %s of %s [%s]", c.kind, c.message, c.target, c.before, c.on,
				a.rank, a.branch, a.parent, strings.Join(a.list, ", "))
		},
	}
}
