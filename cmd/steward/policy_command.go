package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/policy/rego"
)

func (a *app) policyCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "policy", Aliases: []string{"policies"}, Short: "See, test and change what agents may do", GroupID: "look",
		Long: "What agents may see and do is decided by policies: rules in small text files. Steward brings some along,\n" +
			"and you add your own to the folder policies of the data folder. They are in force as soon as they are\n" +
			"saved. A rule of yours can forbid anything and ask for anything; what it may loosen is said in the files.\n" +
			"docs/guides/policies.md is an introduction for who has never seen such rules.",
	}, a.showPolicy(), a.explainPolicy(), a.checkPolicy(), a.testPolicy(), a.usePolicy())
}

// policyFiles is what lies in the data folder, with what Steward brings along;
// the error says why it cannot be in force.
func (a *app) policyFiles() (string, rego.Loaded, error) {
	set, err := a.settings()
	if err != nil {
		return "", rego.Loaded{}, err
	}
	dir := policiesFolder(set.Data)
	p, err := rego.Check(dir, policySettings(set))
	return dir, p, err
}

func (a *app) showPolicy() *cobra.Command {
	var input bool
	c := &cobra.Command{
		Use: "show [FILE…]", Short: "List the policies, or show what they say",
		Long: "List the files of the policies, or print those that are named: default/tools.rego, or one of your own.\n" +
			"--input lists what rules can go by.",
		Example: "  steward policy show\n  steward policy show default/tools.rego\n  steward policy show --input",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_, p, _ := a.policyFiles() // what can be read is offered
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
			dir, p, err := a.policyFiles()
			if err != nil && len(p.Files) == 0 {
				return err
			}
			if len(args) > 0 {
				return a.printPolicies(p, args)
			}
			return a.listPolicies(dir, p, err)
		},
	}
	c.Flags().BoolVar(&input, "input", false, "list what rules can go by")
	return c
}

func (a *app) showInput() error {
	seen := rego.Input()
	if a.json {
		return a.printJSON(seen)
	}
	var rows [][]string
	for _, f := range seen {
		rows = append(rows, []string{"input." + f.Path, f.About})
	}
	return a.print(columns(append(rows, []string{"data.settings.approve", `the setting approve: "actions" or "unfixed"`},
		[]string{"data.NAME", "what your file data.json has under NAME"}), 0))
}

// printPolicies prints files as they are.
func (a *app) printPolicies(p rego.Loaded, names []string) error {
	var found []rego.File
	for _, name := range names {
		n := len(found)
		for _, f := range p.Files {
			if f.Name == name || f.Name == rego.DefaultPrefix+name {
				found = append(found, f)
				break
			}
		}
		if len(found) == n {
			return fault.New(fault.NotFound, "policy_not_found", "there is no file %.100q of policies", name).WithHint("steward policy show lists them")
		}
	}
	if a.json {
		return a.printJSON(found)
	}
	for i, f := range found {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if _, err := fmt.Fprint(a.stdout, f.Text); err != nil {
			return err
		}
	}
	return nil
}

// listPolicies lists the files. Where they cannot be in force, that is the
// error in the end.
func (a *app) listPolicies(dir string, p rego.Loaded, broken error) error {
	if a.json {
		type file struct {
			Name  string `json:"name"`
			Rules int    `json:"rules"`
		}
		out := struct {
			Version string `json:"version,omitzero"`
			Folder  string `json:"folder"`
			Files   []file `json:"files"`
			Tests   int    `json:"tests"`
		}{p.Version, dir, []file{}, p.Tests}
		for _, f := range p.Files {
			out.Files = append(out.Files, file{f.Name, rules(f.Text)})
		}
		return errors.Join(a.printJSON(out), broken)
	}
	var rows [][]string
	for _, f := range p.Files {
		rows = append(rows, []string{f.Name, counted(rules(f.Text), "rule", "rules"), cmp.Or(headline(f.Text), "your own")})
	}
	if err := a.print(columns(rows, 0)); err != nil || broken != nil {
		return errors.Join(err, broken)
	}
	fmt.Fprintf(a.stdout, "\nversion %s; your own lie in %s\n", p.Version, dir)
	return nil
}

// deciding begins a rule that decides, or that adds to what Steward's own
// rules go by.
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

// headline is the first line of a file's first comment.
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

