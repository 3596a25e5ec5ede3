package apis

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// The vendors' rules for requests are JSON Schemas, and code where a schema cannot express them: the
// pairing of calls and results, and names that refer to each other.
//
//go:embed *.json
var files embed.FS

// rules are a vendor's schema as it is, and without its rules against unknown members. good has the
// hashes of the bodies that were valid: many tests send the same request thousands of times.
type rules struct {
	strict, open *jsonschema.Resolved
	good         sync.Map
}

func schema(vendor string) func() *rules {
	return sync.OnceValue(func() *rules {
		b, err := files.ReadFile(vendor + ".json")
		resolved := func(b []byte) *jsonschema.Resolved {
			var s jsonschema.Schema
			if err == nil {
				err = json.Unmarshal(b, &s)
			}
			if err != nil {
				panic(err) // the embedded file is broken
			}
			r, err := s.Resolve(nil)
			if err != nil {
				panic(err)
			}
			return r
		}
		closed := regexp.MustCompile(`"additionalProperties":\s*false`)
		return &rules{strict: resolved(b), open: resolved(closed.ReplaceAll(b, []byte(`"additionalProperties": true`)))}
	})
}

var (
	openaiSchema    = schema("openai")
	responsesSchema = schema("responses")
	anthropicSchema = schema("anthropic")
	geminiSchema    = schema("gemini")
	ollamaSchema    = schema("ollama")
)

// anyNumber reads numbers that a float64 cannot hold as the largest that it can.
var anyNumber = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if errors.Is(err, strconv.ErrRange) {
		n, err = math.Copysign(math.MaxFloat64, n), nil
	}
	*v = n
	return err
}))

// read checks that a body is strict JSON and valid under a schema, and reads what the code checks.
// If it has members that the schema does not know, and no other fault, the error says "unknown object member".
func read(r *rules, body []byte, into any) error {
	hash := sha256.Sum256(body)
	if _, ok := r.good.Load(hash); !ok {
		if err := r.check(body); err != nil {
			return err
		}
		r.good.Store(hash, true)
	}
	return json.Unmarshal(body, into, json.MatchCaseInsensitiveNames(true))
}

func (r *rules) check(body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v, anyNumber); err != nil {
		return fmt.Errorf("not a request: %w", err)
	}
	if err := r.strict.Validate(v); err != nil {
		if r.open.Validate(v) == nil {
			return fmt.Errorf("unknown object member: %w", err)
		}
		return fmt.Errorf("not a request of the API: %w", err)
	}
	return nil
}

// names returns the names as a set. A duplicate is an error.
func names(list ...string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, n := range list {
		if out[n] {
			return nil, fmt.Errorf("the name %q comes twice", n)
		}
		out[n] = true
	}
	return out, nil
}

