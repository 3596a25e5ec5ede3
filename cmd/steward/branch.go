package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/face/terminal"
	"steward/internal/fault"
	"steward/internal/id"
)

func (a *app) branchCommand() *cobra.Command {
	var conv string
	c := &cobra.Command{
		Use: "branch", Aliases: []string{"branches"}, Short: "List and switch the branches of a conversation", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Editing a message, asking for another answer or going back never loses anything: the conversation\n" +
			"goes on with a branch of its own, and the old one is kept. A branch is named by its title, its id, or\n" +
			"at least 6 characters of the beginning or the end of it; lists show the last 8.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&conv, "conversation", "", "`ID` of the conversation; the last used one unless given")
	complete(c, "conversation", a.completeConversations)
	c.AddCommand(a.listBranches(&conv), a.switchBranch(&conv), a.newBranch(&conv), a.renameBranch(&conv), a.deleteBranch(&conv),
		a.restoreBranch(&conv), a.copyBranch(&conv), a.branchSiblings(&conv))
	return c
}

// branchInfo is a branch as the API tells it.
type branchInfo struct {
	ID        string    `json:"id"`
	Title     string    `json:"title"`
	Created   time.Time `json:"created"`
	Used      time.Time `json:"used"`
	Parent    string    `json:"parent"` // that it was made from
	Stem      string    `json:"stem"`   // on which the last message was written that it shares
	Preferred bool      `json:"preferred"`
	Cut       bool      `json:"cut"`
	Messages  int       `json:"messages"`
	Own       int       `json:"own"`
	Begins    string    `json:"begins"`
}

// rank orders branches by how near they are to the person: the preferred one,
// then those that were used last.
func (b branchInfo) rank() int64 {
	if b.Preferred {
		return math.MaxInt64
	}
	return b.Used.Unix()
}

// name is what lists call it.
func (b branchInfo) name() string { return shorten(b.ID) }

func (t talk) branches(ctx context.Context, deleted bool) ([]branchInfo, error) {
	var out struct{ Branches []branchInfo }
	path := "/branches"
	if deleted {
		path += "?deleted=true"
	}
	err := t.get(ctx, path, &out)
	return out.Branches, err
}

// branch finds a branch by its id, its title, or a part of the id.
func (t talk) branch(ctx context.Context, name string, deleted bool) (branchInfo, error) {
	list, err := t.branches(ctx, deleted)
	if err != nil {
		return branchInfo{}, err
	}
	low := strings.ToLower(strings.TrimSpace(name))
	for _, same := range []func(branchInfo) bool{
		func(b branchInfo) bool { return b.ID == low },
		func(b branchInfo) bool { return b.Title != "" && strings.EqualFold(b.Title, strings.TrimSpace(name)) },
		func(b branchInfo) bool {
			return isPart(low) && (strings.HasPrefix(b.ID, low) || strings.HasSuffix(b.ID, low))
		},
	} {
		found := slices.Collect(func(yield func(branchInfo) bool) {
			for _, b := range list {
				if same(b) && !yield(b) {
					return
				}
			}
		})
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return branchInfo{}, ambiguous("branch", "branches", name, found, func(b branchInfo) string { return b.ID })
		}
	}
	e := fault.New(fault.NotFound, "branch_not_found", "conversation %s has no branch %.80q", t.conv, name)
	if deleted {
		return branchInfo{}, e.With("steward branch list --deleted shows those that can be brought back")
	}
	return branchInfo{}, e.With("steward branch list shows those that it has")
}

func (a *app) listBranches(conv *string) *cobra.Command {
	var deleted bool
	c := &cobra.Command{
		Use: "list [CONVERSATION]", Short: "Show the branches as a tree", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "Show the branches of a conversation, each below the one that it departs from: how many messages stand\n" +
			"on it, its title, and how what was written on it begins. * marks the one that the conversation goes\n" +
			"on with.",
		RunE: func(c *cobra.Command, args []string) error {
			which, err := oneOf(args, *conv)
			if err != nil {
				return err
			}
			return a.looking(c.Context(), which, func(t talk) error {
				if a.json {
					var out struct{ Branches json.RawMessage }
					if err := t.get(c.Context(), fmt.Sprintf("/branches?deleted=%v", deleted), &out); err != nil {
						return err
					}
					return a.printJSON(out.Branches)
				}
				list, err := t.branches(c.Context(), deleted)
				if err != nil {
					return err
				}
				if len(list) == 0 {
					a.note("no branch was deleted")
					return nil
				}
				_, err = a.stdout.Write([]byte(branchTree(list, a.width())))
				return err
			})
		},
	}
	c.Flags().BoolVar(&deleted, "deleted", false, "those that were deleted and can be brought back")
	return c
}

