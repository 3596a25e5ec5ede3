package talk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/tools/goal"
)

// effortCommands are the commands about goals, or those about projects.
type effortCommands struct {
	*program
	kind string // client.Goals or client.Projects
	one  string // in the singular
	ref  string // how the usage names one
}

func (a *program) goalsCommand() *cobra.Command {
	e := effortCommands{a, client.Goals, "goal", "GOAL"}
	return command.Group(&cobra.Command{
		Use: client.Goals, Aliases: []string{"goal"}, Short: "Keep your long-term goals", GroupID: "keep",
		Long: "A goal is a long-term objective. It has a description, success criteria, milestones, next actions and\n" +
			"progress notes, and projects that belong to it. Name it by its title, by words of that, or by its id.\n" +
			"Agents read and update goals with the tools goal.list, goal.create, goal.progress and others.",
	}, append(e.commands(), e.changes())...)
}

func (a *program) projectsCommand() *cobra.Command {
	e := effortCommands{a, client.Projects, "project", "PROJECT"}
	return command.Group(&cobra.Command{
		Use: client.Projects, Aliases: []string{"project"}, Short: "Keep your projects, and what to do next in them", GroupID: "keep",
		Long: "A project is a medium-term initiative. It has milestones, next actions and progress notes, and may belong\n" +
			"to a goal. Name it by its title, by words of that, or by its id.",
	}, append(e.commands(), e.status("archive", "archived", "Put a project away that is over"))...)
}

func (e effortCommands) commands() []*cobra.Command {
	return []*cobra.Command{
		e.list(), e.show(), e.add(), e.edit(), e.progress(), e.milestone(), e.next(), e.link(),
		e.status("done", "completed", "Mark a "+e.one+" as completed"),
		e.status("drop", "dropped", "Give a "+e.one+" up"),
		e.status("pause", "paused", "Pause a "+e.one+": no review mentions it"),
		e.status("resume", "active", "Make a "+e.one+" active again"),
		e.remove(),
	}
}

// use returns a command about one goal or project.
func (e effortCommands) use(verb, more, short string) *cobra.Command {
	return &cobra.Command{Use: strings.TrimSpace(verb + " " + e.ref + " " + more), Short: short, ValidArgsFunction: e.complete()}
}

// changing makes a command that changes a goal or project.
func (e effortCommands) changing(c *cobra.Command, change func(args []string) (client.EffortChange, error)) *cobra.Command {
	return e.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		ch, err := change(args[1:])
		if err != nil {
			return err
		}
		v, err := s.ChangeEffort(ctx, e.kind, args[0], ch)
		return e.done(v, err)
	})
}

// done prints what has become of a goal or project.
func (e effortCommands) done(v client.Effort, err error) error {
	return e.PrintDone(v, err, "%s: %s", command.PlainLine(v.Title), command.PlainLine(v.LastChange))
}

func (e effortCommands) list() *cobra.Command {
	var status string
	var all bool
	c := command.ListCommand(e.Program, &cobra.Command{Use: "list", Short: "List your " + e.kind},
		"there are no "+e.kind+": steward "+e.kind+" add begins one",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.Effort, error) {
			if all {
				status = ""
			}
			return s.Efforts(ctx, e.kind, status)
		},
		func(list []client.Effort) string {
			rows := [][]string{{strings.ToUpper(e.one), "DONE", "DUE", "TASKS", "STATUS", "NEXT"}}
			for _, v := range list {
				due, tasks, status, next := v.Due, "", v.Status, ""
				if v.Overdue {
					due += "!"
				}
				if n := v.TasksOpen + v.TasksDone; n > 0 {
					tasks = fmt.Sprintf("%d/%d", v.TasksDone, n)
				}
				if status == "active" {
					status = ""
				}
				if len(v.Next) > 0 {
					next = v.Next[0]
				}
				rows = append(rows, []string{command.PlainLine(v.Title), goal.Percent(v.Progress), due, tasks, status, command.PlainLine(next)})
			}
			for i := range rows[0] { // an empty column is left out, with its heading
				if !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[i] != "" }) {
					rows[0][i] = ""
				}
			}
			lines, _ := command.Table([]command.Column{{Most: widestEffort}, {Right: true}, {}, {Right: true}, {}, {Least: command.MinWhat}}, rows, e.Width())
			return strings.Join(lines, "\n") + "\n"
		})
	c.Flags().StringVar(&status, "status", "open", "only those with the `STATUS`: open (active or paused), active, paused, completed or dropped")
	c.Flags().BoolVar(&all, "all", false, "also those that are over")
	command.CompleteFlag(c, "status", command.Words("open", "active", "paused", "completed", "dropped", "archived"))
	return c
}

