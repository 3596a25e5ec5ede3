package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
)

func (a *program) messageChanges(conv *string) *cobra.Command {
	var interaction, tool string
	c := a.onTalk(toRead, conv, &cobra.Command{Use: "changes", Short: "List which messages tools and people made obsolete, archived or deleted",
		Long: "List the changes to the validity of messages: when, which message, its new state, by which tool or\n" +
			"person, in which interaction, and why. Reverted changes are included."},
		func(ctx context.Context, t talk, _ []string) error {
			inter, err := t.interaction(ctx, interaction)
			if err != nil {
				return err
			}
			list, err := t.Changes(ctx, t.conv, inter, tool)
			return tellList(a, list, err, "nothing was changed", func(list []client.Change) string { return changesTable(list, a.width(), time.Now()) })
		})
	c.Flags().StringVar(&interaction, "interaction", "", "only what the interaction `ID` changed")
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` changed")
	complete(c, "tool", a.completeTools)
	return c
}

// changesTable lists changes in their order, under a heading for each day.
func changesTable(list []client.Change, width int, now time.Time) string {
	rows := make([][]string, len(list))
	for i, ch := range list {
		why := plainLine(ch.Reason)
		if !ch.Undone.IsZero() {
			why = strings.TrimSuffix("reverted "+ch.Undone.Local().Format("15:04")+" by "+plainLine(byWord("", ch.UndoneBy))+": "+why, ": ")
		}
		rows[i] = []string{cmp.Or(shorten(ch.Message), "many"), stateWord(record.Validity(ch.State)), plainLine(byWord(ch.Tool, ch.Actor)),
			cmp.Or(shorten(ch.Interaction), "-"), why}
	}
	lines, _ := table([]column{{}, {}, {most: widestTool}, {}, {least: leastWhat}}, rows, besideHours(width))
	return withDays(lines, func(i int) time.Time { return list[i].At }, now)
}

// interaction finds an interaction by its id, or a part of it, among those that have
// changed the validity of messages. For the name "" it returns "".
func (t talk) interaction(ctx context.Context, name string) (string, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	x, whole := id.Parse(name)
	switch {
	case name == "" || whole && !x.Zero():
		return name, nil
	case name != "last" && !isPart(name):
		return "", fault.New(fault.Invalid, "interaction_invalid", "%.80q is not the id of an interaction or a part of it", name).
			WithHint("steward messages changes shows them")
	}
	list, err := t.Changes(ctx, t.conv, "", "")
	if err != nil {
		return "", err
	}
	var found []string
	for _, ch := range slices.Backward(list) {
		full := ch.Interaction
		if !slices.Contains(found, full) && full != "" && (name == "last" && found == nil || strings.HasPrefix(full, name) || strings.HasSuffix(full, name)) {
			found = append(found, full)
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "interaction_not_found", "no interaction %s has changed messages of this conversation", name).
			WithHint("steward messages changes shows those that did")
	case 1:
		return found[0], nil
	}
	return "", ambiguous("interaction", "interactions", name, found, func(s string) string { return s })
}

func (a *program) rollbackMessages(conv *string) *cobra.Command {
	var tool string
	c := a.onTalk(toAct, conv, &cobra.Command{Use: "rollback INTERACTION", Short: "Restore what the tools of an interaction made obsolete",
		ValidArgsFunction: a.completeInteractions(conv),
		Long: "Restore what the tools of an interaction made obsolete: the model sees again what it saw before.\n" +
			"steward messages changes lists the interactions; last is that of the newest change."},
		func(ctx context.Context, t talk, args []string) error {
			inter, err := t.interaction(ctx, args[0])
			if err != nil {
				return err
			}
			restored, err := t.Rollback(ctx, t.conv, inter, tool)
			say := "there was nothing to restore"
			if restored > 0 {
				say = app.Counted(restored, "message is", "messages are") + " as before"
			}
			return a.told(map[string]int{"restored": restored}, err, "%s", say)
		})
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` made obsolete")
	complete(c, "tool", a.completeTools)
	return c
}

// completeInteractions offers the interactions that changed messages.
func (a *program) completeInteractions(conv *string) completer {
	return a.completing(conv, func(ctx context.Context, t talk) ([]cobra.Completion, error) {
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "that of the newest change")}
		list, err := t.Changes(ctx, t.conv, "", "")
		seen := map[string]bool{"": true}
		for _, ch := range slices.Backward(list) {
			if !seen[ch.Interaction] {
				seen[ch.Interaction] = true
				out = append(out, cobra.CompletionWithDesc(shorten(ch.Interaction), plainLine(byWord(ch.Tool, ch.Actor)+": "+ch.Reason)))
			}
		}
		return out, err
	})
}