// named has the name of a tool or call in OpenAI's nesting.
type named struct {
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

func namesOf(tools []named) (map[string]bool, error) {
	var list []string
	for _, t := range tools {
		list = append(list, t.Name+t.Function.Name)
	}
	return names(list...)
}

// CheckOpenAI checks a request's body against OpenAI's published rules: each call is followed by
// exactly its results.
func CheckOpenAI(body []byte) error {
	var r struct {
		Messages []struct {
			Role      string
			ToolCalls []struct{ ID string } `json:"tool_calls"`
			CallID    string                `json:"tool_call_id"`
		}
		Tools  []named
		Choice any `json:"tool_choice"`
		Format struct {
			Schema struct {
				Strict bool
				Schema any
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := read(openaiSchema(), body, &r); err != nil {
		return err
	}
	tools, err := namesOf(r.Tools)
	if err != nil {
		return err
	}
	if c, ok := r.Choice.(map[string]any); ok && !tools[c["function"].(map[string]any)["name"].(string)] {
		return fmt.Errorf("tool_choice names no tool: %v", c)
	}
	var open []string
	for i, m := range r.Messages {
		at := slices.Index(open, m.CallID)
		switch {
		case m.Role == "tool" && at < 0:
			return fmt.Errorf("messages[%d]: tool_call_id %q answers no open call of %q", i, m.CallID, open)
		case m.Role == "tool":
			open = slices.Delete(open, at, at+1)
		case len(open) > 0:
			return fmt.Errorf("messages[%d]: an assistant message with tool_calls must be followed by tool messages for %q", i, open)
		}
		for _, c := range m.ToolCalls {
			if slices.Contains(open, c.ID) {
				return fmt.Errorf("messages[%d]: id %q comes twice", i, c.ID)
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %q have no results", open)
	}
	if s := r.Format.Schema; s.Strict {
		return strict("schema", s.Schema)
	}
	return nil
}

// CheckResponses checks a request's body against the published rules of OpenAI's responses API: each
// call has one output after it, and reasoning is followed by the item that it led to.
func CheckResponses(body []byte) error {
	var r struct {
		Input []struct {
			Type, Role string
			CallID     string `json:"call_id"`
		}
		Tools  []named
		Choice any `json:"tool_choice"`
		Text   struct {
			Format struct {
				Strict bool
				Schema any
			}
		}
	}
	if err := read(responsesSchema(), body, &r); err != nil {
		return err
	}
	var functions []string
	for _, t := range r.Tools {
		if t.Name != "" {
			functions = append(functions, t.Name)
		}
	}
	tools, err := names(functions...)
	if err != nil {
		return err
	}
	if c, ok := r.Choice.(map[string]any); ok && !tools[c["name"].(string)] {
		return fmt.Errorf("tool_choice names no tool: %v", c)
	}
	if r.Choice != nil && len(r.Tools) == 0 {
		return errors.New("tool_choice without tools")
	}
	var open []string
	for i, item := range r.Input {
		at := slices.Index(open, item.CallID)
		switch {
		case item.Type == "function_call" && at >= 0:
			return fmt.Errorf("input[%d]: the call %q comes twice", i, item.CallID)
		case item.Type == "function_call":
			open = append(open, item.CallID)
		case item.Type == "function_call_output" && at < 0:
			return fmt.Errorf("input[%d]: no tool call found for function call output with call_id %q", i, item.CallID)
		case item.Type == "function_call_output":
			open = slices.Delete(open, at, at+1)
		case item.Type == "reasoning" && (i+1 == len(r.Input) || r.Input[i+1].Role == "user" || r.Input[i+1].Type == "function_call_output"):
			return fmt.Errorf("input[%d]: a reasoning item was provided without its required following item", i)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no tool output found for function calls %q", open)
	}
	if f := r.Text.Format; f.Strict {
		return strict("schema", f.Schema)
	}
	return nil
}

// strict checks the requirements of strict mode on a schema, at any depth:
// https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
func strict(path string, v any) error {
	s, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: not a schema", path)
	}
	for _, key := range []string{"allOf", "oneOf", "not"} {
		if s[key] != nil {
			return fmt.Errorf("%s: strict mode knows no %s", path, key)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	if types, list := s["type"].([]any); s["type"] == "object" || list && slices.Contains(types, any("object")) {
		if s["additionalProperties"] != false {
			return fmt.Errorf("%s: strict mode requires additionalProperties false", path)
		}
		required, _ := s["required"].([]any)
		for name := range properties {
			if !slices.Contains(required, any(name)) {
				return fmt.Errorf("%s: strict mode requires that %q is required", path, name)
			}
		}
	}
	subs := map[string]any{}
	defs, _ := s["$defs"].(map[string]any)
	for at, all := range map[string]map[string]any{".": properties, ".$defs.": defs} {
		for name, sub := range all {
			subs[path+at+name] = sub
		}
	}
	anyOf, _ := s["anyOf"].([]any)
	for i, sub := range anyOf {
		subs[fmt.Sprintf("%s.anyOf[%d]", path, i)] = sub
	}
	if items, ok := s["items"]; ok {
		subs[path+"[]"] = items
	}
	for p, sub := range subs {
		if err := strict(p, sub); err != nil {
			return err
		}
	}
	return nil
}

type anthropicTurn struct {
	Role    string
	Content []struct {
		Type, ID  string
		ToolUseID string `json:"tool_use_id"`
	}
}

// CheckAnthropic checks a request's body against Anthropic's published rules: the first and the last
// turn are the user's; each call is answered in the following turn, before anything else; and ids are
// unique.
func CheckAnthropic(body []byte) error {
	var r struct {
		MaxTokens int `json:"max_tokens"`
		Messages  []anthropicTurn
		Tools     []named
		Choice    named `json:"tool_choice"`
		Thinking  struct {
			Type   string
			Budget int `json:"budget_tokens"`
		}
	}
	if err := read(anthropicSchema(), body, &r); err != nil {
		return err
	}
	tools, err := namesOf(r.Tools)
	if err != nil {
		return err
	}
	var turns []anthropicTurn
	for _, m := range r.Messages { // the API joins messages of one role
		if n := len(turns); n > 0 && turns[n-1].Role == m.Role {
			turns[n-1].Content = append(turns[n-1].Content, m.Content...)
		} else {
			turns = append(turns, m)
		}
	}
	used := map[string]bool{}
	var open []string
	for i, t := range turns {
		other := false
		for _, b := range t.Content {
			at := slices.Index(open, b.ToolUseID)
			switch {
			case b.Type == "tool_use" && used[b.ID]:
				return fmt.Errorf("turn %d: tool_use ids must be unique: %s", i, b.ID)
			case b.Type == "tool_use":
				used[b.ID] = true
				open = append(open, b.ID)
			case b.Type != "tool_result":
				other = true
			case other || at < 0:
				return fmt.Errorf("turn %d: the result of %s comes after other content or answers no call of the turn before", i, b.ToolUseID)
			default:
				open = slices.Delete(open, at, at+1)
			}
		}
		if t.Role == "user" && len(open) > 0 {
			return fmt.Errorf("turn %d: tool_use ids were found without tool_result blocks immediately after: %v", i, open)
		}
		if last := t.Content[len(t.Content)-1]; strings.HasSuffix(last.Type, "thinking") {
			return fmt.Errorf("turn %d: the final block cannot be thinking", i)
		}
	}
	n := len(turns)
	switch {
	case turns[0].Role != "user" || turns[n-1].Role != "user":
		return errors.New("messages: the first and the last must be the user's")
	case len(used) > 0 && len(tools) == 0:
		return errors.New("requests which include tool_use or tool_result blocks must define tools")
	case r.Choice.Name != "" && !tools[r.Choice.Name]:
		return fmt.Errorf("tool_choice names no tool: %s", r.Choice.Name)
	case r.Thinking.Budget >= r.MaxTokens:
		return fmt.Errorf("budget_tokens %d is not below max_tokens %d", r.Thinking.Budget, r.MaxTokens)
	case r.Thinking.Type == "enabled" && turns[n-1].Content[0].Type == "tool_result" && !strings.HasSuffix(turns[n-2].Content[0].Type, "thinking"):
		return errors.New("when thinking is enabled, a final assistant message must start with a thinking block")
	}
	if marks := bytes.Count(body, []byte(`"cache_control":{"type":"ephemeral"}`)); marks > 4 {
		return fmt.Errorf("%d cache marks; 4 are allowed", marks)
	}
	return nil
}

// CheckOllama checks a request's body against Ollama's published rules, and against what its templates
// rely on: results right after their calls, in their order.
func CheckOllama(body []byte) error {
	type call struct {
		ID string
		named
	}
	var r struct {
		Messages []struct {
			Role   string
			Calls  []call `json:"tool_calls"`
			Tool   string `json:"tool_name"`
			CallID string `json:"tool_call_id"`
		}
		Tools []named
	}
	if err := read(ollamaSchema(), body, &r); err != nil {
		return err
	}
	if _, err := namesOf(r.Tools); err != nil {
		return err
	}
	var open []call
	for i, m := range r.Messages {
		switch {
		case m.Role == "tool" && len(open) == 0:
			return fmt.Errorf("message %d: a result without a call", i)
		case m.Role == "tool" && (m.Tool != open[0].Function.Name || m.CallID != open[0].ID):
			return fmt.Errorf("message %d: result %q %q answers call %q %q", i, m.Tool, m.CallID, open[0].Function.Name, open[0].ID)
		case m.Role == "tool":
			open = open[1:]
			continue
		case len(open) > 0:
			return fmt.Errorf("message %d: %d calls before it have no results", i, len(open))
		}
		open = m.Calls
	}
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" || len(open) > 0 {
		return errors.New("the last message is the model's, or its calls have no results")
	}
	return nil
}
