package requests

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// drawer builds the views of a request tree from the store alone.
type drawer struct {
	ctx   context.Context
	st    store.Store
	sc    store.Scope
	price func(string, message.Usage) float64
}

// maxDrawn bounds the depth of a view.
const maxDrawn = 64

// turn returns the view of an interaction with everything that it led to.
func (d *drawer) turn(inter resource.URI, depth int) (client.Request, error) {
	own := record.IDOf(inter, record.TypeInteraction)
	v := client.Request{ID: own.String(), Kind: record.RequestTurn, State: Closed, Interaction: own.String(), Conversation: IDText(record.IDOf(inter, record.TypeConversation))}
	r, err := d.st.Get(d.ctx, d.sc, inter)
	if fault.Is(err, fault.NotFound) {
		err = requestNotFound(own.String())
	}
	if err != nil {
		return v, err
	}
	var in record.Interaction
	if err := record.Decode(inter, r.Body, &in); err != nil {
		return v, err
	}
	v.Started, v.Origin = in.Started, in.Origin
	run, found, err := LastRun(d.ctx, d.st, d.sc, inter)
	if err != nil {
		return v, err
	}
	if found {
		v.Agent, v.Ended, v.Outcome, v.Error = run.Agent, run.Ended, run.Outcome, run.Error
		if run.Ended.IsZero() {
			v.State = record.RequestOpen
		}
	}
	if depth > maxDrawn {
		return v, nil
	}
	return v, d.fill(&v, inter, depth)
}

// fill adds what an interaction led to.
func (d *drawer) fill(v *client.Request, inter resource.URI, depth int) error {
	below, err := Find(d.ctx, d.st, d.sc, store.Query{Under: inter})
	if err != nil {
		return err
	}
	intents, err := d.intents(inter)
	if err != nil {
		return err
	}
	msgs, err := d.messages(inter)
	if err != nil {
		return err
	}
	sum := Tally{Price: d.price}
	results := map[message.Ref]*message.Message{}
	for _, m := range msgs {
		sum.Message(m)
		if r := m.Result(); r != nil {
			results[r.Call] = m
		}
		if v.Title == "" && m.Role == message.User {
			v.Title = conversation.Beginning(m)
		}
	}
	if err := sum.Apart(d.ctx, d.st, d.sc, inter); err != nil {
		return err
	}
	for _, m := range msgs {
		for _, c := range m.Calls() {
			call, err := d.call(inter, m, c, results[c.Ref], below, depth)
			if err != nil {
				return err
			}
			call.Intent = intents[c.Ref]
			call.Conversation, call.Interaction = v.Conversation, v.Interaction
			v.Below = append(v.Below, call)
			sum.Usage, sum.Cost = sum.Usage.Add(message.Usage(call.Usage)), sum.Cost+call.Cost
		}
	}
	for i := range below {
		if b := &below[i]; b.Intent == "" || !b.Call.Message.Zero() {
			continue
		}
		wish, err := d.ledTo(viewOf(&below[i]), &below[i], depth) // a person's later request about an intent
		if err != nil {
			return err
		}
		v.Below = append(v.Below, wish)
		sum.Usage, sum.Cost = sum.Usage.Add(message.Usage(wish.Usage)), sum.Cost+wish.Cost
	}
	v.Usage, v.Cost = client.Usage(sum.Usage), sum.Cost
	for i := range below {
		if b := &below[i]; b.Kind == record.RequestTurn {
			v.State = viewOf(b).State
			if v.State == Closed {
				v.Usage, v.Cost = client.Usage(b.Usage), b.Cost
			}
		}
	}
	return nil
}

// call returns the view of a tool call, or of the asked agent or task that it
// became.
func (d *drawer) call(inter resource.URI, m *message.Message, c message.Call, res *message.Message, below []Stored, depth int) (client.Request, error) {
	v := client.Request{Kind: viewTool, Tool: c.Name, Call: CallID(c.Ref), State: Closed, Started: m.At}
	if res == nil {
		v.State, v.Status = record.RequestOpen, client.CallRunning
	} else {
		r := res.Result()
		v.Status, v.Ended = string(r.Status), res.At
		if r.Status != message.OK && r.Status != message.Accepted && !message.LabelsOf(res.Blocks).Has(message.Secret) {
			v.Message = llm.Line(r.Plain())
		}
	}
	if q := (struct{ Question string }{}); c.Name == AskPersonTool && !c.Labels.Has(message.Secret) && json.Unmarshal(c.Args, &q) == nil {
		v.Title = llm.Line(q.Question)
	}
	if c.Name == StartTool {
		return v, d.tasks(&v, inter.ChildID(record.TypeMessage, m.ID), below, depth)
	}
	i := slices.IndexFunc(below, func(b Stored) bool { return b.Call == c.Ref && b.Kind != record.RequestTurn })
	if i < 0 {
		return v, nil
	}
	b := &below[i]
	out := viewOf(b)
	out.Tool, out.Call = c.Name, v.Call
	if b.Kind == record.RequestAgent {
		out.Status, out.Message = v.Status, v.Message
	}
	return d.ledTo(out, b, depth)
}

