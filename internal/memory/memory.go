// Package memory keeps what is true about its users beyond one conversation: facts (record.Fact). A fact is a
// sentence with a subject, a type, an importance, the message that it comes from, and the time in which it
// is true. Standing instructions ("always show versions") are facts too.
//
// A fact is saved by a command, by a tool, or by reading a conversation that rests (Reader). A new one is
// compared with those that exist (compare.go), and in one commit it is added, merged into one that says
// less, takes the place of one that is no longer true, or is dropped because it is known. A fact that is
// superseded is kept, with the time in which it was true. Nothing is dropped at a limit without an error.
//
// A fact has the labels of everything that its text comes from. One that comes from text of others is
// foreign: it is a quotation, it supersedes and changes no other fact, it is never an instruction, and whatever
// shows it is untrusted, until a person confirms it, which is recorded.
//
// A turn begins with a recall: the facts that matter for what was asked, chosen by similarity, importance and
// age. The conversation records which facts at which revision were recalled, and not what they say (a message
// with the origin record.OriginMemory). The text is filled in when a model is asked, at the place in the
// conversation where it was recalled, so that the beginning of each request stays the same and providers'
// caches hold. Nothing that was recalled can be extracted again, found by a search, or survive in a
// conversation what was forgotten.
//
// Forgetting erases a fact with all its versions. With the setting memory off, nothing is read, recalled or
// written.
package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
	"steward/internal/tools/local"
)

// Limits.
const (
	MaxFacts   = 5000 // of a user, with those that are no longer true
	MaxText    = 500  // characters of a fact
	maxSubject = 80
	maxEarlier = 20
	maxHistory = 50
	maxTries   = 20 // of a change that others come before
	minPrefix  = 8  // characters of an id
)

// Importance of a fact that says nothing about it.
const (
	usualImportance       = 0.5
	instructionImportance = 0.9
)

// Options configure an engine. Store is required.
type Options struct {
	Store   store.Store
	Off     bool                // nothing is saved, and nothing is recalled
	Mask    func(string) string // hides secrets in a text; nil: nothing is hidden
	Now     func() time.Time    // nil: time.Now
	Similar Similarity          // nil: NewWords
	Search  func() search.Index // finds passages, which are not recalled without; may return nil
}

// Similarity says how similar texts are to another one, each from 0 to 1. An index of vectors may implement
// it.
type Similarity interface {
	Similar(ctx context.Context, user, text string, to []string) ([]float64, error)
}

// Engine keeps facts. Safe for concurrent use.
type Engine struct {
	opt      Options
	epoch    atomic.Uint64
	tell     atomic.Pointer[func(user string, n News)]
	contents contents
	decoded  decoded
	imports  chan struct{} // has an element after a conversation was imported
}

// Epoch counts what has changed how facts are shown that were recalled before: what was forgotten, or
// confirmed. What was rendered at an earlier epoch must not be used any more.
func (e *Engine) Epoch() uint64 { return e.epoch.Load() }

// Renew begins a new epoch, such as after a conversation was deleted whose passages were recalled.
func (e *Engine) Renew() {
	if e != nil {
		e.epoch.Add(1)
	}
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.Mask == nil {
		opt.Mask = func(s string) string { return s }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Similar == nil {
		opt.Similar = NewWords()
	}
	return &Engine{opt: opt, imports: make(chan struct{}, 1)}
}

// Off reports whether memory is off.
func (e *Engine) Off() bool { return e == nil || e.opt.Off }

// Saved says what has become of a new fact.
type Saved struct {
	Fact record.Fact
	How  string // client.FactAdded, …
	Old  []record.Fact
}

// stored is a fact with the version of its resource.
type stored struct {
	record.Fact
	version uint64
}

// Save saves a fact, of which in has at least the text, and tells so. If the call has saved one before, that is
// returned. Error codes: memory_off, fact_invalid, facts_too_many, fact_not_found (of Replaces), and the store's.
func (e *Engine) Save(ctx context.Context, user string, in client.FactInput, by record.FactAuthor) (Saved, error) {
	out, err := e.save(ctx, user, in, by)
	if err == nil && out.How != client.FactDropped {
		e.news(user, client.MemorySaved, conversationOf(by.Source), out.Fact)
	}
	return out, err
}

func (e *Engine) save(ctx context.Context, user string, in client.FactInput, by record.FactAuthor) (Saved, error) {
	if err := e.on(); err != nil {
		return Saved{}, err
	}
	for try := 1; ; try++ {
		all, err := e.all(ctx, user)
		if err != nil {
			return Saved{}, err
		}
		if f := savedBy(all, by.Call); f != nil {
			last := f.History[len(f.History)-1]
			return Saved{Fact: f.Fact, How: last.What}, nil
		}
		out, changes, err := e.place(ctx, user, all, in, by)
		if err != nil || len(changes) == 0 {
			return out, err
		}
		err = e.commit(ctx, user, changes)
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return out, err
		}
	}
}

