package runtime

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"steward/internal/conversation"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tool"
)

// Records gives a user access to what is stored: conversations, requests,
// actions, and open questions, which it can also answer. A node embeds the one
// over its store; commands create one when no node is running. Safe for
// concurrent use.
type Records struct {
	*requests.Engine
	store         store.Store
	conversations *conversation.Engine
	effects       *effect.Engine
	parts         RecordsOptions
}

// RecordsOptions are the parts of Records. Store, Conversations, Effects and Spec
// are required.
type RecordsOptions struct {
	Store         store.Store
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Search        search.Index                                // nil: there is no search
	Price         func(model string, u message.Usage) float64 // of a model call, in US dollars; nil: recorded costs are used
	Tool          func(agent, name string) (tool.Tool, bool)  // a tool as an agent has it now; nil: unknown
	Spec          func(name string) (tool.Spec, bool)         // of tools that were called
	Log           *slog.Logger
	Zone          func(user string) *time.Location // a user's time zone; nil, or a nil result: unknown
}

// NewRecords returns Records made of the given parts.
func NewRecords(o RecordsOptions) Records {
	return Records{requests.New(requests.Options{Store: o.Store, Conversations: o.Conversations, Effects: o.Effects, Price: o.Price,
		Spec: o.Spec, Zone: o.Zone, Log: o.Log}), o.Store, o.Conversations, o.Effects, o}
}

// Conversations returns a page of the user's conversations, most recently used
// first.
func (k *Records) Conversations(ctx context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error) {
	return k.conversations.List(ctx, store.ForUser(user), after, limit)
}

// Conversation returns one of the user's conversations.
func (k *Records) Conversation(ctx context.Context, user string, conv id.ID) (record.Conversation, error) {
	return k.conversations.Get(ctx, store.ForUser(user), conv)
}

// Messages returns a page of a conversation's messages in their exact order.
func (k *Records) Messages(ctx context.Context, user string, conv id.ID, after store.Cursor, limit int) ([]conversation.Entry, store.Cursor, error) {
	return k.conversations.Messages(ctx, store.ForUser(user), conv, after, limit, false)
}

// FindCall returns the user's messages with a call that has the provider's id,
// newest first.
func (k *Records) FindCall(ctx context.Context, user, callID string) ([]conversation.Called, error) {
	return k.conversations.FindCall(ctx, store.ForUser(user), callID)
}

// Siblings returns the messages that are in the place of a message on the
// conversation's branches.
func (k *Records) Siblings(ctx context.Context, user string, conv, msg id.ID) ([]conversation.Sibling, error) {
	if _, err := k.conversations.Get(ctx, store.ForUser(user), conv); err != nil {
		return nil, err
	}
	return k.conversations.Siblings(ctx, store.ForUser(user), conv, msg)
}

// Interaction returns an interaction in its current state.
func (k *Records) Interaction(ctx context.Context, user string, conv, inter id.ID) (conversation.Interaction, error) {
	return k.conversations.Interaction(ctx, store.ForUser(user), conv, inter)
}

// Audit returns what tools and people changed in the validity of messages.
func (k *Records) Audit(ctx context.Context, user string, conv, interaction id.ID, toolName string) ([]conversation.Optimization, error) {
	return k.conversations.Audit(ctx, store.ForUser(user), conv, interaction, toolName)
}

// ExportAs writes a conversation to w in the form that the options select.
func (k *Records) ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error {
	return k.conversations.ExportAs(ctx, store.ForUser(user), conv, o, w)
}

