package terminal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
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
	say := fmt.Sprintf("there is no command /%s; /help lists them", oneLine(name, 40))
	if w := settings.Likely(name, names); w != "" {
		say = fmt.Sprintf("there is no command /%s; did you mean /%s?", oneLine(name, 40), w)
	}
	m.say(say)
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
	m.conv, m.named, m.editing = id.ID{}, "", nil
	m.say("a new conversation begins with your next message")
	return nil
}

// listed is the answer to /list.
type listed struct {
	conversations []record.Conversation
	err           error
}

func (m *chat) list(string) tea.Cmd {
	return func() tea.Msg {
		cs, _, err := m.opt.Shelf.Conversations(m.ctx, "", 20)
		return listed{cs, err}
	}
}

func (m *chat) showList(l listed) {
	if l.err != nil {
		m.fail(l.err)
		return
	}
	if len(l.conversations) == 0 {
		m.say("there are no conversations yet")
		return
	}
	m.shelf = l.conversations
	var b strings.Builder
	for i, c := range l.conversations {
		mark := " "
		if c.ID == m.conv {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s%2d  %s  %s\n", mark, i+1, c.Updated.Local().Format("01-02 15:04"), oneLine(titled(c), max(m.width-20, 10)))
	}
	b.WriteString("/open NUMBER goes on with one")
	m.say(b.String())
}

func titled(c record.Conversation) string {
	if c.Title == "" {
		return "untitled, " + c.ID.String()
	}
	return c.Title
}

// opened is the answer to /open.
type opened struct {
	conversation record.Conversation
	recent       []conversation.Entry
	say          string // in place of its title
	draft        string // for the input, if that is empty
	err          error
}

func (m *chat) open(which string) tea.Cmd {
	var n int
	if _, err := fmt.Sscanf(which, "%d", &n); err == nil && len(which) < 4 && n >= 1 && n <= len(m.shelf) {
		which = m.shelf[n-1].ID.String()
	}
	conv, ok := id.Parse(strings.ToLower(which))
	if !ok {
		m.say("/open wants a number from /list or a conversation's id")
		return nil
	}
	return m.fetch(conv)
}

// fetch reads a conversation and its last messages.
func (m *chat) fetch(conv id.ID) tea.Cmd {
	return func() tea.Msg { return m.reread(conv, "") }
}

// lastMessages reads the last few messages, from one of the user on.
func lastMessages(ctx context.Context, shelf Shelf, conv id.ID, most int) ([]conversation.Entry, error) {
	kept, _, err := shelf.Newest(ctx, conv, "", most)
	slices.Reverse(kept)
	if i := slices.IndexFunc(kept, func(e conversation.Entry) bool { return e.Role == message.User }); i > 0 {
		kept = kept[i:]
	}
	return kept, err
}

func (m *chat) showOpened(o opened) tea.Cmd {
	if o.err != nil {
		m.fail(o.err)
		return nil
	}
	m.unwatch()
	if o.conversation.ID != m.conv && o.conversation.ID != m.opt.Conversation {
		m.agent = "" // its own goes on with it
	}
	m.conv, m.named, m.editing = o.conversation.ID, o.conversation.Title, nil
	if o.say == "" {
		o.say = "opened: " + titled(o.conversation)
	}
	m.say(o.say)
	for _, e := range o.recent {
		m.print(m.turn.past(e.Message)...)
	}
	if o.draft != "" && m.input.Value() == "" {
		m.input.SetValue(o.draft)
		m.input.MoveToEnd()
	}
	return tea.Batch(m.watchFromNow(), m.count())
}

// past shows a message of before.
func (t *turn) past(m *message.Message) []string {
	switch m.Role {
	case message.User:
		return []string{t.user(m)}
	case message.Assistant:
		return t.prose(m.Text())
	case message.Tool:
		r := m.Result()
		return []string{t.piece(kindCall, t.mark(r.Status, r)+" "+t.dim.Render(cut(bare(r.Name)+" → "+denied(r)+oneLine(r.Plain(), 400), t.paint.width-3)))}
	}
	return nil
}

type renamed struct {
	conversation record.Conversation
	err          error
}

func (m *chat) title(text string) tea.Cmd {
	switch {
	case m.conv.Zero():
		m.say("there is no conversation yet; write something first")
		return nil
	case text == "":
		m.say("/title wants a text")
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		c, err := m.opt.Shelf.Rename(m.ctx, conv, text)
		return renamed{c, err}
	}
}

type told struct {
	text string
	err  error
}

func (m *chat) choose(name string) tea.Cmd {
	if m.opt.Models == nil {
		m.say("the models cannot be listed here")
		return nil
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
		defer cancel()
		names, err := m.opt.Models(ctx)
		return modelsMsg{names, name, err}
	}
}

// modelsMsg is the answer to /model.
type modelsMsg struct {
	names  []string
	chosen string // that is to be used; empty: they are only listed
	err    error
}

func (m *chat) showModels(l modelsMsg) {
	provider, _, full := strings.Cut(l.chosen, "/")
	switch {
	case l.err != nil:
		m.fail(l.err)
		return
	case l.chosen == "":
		m.say(strings.Join(append(slices.Clone(l.names), "/model NAME uses one"), "\n"))
	case slices.Contains(l.names, l.chosen), full && !slices.ContainsFunc(l.names, func(n string) bool { return strings.HasPrefix(n, provider+"/") }) && slices.Contains(settings.Vendors(), provider):
		m.model = l.chosen // a vendor that cannot be asked now may have it
		m.say("from now on: " + l.chosen)
	default:
		say := "there is no model " + oneLine(l.chosen, 80) + "; /model lists them"
		if w := settings.Likely(l.chosen, l.names); w != "" {
			say = "there is no model " + oneLine(l.chosen, 80) + "; did you mean /model " + w + "?"
		}
		m.say(say)
	}
	m.models = l.names
}

func (m *chat) tools(string) tea.Cmd {
	if m.opt.Tools == nil {
		m.say("the tools cannot be listed here")
		return nil
	}
	return func() tea.Msg {
		tools, err := m.opt.Tools(m.ctx)
		var b strings.Builder
		for _, t := range tools {
			fmt.Fprintf(&b, "%-18s %s\n", t.Name, t.Description)
		}
		return told{strings.TrimSuffix(b.String(), "\n"), err}
	}
}

func (m *chat) export(file string) tea.Cmd {
	if m.conv.Zero() {
		m.say("there is no conversation yet; write something first")
		return nil
	}
	if file == "" {
		file = "steward-" + m.conv.String() + ".md"
	}
	conv := m.conv
	return func() tea.Msg {
		err := exportTo(m.ctx, m.opt.Shelf, conv, file)
		return told{"written to " + file, err}
	}
}

func exportTo(ctx context.Context, shelf Shelf, conv id.ID, file string) error {
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
	err = shelf.Export(ctx, conv, format, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

func (m *chat) halt(string) tea.Cmd {
	if !m.turn.running || m.conv.Zero() {
		m.say("nothing is running")
		return nil
	}
	conv := m.conv
	return func() tea.Msg {
		if err := m.opt.Node.Stop(m.ctx, conv); err != nil {
			return told{err: err}
		}
		return nil
	}
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
			words = append(words, c.ID.String())
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
