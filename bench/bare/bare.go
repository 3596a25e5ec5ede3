// Package bare is the loop that Steward is compared with: chat over HTTP with
// one tool, every message durably committed, and nothing else. It imports
// nothing from Steward. It has what a careful programmer would give it: an
// encoded history, a connection pool, a fast stream parser, group commit over
// all conversations, and a commit of the user's message while the model request
// runs.
package bare

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	_ "modernc.org/sqlite"
)

// Loop is a bare chat server with one model and one database.
type Loop struct {
	url    string
	head   string // of each request
	client *http.Client
	db     *sql.DB
	queue  chan write
	done   chan struct{}
}

// Chat is one conversation. It is not safe for concurrent use.
type Chat struct {
	loop    *Loop
	id      int64
	pos     int64
	tokens  int64
	history []byte // the encoded messages, separated by commas
}

type write struct {
	rows []row
	done chan error
}

type row struct {
	chat, pos, tokens int64 // tokens: of the conversation, only if body is nil
	role              string
	body              []byte
}

// Open opens the database at path and a client for the model server. head is how each request
// begins: the model, the tools, and the messages up to those of the conversation.
func Open(path, modelURL, head string) (*Loop, error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE conversation(id INTEGER PRIMARY KEY, updated INTEGER, messages INTEGER, tokens INTEGER);
		CREATE TABLE message(conversation INTEGER, pos INTEGER, role TEXT, at INTEGER, body BLOB, PRIMARY KEY(conversation, pos)) WITHOUT ROWID`)
	if err != nil {
		return nil, err
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.MaxIdleConns = 0
	tr.MaxIdleConnsPerHost = 256
	tr.DisableCompression = true
	tr.WriteBufferSize = 64 << 10
	l := &Loop{url: modelURL + "/chat/completions", head: head, client: &http.Client{Transport: tr}, db: db,
		queue: make(chan write, 1024), done: make(chan struct{})}
	go l.writer()
	return l, nil
}

// Close stops the writer and closes the database.
func (l *Loop) Close() error {
	close(l.queue)
	<-l.done
	return l.db.Close()
}

// Checkpoint moves everything from the WAL into the database file.
func (l *Loop) Checkpoint() error {
	_, err := l.db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// writer commits the queued writes in groups.
func (l *Loop) writer() {
	defer close(l.done)
	ins, err := l.db.Prepare("INSERT INTO message VALUES(?,?,?,?,?)")
	if err != nil {
		panic(err)
	}
	upd, err := l.db.Prepare("INSERT INTO conversation VALUES(?1,?2,?3,?4) ON CONFLICT DO UPDATE SET updated=?2, messages=?3, tokens=?4")
	if err != nil {
		panic(err)
	}
	for w := range l.queue {
		group := []write{w}
		for more := true; more && len(group) < 256; {
			select {
			case w, ok := <-l.queue:
				if more = ok; ok {
					group = append(group, w)
				}
			default:
				more = false
			}
		}
		err := l.commit(group, ins, upd)
		for _, w := range group {
			w.done <- err
		}
	}
}

func (l *Loop) commit(group []write, ins, upd *sql.Stmt) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert, update := tx.Stmt(ins), tx.Stmt(upd)
	now := time.Now().UnixMicro()
	for _, w := range group {
		for _, r := range w.rows {
			if r.body == nil {
				_, err = update.Exec(r.chat, now, r.pos, r.tokens)
			} else {
				_, err = insert.Exec(r.chat, r.pos, r.role, now, r.body)
			}
			if err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

func (l *Loop) store(rows ...row) <-chan error {
	done := make(chan error, 1)
	l.queue <- write{rows, done}
	return done
}

// NewChat begins a conversation.
func (l *Loop) NewChat(id int64) *Chat { return &Chat{loop: l, id: id} }

// add appends an encoded message to the history and returns its row.
func (c *Chat) add(role string, body []byte) row {
	if len(c.history) > 0 {
		c.history = append(c.history, ',')
	}
	c.history = append(c.history, body...)
	c.pos++
	return row{chat: c.id, pos: c.pos, role: role, body: body}
}

// Turn asks the model about the text and returns its answer. onToken, if not
// nil, is called with each piece as it arrives.
func (c *Chat) Turn(ctx context.Context, text string, onToken func(string)) (string, error) {
	saved := c.loop.store(c.add("user", appendMessage(nil, "user", text, "")))
	for {
		a, err := c.loop.ask(ctx, c.history, &saved, onToken)
		if err != nil {
			return "", err
		}
		c.tokens += a.tokens
		if a.call.name == "" {
			final := c.add("assistant", appendMessage(nil, "assistant", a.text, ""))
			return a.text, <-c.loop.store(final, row{chat: c.id, pos: c.pos, tokens: c.tokens})
		}
		if err := <-c.loop.store(c.add("assistant", appendCall(nil, a.call))); err != nil {
			return "", err
		}
		if err := <-c.loop.store(c.add("tool", appendMessage(nil, "tool", multiply(a.call.args), a.call.id))); err != nil {
			return "", err
		}
	}
}

func multiply(args []byte) string {
	var in struct{ A, B *float64 }
	if err := json.Unmarshal(args, &in); err != nil || in.A == nil || in.B == nil {
		return "error: a and b must be numbers"
	}
	return strconv.FormatFloat(*in.A**in.B, 'f', -1, 64)
}

func appendMessage(b []byte, role, text, callID string) []byte {
	b = append(b, `{"role":"`...)
	b = append(b, role...)
	if callID != "" {
		b = append(b, `","tool_call_id":`...)
		b, _ = jsontext.AppendQuote(b, callID)
		b = append(b, `,"content":`...)
	} else {
		b = append(b, `","content":`...)
	}
	b, _ = jsontext.AppendQuote(b, text)
	return append(b, '}')
}

func appendCall(b []byte, c call) []byte {
	b = append(b, `{"role":"assistant","tool_calls":[{"type":"function","id":`...)
	b, _ = jsontext.AppendQuote(b, c.id)
	b = append(b, `,"function":{"name":`...)
	b, _ = jsontext.AppendQuote(b, c.name)
	b = append(b, `,"arguments":`...)
	b, _ = jsontext.AppendQuote(b, c.args)
	return append(b, `}}]}`...)
}

type call struct {
	id, name string
	args     []byte
}

type answer struct {
	text   string
	call   call
	tokens int64
}

const tail = `]}`

// ask sends the history and reads the stream. If *saved is not nil, it waits
// for it before it passes on the first piece.
func (l *Loop) ask(ctx context.Context, history []byte, saved *<-chan error, onToken func(string)) (answer, error) {
	body := io.MultiReader(strings.NewReader(l.head), bytes.NewReader(history), strings.NewReader(tail))
	req, err := http.NewRequestWithContext(ctx, "POST", l.url, body)
	if err != nil {
		return answer{}, err
	}
	req.ContentLength = int64(len(l.head) + len(history) + len(tail))
	req.Header.Set("Content-Type", "application/json")
	res, err := l.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	if *saved != nil {
		if err := <-*saved; err != nil {
			return answer{}, err
		}
		*saved = nil
	}
	if res.StatusCode != 200 {
		return answer{}, fmt.Errorf("the model answered %s", res.Status)
	}
	return read(res.Body, onToken)
}

var errCut = errors.New("the stream was cut")

func read(r io.Reader, onToken func(string)) (answer, error) {
	var a answer
	var text []byte
	in := bufio.NewReader(r)
	var dec jsontext.Decoder
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return a, errCut
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if bytes.HasPrefix(data, []byte("[DONE]")) {
			a.text = string(text)
			io.Copy(io.Discard, in) // read to the end so that the connection is reused
			return a, nil
		}
		dec.Reset(bytes.NewBuffer(data))
		piece, err := a.chunk(&dec)
		if err != nil {
			return a, err
		}
		if piece != "" {
			text = append(text, piece...)
			if onToken != nil {
				onToken(piece)
			}
		}
	}
}

