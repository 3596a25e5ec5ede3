package llm

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/tool"
)

// Many local models write calls as text, each family in its own form, and not every server reads them. If the
// whole text of an answer is calls of offered tools, they are made.

// callMarks stand around calls: they say that something is a call, and nothing else.
var callMarks = []string{
	"<tool_calls>", "</tool_calls>", "<tool_call>", "</tool_call>", // Hermes, Qwen, GLM
	"<function_calls>", "</function_calls>", "<function_call>", "</function_call>", "<functioncall>", "</functioncall>",
	"<minimax:tool_call>", "</minimax:tool_call>", "<tool_code>", "</tool_code>",
	"<seed:tool_call>", "</seed:tool_call>", "<longcat_tool_call>", "</longcat_tool_call>",
	"<toolcall>", "</toolcall>", "<TOOLCALL>", "</TOOLCALL>", "<tool>", "</tool>", "<tools>", "</tools>", "<functions>", "</functions>",
	"[TOOL_CALLS]", "[/TOOL_CALLS]", // Mistral
	"<|python_tag|>", "functools", // Llama, Phi
	"<|tool_calls|>", "<|/tool_calls|>", "<|tool_call|>", "<|/tool_call|>", "<|tool_call_start|>", "<|tool_call_end|>",
	"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", // Kimi
	"<|action_start|>", "<|plugin|>", "<|action_end|>", // InternLM
	"<|START_ACTION|>", "<|END_ACTION|>", // Cohere
	"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", // DeepSeek
	"<|tool▁calls▁begin|>", "<|tool▁calls▁end|>", "<|tool▁call▁begin|>", "<|tool▁call▁end|>",
	"<｜DSML｜function_calls>", "</｜DSML｜function_calls>",
}

// fences are the code fences around calls.
var fences = []string{"```json", "```JSON", "```tool_calls", "```tool_call", "```tool_code", "```xml", "```"}

// argumentMarks stand between the name and the arguments of a call.
var argumentMarks = []string{"[ARGS]", "<|tool_call_argument_begin|>", "<｜tool▁sep｜>", "<|tool▁sep|>", "\n"}

var (
	// textCallName is a name that stands alone between marks.
	textCallName = regexp.MustCompile(`^(?:functions\.)?([A-Za-z_][\w.-]*?)(?::\d+)?(?:\s*(?:\[CALL_ID\]\w+))?(?:\[ARGS\]|<\|tool_call_argument_begin\|>|<[｜|]tool▁sep[｜|]>|\s*\n|\s*\{|\s*<arg_key>)`)
	functionTag  = regexp.MustCompile(`^<function(?:=([\w.-]+)|\(([\w.-]+)\))(?:>|\s*\{)`)
	invokeTag    = regexp.MustCompile(`^<(?:｜DSML｜)?invoke name="([\w.-]+)">`)
	parameter    = regexp.MustCompile(`(?s)<(?:｜DSML｜)?parameter(?:=([\w$.-]+)| name="([^"]+)"[^>]*)>(.*?)</(?:｜DSML｜)?parameter>`)
	argument     = regexp.MustCompile(`(?s)<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>`)
	// strayMark is what no answer to a person contains, outside of code.
	strayMark = regexp.MustCompile("(?:^|[^`\"'])(?:<tool_call>|<function=|<function_call|<(?:｜DSML｜)?invoke name=|<minimax:tool_call>|\\[TOOL_CALLS\\]|<\\|python_tag\\|>|<\\|tool[_▁]call|<｜tool▁call|<start_function_call>|✿FUNCTION✿|<(?:TOOLCALL|toolcall|longcat_tool_call|seed:tool_call)>|<\\|START_ACTION\\|>)|(?m:^Action: *[\\w.-]+ *\r?\nAction Input:)")
	jsonBlock = regexp.MustCompile("(?s)```(?:json)?\\s*([\\[{].*?[\\]}])\\s*```")
)

// textCall is a call that was written as text.
type textCall struct {
	name string // of the tool, as Steward names it
	args []byte
}

