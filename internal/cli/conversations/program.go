// Package conversations has the commands about what was said: conversations, messages, branch, context, search
// and import.
//
// A conversation is a tree of messages with branches. Nothing in it is changed in place: rewinding, inserting
// and removing create a new branch, and the earlier one stays. A branch command chooses which branch counts.
// What changes in place is only the state of a message, which is recorded beside it: it may be pinned,
// archived, obsolete, superseded or deleted, and each of these can be undone until the message is erased.
//
// Most commands are about one conversation, the conversationTarget. A person names it by its id or as last,
// either as the argument or with --conversation; without a name it is the last used one. Messages are named
// by their ids or by six characters of the beginning or the end of them. A part that fits several messages is
// refused with the list of those, because these commands delete. last is the newest message.
//
// Lists show ids by their ends, since ids that were made at about the same time share their beginnings, and
// show one line of each message. What is marked as secret is shown as [secret]. Deleting lists what would go and
// asks; deleted messages can be restored for a while, which the command says when it deletes.
//
// context shows what the next model call of a conversation sends: the node makes the request of that call, takes
// it apart, and the command lists the parts by category, each with its size and the reason why it is there.
//
// search asks the index of the Steward or, without one, of the folder. import reads exports of Steward and of
// other programs, and reports per file what was read, what was there before, and what was left out.
package conversations

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
	return []*cobra.Command{a.conversationsCommand(), a.messagesCommand(), a.branchCommand(), a.contextCommand(), a.importCommand(), a.searchCommand()}
}