// widestEffort is the width of the column with titles in a narrow terminal.
const widestEffort = 34

func (e effortCommands) show() *cobra.Command {
	return e.APICommand(command.NeedReadOnly, e.use("show", "", "Show all of a "+e.one), func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Effort(ctx, e.kind, args[0])
		return command.PrintValue(e.Program, v, err, func(v client.Effort) string { return plainLines(goal.Text(&v, time.Local, 20)) })
	})
}

// plainLines returns a text of several lines without what a terminal would obey.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = command.PlainLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

// described adds the flags that describe a goal or project. The function returns what was given.
func (e effortCommands) described(c *cobra.Command) func() client.EffortChange {
	var description, due, category, belongs string
	var criteria []string
	var importance float64
	f := c.Flags()
	f.StringVar(&description, "description", "", "what it is about, as `TEXT`")
	f.StringVar(&due, "due", "", "the `DAY` by which it is to be achieved, such as 2026-12-31")
	if e.kind == client.Goals {
		f.StringVar(&category, "category", "", "its `CATEGORY`, such as health")
		f.StringArrayVar(&criteria, "criterion", nil, "what shows that it is achieved, as `TEXT`; may be repeated")
		f.Float64Var(&importance, "importance", 0, "how important it is, from 0 to 1")
	} else {
		f.StringVar(&belongs, "goal", "", "the `GOAL` that it belongs to")
		command.CompleteFlag(c, "goal", effortCommands{e.program, client.Goals, "goal", "GOAL"}.complete())
	}
	return func() client.EffortChange {
		var ch client.EffortChange
		for name, set := range map[string]func(){
			"description": func() { ch.Description = &description }, "due": func() { ch.Due = &due }, "category": func() { ch.Category = &category },
			"criterion": func() { ch.Criteria = &criteria }, "importance": func() { ch.Importance = &importance }, "goal": func() { ch.Goal = &belongs },
		} {
			if f.Changed(name) {
				set()
			}
		}
		return ch
	}
}

func (e effortCommands) add() *cobra.Command {
	c := &cobra.Command{Use: "add TITLE…", Short: "Add a " + e.one, Args: cobra.MinimumNArgs(1),
		Example: "  steward goals add 'Learn Italian' --criterion 'Read a novel' --due 2027-06-30"}
	if e.kind == client.Projects {
		c.Example = "  steward projects add 'Evening course' --goal italian --next 'Ask for the dates'"
	}
	about := e.described(c)
	var next []string
	c.Flags().StringArrayVar(&next, "next", nil, "what to do next, as `TEXT`; may be repeated")
	return e.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		ch, title := about(), strings.Join(args, " ")
		ch.Title, ch.Next = &title, next
		v, err := s.AddEffort(ctx, e.kind, ch)
		return e.PrintDone(v, err, "added %s (%s)", command.PlainLine(v.Title), v.ID)
	})
}

func (e effortCommands) edit() *cobra.Command {
	var title string
	c := e.use("edit", "", "Change the title, the description and other properties of a "+e.one)
	about := e.described(c)
	c.Flags().StringVar(&title, "title", "", "its new `TITLE`")
	return e.changing(c, func([]string) (client.EffortChange, error) {
		ch := about()
		if title != "" {
			ch.Title = &title
		}
		return ch, nil
	})
}

func (e effortCommands) progress() *cobra.Command {
	var percent float64
	c := e.use("progress", "[SUMMARY…]", "Record progress on a "+e.one)
	c.Args = cobra.MinimumNArgs(1)
	c.Example = "  steward " + e.kind + " progress italian 'Finished unit 4' --percent 20"
	c.Flags().Float64Var(&percent, "percent", 0, "how much of the whole is done now, from 0 to 100")
	return e.changing(c, func(args []string) (client.EffortChange, error) {
		p := client.NewProgress{Summary: strings.Join(args, " ")}
		if c.Flags().Changed("percent") {
			p.Percent = &percent
		}
		return client.EffortChange{Progress: &p}, nil
	})
}

