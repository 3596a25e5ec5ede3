package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/settings"
)

// command is one of the words that begin with a slash.
type command struct {
	name, args, does string
	run              func(*chat, string) tea.Cmd
}

func commands() []command {
	return []command{
		{"help", "", "what can be done here", (*chat).help},
		{"new", "", "begin a new conversation", (*chat).fresh},
		{"list", "", "the conversations, newest first", (*chat).list},
		{"open", "ID", "go on with a conversation; its number in /list will do", (*chat).open},
		{"edit", "[TEXT]", "write your last message anew (alone: edit the old text)", (*chat).edit},
		{"again", "", "another answer to your last message", (*chat).again},
		{"prev", "", "go to the version before this one of the answer or question", (*chat).prev},
		{"next", "", "go to the version after this one", (*chat).after},
		{"branches", "", "all the ways that this conversation has taken", (*chat).branches},
		{"switch", "NUMBER", "go on with one of the branches", (*chat).switchTo},
		{"rewind", "[N]", "go back before your last message, or your N last ones", (*chat).rewind},
		{"pin", "", "keep the last turn in view, however long this becomes", (*chat).pin},
		{"unpin", "", "let go of the last turn again", (*chat).unpin},
		{"compact", "[undo]", "let a summary stand for what is old", (*chat).compact},
		{"log", "", "what the tools did here", (*chat).log},
		{"title", "TEXT", "give this conversation a title", (*chat).title},
		{"model", "[NAME]", "show the models, or use one from now on", (*chat).choose},
		{"agent", "[NAME]", "show the agents, or have one go on here", (*chat).hand},
		{"agents", "", "the agents and sources, and how far each is allowed", (*chat).listAgents},
		{"approve", "[NAME]", "allow an agent or a source, or be asked again", (*chat).approve},
		{"tools", "", "what Steward can use", (*chat).tools},
		{"export", "[FILE]", "write this conversation to a file, .json or .md", (*chat).export},
		{"stop", "", "stop the answer (as Esc does)", (*chat).halt},
		{"quit", "", "leave (as Ctrl-D does)", (*chat).leave},
	}
}

// obey runs a line that begins with a slash.
func (m *chat) obey(line string) tea.Cmd {
	name, rest, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c.run(m, strings.TrimSpace(rest))
		}
		names = append(names, c.name)
	}
	m.sayUnknown("command /", name, "; /help lists them", "/", names)
	return nil
}

func (m *chat) help(string) tea.Cmd {
	var b strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&b, "/%-15s %s\n", strings.TrimSpace(c.name+" "+c.args), c.does)
	}
	b.WriteString("\nEnter sends; Alt-Enter, Shift-Enter, Ctrl-J or a \\ at the end begins a new line.\n" +
		"Up and Down bring back what you typed. Tab completes commands.\n" +
		"Esc or Ctrl-C stops the answer; Ctrl-C twice leaves. Ctrl-R unfolds the model's reasoning.")
	m.say(b.String())
	return nil
}

func (m *chat) fresh(string) tea.Cmd {
	m.unwatch()
	m.conv, m.named, m.editing = "", "", nil
	m.say("a new conversation begins with your next message")
	return nil
}

func (m *chat) list(string) tea.Cmd {
	var list []client.Conversation
	return m.elsewhere(func() (err error) {
		list, err = m.opt.Client.Conversations(m.ctx, 20)
		return err
	}, func() tea.Cmd {
		m.showList(list)
		return nil
	})
}

