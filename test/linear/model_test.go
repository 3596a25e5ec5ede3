package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does.
type kind string

const (
	send       kind = "send"       // a message at the end of the preferred branch
	replace    kind = "replace"    // a message in place of another one, on a branch of its own
	regenerate kind = "regenerate" // a message is answered anew, on a branch of its own
	fork       kind = "fork"       // a branch that departs before or after a message
	remove     kind = "remove"     // a branch without a message
	move       kind = "switch"     // prefers another branch
	read       kind = "read"       // the messages of the preferred branch, and what became of them
	branches   kind = "branches"   // all branches, and the preferred one
	again      kind = "again"      // a message that had been sent before is sent again
	mark       kind = "mark"       // a message is archived, or active again
	pin        kind = "pin"        // a message is pinned, or not any more
)

// call is what was asked for. Messages and branches go by their ids.
type call struct {
	kind
	message string // the message written, replaced, …
	target  string // the message replaced, or the branch switched to
	before  bool   // fork: before the message
	on      bool   // mark, pin: what it is to be
}

// answer is what came of it.
type answer struct {
	rank   int    // which of the changes it was, by the log; 0: nothing was written
	branch string // that was written to, or made
	parent string // of the branch that was made
	list   []string
}

// world is a conversation. Its maps are not written to once
// it is made.
type world struct {
	rank      int // of the newest change, which all the rest follows from
	preferred string
	lists     map[string][]string // of each branch, the user's messages
	home      map[string]string   // the branch on which a message was written
	is        map[string]bool     // "mark M": M is archived; "pin M": it is pinned
}

func begin(first string) world {
	return world{preferred: "main", lists: map[string][]string{"main": {first}}, home: map[string]string{first: "main"}, is: map[string]bool{}}
}

// states are added to a message that was read.
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

// with returns the world with another list of a branch.
func (w world) with(branch string, list []string) world {
	w.lists = maps.Clone(w.lists)
	w.lists[branch] = list
	w.rank++
	return w
}

// holding is the branch from which a change departs that is about a message.
func (w world) holding(message string) string {
	if slices.Contains(w.lists[w.preferred], message) {
		return w.preferred
	}
	return w.home[message]
}

// upTo is a branch's list up to a message.
func (w world) upTo(branch, message string, including bool) []string {
	list := w.lists[branch]
	at := slices.Index(list, message)
	if including {
		at++
	}
	return slices.Clone(list[:at])
}

// step says whether an operation can have had its outcome now, and what is
// there then. Changes come in the order that the log gives them: that this
// order agrees with what everybody saw is what is checked.
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
		if a.rank == 0 { // nothing was written: it was so before
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

// depart makes a branch.
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

// model is the conversation for the checker.
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
