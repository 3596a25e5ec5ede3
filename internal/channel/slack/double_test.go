package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/coder/websocket"
	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/slack"
)

const (
	botToken = "xoxb-1-2-of_a_double"
	appToken = "xapp-1-A1-2-of_a_double"
)

// double behaves as Slack's documentation says, as it was read in November 2026:
//
//   - api.slack.com/apis/connections/socket-implement: apps.connections.open with the app-level token returns
//     the address of a WebSocket, which is used once; the first message is hello; envelopes have envelope_id,
//     type and payload, and are acknowledged with {"envelope_id"}; disconnect announces the end.
//   - slackapi/python-slack-sdk, docs/english/socket-mode.md and slack_sdk/socket_mode/request.py:
//     retry_attempt and retry_reason of an envelope that was not acknowledged.
//   - slackapi/slack-api-specs, web-api/slack_web_openapi_v2.json: arguments and errors of chat.postMessage,
//     chat.update ("if you don't include this field, the message's previous blocks will be retained"),
//     users.conversations, conversations.history and conversations.replies; oldest and cursor.
//   - docs.slack.dev/reference/methods/files.getUploadURLExternal and files.completeUploadExternal, as the
//     SDK's slack_sdk/web/client.py calls them.
//   - api.slack.com/docs/rate-limits: status 429 with Retry-After.
//   - docs.slack.dev/reference/block-kit: a section has at most 3,000 characters, a button's text 75.
//   - api.slack.com/reference/surfaces/formatting: mrkdwn; & < > are escaped.
//
// Each event is also read with the types of github.com/slack-go/slack, and the adapter's blocks are.
type double struct {
	*channeltest.Server
	t      *testing.T
	dir    string
	state  channel.State // nil: dir keeps it
	faults channeltest.Faults

	mu      sync.Mutex
	revoked bool
	clock   int
	queue   []*item
	low     int // all before are acknowledged
	grown   chan struct{}
	tickets map[string]bool
	nextID  int
	history map[string][]string // messages of people, by conversation
	texts   map[string]string
	posts   map[string][]*post
	files   map[string]channeltest.File
	uploads map[string][]byte
	conns   map[*websocket.Conn]bool
	stop    string // the reason of a disconnect that is due
	page    int    // messages of a page of the history
}

type item struct {
	id       string
	kind     string
	payload  string // if empty, frame is sent
	frame    string
	attempts int // how often it was sent
	acked    bool
}

type post struct {
	channeltest.Post
}

func newDouble(t *testing.T) *double {
	d := &double{t: t, dir: t.TempDir(), page: 200, grown: make(chan struct{}), tickets: map[string]bool{}, history: map[string][]string{}, texts: map[string]string{},
		posts: map[string][]*post{}, files: map[string]channeltest.File{}, uploads: map[string][]byte{}, conns: map[*websocket.Conn]bool{}}
	d.Server = channeltest.NewServer(t, d)
	return d
}

func (d *double) Traits() channeltest.Traits {
	return channeltest.Traits{NoReplies: true, NoTyping: true}
}

func (d *double) Address(chat string) string {
	if group, ok := strings.CutPrefix(chat, "-"); ok {
		return "C" + group
	}
	return "D" + chat
}

func (d *double) Channel() channel.Channel {
	c, err := slack.New(channel.Options{Token: botToken, BaseURL: d.URL + "/api", Client: d.Client(), Log: slog.New(slog.DiscardHandler), Dir: d.dir, State: d.state,
		Settings: map[string]string{"app_token": appToken}})
	if err != nil {
		panic(err)
	}
	return c
}

func (d *double) LimitNext(n int, pause time.Duration) { d.faults.Limit(n, int(pause/time.Second)) }
func (d *double) SwallowNext(n int)                    { d.faults.Swallow(n) }
func (d *double) RefuseNext(n int)                     { d.faults.Refuse(n) }
func (d *double) StallNext(n int)                      { d.faults.Stall(n) }
func (d *double) Revoke()                              { d.mu.Lock(); d.revoked = true; d.mu.Unlock() }
func (d *double) Typing(string) int                    { return 0 }

// Redeliver sends everything again, as Slack does when an acknowledgement is lost.
func (d *double) Redeliver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, i := range d.queue {
		if i.payload != "" && k >= len(d.queue)-100 {
			d.queue[k] = &item{id: i.id, kind: i.kind, payload: i.payload}
		}
	}
	d.low = max(0, min(d.low, len(d.queue)-100))
	d.wake()
}

