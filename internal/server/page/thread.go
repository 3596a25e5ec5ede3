package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
)

// A conversation is shown as a thread of articles, one for each message. The ids of its elements derive from the
// messages, so that a patch finds what it replaces:
//
//	m-MESSAGE           the article
//	b-MESSAGE           what the message says
//	k-MESSAGE-BLOCK     one block of it, and k-MESSAGE-BLOCK-N, the parts of a text
//	c-MESSAGE-BLOCK     the card of a call
const threadID = "thread"

func articleID(m id.ID) string { return "m-" + m.String() }
func bodyID(m id.ID) string    { return "b-" + m.String() }
func blockID(m id.ID, block int) string {
	return "k-" + m.String() + "-" + strconv.Itoa(block)
}

// cardID is the id of the card of a call, whose own id is "MESSAGE/BLOCK".
func cardID(call string) string { return "c-" + strings.Replace(call, "/", "-", 1) }

// article shows a message. results are those of its calls, as far as they exist.
func (v *visit) article(m *message.Message, results map[message.Ref]*message.Message, foot g.Node) g.Node {
	switch m.Role {
	case message.User:
		return v.said(m, foot)
	case message.Assistant:
		var parts []g.Node
		for i, b := range m.Blocks {
			switch b := b.(type) {
			case *message.Text:
				parts = append(parts, v.textBlock(m.ID, i, b.Text), citations(b.Citations))
			case *message.Reasoning:
				if strings.TrimSpace(b.Text) != "" {
					parts = append(parts, v.reasoning(m.ID, i, b.Text))
				}
			case *message.ToolCall:
				c := message.Call{Ref: message.Ref{Message: m.ID, Block: i}, ToolCall: b}
				parts = append(parts, v.card(v.storedCall(m, c, results[c.Ref])))
			case *message.Image, *message.File:
				parts = append(parts, v.attachment(v.fileAt(m.ID, i), b))
			}
		}
		return v.answer(m.ID, foot, parts...)
	}
	return nil
}

// answer is the article of an assistant's message.
func (v *visit) answer(m id.ID, foot g.Node, parts ...g.Node) g.Node {
	return Article(ID(articleID(m)), Class("msg assistant"), Data("message", m.String()), Aria("label", v.t("Answer")),
		Div(ID(bodyID(m)), Class("body"), g.Group(parts)), foot)
}

// said is the article of a message that a person has written, or that something else has in the person's place.
func (v *visit) said(m *message.Message, foot g.Node) g.Node {
	if len(m.Blocks) == 0 {
		return nil
	}
	var parts []g.Node
	for i, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			parts = append(parts, Div(ID(blockID(m.ID, i)), Class("typed"), Dir("auto"), g.Text(visible(b.Text))))
		case *message.Image, *message.File:
			parts = append(parts, v.attachment(v.fileAt(m.ID, i), b))
		}
	}
	switch from := m.Blocks[0].Base().Origin; {
	case from == record.OriginUser:
		return Article(ID(articleID(m.ID)), Class("msg user"), Data("message", m.ID.String()), Aria("label", v.t("You")), Div(ID(bodyID(m.ID)), Class("body"), g.Group(parts)), foot)
	case opensTurn(from):
		return Article(ID(articleID(m.ID)), Class("msg opened"), Data("message", m.ID.String()),
			Details(Summary(v.icon("clock"), g.Text(v.opener(from)), g.Text(" "), when(m.At)), Div(ID(bodyID(m.ID)), Class("body"), g.Group(parts))))
	}
	return nil
}

// opensTurn reports whether an origin is that of something that begins a turn in the person's place.
func opensTurn(from string) bool {
	for _, p := range []string{"tool:", "agent:", "intent:", record.OriginAlarm, record.OriginJob} {
		if strings.HasPrefix(from, p) {
			return true
		}
	}
	return false
}

func (v *visit) opener(from string) string {
	kind, name, _ := strings.Cut(from, ":")
	switch {
	case strings.HasPrefix(from, record.OriginAlarm):
		return v.t("A reminder")
	case strings.HasPrefix(from, record.OriginJob):
		return v.t("A job")
	case kind == "agent":
		return v.t("The agent {name}", name)
	}
	return v.t("The tool {name}", name)
}

