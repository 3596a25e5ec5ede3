package apis

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The request of the messages API, as far as Steward may use it. What is not
// here is refused.
//
// Source: https://platform.claude.com/docs/en/api/messages.
type anthropicRequest struct {
	Model       string             `json:"model"`
	MaxTokens   int                `json:"max_tokens"`
	Stream      bool               `json:"stream"`
	System      []anthropicBlock   `json:"system"`
	Messages    []anthropicMessage `json:"messages"`
	Tools       []anthropicTool    `json:"tools"`
	ToolChoice  *anthropicChoice   `json:"tool_choice"`
	Temperature *float64           `json:"temperature"`
	TopP        *float64           `json:"top_p"`
	Stop        []string           `json:"stop_sequences"`
	Thinking    *struct {
		Type    string `json:"type"`
		Budget  *int   `json:"budget_tokens"`
		Display string `json:"display"`
		Binding *struct {
			Mismatch string `json:"prefix_mismatch_behavior"`
		} `json:"block_binding"`
	} `json:"thinking"`
	OutputConfig *struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string         `json:"type"`
			Schema jsontext.Value `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Metadata *struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`

	marks int
}

type anthropicChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type anthropicTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  jsontext.Value  `json:"input_schema"`
	CacheControl *anthropicCache `json:"cache_control"`
}

type anthropicCache struct {
	Type string `json:"type"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type         string           `json:"type"`
	Text         *string          `json:"text"`
	CacheControl *anthropicCache  `json:"cache_control"`
	Thinking     *string          `json:"thinking"`
	Signature    string           `json:"signature"`
	Data         string           `json:"data"`
	ID           string           `json:"id"`
	Name         string           `json:"name"`
	Input        jsontext.Value   `json:"input"`
	Caller       jsontext.Value   `json:"caller"`
	ToolUseID    string           `json:"tool_use_id"`
	IsError      bool             `json:"is_error"`
	Content      jsontext.Value   `json:"content"`
	Source       *anthropicSource `json:"source"`
	Title        string           `json:"title"`
	Citations    jsontext.Value   `json:"citations"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// anthropicTurn are consecutive messages of one role: the API combines them.
type anthropicTurn struct {
	role    string
	content []anthropicBlock
}

// CheckAnthropic holds a request's body against Anthropic's published rules.
func CheckAnthropic(body []byte) error {
	r := &anthropicRequest{}
	if err := json.Unmarshal(body, r, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("not a request: %w", err)
	}
	turns, err := r.turns()
	if err != nil {
		return err
	}
	for _, check := range []func() error{
		func() error { return r.pairing(turns) }, r.tools, r.choice,
		func() error { return r.thinks(turns) }, r.settings, r.output,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if r.marks > 4 {
		return fmt.Errorf("%d cache marks; 4 are allowed", r.marks)
	}
	return nil
}

func (r *anthropicRequest) turns() ([]anthropicTurn, error) {
	if r.Model == "" || r.MaxTokens < 1 {
		return nil, errors.New("model or max_tokens is missing")
	}
	if r.System != nil && len(r.System) == 0 {
		return nil, errors.New("system is empty")
	}
	for i := range r.System {
		if b := &r.System[i]; b.Type != "text" {
			return nil, fmt.Errorf("system[%d]: type %q", i, b.Type)
		}
		if err := r.block("system", &r.System[i]); err != nil {
			return nil, fmt.Errorf("system[%d]: %w", i, err)
		}
	}
	if n := len(r.Messages); n == 0 || r.Messages[0].Role != "user" || r.Messages[n-1].Role != "user" {
		return nil, errors.New("messages: the first and the last must be the user's")
	}
	var turns []anthropicTurn
	for i, m := range r.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("messages[%d]: role %q", i, m.Role)
		}
		if len(m.Content) == 0 {
			return nil, fmt.Errorf("messages[%d]: no content", i)
		}
		for j := range m.Content {
			if err := r.block(m.Role, &m.Content[j]); err != nil {
				return nil, fmt.Errorf("messages[%d].content[%d] (%s): %w", i, j, m.Content[j].Type, err)
			}
		}
		if n := len(turns); n > 0 && turns[n-1].role == m.Role {
			turns[n-1].content = append(turns[n-1].content, m.Content...)
		} else {
			turns = append(turns, anthropicTurn{m.Role, m.Content})
		}
	}
	return turns, nil
}

