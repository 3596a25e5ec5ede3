package terminal

import (
	"cmp"
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
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/settings"
)

// command is a slash command.
type command struct {
	name, args, does string
	needs            need
	run              func(m *liveScreen, args string) tea.Cmd
}

// need is what a command needs before it can run.
type need int

const (
	needsNothing          need = iota
	needsConversation          // a conversation is open
	needsIdleConversation      // and no turn is running in it
)

func commands() []command {
	return []command{
		{"help", "", "show this list", needsNothing, (*liveScreen).help},
		{"new", "", "start a new conversation", needsNothing, (*liveScreen).fresh},
		{"list", "", "list the conversations, newest first", needsNothing, (*liveScreen).list},
		{"search", "WORDS", "search all your conversations, and open a result", needsNothing, (*liveScreen).search},
		{"open", "ID", "open a conversation by its id or its number in /list", needsNothing, (*liveScreen).open},
		{"edit", "[TEXT]", "replace your last message (without TEXT: edit the old one)", needsIdleConversation, (*liveScreen).edit},
		{"again", "", "get another answer to your last message", needsIdleConversation, (*liveScreen).again},
		{"prev", "", "switch to the previous version of the answer or question", needsIdleConversation, func(m *liveScreen, _ string) tea.Cmd { return m.step(-1) }},
		{"next", "", "switch to the next version", needsIdleConversation, func(m *liveScreen, _ string) tea.Cmd { return m.step(1) }},
		{"branches", "", "list the branches of this conversation", needsIdleConversation, (*liveScreen).branches},
		{"switch", "NUMBER", "switch to a branch by its number in /branches", needsIdleConversation, (*liveScreen).switchTo},
		{"rewind", "[N]", "go back to before your last message, or your last N", needsIdleConversation, (*liveScreen).rewind},
		{"pin", "", "always keep the last turn in the model's context", needsIdleConversation, func(m *liveScreen, _ string) tea.Cmd { return m.pin(true) }},
		{"unpin", "", "unpin the last turn", needsIdleConversation, func(m *liveScreen, _ string) tea.Cmd { return m.pin(false) }},
		{"compact", "[undo]", "replace old messages with a summary, or undo that", needsIdleConversation, (*liveScreen).compact},
		{"log", "", "show the tool calls of this conversation", needsConversation, (*liveScreen).log},
		{"title", "TEXT", "give this conversation a title", needsConversation, (*liveScreen).title},
		{"model", "[NAME]", "choose a model", needsNothing, (*liveScreen).choose},
		{"agent", "[NAME]", "choose the agent that continues this conversation", needsNothing, (*liveScreen).switchAgent},
		{"plan", "TEXT", "plan a request; you approve the plan before it is carried out", needsNothing, (*liveScreen).plan},
		{"persona", "[NAME]", "choose how the agent speaks to you, or off", needsNothing, (*liveScreen).persona},
		{"folder", "PATH", "let Steward read a folder of this machine; add write to allow writing", needsNothing, (*liveScreen).folder},
		{"agents", "", "list the agents and tool sources, and whether each is approved", needsNothing, (*liveScreen).showAgents},
		{"approve", "[NAME]", "approve an agent or tool source, or review those that wait", needsNothing, (*liveScreen).approve},
		{"memory", "[forget N]", "list what this conversation recalled and saved, or forget it", needsNothing, (*liveScreen).memoryCommand},
		{"tools", "", "list the available tools", needsNothing, (*liveScreen).tools},
		{"export", "[FILE]", "write this conversation to a file, .json or .md", needsConversation, (*liveScreen).export},
		{"stop", "", "stop the answer (like Esc)", needsNothing, (*liveScreen).stopTurn},
		{"quit", "", "leave the chat (like Ctrl-D)", needsNothing, (*liveScreen).leave},
	}
}

// stillAnswering refuses a command while a turn runs.
const stillAnswering = "wait for the answer first, or stop it with Esc"

// runCommand runs a slash command.
func (m *liveScreen) runCommand(line string) tea.Cmd {
	name, args, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	var names []string
	for _, c := range commands() {
		switch {
		case c.name != name:
			names = append(names, c.name)
			continue
		case c.needs != needsNothing && m.conv == "":
			m.printNote("there is no conversation yet; send a message first")
		case c.needs == needsIdleConversation && m.busy():
			m.printNote(stillAnswering)
		default:
			return c.run(m, strings.TrimSpace(args))
		}
		return nil
	}
	m.printUnknown("command /", name, "; /help lists them", "/", names)
	return nil
}