// Search searches the messages of the user and the assistant. Error codes:
// search_off, and those of search.Index.
func (k *Records) Search(ctx context.Context, user string, q search.Query) (search.Page, error) {
	if k.parts.Search == nil {
		return search.Page{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search")
	}
	return k.parts.Search.Search(ctx, store.ForUser(user), q)
}

// WorkLog returns a page of the tool calls made for a user, newest first; see
// worklog.Engine.Log.
func (k *Records) WorkLog(ctx context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error) {
	return k.Engine.WorkLog(user).Log(ctx, store.ForUser(user), f, after, limit)
}

// WorkLogEntry returns one entry of the work log with its messages; see
// worklog.Engine.Show.
func (k *Records) WorkLogEntry(ctx context.Context, user, ref string) (worklog.Entry, []*message.Message, error) {
	return k.Engine.WorkLog(user).Show(ctx, store.ForUser(user), ref)
}

// Decide records a person's answer to a question that was put to that user or to
// one of the user's groups. It is durable when Decide returns. Error codes as of
// effect.Engine.Decide.
func (k *Records) Decide(ctx context.Context, user string, v Verdict) error {
	return k.effects.Decide(ctx, store.ForUser(user), v)
}

// Approvals returns the questions that wait for a user's answer, oldest first:
// from all the user's conversations, from agents that agents have asked, and from
// the user's groups.
func (k *Records) Approvals(ctx context.Context, user string) ([]effect.Question, error) {
	return k.effects.Questions(ctx, user)
}

// Approval returns one question. If p is not nil, the question is shown as it
// would be with that pattern.
func (k *Records) Approval(ctx context.Context, user, which string, p intent.Pattern) (effect.Question, error) {
	return k.effects.Question(ctx, store.ForUser(user), which, p)
}

// Grants returns a user's standing approvals, newest first. If all is set, it
// includes those that were revoked or have ended.
func (k *Records) Grants(ctx context.Context, user string, all bool) ([]GrantView, error) {
	list, err := k.effects.Grants(ctx, user, all)
	out := make([]GrantView, len(list))
	for i := range list {
		out[i] = k.showGrant(list[i])
	}
	return out, err
}

// Grant returns one standing approval. Error code: grant_not_found.
func (k *Records) Grant(ctx context.Context, user string, grant id.ID) (GrantView, error) {
	g, err := k.effects.Grant(ctx, user, grant)
	return k.showGrant(g), err
}

// ShowGrantEdit returns what an edit would make of a standing approval, without
// making it.
func (k *Records) ShowGrantEdit(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (GrantEdited, error) {
	e, err := k.effects.ShowGrantEdit(ctx, user, grant, ed)
	return GrantEdited{k.showGrant(e.Grant), e.Wider, e.Hash}, err
}

// EditGrant changes a standing approval; see effect.Engine.EditGrant.
func (k *Records) EditGrant(ctx context.Context, user string, grant id.ID, ed effect.GrantEdit) (GrantView, error) {
	g, err := k.effects.EditGrant(ctx, user, grant, ed)
	return k.showGrant(g), err
}

// RevokeGrant revokes a standing approval with immediate effect.
func (k *Records) RevokeGrant(ctx context.Context, user string, grant id.ID) error {
	_, err := k.effects.Revoke(ctx, user, grant)
	return err
}

// Reading selects messages of a conversation. The zero value selects the first
// page of the preferred branch.
type Reading struct {
	Branch  string // empty: the preferred one
	After   store.Cursor
	Limit   int
	Reverse bool // newest first
	Deleted bool // instead of all that, the messages that can be restored: in one page, in order of deletion
}

// ReadMessages reads messages of one of the user's conversations. Error
// codes: conversation_not_found, branch_not_found, cursor_invalid.
func (k *Records) ReadMessages(ctx context.Context, user string, conv id.ID, r Reading) ([]conversation.Entry, store.Cursor, error) {
	e, sc := k.conversations, store.ForUser(user)
	switch {
	case r.Deleted:
		list, err := deleted(ctx, e, sc, conv)
		return list, "", err
	case r.Branch == "":
		return e.Messages(ctx, sc, conv, r.After, r.Limit, r.Reverse)
	}
	if _, err := e.Get(ctx, sc, conv); err != nil {
		return nil, "", err
	}
	list, err := e.Branches(ctx, sc, conv)
	if err != nil {
		return nil, "", err
	}
	i := slices.IndexFunc(list, func(b record.Branch) bool { return b.ID == r.Branch })
	if i < 0 {
		return nil, "", fault.New(fault.NotFound, "branch_not_found", "this conversation has no branch %.80q", r.Branch).
			WithHint("steward branch list shows those that it has")
	}
	return e.MessagesOf(ctx, sc, conv, &list[i], r.After, r.Limit, r.Reverse)
}

// deleted returns the messages that are deleted, can be restored, and have not
// been erased.
func deleted(ctx context.Context, e *conversation.Engine, sc store.Scope, conv id.ID) ([]conversation.Entry, error) {
	changes, err := e.Audit(ctx, sc, conv, id.ID{}, "")
	if err != nil {
		return nil, err
	}
	out := []conversation.Entry{}
	for _, c := range changes {
		if c.State != record.Deleted || !c.Undone.IsZero() {
			continue
		}
		m, err := e.Find(ctx, sc, conv, c.Message)
		if fault.Is(err, fault.NotFound) {
			continue // erased for good
		}
		if err != nil {
			return nil, err
		}
		m.Change = c.Change
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b conversation.Entry) int {
		return cmp.Or(a.Change.At.Compare(b.Change.At), cmp.Compare(a.Pos, b.Pos))
	})
	return out, nil
}

// Path is a branch as it is shown to a person.
type Path struct {
	record.Branch
	Preferred bool
	Stem      string // the branch that the last shared message was written on; empty: it shares none
	Messages  int    // how many messages are on it
	Own       int    // how many of them were written on it
	Begins    string // the beginning of the first text among these; empty if there is none that may be shown
}

// Paths returns a conversation's branches, oldest first. If deleted is set, it
// returns the branches that can be restored instead.
func (k *Records) Paths(ctx context.Context, user string, conv id.ID, deleted bool) ([]Path, error) {
	sc := store.ForUser(user)
	c, err := k.conversations.Get(ctx, sc, conv)
	if err != nil {
		return nil, err
	}
	var out []Path
	q := store.Query{Term: store.Term{Name: record.TermBranch, Value: conv.String()}, Under: record.ConversationURI(conv)}
	for it, err := range store.Items(ctx, k.store, sc, q) {
		if err != nil {
			return nil, err
		}
		p := Path{Branch: record.Branch{ID: it.URI.ID()}}
		if err := record.Decode(it.URI, it.Body, &p.Branch); err != nil {
			return nil, err
		}
		if p.Deleted.IsZero() == deleted {
			continue
		}
		p.Preferred = p.ID == c.BranchID()
		for _, s := range slices.Backward(p.Rope) {
			if s.Branch != p.ID {
				p.Stem = s.Branch
				break
			}
		}
		out = append(out, p)
	}
	branches := make([]*record.Branch, len(out))
	for i := range out {
		branches[i] = &out[i].Branch
	}
	all, own, err := k.conversations.Counts(ctx, sc, conv, branches)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Messages, out[i].Own = all[i], own[i]
		if err := out[i].begins(ctx, k.store, sc, conv); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b Path) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// begins sets how the messages that were written on a branch begin.
func (p *Path) begins(ctx context.Context, st store.Store, sc store.Scope, conv id.ID) error {
	if p.Own == 0 {
		return nil
	}
	const near = 20
	first, err := st.Query(ctx, sc, store.Query{List: record.BranchURI(conv, p.ID), Limit: near})
	if err != nil {
		return err
	}
	for _, it := range first.Items {
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return err
		}
		if p.Begins = requests.Beginning(m); p.Begins != "" {
			return nil
		}
	}
	return nil
}

