package activity

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/memory"
)

func (a *program) memoryCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "memory", Short: "See and change what is remembered about you", GroupID: "keep",
		Long: "Steward remembers facts about you: what you tell it to remember, and what it reads in conversations that\n" +
			"rest. It recalls those that matter for what you ask, and says so. A fact that is no longer true is kept, with\n" +
			"its time. What others have written is kept as a quotation until you confirm it.\n" +
			"Name a fact by its id, by the first 8 characters of that, or by words of its text.",
	}, a.memoryList(), a.memoryAdd(), a.memoryEdit(), a.memoryForget(), a.memoryWhy(), a.memoryProfile(), a.memoryExport())
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
		text = "others wrote: " + text
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
		if in.Text == nil && in.Subject == nil && in.Type == nil && in.Importance == nil && in.Trusted == nil {
			return command.Usage("give a new text, or a flag")
		}
		v, err := s.ChangeFact(ctx, args[0], in)
		return a.PrintDone(v, err, "changed: %s", command.PlainLine(v.Text))
	})
}

func (a *program) memoryForget() *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "forget FACT", Short: "Erase a fact and its earlier versions", Args: cobra.ExactArgs(1)}
	command.YesFlag(c, &yes)
	return a.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Fact(ctx, args[0])
		if err != nil {
			return err
		}
		if err := a.ConfirmDelete(yes, []string{"the fact " + command.PlainLine(v.Text)}); err != nil {
			return err
		}
		return a.PrintDone(v, s.ForgetFact(ctx, v.ID, false), "%s is forgotten", v.ID)
	})
}

func (a *program) memoryWhy() *cobra.Command {
	c := &cobra.Command{Use: "why FACT", Short: "Show where a fact comes from, and what became of it", Args: cobra.ExactArgs(1)}
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
	row("fact", f.Text)
	row("id", f.ID)
	row("subject", f.Subject)
	row("type", f.Type)
	row("importance", fmt.Sprint(f.Importance))
	row("true since", at(f.From))
	row("until", at(f.Until))
	row("source", f.Source)
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
	return b.String()
}

func (a *program) memoryProfile() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "profile", Short: "Show the facts about you as a page, or apply an edited one",
		Long: "Show what is remembered about you as a page of text: who you are, preferences, people, places, standing\n" +
			"instructions. Edit the page and apply it with --set: changed lines change facts, removed lines erase\n" +
			"them, and new lines add facts.",
		Example: "  steward memory profile > me.md\n  steward memory profile --set me.md", Args: cobra.NoArgs}
	c.Flags().StringVar(&file, "set", "", "apply the page in `FILE`; - is the standard input")
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, _ []string) error {
		if file == "" {
			v, err := s.MemoryProfile(ctx)
			return command.PrintValue(a.Program, v, err, func(v client.MemoryProfile) string { return plainPage(v.Text) })
		}
		text, err := a.readPage(file)
		if err != nil {
			return err
		}
		v, err := s.SetMemoryProfile(ctx, client.MemoryProfile{Text: text})
		return a.PrintDone(v, err, "changes: %d", v.Changes)
	})
}

// maxPage is how many bytes a page may have.
const maxPage = 8 << 20

func (a *program) readPage(file string) (string, error) {
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(file)
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
	c := &cobra.Command{Use: "export", Short: "Write all facts, also those that are no longer true", Args: cobra.NoArgs}
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, _ []string) error {
		v, err := s.Facts(ctx, client.FactQuery{All: true, Limit: memory.MaxFacts})
		return command.PrintValue(a.Program, v, err, func(v []client.Fact) string { return plainPage(memory.Export(v, time.Local)) })
	})
}
