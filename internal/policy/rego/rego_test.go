package rego

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
)

// people is a directory in memory.
type people map[string]policy.Principal

func (p people) Principal(_ context.Context, user string) (policy.Principal, error) {
	if user == "ghost" {
		return policy.Principal{}, fault.New(fault.Denied, "user_disabled", "ghost is not let in any more")
	}
	if who, ok := p[user]; ok {
		return who, nil
	}
	return policy.Principal{User: user, Roles: []string{policy.RoleMember}}, nil
}

func house() people {
	return people{
		"local": {User: "local", Roles: []string{policy.RoleAdmin}},
		"boss":  {User: "boss", Roles: []string{policy.RoleAdmin}, Groups: []string{"parents", "family"}},
		"ann":   {User: "ann", Roles: []string{policy.RoleMember}, Groups: []string{"family"}},
		"kim":   {User: "kim", Roles: []string{policy.RoleMember}, Groups: []string{"family", "children"}},
		"gus":   {User: "gus", Roles: []string{policy.RoleGuest}},
		"bot":   {User: "bot", Roles: []string{policy.RoleService}},
	}
}

func closed(t testing.TB, j *Authorizer) {
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// opened returns an authorizer that is closed with the test.
func opened(t testing.TB, opt Options) *Authorizer {
	t.Helper()
	if opt.Directory == nil {
		opt.Directory = house()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.Timeout = cmp.Or(opt.Timeout, time.Minute)
	j, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, j) })
	return j
}

func judged(t testing.TB, j *Authorizer, q policy.Question) policy.Decision {
	t.Helper()
	d, err := j.Authorize(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict == "" || d.Reason == "" || d.Version == "" {
		t.Fatalf("%+v decides nothing: %+v", q, d)
	}
	return d
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}
