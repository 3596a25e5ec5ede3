package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/policy"
	"steward/internal/resource"
)

// Agents manages agents and tool sources for callers. If policy does not let a caller decide, List
// returns only the agents that the caller may use, and the other methods return admin_only or
// policy_denied (Denied). Other errors are those of the Approver.
type Agents struct {
	Catalog    catalog.Approver  // nil: there are none (agents_unsupported)
	Authorizer policy.Authorizer // nil: the machine's own user decides
}

// Approval approves the version that has a hash. Its JSON is the body of a request.
type Approval struct {
	Path  string                         `json:"path"`
	Hash  string                         `json:"hash"`
	Tools map[string]catalog.ToolSetting `json:"tools"` // settings that differ from what the source proposes
}

// Refusal denies or revokes an agent or a source. Its JSON is the body of a request.
type Refusal struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// authorize returns an error if policy does not let the caller decide about an agent or a source or, if
// path is empty, about agents in general. A policy decision to ask for approval counts as a refusal.
func (a Agents) authorize(ctx context.Context, c Caller, path string) error {
	if a.Catalog == nil {
		return fault.New(fault.Unsupported, "agents_unsupported", "this Steward has no agents")
	}
	none := fault.New(fault.Denied, "admin_only", "agents are approved on the machine that Steward runs on").
		WithHint("use steward agents there")
	if a.Authorizer == nil {
		if c.Admin && c.User == identity.Local {
			return nil
		}
		return none
	}
	typ := catalog.TypeAgent
	if strings.Contains(path, ":") {
		typ = catalog.TypeSource
	}
	d, err := a.Authorizer.Authorize(ctx, policy.Question{Point: policy.PointAgent, User: c.User, Attended: c.Attended(), Target: path,
		Resource: policy.Resource{Type: typ, Space: resource.System}})
	switch {
	case err != nil:
		return fmt.Errorf("policy evaluation failed: %w", err)
	case d.Verdict == policy.Allow:
		return nil
	case d.Rule == "" && c.Admin && c.User == identity.Local && len(c.Roles) == 0: // the caller has the token, but the account cannot be read
		return nil
	case d.Rule == "":
		return none
	}
	return fault.New(fault.Denied, "policy_denied", "policy does not allow you to decide this: %s", d.Reason).
		WithHint("an administrator can change the rule at %s", d.Rule)
}

// Decides reports whether a caller may decide about agents in general.
func (a Agents) Decides(ctx context.Context, c Caller) bool { return a.authorize(ctx, c, "") == nil }

// List returns the agents and sources, never nil. Callers who decide about agents in general get
// all of them; others get those that they may use or decide about.
func (a Agents) List(ctx context.Context, c Caller) ([]catalog.Listing, error) {
	none := []catalog.Listing{}
	if a.Catalog == nil {
		return none, nil
	}
	if a.Decides(ctx, c) {
		list, err := a.Catalog.List(ctx)
		return append(none, list...), err
	}
	all := a.Catalog.Listings()
	told := append(none, catalog.VisibleToUsers(all)...)
	if a.Authorizer == nil {
		return told, nil
	}
	for _, l := range all {
		if a.authorize(ctx, c, l.Path) != nil {
			continue
		}
		told = slices.DeleteFunc(told, func(t catalog.Listing) bool { return t.Path == l.Path })
		told = append(told, l)
	}
	slices.SortStableFunc(told, func(x, y catalog.Listing) int { return strings.Compare(x.Path, y.Path) })
	return told, nil
}

// Inspect returns everything that an approval covers.
func (a Agents) Inspect(ctx context.Context, c Caller, path string) (catalog.Inspection, error) {
	if err := a.authorize(ctx, c, path); err != nil {
		return catalog.Inspection{}, err
	}
	return a.Catalog.Inspect(ctx, path)
}

// Approve approves the version with the hash that was shown.
func (a Agents) Approve(ctx context.Context, c Caller, in Approval) (catalog.Listing, error) {
	if err := a.authorize(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Approve(ctx, c.User, in.Path, in.Hash, in.Tools)
}

// Deny denies an agent or a source until it changes.
func (a Agents) Deny(ctx context.Context, c Caller, in Refusal) (catalog.Listing, error) {
	if err := a.authorize(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Deny(ctx, c.User, in.Path, in.Reason)
}

// Revoke revokes an approval.
func (a Agents) Revoke(ctx context.Context, c Caller, in Refusal) (catalog.Listing, error) {
	if err := a.authorize(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Revoke(ctx, c.User, in.Path, in.Reason)
}