// textCallParser reads calls from a text.
type textCallParser struct {
	tools  *Toolset
	text   string
	list   []textCall
	marked bool
	fenced bool // in a code fence
}

// textCalls returns the calls of which a text consists, or none. marked reports whether marks say that they are
// calls.
func textCalls(text string, tools *Toolset) (list []textCall, marked bool) {
	if len(text) > maxTextCallBytes || !mayCall(text) {
		return nil, false
	}
	s := &textCallParser{tools: tools, text: text}
	for s.trim(); s.text != ""; s.trim() {
		if !s.next() || len(s.list) > maxTextCalls {
			return nil, s.marked
		}
	}
	if s.fenced {
		return nil, s.marked
	}
	return s.list, s.marked
}

// maxTextCallBytes bounds the text in which calls are looked for, in bytes.
const maxTextCallBytes = 4 << 20

func (s *textCallParser) trim() { s.text = strings.TrimLeft(s.text, " \t\r\n,;") }

// next reads a mark or a call.
func (s *textCallParser) next() bool {
	for _, m := range fences {
		if rest, ok := strings.CutPrefix(s.text, m); ok {
			s.text, s.fenced = rest, !s.fenced
			return true
		}
	}
	for _, m := range callMarks {
		if rest, ok := strings.CutPrefix(s.text, m); ok {
			s.text, s.marked = rest, true
			return true
		}
	}
	if tag := functionTag.FindStringSubmatch(s.text); tag != nil {
		return s.tagged(strings.TrimSuffix(tag[0], "{"), tag[1]+tag[2], "</function>")
	}
	if tag := invokeTag.FindStringSubmatch(s.text); tag != nil {
		return s.tagged(tag[0], tag[1], "</invoke>") || s.tagged(tag[0], tag[1], "</｜DSML｜invoke>")
	}
	if openPython.MatchString(s.text) {
		return s.pythonList()
	}
	if s.text[0] == '{' || s.text[0] == '[' {
		raw, ok := s.value()
		return ok && s.json(raw)
	}
	if (s.marked || s.fenced) && pythonName.MatchString(s.text) {
		return s.pythonic()
	}
	return s.marked && s.named()
}

// value takes the JSON value at the beginning of the text.
func (s *textCallParser) value() (jsontext.Value, bool) {
	d := jsontext.NewDecoder(strings.NewReader(s.text))
	raw, err := d.ReadValue()
	if err != nil {
		return nil, false
	}
	raw = raw.Clone()
	s.text = s.text[d.InputOffset():]
	return raw, true
}

// tagged reads a call whose arguments are a JSON object or parameters in tags.
func (s *textCallParser) tagged(open, name, end string) bool {
	body, rest, ok := strings.Cut(s.text[len(open):], end)
	if !ok {
		body, rest, ok = strings.Cut(s.text[len(open):], strings.Replace(end, "/", "", 1)) // as Llama writes it at times
	}
	if !ok {
		return false
	}
	s.text, s.marked = rest, true
	if args := strings.TrimSpace(body); strings.HasPrefix(args, "{") {
		return s.call(name, []byte(strings.TrimSuffix(args, ">"))) // <function=now{}></function>
	}
	var pairs [][2]string
	for _, p := range parameter.FindAllStringSubmatch(body, -1) {
		pairs = append(pairs, [2]string{p[1] + p[2], p[3]})
	}
	if strings.TrimSpace(parameter.ReplaceAllString(body, "")) != "" {
		return false
	}
	return s.written(name, pairs)
}

