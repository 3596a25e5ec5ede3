package runtime

import (
	"context"
	"io"
	"iter"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/importexport"
	"steward/internal/store"
)

// Import makes conversations of the user's of all chats in a file, one after
// the other. See conversation.Engine.ImportAll.
func (n *Node) Import(ctx context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error] {
	return n.conversations.ImportAll(ctx, store.ForUser(user), user, r, o)
}

// ExportAs writes a conversation as the options say.
func (n *Node) ExportAs(ctx context.Context, user string, conv id.ID, o conversation.ExportOptions, w io.Writer) error {
	return n.conversations.ExportAs(ctx, store.ForUser(user), conv, o, w)
}
