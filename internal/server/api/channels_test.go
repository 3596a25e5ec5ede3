package api_test

import (
	"context"
	"testing"

	"steward/client"
)

// messengers are channels in which Ann is paired with herself, and the machine's own user too.
type messengers struct{ paired, unpaired []string }

func (*messengers) Channels(context.Context) ([]client.Channel, error) { return nil, nil }

func (*messengers) People(context.Context) ([]client.ChannelPerson, error) {
	return []client.ChannelPerson{{ID: "aaaa1", User: "ana"}, {ID: "bbbb1", User: "local"}}, nil
}

func (m *messengers) Pair(_ context.Context, by, code, user string) (client.ChannelPerson, error) {
	m.paired = append(m.paired, by+" "+user)
	return client.ChannelPerson{User: user}, nil
}

func (m *messengers) Unpair(_ context.Context, by, person string) error {
	m.unpaired = append(m.unpaired, by+" "+person)
	return nil
}

func (*messengers) Inbox(_ context.Context, user string, _ bool) ([]client.ChannelUpdate, error) {
	return []client.ChannelUpdate{{Text: "to " + user}}, nil
}

func (*messengers) Outbox(_ context.Context, user string, _ bool) ([]client.ChannelPost, error) {
	return nil, nil
}

// Whoever pairs a sender with a user can read what that user reads, so it is decided like keys.
func TestWhoMayPair(t *testing.T) {
	w := newTown(t)
	m := &messengers{}
	w.o.Channels = m
	w.want("ana", "POST", "/channels/people", `{"code":"x","user":"ana"}`, 403, "admin_only")
	w.want("ana", "DELETE", "/channels/people/aaaa1", "", 403, "admin_only")
	w.want("ana", "GET", "/channels", "", 403, "admin_only")
	w.want("ana+admin", "POST", "/channels/people", `{"code":"x","user":"local"}`, 403, "own_user_only")
	w.want("ana+admin", "DELETE", "/channels/people/bbbb", "", 403, "own_user_only")
	w.want("ana+admin", "POST", "/channels/people", `{"code":"x","user":"typo"}`, 404, "user_not_found")
	w.want("local+admin", "POST", "/channels/people", `{"code":"x"}`, 201, `"user":"local"`)
	w.want("ana+admin", "DELETE", "/channels/people/aaaa", "", 204, "")
	w.want("ana", "GET", "/channels/inbox", "", 200, "to ana")
	w.want("ana", "GET", "/channels/outbox", "", 200, `{"messages":[]}`)
	if len(m.paired) != 1 || m.paired[0] != "local local" || len(m.unpaired) != 1 || m.unpaired[0] != "ana aaaa" {
		t.Errorf("%q, %q", m.paired, m.unpaired)
	}
}