// named reads a call whose name stands alone before its arguments.
func (s *textCallParser) named() bool {
	found := textCallName.FindStringSubmatch(s.text)
	if found == nil {
		return false
	}
	name := found[1]
	s.text = strings.TrimPrefix(s.text, "functions.")[len(name):]
	if i := strings.IndexAny(s.text, "\n[<{"); i > 0 { // an index or an id
		s.text = s.text[i:]
	}
	if rest, ok := strings.CutPrefix(s.text, "<｜tool▁sep｜>"); ok && name == "function" {
		s.text = rest
		return s.named()
	}
	if rest, ok := strings.CutPrefix(s.text, "[CALL_ID]"); ok {
		s.text = strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
	}
	for _, b := range argumentMarks {
		s.text = strings.TrimPrefix(s.text, b)
	}
	s.text = strings.TrimSpace(s.text)
	if rest, ok := strings.CutPrefix(s.text, "```json"); ok {
		s.text, s.fenced = strings.TrimSpace(rest), true
	}
	if strings.HasPrefix(s.text, "{") {
		raw, ok := s.value()
		s.text = strings.TrimPrefix(s.text, "<|tool_call_end|>")
		return ok && s.call(name, raw)
	}
	body, rest, ok := strings.Cut(s.text, "</tool_call>")
	if !ok || strings.TrimSpace(argument.ReplaceAllString(body, "")) != "" {
		return false
	}
	var pairs [][2]string
	for _, p := range argument.FindAllStringSubmatch(body, -1) {
		pairs = append(pairs, [2]string{p[1], p[2]})
	}
	s.text = rest
	return s.written(name, pairs)
}

// written adds a call whose arguments are texts: each is a string, or the JSON value that the tool's schema asks
// for.
func (s *textCallParser) written(name string, pairs [][2]string) bool {
	spec := s.spec(name)
	if spec == nil {
		return false
	}
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(spec.Input, &schema) // without it, all that is JSON is read as JSON
	args := map[string]any{}
	for _, p := range pairs {
		value := strings.TrimSuffix(strings.TrimPrefix(p[1], "\n"), "\n")
		var v any
		if schema.Properties[p[0]].Type == "string" || json.Unmarshal([]byte(value), &v) != nil {
			v = value
		} else {
			v = json.RawMessage(strings.TrimSpace(value))
		}
		args[p[0]] = v
	}
	raw, err := json.Marshal(args)
	return err == nil && s.call(name, raw)
}

// json reads a call, or several, in JSON.
func (s *textCallParser) json(raw jsontext.Value) bool {
	if raw.Kind() == '[' {
		var list []jsontext.Value
		if json.Unmarshal(raw, (*[]jsontext.Value)(&list)) != nil || len(list) == 0 || len(list) > maxTextCalls {
			return false
		}
		return !slices.ContainsFunc(list, func(v jsontext.Value) bool { return v.Kind() != '{' || !s.json(v) })
	}
	name, args, ok := callIn(raw)
	if s.marked && name != "" && args == nil { // marks say that it is a call
		return s.call(name, []byte("{}"))
	}
	if ok && name == "" { // {"tool_calls": […]}
		return args.Kind() == '[' && s.json(args)
	}
	return ok && s.call(name, args)
}

// callIn reads an object that is nothing but a call. If it is a list of calls under a name, that is in args.
func callIn(raw jsontext.Value) (name string, args jsontext.Value, ok bool) {
	var members map[string]jsontext.Value
	if json.Unmarshal(raw, &members) != nil {
		return "", nil, false
	}
	for key, v := range members {
		switch key {
		case "name", "tool", "tool_name", "function", "function_name", "function_call", "tool_call", "action", "recipient_name":
			switch v.Kind() {
			case '{':
				inner, innerArgs, good := callIn(v)
				if !good || inner == "" || name != "" {
					return "", nil, false
				}
				name, args = inner, innerArgs
			case '"':
				if name != "" || json.Unmarshal(v, &name) != nil {
					return "", nil, false
				}
			default:
				return "", nil, false
			}
		case "arguments", "parameters", "args", "params", "kwargs", "input", "tool_input", "action_input", "tool_args", "tool_arguments", "function_args", "function_arguments":
			var text string
			if v.Kind() == '"' && json.Unmarshal(v, &text) == nil {
				v = jsontext.Value(text)
			}
			if args != nil || v.Kind() != '{' && v.Kind() != 'n' || !v.IsValid() {
				return "", nil, false
			}
			args = v
		case "tool_calls", "function_calls":
			if len(members) == 1 {
				return "", v, true
			}
			return "", nil, false
		case "type", "id", "index", "call_id", "tool_call_id", "thought":
		default:
			return "", nil, false
		}
	}
	return name, args, name != "" && args != nil
}

