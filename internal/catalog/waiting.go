package catalog

import "strings"

// Waiting returns the listings that need a person's decision. It leaves out everything below a
// denied, revoked or invalid agent.
func Waiting(list []Listing) []Listing {
	var out []Listing
	shut := map[string]bool{}
	for _, l := range list { // an agent comes before those below it
		above := ""
		if i := strings.LastIndexByte(l.Path, '/'); i >= 0 {
			above = l.Path[:i]
		}
		switch {
		case above != "" && shut[above], l.Status == Denied, l.Status == Revoked, l.Status == Invalid:
			shut[l.Path] = true
		case l.NeedsDecision():
			out = append(out, l)
		}
	}
	return out
}

// NeedsDecision reports whether a person has something to decide about a listing.
func (l Listing) NeedsDecision() bool { return l.Status == Pending || len(l.Waiting) > 0 }

// VisibleToUsers returns what users without the right to decide are shown: the agents that may be used, and
// what they do.
func VisibleToUsers(list []Listing) []Listing {
	var out []Listing
	for _, l := range list {
		if l.Usable && l.Kind == KindAgent {
			out = append(out, Listing{Path: l.Path, Kind: l.Kind, Description: l.Description, Version: l.Version, Status: l.Status, Usable: true})
		}
	}
	return out
}

// Question identifies what a person is asked about an agent or a source. It changes when the
// files change, or when the source announces something other than what was approved.
func (l Listing) Question() string {
	if l.Status == Approved && len(l.Waiting) > 0 {
		return l.Path + " " + l.Hash
	}
	return l.Path + " " + l.Static + " " + l.At.String()
}
