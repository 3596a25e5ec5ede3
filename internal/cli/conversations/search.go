package conversations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/search"
)

func (a *program) searchCommand() *cobra.Command {
	var q search.Query
	var conversation string
	var limit int
	c := &cobra.Command{Use: "search WORDS…", Short: "Search your conversations", GroupID: "keep",
		Long: "Find messages, newest first. All words must occur, in any order, regardless of case and accents.\n" +
			"\"words in quotes\" must be adjacent, word* matches the beginning of a word, -word must not occur,\n" +
			"and OR between two words requires one of them. Deleted and secret messages are not found.",
		Example: "  steward search train rome\n  steward search '\"seven thirty\"' --since 7d -n 1\n  steward search -- train OR plane -delayed",
		PreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]message.Role{"", message.User, message.Assistant, message.Tool}, q.Role) {
				return command.Usage("--role must be user, assistant or tool, not %q", q.Role)
			}
			if q.Around < 0 || q.Around > search.MaxAround {
				return command.Usage("--neighbours must be 0 to %d", search.MaxAround)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			q.Text = strings.Join(args, " ")
			var page search.Page
			err := a.With(c.Context(), command.NeedReadOnly, func(s *command.Session) error {
				conv, err := s.ResolveConversation(c.Context(), conversation)
				if err == nil {
					page, err = searchMessages(c.Context(), s, q, conv, limit)
				}
				return err
			})
			if err != nil && !errors.Is(err, command.ErrNothingStored) {
				return err
			}
			return a.printHits(page, limit)
		}}
	c.Flags().StringVar(&conversation, "conversation", "", "only in the conversation `ID`; last means the one used last")
	c.Flags().StringVar((*string)(&q.Role), "role", "", "only what `WHO` said: user, assistant or tool")
	c.Flags().StringVar(&q.Tool, "tool", "", "only calls and results of the tool `NAME`")
	command.SinceUntil(c, &q.Since, &q.Until, "messages")
	command.LimitFlag(c, &limit, search.DefaultLimit, "show at most `N`")
	c.Flags().IntVarP(&q.Around, "neighbours", "n", 0, "also show `N` messages before and after each")
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
	command.CompleteFlag(c, "role", command.Words("user", "assistant", "tool"))
	return c
}

// searchMessages searches page by page until there are enough hits.
func searchMessages(ctx context.Context, s *command.Session, q search.Query, conv string, limit int) (search.Page, error) {
	p := client.Params{"q": q.Text, "around": strconv.Itoa(q.Around), "role": string(q.Role), "tool": q.Tool, "conversation": conv,
		"since": wireTime(q.Since), "until": wireTime(q.Until)}
	var all search.Page
	for {
		p["limit"] = strconv.Itoa(min(limit-len(all.Hits), search.MaxLimit))
		var page search.Page
		if err := s.Call(ctx, "GET /search", p, nil, &page); err != nil {
			return search.Page{}, err
		}
		all.Hits, all.Next, all.Behind = append(all.Hits, page.Hits...), page.Next, page.Behind
		if page.Next == "" || len(all.Hits) >= limit {
			return all, nil
		}
		p["after"] = string(page.Next)
	}
}

func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func (a *program) printHits(page search.Page, limit int) error {
	if a.JSON {
		return a.PrintJSON(page)
	}
	if page.Behind > 0 {
		a.Note("incomplete: %d new entries are still being indexed; search again in a while", page.Behind)
	}
	if len(page.Hits) == 0 {
		a.Note("nothing was found")
		return nil
	}
	p := hitPrinter{colour: a.Colours(a.Stdout), width: a.Width()}
	out := a.Stdout
	if p.colour {
		out = app.FileOf(a.Stdout) // unescaped, for the printer's colours; plainLine cleans the text
	}
	if _, err := io.WriteString(out, p.page(page)); err != nil {
		return err
	}
	if page.Next != "" {
		a.Note("there are more: --limit %d shows them", 5*limit)
	}
	return nil
}

// hitPrinter formats hits for people.
type hitPrinter struct {
	colour  bool
	width   int // of the terminal; 0: none
	speaker int // the width of the speaker's column
	out     strings.Builder
}

const (
	hitTime   = "2006-01-02 15:04"
	narrowest = 50 // columns; below, nothing is wrapped
)

// page formats hits under the titles of their conversations.
func (p *hitPrinter) page(page search.Page) string {
	around := false
	for _, h := range page.Hits {
		p.speaker = max(p.speaker, lipgloss.Width(speaker(h.Line)))
		for _, l := range append(append([]search.Line{}, h.Before...), h.After...) {
			p.speaker, around = max(p.speaker, lipgloss.Width(speaker(l))), true
		}
	}
	var here id.ID
	for i, h := range page.Hits {
		switch {
		case h.Conversation != here:
			if i > 0 {
				p.out.WriteByte('\n')
			}
			title := command.PlainLine(h.Title)
			if title == "" {
				title = "(no title)"
			}
			p.out.WriteString(p.style("1;36", title) + "  " + p.style("2", h.Conversation.String()) + "\n")
		case around:
			p.out.WriteByte('\n')
		}
		here = h.Conversation
		p.hit(h)
	}
	return p.out.String()
}

func (p *hitPrinter) hit(h search.Hit) {
	for _, l := range h.Before {
		p.line("", l, "2")
	}
	var text strings.Builder
	at := 0
	for _, s := range h.Spans {
		if s.From < at || s.To < s.From || s.To > len(h.Text) {
			continue // outside this text
		}
		text.WriteString(command.PlainLine(h.Text[at:s.From]) + p.style("1;33", command.PlainLine(h.Text[s.From:s.To])))
		at = s.To
	}
	text.WriteString(command.PlainLine(h.Text[at:]))
	l := h.Line
	l.Text = text.String()
	p.line(h.At.Local().Format(hitTime), l, "")
	for _, l := range h.After {
		p.line("", l, "2")
	}
}

// line formats one message. Long ones wrap in their column.
func (p *hitPrinter) line(at string, l search.Line, style string) {
	text := l.Text
	if style != "" {
		text = command.PlainLine(text)
	}
	who := speaker(l)
	indent := 2 + len(hitTime) + 2 + p.speaker + 2
	if p.width >= indent+narrowest {
		text = lipgloss.Wrap(text, p.width-indent-1, "")
	}
	for i, part := range strings.Split(text, "\n") {
		if i > 0 {
			at, who = "", ""
		}
		fmt.Fprintf(&p.out, "  %-*s  %s%s  %s\n", len(hitTime), at, p.style(style, who), strings.Repeat(" ", p.speaker-lipgloss.Width(who)), p.style(style, part))
	}
}

func (p *hitPrinter) style(code, text string) string {
	if !p.colour || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// speaker names the speaker for people.
func speaker(l search.Line) string {
	switch {
	case l.Role == message.User:
		return "you"
	case l.Tool != "":
		return command.PlainLine(l.Tool)
	}
	return string(l.Role)
}
