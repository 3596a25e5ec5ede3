package resource

import "strings"

// The types of the places of users and groups, below which their resources are.
const (
	userPlace  = "identity.User"
	groupPlace = "identity.Group"
)

// Place returns the URI below which the resources of a space are kept. It is zero
// for the system space, in which nothing can be put.
func Place(space Space) URI {
	if user, ok := strings.CutPrefix(string(space), "user:"); ok && checkID(user) == nil {
		return Root(userPlace, user)
	}
	if group, ok := strings.CutPrefix(string(space), "group:"); ok && checkID(group) == nil {
		return Root(groupPlace, group)
	}
	return URI{}
}

// SpaceOf returns the space of a URI below a place.
func SpaceOf(u URI) (Space, bool) {
	if u.Zero() {
		return "", false
	}
	root, _ := cutElement(u.key)
	switch root.Type {
	case userPlace:
		return UserSpace(root.ID), true
	case groupPlace:
		return GroupSpace(root.ID), true
	}
	return "", false
}

// stewards holds the first words of the types that a part of Steward owns. All
// other types belong to the users.
var stewards = map[string]bool{
	"agent": true, "audit": true, "cluster": true, "common": true, "documents": true, "effect": true, "event": true, "goals": true, "identity": true, "llm": true, "memory": true, "messaging": true,
	"plan": true, "policy": true, "secret": true, "service": true, "tool": true, "tree": true, "worklog": true,
}

// Owned reports whether a part of Steward owns the type.
func Owned(typ string) bool {
	word, _, _ := strings.Cut(typ, ".")
	return stewards[word]
}

// IsShort reports whether a URI is relative to the place of a space: it begins with
// a type that belongs to the users, as in cld:home.Note.a.
func IsShort(u URI) bool {
	if u.Zero() {
		return false
	}
	root, _ := cutElement(u.key)
	return !Owned(root.Type)
}

// Expand returns the whole URI that a URI means in a space: for user:ana,
// cld:home.Note.a means cld:identity.User.ana/home.Note.a. A URI that is not short
// stays as it is, and so does every URI in a space that has no place.
func Expand(space Space, u URI) URI {
	if at := Place(space); !at.Zero() && IsShort(u) {
		return URI{at.key + u.key}
	}
	return u
}

// Below reports whether u is p or lies below it. A short p means its place in every
// space, so that cld:home.Note.a is also above the note a of each user and group.
func (u URI) Below(p URI) bool {
	if u.Under(p) {
		return true
	}
	if _, placed := SpaceOf(u); !placed || !IsShort(p) {
		return false
	}
	_, rest := cutElement(u.key)
	return URI{rest}.Under(p)
}
