package process

import (
	"encoding/json"
	"strings"

	"steward/internal/request"
	"steward/internal/tool"
)

// maxSuggestions bounds the next_actions that a model is shown.
const maxSuggestions = 20

// maxMetadata bounds the metadata of an answer that is kept, in bytes.
const maxMetadata = 4 << 10

// resultOf returns what the model sees of an answer: the message, the data, the tool's
// suggestions for what to do next, and what it says about the result in its metadata.
func resultOf(e request.Envelope) tool.Result {
	var parts []string
	if e.Status == request.StatusPartial {
		parts = append(parts, "(This is a partial answer: the tool could not do everything.)")
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if text := displayText(e.Data); text != "" && text != e.Message {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		parts = append(parts, map[bool]string{true: "It failed; the tool gave no reason.", false: "Done."}[e.Status == request.StatusFailure])
	}
	if list := suggestions(e.NextActions); list != "" {
		parts = append(parts, "The tool suggests these actions; none of them has been done:\n"+list)
	}
	if text := strings.TrimSpace(string(e.Metadata)); text != "" && text != "{}" && text != "null" {
		if len(text) > maxMetadata {
			text = strings.ToValidUTF8(text[:maxMetadata], "") + "…"
		}
		parts = append(parts, "metadata: "+text)
	}
	res := tool.Text(strings.Join(parts, "\n"))
	res.Failed = e.Status == request.StatusFailure
	return res
}

// displayText writes a value for the model: a text unchanged, anything else as JSON.
func displayText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// suggestions writes next_actions as a list.
func suggestions(actions []json.RawMessage) string {
	var out []string
	for _, raw := range actions[:min(len(actions), maxSuggestions)] {
		text := displayText(raw)
		var said struct {
			Description string `json:"description"`
			Message     string `json:"message"`
		}
		if json.Unmarshal(raw, &said) == nil && said.Description+said.Message != "" {
			if text = said.Description; text == "" {
				text = said.Message
			}
		}
		out = append(out, "- "+strings.Join(strings.Fields(text), " "))
	}
	return strings.Join(out, "\n")
}

// metadata returns what a request says about its call besides the arguments.
func metadata(in tool.Invocation, token string) json.RawMessage {
	m := map[string]string{}
	for name, v := range map[string]string{"idempotency_key": in.Key, "user": in.User, "agent": in.Agent, "token": token} {
		if v != "" {
			m[name] = v
		}
	}
	if len(m) == 0 {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil // texts: cannot fail
	}
	return b
}
