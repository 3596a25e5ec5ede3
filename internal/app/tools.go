package app

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/sandbox"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/clock"
	"steward/internal/tools/files"
	"steward/internal/tools/goal"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/math"
)

// BuiltIn is a group of Steward's own tools, the first word of whose names is its name.
type BuiltIn struct {
	Name  string
	tools func() ([]tool.Tool, error)
	// Health says whether the tools can work, for steward doctor and for the model. It may
	// connect to servers. nil: nothing can be wrong.
	Health func(ctx context.Context) domainlocal.Health
}

// BuiltIns lists the groups of Steward's own tools, in the order in which a model sees them. A
// group whose settings are missing has no tools; its health says what to fill in.
func (l *Local) BuiltIns(set *settings.Loaded) []BuiltIn {
	return append(append(l.reminderTools(set), l.diaryTools(set)...),
		l.jobTools(set),
		l.goalTools(set, goal.Goal, goal.AddGoals),
		l.goalTools(set, goal.Project, goal.AddProjects),
		l.memoryTools(set),
		l.documentTools(set),
		l.graphTools(set),
		l.basicTools(set),
		l.shellTools(set),
		l.skillTools(set),
		l.webTools(set),
		l.browserTools(set),
		l.weatherTools(set),
		l.notifyTools(set),
		l.messageTools(set),
		l.mailTools(set),
		l.contactTools(set),
		l.homeTools(set),
	)
}

// builtInEnv returns what a group of built-in tools over local files is given: a private folder.
func builtInEnv(set *settings.Loaded, name string) tool.Env {
	return tool.Env{Name: name, Data: filepath.Join(set.Data, "private", "root", name), Log: slog.Default()}
}

// noted returns a group of built-in tools that note their changes, in a place of their private folder.
func noted(env tool.Env, origin, notes string, add func(*domainlocal.Kit, domainlocal.Place)) ([]tool.Tool, error) {
	place, err := domainlocal.NewPlace(env, notes)
	if err != nil {
		return nil, err
	}
	k := domainlocal.NewKit(env, origin)
	add(k, place)
	return k.Tools()
}

// WorkspaceName is the name under which a model knows the workspace.
const WorkspaceName = "workspace"

func (l *Local) basicTools(set *settings.Loaded) BuiltIn {
	opt := l.filesOptions(set)
	return BuiltIn{Name: "basics", tools: func() ([]tool.Tool, error) { return basics(domainlocal.Options{Zone: l.zone(set)}, opt) }}
}

// filesOptions are the folders that the file tools may use.
func (l *Local) filesOptions(set *settings.Loaded) files.Options {
	opt := files.Options{Groups: l.groupsOf, More: l.granted.list, Reader: &l.reader,
		Private: func() []string { return unseen(l.private, set) }}
	if place, err := domainlocal.NewPlace(builtInEnv(set, "files"), "trash"); err == nil { // it fails without a data folder
		opt.Trash = place.For
	}
	if set.Workspace != "" && !slices.ContainsFunc(set.Folders, func(f settings.Folder) bool { return f.Name == WorkspaceName }) {
		opt.Folders = append(opt.Folders, files.Folder{Name: WorkspaceName, Path: set.Workspace, Write: true, Make: true, For: tool.OwnedBy(nil, nil)})
		opt.Notes = WorkspaceName + "/Notes"
	}
	for _, f := range set.Folders {
		opt.Folders = append(opt.Folders, files.Folder{Name: f.Name, Path: f.Path, Write: f.Write, For: tool.OwnedBy(f.Users, f.Groups)})
	}
	return opt
}

