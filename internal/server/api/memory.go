package api

import (
	"cmp"
	"context"

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

// facts lists the caller's facts, the newest first; with a query, those that are like it, the most similar first.
func (f *server) facts(ctx context.Context, c *call, in struct {
	Query string `query:"query"`
	All   bool   `query:"all"`
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
	return memory.Why(&v), nil
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

func (f *server) forgetFact(ctx context.Context, c *call, in factNamed) (noContent, error) {
	if err := f.servesMemory(); err != nil {
		return noContent{}, err
	}
	_, err := f.Memory.Forget(ctx, c.User, in.ID)
	return noContent{}, err
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