func (m *liveScreen) help(string) tea.Cmd {
	rows := [][2]string{}
	for _, c := range commands() {
		rows = append(rows, [2]string{"/" + strings.TrimSpace(c.name+" "+c.args), c.does})
	}
	rows = append(rows, [2]string{},
		[2]string{"Enter", `send; Alt-Enter, Shift-Enter, Ctrl-J or a \ at the end starts a new line`},
		[2]string{"@PATH", "attach a file: text, an image, a recording, a PDF or a Word file"},
		[2]string{"Up, Down", "recall earlier input; Ctrl-R searches it"},
		[2]string{"Tab", "complete a command or a path"},
		[2]string{"Ctrl-O", "show the model's reasoning and the arguments of calls, or what was pasted"},
		[2]string{"Ctrl-Z", "undo what was remembered last"},
		[2]string{"Esc, Ctrl-C", "stop the answer; Ctrl-C twice leaves"})
	const left = len("/memory [forget N]  ")
	var lines []string
	for _, r := range rows {
		head := r[0] + "  "
		if gap := left - len(head); gap > 0 {
			head += strings.Repeat(" ", gap)
		}
		lines = append(lines, hangingIndent(m.turn.dim, m.turn.dim.Render(head), strings.Repeat(" ", left), r[1], m.width))
	}
	m.turn.print(kindSaid, strings.Join(lines, "\n"))
	return nil
}

// plan sends a request to the planner. The agent that was there continues after it.
func (m *liveScreen) plan(text string) tea.Cmd {
	text = unquoted(text)
	if text == "" {
		return m.noteCmd("/plan needs a request to plan")
	}
	if m.busy() {
		return m.noteCmd(stillAnswering)
	}
	t := m.next(text)
	t.Agent, t.Plan = "planner", true
	m.agent = cmp.Or(m.agent, m.continues, ownAgent)
	return m.dispatch(t, text, nil)
}

// unquoted takes away the quotes around a whole text, which people write as in a shell.
func unquoted(text string) string {
	for _, q := range []string{`""`, "''", "“”"} {
		begins, ends := string([]rune(q)[0]), string([]rune(q)[1])
		inside, ok := strings.CutPrefix(text, begins)
		if inside, whole := strings.CutSuffix(inside, ends); ok && whole && !strings.Contains(inside, begins) && !strings.Contains(inside, ends) {
			return strings.TrimSpace(inside)
		}
	}
	return text
}

// fresh leaves the conversation. What runs in it continues, and what waits there for the person is
// asked again when the conversation is opened.
func (m *liveScreen) fresh(string) tea.Cmd {
	if m.sending != "" || len(m.outbox) > 0 {
		return m.noteCmd("your message is still being sent; try again in a moment")
	}
	said := "a new conversation begins with your next message"
	if m.turn.running {
		said += "; the previous one keeps running: see /list"
	}
	m.unwatch()
	m.watch++ // what has arrived from it is not shown
	m.turn.stop()
	m.conv, m.named, m.continues, m.editing = "", "", "", nil
	return m.noteCmd(said)
}

func (m *liveScreen) list(string) tea.Cmd {
	return elsewhere(m, func(string) ([]client.Conversation, error) { return m.opt.Client.Conversations(m.ctx, 20) }, m.showList)
}