// anthropicMembers are the members that each type of block has.
var anthropicMembers = map[string]struct {
	role    string // who may use it; empty: anyone
	members []string
}{
	"text":            {"", []string{"text", "citations"}},
	"server_tool_use": {"assistant", []string{"id", "name", "input"}},

	"web_search_tool_result": {"assistant", []string{"tool_use_id", "content"}},

	"thinking":          {"assistant", []string{"thinking", "signature"}},
	"redacted_thinking": {"assistant", []string{"data"}},
	"tool_use":          {"assistant", []string{"id", "name", "input", "caller"}},
	"tool_result":       {"user", []string{"tool_use_id", "is_error", "content"}},
	"image":             {"user", []string{"source"}},
	"document":          {"user", []string{"source", "title"}},
}

func (b *anthropicBlock) members() (out []string) {
	for name, has := range map[string]bool{
		"text": b.Text != nil, "thinking": b.Thinking != nil, "signature": b.Signature != "", "data": b.Data != "",
		"id": b.ID != "", "name": b.Name != "", "input": b.Input != nil, "caller": b.Caller != nil,
		"tool_use_id": b.ToolUseID != "", "is_error": b.IsError, "content": b.Content != nil,
		"citations": b.Citations != nil, "source": b.Source != nil, "title": b.Title != "",
	} {
		if has {
			out = append(out, name)
		}
	}
	return out
}

func (r *anthropicRequest) block(role string, b *anthropicBlock) error {
	rule, ok := anthropicMembers[b.Type]
	if !ok || rule.role != "" && rule.role != role {
		return fmt.Errorf("a %s cannot have a block of the type %q", role, b.Type)
	}
	for _, m := range b.members() {
		if !slices.Contains(rule.members, m) {
			return fmt.Errorf("%s: extra inputs are not permitted", m)
		}
	}
	if b.CacheControl != nil {
		r.marks++
		if b.CacheControl.Type != "ephemeral" || strings.HasSuffix(b.Type, "thinking") {
			return errors.New("cache_control cannot stand here or is not ephemeral")
		}
	}
	switch b.Type {
	case "text":
		if b.Text == nil || strings.TrimSpace(*b.Text) == "" {
			return errors.New("text content blocks must contain non-whitespace text")
		}
	case "thinking":
		if b.Thinking == nil || b.Signature == "" {
			return errors.New("thinking or its signature is missing")
		}
	case "redacted_thinking":
		if b.Data == "" {
			return errors.New("data is missing")
		}
	case "tool_use":
		return b.toolUse()
	case "tool_result":
		return r.toolResult(b)
	case "image", "document":
		return b.source()
	}
	return nil
}

// anthropicID is the pattern that the API gives for ids of calls.
var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (b *anthropicBlock) toolUse() error {
	switch {
	case !anthropicID.MatchString(b.ID):
		return fmt.Errorf("id %q", b.ID)
	case !toolName.MatchString(b.Name):
		return fmt.Errorf("name %q", b.Name)
	case b.Input.Kind() != '{':
		return fmt.Errorf("input should be a valid dictionary: %s", b.Input)
	}
	return nil
}

