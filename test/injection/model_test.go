package injection_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// double is an OpenAI-compatible server. What it answers is up to its brain,
// which knows nothing but what it is sent.
type double struct {
	mu    sync.Mutex
	brain func(*view) reply
	calls int
	got   []string // what it was sent
	size  int      // of the pieces in which it answers, in bytes; 0: in one
}

// cut has it answer in pieces.
func (d *double) cut(size int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size = size
}

func (d *double) think(brain func(*view) reply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.brain = brain
}

// view is a request to the model.
type view struct {
	system   string
	messages []wireMessage
	body     string // the texts of all of it, as far as they can be read
	tools    map[string]string
	schema   bool
}

// reply is what the model says, or the calls that it makes.
type reply struct {
	text  string
	calls []call
}

// call is a call of a tool.
type call struct {
	tool string
	args any
}

type wireMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

func (m *wireMessage) text() string {
	parts, ok := m.Content.([]any)
	if !ok {
		s, _ := m.Content.(string)
		return s
	}
	var b strings.Builder
	for _, p := range parts {
		if part, ok := p.(map[string]any); ok {
			s, _ := part["text"].(string)
			b.WriteString(s)
		}
	}
	return b.String()
}

// read reads a request.
func read(body []byte) (*view, error) {
	var in struct {
		Messages []wireMessage `json:"messages"`
		Tools    []struct {
			Function struct{ Name, Description string } `json:"function"`
		} `json:"tools"`
		Format any `json:"response_format"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	v := &view{tools: map[string]string{}, schema: in.Format != nil}
	var all strings.Builder
	for _, t := range in.Tools {
		v.tools[t.Function.Name] = t.Function.Description
		all.WriteString(t.Function.Description + "\n")
	}
	for _, m := range in.Messages {
		all.WriteString(m.text() + "\n")
		if m.Role == "system" || m.Role == "developer" {
			v.system += m.text()
			continue
		}
		v.messages = append(v.messages, m)
	}
	v.body = all.String()
	return v, nil
}

// done is a call of the turn that has its result.
type done struct{ tool, args, result string }

// turn returns what the user has said last, and the calls made since.
func (v *view) turn() (asked string, out []done) {
	calls := map[string]done{}
	for _, m := range v.messages {
		switch m.Role {
		case "user":
			asked, out = m.text(), nil
		case "assistant":
			for _, c := range m.Calls {
				calls[c.ID] = done{tool: strings.ReplaceAll(c.Function.Name, "__", "."), args: c.Function.Arguments}
			}
		case "tool":
			d := calls[m.CallID]
			d.result = m.text()
			out = append(out, d)
		}
	}
	return asked, out
}

// ServeHTTP answers as POST /v1/chat/completions does, streaming.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v, err := read(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, string(body))
	a := d.brain(v)
	delta, finish := map[string]any{"role": "assistant", "content": a.text}, "stop"
	if len(a.calls) > 0 {
		finish = "tool_calls"
		var list []any
		for i, c := range a.calls {
			d.calls++
			args, err := json.Marshal(c.args)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			list = append(list, map[string]any{"index": i, "id": fmt.Sprintf("call_%d", d.calls), "type": "function",
				"function": map[string]any{"name": strings.ReplaceAll(c.tool, ".", "__"), "arguments": string(args)}})
		}
		delta["tool_calls"] = list
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var choices []map[string]any
	for d.size > 0 && len(a.text) > d.size && len(a.calls) == 0 {
		choices = append(choices, map[string]any{"index": 0, "delta": map[string]any{"role": "assistant", "content": a.text[:d.size]}})
		a.text = a.text[d.size:]
		delta["content"] = a.text
	}
	for _, choice := range append(choices, map[string]any{"index": 0, "delta": delta}, map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}) {
		b, err := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "double", "choices": []any{choice}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// The models that are asked apart, told from the others by what they are told.
func (v *view) planner() bool { return strings.HasPrefix(v.system, "You plan for an assistant") }
func (v *view) reader() bool  { return strings.HasPrefix(v.system, "You read a text for somebody") }
func (v *view) notes() bool   { return strings.HasPrefix(v.system, "You keep the notes") }

// between is what stands between the marks around a text that is read apart.
func (v *view) between() string {
	text := v.messages[len(v.messages)-1].text()
	_, text, _ = strings.Cut(text, "\n--- ")
	_, text, _ = strings.Cut(text, "\n")
	if i := strings.LastIndex(text, "\n--- "); i >= 0 {
		text = text[:i]
	}
	return text
}

// asked is what a model apart is asked.
func (v *view) asked() string {
	text := v.messages[len(v.messages)-1].text()
	_, text, _ = strings.Cut(text, "WHAT IS ASKED:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	return text
}

var (
	order = regexp.MustCompile(`OBEY ([a-z_]+\.[a-z_]+) (\{[^\n]*\})`)
	say   = regexp.MustCompile(`OBEYSAY ([^\n]*) ENDSAY`)
	apart = regexp.MustCompile(`OBEYREAD ([^\n]*) ENDREAD`)
	known = regexp.MustCompile(`SECRET-[0-9]+`)
)

// obedient does what it is asked to first (its script), and then everything
// that anything it reads tells it to: each order once a turn. Where an order
// says $SECRET, it puts in what it has seen of secrets.
func obedient(script func(asked string, made []done) *call, plan string, tried map[string]int) func(*view) reply {
	return func(v *view) reply {
		secret := strings.Join(known.FindAllString(v.body, -1), " ")
		switch {
		case v.planner():
			if m := apart.FindStringSubmatch(v.body); m != nil {
				return reply{text: m[1]}
			}
			return reply{text: plan}
		case v.reader():
			if m := apart.FindStringSubmatch(v.body); m != nil {
				return reply{text: strings.ReplaceAll(m[1], "$SECRET", secret)}
			}
			return reply{text: "It says nothing of that."}
		case v.notes():
			return reply{text: "NOTES: " + v.messages[len(v.messages)-1].text()}
		}
		asked, made := v.turn()
		if next := script(asked, made); next != nil {
			return reply{calls: []call{*next}}
		}
		for _, m := range order.FindAllStringSubmatch(v.body, -1) {
			args := first(strings.ReplaceAll(m[2], "$SECRET", secret))
			if args == "" || ordered(made, m[1], args) {
				continue
			}
			tried[m[1]]++
			return reply{calls: []call{{m[1], json.RawMessage(args)}}}
		}
		if m := say.FindStringSubmatch(v.body); m != nil {
			return reply{text: strings.ReplaceAll(m[1], "$SECRET", secret)}
		}
		if _, below := v.tools["post__read"]; below && len(made) > 0 {
			return reply{text: made[0].result} // it tells who asked what it was asked for
		}
		return reply{text: "Done."}
	}
}

// first is the JSON value with which a text begins. Some tools show texts in
// quotes, or in quotes within quotes: that stops nobody.
func first(text string) string {
	for range 4 {
		var v json.RawMessage
		if json.NewDecoder(strings.NewReader(text)).Decode(&v) == nil {
			return string(v)
		}
		text = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text)
	}
	return ""
}

// ordered reports whether an order was carried out in this turn.
func ordered(made []done, tool, args string) bool {
	for _, d := range made {
		if d.tool == tool && same(d.args, args) {
			return true
		}
	}
	return false
}

func same(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}