// ledTo adds to a request's view what the request led to.
func (d *drawer) ledTo(out client.Request, b *Stored, depth int) (client.Request, error) {
	at, err := Interactions(d.ctx, d.st, d.sc, b)
	if err != nil {
		return out, err
	}
	if b.Kind == record.RequestAgent {
		out.WorkedIn = IDText(b.Conversation)
	}
	sum := Tally{}
	for _, inter := range at {
		sub, err := d.turn(inter, depth+1)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return out, err
		}
		sum.Usage, sum.Cost = sum.Usage.Add(message.Usage(sub.Usage)), sum.Cost+sub.Cost
		if b.Kind == record.RequestAgent {
			out.Title, out.Below = sub.Title, sub.Below
		} else {
			out.Below = append(out.Below, sub)
		}
	}
	if out.State != Closed {
		out.Usage, out.Cost = client.Usage(sum.Usage), sum.Cost
	}
	return out, nil
}

// messages returns the messages of an interaction in the order in which they were
// written.
func (d *drawer) messages(inter resource.URI) ([]*message.Message, error) {
	var out []*message.Message
	for m, err := range MessagesUnder(d.ctx, d.st, d.sc, inter) {
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b *message.Message) int { return a.At.Compare(b.At) })
	return out, nil
}

// intents returns the states of an interaction's intents by call.
func (d *drawer) intents(inter resource.URI) (map[message.Ref]string, error) {
	out := map[message.Ref]string{}
	for it, err := range store.Items(d.ctx, d.st, d.sc, store.Query{Under: inter, Type: "effect.Intent"}) {
		if err != nil {
			return nil, err
		}
		in, err := intent.Decode(it.Body)
		if err != nil {
			return nil, err
		}
		out[in.Call] = string(in.State)
	}
	return out, nil
}

// Tally returns an empty tally that knows the engine's prices.
func (e *Engine) Tally() Tally { return Tally{Price: e.price} }

// Tally sums up what requests have used.
type Tally struct {
	Price func(model string, u message.Usage) float64
	Usage message.Usage
	Cost  float64
	open  bool // something below is not closed
}

// All adds the usage of a request itself and of the requests below it.
func (t *Tally) All(ctx context.Context, st store.Store, sc store.Scope, r *Stored) error {
	at, err := Interactions(ctx, st, sc, r)
	if err != nil {
		return err
	}
	for _, inter := range at {
		below, err := Find(ctx, st, sc, store.Query{Under: inter})
		if err != nil {
			return err
		}
		t.open = t.open || slices.ContainsFunc(below, func(b Stored) bool { return b.State != "" && b.At != r.At })
		if i := slices.IndexFunc(below, func(b Stored) bool { return b.Kind == record.RequestTurn && b.At != r.At }); i >= 0 {
			below = below[i : i+1] // the turn's record already sums up the whole turn
		} else {
			for m, err := range MessagesUnder(ctx, st, sc, inter) {
				if err != nil {
					return err
				}
				t.Message(m)
			}
			if err := t.Apart(ctx, st, sc, inter); err != nil {
				return err
			}
		}
		for _, b := range below {
			if b.At != r.At {
				t.Usage, t.Cost = t.Usage.Add(b.Usage), t.Cost+b.Cost
			}
		}
	}
	return nil
}

// Find returns the requests that match a query.
func Find(ctx context.Context, st store.Store, sc store.Scope, q store.Query) ([]Stored, error) {
	var out []Stored
	for r, err := range requestsIn(ctx, st, sc, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// requestsIn yields the requests that match a query.
func requestsIn(ctx context.Context, st store.Store, sc store.Scope, q store.Query) iter.Seq2[Stored, error] {
	q.Type = record.TypeRequest
	return func(yield func(Stored, error) bool) {
		for it, err := range store.Items(ctx, st, sc, q) {
			var r Stored
			if err == nil {
				r, err = decode(it.Resource)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// OpenRequests returns the requests that are not closed. A request that is
// answered in between is found both as open and as answered; the later record
// wins.
func OpenRequests(ctx context.Context, st store.Store, sc store.Scope) ([]Stored, error) {
	var out []Stored
	at := map[resource.URI]int{}
	for _, state := range []string{record.RequestOpen, record.RequestAnswered} {
		list, err := Find(ctx, st, sc, store.Query{State: state})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if i, twice := at[r.At]; twice {
				out[i] = r
				continue
			}
			at[r.At] = len(out)
			out = append(out, r)
		}
	}
	return out, nil
}

// Message adds what a message used.
func (t *Tally) Message(m *message.Message) { t.call(m.Model, m.Usage) }

// Apart adds what an interaction used beside its messages.
func (t *Tally) Apart(ctx context.Context, st store.Store, sc store.Scope, inter resource.URI) error {
	for u, err := range conversation.Recorded(ctx, st, sc, inter) {
		if err != nil {
			return err
		}
		t.call(u.Model, u.Usage)
	}
	return nil
}

// call adds what a model call used.
func (t *Tally) call(model string, u message.Usage) {
	t.Usage = t.Usage.Add(u)
	if t.Price != nil && model != "" && u != (message.Usage{}) {
		t.Cost += t.Price(model, u)
	}
}

// CodeOrphaned is the code of requests whose work was lost in a crash and that
// nobody continues.
const CodeOrphaned = "orphaned"

// Cost returns what a turn and everything that it led to have cost so far, in US dollars.
func (e *Engine) Cost(ctx context.Context, sc store.Scope, inter resource.URI) (float64, error) {
	t := e.Tally()
	err := t.All(ctx, e.store, sc, &Stored{At: inter.ChildID(record.TypeRequest, record.IDOf(inter, record.TypeInteraction))})
	return t.Cost, err
}
