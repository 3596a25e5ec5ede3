package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store/sqlite"
)

func (a *app) intentsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "intents", Aliases: []string{"intent", "actions"}, Short: "See the actions that agents wanted, and decide what becomes of them", GroupID: "look", Args: cobra.NoArgs,
		Long: "Whatever changes something is an action, and each is recorded as an intent before it is done: by whom\n" +
			"it was wanted, what allowed it, who approved it, and what became of it. An action is named by its id, or\n" +
			"by at least 8 characters of the beginning of it.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listIntents(), a.showIntent(), a.answerIntent(true), a.answerIntent(false),
		a.wishIntent("cancel", "Withdraw an action that has not begun",
			"Withdraw an action that has not begun: one that waits for an approval, or until its turn ends."),
		a.wishIntent("retry", "Try an action again that failed",
			"Try an action again that failed, expired or was cancelled. That is an action of its own, with a key of\n"+
				"its own, and is judged anew; where policy asks you, this command is your yes. The conversation is told if\n"+
				"it was done."),
		a.wishIntent("undo", "Take back what an action has done",
			"Take back what an action has done, where its tool can. That is an action of its own: it is judged, and\n"+
				"done once. The conversation is told of it."),
		a.resolveIntent())
	return c
}

func (a *app) listIntents() *cobra.Command {
	var f runtime.IntentFilter
	var state, conversation string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List the actions, those that changed last first", Args: cobra.NoArgs,
		Long: "List the actions, those that changed last first; with --dead those that ended badly and about which\n" +
			"nobody does anything unless you do: nobody knows whether they were done, or they failed for a reason\n" +
			"that may have passed.",
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			f.State = intent.State(state)
			list := []runtime.IntentView{}
			err := a.withRequests(c.Context(), func(st *sqlite.Store, s shelf) (err error) {
				if conversation != "" {
					if f.Conversation, err = a.which(c.Context(), s.reader(), conversation, false); err != nil {
						return err
					}
				}
				list, _, err = runtime.Intents(c.Context(), st, s.scope(), f, "", limit)
				return err
			})
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(list)
			case len(list) == 0 && f == (runtime.IntentFilter{}):
				a.note("no agent has wanted to change anything yet")
			case len(list) == 0:
				a.note("there is no such action")
			default:
				_, err = a.stdout.Write([]byte(intentTable(list[:min(len(list), limit)], a.width())))
			}
			return err
		},
	}
	c.Flags().StringVar(&state, "state", "", "only those in a `STATE`: proposed, awaiting_approval, approved, executing, done, failed, unknown, …")
	c.Flags().BoolVar(&f.Dead, "dead", false, "only those about which somebody should do something")
	c.Flags().StringVar(&conversation, "conversation", "", "only those of a conversation, by its `ID`; last is the newest")
	c.Flags().IntVar(&limit, "limit", 50, "list at most `N`")
	complete(c, "state", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, s := range intent.States() {
			out = append(out, string(s))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func (a *app) showIntent() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show everything about an action", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIntents(""),
		Long: "Show everything about an action: who wanted it and on whose behalf, with what arguments, what the model\n" +
			"had read by then, which rule of the policy decided, who approved it and when, and what became of it.",
		RunE: func(c *cobra.Command, args []string) error {
			var v *runtime.IntentView
			err := a.withRequests(c.Context(), func(st *sqlite.Store, s shelf) error {
				got, err := runtime.Intent(c.Context(), st, s.scope(), args[0])
				v = &got
				return err
			})
			switch {
			case err != nil:
				return err
			case v == nil:
				return noIntent()
			case a.json:
				return a.printJSON(v)
			}
			_, err = a.stdout.Write([]byte(intentText(v)))
			return err
		},
	}
}

func noIntent() error {
	return fault.New(fault.NotFound, "intent_not_found", "no agent has wanted to change anything yet")
}

// answerIntent says yes or no to an action that waits for that.
func (a *app) answerIntent(yes bool) *cobra.Command {
	var reason string
	use, short, long := "approve ID", "Approve an action that waits for it",
		"Approve an action that waits for your word, once: exactly this one, with these arguments. What else an\napproval can be: steward approvals."
	if !yes {
		use, short, long = "deny ID", "Deny an action that waits for an approval", "Deny an action that waits for your word. It is not done, and the agent is told so."
	}
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIntents(intent.Awaiting),
		RunE: func(c *cobra.Command, args []string) error {
			return a.opened(c.Context(), func(b backend) error {
				var v runtime.IntentView
				path := "/intents/" + url.PathEscape(args[0])
				if err := b.call(c.Context(), http.MethodGet, path, nil, &v); err != nil {
					return err
				}
				verb := "/deny"
				if yes {
					verb = "/approve"
				}
				body := map[string]string{"hash": v.Hash, "reason": reason}
				if err := b.call(c.Context(), http.MethodPost, path+verb, body, &v); err != nil {
					return err
				}
				return a.toldIntent(c.Context(), b, &v)
			})
		}}
	if !yes {
		c.Flags().StringVar(&reason, "reason", "", "`WHY`, for the agent")
	}
	return c
}

