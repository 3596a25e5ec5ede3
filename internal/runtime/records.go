package runtime

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/conversation"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tool"
)

// Records are the engines over what is stored: conversations, requests, actions and
// open questions, which can also be answered. A node embeds those over its store;
// commands make them when no node is running. Safe for concurrent use.
type Records struct {
	*requests.Engine
	Conversations *conversation.Engine
	Effects       *effect.Engine

	store  store.Store
	search search.Index
}

// RecordsOptions are the parts of Records. Store, Conversations, Effects and Spec
// are required.
type RecordsOptions struct {
	Store         store.Store
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Search        search.Index                                // nil: there is no search
	Price         func(model string, u message.Usage) float64 // of a model call, in US dollars; nil: recorded costs are used
	Spec          func(name string) (tool.Spec, bool)         // of tools that were called
	Log           *slog.Logger
	Zone          func(user string) *time.Location // a user's time zone; nil, or a nil result: unknown
}

// NewRecords returns Records made of the given parts.
func NewRecords(o RecordsOptions) Records {
	return Records{requests.New(requests.Options{Store: o.Store, Conversations: o.Conversations, Effects: o.Effects, Price: o.Price,
		Spec: o.Spec, Zone: o.Zone, Log: o.Log}), o.Conversations, o.Effects, o.Store, o.Search}
}

// Search searches the messages of the user and the assistant. Error codes:
// search_off, and those of search.Index.
func (k *Records) Search(ctx context.Context, user string, q search.Query) (search.Page, error) {
	if k.search == nil {
		return search.Page{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search")
	}
	return k.search.Search(ctx, store.ForUser(user), q)
}

// QueryItems finds messages of the user and the assistant by vectors. Error codes:
// search_off, and those of search.Vectors.
func (k *Records) QueryItems(ctx context.Context, user string, q search.ItemQuery) (search.ItemPage, error) {
	vectors, ok := k.search.(search.Vectors)
	if !ok {
		return search.ItemPage{}, fault.New(fault.Unsupported, "search_off", "this Steward has no search by vectors")
	}
	return vectors.QueryItems(ctx, store.ForUser(user), q)
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

// RouteStats returns figures about the newest decisions of routing for a user.
func (k *Records) RouteStats(ctx context.Context, user string) (routing.Stats, error) {
	return routing.StatsOf(ctx, k.store, user)
}
