package telegram

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"steward/internal/channel"
)

// The objects of the Bot API, with the fields that are used.
type (
	update struct {
		Message  *message  `json:"message"`
		Edited   *message  `json:"edited_message"`
		Callback *callback `json:"callback_query"`
	}
	user struct {
		ID        int64  `json:"id"`
		IsBot     bool   `json:"is_bot"`
		FirstName string `json:"first_name"`
		LastName  string `json:"last_name"`
		Username  string `json:"username"`
	}
	chat struct {
		ID    int64  `json:"id"`
		Type  string `json:"type"`
		Title string `json:"title"`
	}
	// origin is who wrote a message that was forwarded (https://core.telegram.org/bots/api#messageorigin).
	origin struct {
		User *user  `json:"sender_user"`
		Name string `json:"sender_user_name"` // of a user who hides
		From *chat  `json:"sender_chat"`
		Chat *chat  `json:"chat"` // a channel
	}
	message struct {
		ID       int64    `json:"message_id"`
		Thread   int64    `json:"message_thread_id"`
		IsTopic  bool     `json:"is_topic_message"`
		From     *user    `json:"from"`
		Sender   *chat    `json:"sender_chat"`
		Date     int64    `json:"date"`
		EditDate int64    `json:"edit_date"`
		Chat     chat     `json:"chat"`
		ReplyTo  *message `json:"reply_to_message"`
		Origin   *origin  `json:"forward_origin"`

		Text            string   `json:"text"`
		Entities        []entity `json:"entities"`
		Caption         string   `json:"caption"`
		CaptionEntities []entity `json:"caption_entities"`

		Photo     []file `json:"photo"`
		Document  *file  `json:"document"`
		Voice     *file  `json:"voice"`
		Audio     *file  `json:"audio"`
		Video     *file  `json:"video"`
		VideoNote *file  `json:"video_note"`
		Animation *file  `json:"animation"`
		Sticker   *file  `json:"sticker"`
		Location  *struct {
			Latitude  float64 `json:"latitude"`
			Longitude float64 `json:"longitude"`
		} `json:"location"`
		Contact *struct {
			Phone string `json:"phone_number"`
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		} `json:"contact"`
	}
	entity struct {
		Type   string `json:"type"`
		Offset int    `json:"offset"` // in units of UTF-16, as is Length
		Length int    `json:"length"`
		User   *user  `json:"user"`
	}
	file struct {
		ID       string `json:"file_id"`
		Name     string `json:"file_name"`
		MimeType string `json:"mime_type"`
		Size     int64  `json:"file_size"`
		Animated bool   `json:"is_animated"`
	}
	callback struct {
		ID      string   `json:"id"`
		From    *user    `json:"from"`
		Message *message `json:"message"`
		Data    string   `json:"data"`
	}
)

// updateID returns the number of an update, of which nothing else need be readable.
func updateID(raw json.RawMessage) (int64, bool) {
	var in struct {
		ID *int64 `json:"update_id"`
	}
	if json.Unmarshal(raw, &in) != nil || in.ID == nil || *in.ID <= 0 || *in.ID >= 1<<62 {
		return 0, false
	}
	return *in.ID, true
}

// maxIncoming bounds the text of an update. Telegram's own bound is 4096 characters.
const maxIncoming = 64 << 10

// convert converts an update. What Steward has no use for, and what cannot be read, is passed over. press is
// the ID of a press that is to be answered.
func (a *adapter) convert(me *user, id int64, raw json.RawMessage) (u channel.Update, press string, ok bool) {
	var in update
	if err := json.Unmarshal(raw, &in); err != nil {
		a.log.Warn("telegram: an update that cannot be read is ignored", "update", id)
		return channel.Update{}, "", false
	}
	switch {
	case in.Message != nil:
		u, ok = in.Message.convert(me)
		u.Kind = channel.Message
	case in.Edited != nil:
		u, ok = in.Edited.convert(me)
		u.Kind = channel.Edited
	case in.Callback != nil:
		u, ok = in.Callback.convert()
		press = in.Callback.ID
	}
	if !ok {
		return channel.Update{}, "", false
	}
	// Numbers may begin anew after a week of silence, so the number alone is not unique for ever.
	u.ID = fmt.Sprintf("%d-%d", id, u.At.Unix())
	if press != "" {
		u.ID = fmt.Sprintf("%d-%s", id, press)
	}
	return u, press, true
}

