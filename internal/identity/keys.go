// Package identity manages users: their API keys, accounts, groups and profiles.
//
// The machine's own user, Local, stands above the administrators. Administrators manage all other
// users: they create keys for them, give them roles and lock them out. Local belongs to whoever runs
// Steward on this machine, because its settings, folders, accounts and programs are that person's.
// So only Local creates and revokes keys for Local, changes the account of Local, and acts on what
// belongs to Local (CheckActsFor). Only Local decides which agents, servers and programs run, unless
// a rule in the machine's own policies lets somebody else decide. The servers know Local by the token
// in the data folder, or by a key that Local has created.
package identity

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Local is the machine's own user.
const Local = tool.OwnUser

// Anonymous is the user of a call without a credential, if the settings allow it: a
// service and a guest. CheckUser refuses the name, so nobody can have a key, an
// account or a group with it.
const Anonymous = "_anonymous"

// The types of the resources in which this package keeps keys and profiles.
const (
	TypeKey  = "identity.Key"  // in the system space
	TypeUser = "identity.User" // in the user's own space
)

// Key is an API key. The secret itself is not stored.
type Key struct {
	ID      id.ID
	User    string
	Name    string // for people; may be empty
	Hint    string // the first characters of the secret
	Created time.Time
	Expires time.Time // zero: never
	Revoked time.Time // zero: not revoked
	Only    string    // the one thing that it opens, such as OnlyMetrics; empty: everything of its user
}

// OnlyMetrics limits a key to reading the node's metrics.
const OnlyMetrics = "metrics"

// Usable reports whether the key is valid at a time.
func (k Key) Usable(at time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || at.Before(k.Expires))
}

// storedKey is a Key's body in the store.
type storedKey struct {
	User    string    `json:"user"`
	Name    string    `json:"name,omitzero"`
	Hint    string    `json:"hint"`
	SHA256  string    `json:"sha256"` // of the whole secret, hex
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Only    string    `json:"only,omitzero"`
}

const (
	termHash = "key_hash"
	termUser = "key_user"

	maxName   = 100              // characters
	cacheSize = 1024             // people
	cacheFor  = 10 * time.Second // after which a change by another process is seen
)

// system is the scope of the keys. The user of a secret is not known before it is
// looked up.
var system = store.Scope{Actor: "system", Read: []resource.Space{resource.System}, Write: resource.System}

// Registry keeps the keys, accounts, groups and profiles. Safe for concurrent
// use.
type Registry struct {
	store store.Store
	known *knownKeys // nil: each key is looked up

	crowd   sync.RWMutex
	people  map[string]person // by user
	version atomic.Uint64     // counts possible changes of Principals; written under crowd
}

// New returns a registry over the store.
func New(s store.Store) *Registry {
	return &Registry{store: s, people: map[string]person{}}
}

// NewShared returns a registry over a store that other nodes write, too, and at which each look-up is a round
// trip. It remembers keys. One that another node revokes is refused within a second; one that is revoked through
// this registry, at once.
func NewShared(s store.Store) *Registry {
	r := New(s)
	r.known = &knownKeys{keys: map[digest]storedKey{}}
	return r
}

// CheckActsFor returns own_user_only (Denied) if by may not manage or use what belongs to a user: only
// Local does so for Local.
func CheckActsFor(by, user string) error {
	if user != Local || by == Local {
		return nil
	}
	return fault.New(fault.Denied, "own_user_only", "only the machine's own user can manage %s", Local).
		WithHint("use the steward command on the machine that Steward runs on")
}

// Create creates a key for a user on behalf of by and returns it with its secret, which cannot be
// retrieved again. A zero expires means never.
// Errors: user_invalid, own_user_only, key_name_invalid, key_expiry_past,
// key_expiry_invalid, and the store's.
func (r *Registry) Create(ctx context.Context, by, user, name string, expires time.Time) (Key, string, error) {
	return r.CreateOnly(ctx, by, user, name, "", expires)
}

