package httpauth_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/server/httpauth"
	"steward/internal/store/storetest"
)

func TestWhoDecidesAboutAgents(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "desk"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "desk/agent.yaml"), []byte("name: desk\ndescription: Does desk.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(t.Context(), catalog.Options{Store: storetest.NewModel(), Folders: []string{dir}, Data: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, desk := t.Context(), httpauth.Agents{Catalog: cat}
	boss, ana := httpauth.Caller{User: "local", Admin: true}, httpauth.Caller{User: "ana"}
	refused := func(what string, err error, code string) {
		t.Helper()
		if !fault.HasCode(err, code) {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}
	for _, c := range []struct {
		who  httpauth.Caller
		desk httpauth.Agents
		code string
	}{{ana, desk, "admin_only"}, {boss, httpauth.Agents{}, "agents_unsupported"}} {
		_, err := c.desk.Inspect(ctx, c.who, "desk")
		refused("inspect", err, c.code)
		_, err = c.desk.Approve(ctx, c.who, httpauth.Approval{Path: "desk"})
		refused("approve", err, c.code)
		_, err = c.desk.Deny(ctx, c.who, httpauth.Refusal{Path: "desk"})
		refused("deny", err, c.code)
		_, err = c.desk.Revoke(ctx, c.who, httpauth.Refusal{Path: "desk"})
		refused("revoke", err, c.code)
		if list, err := c.desk.List(ctx, c.who); err != nil || list == nil || len(list) != 0 {
			t.Errorf("%v %v", list, err)
		}
	}
	insp, err := desk.Inspect(ctx, boss, "desk")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := desk.Approve(ctx, boss, httpauth.Approval{Path: "desk", Hash: insp.Hash}); err != nil || l.By != "local" || !l.Usable {
		t.Errorf("%+v %v", l, err)
	}
	if list, err := desk.List(ctx, ana); err != nil || len(list) != 1 || list[0].Hash != "" || list[0].Dir != "" {
		t.Errorf("%+v %v", list, err)
	}
	if list, err := desk.List(ctx, boss); err != nil || len(list) != 1 || list[0].Hash != insp.Hash {
		t.Errorf("%+v %v", list, err)
	}
	if l, err := desk.Revoke(ctx, boss, httpauth.Refusal{Path: "desk", Reason: "enough"}); err != nil || l.Status != catalog.Revoked || l.Reason != "enough" {
		t.Errorf("%+v %v", l, err)
	}
	if l, err := desk.Deny(ctx, boss, httpauth.Refusal{Path: "desk"}); err != nil || l.Status != catalog.Denied {
		t.Errorf("%+v %v", l, err)
	}
}