func (d *double) wake() { close(d.grown); d.grown = make(chan struct{}) }

func (d *double) ts() string {
	d.clock++
	return fmt.Sprintf("%d.%06d", time.Now().Unix(), d.clock)
}

func encode(v any) string {
	js, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(js)
}

func (d *double) deliver(kind, payload string) {
	d.nextID++
	d.queue = append(d.queue, &item{id: fmt.Sprint("envelope-", d.nextID), kind: kind, payload: payload})
	d.wake()
}

type object = map[string]any

// event delivers an event.
func (d *double) event(event object) {
	d.nextID++
	payload := encode(object{"token": "x", "team_id": "T1", "api_app_id": "A1", "type": "event_callback", "event_id": fmt.Sprint("Ev", d.nextID), "event_time": time.Now().Unix(), "event": event})
	in, err := slackevents.ParseEvent(json.RawMessage(payload), slackevents.OptionNoVerifyToken())
	if err != nil {
		d.t.Errorf("slack-go cannot read an event of the double: %v", err)
	}
	switch e := in.InnerEvent.Data.(type) {
	case *slackevents.MessageEvent:
		if e.Channel != event["channel"] || e.ChannelType != event["channel_type"] {
			d.t.Errorf("slack-go reads an event of the double as %+v", e)
		}
	case *slackevents.AppMentionEvent:
		if e.Channel != event["channel"] || e.Text != event["text"] || e.User != event["user"] || e.TimeStamp != event["ts"] {
			d.t.Errorf("slack-go reads an event of the double as %+v", e)
		}
	default:
		d.t.Errorf("slack-go reads an event of the double as %T", e)
	}
	d.deliver("events_api", payload)
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func (d *double) Say(m channeltest.Message) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	chat := d.Address(m.Chat)
	event := object{"type": "message", "channel": chat, "channel_type": "im", "user": "U" + m.From, "ts": d.ts()}
	if m.Group {
		event["channel_type"] = "channel"
	}
	text := escaped(m.Text)
	if m.Mention {
		text = "<@UBOT>: " + text
	}
	event["text"] = text
	ts := event["ts"].(string)
	if m.Thread != "" {
		event["thread_ts"], event["parent_user_id"] = thread(m.Thread), "U1"
	}
	var files []object
	for i, f := range m.Files {
		id := fmt.Sprintf("F%d%d", d.clock, i)
		d.files[id] = f
		file := object{"id": id, "name": f.Name, "mimetype": f.MediaType, "size": len(f.Data), "mode": "hosted", "url_private": "https://evil.example.com/"}
		if f.Voice {
			file["subtype"] = "slack_audio"
		}
		files = append(files, file)
	}
	if len(files) > 0 {
		event["subtype"], event["files"] = "file_share", files
	}
	d.texts[chat+ts] = text
	kept := object{}
	for k, v := range event {
		if k != "channel" && k != "channel_type" { // which the history does not repeat
			kept[k] = v
		}
	}
	d.history[chat] = append(d.history[chat], encode(kept))
	d.event(event)
	if m.Mention {
		mention := object{"type": "app_mention", "channel": chat, "user": event["user"], "text": text, "ts": ts, "event_ts": ts}
		if m.Thread != "" {
			mention["thread_ts"] = event["thread_ts"]
		}
		d.event(mention)
	}
	return ts
}

// thread returns the time of the message that a thread of a test begins with.
func thread(number string) string {
	if number == "" {
		return ""
	}
	return "1600000000." + fmt.Sprintf("%06s", number)
}

func (d *double) Change(chat, message, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.Address(chat)
	was := object{"type": "message", "user": "U1001", "text": d.texts[id+message], "ts": message}
	now := object{"type": "message", "user": "U1001", "text": escaped(text), "ts": message, "edited": object{"user": "U1001", "ts": d.ts()}}
	d.event(object{"type": "message", "subtype": "message_changed", "hidden": true, "channel": id, "channel_type": "im", "ts": d.ts(), "event_ts": "1.000000", "message": now, "previous_message": was})
}

