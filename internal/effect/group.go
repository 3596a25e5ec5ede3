package effect

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// questionURI returns the URI of a question to a group, in the group's space.
func questionURI(intent resource.URI) resource.URI {
	return resource.Root(typeQuestion, IntentID(intent).String())
}

// groupScope returns the scope of the engine itself in a group's space. The engine posts
// and withdraws questions on behalf of users who need not be members.
func groupScope(group string) store.Scope { return store.ForGroup("system", group) }

// postToGroup posts a question to the group that answers it. Posting it again does nothing.
func (e *Engine) postToGroup(ctx context.Context, k *intentRecord, q *Question) error {
	if k.in.Approvers == "" {
		return nil
	}
	body, err := json.Marshal(q, json.Deterministic(true))
	if err != nil {
		return fault.New(fault.Internal, "intent_broken", "cannot send the question to %s: %w", k.in.Approvers, err)
	}
	ctx = context.WithoutCancel(ctx)
	sc, uri := groupScope(k.in.Approvers), questionURI(k.uri)
	if r, err := e.opt.Store.Get(ctx, sc, uri); err == nil && string(r.Body) == string(body) {
		return nil
	}
	_, err = e.opt.Store.Commit(ctx, sc, store.Batch{Request: k.in.Request, Changes: []store.Change{
		{Op: store.Put, URI: uri, Body: body, State: stateOpen,
			Terms: store.About([]resource.Space{resource.UserSpace(q.User)}, k.uri)}}})
	return err
}

// withdraw erases a question from a group's space.
func (e *Engine) withdraw(ctx context.Context, group string, at resource.URI) {
	_, err := e.opt.Store.Commit(context.WithoutCancel(ctx), groupScope(group), store.Batch{Changes: []store.Change{{Op: store.Erase, URI: at}}})
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.HasCode(err, "conflict") {
		e.log.WarnContext(ctx, "cannot withdraw a question from a group", "group", group, "question", at.String(), "error", err)
	}
}

// groupsOf returns the groups of a user.
func (e *Engine) groupsOf(ctx context.Context, user string) ([]string, error) {
	if e.opt.Directory == nil {
		return nil, nil
	}
	p, err := e.opt.Directory.Principal(ctx, user)
	return p.Groups, err
}

// questionAt locates a question: the URI of the intent, and the scope to read it with,
// whose actor is the person who looks.
type questionAt struct {
	scope store.Scope
	uri   resource.URI
}

// may refuses a user who may not answer an action's questions (approval_by_group).
func (e *Engine) may(ctx context.Context, in *intent.Intent, at questionAt) error {
	if in.Approvers == "" { // it is in the user's own space, or find would have failed
		return nil
	}
	groups, err := e.groupsOf(ctx, at.scope.Actor)
	if err != nil {
		return err
	}
	if !slices.Contains(groups, in.Approvers) {
		return fault.New(fault.Denied, "approval_by_group", "only a member of the group %s can answer this", in.Approvers).
			WithHint("ask a member")
	}
	return nil
}

// find finds a question that a user may see, by the URI or the ID of its intent: the
// user's own, or one posted to a group of the user (approval_not_found).
func (e *Engine) find(ctx context.Context, sc store.Scope, name string) (questionAt, error) {
	which, ok := id.Parse(name)
	if uri, err := resource.Parse(name); err == nil && uri.Type() == TypeIntent {
		which, ok = IntentID(uri), true
	}
	if !ok || which.Zero() {
		return questionAt{}, questionNotFound(name)
	}
	page, err := e.opt.Store.Query(ctx, sc, store.Query{Type: TypeIntent, Term: store.Term{Name: TermIntent, Value: which.String()}, Limit: 1, NoBody: true})
	if err != nil {
		return questionAt{}, err
	}
	if len(page.Items) > 0 {
		return questionAt{sc, page.Items[0].URI}, nil
	}
	groups, err := e.groupsOf(ctx, sc.Actor)
	if err != nil {
		return questionAt{}, err
	}
	for _, group := range groups {
		at, _, err := e.posted(ctx, group, sc.Actor, resource.Root(typeQuestion, which.String()))
		if !fault.Is(err, fault.NotFound) {
			return at, err
		}
	}
	return questionAt{}, questionNotFound(name)
}

// posted reads a question that was posted to a group. If the recorded intent does not
// confirm the question, it is treated as not found.
func (e *Engine) posted(ctx context.Context, group, user string, at resource.URI) (questionAt, intent.Intent, error) {
	var none questionAt
	r, err := e.opt.Store.Get(ctx, groupScope(group), at)
	if err != nil {
		return none, intent.Intent{}, err
	}
	var q Question
	err = json.Unmarshal(r.Body, &q)
	uri, wrong := resource.Parse(q.ID)
	if err = cmp.Or(err, wrong); err != nil {
		return none, intent.Intent{}, fault.New(fault.Internal, "store_broken", "the question %s cannot be read: %w", at, err)
	}
	p := questionAt{store.ForUser(q.User), uri}
	p.scope.Actor = user
	k, err := e.load(ctx, p.scope, uri)
	if err != nil {
		return none, intent.Intent{}, err
	}
	if k.in.Approvers != group || k.in.User != q.User || questionURI(uri) != at {
		return none, intent.Intent{}, questionNotFound(q.ID)
	}
	return p, k.in, nil
}

// noteChanges tells the model which arguments a person has changed, and which member of a group
// allowed the action.
func (f *execution) noteChanges(res *message.ToolResult) {
	a := f.in.Approval
	if a == nil || f.in.Attempts == 0 {
		return
	}
	var said []string
	if f.in.Approvers != "" {
		said = append(said, remarkAllowed+a.By+" of the group "+f.in.Approvers+".")
	}
	if a.Edited != "" {
		args := f.in.Args
		if len(args) > maxRemark {
			args = cut(args, maxRemark) + "…"
		}
		said = append(said, remarkEdited+"; it was called with "+args+".")
	}
	if said == nil {
		return
	}
	own := message.Common{Origin: "system"}
	note := &message.Text{Common: own, Text: "[" + strings.ToValidUTF8(strings.Join(said, " "), "\uFFFD") + "]\n"}
	res.Content = append([]message.Block{note}, res.Content...)
}

// What a remark begins with.
const (
	remarkAllowed = "Allowed by "
	remarkEdited  = "The person who allowed it changed the arguments first"
)

// WithoutRemark returns the text of a result without the line that tells the model who allowed the call
// and what was changed: a person knows it.
func WithoutRemark(text string) string {
	if strings.HasPrefix(text, "["+remarkAllowed) || strings.HasPrefix(text, "["+remarkEdited) {
		if _, rest, more := strings.Cut(text, "]\n"); more {
			return rest
		}
	}
	return text
}

// maxRemark bounds the arguments quoted in a remark, in bytes.
const maxRemark = 2000