// wishIntent does what a person wants of an action.
func (a *app) wishIntent(verb, short, long string) *cobra.Command {
	return &cobra.Command{Use: verb + " ID", Short: short, Long: long, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIntents(""),
		RunE: func(c *cobra.Command, args []string) error {
			return a.opened(c.Context(), func(b backend) error {
				var v runtime.IntentView
				if err := b.call(c.Context(), http.MethodPost, "/intents/"+url.PathEscape(args[0])+"/"+verb, map[string]string{}, &v); err != nil {
					return err
				}
				return a.toldIntent(c.Context(), b, &v)
			})
		}}
}

func (a *app) resolveIntent() *cobra.Command {
	var done, failed bool
	var note string
	c := &cobra.Command{
		Use: "resolve ID", Short: "Say what became of an action of which nobody knows", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIntents(intent.Unknown),
		Long: "Say whether an action was done of which nobody knows: Steward stopped, or the line went dead, while it\n" +
			"was being done, and it could not be asked. Look first. Your word is recorded, and the conversation is told.",
		RunE: func(c *cobra.Command, args []string) error {
			if done == failed {
				return usage("say --done or --failed")
			}
			return a.opened(c.Context(), func(b backend) error {
				var v runtime.IntentView
				in := map[string]any{"done": done, "note": note}
				if err := b.call(c.Context(), http.MethodPost, "/intents/"+url.PathEscape(args[0])+"/resolve", in, &v); err != nil {
					return err
				}
				return a.toldIntent(c.Context(), b, &v)
			})
		},
	}
	c.Flags().BoolVar(&done, "done", false, "it was done")
	c.Flags().BoolVar(&failed, "failed", false, "it was not done")
	c.Flags().StringVar(&note, "note", "", "what else there is to say, as `TEXT`")
	return c
}

