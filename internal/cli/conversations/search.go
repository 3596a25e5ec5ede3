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
	var conversation, at, labels, without string
	var limit int
	var newest, ids bool
	c := &cobra.Command{Use: "search WORDS…", Short: "Search your conversations", GroupID: "keep",
		Long: "Find messages, best match first. Ask in plain words: any word counts, in any of its forms, and rare\n" +
			"words count more. \"words in quotes\" must occur next to each other, word* matches the beginning of a\n" +
			"word, and -word must not occur. With --newest, the newest message comes first, and all words must\n" +
			"occur as they are written; OR between two words requires one of them. Case and accents do not\n" +
			"matter. Deleted and secret messages are not found. --at shows one message among its neighbours.",
		Example: "  steward search which train do I take to Rome\n  steward search '\"seven thirty\"' --since 7d -n 1\n" +
			"  steward search --newest -- train OR plane -delayed\n  steward search --at 019a2b3c-4d5e-7f60-8a1b-2c3d4e5f6071 -n 5",
		Args: cobra.ArbitraryArgs,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if at == "" && len(args) == 0 {
				return command.Usage("give the words to search for, or --at with the id of a message")
			}
			if at != "" {
				var ok bool
				if q.Message, ok = id.Parse(at); !ok {
					return command.Usage("--at takes the id of a message, as steward search --ids shows it, not %q", at)
				}
			}
			if newest {
				q.Order = search.Newest
			}
			if q.Labels, err = message.ParseLabels(labels); err != nil {
				return err
			}
			if q.Without, err = message.ParseLabels(without); err != nil {
				return err
			}
			if err := q.Mode.Check(); err != nil {
				return err
			}
			if !(q.Threshold >= 0 && q.Threshold <= 1) {
				return command.Usage("--threshold must be 0 to 1")
			}
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
			need := command.NeedReadOnly
			if q.Rerank {
				need = command.NeedIdleNode // a model is asked
			}
			err := a.With(c.Context(), need, func(s *command.Session) error {
				conv, err := s.ResolveConversation(c.Context(), conversation)
				if err == nil {
					page, err = searchMessages(c.Context(), s, q, conv, limit)
				}
				return err
			})
			if err != nil && !errors.Is(err, command.ErrNothingStored) {
				return err
			}
			return a.printHits(page, limit, ids)
		}}
	c.Flags().StringVar(&conversation, "conversation", "", "only in the conversation `ID`; last means the one used last")
	c.Flags().BoolVar(&newest, "newest", false, "newest first; all words must occur as they are written")
	c.Flags().StringVar((*string)(&q.Mode), "mode", "", "find by `WHAT`: hybrid (the default), text, or vectors")
	c.Flags().BoolVar(&q.Rerank, "rerank", false, "have a model order the best 20: that of models.rerank, or else fast")
	c.Flags().StringVar(&at, "at", "", "show the message `ID` among its neighbours")
	c.Flags().BoolVar(&ids, "ids", false, "also show the ids of the messages, for --at")
	c.Flags().StringVar(&q.Agent, "agent", "", "only conversations with the agent `PATH`")
	c.Flags().StringVar(&labels, "label", "", "only messages with these `LABELS`: private, untrusted")
	c.Flags().StringVar(&without, "without-label", "", "only messages without these `LABELS`")
	c.Flags().Float64Var(&q.Threshold, "threshold", 0, "leave out what matches less than this `SHARE` (0 to 1) of the best match")
	c.Flags().StringVar((*string)(&q.Role), "role", "", "only what `WHO` said: user, assistant or tool")
	c.Flags().StringVar(&q.Tool, "tool", "", "only calls and results of the tool `NAME`")
	command.SinceUntil(c, &q.Since, &q.Until, "messages")
	command.LimitFlag(c, &limit, search.DefaultLimit, "show at most `N`")
	c.Flags().IntVarP(&q.Around, "neighbours", "n", 0, "also show `N` messages before and after each")
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
	command.CompleteFlag(c, "mode", command.Words(string(search.Hybrid), string(search.ByText), string(search.ByVectors)))
	command.CompleteFlag(c, "role", command.Words("user", "assistant", "tool"))
	return c
}

// searchMessages searches page by page until there are enough hits.
func searchMessages(ctx context.Context, s *command.Session, q search.Query, conv string, limit int) (search.Page, error) {
	p := client.Params{"q": q.Text, "around": strconv.Itoa(q.Around), "role": string(q.Role), "tool": q.Tool, "conversation": conv,
		"order": string(q.Order), "mode": string(q.Mode), "agent": q.Agent, "labels": q.Labels.String(), "without": q.Without.String(),
		"since": wireTime(q.Since), "until": wireTime(q.Until)}
	if q.Threshold > 0 {
		p["threshold"] = strconv.FormatFloat(q.Threshold, 'g', -1, 64)
	}
	if q.Rerank {
		p["rerank"] = "true"
	}
	if !q.Message.Zero() {
		p["message"] = q.Message.String()
	}
	var all search.Page
	for {
		p["limit"] = strconv.Itoa(min(limit-len(all.Hits), search.MaxLimit))
		var page search.Page
		if err := s.Call(ctx, "GET /search", p, nil, &page); err != nil {
			return search.Page{}, err
		}
		page.Hits = append(all.Hits, page.Hits...)
		all = page
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

func (a *program) printHits(page search.Page, limit int, ids bool) error {
	if a.JSON {
		return a.PrintJSON(page)
	}
	if page.Behind > 0 {
		a.Note("incomplete: %d new entries are still being indexed; search again in a while", page.Behind)
	}
	if page.Notice != "" {
		a.Note("%s", page.Notice)
	}
	if len(page.Hits) == 0 {
		a.Note("nothing was found")
		return nil
	}
	p := hitPrinter{ids: ids, colour: a.Colours(a.Stdout), width: a.Width()}
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
	ids     bool // show the messages' ids
	width   int  // of the terminal; 0: none
	speaker int  // the width of the speaker's column
	out     strings.Builder
}

const (
	hitTime    = "2006-01-02 15:04"
	widestTool = 18 // columns of a tool's name
	narrowest  = 40 // columns; below, nothing is wrapped
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
	if p.ids {
		p.out.WriteString("  " + strings.Repeat(" ", len(hitTime)) + "  " + p.style("2", "message "+h.Message.String()) + "\n")
	}
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
		return clip(command.PlainLine(l.Tool), widestTool)
	}
	return string(l.Role)
}

// clip cuts a text after so many characters.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