// place decides what becomes of a new fact, and returns the changes of that.
func (e *Engine) place(ctx context.Context, user string, all []stored, in client.FactInput, by record.FactAuthor) (Saved, []store.Change, error) {
	now := e.now()
	said := now
	if !by.At.IsZero() {
		said = by.At.UTC().Truncate(time.Millisecond)
	}
	f := record.Fact{ID: id.Derive("fact", user, by.Call.String()), User: user, Type: record.FactPlain, Importance: usualImportance, Source: by.Source,
		From: said, Created: now, Changed: now, Labels: by.Labels, Sources: by.Sources, Revision: 1}
	if in.Text == nil {
		return Saved{}, nil, invalid("a fact needs a text")
	}
	if err := e.fill(&f, in); err != nil {
		return Saved{}, nil, err
	}
	f.Subject = cmp.Or(f.Subject, subjectOf(f.Text))
	switch {
	case in.Type != nil && *in.Type != "":
	case isInstruction(f.Text):
		f.Type = record.FactInstruction
	case f.Subject != subjectUser:
		f.Type = record.FactPerson
	}
	if f.Foreign() && f.Type == record.FactInstruction { // text of others instructs nobody
		f.Type = record.FactPlain
	}
	if in.Importance == nil && f.Type == record.FactInstruction {
		f.Importance = instructionImportance
	}
	replaced, err := named(all, in.Replaces)
	if err != nil {
		return Saved{}, nil, err
	}
	how, old, err := e.compare(ctx, &f, all, replaced)
	if err != nil {
		return Saved{}, nil, err
	}
	switch how {
	case client.FactDropped:
		return Saved{Fact: old[0].Fact, How: how}, nil, nil
	case client.FactMerged:
		m := old[0].Fact
		m.Text, m.Source = f.Text, cmp.Or(f.Source, m.Source)
		if said.Before(m.From) {
			m.From = said
		}
		revise(&m, &old[0].Fact)
		m.Importance = max(m.Importance, f.Importance)
		note(&m, by, now, how)
		return Saved{Fact: m, How: how}, []store.Change{put(&m, store.If{Version: old[0].version})}, nil
	}
	if len(all) >= MaxFacts {
		return Saved{}, nil, fault.New(fault.Exhausted, "facts_too_many", "there are already %d facts; the limit is %d", len(all), MaxFacts).
			WithHint("forget some: steward memory list --all, steward memory forget FACT")
	}
	out := Saved{Fact: f, How: how}
	var changes []store.Change
	for _, o := range old {
		o.Until, o.Successor = f.From, f.ID
		if o.Until.Before(o.From) {
			o.Until = o.From
		}
		note(&o.Fact, record.FactAuthor{Call: by.Call, Actor: by.Actor}, now, how)
		out.Old = append(out.Old, o.Fact)
		out.Fact.Supersedes = append(out.Fact.Supersedes, o.ID)
		changes = append(changes, put(&o.Fact, store.If{Version: o.version}))
	}
	note(&out.Fact, by, now, how)
	return out, append(changes, put(&out.Fact, store.If{Absent: true})), nil
}

