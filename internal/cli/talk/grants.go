package talk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/server/auth"
	"steward/internal/terminal"
)

func (a *program) grantsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "grants", Aliases: []string{"grant"}, Short: "List and change your standing approvals", GroupID: "talk",
		Long: "A standing approval is given with an answer to a question (steward approvals approve --always, or\n" +
			"in a chat). It covers one version of one tool, one agent, and the arguments that its pattern allows. It\n" +
			"does not cover calls that were decided after more had been read than when it was given. It lapses when\n" +
			"the tool changes. A grant is named by its id, or by at least the first 4 characters of it.",
	}, a.listGrants(), a.showGrant(), a.editGrant(), a.revokeGrant())
}

func grantsOf(ctx context.Context, s *command.Session, all bool) ([]effect.GrantView, error) {
	var out struct {
		Grants []effect.GrantView `json:"grants"`
	}
	err := s.Call(ctx, "GET /grants", client.Params{"all": fmt.Sprint(all)}, nil, &out)
	return out.Grants, err
}

// grantNamed finds a standing approval by its id or the beginning of it.
func grantNamed(ctx context.Context, s *command.Session, which string) (effect.GrantView, error) {
	list, err := grantsOf(ctx, s, true)
	if err != nil {
		return effect.GrantView{}, err
	}
	switch found := startingWith(list, which, func(g *effect.GrantView) string { return g.ID.String() }); len(found) {
	case 1:
		return found[0], nil
	case 0:
		return effect.GrantView{}, fault.New(fault.NotFound, "grant_not_found", "there is no standing approval %.80q", which).
			WithHint("steward grants list shows all")
	default:
		return effect.GrantView{}, fault.New(fault.Invalid, "grant_ambiguous", "%d standing approvals begin with %q", len(found), which).WithHint("type more characters of the id")
	}
}

func (a *program) listGrants() *cobra.Command {
	var all bool
	c := command.ListCommand(a.Program, &cobra.Command{Use: "list", Short: "List your standing approvals",
		Long: "List your standing approvals, newest first; with --all also those that were revoked or have ended."}, "there are no standing approvals",
		func(ctx context.Context, s *command.Session, _ []string) ([]effect.GrantView, error) {
			return grantsOf(ctx, s, all)
		},
		func(list []effect.GrantView) string { return grantTable(list, a.Width(), time.Now()) })
	c.Flags().BoolVar(&all, "all", false, "include those that were revoked or have ended")
	return c
}

func grantTable(list []effect.GrantView, width int, now time.Time) string {
	rows := [][]string{{"ID", "STATE", "WHERE", "UNTIL", "WHAT"}}
	for _, g := range list {
		where := "everywhere"
		if g.Standing == effect.InConversation {
			where = "one conversation"
		}
		rows = append(rows, []string{g.ID.String()[:8], g.State, where, grantEnd(&g, now), command.PlainLine(g.Tool + ": " + g.Pattern.String())})
	}
	return command.Columns(rows, width)
}

func grantEnd(g *effect.GrantView, now time.Time) string {
	if g.Expires.IsZero() {
		return "forever"
	}
	return terminal.UntilWhen(g.Expires, now)
}

func (a *program) showGrant() *cobra.Command {
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show ID", Short: "Show what a standing approval covers", ValidArgsFunction: a.completeGrants()},
		func(ctx context.Context, s *command.Session, args []string) error {
			g, err := grantNamed(ctx, s, args[0])
			return command.PrintValue(a.Program, g, err, grantShown)
		})
}

// grantShown formats everything about a standing approval.
func grantShown(g effect.GrantView) string {
	where := "everywhere"
	if g.Standing == effect.InConversation {
		where = "in " + g.Conversation
	}
	agent := g.Agent
	if len(g.Lineage) > 0 {
		agent += ", asked by " + strings.Join(g.Lineage, " > ")
	}
	rows := [][2]string{{"id", g.ID.String()}, {"state", g.State}, {"tool", g.Tool + ", version " + g.Version}, {"agent", agent}, {"where", where},
		{"until", grantEnd(&g, time.Now())}, {"only", terminal.Ceiling(g.Labels)}, {"given", g.Created.Local().Format("2 Jan 2006 15:04") + " by " + g.By}}
	if !g.Changed.IsZero() {
		rows = append(rows, [2]string{"changed", g.Changed.Local().Format("2 Jan 2006 15:04")})
	}
	text := command.Fields(9, rows) + "covers\n"
	if len(g.Pattern) == 0 {
		return text + "  calls without arguments\n"
	}
	return text + indentLines(strings.Join(terminal.TermLines(g.Pattern), "\n"))
}

