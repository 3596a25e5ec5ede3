package ollama

import (
	"math"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/server/auth"
	"steward/internal/tool"
	"steward/internal/turn/relay"
)

// question is what /api/chat and /api/generate have in common. Other functions decode the raw values.
type question struct {
	Model   string                    `json:"model"`
	Stream  *bool                     `json:"stream"` // true unless it is false
	Format  jsontext.Value            `json:"format"`
	Think   jsontext.Value            `json:"think"`
	Options map[string]jsontext.Value `json:"options"`

	// KeepAlive says how long a model stays loaded, which is up to the providers.
	KeepAlive jsontext.Value `json:"keep_alive"`
}

// chatRequest is the body of POST /api/chat.
type chatRequest struct {
	question
	Messages []jsontext.Value `json:"messages"`
	Tools    []toolPart       `json:"tools"`

	Rest map[string]jsontext.Value `json:",embed"` // ignored, whether Ollama knows them or not
}

// generateRequest is the body of POST /api/generate.
type generateRequest struct {
	question
	Prompt   string         `json:"prompt"`
	System   string         `json:"system"`
	Images   []string       `json:"images"`
	Suffix   string         `json:"suffix"`
	Template string         `json:"template"`
	Raw      bool           `json:"raw"`
	Context  jsontext.Value `json:"context"` // of an earlier answer, which had none

	Rest map[string]jsontext.Value `json:",embed"`
}

type toolPart struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// streamed reports whether the answer is sent in pieces.
func (q *question) streamed() bool { return q.Stream == nil || *q.Stream }

// unloads reports whether a request without a question asks to unload the model, and not to load it.
func (q *question) unloads() bool { return string(q.KeepAlive) == "0" || string(q.KeepAlive) == `"0"` }

// sampling reads the options that change an answer. Those that say how Ollama runs a model, such as num_ctx, have no
// effect: the request is fitted to the model's own context window.
func (q *question) sampling() (s llm.Sampling, err error) {
	for name, to := range map[string]**float64{"temperature": &s.Temperature, "top_p": &s.TopP,
		"frequency_penalty": &s.FrequencyPenalty, "presence_penalty": &s.PresencePenalty} {
		if err := q.number(name, to); err != nil {
			return s, err
		}
	}
	var seed, most *float64
	if err := q.number("seed", &seed); err != nil {
		return s, err
	}
	if err := q.number("num_predict", &most); err != nil {
		return s, err
	}
	if seed != nil {
		n := int64(*seed)
		s.Seed = &n
	}
	if most != nil && *most > 0 { // -1 and -2 mean without a limit
		s.MaxTokens = int(*most)
	}
	if v := q.Options["stop"]; len(v) > 0 && v.Kind() != 'n' {
		var into any = &s.Stop
		if v.Kind() == '"' {
			s.Stop = make([]string, 1)
			into = &s.Stop[0]
		}
		if json.Unmarshal(v, into) != nil || len(s.Stop) > 16 {
			return s, bad("options.stop must be a list of at most 16 texts")
		}
	}
	s.Effort, err = q.effort()
	return s, err
}

func (q *question) number(name string, to **float64) error {
	v := q.Options[name]
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	*to = new(float64)
	if err := json.Unmarshal(v, *to); err != nil || math.Abs(**to) > 1e9 {
		return bad("option %q must be a number", name)
	}
	return nil
}

// effort reads think: true, false, or a level.
func (q *question) effort() (llm.Effort, error) {
	switch word := strings.Trim(string(q.Think), `"`); word {
	case "", "null", "true":
		return "", nil
	case "false":
		return llm.EffortNone, nil
	case "low", "medium", "high":
		return llm.Effort(word), nil
	}
	return "", bad("think must be true, false, \"low\", \"medium\" or \"high\"")
}

// schema reads the format of the answer; nil for prose.
func (q *question) schema() (*llm.Schema, error) {
	switch {
	case len(q.Format) == 0, q.Format.Kind() == 'n', string(q.Format) == `""`:
		return nil, nil
	case string(q.Format) == `"json"`:
		return &llm.Schema{Name: "object", JSON: []byte(`{"type":"object"}`)}, nil
	case q.Format.Kind() == '{':
		return &llm.Schema{Name: "answer", JSON: []byte(q.Format)}, nil
	}
	return nil, bad("invalid format: expected \"json\" or a JSON schema")
}

