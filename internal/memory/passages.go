package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/search/words"
	"steward/internal/store"
)

// A passage is a part of what the person has typed in an earlier conversation. A turn recalls some beside the
// facts, since most of what is said never becomes a fact. Only the person's own statements are recalled: neither
// answers, which repeat what was recalled before, nor results of tools, nor questions, nor blocks that are secret
// or come from others. A message that a fact comes from, or came from until it was superseded or forgotten, is
// left out: the fact says it, or it is no longer true.

// Limits of passages.
const (
	maxPassages    = 4
	passageText    = 400 // bytes of a sentence
	passageHits    = 40  // messages that are looked at
	passageWords   = 32  // of what was asked
	passageSimilar = 0.5 // passages below are not recalled
	passageLatest  = 3 * time.Second
)

// Passage is a part of a message.
type Passage struct {
	PassageRef
	Text   string
	At     time.Time
	Labels message.Labels

	similar float64
}

// PassageRef names a passage: bytes of what the person has typed in a message.
type PassageRef struct {
	Conversation, Interaction, Message id.ID
	From, To                           int
}

// Passages returns what the person said in other conversations that matters for what was asked, the oldest
// first. shown says which passages the conversation shows already. It takes from what was recalled the facts that
// the person has said otherwise since, and adds those that are news of a passage.
func (e *Engine) Passages(ctx context.Context, user, asked string, conv id.ID, recalled *Recalled, shown func(PassageRef) bool, budget int64) ([]Passage, error) {
	var in search.Index
	if !e.Off() && e.opt.Search != nil {
		in = e.opt.Search()
	}
	if in == nil {
		return nil, nil
	}
	query := queryOf(asked)
	if query == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, passageLatest)
	defer cancel()
	all, err := e.all(ctx, user)
	if err != nil {
		return nil, err
	}
	silent, err := e.silent(ctx, user, all)
	if err != nil {
		return nil, err
	}
	find := func(query string) ([]Passage, error) { return e.said(ctx, user, in, query, conv, silent) }
	found, err := find(query)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(found))
	for i := range found {
		texts[i] = found[i].Text
	}
	similar, err := e.opt.Similar.Similar(ctx, user, asked, texts)
	if err != nil {
		return nil, err
	}
	question := contentOf(&record.Fact{Text: asked, Subject: subjectUser})
	for i := range found {
		found[i].similar = contentOf(&record.Fact{Text: found[i].Text, Subject: subjectUser}).nearer(question, similar[i])
	}
	found = slices.DeleteFunc(found, func(p Passage) bool { return p.similar < passageSimilar })
	slices.SortStableFunc(found, func(a, b Passage) int {
		return cmp.Or(cmp.Compare(b.similar, a.similar), b.At.Compare(a.At))
	})
	found = e.standing(found, all)
	later, err := e.later(found[:min(len(found), maxPassages)], recalled, all, find)
	if err != nil {
		return nil, err
	}
	var out []Passage
	for _, p := range e.standing(append(later, found...), all) {
		if len(out) == maxPassages {
			break
		}
		cost := tokens.Estimate(p.Line(time.UTC))
		if shown(p.PassageRef) || cost > budget {
			continue
		}
		budget -= cost
		out = append(out, p)
	}
	e.withoutOutdated(recalled, out)
	recalled.Labels, recalled.Sources = LabelsOf(recalled.Facts)
	slices.SortStableFunc(out, func(a, b Passage) int { return a.At.Compare(b.At) })
	return out, nil
}

// said returns the statements of the person's that a search finds.
func (e *Engine) said(ctx context.Context, user string, in search.Index, query string, conv id.ID, silent map[id.ID]bool) (found []Passage, err error) {
	page, err := in.Search(ctx, store.ForUser(user), search.Query{Text: query, Role: message.User, Without: message.Secret | message.Untrusted, Limit: passageHits})
	if err != nil {
		return nil, err
	}
	for _, h := range page.Hits {
		if h.Conversation == conv || silent[h.Message] {
			continue
		}
		m, err := e.typed(ctx, user, h.URI)
		if err != nil {
			return nil, err
		}
		found = append(found, statements(m, PassageRef{Conversation: h.Conversation, Interaction: h.Interaction, Message: h.Message})...)
	}
	return found, nil
}