func (a *program) editGrant() *cobra.Command {
	var lines, labels []string
	var length time.Duration
	var forever, conversation, always, yes bool
	c := &cobra.Command{Use: "edit ID", Short: "Change what a standing approval covers", ValidArgsFunction: a.completeGrants(),
		Long: "Change what a standing approval covers. A change that narrows it is made at once; one that widens it is\n" +
			"shown, and you are asked first. 'NAME none' removes an argument from the pattern: calls that have it\n" +
			"are no longer covered.",
		Example: "  steward grants edit 3f2a --pattern 'path like notes/*' --for 24h"}
	f := c.Flags()
	f.StringArrayVar(&lines, "pattern", nil, "the values that an `ARGUMENT` may have: 'NAME is VALUE', 'NAME like GLOB', 'NAME any' or 'NAME none'")
	f.StringSliceVar(&labels, "labels", nil, "the labels of what may have been read before: private, untrusted, or \"\" for neither")
	f.DurationVar(&length, "for", 0, "how long it is valid from now, for example 24h")
	f.BoolVar(&forever, "forever", false, "remove the expiry")
	f.BoolVar(&conversation, "conversation", false, "only in the conversation of the original question")
	f.BoolVar(&always, "always", false, "everywhere")
	command.YesFlag(c, &yes)
	c.MarkFlagsOneRequired("pattern", "labels", "for", "forever", "conversation", "always")
	c.MarkFlagsMutuallyExclusive("for", "forever")
	c.MarkFlagsMutuallyExclusive("conversation", "always")
	return a.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		ch := auth.GrantChange{}
		switch {
		case length < 0:
			return command.Usage("--for must be longer than 0")
		case length > 0:
			ch.Until = time.Now().Add(length).Format(time.RFC3339)
		case forever:
			ch.Until = "never"
		}
		if conversation {
			ch.Standing = string(effect.InConversation)
		} else if always {
			ch.Standing = string(effect.Always)
		}
		if f.Changed("labels") {
			ch.Labels = &labels
		}
		return a.changeGrant(ctx, s, args[0], lines, ch, yes)
	})
}

// changeGrant shows the result of a change, asks the user if it covers more, and makes the
// change.
func (a *program) changeGrant(ctx context.Context, s *command.Session, which string, lines []string, ch auth.GrantChange, yes bool) error {
	g, err := grantNamed(ctx, s, which)
	if err != nil {
		return err
	}
	if lines != nil {
		if ch.Pattern, err = intent.ParsePattern(strings.Join(lines, "\n"), g.Pattern); err != nil {
			return err
		}
	}
	own := client.Params{"id": g.ID.String()}
	var next effect.EditedView
	if err := s.Call(ctx, "POST /grants/{id}/preview", own, ch, &next); err != nil {
		return err
	}
	if ch.Hash = next.Hash; next.Wider && !yes {
		if ok, err := a.confirmWider(&next); !ok {
			return err
		}
	}
	var done effect.GrantView
	err = s.Call(ctx, "PATCH /grants/{id}", own, ch, &done)
	return command.PrintValue(a.Program, done, err, grantShown)
}

// confirmWider asks the user at a terminal whether the approval may cover more.
func (a *program) confirmWider(next *effect.EditedView) (bool, error) {
	if !app.IsTerminal(a.Stdin) {
		return false, fault.New(fault.Invalid, "grant_wider", "the standing approval would cover more than now; allowing that requires a terminal to ask at").
			WithHint("add --yes if you want that")
	}
	ok, err := a.Confirm(nil, "%s\nThat covers more than now. Allow it?", grantShown(next.Grant))
	if err == nil && !ok {
		a.Note("nothing is changed")
	}
	return ok, err
}

func (a *program) revokeGrant() *cobra.Command {
	return a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "revoke ID...", Short: "Revoke standing approvals at once", ValidArgsFunction: a.completeGrants(),
		Long: "Revoke standing approvals. From now on you are asked again about what they would have covered, and also\n" +
			"about actions that they approved and that have not started."},
		func(ctx context.Context, s *command.Session, args []string) error {
			for _, which := range args {
				g, err := grantNamed(ctx, s, which)
				if err == nil {
					err = s.Call(ctx, "DELETE /grants/{id}", client.Params{"id": g.ID.String()}, nil, nil)
				}
				if err != nil {
					return err
				}
				if !a.JSON {
					a.Note("you will be asked about %s again (%s)", command.PlainLine(g.Tool), g.ID.String()[:8])
				}
			}
			return nil
		})
}

func (a *program) completeGrants() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]effect.GrantView, error) {
		return grantsOf(ctx, s, false)
	},
		func(g *effect.GrantView) (string, string) {
			return g.ID.String()[:8], g.Tool + ": " + g.Pattern.String()
		})
}
