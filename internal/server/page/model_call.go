package page

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
)

// Limits of what is shown of a model call.
const (
	promptMessages    = 200
	promptSearched    = 1000
	promptMessageSize = 20_000
)

// modelCallItem is a model call in a timeline.
func (v *visit) modelCallItem(conv, agent string, m *message.Message) g.Node {
	facts := []string{m.Model}
	if m.Usage.Input+m.Usage.Output > 0 {
		facts = append(facts, v.t("{in} tokens in, {out} out", count(m.Usage.Input), count(m.Usage.Output)))
	}
	if m.Usage.CacheRead > 0 {
		facts = append(facts, v.t("{n} of them from the cache", count(m.Usage.CacheRead)))
	}
	facts = append(facts, agent)
	facts = slices.DeleteFunc(facts, func(s string) bool { return s == "" })
	said := oneLine(m.Text())
	return Div(Class("happened"), P(Class("what"), v.icon("chat"), g.Text(v.t("Model call")), g.Text(" "), Span(Class("quiet"), g.Text(visible(strings.Join(facts, " · "))))),
		g.If(said != "", P(ownText(said))),
		v.button("model-call", v.t("Prompt and answer"), "", "conversation", conv, "message", m.ID.String()))
}

// modelCall shows what was sent to a model for an answer, and the answer.
func (v *visit) modelCall(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Message string }](in)
	if err != nil {
		return nil, err
	}
	conv, ok1 := id.Parse(x.Conversation)
	own, ok2 := id.Parse(x.Message)
	if !ok1 || !ok2 {
		return nil, fault.New(fault.NotFound, "message_not_found", "there is no message %.80q", x.Message)
	}
	answer, err := v.Node.Conversations.Find(v.ctx(), store.ForUser(v.caller.User), conv, own)
	if err != nil {
		return nil, err
	}
	sent, err := v.api().ModelCall(v.ctx(), x.Conversation, x.Message)
	var prompt g.Node
	switch {
	case err == nil:
		prompt, err = v.sentPrompt(&sent)
	case fault.HasCode(err, "model_call_not_kept"):
		prompt, err = v.rebuiltPrompt(conv, own)
	}
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Model call"), Div(Class("wide"), prompt, H3(g.Text(v.t("Answer"))), v.storedMessage(message.Append(nil, answer.Message)), v.closeButton())), nil
}

// sentPrompt shows a request that Steward still has, part by part.
func (v *visit) sentPrompt(sent *client.ModelCall) (g.Node, error) {
	var messages []g.Node
	cut := len(sent.Messages) > promptMessages
	for _, raw := range sent.Messages[max(0, len(sent.Messages)-promptMessages):] {
		m, err := message.Decode(raw)
		if err != nil {
			return nil, err
		}
		messages = append(messages, v.promptMessage(m, raw, nil))
	}
	return g.Group{
		H3(g.Text(v.t("Instructions"))), Pre(Dir("auto"), g.Text(visible(sent.System))),
		g.If(len(sent.Tools) > 0, g.Group{H3(g.Text(v.t("Tools: {n}", strconv.Itoa(len(sent.Tools))))), g.Map(sent.Tools, func(t client.ModelCallTool) g.Node {
			return Details(Class("prompt"), Summary(Code(g.Text(t.Name)), g.Text(" "), ownText(oneLine(t.Description))), P(Dir("auto"), g.Text(visible(t.Description))), jsonText(string(t.Input)))
		})}),
		H3(g.Text(v.t("Messages"))), g.If(cut, P(Class("quiet"), g.Text(v.t("Earlier messages are not shown here.")))), g.Group(messages)}, nil
}

// rebuiltPrompt shows the messages before an answer, as they are today.
func (v *visit) rebuiltPrompt(conv, answer id.ID) (g.Node, error) {
	list, _, err := v.Node.Conversations.Read(v.ctx(), store.ForUser(v.caller.User), conv, conversation.Reading{Limit: promptSearched, Reverse: true})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(e conversation.Entry) bool { return e.ID == answer })
	if at < 0 {
		return P(Class("quiet"), g.Text(v.t("The prompt is no longer in memory, and the answer is on another branch than the one that is shown."))), nil
	}
	before := list[at+1:]
	cut := len(before) > promptMessages
	before = before[:min(len(before), promptMessages)]
	slices.Reverse(before)
	return g.Group{
		P(Class("label"), v.icon("warn"), Span(g.Text(v.t("The exact prompt is kept only while the conversation is in memory. This is the request as it can be rebuilt from the messages of today. The model was also given the instructions of its agent, what is remembered about you, and descriptions of its tools; old messages may have been left out or shortened.")))),
		H3(g.Text(v.t("Messages"))), g.If(cut, P(Class("quiet"), g.Text(v.t("Earlier messages are not shown here.")))),
		g.If(len(before) == 0, P(Class("quiet"), g.Text("–"))),
		g.Map(before, func(e conversation.Entry) g.Node {
			return v.promptMessage(e.Message, message.Append(nil, e.Message), g.If(!e.Shown, Span(Class("state"), g.Text(" "+v.t("no longer shown to models")))))
		})}, nil
}

// promptMessage shows a message of a prompt: its beginning, and unfolded all of it.
func (v *visit) promptMessage(m *message.Message, raw []byte, note g.Node) g.Node {
	role, first := string(m.Role), oneLine(m.Text())
	switch m.Role {
	case message.User:
		role = v.t("User")
	case message.Assistant:
		role = v.t("Assistant")
	case message.Tool:
		role = v.t("Result")
		if r := m.Result(); r != nil {
			first = oneLine(r.Text())
		}
	}
	return Details(Class("prompt"), Summary(B(g.Text(role)), g.Text(" "), ownText(first), note), v.storedMessage(raw))
}

// storedMessage shows a message in the form in which it is stored.
func (v *visit) storedMessage(raw []byte) g.Node {
	if len(raw) > promptMessageSize {
		return g.Group{Pre(Dir("ltr"), g.Text(visible(strings.ToValidUTF8(string(raw[:promptMessageSize]), "")))), P(Class("quiet"), g.Text(v.t("The rest is not shown here.")))}
	}
	return jsonText(string(raw))
}
