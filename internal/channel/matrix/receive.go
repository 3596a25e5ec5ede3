package matrix

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"steward/internal/channel"
	"steward/internal/channel/wire"
	"steward/internal/fault"
)

const (
	maxState   = 1 << 20
	maxMissed  = 5000 // events of a room that are read from its history after a gap
	maxInvites = 100  // that are kept
	maxTries   = 10   // to follow an invitation
)

// state is what Options.Dir keeps.
type state struct {
	Account id.UserID         `json:"account"`
	Since   string            `json:"since"`             // the token of the last sync that was received
	Invites map[id.RoomID]int `json:"invites,omitempty"` // to be followed, with the number of failures
	Told    []id.RoomID       `json:"told,omitempty"`    // encrypted rooms where Steward has said that it cannot read
}

// session is the state of a connection.
type session struct {
	state
	me   id.UserID
	name string // the account's display name
}

// filter is what sync asks for: messages, and the state that decides how they are understood.
func filter() string {
	none := map[string]any{"types": []string{}}
	types := []event.Type{event.EventMessage, event.EventEncrypted, event.StateMember, event.StateRoomName, event.StateEncryption}
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, t.Type)
	}
	b, err := json.Marshal(map[string]any{"presence": none, "account_data": none, "room": map[string]any{
		"account_data": none, "ephemeral": none,
		"state":    map[string]any{"lazy_load_members": true, "types": names},
		"timeline": map[string]any{"limit": 100, "types": names},
	}})
	if err != nil {
		panic(err) // the value is constant
	}
	return string(b)
}

// Run implements channel.Channel.
func (m *Matrix) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	me, err := m.whoami(ctx)
	if err != nil {
		return err
	}
	s := &session{me: me, name: m.displayName(ctx, me)}
	if err := m.load(s); err != nil {
		return err
	}
	m.forgetRooms()
	if s.Since == "" { // begin here, without the past
		first, err := m.sync(ctx, "", 0)
		if err != nil {
			return failed(err)
		}
		if err := m.advance(ctx, s, first); err != nil {
			return err
		}
	} else if err := m.follow(ctx, s); err != nil {
		return err
	}
	connected()
	for {
		news, err := m.sync(ctx, s.Since, syncWait)
		if a, ok := answerOf(err); ok && a.status == http.StatusBadRequest {
			m.log().Warn("the home server does not know the place any more at which Steward stopped reading: messages may have been missed", "answer", a.why)
			s.Since = ""
			if news, err = m.sync(ctx, "", 0); err == nil {
				news.Rooms.Join = nil
			}
		}
		if err != nil {
			return failed(err)
		}
		updates, err := m.updates(ctx, s, news)
		if err != nil {
			return err
		}
		if len(updates) > 0 {
			if err := receive(ctx, updates); err != nil {
				return err
			}
		}
		if err := m.advance(ctx, s, news); err != nil {
			return err
		}
	}
}

// displayName returns the account's own name, by which people mention it; empty if it has none.
func (m *Matrix) displayName(ctx context.Context, me id.UserID) string {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	profile, err := m.client.GetDisplayName(ctx, me)
	if err != nil {
		return ""
	}
	return profile.DisplayName
}

// news is an answer of sync.
type news struct {
	NextBatch string `json:"next_batch"`
	Rooms     struct {
		Join map[id.RoomID]struct {
			Timeline struct {
				Events    events `json:"events"`
				Limited   bool   `json:"limited"`
				PrevBatch string `json:"prev_batch"`
			} `json:"timeline"`
		} `json:"join"`
		Invite map[id.RoomID]struct {
			State struct {
				Events events `json:"events"`
			} `json:"invite_state"`
		} `json:"invite"`
	} `json:"rooms"`
}

// events are read one by one: a malformed event must not stop those beside it for ever.
type events []*event.Event

// UnmarshalJSON implements json.Unmarshaler.
func (list *events) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	for _, one := range raw {
		var ev event.Event
		if json.Unmarshal(one, &ev) == nil {
			*list = append(*list, &ev)
		}
	}
	return nil
}

func (m *Matrix) sync(ctx context.Context, since string, wait time.Duration) (n *news, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+timeout)
	defer cancel()
	err = m.get(ctx, &n, mautrix.ClientURLPath{"v3", "sync"}, map[string]string{"timeout": strconv.FormatInt(wait.Milliseconds(), 10), "since": since, "filter": filter()})
	if err == nil && n.NextBatch == "" {
		err = errors.New("the answer to sync has no token")
	}
	return n, err
}

