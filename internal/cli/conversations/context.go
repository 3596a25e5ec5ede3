package conversations

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/llm"
)

// contextPieces is how many pieces of a category are listed without --all.
const contextPieces = 10

func (a *program) contextCommand() *cobra.Command {
	var all bool
	which := ""
	c := a.conversationSubcommand(command.NeedIdleNode, &which, &cobra.Command{
		Use: "context [CONVERSATION]", Short: "Show what the next model call sends, and why", GroupID: "look",
		Long: "Show what the next model call of a conversation sends: the system prompt, your profile, recalled facts\n" +
			"and passages, tools and messages, each with its size in tokens and the reason why it is there. What is\n" +
			"recalled for your next message is not known yet.",
		Example: "  steward context\n  steward context last --all\n  steward context last --json",
	}, func(ctx context.Context, t conversationTarget, _ []string) error {
		found, err := t.Context(ctx, t.conv)
		return command.PrintValue(a.Program, found, err, func(c client.Context) string { return contextText(&c, a.Width(), all) })
	})
	c.Flags().BoolVar(&all, "all", false, fmt.Sprintf("list all pieces, and not only %d of each category", contextPieces))
	return c
}

// contextTitle names a category for a person.
func contextTitle(category string) string {
	if category == client.ContextSystem {
		return "System prompt"
	}
	return strings.ToUpper(category[:1]) + category[1:]
}

func contextText(c *client.Context, width int, all bool) string {
	var b strings.Builder
	window := "whose window is not known"
	if c.Window > 0 {
		window = "with a window of " + grouped(c.Window) + " tokens"
	}
	if llm.Offline([]string{c.Model}) {
		window = "which is no language model and has no window"
	}
	fmt.Fprintf(&b, "The next call of %s asks %s, %s.\n", command.PlainLine(c.Agent), command.PlainLine(c.Model), window)
	if c.Full {
		b.WriteString("It does not fit: the call first makes room, and leaves out or summarises the oldest messages.\n")
	}
	b.WriteString("\n" + contextCategories(c, width))
	for _, category := range c.Categories {
		var pieces []client.ContextPiece
		for _, p := range c.Pieces {
			if p.Category == category.Name {
				pieces = append(pieces, p)
			}
		}
		if len(pieces) > 0 {
			b.WriteString("\n" + contextTitle(category.Name))
			if why := pieces[0].Why; len(pieces) > 1 && !slices.ContainsFunc(pieces, func(p client.ContextPiece) bool { return p.Why != why || len(p.Labels) > 0 }) {
				b.WriteString(": " + command.PlainLine(why))
				for i := range pieces {
					pieces[i].Why = ""
				}
			}
			b.WriteString("\n" + contextPiecesText(category.Name, pieces, width, all))
		}
	}
	return b.String()
}

// contextCategories is the table of the categories, and what is left.
func contextCategories(c *client.Context, width int) string {
	rows := [][]string{{"", "TOKENS", "BYTES", "PIECES", "AT MOST"}}
	number := func(n int64) string {
		if n == 0 {
			return "-"
		}
		return grouped(n)
	}
	answer := int64(0)
	for _, x := range c.Categories {
		if x.Name == client.ContextAnswer {
			answer = x.Tokens
			continue
		}
		most := ""
		if x.Most > 0 {
			if most = grouped(x.Most); x.Each {
				most += " a turn"
			}
		}
		pieces := "-"
		if x.Pieces > 0 {
			pieces = strconv.Itoa(x.Pieces)
		}
		rows = append(rows, []string{contextTitle(x.Name), number(x.Tokens), number(x.Bytes), pieces, most})
	}
	rows = append(rows, []string{"Sent", grouped(c.Tokens), "", "", ""})
	if c.Window > 0 {
		rows = append(rows, []string{"Kept for the answer", number(answer), "", "", ""}, []string{"Free", number(c.Free), "", "", ""})
	}
	lines, _ := command.Table([]command.Column{{}, {Right: true}, {Right: true}, {Right: true}, {}}, rows, width)
	return strings.Join(lines, "\n") + "\n"
}

// contextPiecesText lists the pieces of a category. A reason that has no room beside the name is on a line of its
// own.
func contextPiecesText(category string, pieces []client.ContextPiece, width int, all bool) string {
	if width == 0 {
		width = 100
	}
	var left []client.ContextPiece
	if !all && len(pieces) > contextPieces {
		if category == client.ContextMessages { // the newest ones
			left, pieces = pieces[:len(pieces)-contextPieces], pieces[len(pieces)-contextPieces:]
		} else {
			left, pieces = pieces[contextPieces:], pieces[:contextPieces]
		}
	}
	var b strings.Builder
	more := func() {
		n, tokens := 0, int64(0)
		for _, p := range left {
			n, tokens = n+max(p.Count, 1), tokens+p.Tokens
		}
		if what := "more"; n > 0 {
			if category == client.ContextMessages {
				what = "earlier"
			}
			fmt.Fprintf(&b, "%7s  … %s %s (--all lists them)\n", grouped(tokens), grouped(int64(n)), what)
		}
	}
	if category == client.ContextMessages {
		more()
	}
	names, whys := make([]string, len(pieces)), make([]string, len(pieces))
	wide, reason := 0, 0
	for i, p := range pieces {
		whys[i] = command.PlainLine(p.Why)
		if labels := slices.DeleteFunc(slices.Clone(p.Labels), func(l string) bool { return l == "private" }); len(labels) > 0 {
			whys[i] += ", " + strings.Join(labels, " and ")
		}
		reason = max(reason, lipgloss.Width(whys[i]))
		names[i] = command.PlainLine(p.Name)
		if p.Role != "" {
			names[i] = p.Role + ": " + names[i]
		}
		if p.Count > 0 {
			names[i] = app.Plural(p.Count, "message") + ": " + names[i]
		}
		wide = max(wide, lipgloss.Width(names[i]))
	}
	wide = min(wide, max(width-11-reason, width/2-5))
	for i, p := range pieces {
		fmt.Fprintf(&b, "%7s  ", grouped(p.Tokens))
		if lipgloss.Width(whys[i]) <= width-wide-11 {
			b.WriteString(strings.TrimRight(command.Fill(command.Cell(names[i], wide), wide)+"  "+whys[i], " ") + "\n")
			continue
		}
		b.WriteString(command.Cell(names[i], width-9) + "\n")
		for line := range strings.SplitSeq(lipgloss.Wrap(whys[i], width-11, ""), "\n") {
			b.WriteString(strings.Repeat(" ", 11) + strings.TrimRight(line, " ") + "\n")
		}
	}
	if category != client.ContextMessages {
		more()
	}
	return b.String()
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