func (d *double) Press(from, chat, message, data string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	payload := encode(object{"type": "block_actions", "user": object{"id": "U" + from, "username": "ada", "name": "ada", "team_id": "T1"}, "api_app_id": "A1", "token": "x",
		"container": object{"type": "message", "message_ts": message, "channel_id": d.Address(chat), "is_ephemeral": false}, "trigger_id": "1.2.x", "team": object{"id": "T1", "domain": "x"},
		"channel": object{"id": d.Address(chat), "name": "directmessage"}, "message": object{"type": "message", "user": "UBOT", "ts": message, "text": "?"},
		"response_url": "https://hooks.slack.com/actions/x", "actions": []object{{"type": "button", "action_id": "steward-0", "block_id": "b", "value": data, "action_ts": d.ts(), "text": object{"type": "plain_text", "text": "x"}}}})
	var in slackgo.InteractionCallback
	if err := json.Unmarshal([]byte(payload), &in); err != nil || len(in.ActionCallback.BlockActions) != 1 || in.ActionCallback.BlockActions[0].Value != data || in.Channel.ID != d.Address(chat) {
		d.t.Errorf("slack-go reads a press of the double as %+v (%v)", in, err)
	}
	d.deliver("interactive", payload)
}

func (d *double) Posted(chat string) (list []channeltest.Post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.posts[d.Address(chat)] {
		list = append(list, p.Post)
	}
	return list
}

func (d *double) Hostile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, payload := range []string{
		`null`, `7`, `"x"`, `[]`, `{}`, `{"event":null}`, `{"event":7}`, `{"event":{"type":7}}`, `{"event":{"type":"message"}}`,
		`{"event":{"type":"message","channel":"D1","user":"U1001","ts":"now","text":"x"}}`,
		`{"event":{"type":"message","channel":"D1","user":"U1001","ts":"1700000000.000001","text":"` + strings.Repeat("<", 1<<20) + `"}}`,
		`{"event":{"type":"message","channel":"D1","user":"U1001","ts":"1700000000.000002","text":"<@UBOT><@UBOT|x><|><!><!|><#>"}}`,
		`{"event":{"type":"message","channel":"D1","ts":"1700000000.000003","text":"nobody"}}`,
		`{"event":{"type":"message","subtype":"message_changed","channel":"D1","message":null}}`,
		`{"event":{"type":"message","subtype":"message_changed","channel":"D1","message":{"edited":{"ts":"x"}}}}`,
		`{"event":{"type":"message","subtype":"a_new_one","channel":"D1","user":"U1001","ts":"1700000000.000004"}}`,
		`{"event":{"type":"message","channel":"D1","user":"U1001","ts":"1700000000.000005","text":"x","message":` + strings.Repeat(`{"message":`, 5000) + `null` + strings.Repeat(`}`, 5000) + `}}`,
		`{"event":{"type":"team_join","user":{}}}`,
	} {
		d.deliver("events_api", payload)
	}
	for _, payload := range []string{`null`, `{"type":"block_actions"}`, `{"type":"block_actions","actions":[{"type":"button","value":"x"}]}`, `{"type":"view_submission"}`, `{"actions":7}`} {
		d.deliver("interactive", payload)
	}
	d.deliver("slash_commands", `{"command":"/x"}`)
	d.deliver("a_new_type", `{}`)
	for _, frame := range []string{``, `{`, `null`, `7`, `[]`, `{"type":"events_api","envelope_id":7}`, `{"type":"hello"}`, strings.Repeat("[", 100000), `{"type":"events_api","pad":"` + strings.Repeat("y", 9<<20) + `"}`} {
		d.queue = append(d.queue, &item{frame: frame})
	}
	d.wake()
}

var (
	fences = regexp.MustCompile("(?s)```\n(.*?)\n```")
	inline = regexp.MustCompile("(^|[\\s(\\[{.,;:!?\"'–—/>-])`([^`\n]+)`")
	styles = regexp.MustCompile(`(^|[\s()\[{}.,;:!?"'–—/>*_~-])([*_~])([^\s*_~]|[^\s*_~][^\n*_~]*[^\s*_~])([*_~])`)
	links  = regexp.MustCompile(`<((?:https?://|mailto:)[^<>|\s]+)(?:\|([^<>|]+))?>`)
)