// get reads JSON into out.
func (m *Matrix) get(ctx context.Context, out any, path mautrix.ClientURLPath, query map[string]string) error {
	maps.DeleteFunc(query, func(_, value string) bool { return value == "" })
	_, err := m.client.MakeRequest(ctx, http.MethodGet, m.client.BuildURLWithQuery(path, query), nil, out)
	return err
}

// advance records that everything up to a sync has been received, and what it invites to.
func (m *Matrix) advance(ctx context.Context, s *session, news *news) error {
	changed := s.Since != news.NextBatch
	s.Since = news.NextBatch
	for room, invited := range news.Rooms.Invite {
		if s.Invites == nil {
			s.Invites = map[id.RoomID]int{}
		}
		if len(s.Invites) < maxInvites && m.welcome(s.me, invited.State.Events) {
			s.Invites[room], changed = 0, true
		}
	}
	if changed {
		if err := m.save(s); err != nil {
			return err
		}
	}
	return m.follow(ctx, s)
}

// follow joins the rooms that the account is invited to. A failure is tried again after the next sync.
func (m *Matrix) follow(ctx context.Context, s *session) error {
	if len(s.Invites) == 0 {
		return nil
	}
	for _, room := range slices.Sorted(maps.Keys(s.Invites)) {
		err := m.join(ctx, room)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.Invites[room]++; err == nil || gone(err) || s.Invites[room] >= maxTries {
			delete(s.Invites, room)
		}
		if err != nil {
			m.log().Warn("Steward cannot join a room that it was invited to", "room", room, "error", err)
		}
	}
	return m.save(s)
}

// welcome reports whether an invitation is followed.
func (m *Matrix) welcome(me id.UserID, events events) bool {
	if !m.home {
		return true
	}
	for _, ev := range events {
		if ev.Type.Type == event.StateMember.Type && ev.GetStateKey() == me.String() {
			return ev.Sender.Homeserver() == me.Homeserver()
		}
	}
	return false
}

func (m *Matrix) join(ctx context.Context, room id.RoomID) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := m.client.JoinRoomByID(ctx, room)
	return err
}

// updates returns what a sync has to hand over, room by room in the order of each.
func (m *Matrix) updates(ctx context.Context, s *session, news *news) (out []channel.Update, err error) {
	for _, at := range slices.Sorted(maps.Keys(news.Rooms.Join)) {
		joined := news.Rooms.Join[at]
		events := []*event.Event(joined.Timeline.Events)
		own := ownJoin(events, s.me)
		if joined.Timeline.Limited && s.Since != "" && (own < 0 || invitation(events[:own], s.me) < 0) {
			missed, err := m.missed(ctx, s, at, joined.Timeline.PrevBatch, own >= 0)
			if err != nil {
				return nil, err
			}
			events = append(missed, events...)
			own = ownJoin(events, s.me)
			m.forget(at)
		}
		if own >= 0 { // what was written before the invitation is not for Steward
			events = events[invitation(events[:own], s.me)+1:]
		}
		if slices.ContainsFunc(events, func(ev *event.Event) bool { return ev.StateKey != nil }) {
			m.forget(at)
		}
		for _, ev := range events {
			u, ok, err := m.update(ctx, s, at, ev)
			if err != nil {
				return nil, err
			}
			if ok {
				out = append(out, u)
			}
		}
	}
	return out, nil
}

// ownJoin returns the place of the event by which the account has joined last, or -1. A change of its name
// or picture is an event of the same kind.
func ownJoin(list []*event.Event, me id.UserID) int {
	for i, ev := range slices.Backward(list) {
		if membership(ev, me) == event.MembershipJoin && (ev.Unsigned.PrevContent == nil || ev.Unsigned.PrevContent.Raw["membership"] != "join") {
			return i
		}
	}
	return -1
}

// invitation returns the place of the account's last invitation, or -1.
func invitation(list []*event.Event, me id.UserID) int {
	for i, ev := range slices.Backward(list) {
		if membership(ev, me) == event.MembershipInvite {
			return i
		}
	}
	return -1
}