func (v *visit) textBlock(m id.ID, block int, s string) g.Node {
	at := blockID(m, block)
	return Div(ID(at), Class("text"), g.Group(parts(at, v.markdown.blocks(s))))
}

// parts are the blocks of a text, each with an id of its own.
func parts(at string, blocks []string) (out []g.Node) {
	for i, b := range blocks {
		out = append(out, part(at, i, b))
	}
	return out
}

func partID(at string, i int) string { return at + "-" + strconv.Itoa(i) }

func part(at string, i int, html string) g.Node {
	return Div(ID(partID(at, i)), Dir("auto"), g.Raw(html))
}

func (v *visit) reasoning(m id.ID, block int, s string) g.Node {
	return Details(ID(blockID(m, block)), Class("reasoning"), Summary(g.Text(v.t("Thoughts"))), Div(Class("text"), Dir("auto"), g.Text(visible(s))))
}

func citations(list []message.Citation) g.Node {
	if len(list) == 0 {
		return nil
	}
	return Ul(Class("citations"), g.Map(list, func(c message.Citation) g.Node {
		title := c.Title
		if title == "" {
			title = c.URL
		}
		if strings.HasPrefix(c.URL, "https://") || strings.HasPrefix(c.URL, "http://") {
			return Li(A(Href(c.URL), Target("_blank"), Rel("noopener noreferrer nofollow"), g.Text(visible(title))))
		}
		return Li(ownText(title))
	}))
}

// call is what the card of a call shows.
type call struct {
	id       string // "MESSAGE/BLOCK"
	name     string
	args     string
	sentence string // what it does
	status   string
	progress string
	fraction float64
	result   *message.ToolResult
	took     time.Duration // 0: unknown
	question g.Node        // of an approval that it waits for
}

// storedCall is a call of a message, with the message that has its result.
func (v *visit) storedCall(of *message.Message, c message.Call, result *message.Message) call {
	out := call{id: requests.CallID(c.Ref), name: c.Name, args: string(c.Args), status: "running", sentence: v.workLog().Summary(c)}
	if result != nil {
		out.result = result.Result()
		out.status, out.took = string(out.result.Status), result.At.Sub(of.At)
		if out.result.Status == message.Queued {
			out.status = v.queuedState(out.id)
		}
	}
	return out
}

// queuedState is what has become of a call that was done after the answer: the status of its card.
func (v *visit) queuedState(call string) string {
	if v.queued == nil && !v.conversation.Zero() {
		list, err := v.intentsByCall(client.IntentQuery{Conversation: v.conversation.String()})
		if err != nil {
			return string(message.Queued)
		}
		v.queued = list
	}
	switch x := v.queued[call]; intent.State(x.State) {
	case intent.Done:
		return string(message.OK)
	case intent.Denied, intent.Expired:
		return string(message.DeniedCall)
	case intent.Cancelled:
		return string(message.Interrupted)
	case intent.Failed:
		return string(message.Failed)
	case intent.Unknown:
		return string(message.UnknownEnd)
	}
	return string(message.Queued)
}

func stateID(call string) string { return "s-" + strings.Replace(call, "/", "-", 1) }

