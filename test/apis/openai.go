package apis

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The request of chat completions and embeddings, as far as Steward may use
// it. What is not here is refused.
//
// Source: https://platform.openai.com/docs/api-reference/chat/create.
type openaiRequest struct {
	Model         string          `json:"model"`
	Messages      []openaiMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools               []openaiTool   `json:"tools"`
	ToolChoice          jsontext.Value `json:"tool_choice"`
	Temperature         *float64       `json:"temperature"`
	TopP                *float64       `json:"top_p"`
	FrequencyPenalty    *float64       `json:"frequency_penalty"`
	PresencePenalty     *float64       `json:"presence_penalty"`
	Seed                *int64         `json:"seed"`
	MaxTokens           *int           `json:"max_tokens"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	Stop                []string       `json:"stop"`
	ReasoningEffort     *string        `json:"reasoning_effort"`
	ResponseFormat      *struct {
		Type       string `json:"type"`
		JSONSchema *struct {
			Name   string         `json:"name"`
			Strict bool           `json:"strict"`
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	User             *string `json:"user"`
	SafetyIdentifier *string `json:"safety_identifier"`

	Input          []string `json:"input"` // of embeddings
	EncodingFormat string   `json:"encoding_format"`
}

type openaiTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string         `json:"name"`
		Description string         `json:"description"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict"`
	} `json:"function"`
}

type openaiMessage struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	Refusal    *string        `json:"refusal"`
	ToolCalls  *[]openaiCall  `json:"tool_calls"`
	ToolCallID *string        `json:"tool_call_id"`

	// Members of compatible servers.
	Reasoning        *string        `json:"reasoning"`
	ReasoningContent *string        `json:"reasoning_content"`
	ReasoningDetails jsontext.Value `json:"reasoning_details"`
}

type openaiCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
	ExtraContent jsontext.Value `json:"extra_content"` // Google's compatible server
}

type openaiPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	ImageURL *struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
	File *struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file"`
}

// toolName is the pattern that OpenAI and Anthropic give for tools' names.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// CheckOpenAI holds a request's body against OpenAI's published rules.
func CheckOpenAI(body []byte) error {
	var r openaiRequest
	if err := json.Unmarshal(body, &r, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("not a request: %w", err)
	}
	if r.Model == "" {
		return errors.New("model is missing")
	}
	if r.Input != nil {
		return openaiEmbedding(&r)
	}
	names, err := openaiTools(r.Tools)
	if err != nil {
		return err
	}
	if err := openaiMessages(r.Messages); err != nil {
		return err
	}
	if err := openaiChoice(r.ToolChoice, names); err != nil {
		return err
	}
	return openaiSettings(&r)
}

func openaiEmbedding(r *openaiRequest) error {
	switch {
	case len(r.Input) == 0 || len(r.Input) > 2048:
		return fmt.Errorf("input: %d texts", len(r.Input))
	case slices.Contains(r.Input, ""):
		return errors.New("input: an empty text")
	case r.EncodingFormat != "base64" && r.EncodingFormat != "float":
		return fmt.Errorf("encoding_format %q", r.EncodingFormat)
	case r.Messages != nil || r.Stream:
		return errors.New("an embedding with members of a completion")
	}
	return nil
}

func openaiTools(tools []openaiTool) ([]string, error) {
	var names []string
	if tools != nil && (len(tools) == 0 || len(tools) > 128) {
		return nil, fmt.Errorf("tools: %d of them; from 1 to 128 are allowed", len(tools))
	}
	for i, t := range tools {
		switch {
		case t.Type != "function":
			return nil, fmt.Errorf("tools[%d]: type %q", i, t.Type)
		case !toolName.MatchString(t.Function.Name):
			return nil, fmt.Errorf("tools[%d]: name %q", i, t.Function.Name)
		case slices.Contains(names, t.Function.Name):
			return nil, fmt.Errorf("tools[%d]: name %q comes twice", i, t.Function.Name)
		}
		var s struct {
			Type       string                    `json:"type"`
			Properties map[string]jsontext.Value `json:"properties"`
		}
		if err := json.Unmarshal(t.Function.Parameters, &s); err != nil || s.Type != "object" || s.Properties == nil {
			return nil, fmt.Errorf("tools[%d]: parameters are not an object schema with properties: %s", i, t.Function.Parameters)
		}
		names = append(names, t.Function.Name)
	}
	return names, nil
}