func (m *message) convert(me *user) (channel.Update, bool) {
	u := channel.Update{At: time.Unix(m.Date, 0).UTC(), Address: m.address(), Message: strconv.FormatInt(m.ID, 10), Title: m.Chat.Title}
	if m.EditDate > 0 {
		u.At = time.Unix(m.EditDate, 0).UTC()
	}
	switch m.Chat.Type {
	case "private":
		u.Addressed = true
	case "group", "supergroup":
		u.Group = true
	default:
		return u, false
	}
	switch {
	case m.Sender != nil:
		u.From = channel.Sender{ID: "chat" + strconv.FormatInt(m.Sender.ID, 10), Name: m.Sender.Title, Bot: true}
	case m.From != nil && m.From.ID != 0:
		u.From = m.From.sender()
	default:
		return u, false
	}
	if m.From != nil && m.From.ID == me.ID || m.Chat.ID == 0 || m.ID == 0 {
		return u, false
	}
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEntities
	}
	if len(text) > maxIncoming {
		text, entities = strings.ToValidUTF8(text[:maxIncoming], ""), nil
	}
	var mentioned bool
	u.Text, mentioned = withoutMention(me, text, entities)
	// In a topic, every message replies to the one that has opened it.
	if r := m.ReplyTo; r != nil && !(m.IsTopic && r.ID == m.Thread) {
		u.ReplyTo = strconv.FormatInt(r.ID, 10)
		mentioned = mentioned || r.From != nil && r.From.ID == me.ID
	}
	u.Addressed = u.Addressed || mentioned
	if o := m.Origin; o != nil && (o.User == nil || m.From == nil || o.User.ID != m.From.ID) {
		u.Forwarded = o.name()
	}
	u.Attachments = m.attachments()
	switch {
	case m.Location != nil:
		u.Text = strings.TrimSpace(fmt.Sprintf("%s\nLocation: %g, %g", u.Text, m.Location.Latitude, m.Location.Longitude))
	case m.Contact != nil:
		u.Text = strings.TrimSpace(fmt.Sprintf("%s\nContact: %s %s, %s", u.Text, m.Contact.First, m.Contact.Last, m.Contact.Phone))
	}
	return u, u.Text != "" || len(u.Attachments) > 0 || mentioned
}

func (o *origin) name() string {
	switch {
	case o.User != nil && o.User.sender().Name != "":
		return o.User.sender().Name
	case o.Name != "":
		return o.Name
	case o.From != nil && o.From.Title != "":
		return o.From.Title
	case o.Chat != nil && o.Chat.Title != "":
		return o.Chat.Title
	}
	return "somebody"
}

func (m *message) address() channel.Address {
	at := channel.Address{Chat: strconv.FormatInt(m.Chat.ID, 10)}
	if m.IsTopic && m.Thread != 0 { // other groups have threads of replies, in which a bot cannot write
		at.Thread = strconv.FormatInt(m.Thread, 10)
	}
	return at
}

func (u *user) sender() channel.Sender {
	name := strings.TrimSpace(u.FirstName + " " + u.LastName)
	if name == "" {
		name = u.Username
	}
	return channel.Sender{ID: strconv.FormatInt(u.ID, 10), Name: name, Bot: u.IsBot}
}

func (m *message) attachments() (list []channel.Attachment) {
	add := func(f *file, name, mediaType string, voice bool) {
		if f == nil || f.ID == "" {
			return
		}
		a := channel.Attachment{Ref: f.ID, Name: f.Name, MediaType: f.MimeType, Size: max(f.Size, 0), Voice: voice}
		if a.Name == "" {
			a.Name = name
		}
		if a.MediaType == "" {
			a.MediaType = mediaType
		}
		list = append(list, a)
	}
	if n := len(m.Photo); n > 0 { // the same picture in several sizes, the largest last
		add(&m.Photo[n-1], "photo.jpg", "image/jpeg", false)
	}
	if m.Animation == nil { // Telegram sets document too
		add(m.Document, "file", "application/octet-stream", false)
	}
	add(m.Voice, "voice.ogg", "audio/ogg", true)
	add(m.Audio, "audio.mp3", "audio/mpeg", false)
	add(m.Video, "video.mp4", "video/mp4", false)
	add(m.VideoNote, "video.mp4", "video/mp4", false)
	add(m.Animation, "animation.mp4", "video/mp4", false)
	if m.Sticker != nil && !m.Sticker.Animated {
		add(m.Sticker, "sticker.webp", "image/webp", false)
	}
	return list
}

func (c *callback) convert() (channel.Update, bool) {
	if c.From == nil || c.From.ID == 0 || c.Message == nil || c.Message.Chat.ID == 0 || c.ID == "" || c.Data == "" || len(c.Data) > 64 {
		return channel.Update{}, false
	}
	return channel.Update{
		Kind: channel.Press, Address: c.Message.address(), From: c.From.sender(), Addressed: true,
		Group: c.Message.Chat.Type != "private", Title: c.Message.Chat.Title,
		Message: strconv.FormatInt(c.Message.ID, 10), Button: c.Data,
	}, true
}

// withoutMention removes mentions of the bot from a text and reports whether there were any. Of a command,
// which may name the bot too ("/stop@steward_bot"), the command is left.
func withoutMention(me *user, text string, entities []entity) (string, bool) {
	units := utf16.Encode([]rune(text))
	name := "@" + me.Username
	found := false
	for i := len(entities) - 1; i >= 0; i-- {
		e := entities[i]
		if e.Offset < 0 || e.Length <= 0 || e.Offset > len(units) || e.Length > len(units)-e.Offset {
			continue
		}
		from, to := e.Offset, e.Offset+e.Length
		part := string(utf16.Decode(units[from:to]))
		switch {
		case e.Type == "mention" && strings.EqualFold(part, name), e.Type == "text_mention" && e.User != nil && e.User.ID == me.ID:
		case e.Type == "bot_command" && len(part) > len(name) && strings.EqualFold(part[len(part)-len(name):], name):
			from = to - len(name) // a user name is ASCII
		default:
			continue
		}
		found = true
		rest := units[to:]
		for len(rest) > 0 && (from == 0 && (rest[0] == ',' || rest[0] == ':') || rest[0] == ' ' && (from == 0 || units[from-1] == ' ')) {
			rest = rest[1:] // "@steward_bot, what …", "hello @steward_bot what …"
		}
		units = append(units[:from:from], rest...)
	}
	if !found {
		return text, false
	}
	return strings.TrimSpace(string(utf16.Decode(units))), true
}
