//go:build long

package edge_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/apis"
)

// dialect is a vendor's wire format: the events of a stream, each as the JSON
// of one "data:" line.
type dialect struct {
	name  string // the provider's name, also part of its paths
	model string
	check func([]byte) error // validates a request
	begin []string
	text  func(quoted string) string                // a chunk of text; quoted is a JSON string
	call  func(i, id, name, quoted string) []string // a tool call; quoted is its arguments as a JSON string
	parts func(n int) string                        // one event with n elements
	end   []string
}

// dialects returns those of OpenAI, Anthropic and Gemini.
func dialects() []*dialect {
	args := func(quoted string) string { // Gemini's arguments are an object
		var s string
		if json.Unmarshal([]byte(quoted), &s) != nil || !json.Valid([]byte(s)) {
			return quoted
		}
		return s
	}
	return []*dialect{{
		name: "openai", model: "openai/gpt-test", check: apis.CheckOpenAI,
		text: func(q string) string { return `{"choices":[{"index":0,"delta":{"content":` + q + `}}]}` },
		call: func(i, id, name, q string) []string {
			return []string{`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":` + i + `,"id":` + id + `,"type":"function","function":{"name":` + name + `,"arguments":` + q + `}}]}}]}`}
		},
		parts: func(n int) string {
			return `{"choices":[{"index":0,"delta":{"tool_calls":[` + list(n, `{"index":%d}`) + `]}}]}`
		},
		end: []string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"},
	}, {
		name: "anthropic", model: "anthropic/claude-test", check: apis.CheckAnthropic,
		begin: []string{`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`},
		text: func(q string) string {
			return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + q + `}}`
		},
		call: func(i, id, name, q string) []string {
			if n, err := strconv.Atoi(i); err == nil && n >= 0 && n < 1e8 {
				i = strconv.Itoa(n + 1)
			}
			return []string{`{"type":"content_block_start","index":` + i + `,"content_block":{"type":"tool_use","id":` + id + `,"name":` + name + `,"input":{}}}`,
				`{"type":"content_block_delta","index":` + i + `,"delta":{"type":"input_json_delta","partial_json":` + q + `}}`}
		},
		parts: func(n int) string {
			return `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"b","input":{"a":[` + list(n, "%d") + `]}}}`
		},
		end: []string{`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`},
	}, {
		name: "gemini", model: "gemini/gemini-test", check: apis.CheckGemini,
		text: func(q string) string {
			return `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":` + q + `}]}}]}`
		},
		call: func(_, id, name, q string) []string {
			return []string{`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":` + id + `,"name":` + name + `,"args":` + args(q) + `}}]}}]}`}
		},
		parts: func(n int) string {
			return `{"candidates":[{"content":{"role":"model","parts":[` + list(n, `{}`) + `]}}]}`
		},
		end: []string{`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":5}}`},
	}}
}

// list returns a JSON list of n elements. form may contain a verb for the
// element's number.
func list(n int, form string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(form, "%d") {
			fmt.Fprintf(&b, form, i)
		} else {
			b.WriteString(form)
		}
	}
	return b.String()
}

// hostile is a server of three vendors' protocols. It draws its answers from
// the seed and the number in the turn's message.
type hostile struct {
	t    testing.TB
	seed uint64
	mu   sync.Mutex
	asks map[string]uint64 // requests made by each turn
	did  map[string]int    // answers by kind
}

var numbered = regexp.MustCompile(`hostile turn ([0-9]+)\.`)