// fill takes over what in says of a fact.
func (e *Engine) fill(f *record.Fact, in client.FactInput) error {
	line := func(s *string, name string, most int, to *string) error {
		if s == nil {
			return nil
		}
		text := strings.Join(strings.Fields(e.opt.Mask(strings.ToValidUTF8(*s, "\uFFFD"))), " ")
		if n := utf8.RuneCountInString(text); n > most {
			return invalid("the %s has %d characters; the limit is %d", name, n, most).WithHint("say it shorter, or save several facts")
		}
		if text == "" {
			return invalid("the %s is empty", name)
		}
		*to = text
		return nil
	}
	if in.Subject != nil && strings.TrimSpace(*in.Subject) == "" {
		in.Subject = nil
	}
	if in.Text != nil {
		plain := withoutRequest(*in.Text)
		in.Text = &plain
	}
	if err := cmp.Or(line(in.Text, "text", MaxText, &f.Text), line(in.Subject, "subject", maxSubject, &f.Subject)); err != nil {
		return err
	}
	if isUser(f.Subject) {
		f.Subject = subjectUser
	}
	if in.Type != nil && *in.Type != "" {
		if !slices.Contains(Types(), *in.Type) {
			return invalid("%.40q is no type of facts", *in.Type).WithHint("use one of: %s", strings.Join(Types(), ", "))
		}
		f.Type = *in.Type
	}
	if in.Importance != nil {
		if *in.Importance < 0 || *in.Importance > 1 {
			return invalid("the importance %g is not between 0 and 1", *in.Importance)
		}
		f.Importance = *in.Importance
	}
	if in.From != nil {
		f.From = in.From.UTC().Truncate(time.Millisecond)
	}
	if in.Until != nil {
		f.Until = in.Until.UTC().Truncate(time.Millisecond)
	}
	if !f.Until.IsZero() && f.Until.Before(f.From) {
		return invalid("it ends at %s, before it begins", f.Until.Format(time.RFC3339))
	}
	return nil
}

// Change changes a fact: all of in, or nothing. which is its id, at least the first 8 characters of that, or
// words of its text. Only a person can confirm what comes from others. Error codes: memory_off,
// fact_not_found, fact_ambiguous, fact_invalid, trust_denied, and the store's.
func (e *Engine) Change(ctx context.Context, user, which string, in client.FactInput, by record.FactAuthor) (record.Fact, error) {
	if err := e.on(); err != nil {
		return record.Fact{}, err
	}
	for try := 1; ; try++ {
		all, err := e.all(ctx, user)
		if err != nil {
			return record.Fact{}, err
		}
		s, err := find(all, which)
		if err != nil {
			return record.Fact{}, err
		}
		f, now, what := s.Fact, e.now(), "edited"
		if changedBy(&f, by.Call) {
			return f, nil
		}
		if err := e.fill(&f, in); err != nil {
			return f, err
		}
		revise(&f, &s.Fact)
		if in.Trusted != nil && *in.Trusted {
			if by.Actor != "user" || by.Labels != 0 {
				return f, errTrust(&f)
			}
			f.Trusted, what = now, "trusted"
		}
		if in.Trusted != nil && !*in.Trusted {
			f.Trusted, what = time.Time{}, "no longer trusted"
		}
		if f.Foreign() && f.Type == record.FactInstruction {
			return f, invalid("what comes from others cannot be an instruction").WithHint("confirm it first: steward memory edit %s --trust", f.ID)
		}
		note(&f, by, now, what)
		err = e.commit(ctx, user, []store.Change{put(&f, store.If{Version: s.version})})
		if in.Trusted != nil {
			e.epoch.Add(1)
		}
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return f, err
		}
	}
}

// Forget erases a fact and its earlier versions. Facts that it has superseded stay, with their time.
func (e *Engine) Forget(ctx context.Context, user, which string) (record.Fact, error) {
	all, err := e.all(ctx, user)
	if err != nil {
		return record.Fact{}, err
	}
	f, err := find(all, which)
	if err != nil {
		return record.Fact{}, err
	}
	if err := e.commit(ctx, user, forgotten(nil, &f)); err != nil {
		return f.Fact, err
	}
	e.news(user, client.MemoryForgotten, id.ID{}, f.Fact)
	return f.Fact, nil
}

// forgotten adds the changes that erase a fact. The message that it comes from is marked, so that no turn
// recalls that either.
func forgotten(changes []store.Change, f *stored) []store.Change {
	changes = append(changes, store.Change{Op: store.Erase, URI: f.URI(), If: store.If{Version: f.version}})
	at, err := resource.Parse(f.Source)
	if f.Source == "" || err != nil {
		return changes
	}
	mark := record.ForgottenURI(record.IDOf(at, record.TypeMessage))
	if slices.ContainsFunc(changes, func(c store.Change) bool { return c.URI == mark }) {
		return changes
	}
	return append(changes, store.Change{URI: mark, Body: record.Encode(struct{}{})})
}

