package access

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/activity"
	"steward/internal/cli/command"
	"steward/internal/explain"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/policy"
	"steward/internal/policy/rego"
)

func (a *program) policyCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "policy", Aliases: []string{"policies"}, Short: "Show, test and change what agents may do", GroupID: "look",
		Long: "Policies decide what agents may see and do. They are rules in small text files. Steward has built-in\n" +
			"ones, and you add your own to the folder policies of the data folder. They take effect as soon as they\n" +
			"are saved. Your rules can forbid anything and require approval for anything; the files say what they may\n" +
			"loosen. docs/guides/policies.md is an introduction for people who have never seen such rules.",
	}, a.showPolicy(), a.explainPolicy(), a.checkPolicy(), a.testPolicy(), a.usePolicy())
}

// PolicyFiles reads the policies of the data folder and the built-in ones. The error says
// why they cannot take effect.
func PolicyFiles(a *command.Program) (string, rego.Loaded, error) {
	set, err := a.Settings()
	if err != nil {
		return "", rego.Loaded{}, err
	}
	dir := app.PoliciesFolder(set.Data)
	p, err := rego.Check(dir, app.PolicySettings(set))
	return dir, p, err
}

func (a *program) showPolicy() *cobra.Command {
	var input bool
	c := &cobra.Command{
		Use: "show [FILE…]", Short: "List the policies, or print them",
		Long: "List the policy files, or print those that are named: default/tools.rego, or one of your own. --input\n" +
			"lists the input that rules can use.",
		Example: "  steward policy show\n  steward policy show default/tools.rego\n  steward policy show --input",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_, p, _ := PolicyFiles(a.Program) // offer what can be read
			var names []cobra.Completion
			for _, f := range p.Files {
				names = append(names, f.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if input {
				return a.showInput()
			}
			dir, p, err := PolicyFiles(a.Program)
			if err != nil && len(p.Files) == 0 {
				return err
			}
			if len(args) > 0 {
				return a.printPolicies(p, args)
			}
			return a.listPolicies(dir, p, err)
		},
	}
	c.Flags().BoolVar(&input, "input", false, "list the input that rules can use")
	return c
}

func (a *program) showInput() error {
	return command.PrintValue(a.Program, rego.Input(), nil, func(seen []rego.InputField) string {
		var rows [][]string
		for _, f := range seen {
			rows = append(rows, []string{"input." + f.Path, f.About})
		}
		return command.Columns(append(rows, []string{"data.settings.approve", `the setting approve: "actions" or "unfixed"`},
			[]string{"data.NAME", "what your file data.json has under NAME"}), 0)
	})
}

// printPolicies prints files as they are.
func (a *program) printPolicies(p rego.Loaded, names []string) error {
	var found []rego.File
	for _, name := range names {
		i := slices.IndexFunc(p.Files, func(f rego.File) bool { return f.Name == name || f.Name == rego.DefaultPrefix+name })
		if i < 0 {
			return fault.New(fault.NotFound, "policy_not_found", "there is no policy file %.100q", name).WithHint("steward policy show lists them")
		}
		found = append(found, p.Files[i])
	}
	return command.PrintValue(a.Program, found, nil, func(found []rego.File) string {
		var texts []string
		for _, f := range found {
			texts = append(texts, f.Text)
		}
		return strings.Join(texts, "\n")
	})
}

// policyList is what steward policy show --json writes.
type policyList struct {
	Version string           `json:"version,omitzero"`
	Folder  string           `json:"folder"`
	Files   []policyListFile `json:"files"`
	Tests   int              `json:"tests"`
}

type policyListFile struct {
	Name  string `json:"name"`
	Rules int    `json:"rules"`
}

// listPolicies lists the files. If they cannot take effect, it returns that error.
func (a *program) listPolicies(dir string, p rego.Loaded, broken error) error {
	out := policyList{p.Version, dir, []policyListFile{}, p.Tests}
	var rows [][]string
	for _, f := range p.Files {
		n := rules(f.Text)
		out.Files = append(out.Files, policyListFile{f.Name, n})
		rows = append(rows, []string{f.Name, app.Plural(n, "rule"), cmp.Or(headline(f.Text), "your own")})
	}
	return errors.Join(command.PrintValue(a.Program, out, nil, func(policyList) string {
		if broken != nil {
			return command.Columns(rows, 0)
		}
		return command.Columns(rows, 0) + fmt.Sprintf("\nversion %s; your own are in %s\n", p.Version, dir)
	}), broken)
}

// deciding matches the beginning of a rule that decides, or that adds to what the built-in
// rules use.
var deciding = regexp.MustCompile(`^((allow|ask|deny|approvers|cap|mask|stays_local|everyone_sees) contains |trusted (if|:=|=) ?)`)

// rules counts the rules that decide.
func rules(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		if deciding.MatchString(line) {
			n++
		}
	}
	return n
}

