// Package talk has the commands by which a person talks to agents and stays in control of what they do: chat,
// ask, plan, route, approvals, grants, jobs, heartbeat, goals, projects, graph and setup.
//
// A message takes the same way from each of them. chat and ask open a session that resumes interrupted work,
// send the message to a conversation, and show the frames that come back: chat on the whole terminal (package
// terminal), ask as a stream on standard output. plan is ask with a plan that is shown before it is carried
// out. route only explains which agent would answer. A job sends a message at its times, without a person.
//
// What an agent may do only with approval becomes a question. The decider shows it where the message was
// asked, if a person is at the terminal; otherwise it waits, and approvals lists and answers it. An answer
// carries the hash of what was shown, so nobody approves what he has not seen. An answer may become a grant,
// which stands in for later answers until it expires or is revoked; grants shows and narrows them. A message
// that nobody attends is sent as such, and what needs approval is denied instead of asked.
//
// ask ends when the answer is complete. Background work that the answer began goes on: with a server it is
// the server's, and without one ask suspends it, and the next start resumes it. An interrupt stops the turn
// before the program ends. The exit code tells whether the answer is whole, cut short by a limit, or missing.
//
// The first chat of a person begins with setup, which is in package node; the command setup is here because
// it ends in a chat.
package talk

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/command"
)

// program is one run of the command line. The commands of this package are its methods.
type program struct {
	*command.Program
	agent string // --agent: the agent to talk to
}

// Commands returns the commands of this package, for the run p.
func Commands(p *command.Program) []*cobra.Command {
	a := &program{Program: p}
	return []*cobra.Command{a.chatCommand(), a.askCommand(), a.planCommand(), a.setupCommand(), a.approvalsCommand(), a.grantsCommand(), a.jobsCommand(), a.heartbeatCommand(), a.goalsCommand(), a.projectsCommand(), a.graphCommand(), a.routeCommand()}
}