// rounds is the number of hostile answers that a turn gets before a good one.
const rounds = 3

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		fmt.Fprint(w, map[string]string{"openai": `{"object":"list","data":[{"id":"gpt-test","object":"model"}]}`,
			"anthropic": `{"data":[{"id":"claude-test","type":"model"}],"has_more":false}`,
			"gemini":    `{"models":[{"name":"models/gemini-test","inputTokenLimit":100000,"outputTokenLimit":8192,"supportedGenerationMethods":["generateContent"]}]}`,
		}[strings.Split(r.URL.Path, "/")[1]])
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the request was cancelled
	}
	for _, d := range dialects() {
		if !strings.HasPrefix(r.URL.Path, "/"+d.name+"/") {
			continue
		}
		if err := d.check(body); err != nil && !strings.Contains(err.Error(), "unknown object member") { // its own output comes back in later requests
			h.t.Errorf("%s: %.500v: %.3000s", d.name, err, body)
		}
		turn, n := "none", uint64(rounds)
		if all := numbered.FindAllSubmatch(body, -1); len(all) > 0 {
			turn = string(all[len(all)-1][1])
			h.mu.Lock()
			n = h.asks[turn]
			h.asks[turn]++
			h.mu.Unlock()
		}
		number, _ := strconv.ParseUint(turn, 10, 64) // 0 if there is none
		h.answer(&reply{w: w, r: r, dialect: d, rand: rand.New(rand.NewPCG(h.seed, number<<8|n))}, n >= rounds)
		return
	}
	http.NotFound(w, r)
}

func (h *hostile) answer(a *reply, good bool) {
	kinds := deeds()
	k := deed{"good", func(a *reply) { a.events(a.begin...); a.events(a.text(`"Done."`)); a.events(a.end...) }}
	if !good {
		k = kinds[a.rand.IntN(len(kinds))]
	}
	h.mu.Lock()
	h.did[k.name]++
	h.mu.Unlock()
	a.w.Header().Set("Content-Type", "text/event-stream")
	k.do(a)
}

// reply is an answer being written.
type reply struct {
	*dialect
	w    http.ResponseWriter
	r    *http.Request
	rand *rand.Rand
}

// write writes a text and reports whether anybody still reads.
func (a *reply) write(s string) bool {
	_, err := io.WriteString(a.w, s)
	return err == nil && a.r.Context().Err() == nil
}

func (a *reply) events(data ...string) bool {
	for _, d := range data {
		if a.name == "anthropic" {
			var e struct{ Type string }
			if json.Unmarshal([]byte(d), &e) == nil {
				d = "event: " + e.Type + "\ndata: " + d
			} else {
				d = "data: " + d
			}
		} else {
			d = "data: " + d
		}
		if !a.write(d + "\n\n") {
			return false
		}
	}
	return true
}

// whole writes a well-formed answer with additional events in its middle.
func (a *reply) whole(middle ...string) {
	_ = a.events(a.begin...) && a.events(middle...) && a.events(a.end...)
}

// calls returns n calls of a tool. args is JSON.
func (a *reply) calls(n int, name, args string) (out []string) {
	for i := range n {
		out = append(out, a.call(strconv.Itoa(i), fmt.Sprintf(`"call_%d_%d"`, a.rand.Uint32(), i), quote(name), quote(args))...)
	}
	return out
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(b)
}

// size returns a random number of bytes; each order of magnitude is equally
// likely.
func (a *reply) size(most int) int {
	n := 1 << a.rand.IntN(25)
	return min(most, n+a.rand.IntN(n))
}

func (a *reply) noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(a.rand.Uint32())
	}
	return string(b)
}

// deed is a way of being hostile.
type deed struct {
	name string
	do   func(*reply)
}

// bomb is 256 MiB of zeros, compressed.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for range 256 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			panic(err) // writing to a buffer cannot fail
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
})