// card shows a call: a sentence first, arguments and result when it is unfolded.
func (v *visit) card(c call) g.Node {
	state, icon := "", ""
	switch c.status {
	case "ok":
		icon = "done"
	case "writing", "running":
		state, icon = v.t("running"), "spin"
	case "awaiting_approval":
		state, icon = v.t("waits for you"), "hand"
	case "queued":
		state, icon = v.t("after the answer"), "clock"
	case "denied":
		state, icon = v.t("denied"), "no"
	case "accepted":
		state, icon = v.t("works on"), "clock"
	case "cancelled", "interrupted":
		state, icon = v.t("cancelled"), "no"
	case "unknown":
		state, icon = v.t("unknown whether it was done"), "warn"
	case "unavailable":
		state, icon = v.t("not reachable"), "fail"
	default:
		state, icon = v.t("failed"), "fail"
	}
	sentence := c.sentence
	if sentence == "" {
		sentence = c.name
	}
	if c.question != nil && c.result == nil { // it says all that the card does
		return Div(ID(cardID(c.id)), Class("call "+c.status), Data("call", c.id), c.question)
	}
	return Div(ID(cardID(c.id)), Class("call "+c.status), Data("call", c.id),
		Details(Data("of", "call"),
			Summary(v.icon(icon), Span(Class("sentence"), ownText(sentence)), g.If(state != "", Span(ID(stateID(c.id)), Class("state"), g.Text(state))),
				g.If(c.progress != "", Span(Class("progress"), ownText(c.progress))),
				g.If(c.fraction > 0, g.El("progress", Max("1"), Value(fmt.Sprintf("%.2f", c.fraction))))),
			Dl(Dt(g.Text(v.t("Tool"))), Dd(Code(g.Text(c.name))),
				Dt(g.Text(v.t("Arguments"))), Dd(jsonText(c.args)),
				g.If(c.result != nil, g.Group{Dt(g.Text(v.t("Result"))), Dd(v.result(c.result))}),
				g.If(c.took > 0, g.Group{Dt(g.Text(v.t("Time"))), Dd(g.Text(duration(c.took)))}),
				g.If(c.result != nil && !v.conversation.Zero(), Div(ID(costID(c.id)), Data("more", "call-cost"), Data("field-call", c.id))))),
		v.made(c.result),
		c.question)
}

func costID(call string) string { return "p-" + strings.Replace(call, "/", "-", 1) }

// callCost is the action that shows what a call has cost, if it is known: that of an agent, for example. It is asked
// for when the card is unfolded.
func (v *visit) callCost(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Call string }](in)
	if err != nil {
		return nil, err
	}
	msg, _, _ := strings.Cut(x.Call, "/")
	m, err := v.find(x.Conversation, msg)
	if err != nil {
		return nil, err
	}
	turn, err := v.api().Request(v.ctx(), m.Interaction.String())
	if fault.Is(err, fault.NotFound) { // an imported one
		return &reply{Patches: []patch{{ID: costID(x.Call)}}}, nil
	}
	if err != nil {
		return nil, err
	}
	found := requestOf(&turn, x.Call)
	if found == nil || found.Usage.Input+found.Usage.Output == 0 && found.Cost == 0 {
		return &reply{Patches: []patch{{ID: costID(x.Call)}}}, nil
	}
	cost := v.t("{n} tokens", count(found.Usage.Input+found.Usage.Output))
	if found.Cost > 0 {
		cost = dollars(found.Cost) + " · " + cost
	}
	return &reply{Patches: []patch{put(costID(x.Call), "", Div(ID(costID(x.Call)), Dt(g.Text(v.t("Cost"))), Dd(g.Text(cost))))}}, nil
}

// requestOf returns the request that a call has led to, in a tree.
func requestOf(r *client.Request, call string) *client.Request {
	if r.Call == call {
		return r
	}
	for i := range r.Below {
		if found := requestOf(&r.Below[i], call); found != nil {
			return found
		}
	}
	return nil
}

// find returns a message of a conversation of the person's.
func (v *visit) find(conv, msg string) (e conversation.Entry, err error) {
	c, err := conversationID(conv)
	if err != nil {
		return e, err
	}
	m, ok := id.Parse(msg)
	if !ok {
		return e, fault.New(fault.NotFound, "message_not_found", "there is no message %.80q", msg)
	}
	return v.Node.Conversations.Find(v.ctx(), store.ForUser(v.caller.User), c, m)
}

// messageText is the action that returns what an answer says, in Markdown, to be copied.
func (v *visit) messageText(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Message string }](in)
	if err != nil {
		return nil, err
	}
	m, err := v.find(x.Conversation, x.Message)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, b := range m.Blocks {
		if t, ok := b.(*message.Text); ok {
			out = append(out, t.Text)
		}
	}
	return &reply{Data: strings.Join(out, "\n\n")}, nil
}

// maxShown is how much of a result is shown.
const maxShown = 20_000

