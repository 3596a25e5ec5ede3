// Package telegram is the channel of a Telegram bot, over the Bot API.
//
// # Receiving
//
// Telegram keeps updates for a day, until they are confirmed. getUpdates confirms: a call with the offset N
// confirms all updates below N, and returns those from N on. Run therefore asks with the offset behind an
// update only after receive has accepted it. After an answer without updates everything is confirmed, and
// Run asks without an offset again: when a bot has been silent for a week, Telegram may count on from a
// smaller number, and an old offset would then confirm what nobody has seen.
//
// Only one program may receive for a bot. A second one is told by a conflict.
//
// # Sending
//
// The Bot API knows no key by which it would recognize a message that is sent twice, so a request without
// an answer is uncertain. One message of Steward is one request, if it has at most one file and a text that
// fits into a caption; otherwise the text is posted first and the files follow.
//
// # Who
//
// A person is the number of its account. In a group somebody may write in the name of the group (an
// anonymous administrator) or of a channel; all who do share one account of Telegram's, so they are known by
// the name that they write in, and as a bot: nobody who is paired.
package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/rest"
	"steward/internal/fault"
)

const (
	service = "Telegram"
	public  = "https://api.telegram.org"

	pollFor     = 50 * time.Second // how long Telegram holds a call of getUpdates
	pollLimit   = pollFor + 20*time.Second
	callLimit   = 30 * time.Second
	uploadLimit = 5 * time.Minute

	maxAnswer  = 1 << 20
	maxUpdates = 8 << 20  // an answer of getUpdates
	maxFile    = 20 << 20 // what a bot may download
)

type adapter struct {
	base, token string
	client      *http.Client
	log         *slog.Logger

	me     atomic.Pointer[user]
	offset int64 // of the next call of getUpdates; used by Run alone
	batch  int   // how many updates Run asks for; used by Run alone
}

var tokenForm = regexp.MustCompile(`^[0-9]{1,20}:[A-Za-z0-9_-]{10,100}$`)

// New returns the channel of a bot. Its token is the one that BotFather has given.
func New(o channel.Options) (channel.Channel, error) {
	if !tokenForm.MatchString(o.Token) {
		return nil, fault.New(fault.Invalid, "channel_token_form", "that is not the token of a Telegram bot").
			WithHint("a token looks like 123456789:AAF…; @BotFather in Telegram gives one when you send it /newbot")
	}
	base, err := rest.Base(o, public)
	if err != nil {
		return nil, err
	}
	if err := rest.Known(o); err != nil {
		return nil, err
	}
	return &adapter{base: base, token: o.Token, client: o.Client, log: o.Log, batch: 100}, nil
}

func (a *adapter) Limits() channel.Limits {
	return channel.Limits{
		Text:      maxText,
		SendEvery: time.Second, // the Bot FAQ: not more than one message a second in one chat
		EditEvery: 1500 * time.Millisecond,
		Buttons:   8, Attachment: maxFile,
	}
}

func (a *adapter) Check(ctx context.Context) (string, error) {
	me, err := a.getMe(ctx)
	if err != nil {
		return "", err
	}
	return "@" + me.Username, nil
}

func (a *adapter) getMe(ctx context.Context) (*user, error) {
	var me user
	if err := a.call(ctx, "getMe", nil, &me); err != nil {
		return nil, err
	}
	if me.ID == 0 || me.Username == "" {
		return nil, fault.New(fault.Unavailable, "channel_answer", "%s does not say who the bot is", service)
	}
	a.me.Store(&me)
	return &me, nil
}

// failure is an error that the Bot API has answered with.
type failure struct {
	Code        int    `json:"error_code"`
	Description string `json:"description"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"`
	} `json:"parameters"`
}

func (f *failure) Error() string { return f.Description }

// refusal is a coded error with the description that it was made from.
type refusal struct {
	error
	description string
}

func (r *refusal) Unwrap() error { return r.error }

// says reports whether Telegram's description of an error contains a text.
func says(err error, text string) bool {
	var r *refusal
	return errors.As(err, &r) && strings.Contains(strings.ToLower(r.description), text)
}

// call calls a method of the Bot API with a JSON object of parameters.
func (a *adapter) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return a.post(ctx, method, "application/json", body, result)
}

// post calls a method with a body. Its errors are those of package channel.
func (a *adapter) post(ctx context.Context, method, contentType string, body []byte, result any) error {
	answer, err := a.request(ctx, method, contentType, body, maxAnswer)
	if err != nil {
		return err
	}
	return decode(answer, result)
}

func (a *adapter) request(ctx context.Context, method, contentType string, body []byte, limit int64) (rest.Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/bot"+a.token+"/"+method, bytes.NewReader(body))
	if err != nil {
		return rest.Answer{}, errors.New("the address of the Bot API is invalid") // the error would show the token
	}
	r.Header.Set("Content-Type", contentType)
	return rest.Do(a.client, service, r, limit)
}

