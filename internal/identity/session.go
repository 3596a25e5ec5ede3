package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// A browser signs in by a link. A link is valid once and for a short time; it becomes a session, whose secret
// the browser keeps in a cookie. A session ends when it has not been used for SessionIdle, when it is ended by
// its user or by an administrator, or when the user is disabled or deleted. Of links and sessions, only hashes
// are stored.

// The types of the resources in which links and sessions are kept, in the system space.
const (
	TypeLink    = "identity.Link"
	TypeSession = "identity.Session"
)

// Limits of sessions.
const (
	SessionIdle = 30 * 24 * time.Hour // without use, after which a session ends
	maxSessions = 50                  // of a user; the one that was used longest ago makes room
	maxLinks    = 50                  // of a user, that have not been used; the oldest makes room
	maxLinkFor  = 7 * 24 * time.Hour
	seenEvery   = time.Hour // how precisely the last use is recorded
	maxBrowser  = 120       // characters
)

// Session is a browser that is signed in.
type Session struct {
	ID      id.ID
	User    string
	Browser string // as the browser names itself
	Created time.Time
	Seen    time.Time // of the last use, within the hour
}

// storedSession is the body of a session, and without Browser and Seen that of a link.
type storedSession struct {
	User    string    `json:"user"`
	Browser string    `json:"browser,omitzero"`
	SHA256  string    `json:"sha256"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // of a link
}

func (s storedSession) change(typ string, x id.ID, cond store.If) store.Change {
	body, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and times: cannot fail
	}
	return store.Change{URI: resource.Root(typ, x.String()), If: cond, Body: body,
		Terms: []store.Term{{Name: termHash, Value: s.SHA256}, {Name: termUser, Value: s.User}}}
}

func (s storedSession) public(x id.ID) Session {
	return Session{ID: x, User: s.User, Browser: s.Browser, Created: s.Created, Seen: s.Seen}
}

func readSession(res resource.Resource) (s storedSession, x id.ID, err error) {
	x, ok := id.Parse(res.URI.ID())
	if err := json.Unmarshal(res.Body, &s); err != nil || !ok {
		return s, x, broken(res.URI, err)
	}
	return s, x, nil
}

// NewLink returns the secret of a link that signs a user in once, within a time of at most 7 days. Errors:
// user_invalid, own_user_only, link_expiry_invalid, and the store's.
func (r *Registry) NewLink(ctx context.Context, by, user string, within time.Duration) (string, error) {
	if err := r.checkNamed(ctx, user); err != nil {
		return "", err
	}
	if err := CheckActsFor(by, user); err != nil {
		return "", err
	}
	if within <= 0 || within > maxLinkFor {
		return "", fault.New(fault.Invalid, "link_expiry_invalid", "a link is valid for at most 7 days")
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	secret := rand.Text() // 130 bits in 26 characters, so that a line of a terminal holds the address
	sum := digestOf(secret)
	s := storedSession{User: user, SHA256: hex.EncodeToString(sum[:]), Created: now, Expires: now.Add(within)}
	changes := []store.Change{s.change(TypeLink, id.New(), store.If{Absent: true})}
	type dated struct {
		uri resource.URI
		at  time.Time
	}
	var valid []dated
	for it, err := range store.Items(ctx, r.store, system, store.Query{Type: TypeLink, Term: store.Term{Name: termUser, Value: user}}) {
		if err != nil {
			return "", err
		}
		old, _, err := readSession(it.Resource)
		switch {
		case err != nil:
		case now.Before(old.Expires):
			valid = append(valid, dated{it.URI, old.Created})
		default:
			changes = append(changes, store.Change{Op: store.Erase, URI: it.URI})
		}
	}
	slices.SortFunc(valid, func(a, b dated) int { return a.at.Compare(b.at) })
	for _, x := range valid[:max(0, len(valid)-maxLinks+1)] {
		changes = append(changes, store.Change{Op: store.Erase, URI: x.uri})
	}
	_, err := r.store.Commit(ctx, systemBy(by), store.Batch{Changes: changes})
	return secret, err
}

// SignIn makes a session of a link, which is then used up, and returns the session's secret. Errors:
// link_unknown, link_expired (Unauthentic), user_disabled, and the store's.
func (r *Registry) SignIn(ctx context.Context, link, browser string) (Session, string, error) {
	l, found, err := r.findLink(ctx, link)
	if err != nil {
		return Session{}, "", err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if err := r.checkEnabled(ctx, l.User); err != nil {
		return Session{}, "", err
	}
	secret := NewSecret()
	sum := digestOf(secret)
	x := id.New()
	if list := []rune(browser); len(list) > maxBrowser {
		browser = string(list[:maxBrowser])
	}
	s := storedSession{User: l.User, Browser: browser, SHA256: hex.EncodeToString(sum[:]), Created: now, Seen: now}
	changes := []store.Change{s.change(TypeSession, x, store.If{Absent: true}), {Op: store.Erase, URI: found.URI, If: store.If{Version: found.Version}}}
	list, err := r.Sessions(ctx, l.User)
	if err != nil {
		return Session{}, "", err
	}
	for _, old := range list[min(len(list), maxSessions-1):] {
		changes = append(changes, store.Change{Op: store.Erase, URI: resource.Root(TypeSession, old.ID.String())})
	}
	if _, err := r.store.Commit(ctx, systemBy(l.User), store.Batch{Changes: changes}); err != nil {
		if fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound) { // it was used at the same time
			err = noLink("link_unknown", "the link was used already")
		}
		return Session{}, "", err
	}
	return s.public(x), secret, nil
}

// LinkUser returns whom a link would sign in, and does not use it up. Errors: link_unknown, link_expired
// (Unauthentic), and the store's.
func (r *Registry) LinkUser(ctx context.Context, link string) (string, error) {
	l, _, err := r.findLink(ctx, link)
	return l.User, err
}

// findLink returns a link that is valid, and its resource.
func (r *Registry) findLink(ctx context.Context, link string) (l storedSession, found *resource.Resource, err error) {
	found, err = r.findSession(ctx, TypeLink, digestOf(link))
	if err == nil && found == nil {
		err = noLink("link_unknown", "the link was used already, or never existed")
	}
	if err != nil {
		return l, nil, err
	}
	if l, _, err = readSession(*found); err == nil && !time.Now().Before(l.Expires) {
		err = noLink("link_expired", "the link expired on %s", l.Expires.Format(time.RFC3339))
	}
	return l, found, err
}

func noLink(code, format string, args ...any) error {
	return fault.New(fault.Unauthentic, code, format, args...).WithHint("steward link prints a new one")
}

// AuthenticateSession returns the session of a secret, and records that it was used. It reads the store each
// time, so that a session that was ended counts at once. Errors: session_ended (Unauthentic), user_disabled,
// and the store's.
func (r *Registry) AuthenticateSession(ctx context.Context, secret string) (Session, error) {
	ended := fault.New(fault.Unauthentic, "session_ended", "the session has ended").WithHint("steward link prints a link that signs you in")
	if !WellFormed(secret) {
		return Session{}, ended
	}
	found, err := r.findSession(ctx, TypeSession, digestOf(secret))
	if err != nil {
		return Session{}, err
	}
	if found == nil {
		return Session{}, ended
	}
	s, x, err := readSession(*found)
	if err != nil {
		return Session{}, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if now.Sub(s.Seen) >= SessionIdle {
		return Session{}, ended
	}
	if err := r.checkEnabled(ctx, s.User); err != nil {
		return Session{}, err
	}
	if now.Sub(s.Seen) >= seenEvery {
		s.Seen = now
		_, err := r.store.Commit(ctx, systemBy(s.User), store.Batch{Changes: []store.Change{s.change(TypeSession, x, store.If{Version: found.Version})}})
		if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
			return Session{}, err
		}
	}
	return s.public(x), nil
}

func (r *Registry) checkEnabled(ctx context.Context, user string) error {
	p, err := r.person(ctx, user)
	if err == nil && p.disabled {
		err = fault.New(fault.Unauthentic, "user_disabled", "the user %s is disabled", user).WithHint(enableHint, user)
	}
	return err
}

// Sessions returns the sessions of a user that have not ended, the last used first.
func (r *Registry) Sessions(ctx context.Context, user string) ([]Session, error) {
	list, err := all(ctx, r, store.Query{Type: TypeSession, Term: store.Term{Name: termUser, Value: user}}, func(res resource.Resource) (Session, error) {
		s, x, err := readSession(res)
		return s.public(x), err
	})
	now := time.Now()
	list = slices.DeleteFunc(list, func(s Session) bool { return now.Sub(s.Seen) >= SessionIdle })
	slices.SortStableFunc(list, func(a, b Session) int { return cmp.Or(b.Seen.Compare(a.Seen), b.Created.Compare(a.Created)) })
	return list, err
}

// EndSession ends a session of a user. Errors: session_not_found, own_user_only, and the store's.
func (r *Registry) EndSession(ctx context.Context, by, user string, x id.ID) error {
	if err := CheckActsFor(by, user); err != nil {
		return err
	}
	u := resource.Root(TypeSession, x.String())
	res, err := r.store.Get(ctx, system, u)
	if err == nil {
		var s storedSession
		if s, _, err = readSession(res); err == nil && s.User == user {
			_, err = r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{{Op: store.Erase, URI: u}}})
			return err
		}
	}
	if err == nil || fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "session_not_found", "%s has no session %s", user, x)
	}
	return err
}

func (r *Registry) findSession(ctx context.Context, typ string, sum digest) (*resource.Resource, error) {
	page, err := r.store.Query(ctx, system, store.Query{Type: typ, Term: store.Term{Name: termHash, Value: hex.EncodeToString(sum[:])}, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return &page.Items[0].Resource, nil
}
