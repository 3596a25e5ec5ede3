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
// ended. Of the secret, only the hash is stored. Shares are kept in the space of the user, so that nobody else
// learns what is shared, and go with it; who looks one up names the user.

// TypeShare is the type of the resources in which shares are kept.
const TypeShare = "identity.Share"

// Limits of shares.
const (
	maxShares   = 100 // of a user
	maxShareFor = 366 * 24 * time.Hour
)

// Share is a conversation that can be read by a link.
type Share struct {
	ID           id.ID     `json:"-"`
	User         string    `json:"-"`
	Conversation id.ID     `json:"conversation"`
	Private      bool      `json:"private,omitzero"` // content labelled private is shown, too
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

type storedShare struct {
	Share
	SHA256 string `json:"sha256"`
}

func readShare(user string, res resource.Resource) (s Share, err error) {
	var stored storedShare
	x, ok := id.Parse(res.URI.ID())
	if err := json.Unmarshal(res.Body, &stored); err != nil || !ok {
		return s, broken(res.URI, err)
	}
	stored.ID, stored.User = x, user
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
		Terms: []store.Term{{Name: termHash, Value: stored.SHA256}}})
	_, err = r.store.Commit(ctx, store.ForUser(s.User), store.Batch{Changes: changes})
	return s, secret, err
}

// Shared returns the share of a user that has a secret. Errors: share_ended (NotFound), and the store's.
func (r *Registry) Shared(ctx context.Context, user, secret string) (Share, error) {
	ended := fault.New(fault.NotFound, "share_ended", "this link has ended, or never existed").WithHint("ask whoever sent it for a new one")
	if !WellFormed(secret) || CheckUser(user) != nil {
		return Share{}, ended
	}
	sum := digestOf(secret)
	page, err := r.store.Query(ctx, store.ForUser(user), store.Query{Type: TypeShare, Term: store.Term{Name: termHash, Value: hex.EncodeToString(sum[:])}, Limit: 1})
	if err != nil {
		return Share{}, err
	}
	if len(page.Items) == 0 {
		return Share{}, ended
	}
	s, err := readShare(user, page.Items[0].Resource)
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
	var out []Share
	for it, err := range store.Items(ctx, r.store, store.ForUser(user), store.Query{Type: TypeShare}) {
		if err != nil {
			return nil, err
		}
		s, err := readShare(user, it.Resource)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// EndShare ends a share of a user. Errors: share_not_found, and the store's.
func (r *Registry) EndShare(ctx context.Context, user string, x id.ID) error {
	u := resource.Root(TypeShare, x.String())
	_, err := r.store.Get(ctx, store.ForUser(user), u)
	if err == nil {
		_, err = r.store.Commit(ctx, store.ForUser(user), store.Batch{Changes: []store.Change{{Op: store.Erase, URI: u}}})
	}
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "share_not_found", "%s has no share %s", user, x)
	}
	return err
}
