package discord_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/coder/websocket"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/discord"
)

// double is the service as its documentation describes it (discord.com/developers/docs; the gateway and
// messages were read in discord/discord-api-docs, docs/events/gateway.mdx and docs/resources/message.mdx, in
// November 2026):
//
//   - "Gateway": hello with heartbeat_interval, identify, READY with session_id and resume_gateway_url;
//     resume with seq sends what was missed and then RESUMED; an unknown session is answered with op 9.
//   - "Gateway Events": MESSAGE_CREATE, MESSAGE_UPDATE, INTERACTION_CREATE; guild_id is absent in private
//     chats; without the intent MESSAGE_CONTENT the content is empty but in private chats and mentions.
//   - "Create Message": nonce and enforce_nonce, allowed_mentions, message_reference, flags; multipart with
//     payload_json and files[n]; content of at most 2000 characters.
//   - "Get Channel Messages": after and limit, newest first.
//   - "Rate Limits": 429 with retry_after in seconds and the header Retry-After.
//   - "Receiving and Responding": POST /interactions/{id}/{token}/callback.
type double struct {
	t      *testing.T
	server *channeltest.Server
	dir    string
	state  channel.State // nil: dir keeps it

	mu       sync.Mutex
	news     chan struct{}
	revoked  bool
	forgot   bool // sessions are unknown from now on
	rewind   bool
	garbage  bool
	interval int  // of heartbeats, in milliseconds
	mute     bool // heartbeats are not answered
	beats    int  // that have come
	hangUp   websocket.StatusCode
	starts   int // sessions that may still be started today
	limited  []time.Duration
	swallow  int
	refuse   int
	next     int
	messages map[string][]*msg
	threads  map[string]string
	log      []object // dispatches of the session, of which the first has the number 1
	session  string
	files    map[string]channeltest.File
	typing   map[string]int
	answered int
}

type msg struct {
	id     string
	own    bool
	body   object
	fields object // as they were posted
	nonce  string
	files  []channeltest.File
}

type object = map[string]any

const (
	token = "MTk4NjIy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"
	self  = "9000"
)

func newDouble(t *testing.T) *double {
	d := &double{t: t, dir: t.TempDir(), news: make(chan struct{}), next: 100, interval: 41250, starts: 999, messages: map[string][]*msg{}, threads: map[string]string{},
		files: map[string]channeltest.File{}, typing: map[string]int{}}
	mux := http.NewServeMux()
	const api = "/api/v10"
	mux.HandleFunc("GET "+api+"/users/@me", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"id": self, "username": "steward", "bot": true})
	})
	mux.HandleFunc("GET "+api+"/gateway/bot", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"url": d.gatewayURL(), "shards": 1, "session_start_limit": object{"total": 1000, "remaining": d.starts, "reset_after": 3_600_000, "max_concurrency": 1}})
	})
	mux.HandleFunc("GET /gateway", d.gateway)
	mux.HandleFunc("GET "+api+"/channels/{channel}", d.channel)
	mux.HandleFunc("GET "+api+"/channels/{channel}/messages", d.history)
	mux.HandleFunc("POST "+api+"/channels/{channel}/messages", d.post)
	mux.HandleFunc("PATCH "+api+"/channels/{channel}/messages/{message}", d.patch)
	mux.HandleFunc("POST "+api+"/channels/{channel}/typing", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.typing[r.PathValue("channel")]++
		d.mu.Unlock()
		w.WriteHeader(204)
	})
	mux.HandleFunc("POST "+api+"/interactions/{id}/{token}/callback", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.answered++
		d.mu.Unlock()
		w.WriteHeader(204)
	})
	mux.HandleFunc("GET /attachments/{id}", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		f := d.files[r.PathValue("id")]
		d.mu.Unlock()
		if r.Header.Get("Authorization") != "" {
			d.t.Error("the token goes to the store of files")
		}
		w.Write(f.Data) //nolint:errcheck // the test sees what is missing
	})
	d.server = channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		revoked := d.revoked
		d.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, api) && (revoked || r.Header.Get("Authorization") != "Bot "+token) {
			reply(w, 401, object{"message": "401: Unauthorized", "code": 0})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	d.meet("1001")
	return d
}