func (m *liveScreen) showList(list []client.Conversation) tea.Cmd {
	if len(list) == 0 {
		return m.noteCmd("there are no conversations yet")
	}
	m.listed = list
	var b strings.Builder
	for i, c := range list {
		mark := " "
		if c.ID == m.conv {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s%2d  %s  %s\n", mark, i+1, c.Updated.Local().Format("01-02 15:04"), oneLine(titleOf(c), max(m.width-20, 10)))
	}
	b.WriteString("/open NUMBER continues one")
	return m.noteCmd(b.String())
}

func titleOf(c client.Conversation) string {
	return cmp.Or(c.Title, "untitled, "+c.ID)
}

// search lists the messages that have the words, to open the conversation of one.
func (m *liveScreen) search(words string) tea.Cmd {
	if words == "" {
		return m.noteCmd("/search needs words to search for")
	}
	return elsewhere(m, func(string) (page search.Page, err error) {
		return page, m.opt.Client.Call(m.ctx, "GET /search", client.Params{"q": words, "limit": "20"}, nil, &page)
	}, func(page search.Page) tea.Cmd {
		var items []string
		found := map[string]string{}
		for i, h := range page.Hits {
			item := fmt.Sprintf("%2d  %s  %s: %s", i+1, h.At.Local().Format("2006-01-02 15:04"), cmp.Or(h.Title, "untitled"), h.Text)
			items, found[item] = append(items, item), h.Conversation.String()
		}
		if len(items) == 0 {
			return m.noteCmd("nothing was found")
		}
		return m.pick("open:", "", items, func(item string) tea.Cmd {
			return m.opening(found[item], func() (opened, error) { return opened{}, nil })
		})
	})
}

// opened is a conversation that the user has opened, with its last messages.
type opened struct {
	conversation client.Conversation
	recent       []*message.Message
	cursor       string // what follows it has not been read
	say          string // printed in place of its title
	draft        string // put into the input line if that is empty
}

func (m *liveScreen) open(which string) tea.Cmd {
	var n int
	if _, err := fmt.Sscanf(which, "%d", &n); err == nil && len(which) < 4 && n >= 1 && n <= len(m.listed) {
		which = m.listed[n-1].ID
	}
	conv, ok := id.Parse(strings.ToLower(which))
	if !ok {
		return m.noteCmd("/open needs a number from /list or the id of a conversation")
	}
	return m.opening(conv.String(), func() (opened, error) { return opened{}, nil })
}

// opening calls do on a conversation, reads the conversation and its last messages,
// and opens it.
func (m *liveScreen) opening(conv string, do func() (opened, error)) tea.Cmd {
	return elsewhere(m, func(string) (o opened, err error) {
		if o, err = do(); err != nil {
			return o, err
		}
		if o.cursor, err = m.opt.Client.Position(m.ctx, conv); err != nil { // before anything is read or said
			return o, err
		}
		if o.conversation, err = m.opt.Client.Conversation(m.ctx, conv); err == nil {
			o.recent, err = m.lastMessages(conv, 8)
		}
		return o, err
	}, m.showOpened)
}

// newest iterates over the messages of a conversation, newest first.
func (m *liveScreen) newest(conv string, page int) iter.Seq2[*message.Message, error] {
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

// lastMessages reads at most the last most messages, starting at a message of the user.
func (m *liveScreen) lastMessages(conv string, most int) ([]*message.Message, error) {
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

func (m *liveScreen) showOpened(o opened) tea.Cmd {
	m.unwatch()
	if o.conversation.ID != m.conv && o.conversation.ID != m.opt.Conversation {
		m.agent = "" // another conversation continues with its own agent
	}
	m.conv, m.named, m.continues, m.editing = o.conversation.ID, o.conversation.Title, o.conversation.Agent, nil
	if o.say == "" {
		o.say = "opened: " + titleOf(o.conversation)
	}
	m.printNote(o.say)
	for _, x := range o.recent {
		m.turn.renderHistory(x)
	}
	if o.draft != "" && m.input.Value() == "" {
		m.setInput(o.draft)
	}
	return tea.Batch(m.follow(o.cursor), m.count())
}

// renderHistory renders a message of the history.
func (t *turn) renderHistory(m *message.Message) {
	switch m.Role {
	case message.User:
		if isAlarm(m) {
			t.reminder(m.Text(), m.At)
			return
		}
		if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginMemory {
			return // it names facts by their ids: /memory shows them
		}
		t.user(contentOf(m))
	case message.Assistant:
		if m.Model != record.RepeatModel {
			t.prose(m.Text())
		}
	case message.Tool:
		r := m.Result()
		t.print(kindCall, t.mark(r)+" "+t.dim.Render(cut(Visible(r.Name)+" → "+resultLine(r, 400), t.paint.width-3)))
	}
}

// contentOf converts a stored message to the content that a client sends.
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

func (m *liveScreen) title(text string) tea.Cmd {
	text = unquoted(text)
	if text == "" {
		return m.noteCmd("/title needs a text")
	}
	return elsewhere(m, func(conv string) (c client.Conversation, err error) {
		return c, m.opt.Client.Call(m.ctx, "PATCH /conversations/{id}", client.Params{"id": conv}, map[string]string{"title": text}, &c)
	}, func(c client.Conversation) tea.Cmd {
		m.named = c.Title
		return m.noteCmd("the title is now: " + m.named)
	})
}

// choose switches to the named model, or offers all of them.
func (m *liveScreen) choose(name string) tea.Cmd {
	return elsewhere(m, func(string) ([]string, error) { return modelNames(m.ctx, m.opt.Client) }, func(names []string) tea.Cmd {
		m.models = names
		provider, _, full := strings.Cut(name, "/")
		use := func(name string) tea.Cmd {
			m.model = name
			return m.noteCmd("from now on: " + name)
		}
		switch {
		case name == "":
			return m.pick("model:", "", names, use)
		case slices.Contains(names, name), full && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, provider+"/") }) && slices.Contains(m.opt.Providers, provider):
			return use(name) // a vendor whose models cannot be listed now may offer it
		default:
			m.printUnknown("model ", name, "; /model lists them", "/model ", names)
		}
		return nil
	})
}

