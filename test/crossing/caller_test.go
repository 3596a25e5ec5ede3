package crossing

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"steward/test/edge"
)

// step is one request: an HTTP request, frames over the WebSocket, a stream, a
// turn, or a command.
type step struct {
	method, path string
	body         string
	header       [2]string
	stream       bool     // Connect's streaming protocol; read until it reports what happens meanwhile
	frames       []string // without their ids
	args         []string // of a command
	agent, say   string   // a turn with an agent
	page         bool     // of the page, with the cookie of a session
	till         string   // of an event stream of the page: read until this has come
}

func get(path string) step         { return step{method: http.MethodGet, path: path} }
func del(path string) step         { return step{method: http.MethodDelete, path: path} }
func post(path, body string) step  { return step{method: http.MethodPost, path: path, body: body} }
func put(path, body string) step   { return step{method: http.MethodPut, path: path, body: body} }
func patch(path, body string) step { return step{method: http.MethodPatch, path: path, body: body} }
func frames(frames ...string) step { return step{frames: frames} }
func command(args ...string) step  { return step{args: args} }
func stream(path, body string) step {
	return step{method: http.MethodPost, path: path, body: body, stream: true}
}

// said is a turn of the caller.
func said(agent, text string) step { return step{agent: agent, say: text} }

// as makes the step with an agent's services.
func (s step) as(agent string) step {
	s.header = [2]string{"Steward-Agent", agent}
	return s
}

// endless reports whether the step is a command that does not end by itself.
func (s step) endless() bool { return len(s.args) > 1 && s.args[0] == "events" && s.args[1] == "watch" }

func (s step) String() string {
	switch {
	case s.args != nil:
		return "steward " + strings.Join(s.args, " ")
	case s.say != "":
		return s.say
	case s.frames != nil:
		return strings.Join(s.frames, " ")
	}
	return s.method + " " + s.path + " " + s.body
}

// answer is the result of a step.
type answer struct {
	code string // error code; empty: success
	body string // the whole body
}

// do makes a step as a user. If the step streams, meanwhile runs once the
// stream has begun.
func (w *world) do(user string, s step, meanwhile func()) answer {
	w.T.Helper()
	switch {
	case s.args != nil:
		run := w.Run
		if s.endless() {
			run = w.watched
		}
		r := run(append([]string{"--json"}, s.args...)...)
		a := answer{body: r.Out + r.Err}
		if r.Code != 0 {
			a.code = codeOf(a.body[max(strings.LastIndex(a.body, "\n{"), 0):], fmt.Sprint("exit status ", r.Code))
		}
		return a
	case s.say != "":
		w.turn(user, "", s.agent, s.say)
		return answer{body: w.told}
	case s.method == viaMCP:
		return w.mcp(user, s)
	case s.frames != nil:
		return w.chat(user, s.frames, meanwhile)
	case s.stream:
		return w.stream(user, s, meanwhile)
	case s.page:
		return w.screened(user, s, meanwhile)
	}
	return w.http(user, s)
}

func (w *world) http(user string, s step) answer {
	w.T.Helper()
	headers := []string{"Authorization", "Bearer " + w.secrets[user]}
	if s.header[0] != "" {
		headers = append(headers, s.header[:]...)
	}
	status, b := w.HTTP(s.method, s.path, []byte(s.body), headers...)
	a := answer{body: string(b)}
	if status >= 400 {
		a.code = codeOf(a.body, fmt.Sprint("status ", status))
	}
	return a
}

// codeOf finds the code in an error in any server's format.
func codeOf(body, otherwise string) string {
	var e struct {
		Error struct{ Code string }
		Code  string
		Type  string
		// Connect's format has Steward's code in a detail.
		Details []struct {
			Debug struct{ Metadata map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return otherwise
	}
	for _, d := range e.Details {
		if c := d.Debug.Metadata["error_code"]; c != "" {
			return c
		}
	}
	if e.Error.Code != "" {
		return e.Error.Code
	}
	if e.Code != "" {
		return e.Code
	}
	return otherwise
}

// socket is a connection to the chat.
type socket struct {
	*edge.Conn
	w    *world
	told bytes.Buffer // everything received
}

func (w *world) dial(user string) *socket {
	w.T.Helper()
	return &socket{Conn: w.Dial(w.secrets[user]), w: w}
}

// until reads frames until one satisfies is.
func (s *socket) until(is func(f map[string]any) bool) map[string]any {
	s.w.T.Helper()
	for {
		raw := s.Read().Raw
		s.told.Write(append(raw, '\n'))
		var f map[string]any
		if err := json.Unmarshal(raw, &f); err != nil {
			s.w.T.Fatal(err)
		}
		if is(f) {
			return f
		}
	}
}

// chat sends frames one after the other. It returns everything received and the
// code of the last error.
func (w *world) chat(user string, list []string, meanwhile func()) (a answer) {
	w.T.Helper()
	s := w.dial(user)
	defer s.Close()
	for i, f := range list {
		re := fmt.Sprintf("f%d", i)
		frame := map[string]any{}
		if err := json.Unmarshal([]byte(f), &frame); err != nil {
			w.T.Fatal(err)
		}
		frame["id"] = re
		s.Send(frame)
		got := s.until(func(f map[string]any) bool { return f["re"] == re })
		if got["type"] == "error" {
			a.code = got["code"].(string)
		}
		if meanwhile != nil && i == len(list)-1 && got["type"] != "error" {
			meanwhile()
			if !strings.Contains(s.told.String(), w.marker) {
				s.until(func(map[string]any) bool { return strings.Contains(s.told.String(), w.marker) })
			}
		}
	}
	s.Send(map[string]any{"type": "ping", "id": "end"})
	s.until(func(f map[string]any) bool { return f["re"] == "end" })
	a.body = s.told.String()
	return a
}

// stream reads the first message of a stream. If meanwhile is not nil, it reads
// until the stream reports what meanwhile did, or ends.
func (w *world) stream(user string, s step, meanwhile func()) (a answer) {
	w.T.Helper()
	ctx := w.T.Context()
	head := make([]byte, 5)
	binary.BigEndian.PutUint32(head[1:], uint32(len(s.body)))
	req, err := http.NewRequestWithContext(ctx, s.method, w.URL+s.path, bytes.NewReader(append(head, s.body...)))
	if err != nil {
		w.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.secrets[user])
	req.Header.Set("Content-Type", "application/connect+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 {
		b, err := io.ReadAll(res.Body)
		if err != nil {
			w.T.Fatal(err)
		}
		return answer{code: codeOf(string(b), res.Status), body: string(b)}
	}
	begun := false
	var all strings.Builder
	for {
		if _, err := io.ReadFull(res.Body, head); err != nil {
			if !errors.Is(err, io.EOF) {
				w.T.Fatalf("%s: %v\n%s", s, err, all.String())
			}
			return answer{body: all.String()}
		}
		msg := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(res.Body, msg); err != nil {
			w.T.Fatal(err)
		}
		all.Write(append(msg, '\n'))
		if head[0]&2 != 0 { // end of stream
			return answer{code: codeOf(string(msg), ""), body: all.String()}
		}
		if meanwhile != nil && !begun {
			begun = true
			meanwhile()
		}
		if meanwhile == nil || strings.Contains(all.String(), w.marker) {
			return answer{body: all.String()}
		}
	}
}
