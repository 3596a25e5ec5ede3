package conversations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// apiMessage is a message as the API returns it.
type apiMessage struct {
	*message.Message
	messageState
	raw json.RawMessage
}

// messageState is the position and the state of a message.
type messageState struct {
	Interaction  id.ID           `json:"interaction_id"`
	Branch       string          `json:"branch"`
	State        record.Validity `json:"state"` // empty: active
	Reason       string          `json:"reason"`
	By           string          `json:"by"`
	Changed      time.Time       `json:"changed"`
	SupersededBy id.ID           `json:"superseded_by"`
	Pinned       bool            `json:"pinned"`
	Shown        bool            `json:"shown"` // a model sees it; left out: true
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *apiMessage) UnmarshalJSON(b []byte) (err error) {
	m.messageState, m.raw = messageState{Shown: true}, slices.Clone(b)
	if err := json.Unmarshal(b, &m.messageState); err != nil {
		return err
	}
	m.Message, err = message.Decode(b)
	return err
}

// marks describes what is unusual about a message.
func (m *apiMessage) marks() string {
	var out []string
	switch m.State {
	case "":
		if !m.Shown {
			out = append(out, "not shown")
		}
	case record.Superseded:
		if m.Shown {
			out = append(out, "superseded")
		} else {
			out = append(out, "summarised")
		}
	default:
		out = append(out, stateWord(m.State))
	}
	if m.Pinned {
		out = append(out, "pinned")
	}
	return strings.Join(out, ", ")
}

// stateWord names a validity for people.
func stateWord(v record.Validity) string {
	if v == record.Invalidated {
		return "obsolete"
	}
	return string(v)
}

// who names the speaker.
func (m *apiMessage) who() string {
	switch {
	case m.Role == message.User && len(m.Blocks) > 0 && (m.Blocks[0].Base().Origin == "system" || m.Blocks[0].Base().Origin == record.OriginMemory):
		return "steward"
	case m.Role == message.User:
		return "you"
	}
	if r := m.Result(); r != nil {
		return command.PlainLine(r.Name)
	}
	return string(m.Role)
}

// gist summarizes a message on one line.
func (m *apiMessage) gist() string {
	var parts []string
	for _, b := range m.Blocks {
		if b.Base().Labels&message.Secret != 0 {
			parts = append(parts, "[secret]")
			continue
		}
		switch b := b.(type) {
		case *message.Text:
			parts = append(parts, b.Text)
		case *message.ToolCall:
			parts = append(parts, "→ "+b.Name+" "+string(b.Args))
		case *message.ToolResult:
			parts = append(parts, b.Text())
		case *message.Image:
			parts = append(parts, "[image]")
		case *message.File:
			parts = append(parts, strings.TrimSuffix("[file "+b.Name, " ")+"]")
		}
	}
	text := strings.Join(parts, " ")
	if len(text) > 4*command.MaxGist { // more would not be shown
		text = strings.ToValidUTF8(text[:4*command.MaxGist], "")
	}
	return command.Cell(strings.Join(strings.Fields(command.PlainLine(text)), " "), command.MaxGist)
}

// messageTable formats messages in their order, under a heading for each day, within a width
// (0: unlimited).
func messageTable(list []*apiMessage, width int, now time.Time) string {
	rows := make([][]string, len(list))
	for i, m := range list {
		rows[i] = []string{command.ShortID(m.ID), m.who(), m.marks(), m.gist()}
	}
	lines, _ := command.Table([]command.Column{{}, {Most: command.WidestTool}, {}, {Least: command.MinWhat}}, rows, command.WidthBesideTimes(width))
	return command.GroupByDay(lines, func(i int) time.Time { return list[i].At }, now)
}

