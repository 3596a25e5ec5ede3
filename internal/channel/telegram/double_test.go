package telegram_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/telegram"
)

const token = "123456789:AAF-test_token_of_a_double_000000000"

// double behaves as https://core.telegram.org/bots/api describes (Bot API 10.1 of June 2026, read in
// github.com/PaulSonOfLars/telegram-bot-api-spec, which is made from that page). What it sends is encoded
// with the types of github.com/go-telegram/bot, so that the adapter's own idea of the fields is tested.
//
// From there: an update is confirmed by a call of getUpdates with a larger offset, and without an offset the
// earliest unconfirmed ones are returned; at most 100; a second call ends the first with 409; errors are
// {"ok":false,"error_code","description","parameters":{"retry_after"}}; a token that does not exist is
// answered with 401 or 404; texts have 1 to 4096 and captions up to 1024 characters after parsing; HTML with
// the tags below, of which code and pre contain no others; callback_data has 1 to 64 bytes; files are
// requested with getFile and have at most 20 MB; an edit that changes nothing is refused with "message is
// not modified". Lengths and offsets of entities are in units of UTF-16 (MessageEntity).
type double struct {
	*channeltest.Server
	faults channeltest.Faults

	mu        sync.Mutex
	revoked   bool
	raw       []item // all updates
	confirmed int64  // updates up to this number
	nextID    int64  // of an update
	messageID int
	chats     map[int64][]*post
	people    map[string]models.Message
	typing    map[int64]int
	files     map[string][]byte
	answers   []string // bodies that the next calls of getUpdates are answered with
	pressed   map[string]bool
	grown     chan struct{}
	polling   int
}

type item struct {
	id   int64
	body string
}

type post struct {
	channeltest.Post
	id       int
	markup   string
	caption  bool
	keyboard string
}

func newDouble(t *testing.T) *double {
	d := &double{nextID: 700000000, messageID: 10, chats: map[int64][]*post{}, people: map[string]models.Message{}, typing: map[int64]int{},
		files: map[string][]byte{}, pressed: map[string]bool{}, grown: make(chan struct{})}
	d.Server = channeltest.NewServer(t, d)
	return d
}

func (d *double) Traits() channeltest.Traits { return channeltest.Traits{} }

func (d *double) Channel() channel.Channel {
	c, err := telegram.New(channel.Options{Token: token, BaseURL: d.URL, Client: d.Client(), Log: slog.New(slog.DiscardHandler)})
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

// Redeliver answers the next call with everything, as after a confirmation that was lost.
func (d *double) Redeliver() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, u := range d.raw[max(0, len(d.raw)-100):] {
		all = append(all, u.body)
	}
	d.answers = append(d.answers, `{"ok":true,"result":[`+strings.Join(all, ",")+`]}`)
	d.wake()
}

func (d *double) wake() { close(d.grown); d.grown = make(chan struct{}) }

// deliver appends an update. Its number stands in the place of %d.
func (d *double) deliver(format string) {
	d.nextID++
	d.raw = append(d.raw, item{d.nextID, strings.Replace(format, "%d", strconv.FormatInt(d.nextID, 10), 1)})
	d.wake()
}

