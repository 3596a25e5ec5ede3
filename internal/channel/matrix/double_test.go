package matrix_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/matrix"
)

// double is a home server as the Client-Server API describes it (spec.matrix.org/v1.16/client-server-api;
// syncing, pagination, sending and transaction identifiers were read in matrix-org/matrix-spec,
// data/api/client-server/{sync,message_pagination,room_send}.yaml, in November 2026):
//
//   - "Syncing": since is next_batch of an earlier answer; timeline.limited and prev_batch if there was more
//     than the filter's limit; a server may return fewer; invite_state has stripped state.
//   - GET /rooms/{roomId}/messages: dir=b reads backwards from prev_batch to the token of a sync; end is
//     absent when nothing is left.
//   - "Transaction identifiers": the scope is the device and the endpoint; a repeated one answers with the
//     same event_id.
//   - "Event replacements", "Rich replies", "Threading", "User and room mentions", m.room.message.
//   - "Rate limiting": 429, M_LIMIT_EXCEEDED, retry_after_ms, and the header Retry-After.
//   - "Content repository": POST /_matrix/media/v3/upload, GET /_matrix/client/v1/media/download with the
//     token.
//   - "Size limits": an event has at most 65,536 bytes.
type double struct {
	t      *testing.T
	server *channeltest.Server
	dir    string
	state  channel.State // nil: dir keeps it

	mu      sync.Mutex
	news    chan struct{} // closed and replaced when something happens
	revoked bool
	away    bool // rooms cannot be joined
	garbage int  // answers to sync that are no answers
	rewind  bool
	limited []time.Duration
	swallow int
	refuse  int
	clock   int64
	log     []event // of all rooms; a token is "s" and a place in it
	members map[string]map[string]string
	txns    map[string]string
	media   map[string]channeltest.File
	typing  map[string]int
}

type event struct {
	room string
	body map[string]any
}

type object = map[string]any

const (
	token = "syt_c3Rld2FyZA_secret"
	self  = "@steward:example.org"
	page  = 10 // events of a room in one answer
)

