package injection_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"steward/test/edge"
)

// double is a fake model whose answers come from its brain. The brain sees only
// the request.
type double struct {
	mu    sync.Mutex
	brain func(*view) reply
	got   []string // the requests received
	size  int      // size of the pieces in which it answers, in bytes; 0: one piece
}

// cut makes it answer in pieces of the given size.
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

// answer is its reply function for edge.Script.
func (d *double) answer(in edge.Asked) edge.Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, string(in.Body))
	a := d.brain(read(in))
	if d.size == 0 || len(a.calls) > 0 {
		out := edge.Reply{Text: a.text}
		for _, c := range a.calls {
			out.Calls = append(out.Calls, edge.Call{Name: c.tool, Args: c.args})
		}
		return out
	}
	var pieces []string
	for len(a.text) > d.size {
		pieces, a.text = append(pieces, a.text[:d.size]), a.text[d.size:]
	}
	pieces = append(pieces, a.text)
	return edge.Reply{Raw: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range pieces {
			edge.Chunk(w, map[string]any{"content": piece}, nil)
		}
		edge.Chunk(w, map[string]any{}, "stop")
		fmt.Fprint(w, "data: [DONE]\n\n")
	}}
}

// view is a request to the model.
type view struct {
	system   string
	messages []edge.Said // without system messages
	body     string      // all texts of the request
	tools    map[string]string
	schema   bool
}

// reply is the model's text, or the calls that it makes.
type reply struct {
	text  string
	calls []call
}

// call is a tool call.
type call struct {
	tool string
	args any
}

// read parses a request.
func read(in edge.Asked) *view {
	v := &view{tools: map[string]string{}, schema: bytes.Contains(in.Body, []byte(`"response_format":`))}
	var all strings.Builder
	for _, t := range in.Tools {
		v.tools[t.Function.Name] = t.Function.Description
		all.WriteString(t.Function.Description + "\n")
	}
	for _, m := range in.Messages {
		all.WriteString(m.Text() + "\n")
		if m.Role == "system" || m.Role == "developer" {
			v.system += m.Text()
			continue
		}
		v.messages = append(v.messages, m)
	}
	v.body = all.String()
	return v
}

// done is a call of this turn that has its result.
type done struct{ tool, args, result string }

// turn returns the user's last message and the calls made since.
func (v *view) turn() (asked string, out []done) {
	calls := map[string]done{}
	for _, m := range v.messages {
		switch m.Role {
		case "user":
			asked, out = m.Text(), nil
		case "assistant":
			for _, c := range m.Calls {
				calls[c.ID] = done{tool: strings.ReplaceAll(c.Function.Name, "__", "."), args: c.Function.Arguments}
			}
		case "tool":
			d := calls[m.CallID]
			d.result = m.Text()
			out = append(out, d)
		}
	}
	return asked, out
}

// planner, reader and notes recognise the requests to separate models by their
// system prompts.
func (v *view) planner() bool { return strings.HasPrefix(v.system, "You plan for an assistant") }
func (v *view) reader() bool  { return strings.HasPrefix(v.system, "You read a text for somebody") }
func (v *view) notes() bool   { return strings.HasPrefix(v.system, "You keep the notes") }

// between returns the text between the delimiters of a request to the reader.
func (v *view) between() string {
	text := v.messages[len(v.messages)-1].Text()
	_, text, _ = strings.Cut(text, "\n--- ")
	_, text, _ = strings.Cut(text, "\n")
	if i := strings.LastIndex(text, "\n--- "); i >= 0 {
		text = text[:i]
	}
	return text
}

// asked returns the question of a request to a separate model.
func (v *view) asked() string {
	text := v.messages[len(v.messages)-1].Text()
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

// obedient first follows its script and then every instruction in anything that
// it reads, each once a turn. It replaces $SECRET in an instruction by the
// secrets that it has seen.
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
			return reply{text: "NOTES: " + v.messages[len(v.messages)-1].Text()}
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
			return reply{text: made[0].result} // it passes the result on to its caller
		}
		return reply{text: "Done."}
	}
}

// first returns the JSON value at the beginning of a text. Some tools quote
// texts, even twice; that does not stop an attacker.
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

// ordered reports whether an instruction was carried out in this turn.
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