// messageText formats a message in full.
func messageText(m *apiMessage, conv string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n\n", m.who(), m.At.Local().Format("2006-01-02 15:04:05"))
	state := ""
	if m.State != "" {
		state = stateWord(m.State)
		if m.State == record.Superseded && !m.Shown {
			state = "summarised"
		}
		if m.By != "" {
			state += " by " + changedBy(m.By, "")
		}
		if !m.Changed.IsZero() {
			state += ", " + m.Changed.Local().Format("2006-01-02 15:04")
		}
		if m.Reason != "" {
			state += ": " + m.Reason
		}
	}
	model := m.Model
	if m.Stop != "" {
		model += " (" + string(m.Stop) + ")"
	}
	shown, pinned := "", ""
	if !m.Shown && m.State == "" {
		shown = "no: the model is shown only later messages"
	}
	if m.Pinned {
		pinned = "yes"
	}
	b.WriteString(command.Fields(15, [][2]string{{"id", m.ID.String()}, {"conversation", conv}, {"interaction", m.Interaction.String()}, {"branch", m.Branch},
		{"model", strings.TrimSpace(model)}, {"state", state}, {"replaced by", m.SupersededBy.String()}, {"shown", shown}, {"pinned", pinned}}))
	for _, x := range m.Blocks {
		b.WriteString("\n" + blockText(x))
	}
	for i, c := range m.Citations() {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, command.PlainLine(c.String()))
	}
	return b.String()
}

// blockText formats a block in full.
func blockText(b message.Block) string {
	if b.Base().Labels&message.Secret != 0 {
		return "[secret]\n"
	}
	switch b := b.(type) {
	case *message.Text:
		return command.Indented(b.Text)
	case *message.Reasoning:
		return "reasoning\n" + command.Indented(b.Text)
	case *message.Vendor:
		return "by the provider: " + command.PlainLine(b.Kind) + "\n" + command.Indented(string(b.Meta.Fields))
	case *message.ToolCall:
		return "calls " + command.PlainLine(b.Name) + "\n" + command.Indented(command.ArgumentsText(b.Args))
	case *message.ToolResult:
		text := fmt.Sprintf("result of %s (%s)\n%s", command.PlainLine(b.Name), b.Status, command.Indented(b.Text()))
		if b.Rest != "" {
			text += "  [the rest is kept as " + command.PlainLine(b.Rest) + "]\n"
		}
		return text
	case *message.Image:
		return "[image " + command.PlainLine(cmp.Or(b.MIME, b.URL)) + "]\n"
	case *message.File:
		return "[file " + command.PlainLine(cmp.Or(b.Name, b.MIME, b.URL)) + "]\n"
	}
	return ""
}

// changedBy names who changed something: a tool, an agent or a person.
func changedBy(tool, actor string) string {
	switch {
	case tool != "" && tool != "local":
		return tool
	case tool == "local" || actor == "local":
		return "you"
	}
	return strings.TrimPrefix(actor, "agent:")
}

// pageOf is how many messages are requested at once.
const pageOf = 1000

// newestFirst reads the messages of a branch ("": the current one), newest first.
func (t conversationTarget) newestFirst(ctx context.Context, branch string, page int) iter.Seq2[*apiMessage, error] {
	return t.messages(ctx, client.Params{"reverse": "true", "branch": branch}, page)
}

// deletedOnes reads the deleted messages that can be restored.
func (t conversationTarget) deletedOnes(ctx context.Context) iter.Seq2[*apiMessage, error] {
	return t.messages(ctx, client.Params{"deleted": "true"}, pageOf)
}

func (t conversationTarget) messages(ctx context.Context, p client.Params, page int) iter.Seq2[*apiMessage, error] {
	p["id"] = t.conv
	return client.Each[*apiMessage](ctx, t.Client, "GET /conversations/{id}/messages", "messages", p, page)
}

