package cli

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/fault"
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
		return usage("%q is not a valid name of an agent: use a-z, 0-9 and single '_', beginning with a letter", path)
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
	if a.json {
		return a.printJSON(map[string]string{"path": path, "dir": dir})
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