// headline returns the first line of a file's first comment.
func headline(text string) string {
	for line := range strings.Lines(text) {
		if s, ok := strings.CutPrefix(line, "# "); ok {
			return strings.TrimSpace(s)
		}
		if strings.TrimSpace(line) != "" {
			break
		}
	}
	return ""
}

// policyCheck is what steward policy check --json writes.
type policyCheck struct {
	Version string `json:"version"`
	Own     int    `json:"own"`
	Tests   int    `json:"tests"`
}

func (a *program) checkPolicy() *cobra.Command {
	return &cobra.Command{Use: "check", Short: "Check the policies in the data folder for errors",
		Long: "Read the policies in the data folder as Steward does, and report every error with its file and line. A\n" +
			"version with errors never takes effect: a running Steward keeps the one before.",
		RunE: func(*cobra.Command, []string) error {
			_, p, err := PolicyFiles(a.Program)
			return command.PrintValue(a.Program, policyCheck{p.Version, OwnPolicies(p), p.Tests}, err, func(c policyCheck) string {
				return fmt.Sprintf("the policies are valid: version %s, %s of your own\n", c.Version, app.Plural(c.Own, "file"))
			})
		}}
}

// OwnPolicies counts the user's own files.
func OwnPolicies(p rego.Loaded) (own int) {
	for _, f := range p.Files {
		if !strings.HasPrefix(f.Name, rego.DefaultPrefix) {
			own++
		}
	}
	return own
}

func (a *program) testPolicy() *cobra.Command {
	return &cobra.Command{
		Use: "test [DIR]", Short: "Run your tests of the policies",
		Long: "Run the rules test_NAME in files that end in _test.rego, with the policies in the same folder and those\n" +
			"built into Steward. Without a DIR, those of the data folder. The exit code is 1 if one fails.",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			dir := app.PoliciesFolder(set.Data)
			if len(args) > 0 {
				dir = a.Path(args[0])
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return fault.New(fault.NotFound, "policy_no_tests", "there is no folder %s", dir).WithHint("name the folder of your policies")
			}
			tests, err := rego.Test(c.Context(), dir, app.PolicySettings(set))
			if err != nil {
				return err
			}
			failed := 0
			for _, t := range tests {
				if !t.Passed {
					failed++
				}
			}
			if a.JSON {
				err = a.PrintJSON(command.OrEmpty(tests))
			} else {
				err = a.printTests(tests, failed)
			}
			if err == nil && failed > 0 {
				err = command.ExitCode(command.ExitFailed)
			}
			return err
		},
	}
}

