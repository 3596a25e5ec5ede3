package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	tokenEvery = 20 * time.Millisecond
	mark       = "zq" // stands before the number of every fifth token
	markEvery  = 5
)

// model is an OpenAI-compatible server. If the last message is "stream", it streams an answer in Markdown whose
// tokens come at a constant pace; otherwise it answers with one word.
type model struct {
	tokens int

	mu   sync.Mutex
	when []time.Time // when each mark was sent
}

func (m *model) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.when = nil
}

// marks returns how many marks an answer has.
func (m *model) marks() int { return m.tokens / markEvery }

// sent returns when a mark was sent, counted from 0.
func (m *model) sent(i int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.when[i]
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Messages []struct{ Content json.RawMessage }
		Tools    []json.RawMessage
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1}]}`)
		return
	}
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if len(in.Messages) == 0 || len(in.Tools) == 0 && r.Header.Get("X-Bare") == "" || !strings.HasPrefix(lastText(in.Messages[len(in.Messages)-1].Content), "stream") {
		chunk(w, `{"delta":{"role":"assistant","content":"Fine"}`)
	} else {
		m.stream(w)
	}
	fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

func lastText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	if json.Unmarshal(content, &parts) == nil && len(parts) > 0 {
		return parts[len(parts)-1].Text
	}
	return ""
}

func chunk(w io.Writer, delta string) {
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,%s,\"finish_reason\":null}]}\n\n", delta[1:])
}

func (m *model) stream(w http.ResponseWriter) {
	flush := http.NewResponseController(w)
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	for i := range m.tokens {
		<-tick.C
		text, _ := json.Marshal(token(i)) //nolint:errcheck // a string
		if (i+1)%markEvery == 0 {
			m.mu.Lock()
			m.when = append(m.when, time.Now())
			m.mu.Unlock()
		}
		chunk(w, `{"delta":{"content":`+string(text)+`}`)
		if err := flush.Flush(); err != nil {
			return
		}
	}
}

var words = strings.Fields("the answer to this question depends on where you live and what you want to do with it in winter")

// token is a part of an answer: paragraphs, lists, emphasis and code.
func token(i int) string {
	at := i % 400 // of a section
	lead := " "
	switch {
	case at == 0:
		lead = "\n\n## "
	case at < 240 && at%60 == 10, at == 240:
		lead = "\n\n"
	case at > 240 && at < 320 && at%16 == 0:
		lead = "\n- "
	case at == 320:
		return "\n\n```go\n"
	case at > 320 && at < 360 && at%10 == 0:
		lead = "\n"
	case at == 360:
		return "\n```\n\n"
	}
	if (i+1)%markEvery == 0 {
		return lead + mark + strconv.Itoa((i+1)/markEvery)
	}
	word := words[i%len(words)]
	if at%50 == 23 {
		word = "**" + word + "**"
	}
	return lead + word
}