// Shown reads mrkdwn.
func (d *double) Shown(text string) (channeltest.Shown, error) {
	var s channeltest.Shown
	if n := len(utf16.Encode([]rune(text))); n > 3000 {
		return s, fmt.Errorf("msg_too_long: %d", n)
	}
	if strings.Count(text, "```")%2 != 0 {
		return s, errors.New("a block of code is not closed")
	}
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "\u200b", "").Replace
	var codes []string
	text = fences.ReplaceAllStringFunc(text, func(m string) string {
		codes = append(codes, fences.FindStringSubmatch(m)[1])
		return fmt.Sprintf("\x01%d\x02", len(codes)-1)
	})
	if strings.Contains(text, "```") {
		return s, errors.New("a block of code is not closed")
	}
	text = links.ReplaceAllStringFunc(text, func(m string) string {
		if parts := links.FindStringSubmatch(m); parts[2] != "" {
			return parts[2]
		}
		return links.FindStringSubmatch(m)[1]
	})
	if i := strings.IndexByte(text, '<'); i >= 0 {
		return s, fmt.Errorf("%.30q is a command to Slack", text[i:])
	}
	text = regexp.MustCompile(`(?m)^> `).ReplaceAllString(text, "")
	text = inline.ReplaceAllString(text, "$1$2")
	for range 3 {
		text = styles.ReplaceAllStringFunc(text, func(m string) string {
			if p := styles.FindStringSubmatch(m); p[2] == p[4] {
				return p[1] + p[3]
			}
			return m
		})
	}
	for i, c := range codes {
		text = strings.Replace(text, fmt.Sprintf("\x01%d\x02", i), c, 1)
		s.Code = append(s.Code, unescape(c))
	}
	s.Text = unescape(text)
	if strings.TrimSpace(s.Text) == "" {
		return s, errors.New("no_text")
	}
	return s, nil
}