func (a *program) printTests(tests []rego.Tested, failed int) error {
	wide := 0
	for _, t := range tests {
		wide = max(wide, len(t.Name))
	}
	for _, t := range tests {
		mark := "ok  "
		if !t.Passed {
			mark = "FAIL"
		}
		fmt.Fprintf(a.Stdout, "%s  %-*s  %s\n", mark, wide, t.Name, t.Where)
		switch {
		case t.Error != "":
			fmt.Fprintf(a.Stdout, "      %s\n", t.Error)
		case t.Failed != "":
			fmt.Fprintf(a.Stdout, "      %s: is false: %s\n", t.FailedAt, t.Failed)
		}
	}
	var took time.Duration
	for _, t := range tests {
		took += t.Took
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%d passed, %d failed in %s\n", len(tests)-failed, failed, took.Round(time.Millisecond))
	return err
}

func (a *program) usePolicy() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "use [TEMPLATE]", Short: "Use a template of rules for a family, a team or a company",
		Long: "Write a template into the folder of your policies, as " + rego.TemplateFile + ", replacing the previous one. Without a\n" +
			"TEMPLATE, list the available ones. To read it: steward policy show " + rego.TemplateFile + ".",
		ValidArgs: []cobra.Completion{"default", "family", "team", "locked"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listTemplates()
			}
			set, err := a.Settings()
			if err != nil {
				return err
			}
			dir := app.PoliciesFolder(set.Data)
			file, err := rego.Use(dir, args[0], force)
			if err != nil {
				return err
			}
			p, err := rego.Check(dir, app.PolicySettings(set))
			say := fmt.Sprintf("%s is used: %s", args[0], file)
			if file == "" {
				say = fmt.Sprintf("no template is used any more; the rules in %s still apply", filepath.Clean(dir))
			}
			return a.PrintDone(struct {
				Template string `json:"template"`
				File     string `json:"file,omitzero"`
				Version  string `json:"version"`
			}{args[0], file, p.Version}, err, "%s", say)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the old one even if it was changed by hand; an inactive copy is kept")
	return c
}

func (a *program) listTemplates() error {
	all, err := rego.Templates()
	return command.PrintList(a.Program, all, err, "", func(all []rego.Template) string {
		var rows [][]string
		for _, t := range all {
			rows = append(rows, []string{t.Name, t.About})
		}
		return command.Columns(rows, 0)
	})
}

func (a *program) explainPolicy() *cobra.Command {
	var q explain.Question
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
		ValidArgsFunction: activity.CompleteIntents(a.Program, ""),
		RunE: func(c *cobra.Command, rest []string) error {
			q.Point = policy.Point(point)
			if args != "" {
				if !json.Valid([]byte(args)) {
					return command.Usage("--args must be JSON, such as '{\"to\": \"bob\"}', not %s", args)
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
					return command.Usage("--conversation must be a whole id, not %s", conversation)
				}
			}
			if len(rest) == 1 {
				if err := asked(&q, rest[0]); err != nil {
					return err
				}
			}
			if len(rest) == 0 && c.Flags().NFlag() == 0 {
				return command.Usage("name the request, or describe one with flags such as --tool")
			}
			var out struct{ Answers []explain.Answer }
			err := a.With(c.Context(), command.NeedIdleNode, func(s *command.Session) error {
				return s.Call(c.Context(), "POST /policy/explain", nil, q, &out)
			})
			return command.PrintValue(a.Program, out.Answers, err, func(answers []explain.Answer) string {
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
	command.CompleteFlag(c, "point", command.Words(points...))
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
	command.CompleteFlag(c, "effect", command.Words("query", "action"))
	command.CompleteFlag(c, "action", command.Words("read", "write", "delete"))
	return c
}

// asked parses the question: JSON or an id.
func asked(q *explain.Question, arg string) error {
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
func explained(x explain.Answer, all, input bool) string {
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
		then := fmt.Sprintf("%s: %s", command.MinuteOf(r.At), r.Reason)
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
	fmt.Fprintf(&b, "%s\n\n%s", command.PlainLine(x.About), command.Fields(10, rows))
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
		fmt.Fprintf(&b, "%s %-5s  %-*s  %s\n", mark, r.Verdict, wide, r.Where, command.PlainLine(text))
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
			line("·", r, "needs "+cmp.Or(r.Failed, "what did not hold")+atLine(r))
		}
	}
	if silent > 0 {
		fmt.Fprintf(&b, "  %s that would deny or ask did not hold (--all shows them)\n", app.Counted(silent, "rule", "rules"))
	}
	return b.String()
}

// atLine names the line of the condition that did not hold.
func atLine(r rego.RuleTrace) string {
	if r.FailedAt == "" {
		return ""
	}
	_, line, _ := strings.Cut(r.FailedAt, ":")
	return " (line " + line + ")"
}