// call adds a call of an offered tool.
func (s *textCallParser) call(name string, args []byte) bool {
	spec := s.spec(name)
	args = bytes.TrimSpace(args)
	if string(args) == "null" {
		args = []byte("{}")
	}
	if spec == nil || jsontext.Value(args).Kind() != '{' || !jsontext.Value(args).IsValid() {
		return false
	}
	s.list = append(s.list, textCall{spec.Name, bytes.Clone(args)})
	return true
}

// spec returns the offered tool of a name.
func (s *textCallParser) spec(name string) *tool.Spec {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "functions."), "default_api.")
	specs := s.tools.Specs()
	i := slices.IndexFunc(specs, func(x tool.Spec) bool { return x.Name == name || tool.WireName(x.Name) == name })
	if i < 0 { // small models write the name in the manner that they know, if no other tool is meant
		alike := func(x tool.Spec) bool { return plainName(x.Name) == plainName(name) }
		if i = slices.IndexFunc(specs, alike); i < 0 || slices.ContainsFunc(specs[i+1:], alike) {
			return nil
		}
	}
	return &specs[i]
}

// plainName returns a name of a tool without what separates its words.
func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "_", "", "-", "").Replace(name))
}

// firstKeys are those with which calls in JSON begin.
var firstKeys = regexp.MustCompile(`^(?:\[\s*)?\{\s*"(?:name|tool|tool_name|function|function_name|function_calls?|tool_calls?|action|recipient_name|arguments|parameters|args|params|kwargs|input|tool_input|action_input|(?:tool|function)_(?:args|arguments)|type|id|index|call_id|tool_call_id|thought)"`)

// openKey matches the beginning of JSON before its first key is complete.
var openKey = regexp.MustCompile(`^(?:\[\s*)?(?:\{\s*(?:"[a-z_]*)?)?$`)

var (
	// openPython matches the beginning of calls in brackets, as Python has them.
	openPython = regexp.MustCompile(`^\[\s*[A-Za-z_][\w.-]*\(`)
	// openName matches what may become that, or a call in a fence.
	openName = regexp.MustCompile(`^\[?\s*[A-Za-z_][\w.-]{0,80}$`)
)

// mayCall reports whether a text can be the beginning of calls in words.
func mayCall(text string) bool {
	text = strings.TrimSpace(text)
	for _, f := range fences {
		if rest, ok := strings.CutPrefix(text, f); ok {
			text = strings.TrimSpace(rest)
			if strings.HasPrefix(f, "```tool") && (openName.MatchString(text) || pythonName.MatchString(text)) {
				return true
			}
			break
		} else if strings.HasPrefix(f, text) {
			return true
		}
	}
	if text == "" || openPython.MatchString(text) || text[0] == '[' && openName.MatchString(text) || firstKeys.MatchString(text) || openKey.MatchString(text) {
		return true
	}
	for _, m := range append(callMarks, "<function=", "<function(", "<invoke name=", "<｜DSML｜invoke name=") {
		if strings.HasPrefix(text, m) || strings.HasPrefix(m, text) {
			return true
		}
	}
	return false
}

// strayCall reports whether a text has a call in it that is not made: beside other words, of an unknown tool, or
// broken.
func strayCall(text string, tools *Toolset) bool {
	if len(text) > maxTextCallBytes {
		return false
	}
	if strayMark.MatchString(text) {
		return true
	}
	blocks := []string{text}
	for _, b := range jsonBlock.FindAllStringSubmatch(text, maxTextCalls) {
		blocks = append(blocks, b[1])
	}
	s := &textCallParser{tools: tools}
	for i, b := range blocks {
		raw := jsontext.Value(strings.TrimSpace(b))
		if len(raw) == 0 || raw[0] != '{' || !raw.IsValid() {
			continue
		}
		if name, _, ok := callIn(raw); ok && name != "" && (i == 0 || s.spec(name) != nil) {
			return true
		}
	}
	return false
}
