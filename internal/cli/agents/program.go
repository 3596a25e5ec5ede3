// Package agents has the commands about agents and about what others made for them: agents, mcp and skills.
//
// An agent is a folder with a definition. Steward finds it, and uses it only after a person has approved it.
// What was approved is a hash over everything that matters, together with the descriptions of its tools, so a
// change needs a new approval, and is shown as a difference. Sources of tools, such as MCP servers, are
// approved in the same way, under a path such as mcp:NAME; each tool of theirs can be switched off or made to
// ask. A skill is a folder of instructions, with the same rule.
//
// agents new writes a folder with a working agent, to be changed; agents keep makes one of what a planner
// designed for a request. agents test runs the examples in a definition as tests, on a node over a temporary
// data folder: with the approvals of the real one, and without its mail, calendars, home and folders. Without
// --act, what would need approval is denied.
//
// mcp add stores how a server is started or reached in mcp.json of the data folder, starts it once, shows its
// tools and asks for approval. It is stored even if it does not start, so that it can be corrected. mcp
// connect signs in at a server that wants it. mcp serve is the other direction: it offers Steward's tools,
// agents and resources to a program that speaks MCP, over standard input and output.
package agents

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/command"
)

// program is one run of the command line. The commands of this package are its methods.
type program struct {
	*command.Program
}

// Commands returns the commands of this package, for the run p.
func Commands(p *command.Program) []*cobra.Command {
	a := &program{Program: p}
	return []*cobra.Command{a.agentsCommand(), a.mcpCommand(), a.skillsCommand()}
}
