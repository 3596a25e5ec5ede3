package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/secret/mask"
	"steward/internal/terminal"
	"steward/internal/tool"
	"steward/internal/tools/skills"
)

func (a *program) skillsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "skills", Aliases: []string{"skill"}, Short: "Add skills: instructions for kinds of work", GroupID: "keep",
		Long: "Add skills: folders with a SKILL.md that tell the model how a kind of work is done. You see a\n" +
			"skill's whole content before you approve it; the model reads only what you have approved.",
	}, a.addSkill(), a.listSkills(), a.showSkill(), a.updateSkill(), a.removeSkill())
}

func (a *program) addSkill() *cobra.Command {
	var only string
	var yes bool
	c := &cobra.Command{
		Use: "add SOURCE", Short: "Approve a skill of a folder, a .zip or a git repository", Args: cobra.ExactArgs(1),
		Example: "  steward skills add ./pdf-forms\n  steward skills add skills.zip --only pdf-forms\n  steward skills add https://example.com/skills.git --only pdf-forms",
		RunE: func(c *cobra.Command, args []string) error {
			source := args[0]
			if !strings.Contains(source, "://") && !strings.HasPrefix(source, "git@") {
				source = a.Path(source)
			}
			return a.takeSkill(c.Context(), source, only, yes)
		},
	}
	c.Flags().StringVar(&only, "only", "", "the skill called `NAME`, if the source has several")
	c.Flags().BoolVar(&yes, "yes", false, "approve without being asked")
	return c
}

// takeSkill fetches a skill, shows what is new in it, and stores it if the user approves.
func (a *program) takeSkill(ctx context.Context, source, only string, yes bool) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	found, err := skills.Fetch(ctx, source)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	i := slices.IndexFunc(found, func(s *skills.Skill) bool { return s.Name == only || only == "" && len(found) == 1 })
	if i < 0 {
		return fault.New(fault.Invalid, "skill_ambiguous", "the source has the skills %s", strings.Join(names, ", ")).WithHint("name one with --only")
	}
	sk, store := found[i], app.SkillStore(set)
	old, rec, err := store.Get(ctx, sk.Name)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.HasCode(err, "skill_changed") {
		return err
	}
	if err == nil && rec.Hash == sk.Hash() {
		a.Note("the skill %s is approved as it is", sk.Name)
		return nil
	}
	text, hidden := a.WithoutSecrets(sk.Diff(old))
	fmt.Fprint(a.Stdout, terminal.Visible(text))
	if hidden {
		a.Note("steward: what looks like a secret is shown as %s; a model that reads the skill sees it. Its files are in %s", mask.Secret, sk.Source)
	}
	if !yes {
		if !app.IsTerminal(a.Stdin) {
			return fault.New(fault.Invalid, "approval_unattended", "approving a skill requires a terminal to ask at").WithHint("read it, then add --yes")
		}
		if ok, err := a.Confirm(nil, "Approve the skill %s (%s)?", sk.Name, sk.Hash()[:12]); !ok {
			return err
		}
	}
	if err := store.Approve(sk, time.Now()); err != nil {
		return err
	}
	a.Note("approved the skill %s (%s)", sk.Name, sk.Hash()[:12])
	return nil
}

func (a *program) listSkills() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the approved skills", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			list, err := app.SkillStore(set).List()
			return command.PrintList(a.Program, list, err, "there are no skills", func(list []skills.Record) string {
				rows := [][]string{{"NAME", "APPROVED", "WHAT FOR"}}
				for _, r := range list {
					rows = append(rows, []string{r.Name, r.Approved.Local().Format(time.DateOnly), terminal.Visible(tool.Clip(r.Description, 80))})
				}
				return command.Columns(rows, 0)
			})
		},
	}
}

func (a *program) showSkill() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an approved skill", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSkills,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			sk, rec, err := app.SkillStore(set).Get(c.Context(), args[0])
			if err != nil {
				return err
			}
			text, _ := a.WithoutSecrets(sk.Files["SKILL.md"])
			return command.PrintValue(a.Program, rec, nil, func(r skills.Record) string {
				return fmt.Sprintf("%s: %s\nfrom      %s\nhash      %s\napproved  %s\n\n%s", r.Name, terminal.Visible(r.Description), r.Source, r.Hash,
					r.Approved.Local().Format(time.DateTime), terminal.Visible(text))
			})
		},
	}
}

func (a *program) updateSkill() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "update NAME", Short: "Fetch a skill again from where it came, and approve what has changed", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeSkills,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			_, rec, err := app.SkillStore(set).Get(c.Context(), args[0])
			if err != nil && !fault.HasCode(err, "skill_changed") {
				return err
			}
			return a.takeSkill(c.Context(), rec.Source, args[0], yes)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "approve without being asked")
	return c
}

func (a *program) removeSkill() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Aliases: []string{"rm"}, Short: "Remove skills", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeSkills,
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := app.SkillStore(set).Remove(name); err != nil {
					return err
				}
				a.Note("removed the skill %s", name)
			}
			return nil
		},
	}
}

// completeSkills offers the names of skills.
func (a *program) completeSkills(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if set, err := a.Settings(); err == nil {
		list, _ := app.SkillStore(set).List() // without a list nothing is offered
		for _, r := range list {
			names = append(names, r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
