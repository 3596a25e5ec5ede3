package activity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/memory"
)

func (a *program) memoryCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "memory", Short: "See and change what is remembered about you", GroupID: "keep",
		Long: "Steward remembers facts about you: what you tell it to remember, and what it reads in conversations that\n" +
			"rest. It recalls those that matter for what you ask, and says so. A fact that is no longer true is kept, with\n" +
			"its time. What others have written is kept as a quotation until you confirm it.\n" +
			"Name a fact by its id, by the first 8 characters of that, or by words of its text.",
	}, a.memoryList(), a.memoryAdd(), ofFact(a.memoryEdit()), ofFact(a.memoryForget()), ofFact(a.memoryWhy()), a.memoryProfile(), ofFact(a.memoryExport()))
}

// ofFact has a command say that nothing is remembered where nothing is stored at all.
func ofFact(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if errors.Is(err, command.ErrNothingStored) {
			return fault.New(fault.NotFound, "fact_not_found", "nothing is remembered yet").WithHint("steward memory add remembers something")
		}
		return err
	}
	return c
}

func factTypes() []string { return memory.Types() }

func (a *program) memoryList() *cobra.Command {
	var all bool
	var most int
	c := command.ListCommand(a.Program, &cobra.Command{Use: "list [WORDS…]", Short: "List facts, the newest first, or those that are like some words", Args: cobra.ArbitraryArgs},
		"nothing is remembered: steward memory add remembers something",
		func(ctx context.Context, s *command.Session, args []string) ([]client.Fact, error) {
			return s.Facts(ctx, client.FactQuery{Query: strings.Join(args, " "), All: all, Limit: most})
		},
		func(list []client.Fact) string {
			rows := [][]string{{"ID", "SINCE", "TYPE", "FACT"}}
			for _, f := range list {
				rows = append(rows, []string{f.ID[:8], f.From.Local().Format(time.DateOnly), f.Type, command.PlainLine(factLine(&f))})
			}
			lines, _ := command.Table([]command.Column{{}, {}, {}, {Least: command.MinWhat}}, rows, a.Width())
			return strings.Join(lines, "\n") + "\n"
		})
	c.Flags().BoolVar(&all, "all", false, "also those that are no longer true")
	c.Flags().IntVar(&most, "limit", 100, "at most so many")
	return c
}

// factLine shows a fact with whom it is about, and what has become of it.
func factLine(f *client.Fact) string {
	text := f.Text
	if f.Subject != "user" && !strings.Contains(text, f.Subject) {
		text = f.Subject + ": " + text
	}
	if f.Foreign {
		text = `others wrote "` + text + `"`
	}
	if !f.Until.IsZero() {
		text += " (until " + f.Until.Local().Format(time.DateOnly) + ")"
	}
	return text
}

// factFlags adds the flags that describe a fact. The function returns what was given.
func factFlags(c *cobra.Command) func() client.FactInput {
	var subject, typ string
	var importance float64
	f := c.Flags()
	f.StringVar(&subject, "subject", "", "whom or what it is about, as `TEXT`; by default you")
	f.StringVar(&typ, "type", "", "its `TYPE`: "+strings.Join(factTypes(), ", "))
	f.Float64Var(&importance, "importance", 0, "how important it is, from 0 to 1")
	command.CompleteFlag(c, "type", command.Words(factTypes()...))
	return func() (in client.FactInput) {
		if f.Changed("subject") {
			in.Subject = &subject
		}
		if f.Changed("type") {
			in.Type = &typ
		}
		if f.Changed("importance") {
			in.Importance = &importance
		}
		return in
	}
}

func (a *program) memoryAdd() *cobra.Command {
	c := &cobra.Command{Use: "add TEXT…", Short: "Remember a fact or a standing instruction", Args: cobra.MinimumNArgs(1),
		Example: "  steward memory add My car is blue\n  steward memory add Always show versions"}
	about := factFlags(c)
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		in, text := about(), strings.Join(args, " ")
		in.Text = &text
		v, err := s.SaveFact(ctx, in)
		id := v.Fact.ID
		switch v.How {
		case client.FactDropped:
			return a.PrintDone(v, err, "this is known already: %s (%s)", command.PlainLine(v.Fact.Text), id)
		case client.FactSuperseded:
			return a.PrintDone(v, err, "remembered, instead of what was true before: %s (%s)", command.PlainLine(v.Fact.Text), id)
		}
		return a.PrintDone(v, err, "remembered: %s (%s)", command.PlainLine(v.Fact.Text), id)
	})
}