// CreateOnly is Create for a key that opens one thing only; with "", everything of its user. It has one more
// error: key_limit_unknown.
func (r *Registry) CreateOnly(ctx context.Context, by, user, name, only string, expires time.Time) (Key, string, error) {
	if only != "" && only != OnlyMetrics {
		return Key{}, "", fault.New(fault.Invalid, "key_limit_unknown", "a key cannot be limited to %.60q", only).
			WithHint("limit it to %s, or leave the limit out", OnlyMetrics)
	}
	if err := r.checkNamed(ctx, user); err != nil {
		return Key{}, "", err
	}
	if err := CheckActsFor(by, user); err != nil {
		return Key{}, "", err
	}
	if err := checkText("key_name_invalid", "the name of a key", name, maxName); err != nil {
		return Key{}, "", err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if expires.Year() > 9999 { // RFC 3339 has no later years
		return Key{}, "", fault.New(fault.Invalid, "key_expiry_invalid", "the year %d is too far away", expires.Year()).
			WithHint("leave the time out for a key that never expires")
	}
	if !expires.IsZero() && !expires.After(now) {
		return Key{}, "", fault.New(fault.Invalid, "key_expiry_past", "the expiry time %s is in the past", expires.Format(time.RFC3339)).
			WithHint("give a time in the future, or none")
	}
	secret := NewSecret()
	sum := digestOf(secret)
	k := storedKey{
		User: user, Name: name, Hint: secret[:len(Prefix)+6], SHA256: hex.EncodeToString(sum[:]),
		Created: now, Expires: expires.UTC(), Only: only,
	}
	x := id.New()
	if _, err := r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{k.change(x, store.If{Absent: true})}}); err != nil {
		return Key{}, "", err
	}
	return k.public(x), secret, nil
}

func (k storedKey) change(x id.ID, cond store.If) store.Change {
	body, err := json.Marshal(k)
	if err != nil {
		panic(err) // strings and times between 1970 and 9999: cannot fail
	}
	return store.Change{
		URI: resource.Root(TypeKey, x.String()), If: cond, Body: body,
		Terms: []store.Term{{Name: termHash, Value: k.SHA256}, {Name: termUser, Value: k.User}},
	}
}

func (k storedKey) public(x id.ID) Key {
	return Key{ID: x, User: k.User, Name: k.Name, Hint: k.Hint, Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Only: k.Only}
}

func readKey(res resource.Resource) (storedKey, id.ID, error) {
	var k storedKey
	x, ok := id.Parse(res.URI.ID())
	if err := json.Unmarshal(res.Body, &k); err != nil || !ok {
		return k, x, broken(res.URI, err)
	}
	return k, x, nil
}

func broken(uri resource.URI, err error) error {
	return fault.New(fault.Internal, "store_broken", "%s cannot be read: %v", uri, err).
		WithHint("run steward doctor, and restore the data folder from a backup if it reports damage")
}

// List returns the keys of a user, or of all users if user is empty, including
// revoked and expired keys.
func (r *Registry) List(ctx context.Context, user string) ([]Key, error) {
	q := store.Query{Type: TypeKey}
	if user != "" {
		q.Term = store.Term{Name: termUser, Value: user}
	}
	return all(ctx, r, q, func(res resource.Resource) (Key, error) {
		k, x, err := readKey(res)
		return k.public(x), err
	})
}

// all reads the resources in the system space that match a query.
func all[T any](ctx context.Context, r *Registry, q store.Query, read func(resource.Resource) (T, error)) ([]T, error) {
	var out []T
	for it, err := range store.Items(ctx, r.store, system, q) {
		if err != nil {
			return nil, err
		}
		x, err := read(it.Resource)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// Revoke ends a key at once on behalf of by. Revoking it again changes nothing. Errors: key_not_found,
// own_user_only, and the store's.
func (r *Registry) Revoke(ctx context.Context, by string, x id.ID) error {
	for {
		res, err := r.store.Get(ctx, system, resource.Root(TypeKey, x.String()))
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "key_not_found", "there is no key %s", x).
				WithHint("steward keys list shows the keys")
		}
		if err != nil {
			return err
		}
		k, _, err := readKey(res)
		if err == nil {
			err = CheckActsFor(by, k.User)
		}
		if err != nil || !k.Revoked.IsZero() {
			return err
		}
		k.Revoked = time.Now().UTC().Truncate(time.Microsecond)
		_, err = r.store.Commit(ctx, systemBy(by), store.Batch{Changes: []store.Change{k.change(x, store.If{Version: res.Version})}})
		r.known.drop()
		if !fault.Is(err, fault.Conflict) {
			return err
		}
	}
}