func (e effortCommands) milestone() *cobra.Command {
	var due string
	var reached, removed []string
	c := e.use("milestone", "[TITLE…]", "Add a milestone, or mark milestones as reached")
	c.Args = cobra.MinimumNArgs(1)
	c.Example = "  steward " + e.kind + " milestone italian 'Pass A2' --due 2027-01-31\n  steward " + e.kind + " milestone italian --reached A2"
	c.Flags().StringVar(&due, "due", "", "the `DAY` by which it is to be reached")
	c.Flags().StringArrayVar(&reached, "reached", nil, "the `MILESTONE` that is reached: its number, title or words of it")
	c.Flags().StringArrayVar(&removed, "remove", nil, "the `MILESTONE` to remove, likewise")
	return e.changing(c, func(args []string) (client.EffortChange, error) {
		ch := client.EffortChange{Reached: reached, Unreached: removed}
		switch {
		case len(args) > 0:
			ch.Milestones = []client.NewMilestone{{Title: strings.Join(args, " "), Due: due}}
		case due != "":
			return ch, command.Usage("--due needs the title of a milestone")
		case len(reached)+len(removed) == 0:
			return ch, command.Usage("give the title of a milestone, --reached or --remove")
		}
		return ch, nil
	})
}

func (e effortCommands) next() *cobra.Command {
	var done []string
	c := e.use("next", "[ACTION…]", "Add a next action, or mark next actions as done")
	c.Args = cobra.MinimumNArgs(1)
	c.Example = "  steward " + e.kind + " next italian 'Book the exam'\n  steward " + e.kind + " next italian --done 1"
	c.Flags().StringArrayVar(&done, "done", nil, "the `ACTION` that is done: its number, text or words of it")
	return e.changing(c, func(args []string) (client.EffortChange, error) {
		ch := client.EffortChange{Done: done}
		if len(args) > 0 {
			ch.Next = []string{strings.Join(args, " ")}
		} else if len(done) == 0 {
			return ch, command.Usage("give the text of an action, or --done")
		}
		return ch, nil
	})
}

func (e effortCommands) link() *cobra.Command {
	var remove bool
	c := e.use("link", "PLAN…", "Have plans, or tasks of plans, belong to a "+e.one)
	c.Args = cobra.MinimumNArgs(2)
	c.Long = "Have plans, or tasks of plans, belong to a " + e.one + ". list and show count their tasks. PLAN is the id of an executed\n" +
		"plan (steward plans list), the id of a task, or the URI of either."
	c.Flags().BoolVar(&remove, "remove", false, "have them belong to it no longer")
	return e.changing(c, func(args []string) (client.EffortChange, error) {
		if remove {
			return client.EffortChange{Untask: args}, nil
		}
		return client.EffortChange{Tasks: args}, nil
	})
}

func (e effortCommands) status(verb, status, short string) *cobra.Command {
	return e.changing(e.use(verb, "", short), func([]string) (client.EffortChange, error) {
		return client.EffortChange{Status: &status}, nil
	})
}

func (e effortCommands) remove() *cobra.Command {
	var yes bool
	c := e.use("remove", "", "Erase a "+e.one+" and its earlier versions")
	if e.kind == client.Goals {
		c.Long = "Erase a goal and its earlier versions. Its projects stay."
	}
	command.YesFlag(c, &yes)
	return e.StoredCommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := s.Effort(ctx, e.kind, args[0])
		if err != nil {
			return err
		}
		if err := e.ConfirmDelete(yes, []string{e.one + " " + command.PlainLine(v.Title)}); err != nil {
			return err
		}
		err = s.RemoveEffort(ctx, e.kind, v.ID)
		return e.PrintDone(v, err, "%s is removed", command.PlainLine(v.Title))
	})
}

func (e effortCommands) changes() *cobra.Command {
	var days int
	c := &cobra.Command{Use: "changes", Short: "Show what has changed and what needs attention",
		Long: "Show what has become of goals and projects in the last days, and what needs attention: what is overdue,\n" +
			"what has no next action, and what has stalled (projects after 14 days without a change, goals after 30)."}
	c.Flags().IntVar(&days, "days", 7, "changes of so many days")
	return e.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, _ []string) error {
		v, err := s.EffortChanges(ctx, days)
		return command.PrintValue(e.Program, v, err, func(v client.EffortChanges) string { return plainLines(goal.ChangesText(&v, time.Local)) })
	})
}

// complete offers the titles of the goals or projects that are not over.
func (e effortCommands) complete() command.Completer {
	return command.Offers(e.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Effort, error) {
		return s.Efforts(ctx, e.kind, "open")
	},
		func(v *client.Effort) (string, string) { return v.Title, goal.Percent(v.Progress) })
}