// chunk reads one chunk of a stream.
func (a *answer) chunk(d *jsontext.Decoder) (piece string, err error) {
	err = object(d, func(key string) error {
		switch key {
		case "choices":
			return array(d, func() error {
				return object(d, func(key string) error {
					if key != "delta" {
						return d.SkipValue()
					}
					return object(d, func(key string) error {
						switch key {
						case "content":
							piece, err = str(d)
							return err
						case "tool_calls":
							return array(d, func() error { return a.callDelta(d) })
						}
						return d.SkipValue()
					})
				})
			})
		case "usage":
			return object(d, func(key string) error {
				if key != "total_tokens" {
					return d.SkipValue()
				}
				t, err := d.ReadToken()
				if err == nil {
					a.tokens, err = t.Int()
				}
				return err
			})
		}
		return d.SkipValue()
	})
	return piece, err
}

func (a *answer) callDelta(d *jsontext.Decoder) error {
	return object(d, func(key string) error {
		switch key {
		case "id":
			s, err := str(d)
			a.call.id = s
			return err
		case "function":
			return object(d, func(key string) error {
				s, err := str(d)
				switch key {
				case "name":
					a.call.name += s
				case "arguments":
					a.call.args = append(a.call.args, s...)
				}
				return err
			})
		}
		return d.SkipValue()
	})
}

func object(d *jsontext.Decoder, member func(key string) error) error {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '{' {
		return err
	}
	for d.PeekKind() != '}' {
		k, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := member(k.String()); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

func array(d *jsontext.Decoder, element func() error) error {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '[' {
		return err
	}
	for d.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

func str(d *jsontext.Decoder) (string, error) {
	t, err := d.ReadToken()
	if err != nil || t.Kind() != '"' {
		return "", err
	}
	return t.String(), nil
}