// basics returns the tools that need nothing but this machine: the calculator, the clock, and the tools for
// granted folders.
func basics(times domainlocal.Options, folders files.Options) (all []tool.Tool, err error) {
	for _, tools := range []func() ([]tool.Tool, error){
		math.Tools,
		func() ([]tool.Tool, error) { return clock.Tools(times) },
		func() ([]tool.Tool, error) { return files.Tools(folders) },
	} {
		more, err := tools()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// unseen returns the places that the files tools do not see: Steward's own, by whatever path they can be
// reached, files that may hold keys, and what the kernel tells of processes, of which Steward is one.
func unseen(private []string, set *settings.Loaded) []string {
	all, err := sandbox.Places(private)
	if err != nil { // one was removed; the others remain
		all = private
	}
	return append(append(slices.Clone(all), set.KeyFiles()...), "/proc")
}

// Unseen returns a function that reports whether a path leads to what no tool sees, and no message attaches.
func (a *App) Unseen(set *settings.Loaded) func(path string) bool {
	return func(path string) bool {
		return domainlocal.NewPrivate(unseen(append(set.Private(), a.AlsoPrivate...), set)).Has(path)
	}
}

// tools registers the built-in tools.
func (l *Local) tools(set *settings.Loaded) (*tool.Registry, error) {
	reg := &tool.Registry{}
	groups := l.BuiltIns(set)
	for _, g := range groups {
		tools, err := g.tools()
		if err != nil {
			return nil, err
		}
		if len(tools) == 0 {
			l.Off = append(l.Off, g.Name)
		}
		for _, t := range tools {
			if err := reg.Add(bounded{t, set.Tools}); err != nil {
				return nil, err
			}
		}
	}
	about, err := abilities(groups)
	if err == nil && about != nil {
		err = reg.Add(bounded{about, set.Tools})
	}
	if err != nil {
		return nil, err
	}
	return reg, checkTimeouts(set, reg)
}

// checkTimeouts reports settings about tools that do not exist.
func checkTimeouts(set *settings.Loaded, reg *tool.Registry) error {
	for name := range set.Tools.Timeouts {
		if _, ok := reg.Get(name); !ok {
			e := fault.New(fault.Invalid, "tool_unknown", "tools.timeouts (%s) names %q, which is not a tool",
				set.SourceOf("tools.timeouts.["+name+"]"), name)
			if w := settings.Suggest(name, reg.Names()); w != "" {
				return e.WithHint("did you mean %s?", w)
			}
			return e.WithHint("the tools are %s", strings.Join(reg.Names(), ", "))
		}
	}
	return nil
}

// abilities returns the tool that tells a model which groups of tools are off, and what the
// user would have to set up for them. It returns nil if there are no such groups.
func abilities(groups []BuiltIn) (tool.Tool, error) {
	var checked []BuiltIn
	for _, g := range groups {
		if g.Health != nil {
			checked = append(checked, g)
		}
	}
	if checked == nil {
		return nil, nil
	}
	spec := tool.Spec{Name: "steward.abilities", Effect: tool.Query, Version: "1", Reach: tool.ReachHere,
		Description: "Tells what Steward could do once it is set up (mail, calendars, contacts, and more), and how the user sets it up. Use it when the user asks for something that no other tool does.",
		Log:         tool.LogSpec{Summary: "Look up what Steward can do"}}
	return tool.New(spec, func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
		var b strings.Builder
		for _, g := range checked {
			h := g.Health(ctx)
			fmt.Fprintf(&b, "- %s: %s, %s", g.Name, h.State, h.Say)
			if h.Remedy != "" {
				fmt.Fprintf(&b, ". To do: %s", h.Remedy)
			}
			b.WriteByte('\n')
		}
		return b.String(), ctx.Err()
	})
}

// bounded applies the limits of the settings to a tool.
type bounded struct {
	tool.Tool
	set settings.Tools
}

// Unwrap returns the tool itself.
func (b bounded) Unwrap() tool.Tool { return b.Tool }

// Check implements tool.Checker.
func (b bounded) Check(args []byte) error {
	if c, ok := b.Tool.(tool.Checker); ok {
		return c.Check(args)
	}
	return nil
}

// Spec returns the tool's spec with its limits.
func (b bounded) Spec() tool.Spec {
	s := b.Tool.Spec()
	if s.Timeout == 0 {
		s.Timeout = b.set.Timeout
	}
	if t, ok := b.set.Timeouts[s.Name]; ok {
		s.Timeout = t
	}
	if s.ResultCap == 0 {
		s.ResultCap = b.set.ResultCap
	}
	return s
}
