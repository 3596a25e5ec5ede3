package app

import (
	"context"
	"log/slog"
	"strings"

	"steward/internal/sandbox"
	"steward/internal/settings"
	"steward/internal/tool"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/shell"
)

// shellTools run commands and code in the workspace.
func (l *Local) shellTools(set *settings.Loaded) BuiltIn {
	off := func() (why, remedy string) {
		switch err := sandbox.Available(); {
		case set.Shell.Off:
			return "commands are turned off", "remove shell.off from the settings"
		case set.Workspace == "":
			return "there is no workspace to run commands in", "set workspace to a folder"
		case err != nil:
			f := failingHealth(err)
			return f.Say, f.Remedy
		}
		return "", ""
	}
	return BuiltIn{Name: "shell", tools: func() ([]tool.Tool, error) {
		if why, _ := off(); why != "" {
			return nil, nil
		}
		return shell.Tools(shell.Options{Workspace: set.Workspace, Hosts: set.Shell.Hosts, Skill: SkillStore(set).Folder, Hide: l.private, For: tool.OwnedBy(nil, nil), Log: slog.Default()})
	}, Health: func(context.Context) domainlocal.Health {
		if why, remedy := off(); why != "" {
			return domainlocal.Health{State: domainlocal.Off, Say: why, Remedy: remedy}
		}
		say := "commands run in " + set.Workspace + ", without a network"
		if len(set.Shell.Hosts) > 0 {
			say = "commands run in " + set.Workspace + ", and may connect to " + strings.Join(set.Shell.Hosts, ", ")
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: say}
	}}
}
