package catalog

import "strings"

// Waiting are those of a listing that wait for a person's word. What lies
// below an agent that was refused, or that is not right, waits for nothing.
func Waiting(list []Listing) []Listing {
	var out []Listing
	shut := map[string]bool{}
	for _, l := range list { // an agent stands before those below it
		above := ""
		if i := strings.LastIndexByte(l.Path, '/'); i >= 0 {
			above = l.Path[:i]
		}
		switch {
		case above != "" && shut[above], l.Status == Denied, l.Status == Revoked, l.Status == Invalid:
			shut[l.Path] = true
		case l.Waits():
			out = append(out, l)
		}
	}
	return out
}

// Waits reports whether a person has something to decide about it.
func (l Listing) Waits() bool { return l.Status == Pending || len(l.Waiting) > 0 }

// Told is a listing as those are told of it who may not decide: the agents
// that may be used, and what they do.
func Told(list []Listing) []Listing {
	var out []Listing
	for _, l := range list {
		if l.Usable && l.Kind == KindAgent {
			out = append(out, Listing{Path: l.Path, Kind: l.Kind, Description: l.Description, Version: l.Version, Status: l.Status, Usable: true})
		}
	}
	return out
}

// Question tells apart what a person is asked about an agent or a source:
// it is another one once something else lies there, or once its source has
// announced something else than was approved.
func (l Listing) Question() string {
	if l.Status == Approved && len(l.Waiting) > 0 {
		return l.Path + " " + l.Hash
	}
	return l.Path + " " + l.Static + " " + l.At.String()
}