// ServeHTTP is the Web API, the WebSocket and the store of files.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, api := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/link"):
		d.socket(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/files/"):
		d.mu.Lock()
		f, ok := d.files[strings.TrimPrefix(r.URL.Path, "/files/")]
		d.mu.Unlock()
		if !ok || r.Header.Get("Authorization") != "Bearer "+botToken {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		w.Write(f.Data)
		return
	case strings.HasPrefix(r.URL.Path, "/upload/"):
		data, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.uploads[strings.TrimPrefix(r.URL.Path, "/upload/")] = data
		d.mu.Unlock()
		io.WriteString(w, "OK")
		return
	case !api:
		http.NotFound(w, r)
		return
	}
	want := botToken
	if method == "apps.connections.open" {
		want = appToken
	}
	d.mu.Lock()
	revoked := d.revoked
	d.mu.Unlock()
	if revoked || r.Header.Get("Authorization") != "Bearer "+want {
		refuse(w, "invalid_auth")
		return
	}
	args := arguments{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			refuse(w, "invalid_json")
			return
		}
	} else if err := r.ParseForm(); err == nil {
		for k := range r.Form {
			args[k] = json.RawMessage(encode(r.Form.Get(k)))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch method {
	case "auth.test":
		answer(w, object{"url": "https://home.slack.com/", "team": "Home", "user": "steward", "team_id": "T1", "user_id": "UBOT", "bot_id": "BBOT"})
	case "apps.connections.open":
		ticket := strconv.Itoa(len(d.tickets))
		d.tickets[ticket] = true
		answer(w, object{"url": strings.Replace(d.URL, "http", "ws", 1) + "/link/?ticket=" + ticket})
	case "chat.postMessage", "chat.update":
		d.post(w, r, method, args)
	case "users.conversations":
		d.conversations(w, args)
	case "conversations.history", "conversations.replies":
		d.past(w, args)
	case "files.info":
		f, ok := d.files[args.text("file")]
		if !ok {
			refuse(w, "file_not_found")
			return
		}
		answer(w, object{"file": object{"id": args.text("file"), "name": f.Name, "url_private": d.URL + "/files/" + args.text("file"), "url_private_download": d.URL + "/files/" + args.text("file")}})
	case "files.getUploadURLExternal":
		if n, err := strconv.Atoi(args.text("length")); err != nil || n <= 0 || args.text("filename") == "" {
			refuse(w, "invalid_arguments")
			return
		}
		d.nextID++
		id := fmt.Sprint("FUP", d.nextID)
		answer(w, object{"upload_url": d.URL + "/upload/" + id, "file_id": id})
	case "files.completeUploadExternal":
		var files []slackgo.FileSummary
		if json.Unmarshal([]byte(args.text("files")), &files) != nil || args.text("channel_id") == "" {
			refuse(w, "invalid_arguments")
			return
		}
		p := &post{Post: channeltest.Post{ID: d.ts()}}
		for _, f := range files {
			data, ok := d.uploads[f.ID]
			if !ok {
				refuse(w, "file_not_found")
				return
			}
			p.Files = append(p.Files, channeltest.File{Name: f.Title, Data: data})
		}
		d.posts[args.text("channel_id")] = append(d.posts[args.text("channel_id")], p)
		answer(w, object{"files": files})
	default:
		refuse(w, "unknown_method")
	}
}

type arguments map[string]json.RawMessage

func (a arguments) text(name string) (s string) { json.Unmarshal(a[name], &s); return s }

func answer(w http.ResponseWriter, result object) {
	if result["ok"] == nil {
		result["ok"] = true
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	io.WriteString(w, encode(result))
}

func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	io.WriteString(w, encode(object{"ok": false, "error": why}))
}

func (d *double) post(w http.ResponseWriter, r *http.Request, method string, args arguments) {
	pause, bad, swallow := d.faults.Next()
	switch {
	case pause > 0:
		w.Header().Set("Retry-After", strconv.Itoa(pause))
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"ok":false,"error":"ratelimited"}`)
		return
	case bad:
		refuse(w, "channel_not_found")
		return
	}
	chat := args.text("channel")
	s, err := d.Shown(args.text("text"))
	if err != nil {
		refuse(w, err.Error())
		return
	}
	var blocks slackgo.Blocks
	if args["blocks"] != nil {
		if err := json.Unmarshal(args["blocks"], &blocks); err != nil {
			refuse(w, "invalid_blocks_format")
			return
		}
	}
	text, buttons, err := read(blocks)
	if err != nil || len(blocks.BlockSet) > 0 && text != args.text("text") {
		refuse(w, "invalid_blocks")
		return
	}
	if method == "chat.update" {
		for _, p := range d.posts[chat] {
			if p.ID != args.text("ts") {
				continue
			}
			p.Text = s.Text
			if args["blocks"] != nil {
				p.Buttons = buttons
			}
			if swallow {
				panic(http.ErrAbortHandler)
			}
			answer(w, object{"channel": chat, "ts": p.ID, "text": p.Text})
			return
		}
		refuse(w, "message_not_found")
		return
	}
	p := &post{Post: channeltest.Post{ID: d.ts(), Text: s.Text, Buttons: buttons}}
	if ts := args.text("thread_ts"); ts != "" {
		p.Thread = strings.TrimLeft(strings.TrimPrefix(ts, "1600000000."), "0")
	}
	d.posts[chat] = append(d.posts[chat], p)
	switch {
	case swallow:
		panic(http.ErrAbortHandler)
	case d.faults.Stalled():
		d.mu.Unlock()
		defer d.mu.Lock()
		select {
		case <-r.Context().Done():
		case <-d.Done:
		}
		return
	}
	answer(w, object{"channel": chat, "ts": p.ID, "message": object{"text": p.Text}})
}

// read returns what blocks show.
func read(blocks slackgo.Blocks) (text string, buttons []channel.Button, err error) {
	for _, b := range blocks.BlockSet {
		switch b := b.(type) {
		case *slackgo.SectionBlock:
			text = b.Text.Text
			if b.Text.Type != "mrkdwn" || len(utf16.Encode([]rune(text))) > 3000 {
				return "", nil, errors.New("section")
			}
		case *slackgo.ActionBlock:
			ids := map[string]bool{}
			for _, e := range b.Elements.ElementSet {
				button, ok := e.(*slackgo.ButtonBlockElement)
				if !ok || button.Text.Type != "plain_text" || len([]rune(button.Text.Text)) > 75 || len(button.Value) > 2000 || ids[button.ActionID] {
					return "", nil, errors.New("button")
				}
				ids[button.ActionID] = true
				buttons = append(buttons, channel.Button{Label: button.Text.Text, Data: button.Value})
			}
		default:
			return "", nil, fmt.Errorf("a block %T", b)
		}
	}
	return text, buttons, nil
}

// conversations returns one conversation a page.
func (d *double) conversations(w http.ResponseWriter, args arguments) {
	var ids []string
	for id := range d.history {
		if strings.HasPrefix(id, "D") == (args.text("types") == "im") && (args.text("types") == "im" || args.text("types") == "public_channel") {
			ids = append(ids, id)
		}
	}
	if args.text("types") == "mpim" {
		answer(w, object{"ok": false, "error": "missing_scope", "needed": "mpim:read", "provided": "im:read,channels:read"})
		return
	}
	list := []object{}
	for _, id := range ids {
		list = append(list, object{"id": id, "is_im": strings.HasPrefix(id, "D"), "is_channel": strings.HasPrefix(id, "C")})
	}
	answer(w, object{"channels": list, "response_metadata": object{"next_cursor": ""}})
}

// past returns messages, the newest first, in pages. A cursor is the number of messages that are left.
func (d *double) past(w http.ResponseWriter, args arguments) {
	all := d.history[args.text("channel")]
	left := len(all)
	if n, err := strconv.Atoi(args.text("cursor")); err == nil {
		left = n
	}
	list, replies, next := []json.RawMessage{}, args.text("ts"), ""
	for ; left > 0; left-- {
		var m struct {
			TS     string `json:"ts"`
			Thread string `json:"thread_ts"`
		}
		json.Unmarshal([]byte(all[left-1]), &m)
		if inThread := m.Thread != "" && m.Thread != m.TS; m.TS <= args.text("oldest") || replies == "" && inThread || replies != "" && m.Thread != replies && m.TS != replies {
			continue
		}
		if len(list) == d.page {
			next = strconv.Itoa(left)
			break
		}
		list = append(list, json.RawMessage(all[left-1]))
	}
	answer(w, object{"messages": list, "has_more": next != "", "response_metadata": object{"next_cursor": next}})
}

// socket is a connection of Socket Mode.
func (d *double) socket(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	ticket, _ := url.QueryUnescape(r.URL.Query().Get("ticket"))
	ok := d.tickets[ticket]
	d.tickets[ticket] = false
	d.mu.Unlock()
	if !ok {
		http.Error(w, "used", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	ctx := r.Context()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var ack struct {
				ID string `json:"envelope_id"`
			}
			json.Unmarshal(data, &ack)
			d.mu.Lock()
			for _, i := range d.queue[d.low:] {
				if i.id == ack.ID && ack.ID != "" {
					i.acked = true
					break
				}
			}
			for d.low < len(d.queue) && (d.queue[d.low].acked || d.queue[d.low].attempts >= 2 && d.queue[d.low].payload == "") {
				d.low++
			}
			d.mu.Unlock()
		}
	}()
	defer func() { conn.CloseNow(); <-gone }()
	write := func(frame string) bool { return conn.Write(ctx, websocket.MessageText, []byte(frame)) == nil }
	if !write(encode(object{"type": "hello", "num_connections": 1, "connection_info": object{"app_id": "A1"}, "debug_info": object{"host": "x", "approximate_connection_time": 18060}})) {
		return
	}
	sent := map[*item]bool{}
	for {
		d.mu.Lock()
		var next *item
		for _, i := range d.queue[d.low:] {
			if !sent[i] && (i.payload != "" && !i.acked || i.payload == "" && i.attempts < 2) {
				next = i
				break
			}
		}
		grown, stop := d.grown, d.stop
		d.stop = ""
		again := 0 // how often it was sent before; other sockets count too
		if next != nil {
			sent[next] = true
			again = next.attempts
			next.attempts++
		}
		d.mu.Unlock()
		switch {
		case stop != "":
			write(encode(object{"type": "disconnect", "reason": stop, "debug_info": object{"host": "x"}}))
			select {
			case <-gone:
			case <-d.Done:
			}
			return
		case next != nil && next.payload == "":
			if !write(next.frame) {
				return
			}
			continue
		case next != nil:
			frame := `{"envelope_id":"` + next.id + `","type":"` + next.kind + `","accepts_response_payload":false,"retry_attempt":` + strconv.Itoa(again) + `,"retry_reason":"timeout","payload":` + next.payload + `}`
			if !write(frame) {
				return
			}
			continue
		}
		select {
		case <-grown:
		case <-gone:
			return
		case <-d.Done:
			return
		}
	}
}