// branchTree draws branches below those that they depart from, within a width
// (0: as wide as they are).
func branchTree(list []branchInfo, width int) string {
	type row struct{ name, count, text string }
	var rows []row
	var wide, counts int
	for _, l := range terminal.Tree(list, func(b branchInfo) string { return b.ID }, func(b branchInfo) string { return b.Stem }) {
		mark := "  "
		if l.Item.Preferred {
			mark = "* "
		}
		text := plainLine(l.Item.Begins)
		if l.Item.Title != "" {
			text = strings.TrimSuffix(plainLine(l.Item.Title)+": "+text, ": ")
		}
		r := row{mark + l.Head + l.Item.name(), counted(l.Item.Messages, "message", "messages"), text}
		wide, counts = max(wide, lipgloss.Width(r.name)), max(counts, len(r.count))
		rows = append(rows, r)
	}
	var out strings.Builder
	for _, r := range rows {
		line := fill(r.name, wide) + "  " + fill(r.count, counts) + "  "
		if width > 0 {
			r.text = cell(r.text, max(leastWhat, width-lipgloss.Width(line)))
		} else {
			r.text = cell(r.text, mostGist)
		}
		out.WriteString(strings.TrimRight(line+r.text, " ") + "\n")
	}
	return out.String()
}

// onBranch is a command that does something to a branch which exists.
func (a *app) onBranch(conv *string, use, short, long string, deleted bool, do func(context.Context, talk, branchInfo, []string) error) *cobra.Command {
	args := cobra.ExactArgs(1)
	if strings.Contains(use, "TITLE") {
		args = cobra.MinimumNArgs(2)
	}
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: args, ValidArgsFunction: a.completeBranches(conv),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changing(c.Context(), *conv, func(t talk) error {
				b, err := t.branch(c.Context(), args[0], deleted)
				if err != nil {
					return err
				}
				return do(c.Context(), t, b, args[1:])
			})
		},
	}
}

func (a *app) switchBranch(conv *string) *cobra.Command {
	return a.onBranch(conv, "switch BRANCH", "Go on with another branch", "", false, func(ctx context.Context, t talk, b branchInfo, _ []string) error {
		if err := t.do(ctx, http.MethodPatch, "/branches/"+b.ID, map[string]any{"preferred": true}, nil); err != nil {
			return err
		}
		ends := ""
		for m, err := range t.newestFirst(ctx, b.ID, 1) {
			if err != nil {
				return err
			}
			ends = "; it ends with " + m.who() + ": " + cell(m.gist(), 60)
			break
		}
		a.note("the conversation goes on with %s, %s%s", b.name(), counted(b.Messages, "message", "messages"), ends)
		return nil
	})
}

func (a *app) newBranch(conv *string) *cobra.Command {
	var at, title string
	var before bool
	c := &cobra.Command{
		Use: "new", Short: "Make a branch that departs at a message", Args: cobra.NoArgs,
		Long: "Make a branch that shares everything up to a message with the present one, and go on with it. The\n" +
			"present one is kept as it is.",
		Example: "  steward branch new --at 3f2a91bc --title 'in French'",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.changing(c.Context(), *conv, func(t talk) error {
				in := map[string]any{"before": before, "title": title}
				if at != "" {
					found, err := t.find(c.Context(), false, at)
					if err != nil {
						return err
					}
					in["message"] = found[0].ID
				}
				return a.made(c.Context(), t, "/branches", in)
			})
		},
	}
	c.Flags().StringVar(&at, "at", "", "behind the message `ID`; the newest one unless given")
	c.Flags().BoolVar(&before, "before", false, "before the message instead")
	c.Flags().StringVar(&title, "title", "", "what to call it")
	complete(c, "at", a.completeMessages(conv))
	return c
}

func (a *app) renameBranch(conv *string) *cobra.Command {
	return a.onBranch(conv, "rename BRANCH TITLE", "Give a branch a title", "Give a branch a title. An empty one takes it away.", false,
		func(ctx context.Context, t talk, b branchInfo, args []string) error {
			title := strings.TrimSpace(strings.Join(args, " "))
			if err := t.do(ctx, http.MethodPatch, "/branches/"+b.ID, map[string]any{"title": title}, nil); err != nil {
				return err
			}
			if title == "" {
				a.note("%s has no title now", b.name())
			} else {
				a.note("%s is called %s now", b.name(), plainLine(title))
			}
			return nil
		})
}