func (a *program) memoryEdit() *cobra.Command {
	var trust, distrust bool
	c := &cobra.Command{Use: "edit FACT [TEXT…]", Short: "Change a fact, or confirm what others have written", Args: cobra.MinimumNArgs(1),
		Long: "Change a fact: give its new text, or flags, or neither to edit its text in the program that VISUAL or EDITOR\n" +
			"names. --trust confirms what others have written: it is no longer shown as a quotation, and counts like\n" +
			"your own words. Who confirmed it and when is recorded; steward memory why shows it.",
		Example: "  steward memory edit 0b5e7c1a My car is red\n  steward memory edit 0b5e7c1a --trust"}
	about := factFlags(c)
	c.Flags().BoolVar(&trust, "trust", false, "it is true, although others have written it; this is recorded")
	c.Flags().BoolVar(&distrust, "distrust", false, "take a confirmation back")
	return a.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		in := about()
		if len(args) > 1 {
			text := strings.Join(args[1:], " ")
			in.Text = &text
		}
		if trust == distrust && trust {
			return command.Usage("give --trust or --distrust, not both")
		}
		if trust || distrust {
			in.Trusted = &trust
		}
		which := args[0]
		if in.Text == nil && in.Subject == nil && in.Type == nil && in.Importance == nil && in.Trusted == nil {
			v, err := s.Fact(ctx, which)
			if err != nil {
				return err
			}
			text, err := a.editText(ctx, "fact.txt", v.Text)
			if err != nil {
				return err
			}
			text = strings.Join(strings.Fields(text), " ")
			if text == v.Text {
				a.Note("nothing was changed")
				return nil
			}
			if text == "" {
				return command.Usage("the text is empty, so nothing was changed; steward memory forget %s erases the fact", v.ID[:8])
			}
			which, in.Text = v.ID, &text
		}
		v, err := s.ChangeFact(ctx, which, in)
		switch {
		case err == nil && trust:
			return a.PrintDone(v, err, "confirmed: %s", command.PlainLine(v.Text))
		case err == nil && distrust:
			return a.PrintDone(v, err, "no longer confirmed: %s", command.PlainLine(factLine(&v)))
		}
		return a.PrintDone(v, err, "changed: %s", command.PlainLine(v.Text))
	})
}

// editText returns a text as the person has changed it in an editor.
func (a *program) editText(ctx context.Context, name, text string) (string, error) {
	if !app.IsTerminal(a.Stdin) {
		return "", command.Usage("give a new text, or a flag: without a terminal there is no editor")
	}
	b, err := a.Edit(ctx, name, []byte(text+"\n"))
	if err == nil && len(b) > maxPage {
		err = command.Usage("the text has more than %d MiB", maxPage>>20)
	}
	return string(b), err
}

func (a *program) memoryForget() *cobra.Command {
	var yes, turns bool
	c := &cobra.Command{Use: "forget FACT", Short: "Erase a fact, its earlier versions, and the call that saved it", Args: cobra.ExactArgs(1),
		Long: "Erase a fact for good: with its earlier versions, and with the call by which an agent saved it. What you wrote\n" +
			"in the conversation that it comes from stays there, unless you also erase that turn: your message, and what\n" +
			"was answered. At a terminal, Steward asks about it; without one, --turns does it."}
	command.YesFlag(c, &yes)
	c.Flags().BoolVar(&turns, "turns", false, "also erase the turns of conversations in which it was said")
	return a.StoredCommand(command.NeedNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Fact(ctx, args[0])
		if err != nil {
			return err
		}
		listed := []string{"the fact " + command.PlainLine(factLine(&v))}
		if turns && v.Said != nil {
			listed = append(listed, "the turn of "+saidLine(v.Said))
		}
		if err := a.ConfirmDelete(yes, listed); err != nil {
			return err
		}
		if v.Said != nil && !turns && !yes && app.IsTerminal(a.Stdin) {
			if turns, err = a.Confirm(nil, "It was said in %s.\nerase that turn as well?", saidLine(v.Said)); err != nil {
				return err
			}
		}
		if err := s.ForgetFact(ctx, v.ID, turns); err != nil {
			return err
		}
		if v.Said != nil && !turns && v.Said.Text != "" {
			return a.PrintDone(v, nil, "%s is forgotten; what you wrote is still in the conversation %s", v.ID, v.Said.Conversation)
		}
		return a.PrintDone(v, nil, "%s is forgotten", v.ID)
	})
}

// saidLine names the message that a fact comes from.
func saidLine(v *client.FactSaid) string {
	title := command.PlainLine(v.Title)
	if title == "" {
		title = v.Conversation
	}
	return fmt.Sprintf("%s, %s", title, v.At.Local().Format("2006-01-02 15:04"))
}

func (a *program) memoryWhy() *cobra.Command {
	c := &cobra.Command{Use: "why FACT", Short: "Show where a fact comes from, what became of it, and where it was recalled", Args: cobra.ExactArgs(1)}
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Fact(ctx, args[0])
		return command.PrintValue(a.Program, v, err, factText)
	})
}

