package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
)

// change is a change of a message's validity as the API tells it.
type change struct {
	Message     id.ID           `json:"message_id"`
	State       record.Validity `json:"state"`
	At          time.Time       `json:"at"`
	Actor       string          `json:"actor"`
	Tool        string          `json:"tool"`
	Interaction id.ID           `json:"interaction_id"`
	Reason      string          `json:"reason"`
	Undone      time.Time       `json:"undone"`
	UndoneBy    string          `json:"undone_by"`
}

func (t talk) changes(ctx context.Context, interaction id.ID, tool string) ([]change, json.RawMessage, error) {
	var out struct{ Changes json.RawMessage }
	q := url.Values{"interaction": {interaction.String()}, "tool": {tool}}
	if err := t.get(ctx, "/changes?"+q.Encode(), &out); err != nil {
		return nil, nil, err
	}
	var list []change
	err := json.Unmarshal(out.Changes, &list)
	return list, out.Changes, err
}

func (a *app) messageChanges(conv *string) *cobra.Command {
	var interaction, tool string
	c := &cobra.Command{
		Use: "changes", Short: "Tell what tools and people made obsolete, archived or deleted", Args: cobra.NoArgs,
		Long: "Tell what was changed in the validity of messages: when, which message, to what, by which tool or\n" +
			"person, in which interaction, and why. What was taken back is told too.",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.looking(c.Context(), *conv, func(t talk) error {
				inter, err := t.interaction(c.Context(), interaction)
				if err != nil {
					return err
				}
				list, raw, err := t.changes(c.Context(), inter, tool)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(raw)
				case len(list) == 0:
					a.note("nothing was changed")
					return nil
				}
				_, err = a.stdout.Write([]byte(changesTable(list, a.width(), time.Now())))
				return err
			})
		},
	}
	c.Flags().StringVar(&interaction, "interaction", "", "only what the interaction `ID` changed")
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` changed")
	complete(c, "tool", a.completeTools)
	return c
}

// changesTable lists changes in their order, under a heading for each day.
func changesTable(list []change, width int, now time.Time) string {
	rows := make([][3]string, len(list))
	wide := [2]int{}
	for i, ch := range list {
		rows[i] = [3]string{stateWord(ch.State), plainLine(byWord(ch.Tool, ch.Actor)), plainLine(ch.Reason)}
		if !ch.Undone.IsZero() {
			rows[i][2] = strings.TrimSuffix("taken back "+ch.Undone.Local().Format("15:04")+" by "+plainLine(byWord("", ch.UndoneBy))+": "+rows[i][2], ": ")
		}
		for j := range wide {
			wide[j] = max(wide[j], lipgloss.Width(rows[i][j]))
		}
	}
	if width > 0 {
		wide[1] = min(wide[1], widestTool)
	}
	var b strings.Builder
	day := ""
	for i, ch := range list {
		at := ch.At.Local()
		if d := dayOf(at, now); d != day {
			if day != "" {
				b.WriteByte('\n')
			}
			day = d
			b.WriteString(day + "\n")
		}
		in := "-"
		if !ch.Interaction.Zero() {
			in = shortID(ch.Interaction)
		}
		msg := "many    "
		if !ch.Message.Zero() {
			msg = shortID(ch.Message)
		}
		line := fmt.Sprintf("%s  %s  %s  %s  %-8s  ", at.Format("15:04"), msg, fill(rows[i][0], wide[0]), fill(cell(rows[i][1], wide[1]), wide[1]), in)
		why := rows[i][2]
		if width > 0 {
			why = cell(why, max(leastWhat, width-lipgloss.Width(line)))
		}
		b.WriteString(strings.TrimRight(line+why, " ") + "\n")
	}
	return b.String()
}

// interaction finds an interaction by its id, or a part of it, among those
// that have changed the validity of messages; "": none.
func (t talk) interaction(ctx context.Context, name string) (id.ID, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	x, whole := id.Parse(name)
	switch {
	case name == "" || whole && !x.Zero():
		return x, nil
	case name != "last" && !isPart(name):
		return x, fault.New(fault.Invalid, "interaction_invalid", "%.80q is no id of an interaction, nor a part of one", name).
			With("steward messages changes shows them")
	}
	list, _, err := t.changes(ctx, id.ID{}, "")
	if err != nil {
		return x, err
	}
	var found []id.ID
	for _, ch := range slices.Backward(list) {
		full := ch.Interaction.String()
		if !slices.Contains(found, ch.Interaction) && full != "" && (name == "last" && found == nil || strings.HasPrefix(full, name) || strings.HasSuffix(full, name)) {
			found = append(found, ch.Interaction)
		}
	}
	switch len(found) {
	case 0:
		return x, fault.New(fault.NotFound, "interaction_not_found", "no interaction %s has changed messages of this conversation", name).
			With("steward messages changes shows those that did")
	case 1:
		return found[0], nil
	}
	return x, ambiguous("interaction", "interactions", name, found, id.ID.String)
}

func (a *app) rollbackMessages(conv *string) *cobra.Command {
	var tool string
	c := &cobra.Command{
		Use: "rollback INTERACTION", Short: "Take back what the tools of an interaction made obsolete", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeInteractions(conv),
		Long: "Take back what the tools of an interaction made obsolete: what the model was shown before it is shown\n" +
			"again. steward messages changes names the interactions; last is that of the newest change.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changing(c.Context(), *conv, func(t talk) error {
				inter, err := t.interaction(c.Context(), args[0])
				if err != nil {
					return err
				}
				var out struct {
					Restored int `json:"restored"`
				}
				if err := t.post(c.Context(), "/interactions/"+inter.String()+"/rollback", map[string]string{"tool": tool}, &out); err != nil {
					return err
				}
				switch {
				case a.json:
					return a.printJSON(out)
				case out.Restored == 0:
					a.note("there was nothing to take back")
				default:
					a.note("%s as before", counted(out.Restored, "message is", "messages are"))
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` made obsolete")
	complete(c, "tool", a.completeTools)
	return c
}

// completeInteractions offers the interactions that changed messages.
func (a *app) completeInteractions(conv *string) completer {
	return a.completing(conv, func(ctx context.Context, t talk) ([]cobra.Completion, error) {
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "that of the newest change")}
		list, _, err := t.changes(ctx, id.ID{}, "")
		seen := map[id.ID]bool{{}: true}
		for _, ch := range slices.Backward(list) {
			if !seen[ch.Interaction] {
				seen[ch.Interaction] = true
				out = append(out, cobra.CompletionWithDesc(shortID(ch.Interaction), plainLine(byWord(ch.Tool, ch.Actor)+": "+ch.Reason)))
			}
		}
		return out, err
	})
}