func (a *app) deleteBranch(conv *string) *cobra.Command {
	var erase bool
	c := a.onBranch(conv, "delete BRANCH", "Delete a branch",
		"Delete a branch. What is on other branches too stays. It can be brought back for a while; then what\nwas written on it alone is erased for good; with --erase before the command ends.", false,
		func(ctx context.Context, t talk, b branchInfo, _ []string) error {
			if err := t.do(ctx, http.MethodDelete, fmt.Sprintf("/branches/%s?erase=%v", b.ID, erase), nil, nil); err != nil {
				return err
			}
			a.note("deleted the branch %s", b.name())
			a.note("%s", a.until(erase, "steward branch restore "+b.name()+t.flag))
			return nil
		})
	c.Flags().BoolVar(&erase, "erase", false, "for good, at once")
	return c
}

func (a *app) restoreBranch(conv *string) *cobra.Command {
	return a.onBranch(conv, "restore BRANCH", "Bring back a deleted branch", "Bring back a deleted branch. The conversation goes on with the one that it is on.", true,
		func(ctx context.Context, t talk, b branchInfo, _ []string) error {
			if err := t.post(ctx, "/undelete", map[string]string{"branch": b.ID}, nil); err != nil {
				return err
			}
			a.note("%s is there again; steward branch switch %s%s goes on with it", b.name(), b.name(), t.flag)
			return nil
		})
}

func (a *app) copyBranch(conv *string) *cobra.Command {
	return a.onBranch(conv, "copy BRANCH", "Copy a branch to a conversation of its own", "", false,
		func(ctx context.Context, t talk, b branchInfo, _ []string) error {
			var out struct {
				Conversation id.ID `json:"conversation_id"`
			}
			if err := t.post(ctx, "/branches/"+b.ID+"/copy", nil, &out); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			a.note("copied to the conversation %s", out.Conversation)
			return nil
		})
}

// sibling is one of the ways in which a conversation goes on.
type sibling struct {
	Branch    string `json:"branch"`
	Message   id.ID  `json:"message_id"`
	Preferred bool   `json:"preferred"`
}

func (a *app) branchSiblings(conv *string) *cobra.Command {
	return &cobra.Command{
		Use: "siblings MESSAGE", Short: "Show what else stands in the place of a message", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeMessages(conv),
		Long: "Show what stands in the place of a message on the conversation's branches: other wordings of a\n" +
			"question, other answers. The second column names the branch to switch to. An answer for which tools\n" +
			"were used begins with their call: name that message.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.looking(c.Context(), *conv, func(t talk) error { return a.showSiblings(c.Context(), t, args[0]) })
		},
	}
}

func (a *app) showSiblings(ctx context.Context, t talk, name string) error {
	found, err := t.find(ctx, false, name)
	if err != nil {
		return err
	}
	var out struct{ Siblings []sibling }
	if err := t.get(ctx, "/messages/"+found[0].ID.String()+"/siblings", &out); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(out.Siblings)
	}
	names := make([]string, len(out.Siblings))
	for i, s := range out.Siblings {
		names[i] = s.Message.String()
	}
	said, err := t.find(ctx, false, names...)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write([]byte(siblingsTable(out.Siblings, said, a.width())))
	return err
}

// siblingsTable lists siblings with what they say, within a width (0: as wide
// as they are).
func siblingsTable(list []sibling, said []*spoken, width int) string {
	who := 0
	for _, m := range said {
		who = max(who, lipgloss.Width(m.who()))
	}
	var b strings.Builder
	for i, s := range list {
		mark := "  "
		if s.Preferred {
			mark = "* "
		}
		line := fmt.Sprintf("%s%s  %-8s  %s  ", mark, shortID(s.Message), shorten(s.Branch), fill(said[i].who(), who))
		text := said[i].gist()
		if width > 0 {
			text = cell(text, max(leastWhat, width-lipgloss.Width(line)))
		}
		b.WriteString(strings.TrimRight(line+text, " ") + "\n")
	}
	return b.String()
}

// completeBranches offers the branches.
func (a *app) completeBranches(conv *string) completer {
	return a.completing(conv, func(ctx context.Context, t talk) (out []cobra.Completion, err error) {
		list, err := t.branches(ctx, false)
		for _, b := range list {
			out = append(out, cobra.CompletionWithDesc(b.name(), plainLine(cmp.Or(b.Title, cell(b.Begins, 60)))))
		}
		return out, err
	})
}