func (d *double) deliverUpdate(u models.Update) {
	u.ID = 1
	js, err := json.Marshal(u)
	if err != nil {
		panic(err)
	}
	d.deliver(strings.Replace(string(js), `"update_id":1`, `"update_id":%d`, 1))
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (d *double) bot() *models.User {
	return &models.User{ID: 123456789, IsBot: true, FirstName: "Steward", Username: "Steward_Bot"}
}

func (d *double) Say(m channeltest.Message) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.messageID++
	out := models.Message{ID: d.messageID, Date: int(time.Now().Unix()), From: &models.User{ID: number(m.From), FirstName: "Ada", LastName: m.From},
		Chat: models.Chat{ID: number(m.Chat), Type: models.ChatTypePrivate}}
	if m.Group {
		out.Chat.Type, out.Chat.Title = models.ChatTypeSupergroup, "Family"
	}
	if m.Thread != "" {
		out.MessageThreadID, out.IsTopicMessage = int(number(m.Thread)), true
		// In a topic every message replies to the service message that opened it.
		out.ReplyToMessage = &models.Message{ID: out.MessageThreadID, From: d.bot(), Chat: out.Chat, ForumTopicCreated: &models.ForumTopicCreated{Name: "A topic"}}
	}
	if m.ReplyTo != "" {
		out.ReplyToMessage = &models.Message{ID: int(number(m.ReplyTo)), Chat: out.Chat, From: d.bot()}
	}
	text := m.Text
	var entities []models.MessageEntity
	if m.Mention {
		text = "@steward_bot, " + text
		entities = append(entities, models.MessageEntity{Type: models.MessageEntityTypeMention, Offset: 0, Length: 12})
	}
	for i, f := range m.Files {
		id := fmt.Sprintf("file-%d-%d", d.messageID, i)
		d.files[id] = f.Data
		size := int64(len(f.Data))
		switch {
		case f.Voice:
			out.Voice = &models.Voice{FileID: id, MimeType: f.MediaType, FileSize: size}
		case strings.HasPrefix(f.MediaType, "image/"):
			d.files[id+"-small"] = f.Data[:1]
			out.Photo = []models.PhotoSize{{FileID: id + "-small", FileSize: 1}, {FileID: id, FileSize: int(size)}}
		default:
			out.Document = &models.Document{FileID: id, FileName: f.Name, MimeType: f.MediaType, FileSize: size}
		}
	}
	if len(m.Files) > 0 {
		out.Caption, out.CaptionEntities = text, entities
	} else {
		out.Text, out.Entities = text, entities
	}
	id := strconv.Itoa(out.ID)
	d.people[m.Chat+"/"+id] = out
	d.deliverUpdate(models.Update{Message: &out})
	return id
}

func (d *double) Change(chat, message, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.people[chat+"/"+message]
	m.Text, m.EditDate = text, m.Date+1
	d.deliverUpdate(models.Update{EditedMessage: &m})
}

func (d *double) Press(from, chat, message, data string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := fmt.Sprint("press", d.nextID)
	m := models.Message{ID: int(number(message)), Date: int(time.Now().Unix()), From: d.bot(), Chat: models.Chat{ID: number(chat), Type: models.ChatTypePrivate}}
	d.deliverUpdate(models.Update{CallbackQuery: &models.CallbackQuery{ID: id, From: models.User{ID: number(from), FirstName: "Ada"}, Data: data, ChatInstance: "1",
		Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: &m}}})
}

func (d *double) Posted(chat string) (list []channeltest.Post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.chats[number(chat)] {
		list = append(list, p.Post)
	}
	return list
}

func (d *double) Typing(chat string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.typing[number(chat)]
}

