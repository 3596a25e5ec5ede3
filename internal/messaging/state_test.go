package messaging_test

import (
	"testing"

	"steward/internal/fault"
	"steward/internal/messaging"
	"steward/test/storetest"
)

// A node that still saves how far it has read after another node has taken the account is refused.
func TestTheStateOfAnAccountMovesBetweenNodes(t *testing.T) {
	st := storetest.NewModel()
	a, b := messaging.AccountState(st, "phone"), messaging.AccountState(st, "phone")
	if got, err := a.Load(); got != nil || err != nil {
		t.Error(got, err)
	}
	for _, text := range []string{"1", "2"} {
		if err := a.Save([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Save([]byte("x")); !fault.HasCode(err, "channel_moved") {
		t.Errorf("saved without having read: %v", err)
	}
	if got, err := b.Load(); string(got) != "2" || err != nil {
		t.Error(string(got), err)
	}
	if err := b.Save([]byte("3")); err != nil {
		t.Error(err)
	}
	if err := a.Save([]byte("4")); !fault.HasCode(err, "channel_moved") {
		t.Errorf("the old node saves: %v", err)
	}
	if got, err := a.Load(); string(got) != "3" || err != nil {
		t.Error(string(got), err)
	}
	if got, err := messaging.AccountState(st, "other").Load(); got != nil || err != nil {
		t.Error(got, err)
	}
}
