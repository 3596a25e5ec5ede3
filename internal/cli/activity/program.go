// Package activity has the commands about what happened and what still runs: log, requests, plans, intents,
// events, audit and resources; and memory, about what is remembered of it.
//
// They show the same record from different sides. The log of an instance is a list of changes to resources.
// resources reads the tree of them, with their history, and stores a person's own. events follows the changes
// as they come, from the Steward that serves or, when that ends, from the folder at the same cursor. audit
// verifies the seals of the log and exports it. log lists the tool calls, with their arguments and results.
//
// Two kinds of record are work. A request is work that goes on: a turn, an agent that was called, a background
// call, a task of a plan. It is shown as a tree, and is closed when all below it is closed; a person may
// cancel it, and resume what is parked. A plan is the request that a planner made into tasks; plans shows what
// became of them. An intent is an action on the world: what is to be done, under a key that keeps a crash from
// doing it twice. intents shows each with its state, and lets a person approve, deny, retry or resolve it; an
// intent of unknown outcome waits until a person says what happened.
//
// Commands that only look open the database read-only, even while another process uses it. Commands that
// decide wait a short while for the consequences, because a process that ends at once would suspend them. The
// ids of requests are shown by their beginnings, which is enough to name them.
package activity

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
	return []*cobra.Command{a.logCommand(), a.auditCommand(), a.eventsCommand(), a.requestsCommand(), a.plansCommand(), a.intentsCommand(), a.resourcesCommand(), a.memoryCommand()}
}