// meet lets the account run for the first time and a person write to it, since a bot cannot learn what was
// written to it before it has ever been connected.
func (d *double) meet(person string) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	connected := func() { d.Say(channeltest.Message{From: person, Chat: person, Text: "hello"}) }
	err := d.Channel().Run(ctx, connected, func(context.Context, []channel.Update) error { cancel(); return nil })
	if ctx.Err() != context.Canceled {
		d.t.Fatalf("the account does not work: %v", err)
	}
	d.Drop()
}

func (d *double) gatewayURL() string {
	return "ws" + strings.TrimPrefix(d.server.URL, "http") + "/gateway"
}

func (d *double) Channel() channel.Channel {
	c, err := discord.New(channel.Options{Token: token, BaseURL: d.server.URL, Client: d.server.Client(), Log: slog.New(slog.DiscardHandler), Dir: d.dir, State: d.state})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *double) Traits() channeltest.Traits { return channeltest.Traits{} }

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// change changes the state, and wakes the gateway.
func (d *double) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.news)
	d.news = make(chan struct{})
}

// gateway serves one connection.
func (d *double) gateway(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("v") != "10" || r.FormValue("encoding") != "json" {
		d.t.Errorf("the gateway is asked for %q", r.URL.RawQuery)
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow() //nolint:errcheck // it may be closed already
	send := func(op int, seq int, kind string, data any) error {
		frame := object{"op": op, "d": data, "s": nil, "t": nil}
		if op == 0 {
			frame["s"], frame["t"] = seq, kind
		}
		b, err := json.Marshal(frame)
		if err == nil {
			err = c.Write(r.Context(), websocket.MessageText, b)
		}
		return err
	}
	read := func() (op int, data json.RawMessage, err error) {
		_, b, err := c.Read(r.Context())
		if err != nil {
			return 0, nil, err
		}
		var f struct {
			Op int             `json:"op"`
			D  json.RawMessage `json:"d"`
		}
		err = json.Unmarshal(b, &f)
		return f.Op, f.D, err
	}
	d.mu.Lock()
	interval, mute, hangUp := d.interval, d.mute, d.hangUp
	d.mu.Unlock()
	if send(10, 0, "", object{"heartbeat_interval": interval}) != nil {
		return
	}
	op, data, err := read()
	if err != nil {
		return
	}
	var hello struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
		Intents int    `json:"intents"`
	}
	if err := json.Unmarshal(data, &hello); err != nil {
		d.t.Errorf("the greeting: %v", err)
	}
	if hangUp != 0 {
		c.Close(hangUp, "a reason") //nolint:errcheck // the client is gone
		return
	}
	d.mu.Lock()
	if d.revoked || hello.Token != token {
		d.mu.Unlock()
		c.Close(4004, "Authentication failed.") //nolint:errcheck // the client is gone
		return
	}
	at, garbage := hello.Seq, d.garbage
	d.garbage = false
	switch {
	case op == 6 && hello.Session == d.session && d.session != "" && !d.forgot:
		if d.rewind {
			at, d.rewind = 0, false
		}
	case op == 6:
		d.mu.Unlock()
		send(9, 0, "", false) //nolint:errcheck // the client is gone
		return
	case op == 2 && hello.Intents == 1<<9|1<<12:
		d.forgot, d.rewind = false, false
		d.session = fmt.Sprint("session", d.id())
		d.log = []object{{"t": "READY", "d": object{"v": 10, "user": object{"id": self}, "guilds": []any{}, "session_id": d.session, "resume_gateway_url": d.gatewayURL()}}}
		at = 0
	default:
		d.t.Errorf("op %d, intents %d", op, hello.Intents)
	}
	session, resumed := d.session, op == 6
	until := len(d.log)
	d.mu.Unlock()
	if garbage && d.nonsense(c, r) != nil {
		return
	}
	go func() {
		for {
			op, _, err := read()
			if err != nil {
				return
			}
			if op == 1 {
				d.change(func() { d.beats++ })
			}
			if op == 1 && !mute {
				send(11, 0, "", nil) //nolint:errcheck // the client is gone
			}
		}
	}()
	for {
		d.mu.Lock()
		if d.session != session || d.revoked {
			d.mu.Unlock()
			return
		}
		list, news := slices.Clone(d.log[min(at, len(d.log)):]), d.news
		d.mu.Unlock()
		for _, e := range list {
			if resumed && at >= until {
				break
			}
			at++
			if send(0, at, e["t"].(string), e["d"]) != nil {
				return
			}
		}
		if resumed {
			resumed = false
			d.mu.Lock()
			d.log = append(d.log, object{"t": "RESUMED", "d": object{}})
			d.mu.Unlock()
			continue
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		case <-d.server.Done:
			return
		}
	}
}

