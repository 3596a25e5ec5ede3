package tool

import "slices"

// OwnUser is the user whose machine Steward runs on. Resources named by the
// settings (folders, mailboxes, accounts of servers) belongs to them unless said otherwise.
const OwnUser = "local"

// Audience is the set of users who may use something that belongs to somebody. A nil Audience is
// everybody.
type Audience struct {
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// OwnedBy returns the audience that a declaration gives by users and groups. Without any it is
// OwnUser; the user "*" is everybody.
func OwnedBy(users, groups []string) *Audience {
	switch {
	case slices.Contains(users, "*"):
		return nil
	case len(users)+len(groups) == 0:
		users = []string{OwnUser}
	}
	return &Audience{Users: users, Groups: groups}
}

// Admits reports whether a user with these groups belongs to the audience.
func (a *Audience) Admits(user string, groups []string) bool {
	return a == nil || slices.Contains(a.Users, user) ||
		slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(a.Groups, g) })
}