// Limits of the search for news.
const (
	newsHops  = 3 // tram, train, metro, bus
	newsMost  = 2 // passages that are news of others
	newsFacts = 2 // facts that are
)

// statement is a fact or a passage that news is looked for.
type statement struct {
	content
	subject string
	at      time.Time
}

func stated(p Passage) statement {
	subject := subjectOf(p.Text)
	return statement{contentOf(&record.Fact{Text: p.Text, Subject: subject}), subject, p.At}
}

// later returns the newest news of what was found and recalled. It need not have a word in common with what was
// asked: a question for the city of a passport's "valid until" is answered by "I got a new passport, it expires
// in", which is found by the word passport. So what was found is searched for, and what that finds, a few times.
func (e *Engine) later(found []Passage, recalled *Recalled, all []stored, find func(string) ([]Passage, error)) (out []Passage, err error) {
	var look []statement
	for _, p := range found {
		look = append(look, stated(p))
	}
	for i := range recalled.Facts {
		if f := &recalled.Facts[i]; i >= recalled.Profile && !f.Foreign() && f.Type != record.FactInstruction {
			look = append(look, statement{e.contents.of(f), f.Subject, f.From})
		}
	}
	seen := map[PassageRef]bool{}
	var more []record.Fact
	for range newsHops {
		var terms []string
		for _, s := range look {
			for _, w := range s.terms {
				if len(terms) < passageWords && !slices.Contains(terms, w) {
					terms = append(terms, w)
				}
			}
		}
		if len(terms) == 0 {
			break
		}
		candidates, err := find(strings.Join(terms, " "))
		if err != nil {
			return nil, err
		}
		var next []statement
		for _, p := range candidates {
			if seen[p.PassageRef] || slices.ContainsFunc(found, func(o Passage) bool { return o.PassageRef == p.PassageRef }) {
				continue
			}
			s := stated(p)
			if slices.ContainsFunc(look, s.updates) {
				seen[p.PassageRef] = true
				next, out = append(next, s), append(out, p)
			}
		}
		for i := range all {
			f := &all[i].Fact
			if len(more) == newsFacts || f.Foreign() || !f.Until.IsZero() || f.Type == record.FactInstruction ||
				slices.ContainsFunc(slices.Concat(recalled.Facts, more), func(o record.Fact) bool { return o.ID == f.ID }) {
				continue
			}
			s := statement{e.contents.of(f), f.Subject, f.From}
			if slices.ContainsFunc(look, s.updates) {
				next, more = append(next, s), append(more, *f)
			}
		}
		look = next
	}
	slices.SortStableFunc(out, func(a, b Passage) int { return b.At.Compare(a.At) })
	out = out[:min(len(out), newsMost)]
	for i := range more {
		recalled.add(&more[i])
	}
	return out, nil
}

// withoutOutdated leaves out the recalled facts that passages contradict which were said later.
func (e *Engine) withoutOutdated(recalled *Recalled, passages []Passage) {
	for i := len(recalled.Facts) - 1; i >= 0; i-- {
		f := &recalled.Facts[i]
		if f.Foreign() || f.Type == record.FactInstruction {
			continue
		}
		own := e.contents.of(f)
		if slices.ContainsFunc(passages, func(p Passage) bool {
			s := stated(p)
			return s.at.After(f.From) && strings.EqualFold(s.subject, f.Subject) && relation(s.content, own) == contradicts
		}) {
			recalled.drop(i)
		}
	}
}

// updates reports whether a statement is news of an older one: it contradicts it, or says that something has
// changed and names the old value or the same thing.
func (s statement) updates(older statement) bool {
	if !s.at.After(older.at) || !strings.EqualFold(s.subject, older.subject) || s.whose != older.whose && s.topic == older.topic {
		return false
	}
	if relation(s.content, older.content) == contradicts {
		return true
	}
	if !s.news && !s.corrects || len(s.names) == 0 && len(s.frame) == 0 {
		return false
	}
	if shareAny(s.names, older.names) && !within(s.names, older.names) {
		return true
	}
	return (len(s.names) > 0) == (len(older.names) > 0) && shareAny(s.frame, older.frame)
}

