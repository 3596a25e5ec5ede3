package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// section is a part of the profile page.
type section struct {
	title string
	typ   string // of facts that are added to it
	holds func(*record.Fact) bool
}

// foreignTitle heads what others have written. It is shown and cannot be edited as text.
const foreignTitle = "Written by others, not confirmed"

func sections() []section {
	of := func(typ string) func(*record.Fact) bool {
		return func(f *record.Fact) bool { return f.Type == typ && !f.Foreign() }
	}
	return []section{
		{"Who I am", record.FactPlain, of(record.FactPlain)},
		{"Preferences", record.FactPreference, of(record.FactPreference)},
		{"People", record.FactPerson, of(record.FactPerson)},
		{"Places", record.FactPlace, of(record.FactPlace)},
		{"Events", record.FactEvent, of(record.FactEvent)},
		{"Standing instructions", record.FactInstruction, of(record.FactInstruction)},
		{foreignTitle, "", (*record.Fact).Foreign},
	}
}

// Profile returns the page of a user's current facts. Each line ends with the id of its fact.
func (e *Engine) Profile(ctx context.Context, user string) (client.MemoryProfile, error) {
	list, err := e.List(ctx, user, false)
	if err != nil {
		return client.MemoryProfile{}, err
	}
	return profileOf(list), nil
}

func profileOf(list []record.Fact) client.MemoryProfile {
	var b strings.Builder
	for _, s := range sections() {
		fmt.Fprintf(&b, "# %s\n\n", s.title)
		n := 0
		for i := range slices.Backward(list) {
			if f := &list[i]; s.holds(f) {
				fmt.Fprintf(&b, "- %s [%s]\n", profileLine(f), f.ID)
				n++
			}
		}
		if n > 0 {
			b.WriteString("\n")
		}
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	sum := sha256.Sum256([]byte(text))
	return client.MemoryProfile{Text: text, Version: hex.EncodeToString(sum[:8])}
}

// profileLine shows a fact; a subject that its text does not name stands in front. What others wrote is a
// quotation.
func profileLine(f *record.Fact) string {
	if f.Foreign() {
		return `"` + f.Text + `"`
	}
	if f.Subject != subjectUser && !strings.Contains(f.Text, f.Subject) {
		return f.Subject + ": " + f.Text
	}
	return f.Text
}

// pageLine is a line of an edited page that says a fact.
type pageLine struct {
	n       int
	text    string
	fact    id.ID // zero: a new one
	typ     string
	foreign bool
}

func pageError(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "profile_invalid", format, args...)
}

// atLine says in which line of a page an error is.
func atLine(n int, err error) error {
	if !fault.Is(err, fault.Invalid) {
		return err
	}
	e := *fault.Of(err)
	e.Message = fmt.Sprintf("line %d: %s", n, e.Message)
	return &e
}

// parsePage reads an edited page. A page that lacks the heading of a section that has facts is refused, so that
// half a page, or something else, erases nothing.
func parsePage(text string, current []stored) (out []pageLine, err error) {
	at, had := -1, map[int]bool{}
	seen := map[id.ID]bool{}
	for n, line := range strings.Split(text, "\n") {
		n++
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "#"); ok {
			title = strings.TrimSpace(strings.TrimLeft(title, "#"))
			if at = slices.IndexFunc(sections(), func(s section) bool { return strings.EqualFold(s.title, title) }); at < 0 {
				return nil, pageError("line %d: there is no section %.80q", n, title).WithHint("keep the headings of the page")
			}
			had[at] = true
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "-"))
		if line == "" {
			continue
		}
		if at < 0 {
			return nil, pageError("line %d stands before the first heading", n).WithHint("put it below one of the headings of the page")
		}
		x := pageLine{n: n, text: line, typ: sections()[at].typ, foreign: sections()[at].title == foreignTitle}
		if open := strings.LastIndex(line, "["); open >= 0 && strings.HasSuffix(line, "]") {
			if fact, ok := id.Parse(line[open+1 : len(line)-1]); ok {
				x.text, x.fact = strings.TrimSpace(line[:open]), fact
			}
		}
		if x.text == "" {
			return nil, pageError("line %d has no text", n).WithHint("remove the whole line to erase the fact")
		}
		if !x.fact.Zero() && (seen[x.fact] || !slices.ContainsFunc(current, func(s stored) bool { return s.ID == x.fact })) {
			return nil, pageError("line %d names no fact of the page, or one that has a line already", n).WithHint("remove the id in brackets to add a new fact")
		}
		seen[x.fact] = true
		out = append(out, x)
	}
	for i, s := range sections() {
		if !had[i] && slices.ContainsFunc(current, func(c stored) bool { return s.holds(&c.Fact) }) {
			return nil, pageError("the page lacks the heading %q, below which there are facts", s.title).WithHint("keep the headings; to erase a fact, remove its line")
		}
	}
	for i := range out { // a line whose id was lost is still the same fact
		if x := &out[i]; x.fact.Zero() {
			at := slices.IndexFunc(current, func(s stored) bool {
				return !seen[s.ID] && s.Foreign() == x.foreign && sameText(profileLine(&s.Fact), x.text)
			})
			if at >= 0 {
				x.fact = current[at].ID
				seen[x.fact] = true
			}
		}
	}
	return out, nil
}

