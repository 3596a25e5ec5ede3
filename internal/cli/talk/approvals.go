package talk

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	strictly "steward/internal/strict"
	"steward/internal/terminal"
)

func (a *program) approvalsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "approvals", Aliases: []string{"approval"}, Short: "List and answer the actions that wait for your approval", GroupID: "talk",
		Long: "An action that needs your approval waits until you decide: in a chat, in the background, in agents that\n" +
			"other agents have called, and across restarts of Steward. A question is named by its id, or by at least\n" +
			"the first 4 characters of it. Questions to your groups are included.",
	}, a.listApprovals(), a.showApproval(), a.approveQuestion(), a.denyQuestion())
}

// questionsOf returns all questions that wait for the user.
func questionsOf(ctx context.Context, s *command.Session) ([]effect.Question, error) {
	var out struct {
		Approvals []effect.Question `json:"approvals"`
	}
	err := s.Call(ctx, "GET /approvals", nil, nil, &out)
	return out.Approvals, err
}

// minShort is how many characters of an id the user must type.
const minShort = 4

// startingWith returns the items of a list that match what was typed: the one with this
// id, or all whose ids begin with it.
func startingWith[T any](list []T, which string, id func(*T) string) (found []T) {
	for i := range list {
		switch own := id(&list[i]); {
		case own == which:
			return list[i : i+1]
		case len(which) >= minShort && strings.HasPrefix(own, which):
			found = append(found, list[i])
		}
	}
	return found
}

// questionNamed finds a question by its id or the beginning of it.
func questionNamed(ctx context.Context, s *command.Session, which string) (effect.Question, error) {
	list, err := questionsOf(ctx, s)
	if err != nil {
		return effect.Question{}, err
	}
	found := startingWith(list, which, func(q *effect.Question) string { return q.Short })
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return effect.Question{}, fault.New(fault.Invalid, "approval_ambiguous", "%d questions begin with %q", len(found), which).WithHint("type more characters of the id")
	case len(which) < 32: // a typed prefix that matches no open question
		return effect.Question{}, fault.New(fault.NotFound, "approval_not_found", "no open question matches %.80q", which).
			WithHint("steward approvals list shows the open ones")
	}
	return question(ctx, s, which, nil) // its error may name the outcome
}

func (a *program) listApprovals() *cobra.Command {
	return command.ListCommand(a.Program, &cobra.Command{Use: "list", Short: "List the actions that wait for your approval", Long: "List the actions that wait for your approval, oldest first."}, "no action waits for your approval",
		func(ctx context.Context, s *command.Session, _ []string) ([]effect.Question, error) {
			return questionsOf(ctx, s)
		},
		func(list []effect.Question) string { return questionTable(list, a.Width(), time.Now()) })
}

// questionTable formats questions in columns.
func questionTable(list []effect.Question, width int, now time.Time) string {
	rows := [][]string{{"ID", "ASKED", "UNTIL", "WHO", "WHAT"}}
	for _, q := range list {
		who := "you"
		if q.Approvers != "" {
			who = q.Approvers
		}
		what := terminal.QuestionLine(&q)
		if q.User != "" && q.Approvers != "" {
			what += " (for " + q.User + ")"
		}
		rows = append(rows, []string{q.Short[:8], askedAgo(q.Asked, now), terminal.UntilWhen(q.Expires, now), command.PlainLine(who), command.PlainLine(what)})
	}
	return command.Columns(rows, width)
}