func (d *double) Hostile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	person := `"from":{"id":1001,"is_bot":false,"first_name":"A"},"chat":{"id":1001,"type":"private"},"date":1700000000`
	for _, body := range []string{
		`{"update_id":%d}`,
		`{"update_id":%d,"message":null}`,
		`{"update_id":%d,"message":"text"}`,
		`{"update_id":%d,"message":[]}`,
		`{"update_id":%d,"message":{"message_id":"x","text":7}}`,
		`{"update_id":%d,"message":{"message_id":1,"text":"no chat"}}`,
		`{"update_id":%d,"message":{"message_id":1,` + person + `}}`,
		`{"update_id":%d,"message":{"message_id":1,"date":-99999999999999,"chat":{"id":-5,"type":"channel"},"text":"in a channel"}}`,
		`{"update_id":%d,"message":{"message_id":1,` + person + `,"text":"` + strings.Repeat("x", 1<<20) + `"}}`,
		`{"update_id":%d,"message":{"message_id":2,` + person + `,"text":"huge","pad":"` + strings.Repeat("y", 9<<20) + `"}}`,
		`{"update_id":%d,"message":{"message_id":3,` + person + `,"text":"🙂","entities":[{"type":"mention","offset":-1,"length":99999999},{"type":"mention","offset":1,"length":1},{"type":"bot_command","offset":9223372036854775807,"length":9223372036854775807}]}}`,
		`{"update_id":%d,"message":{"message_id":4,` + person + `,"reply_to_message":` + strings.Repeat(`{"reply_to_message":`, 5000) + `null` + strings.Repeat(`}`, 5000) + `}}`,
		`{"update_id":%d,"purchased_paid_media":{"from":{"id":1}}}`,
		`{"update_id":%d,"callback_query":{"id":"1","from":{"id":1001},"data":""}}`,
		`{"update_id":%d,"callback_query":{"id":"2","from":{"id":1001},"data":"` + strings.Repeat("d", 200) + `","message":{"chat":{"id":1}}}}`,
		`{"update_id":"seven","message":{}}`,
		`{"update_id":-7,"message":{}}`,
		`7`, `null`, `"update"`,
	} {
		d.deliver(body)
	}
	d.answers = append(d.answers, ``, `{`, `[]`, `null`, `{"ok":true}`, `{"ok":true,"result":{}}`, `{"ok":true,"result":7}`, `{"ok":false}`, `<html>502 Bad Gateway</html>`,
		`{"ok":false,"error_code":500,"description":"Internal Server Error"}`, `{"ok":true,"result":[`+strings.Repeat("[", 20000))
	d.wake()
}

// parse reads HTML as "HTML style" in the documentation says.
func parse(text string) (channeltest.Shown, error) {
	var shown channeltest.Shown
	var open []string
	var all, code strings.Builder
	for text != "" {
		i := strings.IndexByte(text, '<')
		if i < 0 {
			i = len(text)
		}
		piece := html.UnescapeString(text[:i])
		all.WriteString(piece)
		if slices.Contains(open, "pre") {
			code.WriteString(piece)
		}
		if text = text[i:]; text == "" {
			break
		}
		m := tags.FindStringSubmatch(text)
		if m == nil {
			return shown, fmt.Errorf("can't parse entities: unsupported start tag at %.20q", text)
		}
		text = text[len(m[0]):]
		name := m[2]
		if m[1] == "/" {
			if len(open) == 0 || open[len(open)-1] != name {
				return shown, fmt.Errorf("can't parse entities: unexpected end tag %s", name)
			}
			open = open[:len(open)-1]
			if name == "pre" {
				shown.Code = append(shown.Code, code.String())
				code.Reset()
			}
			continue
		}
		if k := len(open) - 1; slices.Contains(open, "code") || k >= 0 && open[k] == "pre" && name != "code" || name == "blockquote" && slices.Contains(open, name) {
			return shown, fmt.Errorf("can't parse entities: %s inside of %s", name, open)
		}
		open = append(open, name)
	}
	if len(open) > 0 {
		return shown, fmt.Errorf("can't parse entities: no end tag for %s", open)
	}
	shown.Text = all.String()
	return shown, nil
}

var tags = regexp.MustCompile(`^<(/?)(b|i|s|u|a|code|pre|blockquote)(?: (?:href|class)="[^"<>]*")?>`)

func shown(text string, limit int) (channeltest.Shown, error) {
	s, err := parse(text)
	switch n := len(utf16.Encode([]rune(s.Text))); {
	case err != nil:
		return s, err
	case strings.TrimSpace(s.Text) == "" && limit == 4096:
		return s, errors.New("message text is empty")
	case n > limit:
		return s, fmt.Errorf("message is too long: %d", n)
	}
	return s, nil
}

func (d *double) Shown(text string) (channeltest.Shown, error) { return shown(text, 4096) }

