package slack

import (
	"encoding/json"
	"regexp"
	"strings"

	"steward/internal/channel"
)

// The objects of the Events API, with the fields that are used.
type (
	message struct {
		Type        string   `json:"type"`
		Subtype     string   `json:"subtype"`
		Channel     string   `json:"channel"`
		ChannelType string   `json:"channel_type"`
		User        string   `json:"user"`
		BotID       string   `json:"bot_id"`
		Username    string   `json:"username"`
		Text        string   `json:"text"`
		TS          string   `json:"ts"`
		ThreadTS    string   `json:"thread_ts"`
		ParentUser  string   `json:"parent_user_id"`
		Files       []file   `json:"files"`
		Hidden      bool     `json:"hidden"`
		Message     *message `json:"message"`          // of message_changed
		Previous    *message `json:"previous_message"` // likewise
		Edited      *struct {
			TS string `json:"ts"`
		} `json:"edited"`
		UserProfile struct {
			RealName string `json:"real_name"`
		} `json:"user_profile"`
	}
	file struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		MimeType string `json:"mimetype"`
		Size     int64  `json:"size"`
		Mode     string `json:"mode"`
		Subtype  string `json:"subtype"`
		URL      string `json:"url_private"`
		Download string `json:"url_private_download"`
	}
	interaction struct {
		Type string `json:"type"`
		User struct {
			ID       string `json:"id"`
			Username string `json:"username"`
			Name     string `json:"name"`
		} `json:"user"`
		Channel struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"channel"`
		Message struct {
			TS       string `json:"ts"`
			ThreadTS string `json:"thread_ts"`
		} `json:"message"`
		Actions []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
			TS    string `json:"action_ts"`
		} `json:"actions"`
	}
)

// maxIncoming bounds the text of an update. Slack's own bound is 40,000 characters.
const maxIncoming = 256 << 10

// convert converts an envelope. What Steward has no use for, and what cannot be read, is passed over.
func (a *adapter) convert(me *account, e envelope) (channel.Update, bool) {
	switch e.Type {
	case "events_api":
		var in struct {
			Event json.RawMessage `json:"event"`
		}
		var m message
		if json.Unmarshal(e.Payload, &in) != nil || json.Unmarshal(in.Event, &m) != nil {
			a.log.Warn("slack: an event that cannot be read is ignored", "envelope", clip(e.ID))
			return channel.Update{}, false
		}
		if m.Type != "message" && m.Type != "app_mention" {
			return channel.Update{}, false
		}
		if m.Subtype == "message_changed" {
			return m.changed(me)
		}
		return m.convert(me)
	case "interactive":
		var in interaction
		if json.Unmarshal(e.Payload, &in) != nil {
			a.log.Warn("slack: an interaction that cannot be read is ignored", "envelope", clip(e.ID))
			return channel.Update{}, false
		}
		return in.convert()
	}
	return channel.Update{}, false
}

func clip(s string) string { return s[:min(len(s), 100)] }

func (m *message) convert(me *account) (channel.Update, bool) {
	switch m.Subtype {
	case "", "file_share", "thread_broadcast", "me_message", "bot_message":
	default:
		return channel.Update{}, false
	}
	if m.Channel == "" || !validTS(m.TS) || m.Hidden || m.User == me.User || m.BotID != "" && m.BotID == me.Bot {
		return channel.Update{}, false
	}
	u := channel.Update{
		// A mention arrives as message and as app_mention; it is one update, as it is in the history.
		ID: m.Channel + ":" + m.TS, Kind: channel.Message, At: timeOf(m.TS),
		Address: channel.Address{Chat: m.Channel}, Message: m.TS,
		Group: !m.direct(),
	}
	switch {
	case m.BotID != "" || m.Subtype == "bot_message":
		u.From = channel.Sender{ID: "bot" + m.BotID, Name: m.Username, Bot: true}
	case m.User != "":
		u.From = channel.Sender{ID: m.User, Name: m.name()}
	default:
		return channel.Update{}, false
	}
	if m.ThreadTS != "" && m.ThreadTS != m.TS {
		u.Address.Thread, u.ReplyTo = m.ThreadTS, m.ThreadTS
	}
	text := m.Text
	if len(text) > maxIncoming {
		text = strings.ToValidUTF8(text[:maxIncoming], "")
	}
	var mentioned bool
	u.Text, mentioned = plain(me, text)
	u.Addressed = !u.Group || mentioned || m.ParentUser == me.User
	for _, f := range m.Files {
		if f.ID == "" || f.Mode == "external" || f.Mode == "tombstone" || f.Mode == "hidden_by_limit" {
			continue
		}
		a := channel.Attachment{Ref: f.ID, Name: f.Name, MediaType: f.MimeType, Size: max(f.Size, 0), Voice: f.Subtype == "slack_audio"}
		if a.MediaType == "" {
			a.MediaType = "application/octet-stream"
		}
		u.Attachments = append(u.Attachments, a)
	}
	return u, u.Text != "" || len(u.Attachments) > 0 || mentioned
}

// direct reports whether a message stands in a direct message. A mention does not say so (app_mention has no
// channel_type), but the ID of a conversation does.
func (m *message) direct() bool {
	return m.ChannelType == "im" || m.ChannelType == "" && strings.HasPrefix(m.Channel, "D")
}

func (m *message) name() string {
	if m.UserProfile.RealName != "" {
		return m.UserProfile.RealName
	}
	if m.Username != "" {
		return m.Username
	}
	return m.User
}

// changed converts the change of a message. Slack also tells of previews that it has added itself; then
// nobody has edited anything.
func (m *message) changed(me *account) (channel.Update, bool) {
	if m.Message == nil || m.Message.Edited == nil || !validTS(m.Message.Edited.TS) || m.Previous != nil && m.Previous.Text == m.Message.Text {
		return channel.Update{}, false
	}
	inner := *m.Message
	inner.Channel, inner.ChannelType = m.Channel, m.ChannelType
	u, ok := inner.convert(me)
	u.Kind = channel.Edited
	u.ID += ":" + inner.Edited.TS
	u.At = timeOf(inner.Edited.TS)
	return u, ok
}

func (in *interaction) convert() (channel.Update, bool) {
	if in.Type != "block_actions" || in.User.ID == "" || in.Channel.ID == "" || !validTS(in.Message.TS) || len(in.Actions) == 0 {
		return channel.Update{}, false
	}
	action := in.Actions[0]
	if action.Type != "button" || action.Value == "" || len(action.Value) > 64 || !validTS(action.TS) {
		return channel.Update{}, false
	}
	u := channel.Update{
		ID: in.Channel.ID + ":" + in.Message.TS + ":" + in.User.ID + ":" + action.TS, Kind: channel.Press, At: timeOf(action.TS),
		Address: channel.Address{Chat: in.Channel.ID}, From: channel.Sender{ID: in.User.ID, Name: in.User.Name},
		Group: !strings.HasPrefix(in.Channel.ID, "D"), Title: in.Channel.Name, Addressed: true,
		Message: in.Message.TS, Button: action.Value,
	}
	if u.From.Name == "" {
		u.From.Name = in.User.Username
	}
	if in.Message.ThreadTS != "" && in.Message.ThreadTS != in.Message.TS {
		u.Address.Thread = in.Message.ThreadTS
	}
	return u, true
}

var special = regexp.MustCompile(`<([^<>]*)>`)

// plain converts Slack's form of a text: mentions, links and escapes. It reports whether the app is
// mentioned, and removes that.
func plain(me *account, text string) (string, bool) {
	mentioned := false
	out := special.ReplaceAllStringFunc(text, func(s string) string {
		inner, label, labelled := strings.Cut(s[1:len(s)-1], "|")
		switch {
		case inner == "@"+me.User:
			mentioned = true
			return "\x00"
		case strings.HasPrefix(inner, "@"), strings.HasPrefix(inner, "#"):
			if labelled && label != "" {
				return inner[:1] + label
			}
			return inner
		case strings.HasPrefix(inner, "!"):
			if labelled && label != "" {
				return label
			}
			return "@" + inner[1:]
		case labelled && label != "" && label != inner && !strings.HasSuffix(inner, label):
			return label + " (" + inner + ")"
		}
		return strings.TrimPrefix(inner, "mailto:")
	})
	if mentioned {
		parts := strings.Split(out, "\x00")
		for i := 1; i < len(parts); i++ {
			space := " "
			if strings.TrimSpace(parts[i-1]) == "" { // "@steward, what …"
				space = " ,:"
			}
			parts[i] = strings.TrimLeft(parts[i], space)
		}
		out = strings.TrimSpace(strings.Join(parts, ""))
	}
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(out), mentioned
}
