package agents

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/catalog"
	"steward/internal/cli/activity"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/id"
	planning "steward/internal/plan"
)

// agentTemplate is a working agent. NAME and PATH in its files stand for those of the new one.
//
//go:embed agent_template
var agentTemplate embed.FS

func (a *program) newAgent() *cobra.Command {
	var in string
	c := &cobra.Command{
		Use: "new NAME", Short: "Create a working agent as a starting point", ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Create a folder with a working agent: a definition, a prompt, a tool of its own and examples. To create\n" +
			"an agent inside others, put their names in front of its own. Existing files are never overwritten.",
		Example: "  steward agents new greeter\n  steward agents new personal_assistant/greeter",
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0][strings.LastIndexByte(args[0], '/')+1:]
			return a.writeAgent(args[0], in, func(dir string) error { return copyTemplate(dir, strings.NewReplacer("NAME", name, "PATH", args[0])) })
		},
	}
	c.Flags().StringVar(&in, "in", "", "`FOLDER` of agents to create it in; by default agents in the data folder")
	return c
}

var agentPathText = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*(/[a-z][a-z0-9]*(_[a-z0-9]+)*){0,7}$`)

// writeAgent makes the folder of a new agent, which write fills.
func (a *program) writeAgent(path, in string, write func(dir string) error) error {
	if !agentPathText.MatchString(path) {
		return command.Usage("%q is not a valid name of an agent: use a-z, 0-9 and single '_', beginning with a letter", path)
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	dir := app.AgentsFolder(set.Data)
	if in != "" {
		dir = a.Path(in)
	}
	names := strings.Split(path, "/")
	for _, above := range names[:len(names)-1] {
		if dir, err = folderOf(dir, above); err != nil {
			return err
		}
		dir = filepath.Join(dir, "agents")
	}
	name := names[len(names)-1]
	if found, err := folderOf(dir, name); err == nil {
		return fault.New(fault.Conflict, "agent_exists", "the agent already exists: %s", found).WithHint("choose another name, or remove it")
	}
	dir = filepath.Join(dir, name)
	if err := completely(dir, write); err != nil {
		return fault.New(fault.Unavailable, "agent_unwritable", "the agent cannot be written: %w", err).WithHint("make the folder %s writable, or name another with --in", filepath.Dir(dir))
	}
	if a.JSON {
		return a.PrintJSON(map[string]string{"path": path, "dir": dir})
	}
	a.Note("%s is written. Next: steward agents approve %s, then steward agents test %s", dir, path, path)
	return nil
}

// folderOf finds an agent's folder, which may be called NAME_agent.
func folderOf(dir, name string) (string, error) {
	for _, folder := range []string{name, name + "_agent"} {
		at := filepath.Join(dir, folder)
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			return at, nil
		}
	}
	return "", fault.New(fault.NotFound, "agent_not_found", "there is no agent %s in %s", name, dir).WithHint("steward agents list shows all")
}

// completely makes a folder, which write fills, completely or not at all.
func completely(dir string, write func(dir string) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), ".new-") // hidden, so that it does not count as an agent
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(building))
		}
	}()
	if err := write(building); err != nil {
		return err
	}
	if err := os.Chmod(building, 0o755); err != nil {
		return err
	}
	return os.Rename(building, dir)
}

// copyTemplate copies the template to a folder.
func copyTemplate(dir string, names *strings.Replacer) error {
	const root = "agent_template"
	return fs.WalkDir(agentTemplate, root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(path, root)))
		if e.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := agentTemplate.ReadFile(path)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return os.WriteFile(to, []byte(names.Replace(string(text))), mode)
	})
}

func (a *program) keepAgent() *cobra.Command {
	var in, task string
	c := &cobra.Command{
		Use: "keep RECORD [NAME]", Short: "Make an agent of one that was designed for a plan", ValidArgsFunction: activity.CompletePlans(a.Program),
		Long: "Make an agent of one that was designed for a task of a plan: a folder with its prompt, its tools, its\n" +
			"limits, and the request as an example. It waits for your approval like any other. RECORD is the record of\n" +
			"the plan (steward plans list), or last; NAME is what the agent is called, by default as its task.",
		Example: "  steward agents keep last mountain_trips\n  steward agents keep 01a21c55 --task find_lodging",
		RunE: func(c *cobra.Command, args []string) error {
			var p client.Plan
			err := a.WithStored(c.Context(), command.NeedReadOnly, func(s *command.Session) (err error) {
				p, err = activity.PlannedBefore(c.Context(), s, args[0])
				return err
			})
			if err != nil {
				return err
			}
			return a.keepDesigned(c.Context(), &p, task, strings.Join(args[1:], ""), in)
		},
	}
	c.Flags().StringVar(&task, "task", "", "the agent of the task `NAME`, if several were designed")
	c.Flags().StringVar(&in, "in", "", "`FOLDER` of agents to create it in; by default agents in the data folder")
	return c
}

// keptAgent is the agent.yaml of an agent that was designed for a task.
type keptAgent struct {
	Name        string            `yaml:"name"`
	Description string            `yaml:"description"`
	Version     string            `yaml:"version"`
	Metadata    map[string]string `yaml:"metadata,omitempty"`
	Limits      map[string]any    `yaml:"limits"`
	Tools       []string          `yaml:"tools"`
	Examples    []catalog.Example `yaml:"examples"`
}

func (a *program) keepDesigned(ctx context.Context, p *client.Plan, task, name, in string) error {
	d, err := designedFor(p, task)
	if err != nil {
		return err
	}
	t := planning.Tree(id.ID{}, d, 0)[0]
	path := cmp.Or(name, strings.ToLower(strings.ReplaceAll(t.Name, "-", "_")))
	if !agentPathText.MatchString(path) {
		return command.Usage("name the agent, in a-z, 0-9 and single '_': steward agents keep RECORD NAME")
	}
	y := keptAgent{Name: path[strings.LastIndexByte(path, '/')+1:], Description: cmp.Or(t.Purpose, p.Request), Version: "0.1.0", Metadata: map[string]string{},
		Limits: map[string]any{"iterations": cmp.Or(t.Iterations, planning.IterationsPlanned)}, Examples: []catalog.Example{{Say: cmp.Or(t.Purpose, p.Request)}}}
	for k, v := range map[string]string{"purpose": t.Purpose, "instructions": t.Instructions, "applicability": t.Applicability, "evaluation": t.Evaluation} {
		if v != "" {
			y.Metadata[k] = v
		}
	}
	if t.Tokens > 0 {
		y.Limits["tokens"] = t.Tokens
	}
	if t.Cost > 0 {
		y.Limits["cost"] = t.Cost
	}
	if t.Time() > 0 {
		y.Limits["time"] = t.Time().String()
	}
	var left []string
	if y.Tools, left, err = a.ownTools(ctx, t.Tools); err != nil {
		return err
	}
	for i := range p.Tasks {
		if used := p.Tasks[i].Tools; p.Tasks[i].Name == t.Name {
			y.Examples[0].Tools = slices.DeleteFunc(slices.Clone(y.Tools), func(name string) bool { return !slices.Contains(used, name) })
		}
	}
	text, err := yaml.Marshal(y)
	if err != nil {
		return err
	}
	err = a.writeAgent(path, in, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), text, 0o644); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "PROMPT.md"), []byte(t.SystemPrompt()+"\n"), 0o644)
	})
	if err == nil && len(left) > 0 {
		a.Note("left out, since it has to declare its own servers and agents: %s", strings.Join(left, ", "))
	}
	return err
}

// designedFor returns the part of a plan for which an agent was designed: that of
// the task, or the only one.
func designedFor(p *client.Plan, task string) (*planning.Draft, error) {
	root, err := planning.Parse(p.Plan)
	if err != nil {
		return nil, err
	}
	var found []*planning.Draft
	var names []string
	var find func(d *planning.Draft)
	find = func(d *planning.Draft) {
		if len(d.Subtasks) == 0 && d.Assistant == "" && (task == "" || d.Name == task) {
			found, names = append(found, d), append(names, d.Name)
		}
		for i := range d.Subtasks {
			find(&d.Subtasks[i])
		}
	}
	find(root)
	switch len(found) {
	case 0:
		return nil, fault.New(fault.NotFound, "task_not_found", "no agent was designed for that task of this plan").WithHint("steward plans show %s lists its tasks", activity.RequestRef(p.ID))
	case 1:
		return found[0], nil
	}
	return nil, fault.New(fault.Conflict, "task_ambiguous", "agents were designed for %d tasks of this plan", len(found)).WithHint("choose one with --task: %s", strings.Join(names, ", "))
}

// ownTools divides names of tools into Steward's own and those of servers and of
// other agents.
func (a *program) ownTools(ctx context.Context, names []string) (own, others []string, err error) {
	foreign := map[string]bool{}
	err = a.With(ctx, command.NeedAgents, func(s *command.Session) error {
		list, err := allAgents(ctx, s)
		for _, l := range list {
			if l.Kind == catalog.KindSource {
				for _, name := range l.Tools {
					foreign[name] = true
				}
			}
		}
		return err
	})
	own = []string{}
	for _, name := range names {
		if foreign[name] || strings.HasSuffix(name, ".ask") {
			others = append(others, name)
		} else {
			own = append(own, name)
		}
	}
	return own, others, err
}
