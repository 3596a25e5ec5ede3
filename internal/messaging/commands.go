package messaging

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/store"
	"steward/internal/work"
)

// help lists the commands.
const help = `Write to me as you would in a chat. These commands work everywhere:

/new begins a new conversation
/stop stops the answer that is being written
/conversations lists the newest conversations
/open N goes on with one of them here
/agent NAME talks to an agent
/model NAME uses a model
/approve ID allows what I have asked you about
/deny ID refuses it
/details ID shows the whole call
/here sends reminders and questions to this chat
/undo takes back what I have remembered last
/help shows this`

// urgentCommands do not wait for the turn that runs in the chat.
var urgentCommands = [...]string{"stop", "approve", "deny", "details", "help", "start"}

// waitingCommands follow each other and the texts of the chat.
var waitingCommands = [...]string{"new", "conversations", "open", "agent", "model", "here", "undo"}

// command returns the command that an update is, if it is one.
func (u *update) command() (name, rest string, ok bool) {
	if u.Kind != channel.Message || u.Forwarded != "" || !strings.HasPrefix(u.Text, "/") {
		return "", "", false
	}
	name, rest, _ = strings.Cut(strings.TrimSpace(u.Text[1:]), " ")
	name, _, _ = strings.Cut(strings.ToLower(name), "@") // in groups: /new@steward_bot
	return name, strings.TrimSpace(rest), slices.Contains(urgentCommands[:], name) || slices.Contains(waitingCommands[:], name)
}

// urgent reports whether an update does not wait for the turn that runs in its chat.
func (u *update) urgent() bool {
	name, _, ok := u.command()
	return u.Kind == channel.Press || ok && slices.Contains(urgentCommands[:], name)
}

// obey carries out a command.
func (e *Engine) obey(ctx context.Context, a *account, u *update, name, rest string) error {
	c, err := e.chatOf(ctx, a, u)
	if err != nil {
		return err
	}
	if u.Group && slices.Contains([]string{"conversations", "open", "approve", "deny", "details", "here", "undo"}, name) {
		return e.say(ctx, a, u, "That is possible only in a chat of our own.")
	}
	say := ""
	switch name {
	case "help", "start":
		say = help
	case "approve", "deny", "details":
		return e.decideByCommand(ctx, a, u, name, rest)
	case "stop":
		say, err = e.stop(ctx, c)
	case "new":
		c.Conversation, c.Seen, say = id.ID{}, 0, "A new conversation begins with your next message."
	case "conversations":
		say, err = e.list(ctx, c)
	case "open":
		say, err = e.open(ctx, c, rest)
	case "agent":
		if say = fmt.Sprintf("Your next messages go to the agent %s.", rest); rest == "" {
			say = "Name the agent: /agent NAME. steward agents list shows them."
		}
		c.Agent = rest
	case "model":
		if say = fmt.Sprintf("From now on the model is %s.", rest); rest == "" {
			say = "From now on the model is the usual one. Name another with /model NAME."
		}
		c.Model = rest
	case "here":
		say, err = e.prefer(ctx, a, u)
	case "undo":
		if say = "Nothing was remembered here."; e.opt.UndoMemory != nil && !c.Conversation.Zero() {
			say, err = e.opt.UndoMemory(ctx, c.User, c.Conversation)
		}
	}
	if err != nil && !work.IsFinal(err) {
		return err
	}
	if err != nil {
		return e.say(ctx, a, u, fault.Of(err).Message)
	}
	posts := e.reply(a, u, say, "reply")
	done := *u
	done.State = answered
	changes := []store.Change{done.change(store.If{})}
	if name == "new" || name == "open" || name == "agent" || name == "model" {
		c.Used = e.opt.Now().UTC()
		changes = append(changes, c.change())
	}
	err = e.record(ctx, u.User, posts, changes...)
	if err == nil && len(changes) > 1 {
		e.show(c)
	}
	return err
}

// stop stops the turn of a chat. Its answer says so.
func (e *Engine) stop(ctx context.Context, c *chat) (string, error) {
	if c.Conversation.Zero() || !e.node.Running(c.User, c.Conversation) {
		return "Nothing is running.", nil
	}
	return "", e.node.Stop(ctx, c.User, c.Conversation)
}

// listed is how many conversations /conversations shows.
const listed = 10

func (e *Engine) list(ctx context.Context, c *chat) (string, error) {
	list, _, err := e.node.conversations.List(ctx, store.ForUser(c.User), "", listed)
	if err != nil || len(list) == 0 {
		return "There is no conversation yet.", err
	}
	var b strings.Builder
	b.WriteString("The newest conversations; /open N goes on with one of them here:\n\n")
	for i, x := range list {
		here := ""
		if x.ID == c.Conversation {
			here = " (open here)"
		}
		fmt.Fprintf(&b, "%d. %s%s\n", i+1, cmp.Or(x.Title, "(no title)"), here)
	}
	return b.String(), nil
}

// open has a chat go on with a conversation: one of the list by its number, or any by its ID.
func (e *Engine) open(ctx context.Context, c *chat, which string) (string, error) {
	list, _, err := e.node.conversations.List(ctx, store.ForUser(c.User), "", listed)
	if err != nil {
		return "", err
	}
	conv, ok := id.Parse(strings.ToLower(which))
	if n, bad := strconv.Atoi(which); bad == nil && n >= 1 && n <= len(list) {
		conv, ok = list[n-1].ID, true
	}
	if !ok {
		return "", fault.New(fault.Invalid, "conversation_invalid", "%.40q is not in the list: /conversations shows it", which)
	}
	x, err := e.node.conversations.Get(ctx, store.ForUser(c.User), conv)
	c.Conversation, c.Seen = conv, 0
	return fmt.Sprintf("This chat goes on with: %s", cmp.Or(x.Title, "(no title)")), err
}