// allMessages reads the messages of all branches, each once, newest first and the current
// branch first. If deleted is set, deleted messages that can be restored follow.
func (t conversationTarget) allMessages(ctx context.Context, deleted bool) iter.Seq2[*apiMessage, error] {
	return func(yield func(*apiMessage, error) bool) {
		branches, err := t.Branches(ctx, t.conv, false)
		if err != nil {
			yield(nil, err)
			return
		}
		slices.SortStableFunc(branches, func(a, b client.Branch) int { return cmp.Compare(rank(b), rank(a)) })
		seen := map[id.ID]bool{}
		lists := make([]iter.Seq2[*apiMessage, error], 0, len(branches)+1)
		for _, b := range branches {
			lists = append(lists, t.newestFirst(ctx, b.ID, pageOf))
		}
		if deleted {
			lists = append(lists, t.deletedOnes(ctx))
		}
		for _, list := range lists {
			for m, err := range list {
				if err == nil && seen[m.ID] {
					continue
				}
				if !yield(m, err) || err != nil {
					return
				}
				seen[m.ID] = true
			}
		}
	}
}

// minIDPart is how many characters of an id the user must type.
const minIDPart = 6

// find finds messages by their ids, by at least six characters of the beginning
// or the end of their ids, or as "last". Error codes: message_invalid,
// message_not_found, message_ambiguous.
func (t conversationTarget) find(ctx context.Context, deleted bool, names ...string) ([]*apiMessage, error) {
	found := make([][]*apiMessage, len(names))
	open := len(names) // names that match no full id yet
	for i, name := range names {
		names[i] = strings.ToLower(strings.TrimSpace(name))
		if _, whole := id.Parse(names[i]); !whole && names[i] != "last" && !isPart(names[i]) {
			return nil, fault.New(fault.Invalid, "message_invalid", "%.80q is not the id of a message or a part of it", name).
				WithHint("steward messages list shows the ids; %d characters of the beginning or the end will do", minIDPart)
		}
	}
	first := true
	for m, err := range t.allMessages(ctx, deleted) {
		if err != nil {
			return nil, err
		}
		full := m.ID.String()
		for i, name := range names {
			if name == full || name == "last" && first {
				found[i] = []*apiMessage{m}
				open--
			} else if len(name) < len(full) && (strings.HasPrefix(full, name) || strings.HasSuffix(full, name)) {
				found[i] = append(found[i], m)
			}
		}
		if first = false; open == 0 {
			break
		}
	}
	out := make([]*apiMessage, len(names))
	for i, list := range found {
		switch len(list) {
		case 0:
			return nil, fault.New(fault.NotFound, "message_not_found", "conversation %s has no message %s", t.conv, names[i]).
				WithHint("steward messages list shows its messages; --conversation names another conversation")
		case 1:
			out[i] = list[0]
		default:
			return nil, ambiguous("message", "messages", names[i], list, func(m *apiMessage) string { return m.ID.String() })
		}
	}
	return out, nil
}

// isPart reports whether a text is a long enough part of a possible id.
func isPart(s string) bool {
	return len(s) >= minIDPart && strings.Trim(s, "0123456789abcdef-") == ""
}

// ambiguous returns the error for a part that several ids have in common.
func ambiguous[T any](what, plural, name string, list []T, idOf func(T) string) error {
	var full, short []string
	for _, x := range list {
		full, short = append(full, idOf(x)), append(short, command.Shorten(idOf(x)))
	}
	names := short
	if slices.ContainsFunc(full, func(s string) bool { return strings.HasSuffix(s, name) }) {
		names = full
	}
	if len(names) > 8 {
		names = append(slices.Clone(names[:8]), "…")
	}
	return fault.New(fault.Invalid, what+"_ambiguous", "%q is ambiguous: it matches %d %s", name, len(list), plural).
		Detail("candidates", full).WithHint("name one of them: %s", strings.Join(names, ", "))
}

// ids returns the ids of messages.
func ids(list []*apiMessage) []string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.ID.String()
	}
	return out
}

// shortIDs lists the short forms of ids.
func shortIDs(list []string) string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = command.Shorten(x)
	}
	return strings.Join(out, ", ")
}

// NewestMessage returns the newest message of the current branch of a conversation; nil: there is none.
func NewestMessage(ctx context.Context, s *command.Session, conv string) (*message.Message, error) {
	for m, err := range (conversationTarget{Session: s, conv: conv}).newestFirst(ctx, "", 1) {
		if err != nil {
			return nil, err
		}
		return m.Message, nil
	}
	return nil, nil
}