func askedAgo(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

func (a *program) showApproval() *cobra.Command {
	var whole bool
	c := a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show ID", Short: "Show a question", ValidArgsFunction: a.completeApprovals(),
		Long: "Show a question: what would be done, why you are asked, and the arguments that matter, with invisible\n" +
			"characters written out. --whole adds everything that an answer covers: the tool, its version and its full\n" +
			"arguments, what had been read before, the rule that asks, who may answer and until when. Where the output\n" +
			"is not a terminal, all of it is always shown."},
		func(ctx context.Context, s *command.Session, args []string) error {
			q, err := questionNamed(ctx, s, args[0])
			return command.PrintValue(a.Program, q, err, func(q effect.Question) string {
				if whole = whole || a.Width() == 0; whole {
					return terminal.QuestionShown(&q, a.Width(), time.Now(), true, "")
				}
				return terminal.QuestionShown(&q, a.Width(), time.Now(), false, "--whole shows") +
					"  id " + q.Short[:8] + " · steward approvals show " + q.Short[:8] + " --whole shows everything\n"
			})
		})
	c.Flags().BoolVar(&whole, "whole", false, "show everything that an answer covers")
	return c
}

// answerFlags holds the flags of an approval.
type answerFlags struct {
	conversation, always, once, yes bool
	pattern                         []string
	until                           time.Duration
	edit, said                      string
	exactly                         bool
}

func (a *program) approveQuestion() *cobra.Command {
	var o answerFlags
	c := &cobra.Command{Use: "approve ID", Short: "Approve an action that waits", ValidArgsFunction: a.completeApprovals(),
		Long: "Approve an action that waits: once, or, with --conversation or --always, from now on. In that case\n" +
			"you are offered what makes sense for the tool, such as other files in the same folder. --exactly chooses\n" +
			"just this call, and --pattern says what an argument may be: 'NAME is VALUE' (in JSON), 'NAME like GLOB' or\n" +
			"'NAME any'. Arguments that no pattern names must stay as they are now. In a glob, * matches letters and digits up to\n" +
			"the next separator and ** matches anything. You see what would be allowed and are asked to confirm,\n" +
			"unless you give --yes.\n\n" +
			"--edit approves the action once with other arguments, which policy checks again. --answer is the same for\n" +
			"the argument answer alone: it answers what a task of a plan has asked you.",
		Example: "  steward approvals approve 3f2a9c01\n" +
			"  steward approvals approve 3f2a --always --pattern 'path like notes/*' --pattern 'text any'\n" +
			"  steward approvals approve 3f2a --edit '{\"path\":\"notes/b.txt\",\"text\":\"hello\"}'",
	}
	f := c.Flags()
	f.BoolVar(&o.once, "once", false, "approve it once (the default)")
	f.BoolVar(&o.conversation, "conversation", false, "approve this and later calls in the same conversation")
	f.BoolVar(&o.always, "always", false, "approve this and later calls, everywhere")
	f.StringArrayVar(&o.pattern, "pattern", nil, "with --conversation or --always: the values that an `ARGUMENT` may have")
	f.BoolVar(&o.exactly, "exactly", false, "with --conversation or --always: just for calls like this, with the same arguments")
	f.DurationVar(&o.until, "for", 0, "with --conversation or --always: for how long, for example 24h")
	f.StringVar(&o.edit, "edit", "", "approve it once with these `ARGUMENTS`, a JSON object")
	f.StringVar(&o.said, "answer", "", "approve it once, with this `TEXT` as the argument answer")
	command.YesFlag(c, &o.yes)
	c.MarkFlagsMutuallyExclusive("once", "conversation", "always")
	for _, other := range []string{"pattern", "conversation", "always"} {
		c.MarkFlagsMutuallyExclusive("edit", other)
		c.MarkFlagsMutuallyExclusive("answer", other)
	}
	c.MarkFlagsMutuallyExclusive("edit", "answer")
	c.MarkFlagsMutuallyExclusive("pattern", "exactly")
	return a.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		return a.approveNamed(ctx, s, args[0], &o)
	})
}