func (v *visit) result(r *message.ToolResult) g.Node {
	if r == nil {
		return nil
	}
	s := r.Text()
	cut := len(s) > maxShown
	if cut {
		s = strings.ToValidUTF8(s[:maxShown], "")
	}
	return g.Group{g.If(s != "", Pre(Dir("auto"), g.Text(visible(s)))), g.If(cut, P(Class("quiet"), g.Text(v.t("The rest is not shown here.")))),
		g.If(r.Labels.Has(message.Untrusted), P(Class("label"), v.icon("warn"), g.Text(v.t("This text comes from others."))))}
}

// jsonText shows JSON with indents.
func jsonText(s string) g.Node { return Pre(Dir("ltr"), g.Text(visible(indented(s)))) }

// indented indents JSON without a change to its values: numbers keep their digits, and invisible characters of its
// strings are written as \u escapes, so that a person sees and can edit exactly what a tool gets.
func indented(s string) string {
	var b bytes.Buffer
	if tooDeep(s) || json.Indent(&b, []byte(s), "", "  ") != nil {
		return s // an unfinished call, or no JSON
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || !tool.Invisible(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// maxIndented is how deep values in JSON are in each other that are shown with indents, which otherwise become much
// more than the text.
const maxIndented = 60

func tooDeep(s string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(s) && depth <= maxIndented; i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return depth > maxIndented
}

// foot has what can be done with a message, and what an answer cost.
func (v *visit) foot(m *message.Message, branches g.Node) g.Node {
	switch {
	case m.Role == message.User:
		return Footer(Class("acts"), Span(Class("quiet at"), when(m.At)), branches, v.iconButtonJS("edit", "edit", v.t("Edit")), v.iconButtonJS("copy", "copy", v.t("Copy")))
	case m.Final:
		return Footer(Class("acts"), branches, v.iconButtonJS("copy", "copy", v.t("Copy")),
			v.iconButton("regenerate", "again", v.t("Answer again"), "message", m.ID.String()),
			Span(Class("quiet cost"), when(m.At), g.Text(" · "+v.cost(m))))
	}
	return nil
}

// iconButtonJS is a button that a module in the browser handles.
func (v *visit) iconButtonJS(does, icon, label string) g.Node {
	return Button(Type("button"), Class("icon"), Data("js", does), Aria("label", label), Title(label), v.icon(icon))
}

func (v *visit) cost(m *message.Message) string {
	_, model, _ := strings.Cut(m.Model, "/")
	var parts []string
	if m.Stop == message.StopCancelled {
		parts = append(parts, v.t("stopped"))
	}
	if model != "" { // an answer that was stopped names none
		parts = append(parts, model)
	}
	if m.Took > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s", m.Took.Seconds()))
	}
	u := m.TurnUsage()
	if n := u.Input + u.Output; n > 0 {
		parts = append(parts, v.t("{n} tokens", count(n)))
	}
	return strings.Join(parts, " · ")
}

func count(n int64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%d k", n/1000)
	}
	return strconv.FormatInt(n, 10)
}

// history shows messages in their order, with what was remembered, if that is not nil.
func (v *visit) history(list []conversation.Entry, branches func(*conversation.Entry) g.Node, known *remembered) []g.Node {
	results := map[message.Ref]*message.Message{}
	for _, e := range list {
		if r := e.Result(); e.Role == message.Tool && r != nil {
			results[r.Call] = e.Message
		}
	}
	var out []g.Node
	var day string
	for i := range list {
		e := &list[i]
		out = append(out, known.lines(v, e.Message)...)
		n := v.article(e.Message, results, v.foot(e.Message, branches(e)))
		if n == nil {
			continue
		}
		if d := e.At.Format(time.DateOnly); d != day {
			day = d
			out = append(out, Div(Class("day"), Aria("hidden", "true"), g.El("time", Class("date"), DateTime(e.At.UTC().Format(time.RFC3339)), g.Text(d))))
		}
		out = append(out, n)
		for _, c := range e.Calls() {
			if c.Name == planTool && results[c.Ref] != nil {
				out = append(out, A(Class("notice plan-link"), Href("/plans/"+e.Interaction.String()), v.icon("tree"), g.Text(v.t("Open the plan"))))
			}
		}
	}
	return append(out, known.rest()...)
}