// membership returns what an event says about somebody's membership; empty: nothing.
func membership(ev *event.Event, who id.UserID) event.Membership {
	if ev.Type.Type != event.StateMember.Type || ev.StateKey == nil || *ev.StateKey != who.String() {
		return ""
	}
	text, _ := ev.Content.Raw["membership"].(string)
	return event.Membership(text)
}

// missed reads a room's history backwards from a token to the last sync, and returns it in order. If the
// account has joined the room since then, which joined says or the history shows, it reads on to the
// invitation, after which people may have written to it.
func (m *Matrix) missed(ctx context.Context, s *session, at id.RoomID, from string, joined bool) (list []*event.Event, err error) {
	for range maxMissed { // pages, most of which may be empty
		if from == "" || len(list) >= maxMissed {
			break
		}
		query := map[string]string{"dir": "b", "from": from, "limit": "100", "filter": `{"types":["m.room.message","m.room.encrypted","m.room.member"]}`}
		if !joined {
			query["to"] = s.Since
		}
		var page struct {
			Chunk events `json:"chunk"`
			End   string `json:"end"`
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		err := m.get(ctx, &page, mautrix.ClientURLPath{"v3", "rooms", at, "messages"}, query)
		cancel()
		if gone(err) { // Steward is no longer in the room
			return nil, nil
		}
		if err != nil {
			return nil, failed(err)
		}
		list = append(list, page.Chunk...)
		if slices.ContainsFunc(page.Chunk, func(ev *event.Event) bool { return membership(ev, s.me) == event.MembershipInvite }) {
			break
		}
		if !joined && ownJoin(page.Chunk, s.me) >= 0 {
			joined, page.End = true, cmp.Or(page.End, s.Since)
		}
		if page.End == from || page.End == s.Since && !joined {
			break
		}
		from = page.End
	}
	if len(list) >= maxMissed {
		m.log().Warn("more was written in a room than Steward reads after a pause: older messages are missed", "room", at, "read", len(list))
	}
	slices.Reverse(list)
	return list, nil
}

// update translates an event; ok is false if it is of no interest.
func (m *Matrix) update(ctx context.Context, s *session, at id.RoomID, ev *event.Event) (u channel.Update, ok bool, err error) {
	if ev.ID == "" || ev.Sender == s.me || ev.StateKey != nil {
		return u, false, nil
	}
	if ev.Type.Type == event.EventEncrypted.Type {
		return u, false, m.unreadable(ctx, s, at)
	}
	if ev.Type.Type != event.EventMessage.Type {
		return u, false, nil
	}
	ev.Type.Class = event.MessageEventType
	if err := ev.Content.ParseRaw(ev.Type); err != nil {
		m.log().Debug("a message cannot be read", "room", at, "event", ev.ID, "error", err)
		return u, false, nil
	}
	content := ev.Content.AsMessage()
	u = channel.Update{ID: ev.ID.String(), Kind: channel.Message, At: time.UnixMilli(ev.Timestamp), Message: ev.ID.String(),
		Address: channel.Address{Chat: at.String(), Thread: content.RelatesTo.GetThreadParent().String()}}
	mentions := content.Mentions
	reply := content.RelatesTo.GetNonFallbackReplyTo()
	if original := content.RelatesTo.GetReplaceID(); original != "" {
		if content.NewContent == nil {
			return u, false, nil
		}
		// Only its sender may change a message (validity of replacement events).
		first, err := m.event(ctx, at, original)
		if err != nil || first == nil || first.Sender != ev.Sender {
			return u, false, err
		}
		if firstContent, isMessage := first.Content.Parsed.(*event.MessageEventContent); isMessage {
			u.Address.Thread, reply = firstContent.RelatesTo.GetThreadParent().String(), firstContent.RelatesTo.GetNonFallbackReplyTo()
		}
		content, u.Kind, u.Message = content.NewContent, channel.Edited, original.String()
		if content.Mentions != nil {
			mentions = content.Mentions
		}
	}
	switch content.MsgType {
	case event.MsgText, event.MsgEmote, event.MsgLocation, event.MsgImage, event.MsgFile, event.MsgAudio, event.MsgVideo:
	default: // notices come from programs, which would answer each other for ever
		return u, false, nil
	}
	place, err := m.room(ctx, at)
	if err != nil {
		return u, false, err
	}
	u.From = channel.Sender{ID: ev.Sender.String(), Name: place.name(ev.Sender)}
	u.Group, u.Title, u.ReplyTo = place.group, place.title, reply.String()
	text := content.Body
	if u.ReplyTo != "" {
		text = event.TrimReplyFallbackText(text)
	}
	if content.MsgType.IsMedia() {
		text = content.GetCaption()
		u.Attachments = attachments(content)
	}
	u.Text, u.Addressed = s.addressed(wire.Clean(text), content, mentions)
	if !u.Group {
		u.Addressed = true
	}
	if !u.Addressed && reply != "" {
		answered, err := m.event(ctx, at, reply)
		if err != nil {
			return u, false, err
		}
		u.Addressed = answered != nil && answered.Sender == s.me
	}
	return u, true, nil
}

// attachments returns the file of a message.
func attachments(content *event.MessageEventContent) []channel.Attachment {
	if content.URL == "" {
		return nil
	}
	a := channel.Attachment{Ref: string(content.URL), Name: wire.Line(content.GetFileName()), Voice: content.MSC3245Voice != nil}
	if content.Info != nil {
		a.MediaType, a.Size = wire.Line(content.Info.MimeType), int64(content.Info.Size)
	}
	return []channel.Attachment{a}
}

// addressed reports whether a text mentions the account, and returns it without the mention. Programs
// that know m.mentions say so; older ones link to the account, or write its name or ID first.
func (s *session) addressed(text string, content *event.MessageEventContent, mentions *event.Mentions) (string, bool) {
	var found bool
	if mentions != nil {
		found = mentions.Has(s.me)
	} else {
		found = strings.Contains(content.FormattedBody, "https://matrix.to/#/"+s.me.String()+"\"") || strings.Contains(text, s.me.String())
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, s.me.String(), ""))
	for _, name := range []string{s.name, s.me.Localpart()} {
		if name == "" {
			continue
		}
		bare := strings.TrimPrefix(text, "@")
		if len(bare) < len(name) || !strings.EqualFold(bare[:len(name)], name) {
			continue
		}
		after := bare[len(name):]
		if mark := strings.HasPrefix(after, ":") || strings.HasPrefix(after, ","); mark || found && (after == "" || after[0] == ' ') {
			text, found = after, found || mentions == nil
			break
		}
	}
	return strings.TrimSpace(strings.TrimLeft(text, ":, ")), found
}