// answer returns the answer that the flags give. For a standing approval, it replaces *q by
// the question as it is shown with the flags' pattern, or with the width that the user
// chooses.
func (a *program) answer(ctx context.Context, s *command.Session, in *bufio.Reader, o *answerFlags, q *effect.Question) (client.Answer, error) {
	v := client.Answer{Hash: q.Hash, Approve: true}
	switch {
	case o.conversation:
		v.Standing = string(effect.InConversation)
	case o.always:
		v.Standing = string(effect.Always)
	case o.pattern != nil || o.until != 0 || o.exactly:
		return v, command.Usage("--pattern, --exactly and --for need --conversation or --always")
	case o.edit != "":
		if !json.Valid([]byte(o.edit)) {
			return v, command.Usage("--edit must be a JSON object")
		}
		v.Args = []byte(o.edit)
	case o.said != "":
		args := map[string]json.RawMessage{}
		said, err := json.Marshal(o.said)
		if err == nil {
			err = json.Unmarshal(q.Args, &args)
		}
		if err != nil {
			return v, err
		}
		args["answer"] = said
		v.Args, err = json.Marshal(args)
		return v, err
	}
	if v.Standing == "" {
		return v, nil
	}
	if o.until < 0 {
		return v, command.Usage("--for must be longer than 0")
	}
	if o.until > 0 {
		v.Until = time.Now().Add(o.until).Format(time.RFC3339)
	}
	if q.NoGrant != "" {
		return v, fault.New(fault.Conflict, "grant_not_possible", "no standing approval can be given: %s", q.NoGrant).WithHint("approve it once")
	}
	p, err := intent.ParsePattern(strings.Join(o.pattern, "\n"), q.Pattern)
	if err == nil && o.pattern == nil && !o.exactly {
		if !app.IsTerminal(a.Stdin) || o.yes {
			return v, command.Usage("choose what it covers from now on: --exactly, or --pattern 'NAME any'")
		}
		fmt.Fprintln(a.Stderr, terminal.QuestionShown(q, a.Width(), time.Now(), false, "steward approvals show --whole shows"))
		p, err = a.chooseWidth(in, q)
	}
	if err != nil {
		return v, err
	}
	shown, err := question(ctx, s, q.ID, p)
	if err != nil {
		return v, err
	}
	*q, v.Hash, v.Pattern = shown, shown.Hash, shown.Pattern
	return v, nil
}

// chooseWidth asks the user at a terminal what a standing approval is to cover.
func (a *program) chooseWidth(in *bufio.Reader, q *effect.Question) (intent.Pattern, error) {
	if len(q.Widths) == 1 {
		return q.Widths[0].Pattern, nil
	}
	text := "From now on, without asking:\n"
	for i, w := range q.Widths {
		text += fmt.Sprintf("  %d %s\n", i+1, terminal.Visible(w.Name))
	}
	fmt.Fprint(a.Stderr, text)
	for {
		fmt.Fprintf(a.Stderr, "Which of them? 1-%d: ", len(q.Widths))
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && n >= 1 && n <= len(q.Widths) {
			return q.Widths[n-1].Pattern, nil
		}
	}
}

func (a *program) approveNamed(ctx context.Context, s *command.Session, which string, o *answerFlags) error {
	q, err := questionNamed(ctx, s, which)
	if err != nil {
		return err
	}
	in := bufio.NewReader(a.Stdin)
	v, err := a.answer(ctx, s, in, o, &q)
	if err != nil {
		return err
	}
	if !o.yes {
		if ok, err := a.confirmAnswer(in, &q, v); !ok {
			return err
		}
	}
	return a.answerQuestion(ctx, s, &q, v)
}

// confirmAnswer shows a question with the answer that is about to be given, and asks the user at
// a terminal to confirm.
func (a *program) confirmAnswer(in *bufio.Reader, q *effect.Question, v client.Answer) (bool, error) {
	if !app.IsTerminal(a.Stdin) {
		return false, fault.New(fault.Invalid, "approval_unattended", "allowing this requires a terminal to ask at").
			WithHint("check it with steward approvals show %s, then add --yes", q.Short[:8])
	}
	text := terminal.QuestionShown(q, a.Width(), time.Now(), false, "steward approvals show --whole shows") + "\n" + termsOf(q, v)
	ok, err := a.Confirm(in, "%s\nAllow it?", text)
	if err == nil && !ok {
		a.Note("not answered; the question stays open")
	}
	return ok, err
}