// Authenticate returns the user of a secret. It looks the key up in the store
// each time, so a revocation by another process counts at once; see also NewShared. A
// malformed secret, an unknown, revoked or expired key, and the key of a disabled user
// are Unauthentic: key_malformed, key_unknown, key_revoked, key_expired,
// user_disabled. So is a key that is limited to one thing: key_limited. Other errors are the store's.
func (r *Registry) Authenticate(ctx context.Context, secret string) (string, error) {
	return r.AuthenticateOnly(ctx, secret, "")
}

// AuthenticateOnly is Authenticate for a key that is limited to one thing, and for no other key.
func (r *Registry) AuthenticateOnly(ctx context.Context, secret, only string) (string, error) {
	if !WellFormed(secret) {
		return "", refuse("key_malformed", "not a key of Steward: it is incomplete or mistyped")
	}
	k, err := r.find(ctx, digestOf(secret))
	if err != nil {
		return "", err
	}
	switch now := time.Now(); {
	case !k.Revoked.IsZero():
		return "", refuse("key_revoked", "the key was revoked")
	case !k.public(id.ID{}).Usable(now):
		return "", refuse("key_expired", "the key expired on %s", k.Expires.Format(time.RFC3339))
	case k.Only != only:
		return "", refuse("key_limited", "the key is not for this: it opens %s only", cmp.Or(k.Only, "what is its user's"))
	}
	p, err := r.person(ctx, k.User)
	if err != nil {
		return "", err
	}
	if p.disabled {
		return "", fault.New(fault.Unauthentic, "user_disabled", "the user %s is disabled", k.User).WithHint(enableHint, k.User)
	}
	return k.User, nil
}

func refuse(code, format string, args ...any) error {
	return fault.New(fault.Unauthentic, code, format, args...).WithHint("create a new key with steward keys create")
}

func (r *Registry) find(ctx context.Context, sum digest) (storedKey, error) {
	if r.known == nil {
		return r.lookUp(ctx, sum)
	}
	k, ok, epoch, err := r.known.get(ctx, r.store, sum)
	if ok || err != nil {
		return k, err
	}
	if k, err = r.lookUp(ctx, sum); err == nil {
		r.known.add(sum, k, epoch)
	}
	return k, err
}

func (r *Registry) lookUp(ctx context.Context, sum digest) (storedKey, error) {
	want := hex.EncodeToString(sum[:])
	page, err := r.store.Query(ctx, system, store.Query{Type: TypeKey, Term: store.Term{Name: termHash, Value: want}, Limit: 1})
	if err != nil {
		return storedKey{}, err
	}
	if len(page.Items) == 0 {
		return storedKey{}, refuse("key_unknown", "unknown API key")
	}
	k, _, err := readKey(page.Items[0].Resource)
	if err != nil {
		return storedKey{}, err
	}
	if subtle.ConstantTimeCompare([]byte(k.SHA256), []byte(want)) != 1 {
		return storedKey{}, refuse("key_unknown", "unknown API key")
	}
	return k, nil
}

// checkText checks a short text written by a person.
func checkText(code, what, s string, most int) error {
	bad := !utf8.ValidString(s) || utf8.RuneCountInString(s) > most
	for _, c := range s {
		bad = bad || unicode.IsControl(c)
	}
	if bad {
		return fault.New(fault.Invalid, code, "%s is one line of at most %d characters", what, most)
	}
	return nil
}