// factText shows all of a fact.
func factText(f client.Fact) string {
	var b strings.Builder
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-12s%s\n", name, command.PlainLine(text))
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04")
	}
	text := f.Text
	if f.Foreign {
		text = `"` + text + `"`
	}
	row("fact", text)
	row("id", f.ID)
	row("subject", f.Subject)
	row("type", f.Type)
	row("importance", fmt.Sprint(f.Importance))
	row("true since", at(f.From))
	row("until", at(f.Until))
	if s := f.Said; s != nil {
		row("said in", saidLine(s))
		row("", "steward conversations show "+s.Conversation)
		if s.Text != "" {
			row("you wrote", s.Text)
		} else {
			row("saved by", "a call of an agent there")
		}
	} else if f.Source == "" {
		row("source", "saved by hand")
	} else {
		row("source", f.Source+", which no longer exists")
	}
	row("labels", strings.Join(f.Labels, ", "))
	if f.Foreign {
		row("written by", "others; steward memory edit "+f.ID[:8]+" --trust confirms it")
	}
	row("confirmed", at(f.Trusted))
	row("successor", f.Successor)
	row("supersedes", strings.Join(f.Supersedes, ", "))
	for _, h := range f.History {
		row(h.What, at(h.At)+" by "+h.Actor)
	}
	for i, r := range f.Recalls {
		name := ""
		if i == 0 {
			name = "recalled"
		}
		row(name, at(r.At)+" in "+r.Conversation)
	}
	if len(f.Recalls) == 0 {
		row("recalled", "not lately")
	}
	return b.String()
}

func (a *program) memoryProfile() *cobra.Command {
	var file string
	var edit, yes bool
	c := &cobra.Command{Use: "profile", Short: "Show the facts about you as a page, or edit that",
		Long: "Show what is remembered about you as a page of text: who you are, preferences, people, places, standing\n" +
			"instructions. Edit the page with --edit, or a copy of it and apply that with --set: changed lines change\n" +
			"facts, removed lines erase them, and new lines add facts. If a line is wrong, nothing is changed.",
		Example: "  steward memory profile --edit\n  steward memory profile > me.md\n  steward memory profile --set me.md", Args: cobra.NoArgs}
	c.Flags().StringVar(&file, "set", "", "apply the page in `FILE`; - is the standard input")
	c.Flags().BoolVar(&edit, "edit", false, "edit the page in the program that VISUAL or EDITOR names")
	command.YesFlag(c, &yes)
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, _ []string) error {
		if edit && file != "" {
			return command.Usage("give --edit or --set, not both")
		}
		before, err := s.MemoryProfile(ctx)
		if err != nil || file == "" && !edit {
			return command.PrintValue(a.Program, before, err, func(v client.MemoryProfile) string { return plainPage(v.Text) })
		}
		var text string
		if edit {
			text, err = a.editText(ctx, "memory.md", strings.TrimSuffix(before.Text, "\n"))
		} else {
			text, err = a.readPage(file)
		}
		if err != nil {
			return err
		}
		if text == before.Text {
			a.Note("nothing was changed")
			return nil
		}
		v, err := a.setPage(ctx, s, before, text, yes)
		if err != nil && edit {
			if kept, bad := a.keepPage(text); bad == nil {
				a.Note("your page is kept in %s: correct it, then steward memory profile --set %s", kept, kept)
			}
		}
		return a.PrintDone(v, err, "changes: %d", v.Changes)
	})
}

// setPage applies an edited page once the person has confirmed which facts that erases.
func (a *program) setPage(ctx context.Context, s *command.Session, before client.MemoryProfile, text string, yes bool) (client.MemoryProfile, error) {
	var gone []string
	for line := range strings.Lines(before.Text) {
		line = strings.TrimSpace(line)
		open := strings.LastIndex(line, "[")
		if !strings.HasPrefix(line, "- ") || open < 0 || strings.Contains(text, line[open:]) || strings.Contains(text, strings.TrimSpace(line[:open])) {
			continue
		}
		gone = append(gone, "the fact "+command.PlainLine(strings.TrimSpace(line[2:open])))
	}
	if len(gone) > 0 {
		if err := a.ConfirmDelete(yes, gone); err != nil {
			return client.MemoryProfile{}, err
		}
	}
	return s.SetMemoryProfile(ctx, client.MemoryProfile{Text: text, Version: before.Version})
}

// keepPage keeps a page that could not be applied in a file.
func (a *program) keepPage(text string) (string, error) {
	f, err := os.CreateTemp("", "steward-memory-*.md")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return f.Name(), errors.Join(err, f.Close())
}

// maxPage is how many bytes a page may have.
const maxPage = 8 << 20

func (a *program) readPage(file string) (string, error) {
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(a.Path(file))
		if err != nil {
			return "", command.Usage("cannot read the page: %w", err)
		}
		defer f.Close() //nolint:errcheck // it is only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPage+1))
	if err == nil && len(b) > maxPage {
		err = command.Usage("the page has more than %d MiB", maxPage>>20)
	}
	return string(b), err
}

func plainPage(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = command.PlainLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (a *program) memoryExport() *cobra.Command {
	c := &cobra.Command{Use: "export", Short: "Write all facts, also those that are no longer true, as Markdown or JSON", Args: cobra.NoArgs,
		Example: "  steward memory export > facts.md\n  steward memory export --json > facts.json"}
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, _ []string) error {
		v, err := s.Facts(ctx, client.FactQuery{All: true, Limit: memory.MaxFacts, Since: time.Unix(1, 0)})
		return command.PrintValue(a.Program, v, err, func(v []client.Fact) string { return plainPage(memory.Export(v, time.Local)) })
	})
}
