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

// profileLine shows a fact; a subject that its text does not name stands in front.
func profileLine(f *record.Fact) string {
	if f.Subject != subjectUser && !strings.Contains(f.Text, f.Subject) {
		return f.Subject + ": " + f.Text
	}
	return f.Text
}

// SetProfile applies an edited page in one commit: changed lines change facts, removed lines erase them, and
// new lines add facts. Error codes: memory_off, profile_changed, profile_invalid, fact_invalid,
// facts_too_many, and the store's.
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
	var changes []store.Change
	seen := map[id.ID]bool{}
	typ, foreign := record.FactPlain, false
	for n, line := range strings.Split(p.Text, "\n") {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "#"); ok {
			at := slices.IndexFunc(sections(), func(s section) bool { return strings.EqualFold(s.title, strings.TrimSpace(title)) })
			if at < 0 {
				return before, fault.New(fault.Invalid, "profile_invalid", "line %d: there is no section %.80q", n+1, strings.TrimSpace(title)).WithHint("keep the headings of the page")
			}
			typ, foreign = sections()[at].typ, sections()[at].title == foreignTitle
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "-"))
		if line == "" {
			continue
		}
		text, which := line, id.ID{}
		if open := strings.LastIndex(line, "["); open > 0 && strings.HasSuffix(line, "]") {
			if x, ok := id.Parse(line[open+1 : len(line)-1]); ok {
				text, which = strings.TrimSpace(line[:open]), x
			}
		}
		if which.Zero() {
			if foreign {
				return before, fault.New(fault.Invalid, "profile_invalid", "line %d: what others have written cannot be added by hand", n+1).WithHint("add it in another section")
			}
			author := by
			author.Call = id.Derive("fact", by.Call.String(), fmt.Sprint(n))
			saved, more, err := e.place(ctx, user, all, client.FactInput{Text: &text, Type: &typ}, author)
			if err != nil {
				return before, err
			}
			if saved.How == client.FactAdded {
				all = append(all, stored{Fact: saved.Fact})
			}
			changes = append(changes, more...)
			continue
		}
		at := slices.IndexFunc(current, func(s stored) bool { return s.ID == which })
		if at < 0 || seen[which] {
			return before, fault.New(fault.Invalid, "profile_invalid", "line %d names no fact of the page, or one that has a line already", n+1).WithHint("remove the id in brackets to add a new fact")
		}
		seen[which] = true
		f := current[at].Fact
		was := profileLine(&f)
		if foreign != f.Foreign() || foreign && text != was {
			return before, fault.New(fault.Invalid, "profile_invalid", "line %d: what others have written can only be removed here", n+1).
				WithHint("confirm it first: steward memory edit %s --trust", f.ID)
		}
		if text == was && (foreign || f.Type == typ) {
			continue
		}
		input := client.FactInput{Text: &text, Type: &typ}
		if head, rest, ok := strings.Cut(text, f.Subject+": "); ok && head == "" && was != f.Text {
			input.Text = &rest
		}
		old := f.Text
		if err := e.fill(&f, input); err != nil {
			return before, err
		}
		if edited := f.Text; edited != old {
			f.Text = old
			setText(&f, edited, f.From)
		}
		note(&f, by, now, "edited")
		changes = append(changes, put(&f, store.If{Version: current[at].version}))
	}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.URI.String()] = true
	}
	for _, s := range current {
		if !seen[s.ID] && !changed[s.URI().String()] {
			changes = forgotten(changes, &s)
		}
	}
	if len(changes) > 0 {
		if err := e.commit(ctx, user, changes); err != nil {
			return before, err
		}
	}
	after, err := e.Profile(ctx, user)
	after.Changes = len(changes)
	return after, err
}

// Export returns all facts of a user as a page: those that are true, and those that were.
func Export(list []client.Fact, zone *time.Location) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "- %s\n  %s, %s, importance %g, since %s", f.Text, f.Subject, f.Type, f.Importance, f.From.In(zone).Format(time.DateOnly))
		if !f.Until.IsZero() {
			fmt.Fprintf(&b, ", until %s", f.Until.In(zone).Format(time.DateOnly))
		}
		if f.Foreign {
			b.WriteString(", written by others")
		}
		if f.Source != "" {
			b.WriteString(", from " + f.Source)
		}
		b.WriteString("\n")
	}
	return b.String()
}
