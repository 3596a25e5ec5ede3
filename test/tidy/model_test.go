package tidy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"steward/internal/llm/tokens"
)

// bookkeeper is an OpenAI-compatible server whose model knows only what it is
// shown. It computes its answers from the file texts in the transcript and
// calls a tool if something is missing.
type bookkeeper struct {
	mu    sync.Mutex
	last  []byte // body of the last request
	calls int    // number of tool calls made
}

// shown returns the body of the last request and its approximate number of
// tokens.
func (k *bookkeeper) shown() (string, int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return string(k.last), tokens.Estimate(k.last)
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

// text returns the content, whether a string or parts.
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

// outcome is a completed call with its result, as the model is shown both.
type outcome struct {
	tool, path, content, result string
	now                         bool // it belongs to the current request
}

// seen parses a request body: the last request, and the calls with their
// results.
func seen(body []byte) (request string, outcomes []outcome, err error) {
	var in struct {
		Messages []wireMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return "", nil, err
	}
	calls := map[string]outcome{}
	for _, m := range in.Messages {
		switch m.Role {
		case "user":
			request = m.text()
			for i := range outcomes {
				outcomes[i].now = false
			}
		case "assistant":
			for _, c := range m.Calls {
				var a struct{ Path, Content string }
				if err := json.Unmarshal([]byte(c.Function.Arguments), &a); err != nil {
					return "", nil, err
				}
				calls[c.ID] = outcome{tool: c.Function.Name, path: a.Path, content: a.Content, now: true}
			}
		case "tool":
			o, ok := calls[m.CallID]
			if !ok {
				return "", nil, fmt.Errorf("a result of the call %q, which nobody made", m.CallID)
			}
			o.result = m.text()
			outcomes = append(outcomes, o)
		}
	}
	return request, outcomes, nil
}

var (
	question = regexp.MustCompile(`total in (\S+)\?`)
	command  = regexp.MustCompile(`Set (\S+) to (\d+) in (\S+)\.`)
	changed  = regexp.MustCompile(`has been changed`)
)

// answer is the model's text, or the call that it makes.
type answer struct {
	text string
	tool string
	args map[string]any
}

// think answers a request from what is shown.
func think(body []byte) (answer, error) {
	request, outcomes, err := seen(body)
	if err != nil {
		return answer{}, err
	}
	stale := changed.MatchString(request)
	if m := question.FindStringSubmatch(request); m != nil {
		text, ok := known(outcomes, m[1], stale)
		if !ok {
			return read(outcomes, m[1]), nil
		}
		sum, n, err := total(text)
		if err != nil {
			return answer{}, err
		}
		return answer{text: fmt.Sprintf("%d, in %d entries.", sum, n)}, nil
	}
	m := command.FindStringSubmatch(request)
	if m == nil {
		return answer{}, fmt.Errorf("the request is not understood: %q", request)
	}
	for _, o := range outcomes {
		if o.now && o.tool == "files__write" {
			return answer{text: o.result}, nil
		}
	}
	text, ok := known(outcomes, m[3], stale)
	if !ok {
		return read(outcomes, m[3]), nil
	}
	text, err = set(text, m[1], m[2])
	return answer{tool: "files__write", args: map[string]any{"path": m[3], "content": text, "overwrite": true}}, err
}

// known returns the text of a file from the newest result of reading it. That
// result does not count if the file was written since, or if it is marked as
// obsolete or shown only in part. If stale is true, results from before the
// current request do not count, either.
func known(outcomes []outcome, path string, stale bool) (string, bool) {
	for i := len(outcomes) - 1; i >= 0; i-- {
		o := outcomes[i]
		switch {
		case o.path != path:
			continue
		case o.tool != "files__read", stale && !o.now, strings.HasPrefix(o.result, "[obsolete:"), strings.Contains(o.result, "; read on with results.read"):
			return "", false
		}
		return o.result, true
	}
	return "", false
}

// read reads a file once. If it has already done so, it says that this does not
// help.
func read(outcomes []outcome, path string) answer {
	for _, o := range outcomes {
		if o.now && o.tool == "files__read" && o.path == path {
			return answer{text: "I have read " + path + " and cannot see it: " + o.result}
		}
	}
	return answer{tool: "files__read", args: map[string]any{"path": path}}
}

// total adds up the last column of a text.
func total(text string) (sum, n int, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		x, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			return 0, 0, err
		}
		sum, n = sum+x, n+1
	}
	return sum, n, nil
}

// set changes the number in the line that begins with a name.
func set(text, name, value string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			head := strings.TrimRight(line, "\n")
			lines[i] = head[:strings.LastIndexByte(head, ' ')+1] + value + "\n"
			return strings.Join(lines, ""), nil
		}
	}
	return "", fmt.Errorf("there is no %s in %q", name, text)
}

// ServeHTTP answers as POST /v1/chat/completions does, streaming.
func (k *bookkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := think(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = body
	delta, finish := map[string]any{"role": "assistant", "content": a.text}, "stop"
	if a.tool != "" {
		k.calls++
		args, err := json.Marshal(a.args)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		finish, delta = "tool_calls", map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"index": 0,
			"id": fmt.Sprintf("call_%d", k.calls), "type": "function", "function": map[string]any{"name": a.tool, "arguments": string(args)}}}}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		b, err := json.Marshal(map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "bookkeeper", "choices": []any{choice}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