// event reads one event of a room; nil: it does not exist for the account.
func (m *Matrix) event(ctx context.Context, at id.RoomID, which id.EventID) (*event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ev, err := m.client.GetEvent(ctx, at, which)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, failed(err)
	}
	if ev.Type.Type == event.EventMessage.Type {
		ev.Type.Class = event.MessageEventType
		if err := ev.Content.ParseRaw(ev.Type); err != nil {
			m.log().Debug("a message cannot be read", "room", at, "event", which, "error", err)
		}
	}
	return ev, nil
}

// unreadable tells the other person in an encrypted room, once, that Steward cannot read there. In groups
// it stays silent.
func (m *Matrix) unreadable(ctx context.Context, s *session, at id.RoomID) error {
	if slices.Contains(s.Told, at) {
		return nil
	}
	place, err := m.room(ctx, at)
	if err != nil {
		return err
	}
	if !place.group {
		const text = "I cannot read encrypted messages. Please invite me to a new room that is not encrypted: when you create it, turn off “Enable end-to-end encryption”."
		key := "encrypted-" + wire.Key(at.String())
		_, err := m.post(ctx, at, key, &event.MessageEventContent{MsgType: event.MsgNotice, Body: text})
		if fault.Is(err, fault.RateLimited) || fault.Is(err, fault.Unavailable) {
			return err // the events are read again
		}
	}
	if s.Told = append(s.Told, at); len(s.Told) > maxInvites {
		s.Told = s.Told[1:]
	}
	return nil
}

const stateFile = "matrix.json"

// load reads what was kept. What another account has left is of no use.
func (m *Matrix) load(s *session) error {
	b, err := m.opt.LoadState(stateFile, maxState)
	if err != nil || b == nil {
		s.Account = s.me
		return err
	}
	if err := json.Unmarshal(b, &s.state); err != nil || s.Account != s.me {
		m.log().Warn("the place at which Steward stopped reading is not known: it begins with what comes now", "file", filepath.Join(m.opt.Dir, stateFile))
		s.state = state{Account: s.me}
	}
	return nil
}

func (m *Matrix) save(s *session) error {
	b, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return m.opt.SaveState(stateFile, b)
}