// maxTools bounds the tools of one request.
const maxTools = 512

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// toolset reads the client's own tools, which the model may call and the client runs. It returns nil if there are none.
func toolset(tools []toolPart) (*llm.Toolset, error) {
	var specs []tool.Spec
	names := map[string]bool{}
	if len(tools) > maxTools {
		return nil, bad("there are %d tools; the limit is %d", len(tools), maxTools)
	}
	for _, t := range tools {
		f := t.Function
		switch {
		case t.Type != "function" && t.Type != "":
			return nil, fault.New(fault.Unsupported, "unsupported_parameter", "tools of the type %.40q are not supported", t.Type).WithHint("use functions")
		case !toolName.MatchString(f.Name):
			return nil, bad("invalid tool name %.100q", f.Name).WithHint("use 1 to 64 letters, digits, '_', '.' and '-'")
		case names[f.Name]:
			return nil, bad("two tools have the name %q", f.Name)
		}
		names[f.Name] = true
		schema := []byte(f.Parameters)
		switch f.Parameters.Kind() {
		case 0, 'n':
			schema = []byte(`{"type":"object","properties":{}}`)
		case '{':
		default:
			return nil, bad("the parameters of the tool %s are not a JSON schema", f.Name)
		}
		specs = append(specs, tool.Spec{Name: f.Name, Description: f.Description, Input: schema, Effect: tool.Query})
	}
	if len(specs) == 0 {
		return nil, nil
	}
	return llm.NewToolset(specs...), nil
}

// wireMessage is a message as a request to generate says it.
type wireMessage struct {
	Role    string   `json:"role"`
	Content string   `json:"content"`
	Images  []string `json:"images,omitempty"`
}

// messages returns the prompt as the messages of a chat.
func (g *generateRequest) messages() ([]jsontext.Value, error) {
	if g.Suffix != "" {
		return nil, fault.New(fault.Unsupported, "unsupported_parameter", "%s does not support insert", g.Model).WithHint("leave suffix out")
	}
	if g.Raw || g.Template != "" {
		return nil, fault.New(fault.Unsupported, "unsupported_parameter", "raw prompts and templates are not supported").WithHint("leave raw and template out")
	}
	var out []jsontext.Value
	if g.System != "" {
		out = append(out, line(wireMessage{Role: "system", Content: g.System}))
	}
	return append(out, line(wireMessage{Role: "user", Content: g.Prompt, Images: g.Images})), nil
}

// history converts a request's messages.
func (s *server) history(in []jsontext.Value) (system string, msgs []*message.Message, err error) {
	doc, err := json.Marshal(withoutStrays(in))
	if err != nil {
		return "", nil, bad("invalid messages: %w", err)
	}
	all, err := s.form.Decode(doc)
	if err != nil {
		if e := fault.Of(err); e.Kind == fault.Invalid || e.Kind == fault.Unsupported {
			return "", nil, bad("invalid messages: %s", e.Message)
		}
		return "", nil, err
	}
	if len(message.Dangling(all)) > 0 {
		return "", nil, bad("invalid messages: a tool call has no result").
			WithHint("follow an assistant message that has tool_calls with one tool message for each of them")
	}
	kept := all[:0]
	for _, m := range all {
		if len(m.Blocks) > 0 {
			kept = append(kept, m)
		}
	}
	system, msgs = relay.History(kept, "import:ollama")
	if len(msgs) == 0 {
		return "", nil, bad("no message has content")
	}
	return system, msgs, nil
}

// withoutStrays leaves out results of tools whose calls are not there: clients that shorten a long history, such as
// Home Assistant, cut it between a call and its result.
func withoutStrays(in []jsontext.Value) []jsontext.Value {
	var out []jsontext.Value
	open := 0 // calls of the latest answer that have no result yet
	for _, raw := range in {
		var m struct {
			Role  string                    `json:"role"`
			Calls []jsontext.Value          `json:"tool_calls"`
			Rest  map[string]jsontext.Value `json:",embed"`
		}
		if auth.UnmarshalKnown(raw, &m) == nil {
			switch {
			case m.Role == "tool" && open == 0:
				continue
			case m.Role == "tool":
				open--
			default:
				open = len(m.Calls)
			}
		}
		out = append(out, raw)
	}
	return out
}

// check refuses messages that can be decoded but not used.
func check(at string, m *message.Message) error {
	blocks := m.Blocks
	if r := m.Result(); r != nil {
		blocks = r.Content
	}
	for _, b := range blocks {
		switch b := b.(type) {
		case *message.Image:
			if !strings.HasPrefix(b.MIME, "image/") || len(b.Data) == 0 {
				return bad("%s: an image is not the base64 of an image", at)
			}
		case *message.ToolCall:
			if !toolName.MatchString(b.Name) {
				return bad("%s: invalid tool name %.100q", at, b.Name)
			}
		case *message.Vendor:
			return bad("%s: an item of the type %.40q is not supported", at, b.Kind)
		}
	}
	return nil
}