// deeds returns all ways of being hostile; see TestHostileReplies.
func deeds() []deed {
	tools := map[string]string{"math__multiply": `{"a":6,"b":7}`, "math__evaluate": `{"expression":"2+3*4"}`, "time__now": `{}`, "files__list": `{}`,
		"files__write": `{"path":"docs/a.txt","content":"hello","overwrite":true}`, "conversation__search": `{"query":"hostile"}`, "nosuch": `{}`}
	names := []string{"math__multiply", "math__evaluate", "time__now", "files__list", "files__write", "conversation__search", "nosuch"}
	return []deed{
		{"calls", func(a *reply) {
			var all []string
			for i := range 1 + a.rand.IntN(8) {
				n := names[a.rand.IntN(len(names))]
				all = append(all, a.call(strconv.Itoa(i), fmt.Sprintf(`"c%d_%d"`, i, a.rand.Uint32()), quote(n), quote(tools[n]))...)
			}
			a.whole(all...)
		}},
		{"many calls", func(a *reply) { a.whole(a.calls(a.size(8000), "math__multiply", `{"a":6,"b":7}`)...) }},
		{"bad arguments", func(a *reply) {
			bad := []string{"", "null", "[]", `"x"`, `{"a":1e999}`, `{"a":6,"a":7,"b":1}`, "{", `{"a":"\ud800"}`, a.noise(50), strings.Repeat(" ", a.size(1<<20)), strings.Repeat(`{"a":`, a.size(100_000))}
			a.whole(a.calls(1+a.rand.IntN(3), "math__multiply", bad[a.rand.IntN(len(bad))])...)
		}},
		{"expressions", func(a *reply) {
			n := a.size(1 << 20)
			bad := []string{"9**9**9**9**9", strings.Repeat("(", n), strings.Repeat("(", n) + "1" + strings.Repeat(")", n), strings.Repeat("1+", n) + "1", "-" + strings.Repeat("-", n) + "1", `repeat("x", 1000000000)`, "1..1000000000", "map(1..100000000, # * 2)"}
			a.whole(a.calls(1, "math__evaluate", `{"expression":`+quote(bad[a.rand.IntN(len(bad))])+`}`)...)
		}},
		{"huge text", func(a *reply) { a.pieces(24<<20, func(s string) []string { return []string{a.text(quote(s))} }) }},
		{"huge arguments", func(a *reply) {
			a.whole(a.calls(1+a.rand.IntN(4), "files__write", `{"path":"docs/b.txt","content":`+quote(strings.Repeat("x", a.size(6<<20)))+`}`)...)
		}},
		{"deep arguments", func(a *reply) {
			n := a.size(1 << 20)
			a.whole(a.calls(1, "math__multiply", `{"a":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`}`)...)
		}},
		{"deep event", func(a *reply) {
			n, open := a.size(8<<20), []string{"[", `{"a":`}[a.rand.IntN(2)]
			shut := map[string]string{"[": "]", `{"a":`: "}"}[open]
			a.whole(`{"deep":` + strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) + `}`)
		}},
		{"many parts in an event", func(a *reply) { a.whole(a.parts(a.size(1 << 20))) }},
		{"many choices", func(a *reply) {
			a.whole(`{"choices":[`+list(a.size(1<<20), `{"index":%d,"delta":{"content":"x"}}`)+`]}`, `{"candidates":[`+list(a.size(1<<20), `{"index":%d}`)+`]}`)
		}},
		{"many members", func(a *reply) {
			n := a.size(1 << 18)
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, `,"m%d":[%d]`, i, i)
			}
			a.whole(`{"choices":[{"index":0,"delta":{"content":"x"` + b.String() + `}}],"candidates":[{"content":{"parts":[{"text":"x"` + b.String() + `}]}}]}`)
		}},
		{"many small events", func(a *reply) {
			all := a.events(a.begin...)
			for range a.size(200_000) {
				all = all && a.events(a.text(`"y"`), `{"choices":[{"delta":{"annotations":[1]}}]}`)
			}
			_ = all && a.events(a.end...)
		}},
		{"huge line", func(a *reply) {
			a.events(a.begin...)
			a.write("data: " + strings.Repeat("x", a.size(20<<20)))
		}},
		{"many lines in an event", func(a *reply) {
			for ok, i := true, a.size(1<<20); ok && i > 0; i-- {
				ok = a.write("data: {\ndata:\n")
			}
			a.write("\n")
		}},
		{"garbage", func(a *reply) {
			for range 1 + a.rand.IntN(20) {
				a.write([]string{"data: ", "event: ", ": ", "\r", "\n\n", "\xef\xbb\xbf", "{", "", "retry: 0\n", "id: \x00\n"}[a.rand.IntN(10)] + a.noise(a.size(1<<16)))
			}
		}},
		{"broken events", func(a *reply) {
			var all []string
			for _, e := range append(a.calls(2, "math__multiply", `{"a":6,"b":7}`), a.text(`"hello"`), a.text(`"world"`)) {
				b := []byte(e)
				for range a.rand.IntN(3) {
					b[a.rand.IntN(len(b))] = byte(a.rand.Uint32())
				}
				all = append(all, strings.ReplaceAll(string(b), "\n", " "))
			}
			a.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			a.whole(all...)
		}},
		{"control characters", func(a *reply) {
			a.whole(a.text(`"\u0000\u001b]52;c;aGk=\u0007\u001b[2J\u009b31m\u202e\u2066\ufeff\ud800 \udc00\ud83d"`), a.text("\"\xff\xfe\xc0\x80\xed\xa0\x80\""), a.text("\"a\x00\x01\x1b[31mb\""), a.text(`"\r\n\b\f\t\v"`))
		}},
		{"cut", func(a *reply) {
			var b bytes.Buffer
			for _, e := range append(append(append([]string{}, a.begin...), a.calls(2, "math__multiply", `{"a":6,"b":7}`)...), append([]string{a.text(`"hello"`)}, a.end...)...) {
				fmt.Fprintf(&b, "data: %s\n\n", e)
			}
			a.write(b.String()[:a.rand.IntN(b.Len())])
			if a.rand.IntN(2) == 0 {
				panic(http.ErrAbortHandler) // the connection breaks
			}
		}},
		{"without an end", func(a *reply) {
			s := a.text(quote(strings.Repeat("z", a.size(1<<18))))
			if a.rand.IntN(2) == 0 {
				s = `{"unknown":` + quote(strings.Repeat("z", a.size(1<<18))) + `}`
			}
			for a.events(s) {
			}
		}},
		{"slow drip", func(a *reply) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			a.events(a.begin...)
			what := []string{a.text(`"drip"`), `{}`, ""}[a.rand.IntN(3)]
			for end := a.rand.IntN(4000); end > 0; end-- {
				if s := ": drip\n"; what != "" && !a.events(what) || what == "" && !a.write(s) {
					return
				}
				a.w.(http.Flusher).Flush()
				<-tick.C
			}
			a.events(a.end...)
		}},
		{"silence", func(a *reply) {
			a.events(a.begin...)
			a.w.(http.Flusher).Flush()
			<-a.r.Context().Done()
		}},
		{"odd indexes", func(a *reply) {
			var all []string
			for _, i := range []string{"1000000000", "-1", "9223372036854775807", "99999999999999999999", "1e400", "0.5", "null", `"0"`, "{}", "4095", "1"} {
				if a.rand.IntN(2) == 0 {
					all = append(all, a.call(i, `"x"`, quote("math__multiply"), quote(`{"a":6,"b":7}`))...)
				}
			}
			a.whole(all...)
		}},
		{"the same ids", func(a *reply) {
			var all []string
			for i := range 2 + a.rand.IntN(200) {
				all = append(all, a.call(strconv.Itoa(i%(1+a.rand.IntN(5))), `"same"`, quote("math__multiply"), quote(`{"a":6,"b":7}`))...)
			}
			a.whole(all...)
		}},
		{"odd names", func(a *reply) {
			n := []string{"", "\x00", strings.Repeat("n", a.size(5<<20)), "math.multiply", "math__multiply\u202e", "../../etc/passwd", "a b c", strings.Repeat("é", 64)}[a.rand.IntN(8)]
			id := []string{"", "\x00\x1b", strings.Repeat("i", a.size(5<<20)), "call with spaces", "é"}[a.rand.IntN(5)]
			a.whole(a.call("0", quote(id), quote(n), quote(`{"a":6,"b":7}`))...)
		}},
		{"other types", func(a *reply) {
			a.w.Header().Set("Content-Type", []string{"text/html", "application/json", "application/octet-stream", "", "multipart/mixed; boundary=x"}[a.rand.IntN(5)])
			a.whole(a.text(`"hello"`))
		}},
		{"no stream", func(a *reply) {
			a.w.Header().Set("Content-Type", "application/json")
			a.write(`{"choices":[{"index":0,"message":{"role":"assistant","content":` + quote(strings.Repeat("w", a.size(20<<20))) + `},"finish_reason":"stop"}]}`)
		}},
		{"huge headers", func(a *reply) {
			for i := range 1 + a.rand.IntN(50) {
				a.w.Header().Set(fmt.Sprintf("X-Noise-%d", i), strings.Repeat("h", a.size(1<<18)))
			}
			a.whole(a.text(`"hello"`))
		}},
		{"gzip", func(a *reply) {
			a.w.Header().Set("Content-Encoding", "gzip")
			a.write(bomb())
		}},
		{"redirects", func(a *reply) {
			a.w.Header().Set("Location", []string{a.r.URL.String(), "http://127.0.0.1:1/", "/", "file:///etc/passwd", "http://[", "//evil.invalid/"}[a.rand.IntN(6)])
			a.w.WriteHeader([]int{301, 302, 303, 307, 308}[a.rand.IntN(5)])
		}},
		{"statuses", func(a *reply) {
			a.w.Header().Set("Content-Type", []string{"application/json", "text/html", "text/plain"}[a.rand.IntN(3)])
			if a.rand.IntN(2) == 0 {
				a.w.Header().Set("Retry-After", []string{"0", "1", "-5", "x", "99999999999999999999"}[a.rand.IntN(5)])
			}
			a.w.WriteHeader([]int{204, 206, 400, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529, 599}[a.rand.IntN(15)])
			a.write([]string{"", `{"error":{"message":"maximum context length is 1 tokens"}}`, `{"error":` + strings.Repeat("[", 1<<16), "<html>" + a.noise(1000), `{"error":{"message":` + quote(strings.Repeat("e", a.size(20<<20))) + `}}`}[a.rand.IntN(5)])
		}},
		{"errors in the stream", func(a *reply) {
			a.whole(`{"type":"error","error":{"type":"overloaded_error","code":` + []string{"500", `"x"`, "null", "1e999"}[a.rand.IntN(4)] + `,"message":` + quote(strings.Repeat("e", a.size(1<<20))) + `}}`)
		}},
		{"images", func(a *reply) {
			data := quote(base64.StdEncoding.EncodeToString(make([]byte, a.size(11<<20))))
			for range 1 + a.rand.IntN(5) {
				if !a.events(`{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":` + data + `}}]}}]}`) {
					return
				}
			}
			a.events(a.end...)
		}},
		{"numbers", func(a *reply) {
			n := []string{"-1", "1e308", "9223372036854775807", "-9223372036854775808", "1e999", "NaN", `"5"`}[a.rand.IntN(7)]
			a.whole(a.text(`"hello"`), `{"choices":[],"usage":{"prompt_tokens":`+n+`,"completion_tokens":`+n+`},"type":"message_delta","delta":{},"usageMetadata":{"promptTokenCount":`+n+`,"candidatesTokenCount":`+n+`}}`)
		}},
		{"two streams in one", func(a *reply) { a.whole(a.text(`"one"`)); a.whole(a.text(`"two"`)) }},
		{"nothing", func(a *reply) {
			if a.rand.IntN(2) == 0 {
				a.whole()
			}
		}},
		{"reasoning", func(a *reply) {
			s := quote(strings.Repeat("r", a.size(1<<20)))
			for range a.rand.IntN(24) {
				if !a.events(`{"choices":[{"index":0,"delta":{"reasoning_content":`+s+`}}]}`, `{"candidates":[{"content":{"parts":[{"thought":true,"text":`+s+`}]}}]}`) {
					return
				}
			}
			a.pieces(1<<20, func(s string) []string { return []string{a.text(quote("<think>" + s))} })
		}},
	}
}

// pieces splits a text of random size into pieces of random size.
func (a *reply) pieces(most int, event func(string) []string) {
	piece := strings.Repeat("h", a.size(1<<20))
	ok := a.events(a.begin...)
	for left := a.size(most); ok && left > 0; left -= len(piece) {
		ok = a.events(event(piece)...)
	}
	_ = ok && a.events(a.end...)
}