func (r *anthropicRequest) toolResult(b *anthropicBlock) error {
	if !anthropicID.MatchString(b.ToolUseID) {
		return fmt.Errorf("tool_use_id %q", b.ToolUseID)
	}
	if b.Content == nil || b.Content.Kind() == '"' {
		return nil
	}
	var list []anthropicBlock
	if err := json.Unmarshal(b.Content, &list, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	for i := range list {
		if t := list[i].Type; t != "text" && t != "image" && t != "document" {
			return fmt.Errorf("content[%d]: type %q", i, t)
		}
		if err := r.block("user", &list[i]); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return nil
}

func (b *anthropicBlock) source() error {
	s := b.Source
	if s == nil {
		return errors.New("source is missing")
	}
	types := []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	if b.Type == "document" {
		types = []string{"application/pdf"}
	}
	switch s.Type {
	case "base64":
		data, err := base64.StdEncoding.DecodeString(s.Data)
		if err != nil || len(data) == 0 || !slices.Contains(types, s.MediaType) || s.URL != "" {
			return fmt.Errorf("not a source of %v in base64: %s", types, s.MediaType)
		}
	case "url":
		if !strings.HasPrefix(s.URL, "https://") || s.Data != "" || s.MediaType != "" {
			return fmt.Errorf("only HTTPS URLs are supported: %s", s.URL)
		}
	default:
		return fmt.Errorf("source of the type %q", s.Type)
	}
	return nil
}

// pairing: each call is answered in the turn that follows, before anything
// else is said there; and ids are used once.
func (r *anthropicRequest) pairing(turns []anthropicTurn) error {
	used := map[string]bool{}
	var open []string
	for i, t := range turns {
		if t.role == "assistant" {
			for _, b := range t.content {
				if b.Type == "tool_use" {
					if used[b.ID] {
						return fmt.Errorf("turn %d: tool_use ids must be unique: %s", i, b.ID)
					}
					used[b.ID] = true
					open = append(open, b.ID)
				}
			}
			if last := t.content[len(t.content)-1]; strings.HasSuffix(last.Type, "thinking") {
				return fmt.Errorf("turn %d: the final block cannot be thinking", i)
			}
			continue
		}
		said := false
		for _, b := range t.content {
			if b.Type != "tool_result" {
				said = true
				continue
			}
			at := slices.Index(open, b.ToolUseID)
			if said || at < 0 {
				return fmt.Errorf("turn %d: the result of %s comes after other content or answers no call of the turn before", i, b.ToolUseID)
			}
			open = slices.Delete(open, at, at+1)
		}
		if len(open) > 0 {
			return fmt.Errorf("turn %d: tool_use ids were found without tool_result blocks immediately after: %v", i, open)
		}
	}
	if len(used) > 0 && len(r.Tools) == 0 {
		return errors.New("requests which include tool_use or tool_result blocks must define tools")
	}
	return nil
}

func (r *anthropicRequest) tools() error {
	if r.Tools != nil && len(r.Tools) == 0 {
		return errors.New("tools is empty")
	}
	names := map[string]bool{}
	for i, t := range r.Tools {
		var s struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(t.InputSchema, &s); err != nil || s.Type != "object" {
			return fmt.Errorf("tools[%d]: input_schema is not of an object: %s", i, t.InputSchema)
		}
		if !toolName.MatchString(t.Name) || names[t.Name] {
			return fmt.Errorf("tools[%d]: the name %q is not allowed or comes twice", i, t.Name)
		}
		if t.CacheControl != nil {
			r.marks++
		}
		names[t.Name] = true
	}
	return nil
}

func (r *anthropicRequest) choice() error {
	c := r.ToolChoice
	if c == nil {
		return nil
	}
	named := slices.ContainsFunc(r.Tools, func(t anthropicTool) bool { return t.Name == c.Name })
	switch {
	case len(r.Tools) == 0:
		return errors.New("tool_choice without tools")
	case !slices.Contains([]string{"auto", "any", "tool", "none"}, c.Type), (c.Type == "tool") != (c.Name != ""):
		return fmt.Errorf("tool_choice %+v", *c)
	case c.Type == "tool" && !named:
		return fmt.Errorf("tool_choice names no tool: %s", c.Name)
	}
	return nil
}

// thinks checks thinking with what it excludes, and that a turn that goes on
// with results began with thinking.
func (r *anthropicRequest) thinks(turns []anthropicTurn) error {
	t := r.Thinking
	if t == nil {
		return nil
	}
	forced := r.ToolChoice != nil && (r.ToolChoice.Type == "any" || r.ToolChoice.Type == "tool")
	on := t.Type == "enabled" || t.Type == "adaptive"
	switch {
	case !on && t.Type != "disabled" && t.Type != "between_tools":
		return fmt.Errorf("thinking of the type %q", t.Type)
	case (t.Budget != nil) != (t.Type == "enabled"):
		return errors.New("budget_tokens belongs to thinking of the type enabled, which needs it")
	case t.Budget != nil && (*t.Budget < 1024 || *t.Budget >= r.MaxTokens):
		return fmt.Errorf("budget_tokens %d is not from 1024 to below max_tokens %d", *t.Budget, r.MaxTokens)
	case !on && (t.Display != "" || t.Binding != nil):
		return errors.New("display and block_binding belong to thinking that is on")
	case t.Binding != nil && t.Binding.Mismatch != "drop_block" && t.Binding.Mismatch != "error":
		return fmt.Errorf("prefix_mismatch_behavior %q", t.Binding.Mismatch)
	case on && forced:
		return errors.New("thinking may not be enabled when tool_choice forces tool use")
	case on && r.TopP != nil && *r.TopP < 0.95:
		return errors.New("top_p must be at least 0.95 when thinking is enabled")
	case on && r.Temperature != nil && *r.Temperature != 1:
		return errors.New("temperature may only be set to 1 when thinking is enabled")
	}
	n := len(turns)
	if t.Type == "enabled" && n > 1 && turns[n-1].content[0].Type == "tool_result" &&
		!strings.HasSuffix(turns[n-2].content[0].Type, "thinking") {
		return errors.New("when thinking is enabled, a final assistant message must start with a thinking block")
	}
	return nil
}

func (r *anthropicRequest) settings() error {
	switch {
	case r.TopP != nil && (*r.TopP < 0 || *r.TopP > 1):
		return fmt.Errorf("top_p %v", *r.TopP)
	case r.TopP != nil && r.Temperature != nil: // refused by its newer models
		return errors.New("temperature and top_p cannot both be specified")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 1):
		return fmt.Errorf("temperature %v", *r.Temperature)
	case slices.ContainsFunc(r.Stop, func(s string) bool { return strings.TrimSpace(s) == "" }):
		return errors.New("stop_sequences: each stop sequence must contain non-whitespace")
	case r.Stop != nil && len(r.Stop) == 0:
		return errors.New("stop_sequences is empty")
	case r.Metadata != nil && (r.Metadata.UserID == "" || len(r.Metadata.UserID) > 256 || strings.Contains(r.Metadata.UserID, "@")):
		return errors.New("metadata.user_id is not an opaque id")
	}
	return nil
}

func (r *anthropicRequest) output() error {
	o := r.OutputConfig
	if o == nil {
		return nil
	}
	efforts := []string{"", "low", "medium", "high", "xhigh", "max"}
	if !slices.Contains(efforts, o.Effort) || o.Effort == "" && o.Format == nil {
		return fmt.Errorf("output_config is empty or its effort %q unknown", o.Effort)
	}
	if o.Format == nil {
		return nil
	}
	if o.Format.Type != "json_schema" {
		return fmt.Errorf("output_config.format of the type %q", o.Format.Type)
	}
	return anthropicSchema("schema", o.Format.Schema)
}

// anthropicSchema checks the limits of structured outputs, at any depth.
func anthropicSchema(path string, raw jsontext.Value) error {
	var s map[string]jsontext.Value
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for key, v := range s {
		switch key {
		case "type", "description", "title", "enum", "const", "required", "$ref", "default", "additionalProperties", "format", "minItems":
		case "items":
			if err := anthropicSchema(path+"[]", v); err != nil {
				return err
			}
		case "properties", "$defs", "definitions", "anyOf", "allOf":
			if err := anthropicEach(path+"."+key, v); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: the keyword %q is not supported", path, key)
		}
	}
	if bytes.Contains(s["type"], []byte(`"object"`)) && string(s["additionalProperties"]) != "false" {
		return fmt.Errorf("%s: additionalProperties must be false", path)
	}
	return nil
}

func anthropicEach(path string, raw jsontext.Value) error {
	if raw.Kind() == '[' {
		var list []jsontext.Value
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for i, v := range list {
			if err := anthropicSchema(fmt.Sprintf("%s[%d]", path, i), v); err != nil {
				return err
			}
		}
		return nil
	}
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for name, v := range all {
		if err := anthropicSchema(path+"."+name, v); err != nil {
			return err
		}
	}
	return nil
}