// toldIntent tells what became of an action, and gives what follows from it a
// while to be done before this process ends. An action that was to be done and
// was not is an error.
func (a *app) toldIntent(ctx context.Context, b backend, v *runtime.IntentView) error {
	if a.json {
		if err := a.printJSON(v); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(a.stdout, intentLine(v)); err != nil {
		return err
	}
	if v.State == intent.Awaiting {
		a.note("it waits for the approval of %s", plainLine(v.Approvers))
	}
	if err := a.awaitTold(ctx, b, v.Interaction); err != nil {
		return err
	}
	if v.Undoes.Zero() && v.Retries.Zero() || v.State == intent.Done || v.State.InFlight() {
		return nil
	}
	e := fault.New(fault.Unavailable, "intent_"+string(v.State), "it was not done: %s", plainLine(firstLine(v.Result)))
	if v.State == intent.Unknown {
		e = fault.New(fault.Unavailable, "intent_unknown", "nobody knows whether it was done: %s", plainLine(v.Reason))
	}
	return e.With("steward intents show %s", intentRef(v.ID))
}

// awaitTold gives what follows from a person's word a while before this process
// ends: a turn that waited for it goes on, and a conversation is told of what
// became of an action. What is left, the next start does.
func (a *app) awaitTold(ctx context.Context, b backend, inter id.ID) error {
	if _, here := b.(*local); !here || inter.Zero() {
		return nil
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		var tree runtime.RequestView
		err := b.call(ctx, http.MethodGet, "/requests/"+inter.String(), nil, &tree)
		if err != nil || tree.State != record.RequestOpen && !led(&tree) || asks(&tree) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// asks reports whether something below a request waits for somebody's approval.
func asks(v *runtime.RequestView) bool {
	return v.Intent == string(intent.Awaiting) || slices.ContainsFunc(v.Below, func(b runtime.RequestView) bool { return asks(&b) })
}

// led reports whether something that a person wanted of an action, or that was
// queued, still goes on below a request; what waits for an approval does not.
func led(v *runtime.RequestView) bool {
	if v.Wish != "" && v.State != runtime.RequestClosed && v.Intent != string(intent.Awaiting) {
		return true
	}
	return slices.ContainsFunc(v.Below, func(b runtime.RequestView) bool { return led(&b) })
}

// intentRef is the beginning of an id: enough to find it by.
func intentRef(x id.ID) string { return x.String()[:8] }

// intentLine says what an action is and how it stands.
func intentLine(v *runtime.IntentView) string {
	return intentMark(v.State) + " " + intentRef(v.ID) + "  " + intentWhat(v) + ": " + stateOfIntent(v)
}

func intentMark(s intent.State) string {
	switch {
	case s == intent.Done:
		return "✓"
	case s == intent.Unknown:
		return "?"
	case s.InFlight():
		return "…"
	}
	return "✗"
}

// stateOfIntent is how an action stands, in words.
func stateOfIntent(v *runtime.IntentView) string {
	s := strings.ReplaceAll(string(v.State), "_", " ")
	switch {
	case !v.Undone.Zero():
		s += ", and taken back"
	case !v.Retried.Zero():
		s += ", and tried again"
	case v.Dead && v.State == intent.Failed:
		s += ", nobody sees to it"
	}
	return s
}

// intentWhat says on one line what an action is to do.
func intentWhat(v *runtime.IntentView) string {
	what := plainLine(v.Tool)
	switch {
	case !v.Undoes.Zero():
		what = "undo " + what
	case !v.Retries.Zero():
		what = "retry " + what
	}
	if args := plainLine(string(v.Args)); args != "{}" {
		what += " " + args
	}
	return what
}

// intentTable lists actions, one a line.
func intentTable(list []runtime.IntentView, width int) string {
	var state int
	for i := range list {
		state = max(state, lipgloss.Width(stateOfIntent(&list[i])))
	}
	var b strings.Builder
	for i := range list {
		v := &list[i]
		line := fmt.Sprintf("%s  %s %s  %s  %s", v.Changed.Local().Format("01-02 15:04"), intentMark(v.State), fill(stateOfIntent(v), state), intentRef(v.ID), intentWhat(v))
		if v.Reason != "" && v.State != intent.Done && v.State != intent.Approved {
			line += "  (" + plainLine(v.Reason) + ")"
		}
		if width > 0 {
			line = cell(line, width)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// intentText tells everything about an action.
func intentText(v *runtime.IntentView) string {
	var b strings.Builder
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s%s\n", name, plainLine(value))
		}
	}
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05")
	}
	ref := func(x id.ID) string {
		if x.Zero() {
			return ""
		}
		return intentRef(x)
	}
	fmt.Fprintf(&b, "%s %s: %s\n\n", intentMark(v.State), plainLine(v.Tool), stateOfIntent(v))
	row("id", v.ID.String())
	row("reason", v.Reason)
	row("wanted by", strings.Join(append(v.Lineage[:len(v.Lineage):len(v.Lineage)], v.Agent), " › "))
	row("for", v.User)
	row("wanted at", when(v.Created))
	if v.Deferred {
		row("done", "when its turn ended")
	}
	row("had read", strings.Join(v.Labels, ", "))
	if v.Fixed {
		row("fixed", "before anything of others was read")
	}
	row("rule", strings.TrimSuffix(v.Rule+", policy "+v.Policy, ", policy "))
	row("asked of", v.Approvers)
	row("asked until", when(v.Expires))
	if p := v.Approval; p != nil {
		row("approved by", p.By+", "+when(p.At))
		row("by standing", p.Grant)
		row("changed from", p.Edited)
	}
	row("denied by", v.DeniedBy)
	if r := v.Resolved; r != nil {
		row("resolved by", r.By+", "+when(r.At))
		row("note", r.Note)
	}
	row("undoes", ref(v.Undoes))
	row("taken back", ref(v.Undone))
	row("tries again", ref(v.Retries))
	row("tried again", ref(v.Retried))
	row("attempts", fmt.Sprint(v.Attempts))
	if !v.Conversation.Zero() {
		row("conversation", v.Conversation.String())
	}
	row("call", v.Call)
	row("tool version", v.Version)
	row("key", v.Key)
	row("uri", v.URI)
	b.WriteString("\narguments\n" + indented(argumentsText(v.Args)))
	if v.Result != "" {
		fmt.Fprintf(&b, "\nresult (%s)\n%s", v.Status, indented(v.Result))
	}
	b.WriteString("\nhistory\n")
	for _, s := range v.History {
		line := fmt.Sprintf("  %s  %-17s  %s", when(s.At), strings.ReplaceAll(string(s.State), "_", " "), plainLine(s.Actor))
		if s.Reason != "" {
			line += "  " + plainLine(s.Reason)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// completeIntents offers the newest actions, or those in a state.
func (a *app) completeIntents(s intent.State) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
			err = a.withRequests(ctx, func(st *sqlite.Store, sh shelf) error {
				list, _, err := runtime.Intents(ctx, st, sh.scope(), runtime.IntentFilter{State: s}, "", 30)
				for i := range list {
					out = append(out, cobra.CompletionWithDesc(intentRef(list[i].ID), intentWhat(&list[i])+": "+stateOfIntent(&list[i])))
				}
				return err
			})
			return out, err
		})
	}
}
