package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
)

// Limits of a Bridge.
const (
	maxMessage  = 16 << 20 // bytes of a message of the server
	maxAtOnce   = 64       // requests of the client in progress
	longestWait = 30 * time.Second
	lastAnswers = 3 * time.Second // how long requests may go on when the client has closed its side
)

// Bridge connects a client that speaks MCP over standard input and output to a server over streamable HTTP. It passes
// messages on as they are, each on one line. It keeps the session: if the server no longer knows it, for example because
// Steward was started again, the bridge initializes a new one as the client has initialized the first.
type Bridge struct {
	In  io.Reader // from the client
	Out io.Writer // to the client
	// Server returns the server's base URL and the credential for it. It is called for every request, because both may
	// change while the client runs.
	Server func() (url, secret string, err error)
	HTTP   *http.Client // nil: http.DefaultClient

	out sync.Mutex

	mu          sync.Mutex
	session     string // the id of the session; empty: there is none
	version     string // of the protocol, as it was negotiated
	initialize  []byte // the client's own message
	initialized bool   // the client has sent that it is
	generation  int    // how many sessions there were

	again sync.Mutex // held while a session is begun again
}

// envelope is what the bridge reads of a message.
type envelope struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
}

// Run passes messages on until the client closes its side, or ctx ends.
func (b *Bridge) Run(ctx context.Context) error {
	if b.HTTP == nil {
		b.HTTP = http.DefaultClient
	}
	ctx, cancel := context.WithCancel(ctx)
	var work, calls sync.WaitGroup
	defer work.Wait()
	defer calls.Wait()
	defer b.leave()
	defer cancel()
	lines := make(chan []byte)
	broken := make(chan error, 1)
	go func() { // ends with the client's side, or with the process
		defer close(lines)
		in := bufio.NewScanner(b.In)
		in.Buffer(make([]byte, 0, 64<<10), maxRequest)
		for in.Scan() {
			select {
			case lines <- bytes.Clone(in.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		broken <- in.Err()
	}()
	slots := make(chan struct{}, maxAtOnce)
	for {
		var line []byte
		var more bool
		select {
		case line, more = <-lines:
		case <-ctx.Done():
			return nil
		}
		if !more {
			err := <-broken
			if errors.Is(err, bufio.ErrTooLong) {
				err = fault.New(fault.TooLarge, "too_large", "a message of the MCP client exceeds the limit of %d bytes", maxRequest)
			}
			defer time.AfterFunc(lastAnswers, cancel).Stop()
			calls.Wait()
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var m envelope
		if json.Unmarshal(line, &m) != nil {
			b.fail(nil, -32700, "the message is not valid JSON")
			continue
		}
		if m.Method != "" && m.ID != nil && m.Method != "initialize" {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			calls.Go(func() {
				defer func() { <-slots }()
				b.send(ctx, line, m)
			})
			continue
		}
		b.send(ctx, line, m) // others are answered at once, and later messages rely on them
		if m.Method == "notifications/initialized" {
			work.Go(func() { b.listen(ctx) })
		}
	}
}

// send posts a message of the client and passes on what the server answers.
func (b *Bridge) send(ctx context.Context, line []byte, m envelope) {
	b.mu.Lock()
	switch m.Method {
	case "initialize":
		b.initialize, b.session, b.version, b.initialized = line, "", "", false
	case "notifications/initialized":
		b.initialized = true
	}
	generation := b.generation
	b.mu.Unlock()
	err := b.post(ctx, line, b.pass)
	if errors.Is(err, errNoSession) && m.Method != "initialize" && b.restore(ctx, generation) == nil {
		err = b.post(ctx, line, b.pass)
	}
	if err != nil && m.ID != nil && m.Method != "" && ctx.Err() == nil {
		b.fail(m.ID, -32603, err.Error())
	}
}

// errNoSession means that the server does not know the session.
var errNoSession = errors.New("the MCP session has ended")

// restore begins a session again, as the client began the first one, unless that has happened since a generation.
func (b *Bridge) restore(ctx context.Context, generation int) error {
	b.again.Lock()
	defer b.again.Unlock()
	b.mu.Lock()
	if b.generation != generation {
		b.mu.Unlock()
		return nil
	}
	line, initialized := b.initialize, b.initialized
	b.session, b.version = "", ""
	b.mu.Unlock()
	if line == nil {
		return errNoSession
	}
	none := func([]byte) {} // the client knows the answer
	if err := b.post(ctx, line, none); err != nil {
		return err
	}
	if initialized {
		return b.post(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), none)
	}
	return nil
}

// request makes a request in the session.
func (b *Bridge) request(ctx context.Context, method string, body []byte) (*http.Response, error) {
	url, secret, err := b.Server()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, url+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	session, version := b.session, b.version
	b.mu.Unlock()
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" {
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	res, err := b.HTTP.Do(r)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "steward_unreachable", "Steward cannot be reached: %w", err).WithHint("check that it runs: steward doctor")
	}
	return res, nil
}

// post posts a message, and calls pass with each message of the answer.
func (b *Bridge) post(ctx context.Context, line []byte, pass func([]byte)) error {
	res, err := b.request(ctx, http.MethodPost, line)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return errNoSession
	}
	if res.StatusCode >= 300 {
		return refusal(res)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		b.mu.Lock()
		if b.session != id {
			b.session = id
			b.generation++
		}
		b.mu.Unlock()
	}
	return messages(res, func(m []byte) {
		b.noteVersion(m)
		pass(m)
	})
}