func decode(answer rest.Answer, result any) error {
	var in struct {
		OK     bool            `json:"ok"`
		Result json.RawMessage `json:"result"`
		failure
	}
	if err := json.Unmarshal(answer.Body, &in); err != nil || answer.Cut || !in.OK && in.Code == 0 {
		switch answer.Status { // of a proxy before the service, or one that is gone
		case http.StatusTooManyRequests:
			return channel.Limited(service, rest.RetryAfter(answer.Header, time.Minute))
		case http.StatusRequestEntityTooLarge:
			return channel.Rejected(service, "it is too large")
		}
		return channel.Uncertain(service, fault.New(fault.Unavailable, "channel_answer", "the answer with status %d is not one of the Bot API", answer.Status))
	}
	if !in.OK {
		return in.failure.class()
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(in.Result, result); err != nil {
		return channel.Uncertain(service, fault.New(fault.Unavailable, "channel_answer", "the answer cannot be read"))
	}
	return nil
}

// class converts an error of the Bot API.
func (f *failure) class() error {
	why := f.Description
	if len(why) > 300 {
		why = strings.ToValidUTF8(why[:300], "") + "…"
	}
	switch {
	case f.Code == 429:
		return channel.Limited(service, rest.Pause(f.Parameters.RetryAfter))
	case f.Code == 401, f.Code == 404: // a token that does not exist is a path that does not exist
		return channel.Unauthorized(service, why)
	case f.Code == 409:
		return fault.New(fault.Conflict, "channel_conflict", "another program receives the messages of this bot: %s", why).
			WithHint("stop the other program, or delete its webhook, or create a bot for Steward alone")
	case f.Code >= 500:
		return channel.Uncertain(service, f)
	}
	return &refusal{channel.Rejected(service, why), f.Description}
}

func (a *adapter) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	me, err := a.getMe(ctx)
	if err != nil {
		return err
	}
	connected()
	var answering sync.WaitGroup
	defer answering.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		list, err := a.poll(ctx)
		if err != nil {
			return err
		}
		var updates []channel.Update
		var pressed []string
		next := int64(0)
		for _, raw := range list {
			id, ok := updateID(raw)
			if !ok {
				a.log.Warn("telegram: an update without a number is ignored")
				continue
			}
			next = max(next, id+1)
			u, press, ok := a.convert(me, id, raw)
			if !ok {
				continue
			}
			updates = append(updates, u)
			if press != "" {
				pressed = append(pressed, press)
			}
		}
		if len(updates) > 0 {
			if err := receive(ctx, updates); err != nil {
				return err
			}
		}
		a.offset = next // zero after an empty answer: see the head of the package
		if len(pressed) > 0 {
			answering.Go(func() { a.answer(ctx, pressed) })
		}
	}
}

// poll returns the next updates.
func (a *adapter) poll(ctx context.Context) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"offset": a.offset, "limit": a.batch, "timeout": int(pollFor / time.Second),
		"allowed_updates": []string{"message", "edited_message", "callback_query"},
	})
	if err != nil {
		return nil, err
	}
	answer, err := a.request(ctx, "getUpdates", "application/json", body, maxUpdates)
	if err != nil {
		return nil, err
	}
	if answer.Cut {
		return a.tooLarge(answer.Body)
	}
	var list []json.RawMessage
	if err := decode(answer, &list); err != nil {
		return nil, err
	}
	a.batch = min(2*a.batch, 100)
	return list, nil
}

var firstID = regexp.MustCompile(`"update_id"\s*:\s*([0-9]{1,18})`)

// tooLarge handles an answer that is longer than any that Telegram would give. Updates are then asked for
// one by one, and one that is too large by itself is passed over, so that it does not stop all others.
func (a *adapter) tooLarge(body []byte) ([]json.RawMessage, error) {
	if a.batch > 1 {
		a.batch = 1
		return nil, nil
	}
	m := firstID.FindSubmatch(body)
	if m == nil {
		return nil, fault.New(fault.Unavailable, "channel_answer", "%s has sent an update that is too large", service)
	}
	a.log.Warn("telegram: an update that is too large is ignored", "update", string(m[1]))
	return []json.RawMessage{[]byte(`{"update_id":` + string(m[1]) + `}`)}, nil
}

// answer tells Telegram that presses have arrived, which ends the waiting sign at the buttons. It does not
// matter if that fails.
func (a *adapter) answer(ctx context.Context, pressed []string) {
	for _, id := range pressed {
		if err := a.call(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": id}, nil); err != nil {
			a.log.Debug("telegram: a press is not answered", "error", err)
		}
	}
}

func (a *adapter) Typing(ctx context.Context, at channel.Address) error {
	p, err := place(at)
	if err != nil {
		return err
	}
	p["action"] = "typing"
	return a.call(ctx, "sendChatAction", p, nil)
}

// place returns the parameters that name a chat and a topic in it.
func place(at channel.Address) (map[string]any, error) {
	chat, err := strconv.ParseInt(at.Chat, 10, 64)
	if err != nil {
		return nil, channel.Rejected(service, "there is no chat "+at.Chat)
	}
	p := map[string]any{"chat_id": chat}
	if at.Thread != "" {
		n, err := strconv.ParseInt(at.Thread, 10, 64)
		if err != nil {
			return nil, channel.Rejected(service, "there is no topic "+at.Thread)
		}
		p["message_thread_id"] = n
	}
	return p, nil
}

func (a *adapter) Fetch(ctx context.Context, at channel.Attachment) (io.ReadCloser, error) {
	var file struct {
		Path string `json:"file_path"`
		Size int64  `json:"file_size"`
	}
	if err := a.call(ctx, "getFile", map[string]any{"file_id": at.Ref}, &file); err != nil {
		return nil, err
	}
	if file.Path == "" || path.Clean("/"+file.Path) != "/"+file.Path {
		return nil, fault.New(fault.Unavailable, "channel_answer", "%s does not say where the attachment is", service)
	}
	u, err := url.Parse(a.base)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("file", "bot"+a.token, file.Path)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("the address of the attachment is invalid") // the error would show the token
	}
	return rest.Open(a.client, service, r, maxFile)
}