func newDouble(t *testing.T) *double {
	d := &double{t: t, dir: t.TempDir(), news: make(chan struct{}), clock: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixMilli(),
		members: map[string]map[string]string{}, txns: map[string]string{}, media: map[string]channeltest.File{}, typing: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_matrix/client/v3/account/whoami", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"user_id": self, "device_id": "D1", "is_guest": false})
	})
	mux.HandleFunc("GET /_matrix/client/v3/profile/{user}/displayname", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"displayname": "Steward"})
	})
	mux.HandleFunc("GET /_matrix/client/v3/sync", d.sync)
	mux.HandleFunc("POST /_matrix/client/v3/rooms/{room}/join", d.join)
	mux.HandleFunc("GET /_matrix/client/v3/rooms/{room}/messages", d.messages)
	mux.HandleFunc("GET /_matrix/client/v3/rooms/{room}/members", d.memberList)
	mux.HandleFunc("GET /_matrix/client/v3/rooms/{room}/event/{event}", d.event)
	mux.HandleFunc("GET /_matrix/client/v3/rooms/{room}/state/m.room.name/{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"name": "The family"})
	})
	mux.HandleFunc("PUT /_matrix/client/v3/rooms/{room}/send/m.room.message/{txn}", d.send)
	mux.HandleFunc("PUT /_matrix/client/v3/rooms/{room}/typing/{user}", func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.typing[r.PathValue("room")]++
		d.mu.Unlock()
		reply(w, 200, object{})
	})
	mux.HandleFunc("POST /_matrix/media/v3/upload", d.upload)
	mux.HandleFunc("GET /_matrix/client/v1/media/download/{server}/{media}", d.download)
	d.server = channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		revoked := d.revoked
		d.mu.Unlock()
		if revoked || r.Header.Get("Authorization") != "Bearer "+token {
			reply(w, 401, object{"errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token passed.", "soft_logout": false})
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			reply(w, 404, object{"errcode": "M_UNRECOGNIZED", "error": "Unrecognized request"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return d
}

func (d *double) Channel() channel.Channel { return d.channel(nil) }

func (d *double) channel(settings map[string]string) channel.Channel {
	c, err := matrix.New(channel.Options{Token: token, BaseURL: d.server.URL, Client: d.server.Client(), Log: slog.New(slog.DiscardHandler), Dir: d.dir, State: d.state, Settings: settings})
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

// change changes the state, and wakes who waits for news.
func (d *double) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.news)
	d.news = make(chan struct{})
}

// add appends an event; the lock is held.
func (d *double) add(room, sender, kind string, content object, key ...string) string {
	id := fmt.Sprintf("$event%d", len(d.log))
	d.clock += 1000
	body := object{"event_id": id, "sender": sender, "type": kind, "origin_server_ts": d.clock, "content": content}
	if len(key) > 0 {
		body["state_key"] = key[0]
	}
	d.log = append(d.log, event{room, body})
	return id
}

// member changes a membership; the lock is held.
func (d *double) member(room, sender, who, membership string) {
	if d.members[room] == nil {
		d.members[room] = map[string]string{}
	}
	d.members[room][who] = membership
	name, _, _ := strings.Cut(strings.TrimPrefix(who, "@"), ":")
	d.add(room, sender, "m.room.member", object{"membership": membership, "displayname": strings.ToUpper(name[:1]) + name[1:]}, who)
}

func (d *double) sync(w http.ResponseWriter, r *http.Request) {
	var filter struct {
		Room struct{ Timeline struct{ Types []string } }
	}
	if err := json.Unmarshal([]byte(r.FormValue("filter")), &filter); err != nil {
		reply(w, 400, object{"errcode": "M_NOT_JSON", "error": "the filter is not JSON"})
		return
	}
	wait, err := strconv.Atoi(r.FormValue("timeout"))
	if err != nil {
		d.t.Errorf("timeout: %v", err)
	}
	until := time.After(time.Duration(wait) * time.Millisecond)
	for {
		d.mu.Lock()
		if d.garbage > 0 {
			d.garbage--
			n := d.garbage
			d.mu.Unlock()
			d.nonsense(w, n)
			return
		}
		since := -1
		if text := r.FormValue("since"); text != "" {
			if since, err = strconv.Atoi(strings.TrimPrefix(text, "s")); err != nil || since > len(d.log) {
				d.t.Errorf("since is %q", text)
			}
		}
		if d.rewind && since > 0 {
			since, d.rewind = 0, false
		}
		answer, something := d.answer(since, filter.Room.Timeline.Types)
		revoked, news := d.revoked, d.news
		d.mu.Unlock()
		if something || since < 0 || revoked {
			reply(w, 200, answer)
			return
		}
		select {
		case <-news:
		case <-until:
			reply(w, 200, answer)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// answer is what has happened since a place in the log; the lock is held.
func (d *double) answer(since int, types []string) (answer object, something bool) {
	join, invite := object{}, object{}
	for room, members := range d.members {
		switch members[self] {
		case "invite":
			stripped := []any{}
			fresh := false
			for i, e := range d.log {
				if e.room == room && e.body["type"] == "m.room.member" {
					stripped = append(stripped, object{"type": "m.room.member", "sender": e.body["sender"], "state_key": e.body["state_key"], "content": e.body["content"]})
					fresh = fresh || i >= since && e.body["state_key"] == self
				}
			}
			if fresh {
				invite[room], something = object{"invite_state": object{"events": stripped}}, true
			}
		case "join":
			var list []any
			var at []int
			from := max(since, 0)
			for i, e := range d.log {
				if e.room == room && e.body["state_key"] == self && i >= since && e.body["content"].(object)["membership"] == "join" {
					from = 0 // of a room that is new everything is, as far as it may be seen
				}
			}
			for i, e := range d.log[from:] {
				if e.room == room && slices.Contains(types, fmt.Sprint(e.body["type"])) {
					list, at = append(list, e.body), append(at, from+i)
				}
			}
			if len(list) == 0 {
				continue
			}
			skip := max(0, len(list)-page)
			join[room] = object{"timeline": object{"events": list[skip:], "limited": skip > 0, "prev_batch": fmt.Sprint("s", at[skip])}, "state": object{"events": []any{}}}
			something = true
		}
	}
	return object{"next_batch": fmt.Sprint("s", len(d.log)), "rooms": object{"join": join, "invite": invite}}, something
}

func (d *double) messages(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, err := strconv.Atoi(strings.TrimPrefix(r.FormValue("from"), "s"))
	to := 0
	if text := r.FormValue("to"); text != "" && err == nil {
		to, err = strconv.Atoi(strings.TrimPrefix(text, "s"))
	}
	var filter struct{ Types []string }
	if err := errors.Join(err, json.Unmarshal([]byte(r.FormValue("filter")), &filter)); err != nil || r.FormValue("dir") != "b" {
		d.t.Errorf("messages: %v %v", r.Form, err)
	}
	list, at := []any{}, from
	for at > to && len(list) < page {
		at--
		if e := d.log[at]; e.room == r.PathValue("room") && slices.Contains(filter.Types, fmt.Sprint(e.body["type"])) {
			list = append(list, e.body)
		}
	}
	answer := object{"start": r.FormValue("from"), "chunk": list}
	if at > to {
		answer["end"] = fmt.Sprint("s", at)
	}
	reply(w, 200, answer)
}

func (d *double) join(w http.ResponseWriter, r *http.Request) {
	room := r.PathValue("room")
	d.mu.Lock()
	away := d.away
	d.mu.Unlock()
	if away {
		reply(w, 504, object{"errcode": "M_UNKNOWN", "error": "the other server does not answer"})
		return
	}
	d.change(func() {
		if d.members[room][self] == "invite" {
			d.member(room, self, self, "join")
		}
	})
	reply(w, 200, object{"room_id": room})
}

func (d *double) memberList(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []any{object{"type": "m.room.member", "content": 7}}
	for who, membership := range d.members[r.PathValue("room")] {
		list = append(list, object{"type": "m.room.member", "state_key": who, "sender": who, "event_id": "$m" + who, "content": object{"membership": membership, "displayname": "Name of " + who}})
	}
	reply(w, 200, object{"chunk": list})
}

func (d *double) event(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.find(r.PathValue("room"), r.PathValue("event")); e != nil {
		reply(w, 200, e)
		return
	}
	reply(w, 404, object{"errcode": "M_NOT_FOUND", "error": "Event not found."})
}

// find returns an event; the lock is held.
func (d *double) find(room, id string) object {
	for _, e := range d.log {
		if e.room == room && e.body["event_id"] == id {
			return e.body
		}
	}
	return nil
}

func (d *double) send(w http.ResponseWriter, r *http.Request) {
	var content object
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &content)
	}
	if err != nil {
		reply(w, 400, object{"errcode": "M_NOT_JSON", "error": "Content not JSON."})
		return
	}
	room := r.PathValue("room")
	scope := room + " " + r.PathValue("txn")
	d.mu.Lock()
	if len(d.limited) > 0 {
		pause := d.limited[0]
		d.limited = d.limited[1:]
		d.mu.Unlock()
		w.Header().Set("Retry-After", strconv.Itoa(int(pause.Seconds())))
		reply(w, 429, object{"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": pause.Milliseconds()})
		return
	}
	id, known := d.txns[scope]
	replaced, isEdit := related(content, "m.replace")
	canonical, err := json.Marshal(content)
	switch {
	case err != nil, len(canonical) > 65_000 && escaped(canonical) > 65_000:
		d.mu.Unlock()
		reply(w, 413, object{"errcode": "M_TOO_LARGE", "error": "event too large"})
		return
	case d.refuse > 0, isEdit && d.find(room, replaced) == nil:
		d.refuse = max(0, d.refuse-1)
		d.mu.Unlock()
		reply(w, 403, object{"errcode": "M_FORBIDDEN", "error": "User not in room"})
		return
	case !known:
		if d.members[room] == nil {
			d.member(room, "@"+room+":example.org", "@"+room+":example.org", "join")
			d.member(room, self, self, "join")
		}
		id = d.add(room, self, "m.room.message", content)
		d.txns[scope] = id
		close(d.news)
		d.news = make(chan struct{})
	}
	swallow := d.swallow > 0
	d.swallow = max(0, d.swallow-1)
	d.mu.Unlock()
	if swallow {
		panic(http.ErrAbortHandler)
	}
	reply(w, 200, object{"event_id": id})
}

// escaped is the length of JSON as canonical JSON has it: the encoder of Go escapes more.
func escaped(b []byte) int {
	n := len(b)
	for _, e := range []string{`\u003c`, `\u003e`, `\u0026`} {
		n -= 5 * strings.Count(string(b), e)
	}
	return n
}

// related returns the event to which content has a relation.
func related(content object, kind string) (string, bool) {
	rel, _ := content["m.relates_to"].(object)
	id, _ := rel["event_id"].(string)
	return id, rel["rel_type"] == kind
}

func (d *double) upload(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := fmt.Sprint("media", len(d.media))
	d.media[id] = channeltest.File{Name: r.FormValue("filename"), MediaType: r.Header.Get("Content-Type"), Data: data}
	reply(w, 200, object{"content_uri": "mxc://example.org/" + id})
}

func (d *double) download(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	f, ok := d.media[r.PathValue("media")]
	d.mu.Unlock()
	if !ok {
		reply(w, 404, object{"errcode": "M_NOT_FOUND", "error": "Not found"})
		return
	}
	w.Header().Set("Content-Type", f.MediaType)
	w.Write(f.Data) //nolint:errcheck // the test sees what is missing
}

// person is the account of somebody in the suite.
func person(name string) string { return "@" + name + ":example.org" }

// enter makes sure that somebody is in a room, to which the account is invited; the lock is held.
func (d *double) enter(from, chat string, group bool) {
	if d.members[chat] == nil {
		d.member(chat, person(from), person(from), "join")
		if group {
			d.member(chat, person("1003"), person("1003"), "join")
		}
		d.add(chat, person(from), "m.room.message", object{"msgtype": "m.text", "body": "written before the invitation"})
		d.member(chat, person(from), self, "invite")
	}
	if d.members[chat][person(from)] == "" {
		d.member(chat, person(from), person(from), "join")
	}
}

func (d *double) Say(m channeltest.Message) (id string) {
	d.change(func() {
		d.enter(m.From, m.Chat, m.Group)
		content := object{"msgtype": "m.text", "body": m.Text}
		if m.Mention {
			content["body"] = "Steward: " + m.Text
			content["m.mentions"] = object{"user_ids": []string{self}}
			content["format"], content["formatted_body"] = "org.matrix.custom.html", `<a href="https://matrix.to/#/`+self+`">Steward</a>: `+html.EscapeString(m.Text)
		}
		rel := object{}
		if m.Thread != "" {
			rel = object{"rel_type": "m.thread", "event_id": m.Thread, "is_falling_back": true, "m.in_reply_to": object{"event_id": m.Thread}}
		}
		if m.ReplyTo != "" {
			rel["m.in_reply_to"], rel["is_falling_back"] = object{"event_id": m.ReplyTo}, false
		}
		if len(rel) > 0 {
			content["m.relates_to"] = rel
		}
		for _, f := range m.Files {
			media := fmt.Sprint("media", len(d.media))
			d.media[media] = f
			kind, _, _ := strings.Cut(f.MediaType, "/")
			content["msgtype"] = cmp.Or(map[string]string{"image": "m.image", "audio": "m.audio", "video": "m.video"}[kind], "m.file")
			content["filename"], content["url"] = f.Name, "mxc://example.org/"+media
			content["info"] = object{"mimetype": f.MediaType, "size": len(f.Data)}
			if f.Voice {
				content["org.matrix.msc3245.voice"] = object{}
			}
		}
		id = d.add(m.Chat, person(m.From), "m.room.message", content)
	})
	return id
}

func (d *double) Change(chat, message, text string) {
	d.change(func() {
		sender := fmt.Sprint(d.find(chat, message)["sender"])
		content := func(body string) object {
			return object{"msgtype": "m.text", "body": "* " + body, "m.new_content": object{"msgtype": "m.text", "body": body}, "m.relates_to": object{"rel_type": "m.replace", "event_id": message}}
		}
		d.add(chat, person("1666"), "m.room.message", content("an edit of somebody else's message"))
		d.add(chat, sender, "m.room.message", content(text))
	})
}

func (d *double) Press(string, string, string, string) { d.t.Error("Matrix has no buttons") }

func (d *double) Posted(chat string) (list []channeltest.Post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.log {
		if e.room != chat || e.body["sender"] != self || e.body["type"] != "m.room.message" {
			continue
		}
		content := e.body["content"].(object)
		if id, ok := related(content, "m.replace"); ok {
			for i := range list {
				if list[i].ID == id {
					list[i].Text = d.seen(content["m.new_content"].(object))
				}
			}
			continue
		}
		p := channeltest.Post{ID: fmt.Sprint(e.body["event_id"])}
		if id, ok := related(content, "m.thread"); ok {
			p.Thread = id
		}
		if rel, ok := content["m.relates_to"].(object); ok && rel["is_falling_back"] != true {
			if reply, ok := rel["m.in_reply_to"].(object); ok {
				p.ReplyTo = fmt.Sprint(reply["event_id"])
			}
		}
		if uri, ok := content["url"].(string); ok {
			f := d.media[strings.TrimPrefix(uri, "mxc://example.org/")]
			_, f.Voice = content["org.matrix.msc3245.voice"]
			p.Files = []channeltest.File{f}
		} else {
			p.Text = d.seen(content)
		}
		list = append(list, p)
	}
	return list
}

// seen is what people see of an event.
func (d *double) seen(content object) string {
	text, _ := content["body"].(string)
	if formatted, ok := content["formatted_body"].(string); ok {
		shown, err := show(formatted)
		if err != nil {
			d.t.Error(err)
		}
		return shown.Text
	}
	return text
}

func (d *double) Typing(chat string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.typing[chat]
}

func (d *double) Shown(text string) (channeltest.Shown, error) {
	shown, err := show(text)
	content, jsonErr := json.Marshal(object{"body": shown.Text, "formatted_body": text, "format": "org.matrix.custom.html", "msgtype": "m.text"})
	if err == nil && jsonErr == nil && escaped(content) > 64_000 {
		err = fmt.Errorf("the event has %d bytes", escaped(content))
	}
	return shown, err
}

// show returns what people see of HTML. It may have the elements and attributes that the specification
// lists ("m.room.message msgtypes"); programs remove the others.
func show(text string) (s channeltest.Shown, err error) {
	allowed := map[string]string{"br": "", "strong": "", "em": "", "del": "", "code": "class", "pre": "", "blockquote": "", "a": "href"}
	var out strings.Builder
	var open []string
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if len(open) > 0 {
				return s, fmt.Errorf("%v is not closed", open)
			}
			s.Text = strings.ReplaceAll(out.String(), "\u00a0", " ")
			return s, nil
		case html.TextToken:
			t := string(z.Text())
			if strings.Contains(t, "\n") && !slices.Contains(open, "pre") {
				return s, errors.New("an end of a line outside of code is not shown")
			}
			out.WriteString(t)
			if slices.Contains(open, "pre") {
				s.Code[len(s.Code)-1] += t
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			t := z.Token()
			attribute, ok := allowed[t.Data]
			if !ok || len(t.Attr) > 1 || len(t.Attr) == 1 && t.Attr[0].Key != attribute {
				return s, fmt.Errorf("%s is not allowed", t)
			}
			switch {
			case t.Data == "br":
				out.WriteString("\n")
			case kind == html.EndTagToken:
				if len(open) == 0 || open[len(open)-1] != t.Data {
					return s, fmt.Errorf("%s is closed within %v", t.Data, open)
				}
				open = open[:len(open)-1]
			default:
				open = append(open, t.Data)
			}
			if t.Data == "pre" || t.Data == "blockquote" {
				out.WriteString("\n")
				if t.Data == "pre" && kind == html.StartTagToken {
					s.Code = append(s.Code, "")
				}
			}
		}
	}
}

func (d *double) Drop()            { d.server.Drop() }
func (d *double) Offline(off bool) { d.server.Offline(off) }

func (d *double) LimitNext(n int, pause time.Duration) {
	d.change(func() { d.limited = slices.Repeat([]time.Duration{pause}, n) })
}
func (d *double) SwallowNext(n int) { d.change(func() { d.swallow = n }) }
func (d *double) RefuseNext(n int)  { d.change(func() { d.refuse = n }) }
func (d *double) Redeliver()        { d.change(func() { d.rewind = true }) }
func (d *double) Revoke()           { d.change(func() { d.revoked = true }) }

// nonsense is an answer that is none.
func (d *double) nonsense(w http.ResponseWriter, n int) {
	switch n {
	case 0:
		w.WriteHeader(502)
		fmt.Fprint(w, "<html>Bad Gateway</html>")
	case 1:
		fmt.Fprint(w, `{"next_batch": "s1", "rooms": `)
	case 2:
		reply(w, 200, object{})
	case 3:
		reply(w, 200, []any{1, 2})
	case 4:
		panic(http.ErrAbortHandler)
	}
}

func (d *double) Hostile() {
	d.change(func() {
		d.garbage = 5
		from := person("1001")
		for _, content := range []object{
			nil, {}, {"msgtype": 7, "body": []any{}}, {"msgtype": "m.text", "body": object{}}, {"msgtype": "org.example.new", "body": "x"},
			{"msgtype": "m.text", "body": strings.Repeat("x", 60_000)}, {"msgtype": "m.image", "body": "x", "url": "https://example.org/x"},
			{"msgtype": "m.file", "body": "x", "url": 7, "info": "x"}, {"msgtype": "m.text", "body": "x", "m.relates_to": 7},
			{"msgtype": "m.text", "body": "x", "m.relates_to": object{"rel_type": "m.replace", "event_id": "$none"}},
			{"msgtype": "m.text", "body": "x", "m.relates_to": object{"m.in_reply_to": object{"event_id": "../../$none"}}, "m.mentions": []any{}},
			{"msgtype": "m.notice", "body": "a program says this"}, {"msgtype": "m.text", "body": "\x00\u202e"},
		} {
			d.add("1001", from, "m.room.message", content)
		}
		d.log = append(d.log, event{"1001", object{"type": "m.room.message", "event_id": 7, "origin_server_ts": "yesterday", "content": "text"}},
			event{"1001", object{"type": "m.room.message"}}, event{"1001", object{"type": "m.room.member", "state_key": from, "content": object{"membership": 1}}})
	})
}