// termsOf describes what an answer allows.
func termsOf(q *effect.Question, v client.Answer) string {
	var head string
	switch {
	case v.Args != nil:
		return "Once, with these arguments instead:\n" + indentLines(terminal.Visible(string(v.Args)))
	case v.Standing == "":
		return "Once, as shown.\n"
	case v.Standing == string(effect.InConversation):
		head = "From now on in this conversation"
	default:
		head = "From now on, always"
	}
	if until, err := time.Parse(time.RFC3339, v.Until); err == nil {
		head += ", until " + terminal.UntilWhen(until, time.Now())
	}
	return head + ", " + terminal.Visible(q.Tool) + " where\n" + indentLines(strings.Join(terminal.TermLines(q.Pattern), "\n"))
}

func indentLines(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

// answerQuestion answers a question and prints what was recorded.
func (a *program) answerQuestion(ctx context.Context, s *command.Session, q *effect.Question, v client.Answer) error {
	word, then := "denied", ""
	if v.Approve {
		word = "allowed"
	}
	if s.IsLocal() {
		then = "; it continues when Steward runs: steward serve, or steward chat"
	}
	return a.PrintDone(map[string]any{"id": q.ID, "intent_id": q.Short, "approved": v.Approve}, s.AnswerApproval(ctx, q.ID, v), "%s: %s%s", word, command.PlainLine(cmp.Or(q.Summary, q.Tool)), then)
}

func (a *program) denyQuestion() *cobra.Command {
	var reason string
	c := a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "deny ID", Short: "Deny an action that waits", ValidArgsFunction: a.completeApprovals(),
		Long: "Deny an action that waits. The model sees the denial, and the reason if you give one."},
		func(ctx context.Context, s *command.Session, args []string) error {
			q, err := questionNamed(ctx, s, args[0])
			if err != nil {
				return err
			}
			return a.answerQuestion(ctx, s, &q, client.Answer{Hash: q.Hash, Reason: reason})
		})
	c.Flags().StringVar(&reason, "reason", "", "the reason (`WHY`), which the model sees")
	return c
}

// completeApprovals offers the ids of the open questions.
func (a *program) completeApprovals() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, questionsOf, func(q *effect.Question) (string, string) { return q.Short[:8], terminal.QuestionLine(q) })
}

// question fetches a question, as it would be shown with the pattern p.
func question(ctx context.Context, s *command.Session, which string, p intent.Pattern) (q effect.Question, err error) {
	in := client.Params{"id": which}
	if p != nil {
		b, err := json.Marshal(p)
		if err != nil {
			return q, err
		}
		in["pattern"] = string(b)
	}
	err = s.Call(ctx, "GET /approvals/{id}", in, nil, &q)
	return q, err
}

// decider puts the questions of a request to the person at the terminal.
type decider struct {
	*program
	s     *command.Session
	in    *bufio.Reader
	asks  bool            // a person is at the terminal
	asked map[string]bool // by the hash of what was shown
}

// attended reports whether a person can be asked: standard input and error are terminals.
func (a *program) attended() bool { return app.IsTerminal(a.Stdin) && app.IsTerminal(a.Stderr) }

// frame asks about a call that waits for a person. If nobody can be asked, it shows the
// question and returns errPlanWaits.
func (d *decider) frame(ctx context.Context, f *client.Frame) error {
	if f.Type != client.FrameCall || f.Approval == nil || f.Status != client.CallAwaiting || d.asked[f.Approval.Hash] {
		return nil
	}
	d.asked[f.Approval.Hash] = true
	q, err := question(ctx, d.s, f.Approval.ID, nil)
	if answeredElsewhere(err) {
		return nil
	} else if err != nil {
		return err
	}
	if !d.asks {
		return d.explainWaiting(&q)
	}
	if !q.Yours {
		d.Note("%s waits for %s", command.PlainLine(q.Tool), cmp.Or(q.Approvers, "somebody else"))
		return nil
	}
	fmt.Fprintf(d.Stderr, "%s\n", d.shown(&q, false))
	for {
		v, err := d.answer(ctx, &q)
		if err != nil {
			return err
		}
		err = d.s.AnswerApproval(ctx, q.ID, v)
		switch {
		case answeredElsewhere(err):
			d.Note("it was answered elsewhere")
			return nil
		case err != nil && (v.Args != nil || v.Standing != "") && fault.Is(err, fault.Invalid):
			d.Note("%s", err) // ask again with the arguments as they are
		default:
			return err
		}
	}
}