// ServeHTTP is the Bot API.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	revoked := d.revoked
	d.mu.Unlock()
	if path, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+token+"/files/"); ok && !revoked {
		d.mu.Lock()
		data, ok := d.files[path]
		d.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(data)
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+token+"/")
	switch {
	case !ok:
		refuse(w, 404, "Not Found", 0)
		return
	case revoked:
		refuse(w, 401, "Unauthorized", 0)
		return
	}
	p := params{}
	var upload []byte
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if err := r.ParseMultipartForm(64 << 20); err != nil {
			refuse(w, 400, "Bad Request: "+err.Error(), 0)
			return
		}
		for k, v := range r.MultipartForm.Value {
			p[k] = json.RawMessage(v[0])
			if k == "caption" || k == "parse_mode" {
				p[k], _ = json.Marshal(v[0])
			}
		}
		for k, v := range r.MultipartForm.File {
			f, _ := v[0].Open()
			upload, _ = io.ReadAll(f)
			f.Close()
			p["field"] = json.RawMessage(`"` + k + `"`)
		}
	} else if body, _ := io.ReadAll(r.Body); string(body) != "null" && json.Unmarshal(body, &p) != nil {
		refuse(w, 400, "Bad Request: can't parse parameters", 0)
		return
	}
	switch method {
	case "getMe":
		answer(w, d.bot())
	case "getUpdates":
		d.getUpdates(w, r, p)
	case "sendMessage", "sendPhoto", "sendDocument", "sendVoice":
		d.send(w, r, method, p, upload)
	case "editMessageText":
		d.edit(w, p)
	case "sendChatAction":
		d.mu.Lock()
		defer d.mu.Unlock()
		if p.text("action") == "typing" {
			d.typing[p.number("chat_id")]++
		}
		answer(w, true)
	case "answerCallbackQuery":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pressed[p.text("callback_query_id")] = true
		answer(w, true)
	case "getFile":
		d.mu.Lock()
		defer d.mu.Unlock()
		id := p.text("file_id")
		if _, ok := d.files[id]; !ok {
			refuse(w, 400, "Bad Request: wrong file_id", 0)
			return
		}
		answer(w, models.File{FileID: id, FileUniqueID: id, FileSize: int64(len(d.files[id])), FilePath: "files/" + id})
	default:
		refuse(w, 404, "Not Found: method not found", 0)
	}
}

type params map[string]json.RawMessage

func (p params) text(name string) (s string)  { json.Unmarshal(p[name], &s); return s }
func (p params) number(name string) (n int64) { json.Unmarshal(p[name], &n); return n }

