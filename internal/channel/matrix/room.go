package matrix

import (
	"cmp"
	"context"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"steward/internal/channel/wire"
)

const (
	maxRooms = 1000
	maxNames = 1000 // of a room
)

// room is what is known of a room until its state changes.
type room struct {
	group bool // others than Steward and one person are in it, or invited
	title string
	names map[id.UserID]string
}

func (r *room) name(who id.UserID) string { return cmp.Or(r.names[who], who.Localpart()) }

// room returns what is known of a room, or asks.
func (m *Matrix) room(ctx context.Context, at id.RoomID) (*room, error) {
	m.mu.Lock()
	known := m.rooms[at]
	m.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &room{names: map[id.UserID]string{}}
	var members struct {
		Chunk events `json:"chunk"`
	}
	if err := m.get(ctx, &members, mautrix.ClientURLPath{"v3", "rooms", at, "members"}, map[string]string{"not_membership": "leave"}); err != nil && !gone(err) {
		return nil, failed(err)
	}
	present := 0
	for _, ev := range members.Chunk {
		who := id.UserID(ev.GetStateKey())
		if is := membership(ev, who); is != event.MembershipJoin && is != event.MembershipInvite {
			continue
		}
		if present++; len(r.names) < maxNames {
			name, _ := ev.Content.Raw["displayname"].(string)
			r.names[who] = wire.Line(name)
		}
	}
	r.group = present != 2
	if r.group {
		var name event.RoomNameEventContent
		if err := m.client.StateEvent(ctx, at, event.StateRoomName, "", &name); err != nil && !gone(err) {
			return nil, failed(err)
		}
		r.title = wire.Line(name.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rooms) >= maxRooms {
		clear(m.rooms)
	}
	m.rooms[at] = r
	return r, nil
}

// forget drops what is known of a room.
func (m *Matrix) forget(at id.RoomID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rooms, at)
}

func (m *Matrix) forgetRooms() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.rooms)
}
