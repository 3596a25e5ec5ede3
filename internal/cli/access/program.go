// Package access has the commands about who may do what, and with which credentials: users, groups, token,
// keys, secrets and policy.
//
// A user has a space of his own and roles; a group is a space that its members share. The machine's own user
// is always there. A credential says who a caller is: the token is that of the machine's own user, in a file
// of the data folder, and a key is what another person or program gets. A key is shown once, when it is
// created, and is not stored.
//
// A secret is a password or a key that Steward itself uses. It is stored by name, and settings and agents
// refer to it by that name. Its value is typed without echo or read from standard input, never given as an
// argument, and never printed.
//
// Policy decides what agents may see and do. The rules are small text files in the data folder, beside the
// built-in ones. policy shows and tests them, and explains a decision: for an imagined call, or for an action
// that was recorded. Rules with an error do not take effect, and the error says where it is.
//
// Deleting a user deletes everything of theirs, and asks first. Changes to users, groups and keys need the
// database alone; they work while no Steward serves, and go through its API if one does.
package access

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
	return []*cobra.Command{a.tokenCommand(), a.linkCommand(), a.keysCommand(), a.secretsCommand(), a.usersCommand(), a.groupsCommand(), a.policyCommand()}
}
