package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tools/local"
)

// How facts are read, kept decoded, committed and found.

// all returns a user's facts, the newest first.
func (e *Engine) all(ctx context.Context, user string) (out []stored, err error) {
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: record.TypeFact, Limit: store.DefaultLimit}) {
		if err != nil {
			return nil, err
		}
		f, err := e.decoded.fact(user, &it.Resource)
		if err != nil {
			return nil, err
		}
		out = append(out, stored{f, it.Version})
	}
	slices.SortStableFunc(out, func(a, b stored) int {
		return cmp.Or(b.From.Compare(a.From), b.Created.Compare(a.Created), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return out, nil
}

// decoded keeps facts as they were decoded, since each recall reads all of a user. The zero value is empty.
type decoded struct {
	mu   sync.Mutex
	kept map[decodedKey]stored
}

type decodedKey struct {
	user string
	at   resource.URI
}

// fact decodes a fact, unless that version was decoded before.
func (d *decoded) fact(user string, r *resource.Resource) (record.Fact, error) {
	key := decodedKey{user, r.URI}
	d.mu.Lock()
	s, ok := d.kept[key]
	d.mu.Unlock()
	if ok && s.version == r.Version {
		return s.Fact, nil
	}
	f, err := record.DecodeFact(r.URI, r.Body)
	if err != nil {
		return f, err
	}
	// Whoever adds to a list gets a copy of it.
	f.History, f.Earlier, f.Sources, f.Supersedes = slices.Clip(f.History), slices.Clip(f.Earlier), slices.Clip(f.Sources), slices.Clip(f.Supersedes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil || len(d.kept) >= maxKept {
		d.kept = map[decodedKey]stored{}
	}
	d.kept[key] = stored{f, r.Version}
	return f, nil
}

// Drop forgets what is kept in memory of a user, on whom another node works.
func (e *Engine) Drop(user string) {
	if e == nil {
		return
	}
	e.decoded.mu.Lock()
	defer e.decoded.mu.Unlock()
	maps.DeleteFunc(e.decoded.kept, func(key decodedKey, _ stored) bool { return key.user == user })
}

// drop forgets what was kept of a fact.
func (d *decoded) drop(user string, at resource.URI) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, decodedKey{user, at})
}

// commit commits changes. What is about a fact, such as the triples that come from it, is erased before the fact
// is, so that a retry after a crash finds the rest.
func (e *Engine) commit(ctx context.Context, user string, changes []store.Change) error {
	for i, c := range changes {
		rewritten := i+1 < len(changes) && changes[i+1].URI == c.URI
		if c.Op == store.Erase && !rewritten {
			if err := store.EraseAbout(ctx, e.opt.Store, user, resource.UserSpace(user), c.URI); err != nil {
				return err
			}
		}
	}
	_, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes})
	for _, c := range changes {
		if c.Op == store.Erase {
			e.decoded.drop(user, c.URI)
			e.epoch.Add(1)
		}
	}
	return err
}

func put(f *record.Fact, cond store.If) store.Change {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // a plain struct: cannot fail
	}
	return store.Change{URI: f.URI(), Body: b, If: cond}
}

// revise begins a revision of a fact if a conversation would show it differently than it was. Conversations that
// have recalled it go on showing what it was.
func revise(f, was *record.Fact) {
	if f.Text == was.Text && f.From.Equal(was.From) && f.Subject == was.Subject && f.Type == was.Type && f.Source == was.Source {
		return
	}
	f.Earlier = append(slices.Clip(was.Earlier), record.FactText{Revision: was.Revision, Text: was.Text, From: was.From,
		Subject: was.Subject, Type: was.Type, Source: was.Source})
	f.Earlier = f.Earlier[max(0, len(f.Earlier)-maxEarlier):]
	f.Revision = was.Revision + 1
}

// note adds a change to the history of a fact. Labels only ever grow.
func note(f *record.Fact, by record.FactAuthor, now time.Time, what string) {
	f.Changed = now
	f.Labels |= by.Labels
	f.Sources = message.JoinSources(f.Sources, by.Sources)
	f.History = append(f.History, record.FactChange{By: by.Call, At: now, Actor: cmp.Or(by.Actor, "user"), What: what, Source: by.Source})
	f.History = f.History[max(0, len(f.History)-maxHistory):]
}

// savedBy returns the fact that a call has saved or changed; that of facts it has superseded comes last.
func savedBy(all []stored, call id.ID) (found *stored) {
	for i := range all {
		if changedBy(&all[i].Fact, call) && (found == nil || found.Successor == all[i].ID) {
			found = &all[i]
		}
	}
	return found
}

func changedBy(f *record.Fact, call id.ID) bool {
	return slices.ContainsFunc(f.History, func(h record.FactChange) bool { return h.By == call })
}

// named returns the facts with the ids.
func named(all []stored, ids []string) (out []stored, err error) {
	for _, which := range ids {
		f, err := find(all, which)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func find(all []stored, which string) (stored, error) {
	which = strings.TrimSpace(which)
	current := func(f stored) bool { return f.Until.IsZero() }
	found := local.FirstMatches(all, current,
		func(f stored) bool { return f.ID.String() == which || f.URI().String() == which },
		func(f stored) bool { return strings.EqualFold(f.Text, which) },
		func(f stored) bool { return len(which) >= minPrefix && strings.HasPrefix(f.ID.String(), which) },
		func(f stored) bool { return len(which) >= minPrefix && strings.HasSuffix(f.ID.String(), which) },
		func(f stored) bool { return local.HasWords(f.Text, which) })
	return local.ExactlyOne("fact", which, found, func(f stored) string { return f.Text + " (" + f.ID.String() + ")" })
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "fact_invalid", format, args...)
}