func answer(w http.ResponseWriter, result any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func refuse(w http.ResponseWriter, code int, description string, retryAfter int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	out := map[string]any{"ok": false, "error_code": code, "description": description}
	if retryAfter > 0 {
		out["parameters"] = map[string]int{"retry_after": retryAfter}
	}
	json.NewEncoder(w).Encode(out)
}

func (d *double) getUpdates(w http.ResponseWriter, r *http.Request, p params) {
	d.mu.Lock()
	d.polling++
	mine := d.polling
	d.wake()
	d.mu.Unlock()
	limit := time.After(time.Duration(p.number("timeout")) * time.Second)
	for {
		d.mu.Lock()
		if d.polling != mine {
			d.mu.Unlock()
			refuse(w, 409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running", 0)
			return
		}
		if len(d.answers) > 0 {
			body := d.answers[0]
			d.answers = d.answers[1:]
			d.mu.Unlock()
			io.WriteString(w, body)
			return
		}
		d.confirmed = max(d.confirmed, p.number("offset")-1)
		var list []string
		for _, u := range d.raw {
			if u.id > d.confirmed && len(list) < min(int(p.number("limit")), 100) {
				list = append(list, u.body)
			}
		}
		grown := d.grown
		d.mu.Unlock()
		if len(list) > 0 {
			io.WriteString(w, `{"ok":true,"result":[`+strings.Join(list, ",")+`]}`)
			return
		}
		select {
		case <-grown:
		case <-limit:
			answer(w, []int{})
			return
		case <-r.Context().Done():
			return
		case <-d.Done:
			return
		}
	}
}

// fail answers as the test has asked for, and reports whether it has. swallow says that the request is to be
// carried out and not answered.
func (d *double) fail(w http.ResponseWriter) (failed, swallow bool) {
	pause, bad, swallow := d.faults.Next()
	switch {
	case pause > 0:
		refuse(w, 429, fmt.Sprintf("Too Many Requests: retry after %d", pause), pause)
		return true, false
	case bad:
		refuse(w, 403, "Forbidden: bot was blocked by the user", 0)
		return true, false
	}
	return false, swallow
}

func (d *double) send(w http.ResponseWriter, r *http.Request, method string, p params, upload []byte) {
	failed, swallow := d.fail(w)
	if failed {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text, limit := p.text("text"), 4096
	out := &post{}
	if method != "sendMessage" {
		text, limit = p.text("caption"), 1024
		if want := strings.ToLower(strings.TrimPrefix(method, "send")); p.text("field") != want || len(upload) == 0 {
			refuse(w, 400, "Bad Request: there is no "+want+" in the request", 0)
			return
		}
		out.Files = []channeltest.File{{Data: upload, Voice: method == "sendVoice"}}
		out.caption = true
	}
	s, err := shown(text, limit)
	if p["parse_mode"] == nil { // plain text
		s, err = channeltest.Shown{Text: text}, nil
	}
	if err != nil || p["parse_mode"] != nil && p.text("parse_mode") != "HTML" {
		refuse(w, 400, fmt.Sprintf("Bad Request: %v", err), 0)
		return
	}
	d.messageID++
	out.id, out.markup = d.messageID, text
	out.ID, out.Text = strconv.Itoa(d.messageID), s.Text
	if n := p.number("message_thread_id"); n != 0 {
		out.Thread = strconv.FormatInt(n, 10)
	}
	var reply models.ReplyParameters
	if json.Unmarshal(p["reply_parameters"], &reply) == nil && reply.MessageID != 0 {
		out.ReplyTo = strconv.Itoa(reply.MessageID)
	}
	if out.Buttons, err = buttons(p); err != nil {
		refuse(w, 400, "Bad Request: "+err.Error(), 0)
		return
	}
	out.keyboard = string(p["reply_markup"])
	chat := p.number("chat_id")
	d.chats[chat] = append(d.chats[chat], out)
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
	answer(w, models.Message{ID: out.id, Text: s.Text, Chat: models.Chat{ID: chat}})
}

func buttons(p params) (list []channel.Button, err error) {
	var in models.InlineKeyboardMarkup
	json.Unmarshal(p["reply_markup"], &in)
	for _, row := range in.InlineKeyboard {
		for _, b := range row {
			if n := len(b.CallbackData); n < 1 || n > 64 || b.Text == "" {
				return nil, errors.New("BUTTON_DATA_INVALID")
			}
			list = append(list, channel.Button{Label: b.Text, Data: b.CallbackData})
		}
	}
	return list, nil
}

func (d *double) edit(w http.ResponseWriter, p params) {
	failed, swallow := d.fail(w)
	if failed {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text := p.text("text")
	s, err := shown(text, 4096)
	if err != nil {
		refuse(w, 400, "Bad Request: "+err.Error(), 0)
		return
	}
	for _, m := range d.chats[p.number("chat_id")] {
		if m.id != int(p.number("message_id")) {
			continue
		}
		if m.markup == text && m.keyboard == string(p["reply_markup"]) {
			refuse(w, 400, "Bad Request: message is not modified: specified new message content and reply markup are exactly the same", 0)
			return
		}
		m.markup, m.keyboard, m.Text = text, string(p["reply_markup"]), s.Text
		m.Buttons, _ = buttons(p)
		if swallow {
			panic(http.ErrAbortHandler)
		}
		answer(w, models.Message{ID: m.id})
		return
	}
	refuse(w, 400, "Bad Request: message to edit not found", 0)
}
