package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/store"
)

// GrantEdit describes changes to a standing approval. Fields that are nil or empty stay as
// they are.
type GrantEdit struct {
	Pattern  intent.Pattern
	Until    *time.Time      // zero time: never expires
	Standing Standing        // empty: unchanged
	Labels   *message.Labels // what the model may have been shown; never Secret
	// Hash repeats Edited.Hash. It is required if the edit widens what is covered.
	Hash string
}

// Edited is a standing approval as an edit would change it.
type Edited struct {
	Grant Grant
	Wider bool   // it would cover something that it does not cover now
	Hash  string // over its current and its edited form
}

// ShowGrantEdit returns what an edit would make of a standing approval, without applying
// it.
func (e *Engine) ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed GrantEdit) (Edited, error) {
	g, err := e.Grant(ctx, user, grant)
	if err != nil {
		return Edited{}, err
	}
	return g.edited(ed, time.Now().UTC())
}

// EditGrant changes a standing approval. An edit that widens it requires the hash of what
// the person was shown (grant_wider, Conflict). An edit that narrows it requires none.
func (e *Engine) EditGrant(ctx context.Context, user string, grant id.ID, ed GrantEdit) (Grant, error) {
	return e.changeGrant(ctx, user, grant, func(g Grant) (Grant, error) {
		next, err := g.edited(ed, time.Now().UTC())
		if err == nil && (next.Wider || ed.Hash != "") && ed.Hash != next.Hash {
			err = fault.New(fault.Conflict, "grant_wider", "the edit widens the standing approval, or the approval has changed since it was shown").
				WithHint("preview the edit, and send the hash of the preview")
		}
		next.Grant.Changed = time.Now().UTC()
		return next.Grant, err
	})
}

// edited returns the grant as an edit changes it.
func (g Grant) edited(ed GrantEdit, now time.Time) (Edited, error) {
	if !g.Revoked.IsZero() {
		return Edited{}, fault.New(fault.Conflict, "grant_revoked", "this standing approval was revoked").
			WithHint("give a new one when the action is requested again")
	}
	next := g
	if ed.Pattern != nil {
		p, err := ed.Pattern.Checked()
		if err != nil {
			return Edited{}, err
		}
		next.Pattern = p
	}
	if ed.Until != nil {
		next.Expires = ed.Until.UTC()
	} else {
		now = g.Created // the rest of an approval that has expired can be edited
	}
	if ed.Standing != Once {
		next.Standing = ed.Standing
	}
	if ed.Labels != nil {
		next.Fixed = next.Fixed && *ed.Labels == g.Labels
		next.Labels = *ed.Labels
	}
	if err := next.valid(now); err != nil {
		return Edited{}, err
	}
	b, err := json.Marshal([]Grant{g, next}, json.Deterministic(true))
	if err != nil {
		return Edited{}, fault.New(fault.Invalid, "grant_invalid", "the grant cannot be shown: %w", err)
	}
	sum := sha256.Sum256(b)
	return Edited{Grant: next, Wider: !next.within(&g), Hash: hex.EncodeToString(sum[:])}, nil
}

// within reports whether of covers everything that g covers. Both are versions of one
// grant.
func (g *Grant) within(of *Grant) bool {
	return g.Pattern.Within(of.Pattern) && of.Labels.Has(g.Labels) && (g.Fixed || !of.Fixed) &&
		(of.Standing == Always || g.Standing == of.Standing) &&
		(of.Expires.IsZero() || !g.Expires.IsZero() && !g.Expires.After(of.Expires))
}

// Revoke revokes a standing approval at once. Revoking it again does nothing.
func (e *Engine) Revoke(ctx context.Context, user string, grant id.ID) error {
	_, err := e.changeGrant(ctx, user, grant, func(g Grant) (Grant, error) {
		if g.Revoked.IsZero() {
			g.Revoked = time.Now().UTC()
		}
		return g, nil
	})
	return err
}

// changeGrant applies change to a grant and records the result. It retries if the grant
// changed in between.
func (e *Engine) changeGrant(ctx context.Context, user string, grant id.ID, change func(Grant) (Grant, error)) (Grant, error) {
	for {
		g, err := e.Grant(ctx, user, grant)
		if err != nil {
			return g, err
		}
		next, err := change(g)
		if err != nil {
			return g, err
		}
		put, err := next.put(store.If{Version: g.version})
		if err != nil {
			return g, err
		}
		_, err = e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Request: requestOf(ctx), Changes: []store.Change{put}})
		if !fault.HasCode(err, "conflict") {
			return next, err
		}
	}
}