func (a *app) checkPolicy() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Tell whether the policies in the data folder hold", Args: cobra.NoArgs,
		Long: "Read the policies in the data folder as Steward does, and tell every fault with its file and line.\n" +
			"A faulty version is never in force: a Steward that runs goes on with the one before.",
		RunE: func(*cobra.Command, []string) error {
			_, p, err := a.policyFiles()
			if err != nil {
				return err
			}
			own := 0
			for _, f := range p.Files {
				if !strings.HasPrefix(f.Name, rego.DefaultPrefix) {
					own++
				}
			}
			if a.json {
				return a.printJSON(struct {
					Version string `json:"version"`
					Own     int    `json:"own"`
					Tests   int    `json:"tests"`
				}{p.Version, own, p.Tests})
			}
			fmt.Fprintf(a.stdout, "the policies hold: version %s, %s of your own\n", p.Version, counted(own, "file", "files"))
			return nil
		},
	}
}

func (a *app) testPolicy() *cobra.Command {
	return &cobra.Command{
		Use: "test [DIR]", Short: "Run your tests of the policies", Args: cobra.MaximumNArgs(1),
		Long: "Run the rules test_NAME in files that end in _test.rego, with the policies in the same folder and those\n" +
			"that Steward brings along. Without a DIR, those of the data folder. Exits with 1 if one fails.",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.settings()
			if err != nil {
				return err
			}
			dir := policiesFolder(set.Data)
			if len(args) > 0 {
				dir = a.path(args[0])
			}
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return fault.New(fault.NotFound, "policy_no_tests", "there is no folder %s", dir).WithHint("name the folder that your policies lie in")
			}
			tests, err := rego.Test(c.Context(), dir, policySettings(set))
			if err != nil {
				return err
			}
			failed := 0
			for _, t := range tests {
				if !t.Passed {
					failed++
				}
			}
			if a.json {
				err = a.printJSON(orEmpty(tests))
			} else {
				err = a.printTests(tests, failed)
			}
			if err == nil && failed > 0 {
				err = exitCode(exitFailed)
			}
			return err
		},
	}
}

func (a *app) printTests(tests []rego.Tested, failed int) error {
	wide := 0
	for _, t := range tests {
		wide = max(wide, len(t.Name))
	}
	for _, t := range tests {
		mark := "ok  "
		if !t.Passed {
			mark = "FAIL"
		}
		fmt.Fprintf(a.stdout, "%s  %-*s  %s\n", mark, wide, t.Name, t.Where)
		switch {
		case t.Error != "":
			fmt.Fprintf(a.stdout, "      %s\n", t.Error)
		case t.Failed != "":
			fmt.Fprintf(a.stdout, "      %s: does not hold: %s\n", t.FailedAt, t.Failed)
		}
	}
	var took time.Duration
	for _, t := range tests {
		took += t.Took
	}
	_, err := fmt.Fprintf(a.stdout, "\n%d passed, %d failed in %s\n", len(tests)-failed, failed, took.Round(time.Millisecond))
	return err
}

func (a *app) usePolicy() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "use [TEMPLATE]", Short: "Take a template of rules for a family, a team or a company", Args: cobra.MaximumNArgs(1),
		Long: "Write a template into the folder of your policies, as " + rego.TemplateFile + ", in place of the one before. Without a\n" +
			"TEMPLATE, list those that there are. Read what it says: steward policy show " + rego.TemplateFile + ".",
		ValidArgs: []cobra.Completion{"default", "family", "team", "locked"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listTemplates()
			}
			set, err := a.settings()
			if err != nil {
				return err
			}
			dir := policiesFolder(set.Data)
			file, err := rego.Use(dir, args[0], force)
			if err != nil {
				return err
			}
			p, err := rego.Check(dir, policySettings(set))
			switch {
			case err != nil:
				return err
			case a.json:
				return a.printJSON(struct {
					Template string `json:"template"`
					File     string `json:"file,omitzero"`
					Version  string `json:"version"`
				}{args[0], file, p.Version})
			case file == "":
				a.note("no template is used any more; the rules of %s stand", filepath.Clean(dir))
			default:
				a.note("%s is used: %s", args[0], file)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also where the one before was changed by hand; it is kept beside it, out of force")
	return c
}

func (a *app) listTemplates() error {
	all, err := rego.Templates()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(all)
	}
	var rows [][]string
	for _, t := range all {
		rows = append(rows, []string{t.Name, t.About})
	}
	return a.print(columns(rows, 0))
}