// id returns the next ID; the lock is held.
func (d *double) id() string { d.next++; return strconv.Itoa(d.next) }

// dispatch sends an event to the session; the lock is held.
func (d *double) dispatch(kind string, body any) {
	if d.session != "" {
		d.log = append(d.log, object{"t": kind, "d": body})
	}
}

func (d *double) channel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("channel")
	d.mu.Lock()
	parent := d.threads[id]
	d.mu.Unlock()
	switch {
	case parent != "":
		reply(w, 200, object{"id": id, "type": 11, "name": "a thread", "parent_id": parent, "guild_id": "5000"})
	case strings.HasPrefix(id, "-"):
		reply(w, 200, object{"id": id, "type": 0, "name": "general", "guild_id": "5000", "parent_id": "4000"})
	default:
		reply(w, 200, object{"id": id, "type": 1, "last_message_id": nil})
	}
}

func (d *double) history(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.Atoi(r.FormValue("after"))
	limit, limitErr := strconv.Atoi(r.FormValue("limit"))
	if err != nil || limitErr != nil || limit > 100 {
		d.t.Errorf("history: %v", r.Form)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []object{}
	for _, m := range d.messages[r.PathValue("channel")] {
		if id, err := strconv.Atoi(m.id); err == nil && id > after && len(list) < min(limit, 10) {
			body := object{}
			for k, v := range m.body {
				if k != "guild_id" {
					body[k] = v
				}
			}
			list = append(list, body)
		}
	}
	slices.Reverse(list)
	reply(w, 200, list)
}

// accept answers a request to post with what the test wants; ok is true if it is to be carried out.
func (d *double) accept(w http.ResponseWriter) (ok bool) {
	switch {
	case len(d.limited) > 0:
		pause := d.limited[0]
		d.limited = d.limited[1:]
		w.Header().Set("Retry-After", fmt.Sprint(pause.Seconds()))
		reply(w, 429, object{"message": "You are being rate limited.", "retry_after": pause.Seconds(), "global": false})
		return false
	case d.refuse > 0:
		d.refuse--
		reply(w, 403, object{"message": "Cannot send messages to this user", "code": 50007})
		return false
	}
	return true
}

func (d *double) post(w http.ResponseWriter, r *http.Request) {
	fields, files, err := decode(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = valid(fields)
	}
	if err != nil {
		reply(w, 400, object{"message": "Invalid Form Body: " + err.Error(), "code": 50035})
		return
	}
	if !d.accept(w) {
		return
	}
	room := r.PathValue("channel")
	nonce, _ := fields["nonce"].(string)
	var m *msg
	for _, old := range d.messages[room] {
		if old.own && old.nonce == nonce && fields["enforce_nonce"] == true {
			m = old
		}
	}
	if m == nil {
		m = &msg{id: d.id(), own: true, fields: fields, nonce: nonce, files: files}
		m.body = object{"id": m.id, "type": 0, "channel_id": room, "author": object{"id": self, "username": "steward", "bot": true}, "content": fields["content"], "timestamp": d.now()}
		d.messages[room] = append(d.messages[room], m)
		d.dispatch("MESSAGE_CREATE", m.body)
		close(d.news)
		d.news = make(chan struct{})
	}
	if d.swallow > 0 {
		d.swallow--
		panic(http.ErrAbortHandler)
	}
	reply(w, 200, m.body)
}

func (d *double) patch(w http.ResponseWriter, r *http.Request) {
	fields, _, err := decode(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		err = valid(fields)
	}
	if err != nil {
		reply(w, 400, object{"message": "Invalid Form Body: " + err.Error(), "code": 50035})
		return
	}
	if !d.accept(w) {
		return
	}
	for _, m := range d.messages[r.PathValue("channel")] {
		if m.own && m.id == r.PathValue("message") {
			for k, v := range fields {
				m.fields[k] = v
			}
			reply(w, 200, m.body)
			return
		}
	}
	reply(w, 404, object{"message": "Unknown Message", "code": 10008})
}

// decode reads a message that is posted.
func decode(r *http.Request) (fields object, files []channeltest.File, err error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media == "application/json" {
		return fields, nil, errors.Join(err, json.NewDecoder(r.Body).Decode(&fields))
	}
	for parts := multipart.NewReader(r.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return nil, nil, err
		}
		if p.FormName() == "payload_json" {
			err = json.Unmarshal(data, &fields)
		} else if p.FormName() == fmt.Sprintf("files[%d]", len(files)) {
			files = append(files, channeltest.File{Name: p.FileName(), MediaType: p.Header.Get("Content-Type"), Data: data})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if list, _ := fields["attachments"].([]any); len(list) != len(files) {
		return nil, nil, errors.New("attachments")
	}
	return fields, files, nil
}

// valid checks the fields of a message.
func valid(fields object) error {
	text, _ := fields["content"].(string)
	if len(utf16.Encode([]rune(text))) > 2000 {
		return errors.New("content: Must be 2000 or fewer in length.")
	}
	if nonce, _ := fields["nonce"].(string); len(nonce) > 25 {
		return errors.New("nonce: Must be 25 or fewer in length.")
	}
	allowed, _ := fields["allowed_mentions"].(object)
	if parse, ok := allowed["parse"].([]any); !ok || len(parse) > 0 {
		return errors.New("the text may notify anybody")
	}
	return nil
}

func (d *double) now() string {
	return time.Date(2026, 11, 29, 12, 0, 0, d.next*1000, time.UTC).Format("2006-01-02T15:04:05.000000-07:00")
}

func author(name string) object {
	return object{"id": "7" + name, "username": "user" + name, "global_name": "Person " + name}
}

func (d *double) Say(m channeltest.Message) (id string) {
	d.change(func() {
		room := m.Chat
		if m.Thread != "" {
			room = m.Thread
			d.threads[m.Thread] = m.Chat
		}
		id = d.id()
		body := object{"id": id, "type": 0, "channel_id": room, "author": author(m.From), "content": m.Text, "timestamp": d.now(), "edited_timestamp": nil, "mentions": []any{}, "flags": 0}
		if m.Group {
			body["guild_id"] = "5000"
		}
		if m.Mention {
			body["content"], body["mentions"] = "<@"+self+"> "+m.Text, []any{object{"id": self, "username": "steward", "bot": true}}
		}
		if m.ReplyTo != "" {
			body["type"], body["message_reference"] = 19, object{"message_id": m.ReplyTo, "channel_id": room}
			body["referenced_message"] = object{"id": m.ReplyTo, "author": object{"id": self}}
			body["mentions"] = []any{object{"id": self}}
		} else if m.Group && !m.Mention {
			body["content"] = "" // without the intent MESSAGE_CONTENT
		}
		var list []any
		for _, f := range m.Files {
			file := d.id()
			d.files[file] = f
			list = append(list, object{"id": file, "filename": f.Name, "content_type": f.MediaType, "size": len(f.Data), "url": d.server.URL + "/attachments/" + file, "proxy_url": "https://example.org"})
			if f.Voice {
				body["flags"] = 1 << 13
			}
		}
		body["attachments"] = list
		d.messages[room] = append(d.messages[room], &msg{id: id, body: body})
		d.dispatch("MESSAGE_CREATE", body)
	})
	return id
}

func (d *double) Change(chat, message, text string) {
	d.change(func() {
		for _, m := range d.messages[chat] {
			if m.id == message {
				preview := object{}
				for k, v := range m.body {
					preview[k] = v
				}
				d.dispatch("MESSAGE_UPDATE", preview) // a preview was added: nothing was edited
				changed := object{}
				for k, v := range m.body {
					changed[k] = v
				}
				changed["content"], changed["edited_timestamp"] = text, d.now()
				m.body = changed
				d.dispatch("MESSAGE_UPDATE", changed)
			}
		}
	})
}

func (d *double) Press(from, chat, message, data string) {
	d.change(func() {
		id := d.id()
		d.dispatch("INTERACTION_CREATE", object{"id": id, "application_id": self, "type": 3, "token": "aW50ZXJhY3Rpb24", "channel_id": chat, "user": author(from), "message": object{"id": message}, "data": object{"component_type": 2, "custom_id": data}, "version": 1})
	})
}

func (d *double) Posted(chat string) (list []channeltest.Post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rooms := []string{chat}
	for thread, parent := range d.threads {
		if parent == chat {
			rooms = append(rooms, thread)
		}
	}
	for _, room := range rooms {
		for _, m := range d.messages[room] {
			if !m.own {
				continue
			}
			text, _ := m.fields["content"].(string)
			shown, err := show(text)
			if err != nil {
				d.t.Error(err)
			}
			p := channeltest.Post{ID: m.id, Text: shown.Text, Files: m.files}
			if room != chat {
				p.Thread = room
			}
			if ref, ok := m.fields["message_reference"].(object); ok {
				p.ReplyTo, _ = ref["message_id"].(string)
			}
			rows, _ := m.fields["components"].([]any)
			for _, row := range rows {
				for _, b := range row.(object)["components"].([]any) {
					button := b.(object)
					p.Buttons = append(p.Buttons, channel.Button{Label: button["label"].(string), Data: button["custom_id"].(string)})
				}
			}
			list = append(list, p)
		}
	}
	return list
}

func (d *double) Typing(chat string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.typing[chat]
}

func (d *double) Shown(text string) (channeltest.Shown, error) {
	s, err := show(text)
	if n := len(utf16.Encode([]rune(text))); n > 2000 {
		err = fmt.Errorf("%d characters", n)
	}
	return s, err
}

// show reads the Markdown that the service's programs show ("Markdown Text 101" of its help): blocks of
// code, quotations at the beginning of lines, code, links, and pairs of marks; a backslash makes a mark
// plain.
func show(text string) (s channeltest.Shown, err error) {
	var out strings.Builder
	var open []string
	start := true
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "```"); ok {
			body, after, closed := strings.Cut(rest, "```")
			if !closed {
				return s, errors.New("a block of code is not closed")
			}
			_, body, _ = strings.Cut(body, "\n")
			body = strings.ReplaceAll(body, "\u200b", "")
			s.Code = append(s.Code, body)
			out.WriteString("\n" + body + "\n")
			text, start = after, false
			continue
		}
		if text[0] == '`' {
			n := len(text) - len(strings.TrimLeft(text, "`"))
			body, after, closed := strings.Cut(text[n:], text[:n])
			if !closed || strings.HasPrefix(after, "`") {
				return s, fmt.Errorf("code is not closed: %q", text)
			}
			out.WriteString(strings.TrimSpace(body))
			text, start = after, false
			continue
		}
		if start && strings.HasPrefix(text, "> ") {
			text = text[2:]
			continue
		}
		if text[0] == '\\' && len(text) > 1 && strings.ContainsRune("\\*_~`|<[]#->", rune(text[1])) {
			out.WriteByte(text[1])
			text, start = text[2:], false
			continue
		}
		if start && (text[0] == '#' || text[0] == '-' || text[0] == '>') {
			return s, fmt.Errorf("a mark at the beginning of a line: %q", text)
		}
		if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
			n := strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune(" \n<>[]()\\*~`|\"'\u200b", r) || r > '~' })
			if n < 0 {
				n = len(text)
			}
			out.WriteString(text[:n])
			text, start = text[n:], false
			continue
		}
		if text[0] == '[' {
			end := closing(text)
			if end < 0 || !strings.HasPrefix(text[end:], "](") {
				return s, fmt.Errorf("a bracket: %q", text)
			}
			target, after, closed := strings.Cut(text[end+2:], ")")
			if !closed || strings.ContainsAny(target, " \n") {
				return s, fmt.Errorf("the target of a link: %q", target)
			}
			inner, err := show(text[1:end])
			if err != nil {
				return s, err
			}
			out.WriteString(inner.Text)
			text, start = after, false
			continue
		}
		if mark := markOf(text, open); mark != "" {
			if len(open) > 0 && open[len(open)-1] == mark {
				open = open[:len(open)-1]
			} else if slices.Contains(open, mark) {
				return s, fmt.Errorf("%s is closed within %v", mark, open)
			} else {
				open = append(open, mark)
			}
			text, start = text[len(mark):], false
			continue
		}
		if text[0] == '<' || text[0] == '|' {
			return s, fmt.Errorf("a mark: %q", text)
		}
		r := []rune(text)[0]
		if r != '\u200b' {
			out.WriteRune(r)
		}
		start = r == '\n' || start && r == ' '
		text = text[len(string(r)):]
	}
	if len(open) > 0 {
		return s, fmt.Errorf("%v is not closed", open)
	}
	s.Text = out.String()
	return s, nil
}

