package day

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-telegram/bot/models"
)

const botToken = "123456789:AAF-test_token_of_a_double_000000000"

// ann is the number of Ann's account at Telegram, and of the private chat with her.
const ann = 4711

// phone is Telegram as Ann's phone shows it: the Bot API of core.telegram.org/bots/api, as far as a private
// chat needs it. An update is delivered until a larger offset confirms it.
type phone struct {
	day *day

	mu      sync.Mutex
	updates []models.Update
	next    int64
	number  int // of a message
	shown   []*shown
	grown   chan struct{}
	done    chan struct{} // closed at the end of the test
}

// shown is a message that the bot has posted.
type shown struct {
	id      int
	text    string
	buttons map[string]string // label to data
}

func newPhone(d *day) *phone {
	p := &phone{day: d, next: 700000000, grown: make(chan struct{}), done: make(chan struct{})}
	d.t.Cleanup(func() { close(p.done) })
	return p
}

func (p *phone) deliver(u models.Update) {
	p.next++
	u.ID = p.next
	p.updates = append(p.updates, u)
	close(p.grown)
	p.grown = make(chan struct{})
}

// say has Ann write a message.
func (p *phone) say(text string) {
	p.day.tell("Ann, by phone", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	p.deliver(models.Update{Message: &models.Message{ID: p.number, Date: int(time.Now().Unix()), From: &models.User{ID: ann, FirstName: "Ann"},
		Chat: models.Chat{ID: ann, Type: models.ChatTypePrivate}, Text: text}})
}

// press has Ann press a button of the newest message that has one with that label.
func (p *phone) press(label string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.shown) - 1; i >= 0; i-- {
		m := p.shown[i]
		data, ok := m.buttons[label]
		if !ok {
			continue
		}
		p.day.tell("Ann, by phone", "presses *"+label+"*")
		p.deliver(models.Update{CallbackQuery: &models.CallbackQuery{ID: fmt.Sprint("press", p.next), From: models.User{ID: ann, FirstName: "Ann"}, Data: data, ChatInstance: "1",
			Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: &models.Message{ID: m.id, Date: int(time.Now().Unix()),
				Chat: models.Chat{ID: ann, Type: models.ChatTypePrivate}}}}})
		return
	}
	p.day.t.Errorf("no message has a button %q", label)
}

// texts returns what was posted so far.
func (p *phone) texts() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.shown {
		list = append(list, m.text)
	}
	return list
}

// ServeHTTP is the Bot API.
func (p *phone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+botToken+"/")
	body, err := io.ReadAll(r.Body)
	var in struct {
		Chat    int64                       `json:"chat_id"`
		Message int                         `json:"message_id"`
		Text    string                      `json:"text"`
		Offset  int64                       `json:"offset"`
		Timeout int                         `json:"timeout"`
		Markup  models.InlineKeyboardMarkup `json:"reply_markup"`
	}
	if err != nil || !ok || string(body) != "null" && json.Unmarshal(body, &in) != nil {
		refuse(w, http.StatusBadRequest, "Bad Request")
		return
	}
	switch method {
	case "getMe":
		answer(w, models.User{ID: 123456789, IsBot: true, FirstName: "Steward", Username: "Steward_Bot"})
	case "getUpdates":
		p.getUpdates(w, r, in.Offset, time.Duration(in.Timeout)*time.Second)
	case "sendMessage":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.number++
		m := &shown{id: p.number, text: plain(in.Text), buttons: buttons(in.Markup)}
		p.shown = append(p.shown, m)
		p.day.tell("Steward, to the phone", m.text+labels(in.Markup))
		answer(w, models.Message{ID: m.id, Chat: models.Chat{ID: in.Chat}})
	case "editMessageText":
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, m := range p.shown {
			if m.id == in.Message {
				m.text, m.buttons = plain(in.Text), buttons(in.Markup)
				p.day.tell("Steward, to the phone", questionChanges+m.text+labels(in.Markup))
				answer(w, models.Message{ID: m.id})
				return
			}
		}
		refuse(w, http.StatusBadRequest, "Bad Request: message to edit not found")
	case "sendChatAction", "answerCallbackQuery":
		answer(w, true)
	default:
		refuse(w, http.StatusNotFound, "Not Found: method not found")
	}
}

// getUpdates returns the updates from an offset on, and waits for one if there is none.
func (p *phone) getUpdates(w http.ResponseWriter, r *http.Request, offset int64, wait time.Duration) {
	limit := time.After(wait)
	for {
		p.mu.Lock()
		list := []models.Update{}
		for _, u := range p.updates {
			if u.ID >= offset {
				list = append(list, u)
			}
		}
		p.updates = list // what is below is confirmed
		grown := p.grown
		p.mu.Unlock()
		if len(list) > 0 {
			answer(w, list)
			return
		}
		select {
		case <-grown:
		case <-limit:
			answer(w, list)
			return
		case <-r.Context().Done():
			return
		case <-p.done:
			return
		}
	}
}

func answer(w http.ResponseWriter, result any) {
	json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result}) //nolint:errcheck,errchkjson // the caller may be gone
}

func refuse(w http.ResponseWriter, code int, description string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": code, "description": description}) //nolint:errcheck,errchkjson // the caller may be gone
}

func buttons(m models.InlineKeyboardMarkup) map[string]string {
	out := map[string]string{}
	for _, row := range m.InlineKeyboard {
		for _, b := range row {
			out[b.Text] = b.CallbackData
		}
	}
	return out
}

func labels(m models.InlineKeyboardMarkup) string {
	text := ""
	for _, row := range m.InlineKeyboard {
		for _, b := range row {
			text += " [" + b.Text + "]"
		}
	}
	return text
}

var tag = regexp.MustCompile(`</?[a-z][^>]*>`)

// plain returns a text in HTML as it is read.
func plain(text string) string { return html.UnescapeString(tag.ReplaceAllString(text, "")) }