// openaiMessages checks the order: calls are followed by exactly their
// results, and results follow nothing else.
func openaiMessages(list []openaiMessage) error {
	if len(list) == 0 {
		return errors.New("messages: none")
	}
	var open []string
	for i := range list {
		m := &list[i]
		if err := openaiOne(m); err != nil {
			return fmt.Errorf("messages[%d] (%s): %w", i, m.Role, err)
		}
		if m.Role != "tool" {
			if len(open) > 0 {
				return fmt.Errorf("messages[%d]: an assistant message with tool_calls must be followed by tool messages for %q", i, open)
			}
			if m.ToolCalls != nil {
				for _, c := range *m.ToolCalls {
					open = append(open, c.ID)
				}
			}
			continue
		}
		at := slices.Index(open, *m.ToolCallID)
		if at < 0 {
			return fmt.Errorf("messages[%d]: tool_call_id %q answers no open call of %q", i, *m.ToolCallID, open)
		}
		open = slices.Delete(open, at, at+1)
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %q have no results", open)
	}
	return nil
}

func openaiOne(m *openaiMessage) error {
	assistant := m.Role == "assistant"
	switch {
	case !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role):
		return errors.New("unknown role")
	case (m.ToolCallID != nil) != (m.Role == "tool"):
		return errors.New("tool_call_id belongs to tool messages, and they need one")
	case m.ToolCalls != nil && !assistant:
		return errors.New("tool_calls belong to assistant messages")
	case !assistant && (m.Refusal != nil || m.Reasoning != nil || m.ReasoningContent != nil || m.ReasoningDetails != nil):
		return errors.New("refusal and reasoning belong to assistant messages")
	case m.Content == nil && !assistant:
		return errors.New("content is missing")
	case m.Content == nil && m.ToolCalls == nil && m.Refusal == nil:
		return errors.New("neither content nor tool_calls nor a refusal")
	}
	if m.Content != nil {
		if err := openaiContent(m.Role, m.Content); err != nil {
			return err
		}
	}
	if m.ToolCalls != nil {
		return openaiCalls(*m.ToolCalls)
	}
	return nil
}

func openaiCalls(calls []openaiCall) error {
	if len(calls) == 0 {
		return errors.New("tool_calls is empty")
	}
	seen := map[string]bool{}
	for i, c := range calls {
		switch {
		case c.ID == "" || len(c.ID) > 40:
			return fmt.Errorf("tool_calls[%d]: an id of %d bytes; from 1 to 40 are allowed", i, len(c.ID))
		case seen[c.ID]:
			return fmt.Errorf("tool_calls[%d]: id %q comes twice", i, c.ID)
		case c.Type != "function":
			return fmt.Errorf("tool_calls[%d]: type %q", i, c.Type)
		case !toolName.MatchString(c.Function.Name):
			return fmt.Errorf("tool_calls[%d]: name %q", i, c.Function.Name)
		case c.Function.Arguments == nil:
			return fmt.Errorf("tool_calls[%d]: arguments are missing", i)
		}
		seen[c.ID] = true
	}
	return nil
}

func openaiContent(role string, raw jsontext.Value) error {
	if raw.Kind() == '"' {
		if string(raw) == `""` && role != "tool" {
			return errors.New("content is empty")
		}
		return nil
	}
	var parts []openaiPart
	if err := json.Unmarshal(raw, &parts, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("content is neither text nor parts: %w", err)
	}
	if len(parts) == 0 {
		return errors.New("content has no parts")
	}
	for i, p := range parts {
		if err := openaiOnePart(role, &p); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return nil
}

func openaiOnePart(role string, p *openaiPart) error {
	switch p.Type {
	case "text":
		if p.Text == nil || *p.Text == "" || p.ImageURL != nil || p.File != nil {
			return errors.New("a text part must have text and nothing else")
		}
		return nil
	case "image_url":
		if p.ImageURL == nil || p.Text != nil || p.File != nil || role != "user" {
			return fmt.Errorf("an image_url part must have image_url and nothing else, and be a user's, not a %s's", role)
		}
		return openaiURL(p.ImageURL.URL, "image/")
	case "file":
		if p.File == nil || p.File.Filename == "" || p.Text != nil || p.ImageURL != nil || role != "user" {
			return errors.New("a file part must have a file with a name and nothing else, and be a user's")
		}
		return openaiURL(p.File.FileData, "application/pdf")
	}
	return fmt.Errorf("type %q", p.Type)
}

func openaiURL(s, mime string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return err
	case u.Scheme == "data":
		kind, data, ok := strings.Cut(u.Opaque, ";base64,")
		if !ok || !strings.HasPrefix(kind, mime) || data == "" {
			return fmt.Errorf("not a data URL of %s: %.60s", mime, s)
		}
	case u.Scheme != "https" && u.Scheme != "http" || mime == "application/pdf":
		return fmt.Errorf("not a URL that the API takes: %.60s", s)
	}
	return nil
}