// RouteStats returns figures about the newest decisions of routing for a user.
func (k *Records) RouteStats(ctx context.Context, user string) (routing.Stats, error) {
	return routing.StatsOf(ctx, k.store, user)
}

// GrantEdited is a standing approval as an edit would change it.
type GrantEdited struct {
	Grant GrantView `json:"grant"`
	Wider bool      `json:"wider"` // it would cover something that it does not cover now
	Hash  string    `json:"hash"`  // must be repeated to confirm a wider grant
}

// GrantView is a standing approval as it is shown to a person.
type GrantView struct {
	effect.Grant
	Labels []string `json:"labels,omitzero"`
	State  string   `json:"state"` // "active", "expired", "revoked", or "lapsed": the tool has changed
}

// showGrant returns a standing approval as it is shown to a person.
func (k *Records) showGrant(g effect.Grant) GrantView {
	v := GrantView{Grant: g, Labels: g.Labels.Names(), State: "active"}
	switch {
	case !g.Revoked.IsZero():
		v.State = "revoked"
	case !g.Expires.IsZero() && !time.Now().Before(g.Expires):
		v.State = "expired"
	case k.parts.Tool != nil:
		if t, ok := k.parts.Tool(g.Agent, g.Tool); !ok || t.Spec().Version != g.Version {
			v.State = "lapsed"
		}
	}
	return v
}