// closing returns the place of the bracket that ends the text of a link, or -1.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}

// markOf returns the mark at the beginning of text. Three stars close the inner pair first.
func markOf(text string, open []string) string {
	if len(open) > 0 && open[len(open)-1] == "*" && strings.HasPrefix(text, "***") {
		return "*"
	}
	for _, mark := range []string{"**", "~~", "__", "*", "_"} {
		if strings.HasPrefix(text, mark) {
			return mark
		}
	}
	return ""
}

func (d *double) Drop()            { d.server.Drop() }
func (d *double) Offline(off bool) { d.server.Offline(off) }

func (d *double) LimitNext(n int, pause time.Duration) {
	d.change(func() { d.limited = slices.Repeat([]time.Duration{pause}, n) })
}
func (d *double) SwallowNext(n int) { d.change(func() { d.swallow = n }) }
func (d *double) RefuseNext(n int)  { d.change(func() { d.refuse = n }) }
func (d *double) Revoke()           { d.change(func() { d.revoked = true }) }

func (d *double) Redeliver() {
	d.change(func() { d.rewind = true })
	d.Drop()
}

// Forget makes the service forget the session.
func (d *double) Forget() {
	d.change(func() { d.forgot = true })
	d.Drop()
}

func (d *double) Hostile() {
	d.change(func() {
		for _, body := range []any{
			nil, 7, "text", []any{}, object{}, object{"id": 7}, object{"id": "8", "channel_id": object{}}, object{"id": "9", "channel_id": "1001"},
			object{"id": "1", "channel_id": "1001", "author": object{"id": "71001"}, "content": strings.Repeat("x", 1<<20), "timestamp": "yesterday"},
			object{"id": "2", "channel_id": "1001", "author": object{"id": "71001"}, "type": 7, "content": "has joined", "timestamp": d.now()},
		} {
			for _, kind := range []string{"MESSAGE_CREATE", "MESSAGE_UPDATE", "INTERACTION_CREATE", "SOMETHING_NEW"} {
				d.dispatch(kind, body)
			}
		}
		d.garbage = true
	})
	d.Drop()
}

// nonsense sends frames that are none.
func (d *double) nonsense(c *websocket.Conn, r *http.Request) error {
	for _, text := range []string{"", "{", "null", "[]", `{"op":"x"}`, `{"op":99,"d":{}}`, `{"op":0}`, strings.Repeat("[", 10_000)} {
		if err := c.Write(r.Context(), websocket.MessageText, []byte(text)); err != nil {
			return err
		}
	}
	return c.Write(r.Context(), websocket.MessageBinary, []byte{0xff, 0})
}
