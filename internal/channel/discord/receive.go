package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/wire"
	"steward/internal/fault"
)

type user struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Name     string `json:"global_name"`
	Bot      bool   `json:"bot"`
}

type message struct {
	ID        string    `json:"id"`
	Type      int       `json:"type"`
	ChannelID string    `json:"channel_id"`
	GuildID   string    `json:"guild_id"`
	Author    user      `json:"author"`
	Content   string    `json:"content"`
	Timestamp time.Time `json:"timestamp"`
	Edited    string    `json:"edited_timestamp"`
	Flags     int       `json:"flags"`
	Mentions  []user    `json:"mentions"`
	Reference struct {
		MessageID string `json:"message_id"`
	} `json:"message_reference"`
	Referenced struct {
		Author user `json:"author"`
	} `json:"referenced_message"`
	Attachments []struct {
		URL       string `json:"url"`
		Filename  string `json:"filename"`
		MediaType string `json:"content_type"`
		Size      int64  `json:"size"`
	} `json:"attachments"`
}

// interaction is the press of a button.
type interaction struct {
	ID        string `json:"id"`
	Type      int    `json:"type"`
	Token     string `json:"token"`
	ChannelID string `json:"channel_id"`
	GuildID   string `json:"guild_id"`
	User      user   `json:"user"` // in a private chat
	Member    struct {
		User user `json:"user"`
	} `json:"member"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"`
	Data struct {
		CustomID string `json:"custom_id"`
	} `json:"data"`
}

// Types of the API that matter here.
const (
	plainMessage     = 0
	replyMessage     = 19
	componentPressed = 3
	privateChat      = 1
	deferredUpdate   = 6 // an answer to a press: the message will be edited
)

// room is what is known of a channel of the API.
type room struct {
	Type   int    `json:"type"`
	Name   string `json:"name"`
	Parent string `json:"parent_id"`
}

// thread reports that a room is a thread within another one.
func (r room) thread() bool { return r.Type >= 10 && r.Type <= 12 && r.Parent != "" }

// room returns what is known of a channel, or asks.
func (d *Discord) room(ctx context.Context, at string) (room, error) {
	d.mu.Lock()
	r, ok := d.known[at]
	d.mu.Unlock()
	if ok {
		return r, nil
	}
	err := d.get(ctx, "/channels/"+url.PathEscape(at), &r)
	if err != nil && !fault.HasCode(err, "channel_gone") {
		return r, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxChannels {
		clear(d.known)
	}
	d.known[at] = r
	return r, nil
}

// update translates an event; ok is false if it is of no interest or malformed.
func (s *session) update(ctx context.Context, f frame) (u channel.Update, ok bool, err error) {
	switch f.Type {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		var m message
		if err := json.Unmarshal(f.Data, &m); err != nil {
			s.opt.Log.Debug("a message of Discord cannot be read", "error", err)
			return u, false, nil
		}
		if f.Type == "MESSAGE_CREATE" {
			return s.message(ctx, m, channel.Message)
		}
		if m.Edited == "" { // only a preview was added
			return u, false, nil
		}
		return s.message(ctx, m, channel.Edited)
	case "INTERACTION_CREATE":
		var i interaction
		if err := json.Unmarshal(f.Data, &i); err != nil || i.Type != componentPressed || i.ID == "" || i.ChannelID == "" {
			return u, false, nil
		}
		who := i.User
		if who.ID == "" {
			who = i.Member.User
		}
		if who.ID == "" {
			return u, false, nil
		}
		u = channel.Update{ID: i.ID, Kind: channel.Press, At: time.Now(), From: sender(who), Group: i.GuildID != "", Addressed: true, Message: i.Message.ID, Button: i.Data.CustomID}
		u.Address, u.Title, err = s.address(ctx, i.ChannelID, i.GuildID)
		return u, err == nil, err
	}
	return u, false, nil
}

func sender(u user) channel.Sender {
	return channel.Sender{ID: u.ID, Name: wire.Line(cmp.Or(u.Name, u.Username)), Bot: u.Bot}
}

// address returns where a channel of the API is. Only channels of servers have threads and names.
func (s *session) address(ctx context.Context, at, guild string) (channel.Address, string, error) {
	if guild == "" {
		return channel.Address{Chat: at}, "", nil
	}
	r, err := s.room(ctx, at)
	if err != nil {
		return channel.Address{}, "", err
	}
	if r.thread() {
		return channel.Address{Chat: r.Parent, Thread: at}, wire.Line(r.Name), nil
	}
	return channel.Address{Chat: at}, wire.Line(r.Name), nil
}

// message translates a message. One that was read from a channel's history does not name its server.
func (s *session) message(ctx context.Context, m message, kind string) (u channel.Update, ok bool, err error) {
	if m.ID == "" || m.ChannelID == "" || m.Author.ID == "" || m.Author.ID == s.me.ID || m.Type != plainMessage && m.Type != replyMessage {
		return u, false, nil
	}
	u = channel.Update{ID: m.ID, Kind: kind, At: m.Timestamp, From: sender(m.Author), Message: m.ID}
	if m.Type == replyMessage {
		u.ReplyTo = m.Reference.MessageID
	}
	if kind == channel.Edited {
		u.ID += "/" + m.Edited
	}
	guild := m.GuildID
	if guild == "" {
		r, err := s.room(ctx, m.ChannelID)
		if err != nil {
			return u, false, err
		}
		if r.Type != privateChat {
			guild = "a server"
		}
	}
	u.Group = guild != ""
	if u.Address, u.Title, err = s.address(ctx, m.ChannelID, guild); err != nil {
		return u, false, err
	}
	u.Addressed = !u.Group || m.Referenced.Author.ID == s.me.ID || slices.ContainsFunc(m.Mentions, func(who user) bool { return who.ID == s.me.ID })
	u.Text = s.text(m)
	for _, a := range m.Attachments {
		media, _, _ := strings.Cut(a.MediaType, ";")
		u.Attachments = append(u.Attachments, channel.Attachment{Ref: a.URL, Name: wire.Line(a.Filename), MediaType: wire.Line(media), Size: a.Size, Voice: m.Flags&isVoiceMessage != 0})
	}
	return u, u.Text != "" || len(u.Attachments) > 0, nil
}

// text returns what was written, with names in place of the IDs of people who are mentioned, and without the
// mention of the account.
func (s *session) text(m message) string {
	pairs := []string{"<@" + s.me.ID + ">", "", "<@!" + s.me.ID + ">", ""}
	for _, who := range m.Mentions {
		if who.ID != "" && who.ID != s.me.ID {
			name := "@" + wire.Line(cmp.Or(who.Name, who.Username))
			pairs = append(pairs, "<@"+who.ID+">", name, "<@!"+who.ID+">", name)
		}
	}
	return strings.TrimSpace(strings.NewReplacer(pairs...).Replace(wire.Clean(m.Content)))
}

// answer ends the waiting of a button that was pressed. The press is in the log, so a failure harms nobody.
func (s *session) answer(ctx context.Context, f frame) {
	var i interaction
	if err := json.Unmarshal(f.Data, &i); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := "/interactions/" + url.PathEscape(i.ID) + "/" + url.PathEscape(i.Token) + "/callback"
	body, err := json.Marshal(object{"type": deferredUpdate})
	if err == nil {
		err = s.call(ctx, http.MethodPost, path, "application/json", body, nil)
	}
	if err != nil {
		s.opt.Log.Debug("Discord was not told that a button was pressed", "error", err)
	}
}
