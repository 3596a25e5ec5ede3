package apis

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The requests of /api/chat, /api/embed and /api/show, as far as Steward may
// use them. What is not here is refused (https://docs.ollama.com/api).
type ollamaRequest struct {
	Model     string          `json:"model"`
	Messages  []ollamaMessage `json:"messages"`
	Tools     []ollamaTool    `json:"tools"`
	Format    jsontext.Value  `json:"format"`
	Think     jsontext.Value  `json:"think"`
	Stream    *bool           `json:"stream"`
	Truncate  *bool           `json:"truncate"`
	Shift     *bool           `json:"shift"`
	KeepAlive jsontext.Value  `json:"keep_alive"`
	Options   *struct {
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"top_p"`
		Frequency   *float64 `json:"frequency_penalty"`
		Presence    *float64 `json:"presence_penalty"`
		Seed        *int64   `json:"seed"`
		NumPredict  *int     `json:"num_predict"`
		NumCtx      *int     `json:"num_ctx"`
		Stop        []string `json:"stop"`
	} `json:"options"`
	Input []string `json:"input"` // of /api/embed
}

type ollamaMessage struct {
	Role       string       `json:"role"`
	Content    *string      `json:"content"`
	Thinking   string       `json:"thinking"`
	Images     [][]byte     `json:"images"`
	ToolCalls  []ollamaCall `json:"tool_calls"`
	ToolName   string       `json:"tool_name"`
	ToolCallID string       `json:"tool_call_id"`
}

type ollamaCall struct {
	ID       string `json:"id"`
	Function struct {
		Index     int            `json:"index"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
}

type ollamaTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  struct {
			Type       string                    `json:"type"`
			Properties map[string]ollamaProperty `json:"properties"`
			Required   []string                  `json:"required"`
			Rest       jsontext.Value            `json:",embed"`
		} `json:"parameters"`
	} `json:"function"`
}

// ollamaProperty has the types that Ollama's own decoder wants.
type ollamaProperty struct {
	Type        any                       `json:"type"`
	Description string                    `json:"description"`
	Enum        []any                     `json:"enum"`
	AnyOf       []ollamaProperty          `json:"anyOf"`
	Properties  map[string]ollamaProperty `json:"properties"`
	Rest        jsontext.Value            `json:",embed"`
}

// CheckOllama holds a request's body against Ollama's published rules and the
// types of its decoder, and against what its templates rely on: results right
// after their calls, in their order.
func CheckOllama(body []byte) error {
	r := &ollamaRequest{}
	if err := json.Unmarshal(body, r, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	switch {
	case r.Model == "":
		return errors.New("model is required")
	case r.Input != nil:
		if len(r.Input) == 0 {
			return errors.New("nothing to embed")
		}
		return nil
	case r.Messages == nil && r.Stream == nil: // /api/show
		return nil
	case len(r.Messages) == 0:
		return errors.New("no messages: that would only load the model")
	case r.Stream == nil || !*r.Stream:
		return errors.New("the answer is not streamed")
	}
	for _, check := range []func() error{r.messages, r.pairing, r.tools, r.settings} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (r *ollamaRequest) messages() error {
	for i, m := range r.Messages {
		if err := m.check(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if last := r.Messages[len(r.Messages)-1].Role; last != "user" && last != "tool" && last != "system" {
		return fmt.Errorf("the last message is one of %s", last)
	}
	return nil
}

func (m ollamaMessage) check() error {
	switch {
	case m.Content == nil:
		return errors.New("no content")
	case m.Role == "tool" && m.ToolName == "":
		return errors.New("a tool's message without tool_name")
	case m.Role != "tool" && (m.ToolName != "" || m.ToolCallID != ""):
		return fmt.Errorf("tool_name or tool_call_id in a message of %s", m.Role)
	case m.Role != "assistant" && (m.ToolCalls != nil || m.Thinking != ""):
		return fmt.Errorf("tool_calls or thinking in a message of %s", m.Role)
	case m.Role != "user" && m.Role != "assistant" && m.Images != nil:
		return fmt.Errorf("images in a message of %s", m.Role)
	case *m.Content == "" && len(m.Images) == 0 && len(m.ToolCalls) == 0 && m.Thinking == "":
		return errors.New("an empty message")
	}
	switch m.Role {
	case "system", "user", "assistant", "tool":
	default:
		return fmt.Errorf("role %q", m.Role)
	}
	if slices.ContainsFunc(m.Images, func(b []byte) bool { return len(b) == 0 }) {
		return errors.New("an empty image")
	}
	for _, c := range m.ToolCalls {
		if c.Function.Name == "" || c.Function.Arguments.Kind() != '{' {
			return fmt.Errorf("the call of %q with %s: a name and an object are needed", c.Function.Name, c.Function.Arguments)
		}
	}
	return nil
}

// pairing: as many results as calls, right after them, in their order.
func (r *ollamaRequest) pairing() error {
	var open []ollamaCall
	for i, m := range r.Messages {
		if m.Role != "tool" {
			if len(open) > 0 {
				return fmt.Errorf("message %d: %d calls before it have no results", i, len(open))
			}
			open = m.ToolCalls
			continue
		}
		if len(open) == 0 {
			return fmt.Errorf("message %d: a result without a call", i)
		}
		if c := open[0]; m.ToolName != c.Function.Name || m.ToolCallID != c.ID {
			return fmt.Errorf("message %d: result %q %q answers call %q %q", i, m.ToolName, m.ToolCallID, c.Function.Name, c.ID)
		}
		open = open[1:]
	}
	if len(open) > 0 {
		return fmt.Errorf("the last %d calls have no results", len(open))
	}
	return nil
}

func (r *ollamaRequest) tools() error {
	names := map[string]bool{}
	for _, t := range r.Tools {
		f := t.Function
		if t.Type != "function" || f.Name == "" || names[f.Name] {
			return fmt.Errorf("the tool %q of type %q", f.Name, t.Type)
		}
		names[f.Name] = true
		if f.Parameters.Type != "object" || f.Parameters.Properties == nil {
			return fmt.Errorf("the parameters of %s are no object with properties", f.Name)
		}
	}
	return nil
}

func (r *ollamaRequest) settings() error {
	if f := r.Format; f != nil && f.Kind() != '{' && string(f) != `"json"` {
		return fmt.Errorf("format %s", f)
	}
	if f := r.Format; f != nil && len(r.Tools) > 0 {
		return errors.New("format keeps the model from calling its tools")
	}
	if t := r.Think; t != nil && !slices.Contains([]string{"true", "false", `"low"`, `"medium"`, `"high"`}, string(t)) {
		return fmt.Errorf("think %s", t)
	}
	if k := r.KeepAlive; k != nil && k.Kind() != '"' && k.Kind() != '0' {
		return fmt.Errorf("keep_alive %s", k)
	}
	o := r.Options
	switch {
	case o == nil:
	case o.NumPredict != nil && *o.NumPredict < 1, o.NumCtx != nil && *o.NumCtx < 1:
		return errors.New("num_predict and num_ctx are positive")
	case slices.Contains(o.Stop, ""):
		return errors.New("an empty stop sequence")
	}
	return nil
}