func (m *chat) showList(list []client.Conversation) {
	if len(list) == 0 {
		m.say("there are no conversations yet")
		return
	}
	m.shelf = list
	var b strings.Builder
	for i, c := range list {
		mark := " "
		if c.ID == m.conv {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s%2d  %s  %s\n", mark, i+1, c.Updated.Local().Format("01-02 15:04"), oneLine(titled(c), max(m.width-20, 10)))
	}
	b.WriteString("/open NUMBER goes on with one")
	m.say(b.String())
}

func titled(c client.Conversation) string {
	if c.Title == "" {
		return "untitled, " + c.ID
	}
	return c.Title
}

// opened is a conversation as it is gone on with.
type opened struct {
	conversation client.Conversation
	recent       []*message.Message
	say          string // in place of its title
	draft        string // for the input, if that is empty
}

func (m *chat) open(which string) tea.Cmd {
	var n int
	if _, err := fmt.Sscanf(which, "%d", &n); err == nil && len(which) < 4 && n >= 1 && n <= len(m.shelf) {
		which = m.shelf[n-1].ID
	}
	conv, ok := id.Parse(strings.ToLower(which))
	if !ok {
		m.say("/open wants a number from /list or a conversation's id")
		return nil
	}
	return m.fetch(conv.String())
}

// fetch reads a conversation and its last messages.
func (m *chat) fetch(conv string) tea.Cmd {
	return m.opening(conv, func() (opened, error) { return opened{}, nil })
}

// opening does something to a conversation, reads it with its last messages, and
// goes on with it.
func (m *chat) opening(conv string, do func() (opened, error)) tea.Cmd {
	var o opened
	return m.elsewhere(func() (err error) {
		if o, err = do(); err != nil {
			return err
		}
		if o.conversation, err = m.opt.Client.Conversation(m.ctx, conv); err == nil {
			o.recent, err = m.lastMessages(conv, 8)
		}
		return err
	}, func() tea.Cmd { return m.showOpened(o) })
}

// newest reads the messages of a conversation, the newest first.
func (m *chat) newest(conv string, page int) iter.Seq2[*message.Message, error] {
	return func(yield func(*message.Message, error) bool) {
		in := client.Params{"id": conv, "reverse": "true"}
		for raw, err := range client.Each[json.RawMessage](m.ctx, m.opt.Client, "GET /conversations/{id}/messages", "messages", in, page) {
			var x *message.Message
			if err == nil {
				x, err = message.Decode(raw)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// lastMessages reads the last few messages, from one of the user on.
func (m *chat) lastMessages(conv string, most int) ([]*message.Message, error) {
	var list []*message.Message
	for x, err := range m.newest(conv, most) {
		if err != nil {
			return nil, err
		}
		if list = append(list, x); len(list) == most {
			break
		}
	}
	slices.Reverse(list)
	first := slices.IndexFunc(list, func(x *message.Message) bool { return x.Role == message.User })
	return list[max(first, 0):], nil
}

func (m *chat) showOpened(o opened) tea.Cmd {
	m.unwatch()
	if o.conversation.ID != m.conv && o.conversation.ID != m.opt.Conversation {
		m.agent = "" // its own goes on with it
	}
	m.conv, m.named, m.editing = o.conversation.ID, o.conversation.Title, nil
	if o.say == "" {
		o.say = "opened: " + titled(o.conversation)
	}
	m.say(o.say)
	for _, x := range o.recent {
		m.print(m.turn.past(x)...)
	}
	if o.draft != "" && m.input.Value() == "" {
		m.input.SetValue(o.draft)
		m.input.MoveToEnd()
	}
	return tea.Batch(m.follow(client.FromNow), m.count())
}

// past shows a message of before.
func (t *turn) past(m *message.Message) []string {
	switch m.Role {
	case message.User:
		return []string{t.user(contentOf(m))}
	case message.Assistant:
		return t.prose(m.Text())
	case message.Tool:
		r := m.Result()
		return []string{t.piece(kindCall, t.mark(r)+" "+t.dim.Render(cut(bare(r.Name)+" → "+saidBy(r, 400), t.paint.width-3)))}
	}
	return nil
}

// contentOf is what a message of before says, as it is said now.
func contentOf(m *message.Message) (out client.Content) {
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			out = append(out, client.Block{Type: "text", Text: b.Text})
		case *message.Image:
			out = append(out, client.Block{Type: "image", MIME: b.MIME, Data: b.Data, URL: b.URL})
		case *message.File:
			out = append(out, client.Block{Type: "file", MIME: b.MIME, Name: b.Name, Data: b.Data, URL: b.URL})
		}
	}
	return out
}

func (m *chat) title(text string) tea.Cmd {
	switch {
	case m.conv == "":
		m.say("there is no conversation yet; write something first")
		return nil
	case text == "":
		m.say("/title wants a text")
		return nil
	}
	conv := m.conv
	var c client.Conversation
	return m.elsewhere(func() error {
		return m.opt.Client.Call(m.ctx, "PATCH /conversations/{id}", client.Params{"id": conv}, map[string]string{"title": text}, &c)
	}, func() tea.Cmd {
		m.named = c.Title
		m.say("the title is now: " + m.named)
		return nil
	})
}

// choose lists the models, or has one that is named be asked from now on.
func (m *chat) choose(name string) tea.Cmd {
	var names []string
	return m.briefly(func(ctx context.Context) (err error) {
		names, err = modelNames(ctx, m.opt.Client)
		return err
	}, func() tea.Cmd {
		m.models = names
		provider, _, full := strings.Cut(name, "/")
		switch {
		case name == "":
			m.say(strings.Join(append(slices.Clone(names), "/model NAME uses one"), "\n"))
		case slices.Contains(names, name), full && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, provider+"/") }) && slices.Contains(settings.Vendors(), provider):
			m.model = name // a vendor that cannot be asked now may have it
			m.say("from now on: " + name)
		default:
			m.sayUnknown("model ", name, "; /model lists them", "/model ", names)
		}
		return nil
	})
}