// ForgetErased forgets what comes from messages that were erased: facts, and earlier texts of facts. It does so
// for a user, or for all users if user is empty.
func (e *Engine) ForgetErased(ctx context.Context, user string) error {
	sc := store.ForUser(user)
	if user == "" {
		sc = store.ForNode("")
	}
	known := map[string]bool{}
	erased := func(owner, source string) (bool, error) {
		at, err := resource.Parse(source)
		if source == "" || err != nil {
			return false, nil //nolint:nilerr // it comes from no message
		}
		key := owner + " " + source
		if gone, ok := known[key]; ok {
			return gone, nil
		}
		_, err = e.opt.Store.Get(ctx, store.ForUser(owner), at)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return false, err
		}
		known[key] = err != nil
		return err != nil, nil
	}
	changes := map[string][]store.Change{}
	for it, err := range store.Items(ctx, e.opt.Store, sc, store.Query{Type: record.TypeFact, Limit: store.DefaultLimit}) {
		if err != nil {
			return err
		}
		f, err := record.DecodeFact(it.URI, it.Body)
		if err != nil {
			return err
		}
		gone, err := erased(f.User, f.Source)
		if err != nil {
			return err
		}
		if gone {
			changes[f.User] = append(changes[f.User], store.Change{Op: store.Erase, URI: it.URI})
			continue
		}
		kept := f.Earlier[:0:0]
		for _, text := range f.Earlier {
			if gone, err = erased(f.User, text.Source); err != nil {
				return err
			}
			if !gone {
				kept = append(kept, text)
			}
		}
		if len(kept) < len(f.Earlier) { // its versions in the log have the text, too
			f.Earlier = kept
			changes[f.User] = append(changes[f.User], store.Change{Op: store.Erase, URI: it.URI, If: store.If{Version: it.Version}}, put(&f, store.If{Absent: true}))
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(changes)) {
		if err := e.commit(ctx, owner, changes[owner]); err != nil {
			return err
		}
	}
	e.Renew() // passages of what was erased are shown no more
	return nil
}

// Get returns a fact. which is as for Change. Error codes: fact_not_found, fact_ambiguous.
func (e *Engine) Get(ctx context.Context, user, which string) (record.Fact, error) {
	all, err := e.all(ctx, user)
	if err != nil {
		return record.Fact{}, err
	}
	f, err := find(all, which)
	return f.Fact, err
}

// List returns a user's facts, the newest first. With ended, also those that are no longer true.
func (e *Engine) List(ctx context.Context, user string, ended bool) ([]record.Fact, error) {
	all, err := e.all(ctx, user)
	now := e.now()
	out := []record.Fact{}
	for i := range all {
		if ended || all[i].Current(now) {
			out = append(out, all[i].Fact)
		}
	}
	return out, err
}

// ChangedBy returns the fact that a call has saved or changed, and how. Error code: not_found.
func (e *Engine) ChangedBy(ctx context.Context, user string, call id.ID) (record.Fact, string, error) {
	all, err := e.all(ctx, user)
	if f := savedBy(all, call); f != nil {
		for _, h := range f.History {
			if h.By == call {
				return f.Fact, h.What, nil
			}
		}
	}
	return record.Fact{}, "", cmp.Or(err, error(fault.New(fault.NotFound, "not_found", "this call has changed no fact")))
}

// UndoChange undoes a change of a fact, or the newest one if change is zero. which is as for Change. It reports
// whether the fact is gone. Error codes: fact_not_found, fact_ambiguous, change_not_found, trust_denied,
// changed_since.
func (e *Engine) UndoChange(ctx context.Context, user, which string, change id.ID, by record.FactAuthor) (f record.Fact, gone bool, err error) {
	if f, err = e.Get(ctx, user, which); err != nil {
		return f, false, err
	}
	last := f.History[len(f.History)-1]
	if change.Zero() {
		change = last.By
	}
	if !changedBy(&f, change) {
		return f, false, fault.New(fault.NotFound, "change_not_found", "the fact %s has no change %s", f.ID, change).WithHint("steward memory why %s lists its changes", f.ID)
	}
	if last.What == "no longer trusted" && by.Actor != "user" {
		return f, false, errTrust(&f)
	}
	f, err = e.Undo(ctx, user, change, by.Call)
	if err == nil {
		gone = !changedBy(&f, by.Call)
	}
	return f, gone, err
}

// errTrust is the error for whatever else but a person confirms what comes from others.
func errTrust(f *record.Fact) error {
	return fault.New(fault.Denied, "trust_denied", "only a person can confirm what comes from others").WithHint("steward memory edit %s --trust", f.ID)
}