// SetProfile applies an edited page in one commit: changed lines change facts, removed lines erase them, and
// new lines add facts. If anything in it is wrong, nothing is changed. Error codes: memory_off, profile_changed,
// profile_invalid, fact_invalid, facts_too_many, and the store's.
func (e *Engine) SetProfile(ctx context.Context, user string, p client.MemoryProfile, by record.FactAuthor) (client.MemoryProfile, error) {
	if err := e.on(); err != nil {
		return client.MemoryProfile{}, err
	}
	all, err := e.all(ctx, user)
	if err != nil {
		return client.MemoryProfile{}, err
	}
	now := e.now()
	current := slices.DeleteFunc(slices.Clone(all), func(s stored) bool { return !s.Current(now) })
	list := make([]record.Fact, len(current))
	for i := range current {
		list[i] = current[i].Fact
	}
	before := profileOf(list)
	if p.Version != "" && p.Version != before.Version {
		return before, fault.New(fault.Conflict, "profile_changed", "the page has changed since it was read").WithHint("read it again, and edit that")
	}
	lines, err := parsePage(p.Text, current)
	if err != nil {
		return before, err
	}
	var changes []store.Change
	kept := map[id.ID]bool{}
	for _, x := range lines {
		kept[x.fact] = true
	}
	for _, s := range current {
		if !kept[s.ID] {
			changes = forgotten(changes, &s)
			all = slices.DeleteFunc(all, func(o stored) bool { return o.ID == s.ID }) // a new line is not compared with it
		}
	}
	for _, x := range lines {
		var more []store.Change
		if x.fact.Zero() {
			more, err = e.addLine(ctx, user, &all, x, by)
		} else {
			at := slices.IndexFunc(current, func(s stored) bool { return s.ID == x.fact })
			more, err = e.changeLine(current[at], x, by, now)
		}
		if err != nil {
			return before, atLine(x.n, err)
		}
		changes = append(changes, more...)
	}
	if len(changes) > 0 {
		if err := e.commit(ctx, user, changes); err != nil {
			return before, err
		}
		e.epoch.Add(1)
	}
	after, err := e.Profile(ctx, user)
	after.Changes = len(changes)
	return after, err
}

// importanceOf is how important a fact is that a person writes on the page: it is there to be known always.
func importanceOf(typ string) float64 {
	if typ == record.FactInstruction {
		return instructionImportance
	}
	return profileImportance
}

// addLine returns the changes for a new line.
func (e *Engine) addLine(ctx context.Context, user string, all *[]stored, x pageLine, by record.FactAuthor) ([]store.Change, error) {
	if x.foreign {
		return nil, pageError("what others have written cannot be added by hand").WithHint("add it in another section")
	}
	by.Call = id.Derive("fact", by.Call.String(), fmt.Sprint(x.n))
	saved, more, err := e.place(ctx, user, *all, client.FactInput{Text: &x.text, Type: &x.typ, Importance: new(importanceOf(x.typ))}, by)
	if err == nil && saved.How == client.FactAdded {
		*all = append(*all, stored{Fact: saved.Fact})
	}
	return more, err
}

// changeLine returns the changes for a line of a fact.
func (e *Engine) changeLine(s stored, x pageLine, by record.FactAuthor, now time.Time) ([]store.Change, error) {
	f := s.Fact
	was := profileLine(&f)
	if x.foreign != f.Foreign() || x.foreign && x.text != was {
		return nil, pageError("what others have written can only be removed here").WithHint("confirm it first: steward memory edit %s --trust", f.ID)
	}
	if x.text == was && (x.foreign || f.Type == x.typ) {
		return nil, nil
	}
	text := x.text
	if rest, ok := strings.CutPrefix(text, f.Subject+": "); ok && was != f.Text {
		text = rest
	}
	if err := e.fill(&f, client.FactInput{Text: &text, Type: &x.typ}); err != nil {
		return nil, err
	}
	revise(&f, &s.Fact)
	note(&f, by, now, "edited")
	return []store.Change{put(&f, store.If{Version: s.version})}, nil
}

// Export returns all facts of a user as a page of Markdown: those that are true, and those that were.
func Export(list []client.Fact, zone *time.Location) string {
	var b strings.Builder
	b.WriteString("# Facts that Steward remembers\n\n")
	for _, f := range list {
		text := f.Text
		if f.Foreign {
			text = `"` + text + `"`
		}
		fmt.Fprintf(&b, "- %s\n  %s, %s, importance %g, since %s", text, f.Subject, f.Type, f.Importance, f.From.In(zone).Format(time.DateOnly))
		if !f.Until.IsZero() {
			fmt.Fprintf(&b, ", until %s", f.Until.In(zone).Format(time.DateOnly))
		}
		if f.Foreign {
			b.WriteString(", written by others, not confirmed")
		}
		if !f.Trusted.IsZero() {
			fmt.Fprintf(&b, ", written by others, confirmed %s", f.Trusted.In(zone).Format(time.DateOnly))
		}
		if f.Source != "" {
			b.WriteString(", from " + f.Source)
		}
		fmt.Fprintf(&b, ", id %s\n", f.ID)
	}
	return b.String()
}
