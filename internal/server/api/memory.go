package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
)

// factNamed is the path parameter that names one of the caller's facts, by its id, the beginning of that, or
// words of its text.
type factNamed struct {
	ID string `path:"id"`
}

func (f *server) servesMemory() error {
	if f.Memory == nil {
		return fault.New(fault.Unsupported, "memory_unsupported", "facts are not served here")
	}
	return nil
}

// factBy says who makes a change. What a program asks for may come from anywhere.
func factBy(c *call) record.FactAuthor {
	if c.Attended() {
		return record.FactAuthor{Call: id.New(), Actor: "user"}
	}
	return record.FactAuthor{Call: id.New(), Actor: "program", Labels: message.Private | message.Untrusted}
}

// facts lists the caller's facts, the newest first; with a query, those that are like it, the most similar first;
// with since, those that were changed after that time, with their changes, the newest change first.
func (f *server) facts(ctx context.Context, c *call, in struct {
	Query string `query:"query"`
	All   bool   `query:"all"`
	Since string `query:"since"`
	Limit int    `query:"limit" range:"1,5000"`
}) (map[string][]client.Fact, error) {
	if err := f.servesMemory(); err != nil {
		return nil, err
	}
	out, most := []client.Fact{}, cmp.Or(in.Limit, 100)
	if in.Query != "" {
		hits, err := f.Memory.Search(ctx, c.User, in.Query, most, listThreshold, in.All)
		for i := range hits {
			v := memory.View(&hits[i].Fact)
			v.Score = hits[i].Similar
			out = append(out, v)
		}
		return the("facts", out), err
	}
	list, err := f.Memory.List(ctx, c.User, in.All)
	if in.Since != "" {
		since, bad := time.Parse(time.RFC3339, in.Since)
		if bad != nil {
			return nil, fault.New(fault.Invalid, "time_invalid", "since: %.40q is no time", in.Since).WithHint("write it like 2026-01-02T15:04:05Z")
		}
		list = slices.DeleteFunc(list, func(x record.Fact) bool { return !x.Changed.After(since) })
		slices.SortStableFunc(list, func(a, b record.Fact) int { return b.Changed.Compare(a.Changed) })
		for i := range list[:min(len(list), most)] {
			out = append(out, memory.Why(&list[i]))
		}
		return the("facts", out), err
	}
	for i := range list[:min(len(list), most)] {
		out = append(out, memory.View(&list[i]))
	}
	return the("facts", out), err
}

// listThreshold is the least similarity of a fact that a search of the list shows. A person sees at a glance
// what does not fit.
const listThreshold = 0.3

func (f *server) saveFact(ctx context.Context, c *call, in struct {
	Body client.FactInput `body:""`
}) (client.SavedFact, error) {
	if err := f.servesMemory(); err != nil {
		return client.SavedFact{}, err
	}
	saved, err := f.Memory.Save(ctx, c.User, in.Body, factBy(c))
	if err != nil {
		return client.SavedFact{}, err
	}
	out := client.SavedFact{Fact: memory.View(&saved.Fact), How: saved.How}
	for _, o := range saved.Old {
		out.Old = append(out.Old, o.ID.String())
	}
	return out, nil
}

func (f *server) fact(ctx context.Context, c *call, in factNamed) (client.Fact, error) {
	if err := f.servesMemory(); err != nil {
		return client.Fact{}, err
	}
	v, err := f.Memory.Get(ctx, c.User, in.ID)
	if err != nil {
		return client.Fact{}, err
	}
	out := memory.Why(&v)
	if out.Said, err = f.Node.Said(ctx, c.User, v.Source); err == nil {
		out.Recalls, err = f.Node.Recalls(ctx, c.User, v.ID)
	}
	return out, err
}

func (f *server) changeFact(ctx context.Context, c *call, in struct {
	factNamed
	Body client.FactInput `body:""`
}) (client.Fact, error) {
	if err := f.servesMemory(); err != nil {
		return client.Fact{}, err
	}
	v, err := f.Memory.Change(ctx, c.User, in.ID, in.Body, factBy(c))
	if err != nil {
		return client.Fact{}, err
	}
	return memory.Why(&v), nil
}

// forgetFact erases a fact and the calls that have saved it; with turns, also what was said in these turns.
func (f *server) forgetFact(ctx context.Context, c *call, in struct {
	factNamed
	Turns bool `query:"turns"`
}) (noContent, error) {
	if err := f.servesMemory(); err != nil {
		return noContent{}, err
	}
	_, err := f.Node.ForgetFact(ctx, c.User, in.ID, in.Turns)
	return noContent{}, err
}

// undoFact undoes a change of a fact, by default the newest one.
func (f *server) undoFact(ctx context.Context, c *call, in struct {
	factNamed
	Body struct {
		Change id.ID `json:"change,omitzero"`
	} `body:""`
}) (client.UndoneFact, error) {
	if err := f.servesMemory(); err != nil {
		return client.UndoneFact{}, err
	}
	v, gone, err := f.Memory.UndoChange(ctx, c.User, in.ID, in.Body.Change, factBy(c))
	if err != nil {
		return client.UndoneFact{}, err
	}
	return client.UndoneFact{Fact: memory.View(&v), Gone: gone}, nil
}

// conversationMemory tells what a conversation has recalled, and what was saved from it.
func (f *server) conversationMemory(ctx context.Context, c *call, in inConversation) (client.ConversationMemory, error) {
	if err := f.servesMemory(); err != nil {
		return client.ConversationMemory{}, err
	}
	return f.Node.MemoryOf(ctx, f.Memory, c.User, in.Conv)
}

func (f *server) memoryProfile(ctx context.Context, c *call, _ struct{}) (client.MemoryProfile, error) {
	if err := f.servesMemory(); err != nil {
		return client.MemoryProfile{}, err
	}
	return f.Memory.Profile(ctx, c.User)
}

func (f *server) setMemoryProfile(ctx context.Context, c *call, in struct {
	Body client.MemoryProfile `body:""`
}) (client.MemoryProfile, error) {
	if err := f.servesMemory(); err != nil {
		return client.MemoryProfile{}, err
	}
	return f.Memory.SetProfile(ctx, c.User, in.Body, factBy(c))
}