// Undo undoes what a call has changed, unless the fact was changed since, and tells so. A fact that the call has
// added is erased, and those that it had superseded are true again, in one commit. by is the call that undoes
// it. Error codes: not_found, changed_since.
func (e *Engine) Undo(ctx context.Context, user string, call, by id.ID) (record.Fact, error) {
	f, err := e.undo(ctx, user, call, by)
	if err == nil {
		e.news(user, client.MemoryUndone, id.ID{}, f)
	}
	return f, err
}

func (e *Engine) undo(ctx context.Context, user string, call, by id.ID) (record.Fact, error) {
	all, err := e.all(ctx, user)
	if err != nil {
		return record.Fact{}, err
	}
	f := savedBy(all, call)
	if f == nil {
		if f = savedBy(all, by); f != nil {
			return f.Fact, nil
		}
		return record.Fact{}, fault.New(fault.NotFound, "not_found", "this call has changed no fact")
	}
	if changedBy(&f.Fact, by) {
		return f.Fact, nil
	}
	if f.History[len(f.History)-1].By != call {
		return f.Fact, local.ChangedSince("the fact " + f.ID.String())
	}
	now := e.now()
	if len(f.History) == 1 { // the call has added it
		changes := []store.Change{{Op: store.Erase, URI: f.URI(), If: store.If{Version: f.version}}}
		for i := range all {
			if o := all[i]; o.Successor == f.ID {
				o.Successor, o.Until = id.ID{}, time.Time{}
				note(&o.Fact, record.FactAuthor{Call: by, Actor: "user"}, now, "undone")
				changes = append(changes, put(&o.Fact, store.If{Version: o.version}))
			}
		}
		return f.Fact, e.commit(ctx, user, changes)
	}
	page, err := e.opt.Store.Log(ctx, store.ForUser(user), store.LogQuery{Of: f.URI(), Reverse: true, Limit: 2})
	if err != nil || len(page.Entries) < 2 {
		return f.Fact, cmp.Or(err, local.ChangedSince("the fact "+f.ID.String()))
	}
	before, err := record.DecodeFact(f.URI(), page.Entries[1].Body)
	if err != nil {
		return f.Fact, err
	}
	before.Labels, before.Sources, before.History = f.Labels, f.Sources, f.History
	before.Revision, before.Earlier = f.Revision, f.Earlier
	revise(&before, &f.Fact)
	note(&before, record.FactAuthor{Call: by, Actor: "user"}, now, "undone")
	err = e.commit(ctx, user, []store.Change{put(&before, store.If{Version: f.version})})
	e.epoch.Add(1)
	return before, err
}

// View shows a fact.
func View(f *record.Fact) client.Fact {
	v := client.Fact{ID: f.ID.String(), URI: f.URI().String(), Subject: f.Subject, Text: f.Text, Type: f.Type, Importance: f.Importance, Source: f.Source,
		From: f.From, Until: f.Until, Created: f.Created, Changed: f.Changed, Labels: f.Labels.Names(), Foreign: f.Foreign(), Trusted: f.Trusted}
	if !f.Successor.Zero() {
		v.Successor = f.Successor.String()
	}
	for _, s := range f.Supersedes {
		v.Supersedes = append(v.Supersedes, s.String())
	}
	return v
}

// Why shows a fact with its history.
func Why(f *record.Fact) client.Fact {
	v := View(f)
	for _, h := range f.History {
		v.History = append(v.History, client.FactChange{ID: h.By.String(), At: h.At, Actor: h.Actor, What: h.What, Source: h.Source})
	}
	return v
}

// LabelsOf returns the labels of whatever shows the facts, and whose private data they hold.
func LabelsOf(list []record.Fact) (labels message.Labels, sources []string) {
	for i := range list {
		labels |= list[i].EffectiveLabels()
		sources = message.JoinSources(sources, list[i].Sources)
		if list[i].Labels.Has(message.Private) && len(list[i].Sources) == 0 {
			sources = message.JoinSources(sources, []string{message.UnknownSource})
		}
	}
	return labels, message.JoinSources(sources, []string{message.SourceMemory})
}

// Types returns the types of facts.
func Types() []string {
	return []string{record.FactPlain, record.FactPreference, record.FactPerson, record.FactPlace, record.FactEvent, record.FactInstruction}
}

func (e *Engine) now() time.Time { return e.opt.Now().UTC().Truncate(time.Millisecond) }

func (e *Engine) on() error {
	if e.Off() {
		return fault.New(fault.Unsupported, "memory_off", "memory is off").WithHint("remove memory.off from the settings")
	}
	return nil
}
