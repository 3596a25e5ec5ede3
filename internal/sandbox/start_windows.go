package sandbox

import (
	"context"

	"steward/internal/fault"
)

// machine cannot run programs: nothing here confines them, or ends one with all that it has started.
type machine struct{}

var thisMachine machine

func (machine) available() error {
	return fault.New(fault.Unsupported, "sandbox_unavailable", "Steward cannot run programs on Windows").
		WithHint("run Steward on Linux, for example in WSL, or reach the tool as an MCP server over HTTP")
}

// start refuses, also a program that is to run unsandboxed.
func (m machine) start(context.Context, Command) (*Process, error) { return nil, m.available() }

// Places returns the paths by which folders and files can be reached.
func Places(folders []string) ([]string, error) { return folders, nil }

// Inside does nothing here: only Linux needs it.
func Inside([]string) (code int, mine bool) { return 0, false }

// RemoveLeftovers does nothing: no program leaves anything.
func RemoveLeftovers() error { return nil }
