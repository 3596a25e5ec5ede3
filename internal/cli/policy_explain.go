package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
)

func (a *program) explainPolicy() *cobra.Command {
	var q runtime.PolicyQuestion
	var args, lineage, point, conversation string
	var input, all bool
	c := &cobra.Command{
		Use: "explain [REQUEST]", Short: "Explain a decision: which rule made it, and why",
		Long: "Explain how policy decides about a REQUEST that was judged (the id of an action, or of a request or turn\n" +
			"with actions, or the beginning of it), or about a hypothetical one that you describe with flags, or as\n" +
			"JSON instead of the REQUEST. For each rule that applies to it, the output says whether it held, and if\n" +
			"not, why not.",
		Example: "  steward policy explain 0193b2c4\n" +
			"  steward policy explain --tool mail.send --user ann --args '{\"to\": \"bob@example.org\"}'\n" +
			"  steward policy explain --tool web.fetch --labels private,untrusted --late\n" +
			"  steward policy explain --point model --model openai/gpt-5.4 --labels secret\n" +
			"  steward policy explain '{\"point\": \"access\", \"action\": \"read\", \"type\": \"home.Note\", \"space\": \"group:family\"}'",
		ValidArgsFunction: a.completeIntents(""),
		RunE: func(c *cobra.Command, rest []string) error {
			q.Point = policy.Point(point)
			if args != "" {
				if !json.Valid([]byte(args)) {
					return usage("--args must be JSON, such as '{\"to\": \"bob\"}', not %s", args)
				}
				q.Args = json.RawMessage(args)
			}
			if q.Point == policy.PointModel {
				set, err := a.Settings()
				if err != nil {
					return err
				}
				q.Model, q.Local = a.Model, q.Local || app.Places(set)(a.Model)
			}
			if lineage != "" {
				q.Lineage = strings.Split(lineage, ",")
			}
			if conversation != "" {
				var ok bool
				if q.Conversation, ok = id.Parse(conversation); !ok {
					return usage("--conversation must be a whole id, not %s", conversation)
				}
			}
			if len(rest) == 1 {
				if err := asked(&q, rest[0]); err != nil {
					return err
				}
			}
			if len(rest) == 0 && c.Flags().NFlag() == 0 {
				return usage("name the request, or describe one with flags such as --tool")
			}
			var out struct{ Answers []runtime.PolicyAnswer }
			err := a.with(c.Context(), toLook, func(s *session) error {
				return s.Call(c.Context(), "POST /policy/explain", nil, q, &out)
			})
			return tell(a, out.Answers, err, func(answers []runtime.PolicyAnswer) string {
				var texts []string
				for _, x := range answers {
					texts = append(texts, explained(x, all, input))
				}
				return strings.Join(texts, "\n")
			})
		},
	}
	f := c.Flags()
	f.StringVar(&point, "point", "", "the `POINT` of decision: tool (the default), intent, access, agent, model, delegate")
	f.StringVar(&q.Tool, "tool", "", "the `NAME` of the tool that is called")
	f.StringVar(&q.Effect, "effect", "", "for a tool that does not exist yet: its `EFFECT`, query or action")
	f.StringVar(&args, "args", "", "its arguments, as `JSON`")
	f.StringVar(&q.User, "user", "", "the `NAME` of the user on whose behalf it is called; by default you")
	f.StringVar(&q.Agent, "agent", "", "the `PATH` of the agent that acts")
	f.StringVar(&lineage, "lineage", "", "the agents on whose behalf it acts: `PATH,PATH`, outermost first")
	f.StringVar(&conversation, "conversation", "", "the `ID` of the conversation in which it is called: approvals may cover only one conversation")
	f.StringVar(&q.Labels, "labels", "", "the `LABELS` of what the model has read: private, untrusted, secret, separated by commas")
	f.BoolVar(&q.Late, "late", false, "the call was decided after something untrusted was read")
	f.BoolVar(&q.Alone, "alone", false, "no person can be asked for approval")
	f.StringVar(&q.Action, "action", "", "access: the `ACTION`, read, write or delete")
	f.StringVar(&q.Type, "type", "", "access: the resource's `TYPE`, such as home.Note")
	f.StringVar(&q.Space, "space", "", "access: the `OWNER`: user:ann, group:family, system")
	f.BoolVar(&q.Local, "local", false, "model: the one named by --model runs locally; by default the settings decide")
	f.StringVar(&q.Target, "target", "", "the `PATH` of the agent that is asked (delegate) or approved (agent)")
	f.BoolVar(&input, "input", false, "show the complete input of the policies")
	f.BoolVar(&all, "all", false, "also show all rules that did not hold")
	var points []string
	for _, p := range policy.Points() {
		points = append(points, string(p))
	}
	complete(c, "point", words(points...))
	complete(c, "conversation", a.completeConversations)
	complete(c, "effect", words("query", "action"))
	complete(c, "action", words("read", "write", "delete"))
	return c
}

