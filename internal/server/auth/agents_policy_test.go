package auth_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/server/auth"
	"steward/test/storetest"
)

// roles is a directory: the users' roles.
type roles map[string]string

func (r roles) Principal(_ context.Context, user string) (policy.Principal, error) {
	if r[user] == "" {
		return policy.Principal{}, fault.New(fault.Unavailable, "unknown", "it cannot be told who %s is", user)
	}
	return policy.Principal{User: user, Roles: []string{r[user]}}, nil
}

// TestPolicyDecidesWhoDecides: the machine's own user decides about agents by default, not an
// administrator. Rules
// can grant others a part of this right, and deny it to anybody.
func TestPolicyDecidesWhoDecides(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	for _, name := range []string{"desk", "till", "vault"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "agent.yaml"), []byte("name: "+name+"\ndescription: Does "+name+".\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(own, "house.rego"), []byte(`package steward

allow contains "the till is ana's" if {
	input.point == "agent"
	input.user.name == "ana"
	input.target == "till"
}

deny contains "nobody touches the vault" if {
	input.point == "agent"
	input.target == "vault"
}

ask contains "ask somebody" if {
	input.point == "agent"
	input.resource.type == "tool.Source"
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	judge, err := rego.Open(rego.Options{Dir: own, Directory: roles{"local": policy.RoleAdmin, "boss": policy.RoleAdmin, "ana": policy.RoleMember}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(t.Context(), catalog.Options{Store: storetest.NewModel(), Folders: []string{dir}, Data: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cat.Close(); err != nil {
			t.Error(err)
		}
		if err := judge.Close(); err != nil {
			t.Error(err)
		}
	})
	desk, ctx := auth.Agents{Catalog: cat, Authorizer: judge}, t.Context()
	owner := auth.Caller{User: "local", Admin: true, Roles: []string{policy.RoleAdmin}}
	boss, ana := auth.Caller{User: "boss", Admin: true, Roles: []string{policy.RoleAdmin}}, auth.Caller{User: "ana", Roles: []string{policy.RoleMember}}
	for _, c := range []struct {
		who  auth.Caller
		path string
		code string // empty: the caller may decide
	}{
		{owner, "desk", ""}, {owner, "till", ""}, {owner, "vault", "policy_denied"}, {owner, "mcp:docs", "policy_denied"},
		{boss, "desk", "admin_only"}, {boss, "till", "admin_only"}, {boss, "vault", "policy_denied"},
		{ana, "desk", "admin_only"}, {ana, "till", ""}, {ana, "vault", "policy_denied"},
		{auth.Caller{User: "local", Admin: true}, "desk", ""}, // the account cannot be read
		{auth.Caller{User: "ghost"}, "desk", "admin_only"},
	} {
		_, err := desk.Inspect(ctx, c.who, c.path)
		if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
			t.Errorf("%s inspects %s: %v", c.who.User, c.path, err)
		}
		_, err = desk.Deny(ctx, c.who, auth.Refusal{Path: c.path})
		if c.code == "" && err != nil || c.code != "" && !fault.HasCode(err, c.code) {
			t.Errorf("%s denies %s: %v", c.who.User, c.path, err)
		}
	}
	_, err = desk.Approve(ctx, owner, auth.Approval{Path: "vault"})
	if f := fault.Of(err); f == nil || !strings.Contains(f.Error(), "nobody touches the vault") || !strings.Contains(f.Remedy, "house.rego:9") {
		t.Errorf("%v", err)
	}
	sees := func(c auth.Caller) string {
		list, err := desk.List(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range list {
			names = append(names, l.Path)
		}
		return strings.Join(names, " ")
	}
	if got := sees(owner); got != "desk till vault" {
		t.Errorf("the machine's own user sees %q", got)
	}
	if got := sees(ana); got != "till" {
		t.Errorf("ana sees %q", got)
	}
	if !desk.Decides(ctx, owner) || desk.Decides(ctx, boss) || desk.Decides(ctx, ana) {
		t.Error("who decides about agents at large")
	}
}
