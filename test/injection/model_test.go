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

// double is a model whose answers come from its brain. The brain knows nothing
// but the request.
type double struct {
	mu    sync.Mutex
	brain func(*view) reply
	got   []string // the requests
	size  int      // bytes of the pieces in which it answers; 0: one piece
}

// cut makes it answer in pieces.
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

// answer is its reply for edge.Script.
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
	messages []edge.Said // without those of the system
	body     string      // all texts in it
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

// read reads a request.
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

// done is a call of the turn that has its result.
type done struct{ tool, args, result string }

// turn returns what the user has said last, and the calls made since.
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

// The models that are asked apart, told from the others by what they are told.
func (v *view) planner() bool { return strings.HasPrefix(v.system, "You plan for an assistant") }
func (v *view) reader() bool  { return strings.HasPrefix(v.system, "You read a text for somebody") }
func (v *view) notes() bool   { return strings.HasPrefix(v.system, "You keep the notes") }

// between is what stands between the marks around a text that is read apart.
func (v *view) between() string {
	text := v.messages[len(v.messages)-1].Text()
	_, text, _ = strings.Cut(text, "\n--- ")
	_, text, _ = strings.Cut(text, "\n")
	if i := strings.LastIndex(text, "\n--- "); i >= 0 {
		text = text[:i]
	}
	return text
}

// asked is what a model apart is asked.
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
