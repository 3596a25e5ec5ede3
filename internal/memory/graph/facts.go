package graph

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/memory"
	"steward/internal/memory/graph/rdf"
	"steward/internal/message"
	"steward/internal/record"
)

// What the facts say is a part of the graph that is not stored. Each fact is an entity with its text, its type,
// its time, whom it is about, and the message that it comes from. A fact that is true, and says so in one of the
// forms that memory.RelationOf knows, also states a relation between two entities: Ann lives in Berlin. A fact
// that was superseded keeps its entity, with the time in which it was true and its successor, and states no
// relation any more. A quotation of others states none either: it has an entity with its text, which is
// untrusted.

// The names of what is said of facts and documents.
const (
	classFact     = "urn:steward:class:fact"
	classDocument = "urn:steward:class:document"
)

func relation(words string) rdf.Term { return rdf.NewIRI(RelationNS + slug(words, "_")) }

func timeOf(t time.Time) rdf.Term {
	return rdf.NewTyped(t.UTC().Format("2006-01-02T15:04:05Z"), rdf.DateTime)
}

// view is what the facts of a user say.
type view struct {
	list  []Statement
	by    map[rdf.Term][]int // the statements with a subject or an object
	facts map[rdf.Term]*record.Fact
}

// view derives the statements of a user's facts.
func (e *Engine) view(ctx context.Context, user string) (v view, err error) {
	if e.opt.Facts == nil {
		return v, nil
	}
	list, err := e.opt.Facts(ctx, user)
	if err != nil {
		return v, err
	}
	// What a fact of the user states is not made untrusted by a quotation that states the same.
	slices.SortStableFunc(list, func(a, b record.Fact) int {
		return cmp.Compare(a.EffectiveLabels(), b.EffectiveLabels())
	})
	v.by, v.facts = map[rdf.Term][]int{}, map[rdf.Term]*record.Fact{}
	names, seen := map[string]rdf.Term{}, map[rdf.Triple]bool{}
	now := e.opt.Now()
	for i := range list {
		f := &list[i]
		node := rdf.NewIRI(f.URI().String())
		v.facts[node] = f
		say := func(s, p, o rdf.Term) {
			t := rdf.Triple{S: s, P: p, O: o}
			if seen[t] || t.Check() != nil {
				return
			}
			seen[t] = true
			at := len(v.list)
			v.list = append(v.list, Statement{Triple: t, Source: f.URI().String(), Labels: f.EffectiveLabels(), At: f.From})
			v.by[s] = append(v.by[s], at)
			if o != s {
				v.by[o] = append(v.by[o], at)
			}
		}
		entity := func(name string) (rdf.Term, error) {
			name = strings.Join(strings.Fields(name), " ")
			key := slug(name, "-")
			if key == "" {
				return rdf.Term{}, nil
			}
			t, ok := names[key]
			if !ok {
				t, _, err = e.Entity(ctx, user, name)
				if err != nil { // several stored entities have the name: it is none of them
					if ctx.Err() != nil {
						return t, err
					}
					t = rdf.NewIRI(EntityNS + key)
				}
				names[key] = t
			}
			say(t, rdf.NewIRI(rdf.Label), rdf.NewString(name))
			return t, nil
		}
		say(node, rdf.NewIRI(rdf.Type), rdf.NewIRI(classFact))
		say(node, relation("text"), rdf.NewString(f.Text))
		say(node, relation("kind"), rdf.NewString(f.Type))
		say(node, relation("valid from"), timeOf(f.From))
		if !f.Until.IsZero() {
			say(node, relation("valid to"), timeOf(f.Until))
		}
		if !f.Successor.Zero() {
			say(node, relation("superseded by"), rdf.NewIRI(record.FactURI(f.Successor).String()))
		}
		if f.Source != "" {
			say(node, relation("source"), rdf.NewIRI(f.Source))
		}
		about, err := entity(f.Subject)
		if err != nil {
			return v, err
		}
		if about.Kind != rdf.None {
			say(node, relation("about"), about)
		}
		if rel, ok := memory.RelationOf(f); ok && f.Current(now) {
			s, err := entity(rel.Subject)
			if err != nil {
				return v, err
			}
			o, err := entity(rel.Object)
			if err != nil {
				return v, err
			}
			if s.Kind != rdf.None && o.Kind != rdf.None {
				say(s, relation(rel.Words), o)
			}
		}
	}
	return v, nil
}

// match calls found for each statement that fits; zero terms fit every one.
func (v *view) match(s, p, o rdf.Term, found func(Statement) error) error {
	fits := func(st Statement) error {
		if s.Kind != rdf.None && st.S != s || p.Kind != rdf.None && st.P != p || o.Kind != rdf.None && st.O != o {
			return nil
		}
		return found(st)
	}
	if key := cmp.Or(s, o); key.Kind != rdf.None {
		for _, i := range v.by[key] {
			if err := fits(v.list[i]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, st := range v.list {
		if err := fits(st); err != nil {
			return err
		}
	}
	return nil
}

// about returns the facts about an entity, and those that mention its name, the newest first.
func (v *view) about(node rdf.Term, name string) (out []record.Fact, labels message.Labels) {
	words := labelWords(name)
	at := map[rdf.Term]bool{}
	for _, i := range v.by[node] {
		at[v.list[i].S] = true
	}
	for t, f := range v.facts {
		if at[t] || len(words) > 0 && mentions(f.Text, words) {
			out = append(out, *f)
		}
	}
	slices.SortFunc(out, func(a, b record.Fact) int {
		return cmp.Or(b.From.Compare(a.From), strings.Compare(a.ID.String(), b.ID.String()))
	})
	out = out[:min(len(out), maxFacts)]
	for i := range out {
		labels |= out[i].EffectiveLabels()
	}
	return out, labels
}

// mentions reports whether a text has words next to each other.
func mentions(text string, words []string) bool {
	list := allWords(text)
	for i := range list {
		if i+len(words) <= len(list) && slices.Equal(list[i:i+len(words)], words) {
			return true
		}
	}
	return false
}