// printUnknown says that a name does not exist and suggests a similar one. If there is
// none, it prints otherwise instead.
func (m *liveScreen) printUnknown(what, name, otherwise, command string, names []string) {
	if w := settings.Suggest(name, names); w != "" {
		otherwise = "; did you mean " + command + w + "?"
	}
	m.printNote("there is no " + what + oneLine(name, 80) + otherwise)
}

// modelNames returns the names that a model can be chosen by, aliases first. It leaves
// out embedders.
func modelNames(ctx context.Context, c *client.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var out struct {
		Aliases []string
		Models  []struct {
			Name     string
			Embedder bool
		}
	}
	err := c.Call(ctx, "GET /models", nil, nil, &out)
	names := slices.DeleteFunc(out.Aliases, func(name string) bool { return name == "embed" })
	for _, m := range out.Models {
		if !m.Embedder {
			names = append(names, m.Name)
		}
	}
	return names, err
}

func (m *liveScreen) tools(string) tea.Cmd {
	if m.opt.Tools == nil {
		return m.noteCmd("the tools cannot be listed here")
	}
	return m.noteCmd(m.opt.Tools())
}

func (m *liveScreen) export(file string) tea.Cmd {
	file = cmp.Or(file, "steward-"+m.conv+".md")
	return elsewhere(m, func(conv string) (string, error) {
		where, err := filepath.Abs(file)
		if err != nil {
			where = file
		}
		return "written to " + where, exportTo(m.ctx, m.opt.Client, conv, file)
	}, m.noteCmd)
}

func exportTo(ctx context.Context, c *client.Client, conv, file string) error {
	format := "markdown"
	if strings.EqualFold(filepath.Ext(file), ".json") {
		format = "json"
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "file_exists", "%s already exists", file).WithHint("name another file")
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

func (m *liveScreen) stopTurn(string) tea.Cmd {
	if !m.turn.running || m.conv == "" {
		return m.noteCmd("nothing is running")
	}
	return elsewhere(m, func(conv string) (string, error) { return "", m.opt.Client.Stop(m.ctx, conv) }, func(string) tea.Cmd { return nil })
}

func (m *liveScreen) leave(string) tea.Cmd {
	if m.turn.running && m.opt.Leaving != "" {
		m.printNote(m.opt.Leaving)
	}
	m.leaving = true
	return nil
}

// completions returns the completions of the input: commands, and the arguments of
// some of them.
func (m *liveScreen) completions(text string) []string {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return pathCompletions(text)
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
		for _, c := range m.listed {
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

// common returns the longest common prefix of the words.
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
	return strings.ToValidUTF8(p, "") // it may end within a letter
}

// folder lets the files tools use one more folder.
func (m *liveScreen) folder(args string) tea.Cmd {
	path, write := strings.CutSuffix(args, " write")
	path = strings.Trim(strings.TrimSpace(path), `"'`)
	switch {
	case m.opt.Folder == nil:
		return m.noteCmd("folders can be granted only in a chat on the machine where Steward runs")
	case path == "":
		return m.noteCmd("/folder needs a path, such as /folder ~/Documents; add write to allow writing")
	}
	return elsewhere(m, func(string) (string, error) { return m.opt.Folder(path, write) }, m.noteCmd)
}
