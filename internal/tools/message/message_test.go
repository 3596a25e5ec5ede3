package message

import (
	"context"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// outbox is a sender in memory.
type outbox map[string]string

func (o outbox) Send(_ context.Context, user, to, text, key string) (string, error) {
	if to != "me" && to != "Family" {
		return "", fault.New(fault.NotFound, "place_unknown", "there is no chat %q", to)
	}
	o[key] = user + " " + to + ": " + text
	return to, nil
}

func (o outbox) Chats(_ context.Context, user string) ([]string, error) {
	if user == "bob" {
		return nil, nil
	}
	return []string{"telegram", "telegram: Family"}, nil
}

func TestTools(t *testing.T) {
	o := outbox{}
	k := local.NewKit(tool.Env{Name: "message", Data: t.TempDir()}, "domain:message")
	Add(k, o)
	tools, err := k.Tools()
	if err != nil || len(tools) != 2 {
		t.Fatal(tools, err)
	}
	call := func(n int, user, args string) (string, error) {
		res, err := tools[n].Call(t.Context(), tool.Invocation{User: user, Key: "k1", Args: []byte(args)})
		if err != nil {
			return "", err
		}
		return res.Content[0].(*message.Text).Text, nil
	}
	for range 2 {
		if got, err := call(0, "ann", `{"to":"Family","text":"Dinner at eight."}`); err != nil || !strings.Contains(got, "to Family is in the outbox") {
			t.Fatal(got, err)
		}
	}
	if len(o) != 1 {
		t.Errorf("%v", o)
	}
	if _, err := call(0, "ann", `{"to":"+43 1 234","text":"x"}`); !fault.HasCode(err, "place_unknown") {
		t.Errorf("%v", err)
	}
	if got, err := call(1, "ann", `{}`); err != nil || got != "me\ntelegram\ntelegram: Family" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := call(1, "bob", `{}`); err != nil || !strings.HasPrefix(got, "There are none") {
		t.Errorf("%q, %v", got, err)
	}
}