func openaiChoice(raw jsontext.Value, tools []string) error {
	if raw == nil {
		return nil
	}
	if len(tools) == 0 {
		return errors.New("tool_choice without tools")
	}
	if slices.Contains([]string{`"none"`, `"auto"`, `"required"`}, string(raw)) {
		return nil
	}
	var c struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &c, json.RejectUnknownMembers(true)); err != nil || c.Type != "function" || !slices.Contains(tools, c.Function.Name) {
		return fmt.Errorf("tool_choice names no tool: %s", raw)
	}
	return nil
}

func openaiSettings(r *openaiRequest) error {
	efforts := []string{"none", "minimal", "low", "medium", "high", "xhigh"}
	switch {
	case r.StreamOptions != nil && !r.Stream:
		return errors.New("stream_options without stream")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 2):
		return fmt.Errorf("temperature %v", *r.Temperature)
	case r.TopP != nil && (*r.TopP < 0 || *r.TopP > 1):
		return fmt.Errorf("top_p %v", *r.TopP)
	case r.MaxTokens != nil && r.MaxCompletionTokens != nil:
		return errors.New("max_tokens beside max_completion_tokens")
	case r.MaxTokens != nil && *r.MaxTokens < 1, r.MaxCompletionTokens != nil && *r.MaxCompletionTokens < 1:
		return errors.New("a token limit below 1")
	case r.Stop != nil && (len(r.Stop) == 0 || len(r.Stop) > 4 || slices.Contains(r.Stop, "")):
		return fmt.Errorf("stop: %q; from 1 to 4 are allowed, none of them empty", r.Stop)
	case r.ReasoningEffort != nil && !slices.Contains(efforts, *r.ReasoningEffort):
		return fmt.Errorf("reasoning_effort %q", *r.ReasoningEffort)
	case r.SafetyIdentifier != nil && len(*r.SafetyIdentifier) > 64, r.User != nil && len(*r.User) > 64:
		return errors.New("the user is named in more than 64 characters")
	}
	return openaiFormat(r)
}

func openaiFormat(r *openaiRequest) error {
	f := r.ResponseFormat
	if f == nil {
		return nil
	}
	if f.Type != "json_schema" || f.JSONSchema == nil || !toolName.MatchString(f.JSONSchema.Name) {
		return errors.New("response_format is not a json_schema with a name")
	}
	if f.JSONSchema.Schema.Kind() != '{' {
		return errors.New("response_format has no schema")
	}
	if f.JSONSchema.Strict {
		return openaiStrict("schema", f.JSONSchema.Schema)
	}
	return nil
}

// openaiStrict checks what strict mode demands of objects, at any depth:
// https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
func openaiStrict(path string, raw jsontext.Value) error {
	var s struct {
		Type       jsontext.Value            `json:"type"`
		Properties map[string]jsontext.Value `json:"properties"`
		Required   []string                  `json:"required"`
		Additional jsontext.Value            `json:"additionalProperties"`
		Items      jsontext.Value            `json:"items"`
		AnyOf      []jsontext.Value          `json:"anyOf"`
		AllOf      jsontext.Value            `json:"allOf"`
		OneOf      jsontext.Value            `json:"oneOf"`
		Not        jsontext.Value            `json:"not"`
		Defs       map[string]jsontext.Value `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if s.AllOf != nil || s.OneOf != nil || s.Not != nil {
		return fmt.Errorf("%s: strict mode knows no allOf, oneOf and not", path)
	}
	if bytes.Contains(s.Type, []byte(`"object"`)) {
		if string(s.Additional) != "false" {
			return fmt.Errorf("%s: strict mode demands additionalProperties false", path)
		}
		for name := range s.Properties {
			if !slices.Contains(s.Required, name) {
				return fmt.Errorf("%s: strict mode demands that %q is required", path, name)
			}
		}
	}
	subs := map[string]jsontext.Value{}
	for name, sub := range s.Properties {
		subs[path+"."+name] = sub
	}
	for name, sub := range s.Defs {
		subs[path+".$defs."+name] = sub
	}
	for i, sub := range s.AnyOf {
		subs[fmt.Sprintf("%s.anyOf[%d]", path, i)] = sub
	}
	if s.Items != nil {
		subs[path+"[]"] = s.Items
	}
	for p, sub := range subs {
		if err := openaiStrict(p, sub); err != nil {
			return err
		}
	}
	return nil
}