// noteVersion takes the version of the protocol from the answer to initialize.
func (b *Bridge) noteVersion(m []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.version != "" || !bytes.Contains(m, []byte(`"protocolVersion"`)) {
		return
	}
	var e envelope
	var r struct {
		Version string `json:"protocolVersion"`
	}
	if json.Unmarshal(m, &e) == nil && json.Unmarshal(e.Result, &r) == nil {
		b.version = r.Version
	}
}

// refusal is an answer that is an error of the server.
func refusal(res *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return err
	}
	var e struct {
		Error struct{ Message, Remedy string }
	}
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		if e.Error.Remedy != "" {
			e.Error.Message += " (" + e.Error.Remedy + ")"
		}
		return errors.New(e.Error.Message)
	}
	return fmt.Errorf("the answer of Steward is %s: %.200s", res.Status, bytes.TrimSpace(body))
}

// messages calls pass with each message of an answer, which is one of JSON or a stream of events.
func messages(res *http.Response, pass func([]byte)) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(io.LimitReader(res.Body, maxMessage))
		if err == nil && len(bytes.TrimSpace(body)) > 0 {
			pass(body)
		}
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	var data []byte
	for lines.Scan() {
		line := lines.Bytes()
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(text, []byte(" "))...)
			data = append(data, '\n')
		} else if len(line) == 0 {
			if len(bytes.TrimSpace(data)) > 0 {
				pass(data)
			}
			data = nil
		}
	}
	return lines.Err()
}

// pass writes a message to the client, on one line.
func (b *Bridge) pass(m []byte) {
	var line bytes.Buffer
	if json.Compact(&line, m) != nil {
		return
	}
	line.WriteByte('\n')
	b.out.Lock()
	defer b.out.Unlock()
	b.Out.Write(line.Bytes()) //nolint:errcheck // a client that has gone closes its other side too
}

// fail answers a request with an error.
func (b *Bridge) fail(id json.RawMessage, code int, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	m, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err == nil {
		b.pass(m)
	}
}

// listen passes on what the server sends by itself, for as long as the client is there.
func (b *Bridge) listen(ctx context.Context) {
	wait := time.Second
	for ctx.Err() == nil {
		b.mu.Lock()
		generation := b.generation
		b.mu.Unlock()
		began := time.Now()
		res, err := b.request(ctx, http.MethodGet, nil)
		if err == nil {
			if res.StatusCode == http.StatusOK {
				err = messages(res, b.pass)
			}
			res.Body.Close()
			if res.StatusCode == http.StatusNotFound {
				err = b.restore(ctx, generation)
			}
		}
		if err == nil && time.Since(began) > longestWait {
			wait = time.Second
		}
		if !fault.Pause(ctx, wait) {
			return
		}
		wait = min(2*wait, longestWait)
	}
}

// leave ends the session.
func (b *Bridge) leave() {
	b.mu.Lock()
	session := b.session
	b.mu.Unlock()
	if session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if res, err := b.request(ctx, http.MethodDelete, nil); err == nil {
		res.Body.Close()
	}
}
