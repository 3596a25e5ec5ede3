package httpauth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
)

// Agents decides about agents and sources of tools for callers: those whom
// policy does not let decide are told of the agents that they may use (and
// refused with admin_only or policy_denied, Denied). Other errors are those of
// the Approver.
type Agents struct {
	Catalog    catalog.Approver  // nil: there are none (agents_unsupported)
	Authorizer policy.Authorizer // nil: administrators decide
}

// Approval allows what has a hash. In JSON it is the body of a request.
type Approval struct {
	Path  string                         `json:"path"`
	Hash  string                         `json:"hash"`
	Tools map[string]catalog.ToolSetting `json:"tools"` // set otherwise than their source proposes
}

// Refusal says no to an agent or a source. In JSON it is the body of a request.
type Refusal struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// may refuses a caller who does not decide about an agent or a source; about
// any, where none is named. Policy says who does; the request is not put to
// anybody else, so that to ask means no.
func (a Agents) may(ctx context.Context, c Caller, path string) error {
	if a.Catalog == nil {
		return fault.New(fault.Unsupported, "agents_unsupported", "this Steward has no agents")
	}
	none := fault.New(fault.Denied, "admin_only", "what agents may do is decided on the machine that Steward runs on").
		WithHint("use steward agents there")
	if a.Authorizer == nil {
		if c.Admin {
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
		return fmt.Errorf("policy could not be asked: %w", err)
	case d.Verdict == policy.Allow:
		return nil
	case d.Rule == "" && c.Admin && len(c.Roles) == 0: // he has the token, and who he is cannot be told
		return nil
	case d.Rule == "":
		return none
	}
	return fault.New(fault.Denied, "policy_denied", "policy does not let you decide about that: %s", d.Reason).
		WithHint("an administrator can change the rule at %s", d.Rule)
}

// Decides reports whether a caller decides about agents at large.
func (a Agents) Decides(ctx context.Context, c Caller) bool { return a.may(ctx, c, "") == nil }

// List tells what there is, never nil: all to who decides about agents at
// large; to others what they may use, and what they decide about.
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
	told := append(none, catalog.Told(all)...)
	if a.Authorizer == nil {
		return told, nil
	}
	for _, l := range all {
		if a.may(ctx, c, l.Path) != nil {
			continue
		}
		told = slices.DeleteFunc(told, func(t catalog.Listing) bool { return t.Path == l.Path })
		told = append(told, l)
	}
	slices.SortStableFunc(told, func(x, y catalog.Listing) int { return strings.Compare(x.Path, y.Path) })
	return told, nil
}

// Inspect tells all that an approval is about.
func (a Agents) Inspect(ctx context.Context, c Caller, path string) (catalog.Inspection, error) {
	if err := a.may(ctx, c, path); err != nil {
		return catalog.Inspection{}, err
	}
	return a.Catalog.Inspect(ctx, path)
}

// Approve allows what was shown under a hash.
func (a Agents) Approve(ctx context.Context, c Caller, in Approval) (catalog.Listing, error) {
	if err := a.may(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Approve(ctx, c.User, in.Path, in.Hash, in.Tools)
}

// Deny says no until it changes.
func (a Agents) Deny(ctx context.Context, c Caller, in Refusal) (catalog.Listing, error) {
	if err := a.may(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Deny(ctx, c.User, in.Path, in.Reason)
}

// Revoke takes an approval back.
func (a Agents) Revoke(ctx context.Context, c Caller, in Refusal) (catalog.Listing, error) {
	if err := a.may(ctx, c, in.Path); err != nil {
		return catalog.Listing{}, err
	}
	return a.Catalog.Revoke(ctx, c.User, in.Path, in.Reason)
}