func shareAny(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// standing leaves out the passages that a fact says too, and those that something newer contradicts: a fact, or
// another passage.
func (e *Engine) standing(list []Passage, facts []stored) (out []Passage) {
	own := make([]content, len(list))
	for i, p := range list {
		own[i] = contentOf(&record.Fact{Text: p.Text, Subject: subjectOf(p.Text)})
	}
	over := func(i int) bool {
		for n := range facts {
			if facts[n].Foreign() {
				continue
			}
			switch relation(own[i], e.contents.of(&facts[n].Fact)) {
			case known:
				return true
			case contradicts:
				if facts[n].From.After(list[i].At) {
					return true
				}
			}
		}
		for n := range list {
			if n == i {
				continue
			}
			later := list[n].At.After(list[i].At)
			switch how := relation(own[i], own[n]); {
			case how == known && (n < i || len(own[n].all) > len(own[i].all)), how == contradicts && later:
				return true
			case how == unrelated && later && relation(own[n], own[i]) == contradicts:
				return true
			}
		}
		return false
	}
	for i := range list {
		if !over(i) {
			out = append(out, list[i])
		}
	}
	return out
}

// queryOf returns the words of what was asked that a search is for.
func queryOf(asked string) string {
	var out []string
	for _, w := range words.Split(asked) {
		if !words.Common(w) && !isUser(w) && len(out) < passageWords {
			out = append(out, w)
		}
	}
	return strings.Join(wider(out, passageWords), " ")
}

// silent returns the messages that facts come from or have come from.
func (e *Engine) silent(ctx context.Context, user string, all []stored) (map[id.ID]bool, error) {
	out := map[id.ID]bool{}
	for i := range all {
		if at, err := resource.Parse(all[i].Source); err == nil && all[i].Source != "" {
			out[record.IDOf(at, record.TypeMessage)] = true
		}
	}
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: record.TypeForgotten, Limit: store.DefaultLimit}) {
		if err != nil {
			return nil, err
		}
		out[record.IDOf(it.URI, record.TypeForgotten)] = true
	}
	return out, nil
}

// typedMessage is what a person has typed in a message.
type typedMessage struct {
	text   string
	at     time.Time
	labels message.Labels
}

// typed reads a message. A message that is gone has no text.
func (e *Engine) typed(ctx context.Context, user string, at resource.URI) (out typedMessage, err error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), at)
	if fault.Is(err, fault.NotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	m, err := record.DecodeMessage(at, r.Body)
	if err != nil {
		return out, err
	}
	if m.Role != message.User {
		return out, nil
	}
	out.at = m.At
	var parts []string
	for _, b := range m.Blocks {
		if x, ok := b.(*message.Text); ok && x.Origin == record.OriginUser && !x.Labels.Has(message.Secret) && !x.Labels.Has(message.Untrusted) {
			parts = append(parts, x.Text)
			out.labels |= x.Labels
		}
	}
	out.text = strings.Join(parts, "\n")
	return out, nil
}

// statements returns the sentences of a message that say something: neither those that ask or tell the assistant to
// do something, which are no knowledge, nor very long ones.
func statements(m typedMessage, at PassageRef) (out []Passage) {
	for from, to := range sentences(m.text) {
		text := strings.TrimSpace(m.text[from:to])
		if text == "" || len(text) > passageText || strings.HasSuffix(text, "?") || !states(text) {
			continue
		}
		at.From, at.To = from, to
		out = append(out, Passage{PassageRef: at, Text: text, At: m.at, Labels: m.labels | message.Private})
	}
	return out
}

// states reports whether a sentence says how something is: it speaks of the person, or has a verb that does so.
func states(text string) bool {
	verbs := slots()
	return slices.ContainsFunc(words.Split(text), func(w string) bool {
		return isUser(w) || isPlural(w) || isCopula(w) || verbs[words.Stem(w)] != ""
	})
}

// isPlural reports whether a word means the person together with others.
func isPlural(w string) bool {
	switch w {
	case "we", "we're", "we’re", "we've", "we’ve", "our", "ours", "us", "wir", "unser", "unsere", "unserem", "unseren", "uns":
		return true
	}
	return false
}

