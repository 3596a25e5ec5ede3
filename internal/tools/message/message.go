// Package message lets an agent write into chats at messengers: to the user alone, or into a group in which
// the user talks to Steward. The receivers are chats that the user has written in, never addresses that a
// model makes up. A message is recorded in the outbox before it is sent, once for each call.
package message

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// MaxText bounds a message, in bytes.
const MaxText = 10_000

// Sender is the outbox.
type Sender interface {
	// Send puts a text into the outbox, once for each key, and returns the name of the chat.
	Send(ctx context.Context, user, to, text, key string) (chat string, err error)
	// Chats names the chats that a user can have something sent to.
	Chats(ctx context.Context, user string) ([]string, error)
}

type sendArgs struct {
	To   string `json:"to" jsonschema:"me for the user's own chat, or the name of a chat as message.chats lists it, such as the title of a group" minlen:"1" maxlen:"300"`
	Text string `json:"text" jsonschema:"The message, in Markdown" minlen:"1" maxlen:"10000"`
}

// Spec is the spec of the tool send. Policy judges by it whether private data may go into a group.
func Spec() tool.Spec {
	return tool.Spec{Name: "send", Effect: tool.Action, Reach: tool.ReachOut, Targets: []string{"to"}, Dedupes: true, Timeout: 20 * time.Second,
		Description: "Writes a message at a messenger: to the user's own phone (me), or into a group in which the user talks to you. The answer in the chat reaches the user anyway.",
		Log:         tool.LogSpec{Summary: "Write to {to}: {text}", Impact: []string{"to"}, Does: "writes a message"},
		Widths:      []tool.Width{{Name: "write anything to {to}", Any: []string{"text"}}}}
}

// Add adds the tools send and chats to a kit.
func Add(k *local.Kit, s Sender) {
	local.Action(k, Spec(), func(ctx context.Context, in tool.Invocation, a sendArgs) (string, error) {
		chat, err := s.Send(ctx, in.User, a.To, a.Text, local.Key(in))
		if err != nil {
			return "", tool.NotDone(err)
		}
		return fmt.Sprintf("The message to %s is in the outbox; it is sent as soon as the messenger can be reached.", chat), nil
	}, nil)
	local.Query(k, tool.Spec{Name: "chats", Yields: message.Private | message.Untrusted, Description: "Lists the chats at messengers that message.send can write to.",
		Log: tool.LogSpec{Summary: "List the chats at messengers"}},
		func(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
			list, err := s.Chats(ctx, in.User)
			if err != nil {
				return "", err
			}
			if len(list) == 0 {
				return "There are none: the user has not written to Steward at a messenger yet.", nil
			}
			return "me\n" + strings.Join(list, "\n"), nil
		})
}