// asked parses the question: JSON or an id.
func asked(q *runtime.PolicyQuestion, arg string) error {
	if !strings.HasPrefix(strings.TrimSpace(arg), "{") {
		q.Request = arg
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(arg))
	dec.DisallowUnknownFields()
	if err := dec.Decode(q); err != nil {
		return fault.New(fault.Invalid, "policy_question", "the question cannot be read: %w", err).
			WithHint(`write it like {"tool": "mail.send", "user": "ann", "args": {"to": "bob"}}`)
	}
	return nil
}

// explained formats an answer.
func explained(x runtime.PolicyAnswer, all, input bool) string {
	rows := [][2]string{{string(x.Verdict), x.Reason}, {"rule", x.Rule}, {"because of", x.Agent}}
	row := func(name, text string) { rows = append(rows, [2]string{name, text}) }
	if x.Approvers != "" {
		row("approvers", "a member of the group "+x.Approvers)
	}
	if x.Cap > 0 {
		row("cap", fmt.Sprintf("%d bytes of the result are shown to the model", x.Cap))
	}
	row("mask", strings.Join(x.Mask, ", "))
	row("grant", x.Grant)
	row("note", x.Note)
	row("policy", x.Version)
	if r := x.Recorded; r != nil {
		then := fmt.Sprintf("%s: %s", minuteOf(r.At), r.Reason)
		if r.Rule != "" {
			then += ", by " + r.Rule
		}
		if r.Policy != "" && r.Policy != x.Version {
			then += ", under another policy (" + r.Policy + ")"
		}
		row("then", then)
		row("state", strings.ReplaceAll(r.State, "_", " "))
		if r.Gone {
			row("note", "the tool is not there any more; it is judged by its name alone")
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s", plainLine(x.About), fields(10, rows))
	b.WriteString("\n" + ruleTable(x.Rules, all))
	if input {
		var doc bytes.Buffer
		if json.Indent(&doc, x.Input, "", "  ") != nil {
			doc.Reset()
			doc.Write(x.Input)
		}
		fmt.Fprintf(&b, "\ninput\n%s\n", doc.String())
	}
	return b.String()
}

// ruleTable lists the rules that apply to a question, those that held first.
func ruleTable(list []rego.RuleTrace, all bool) string {
	var b strings.Builder
	wide := 0
	for _, r := range list {
		wide = max(wide, len(r.Where))
	}
	line := func(mark string, r rego.RuleTrace, text string) {
		fmt.Fprintf(&b, "%s %-5s  %-*s  %s\n", mark, r.Verdict, wide, r.Where, plainLine(text))
	}
	silent := 0
	for _, r := range list {
		if r.Fired {
			line("✓", r, strings.Join(r.Reasons, "; "))
		}
	}
	for _, r := range list {
		switch {
		case r.Fired:
		case !all && r.Verdict != policy.Allow && len(list) > 8:
			silent++
		default:
			line("·", r, "needs "+cmp.Or(r.Failed, "what did not hold")+onLine(r))
		}
	}
	if silent > 0 {
		fmt.Fprintf(&b, "  %s that would deny or ask did not hold (--all shows them)\n", app.Counted(silent, "rule", "rules"))
	}
	return b.String()
}

// onLine names the line of the condition that did not hold.
func onLine(r rego.RuleTrace) string {
	if r.FailedAt == "" {
		return ""
	}
	_, line, _ := strings.Cut(r.FailedAt, ":")
	return " (line " + line + ")"
}
