package identity

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// A share lets whoever has its secret read one conversation of a user, and nothing else, until it expires or is
// ended. Of the secret, only the hash is stored.

// TypeShare is the type of the resources in which shares are kept, in the system space.
const TypeShare = "identity.Share"

// Limits of shares.
const (
	maxShares   = 100 // of a user
	maxShareFor = 366 * 24 * time.Hour
)

// Share is a conversation that can be read by a link.
type Share struct {
	ID           id.ID     `json:"-"`
	User         string    `json:"user"`
	Conversation id.ID     `json:"conversation"`
	Private      bool      `json:"private,omitzero"` // content labelled private is shown, too
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

type storedShare struct {
	Share
	SHA256 string `json:"sha256"`
}

func readShare(res resource.Resource) (s Share, err error) {
	var stored storedShare
	x, ok := id.Parse(res.URI.ID())
	if err := json.Unmarshal(res.Body, &stored); err != nil || !ok {
		return s, broken(res.URI, err)
	}
	stored.ID = x
	return stored.Share, nil
}

// NewShare shares a conversation, whose existence the caller has checked, and returns the secret. Of s, User,
// Conversation and Private count. Errors: share_expiry_invalid, too_many_shares, and the store's.
func (r *Registry) NewShare(ctx context.Context, s Share, within time.Duration) (Share, string, error) {
	if within <= 0 || within > maxShareFor {
		return s, "", fault.New(fault.Invalid, "share_expiry_invalid", "a conversation is shared for at most %d days", maxShareFor/(24*time.Hour))
	}
	list, err := r.shares(ctx, s.User)
	if err != nil {
		return s, "", err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	var changes []store.Change
	for _, old := range list {
		if !now.Before(old.Expires) {
			changes = append(changes, store.Change{Op: store.Erase, URI: resource.Root(TypeShare, old.ID.String())})
		}
	}
	if len(list)-len(changes) >= maxShares {
		return s, "", fault.New(fault.Exhausted, "too_many_shares", "%d conversations are shared already", maxShares).WithHint("end one of them")
	}
	secret := NewSecret()
	sum := digestOf(secret)
	s.ID, s.Created, s.Expires = id.New(), now, now.Add(within)
	stored := storedShare{Share: s, SHA256: hex.EncodeToString(sum[:])}
	body, err := json.Marshal(stored)
	if err != nil {
		return s, "", err
	}
	changes = append(changes, store.Change{URI: resource.Root(TypeShare, s.ID.String()), If: store.If{Absent: true}, Body: body,
		Terms: []store.Term{{Name: termHash, Value: stored.SHA256}, {Name: termUser, Value: s.User}}})
	_, err = r.store.Commit(ctx, systemBy(s.User), store.Batch{Changes: changes})
	return s, secret, err
}

// Shared returns the share of a secret. Errors: share_ended (NotFound), and the store's.
func (r *Registry) Shared(ctx context.Context, secret string) (Share, error) {
	ended := fault.New(fault.NotFound, "share_ended", "this link has ended, or never existed").WithHint("ask whoever sent it for a new one")
	if !WellFormed(secret) {
		return Share{}, ended
	}
	found, err := r.findSession(ctx, TypeShare, digestOf(secret))
	if err != nil {
		return Share{}, err
	}
	if found == nil {
		return Share{}, ended
	}
	s, err := readShare(*found)
	if err == nil && !time.Now().Before(s.Expires) {
		err = ended
	}
	if err == nil {
		if err = r.checkEnabled(ctx, s.User); fault.Is(err, fault.Unauthentic) {
			err = ended
		}
	}
	return s, err
}

// Shares returns the shares of a conversation that have not expired, the newest first.
func (r *Registry) Shares(ctx context.Context, user string, conv id.ID) ([]Share, error) {
	list, err := r.shares(ctx, user)
	now := time.Now()
	list = slices.DeleteFunc(list, func(s Share) bool { return s.Conversation != conv || !now.Before(s.Expires) })
	slices.SortStableFunc(list, func(a, b Share) int { return b.Created.Compare(a.Created) })
	return list, err
}

func (r *Registry) shares(ctx context.Context, user string) ([]Share, error) {
	return all(ctx, r, store.Query{Type: TypeShare, Term: store.Term{Name: termUser, Value: user}}, readShare)
}

// EndShare ends a share of a user. Errors: share_not_found, and the store's.
func (r *Registry) EndShare(ctx context.Context, user string, x id.ID) error {
	u := resource.Root(TypeShare, x.String())
	res, err := r.store.Get(ctx, system, u)
	if err == nil {
		var s Share
		if s, err = readShare(res); err == nil && s.User == user {
			_, err = r.store.Commit(ctx, systemBy(user), store.Batch{Changes: []store.Change{{Op: store.Erase, URI: u}}})
			return err
		}
	}
	if err == nil || fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "share_not_found", "%s has no share %s", user, x)
	}
	return err
}