// sayUnknown says that something is not there, and what may have been meant;
// otherwise is said where that cannot be guessed.
func (m *chat) sayUnknown(what, name, otherwise, command string, names []string) {
	if w := settings.Likely(name, names); w != "" {
		otherwise = "; did you mean " + command + w + "?"
	}
	m.say("there is no " + what + oneLine(name, 80) + otherwise)
}

// modelNames are the names by which models can be asked for, the aliases first.
func modelNames(ctx context.Context, c *client.Client) ([]string, error) {
	var out struct {
		Aliases []string
		Models  []struct {
			Name     string
			Embedder bool
		}
	}
	err := c.Call(ctx, "GET /models", nil, nil, &out)
	names := out.Aliases
	for _, m := range out.Models {
		if !m.Embedder {
			names = append(names, m.Name)
		}
	}
	return names, err
}

func (m *chat) tools(string) tea.Cmd {
	if m.opt.Tools == nil {
		m.say("the tools cannot be listed here")
		return nil
	}
	return m.telling(func() (string, error) {
		tools, err := m.opt.Tools(m.ctx)
		var lines []string
		for _, t := range tools {
			lines = append(lines, fmt.Sprintf("%-18s %s", t.Name, t.Description))
		}
		return strings.Join(lines, "\n"), err
	})
}

func (m *chat) export(file string) tea.Cmd {
	if m.conv == "" {
		m.say("there is no conversation yet; write something first")
		return nil
	}
	if file == "" {
		file = "steward-" + m.conv + ".md"
	}
	conv := m.conv
	return m.telling(func() (string, error) { return "written to " + file, exportTo(m.ctx, m.opt.Client, conv, file) })
}

func exportTo(ctx context.Context, c *client.Client, conv, file string) error {
	format := "markdown"
	if strings.EqualFold(filepath.Ext(file), ".json") {
		format = "json"
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "file_exists", "%s is there already", file).WithHint("name another file")
	}
	if err != nil {
		return fault.New(fault.Invalid, "file_unwritable", "%w", err).WithHint("name another file")
	}
	err = c.Export(ctx, conv, format, false, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

func (m *chat) halt(string) tea.Cmd {
	if !m.turn.running || m.conv == "" {
		m.say("nothing is running")
		return nil
	}
	conv := m.conv
	return m.elsewhere(func() error { return m.opt.Client.Stop(m.ctx, conv) }, func() tea.Cmd { return nil })
}

func (m *chat) leave(string) tea.Cmd {
	if m.turn.running && m.opt.Leaving != "" {
		m.say(m.opt.Leaving)
	}
	m.leaving = true
	return nil
}

// complete returns what the input could go on to: commands, and what some of
// them take.
func (m *chat) completions(text string) []string {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return nil
	}
	name, arg, more := strings.Cut(text[1:], " ")
	var out []string
	if !more {
		for _, c := range commands() {
			if strings.HasPrefix(c.name, name) {
				out = append(out, "/"+c.name)
			}
		}
		return out
	}
	var words []string
	switch name {
	case "model":
		words = m.models
	case "agent":
		words = m.agents
	case "approve":
		for _, l := range m.pend.waiting {
			words = append(words, l.Path)
		}
	case "open":
		for _, c := range m.shelf {
			words = append(words, c.ID)
		}
	}
	for _, w := range words {
		if strings.HasPrefix(w, arg) && w != arg {
			out = append(out, "/"+name+" "+w)
		}
	}
	return out
}

// common returns what all of the words begin with.
func common(words []string) string {
	if len(words) == 0 {
		return ""
	}
	p := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, p) {
			p = p[:len(p)-1]
		}
	}
	return p
}