// answeredElsewhere reports whether a question is open no more.
func answeredElsewhere(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.NotFound)
}

// shown describes a question, with all details or without.
func (d *decider) shown(q *effect.Question, whole bool) string {
	return terminal.QuestionShown(q, d.Width(), time.Now(), whole, "d shows")
}

// ofPlan reports whether a question is about a plan, or asked by one.
func ofPlan(tool string) bool { return strings.HasPrefix(tool, "plan.") }

// explainWaiting shows a question that nobody can be asked, and says how to answer it later.
func (d *decider) explainWaiting(q *effect.Question) error {
	if err := command.PrintValue(d.Program, *q, nil, func(effect.Question) string { return d.shown(q, true) }); err != nil {
		return err
	}
	then := ""
	if d.s.IsLocal() {
		then = "; it continues when Steward runs: steward serve, or steward chat"
	}
	d.Note("it waits for you: steward approvals approve %s, or deny%s", q.Short[:8], then)
	return errPlanWaits
}

// answer asks until there is an answer. A standing approval is shown before it is given.
func (d *decider) answer(ctx context.Context, q *effect.Question) (client.Answer, error) {
	keys := "Allow it? [y]es, [n]o, this [c]onversation, always ([p]), [e]dit, [d]etails: "
	switch {
	case ofPlan(q.Tool):
		keys = "Carry it out? [y]es, [n]o, [d]etails, [e]dit: "
	case q.NoGrant != "":
		keys = "Allow it? [y]es, [n]o, [e]dit, [d]etails: "
	}
	for {
		v := client.Answer{Hash: q.Hash, Approve: true}
		fmt.Fprint(d.Stderr, keys)
		line, err := d.in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(d.Stderr)
			return v, fault.New(fault.Cancelled, "approval_open", "the question was not answered, and stays open").
				WithHint("steward approvals approve %s, or deny", q.Short[:8])
		} else if err != nil {
			return v, err
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "y" || word == "yes":
			return v, nil
		case word == "n" || word == "no":
			v.Approve = false
			return v, nil
		case word == "e":
			if v.Args, err = d.edited(ctx, string(q.Args)); err == nil {
				return v, nil
			}
			d.Note("%s", err)
		case word == "d":
			fmt.Fprintf(d.Stderr, "%s\n", d.shown(q, true))
		case q.NoGrant == "" && !ofPlan(q.Tool) && (word == "c" || word == "p"):
			v.Standing = string(effect.InConversation)
			if word == "p" {
				v.Standing = string(effect.Always)
			}
			p, err := d.chooseWidth(d.in, q)
			if err != nil {
				return v, err
			}
			wider, err := question(ctx, d.s, q.ID, p)
			if err != nil {
				return v, err
			}
			v.Hash, v.Pattern = wider.Hash, wider.Pattern
			if ok, err := d.Confirm(d.in, "%sAllow that?", termsOf(&wider, v)); err != nil || ok {
				return v, err
			}
		}
	}
}

// edited returns arguments as the person changed them in an editor.
func (d *decider) edited(ctx context.Context, args string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(args), "", "  "); err != nil {
		return nil, err
	}
	text, err := d.Edit(ctx, "plan.json", b.Bytes())
	if text = strictly.Unmarked(text); err == nil && !json.Valid(text) {
		err = errors.New("this is not valid JSON, so nothing was changed")
	}
	return text, err
}
