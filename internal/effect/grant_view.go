package effect

import "time"

// GrantView is a standing approval as it is shown to a person.
type GrantView struct {
	Grant
	Labels []string `json:"labels,omitzero"`
	State  string   `json:"state"` // "active", "expired", "revoked", or "lapsed": the tool has changed
}

// EditedView is a standing approval as an edit would change it, as it is shown to a
// person.
type EditedView struct {
	Grant GrantView `json:"grant"`
	Wider bool      `json:"wider"` // it would cover something that it does not cover now
	Hash  string    `json:"hash"`  // must be repeated to confirm a wider grant
}

// ViewGrant returns a standing approval as it is shown to a person.
func (e *Engine) ViewGrant(g Grant) GrantView {
	v := GrantView{Grant: g, Labels: g.Labels.Names(), State: "active"}
	switch {
	case !g.Revoked.IsZero():
		v.State = "revoked"
	case !g.Expires.IsZero() && !time.Now().Before(g.Expires):
		v.State = "expired"
	case e.opt.Tool != nil:
		if t, ok := e.opt.Tool(g.Agent, g.Tool); !ok || t.Spec().Version != g.Version {
			v.State = "lapsed"
		}
	}
	return v
}

// ViewEdited returns what an edit makes of a standing approval, as it is shown to a
// person.
func (e *Engine) ViewEdited(x Edited) EditedView {
	return EditedView{e.ViewGrant(x.Grant), x.Wider, x.Hash}
}