// sentences yields where the sentences of a text begin and end.
func sentences(text string) func(func(int, int) bool) {
	return func(yield func(int, int) bool) {
		from := 0
		for i := range len(text) {
			c := text[i]
			stop := c == '\n' || (c == '.' || c == '!' || c == '?') && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n')
			if stop {
				if !yield(from, i+1) {
					return
				}
				from = i + 1
			}
		}
		if from < len(text) {
			yield(from, len(text))
		}
	}
}

// Line returns the passage as it is written for a model.
func (p Passage) Line(zone *time.Location) string {
	return fmt.Sprintf("- %q [%s, said in a conversation, %s]", p.Text, p.At.In(zone).Format(time.DateOnly), p.Message.String()[:minPrefix])
}

// URI returns the URI of the message.
func (r PassageRef) URI() resource.URI {
	return record.InteractionURI(r.Conversation, r.Interaction).ChildID(record.TypeMessage, r.Message)
}

// String returns what a conversation records of a passage.
func (r PassageRef) String() string {
	return fmt.Sprintf("said:%s/%s/%s/%d-%d", r.Conversation, r.Interaction, r.Message, r.From, r.To)
}

// ParsePassages reads the passages that a reference names.
func ParsePassages(text string) (out []PassageRef) {
	rest, ok := strings.CutPrefix(text, "Recalled: ")
	if !ok {
		return nil
	}
	for part := range strings.FieldsSeq(rest) {
		said, ok := strings.CutPrefix(part, "said:")
		f := strings.Split(said, "/")
		if !ok || len(f) != 4 {
			continue
		}
		var r PassageRef
		var known [3]bool
		r.Conversation, known[0] = id.Parse(f[0])
		r.Interaction, known[1] = id.Parse(f[1])
		r.Message, known[2] = id.Parse(f[2])
		if _, err := fmt.Sscanf(f[3], "%d-%d", &r.From, &r.To); err == nil && known == [3]bool{true, true, true} {
			out = append(out, r)
		}
	}
	return out
}

// ReadPassages returns the texts of passages. One whose message is gone, or which is no longer to be recalled
// because a fact that comes from it was forgotten, is left out.
func (e *Engine) ReadPassages(ctx context.Context, user string, refs []PassageRef) (map[PassageRef]Passage, error) {
	out := map[PassageRef]Passage{}
	for _, r := range refs {
		_, err := e.opt.Store.Get(ctx, store.ForUser(user), record.ForgottenURI(r.Message))
		if err == nil {
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		conv := record.ConversationURI(r.Conversation)
		c, err := e.opt.Store.Get(ctx, store.ForUser(user), conv)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if x, err := record.DecodeConversation(conv, c.Body); err != nil || !x.Deleted.IsZero() {
			continue
		}
		m, err := e.typed(ctx, user, r.URI())
		if err != nil {
			return nil, err
		}
		if 0 <= r.From && r.From < r.To && r.To <= len(m.text) {
			out[r] = Passage{PassageRef: r, Text: strings.TrimSpace(m.text[r.From:r.To]), At: m.at, Labels: m.labels | message.Private}
		}
	}
	return out, nil
}

// RenderPassages writes recalled passages for a model.
func RenderPassages(refs []PassageRef, found map[PassageRef]Passage, zone *time.Location) string {
	var lines []string
	for _, r := range refs {
		if p, ok := found[r]; ok {
			lines = append(lines, p.Line(zone))
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "(From earlier conversations, what the user said then. What was said later counts more; what is remembered above counts most:\n" + strings.Join(lines, "\n") + ")"
}

// SaidBefore returns the URI of what the person typed before a message of an answer, in the same interaction,
// or "" if nothing was. A fact that an agent saves comes from there, and goes with it.
func (e *Engine) SaidBefore(ctx context.Context, user string, conv resource.URI, answer id.ID) (string, error) {
	if conv.Zero() {
		return "", nil
	}
	typed := map[id.ID]string{} // by interaction
	var in id.ID
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: record.TypeMessage, Under: conv, Limit: store.DefaultLimit}) {
		if err != nil {
			return "", err
		}
		m, err := record.DecodeMessage(it.URI, it.Body)
		if err != nil {
			return "", err
		}
		inter := record.IDOf(it.URI, record.TypeInteraction)
		if m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginUser {
			typed[inter] = it.URI.String()
		}
		if m.ID == answer {
			in = inter
		}
	}
	return typed[in], nil
}
