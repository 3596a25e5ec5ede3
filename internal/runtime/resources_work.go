package runtime

import (
	"context"
	"strings"

	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tree"
)

const typeWork = "worklog.Entry"

// maxWork is how many entries of the work log are listed as resources: the
// newest. WorkLog returns all of them.
const maxWork = 10_000

// workView shows the entries of a user's work log as resources. Each is below the
// message that makes the call, under the call's block.
type workView struct{ n *Node }

// Types implements tree.Mount.
func (workView) Types() []string { return []string{typeWork} }

// Personal implements tree.Personal.
func (workView) Personal() {}

// List implements tree.Mount.
func (v workView) List(ctx context.Context, p policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for after := store.Cursor(""); len(out) < maxWork; {
		page, next, err := v.n.WorkLog(ctx, p.User, worklog.Filter{}, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			r, err := workResource(p.User, e)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if after = next; next == "" {
			break
		}
	}
	return out, nil
}

// Get implements tree.Mount.
func (v workView) Get(ctx context.Context, p policy.Principal, uri resource.URI) (tree.Resource, error) {
	msg := uri.Parent()
	e, _, err := v.n.WorkLogEntry(ctx, p.User, msg.ID()+"/"+uri.ID())
	if fault.HasCode(err, "ref_invalid") || err == nil && workURI(e) != uri {
		return tree.Resource{}, fault.New(fault.NotFound, "not_found", "there is no %s", uri)
	}
	if err != nil {
		return tree.Resource{}, err
	}
	return workResource(p.User, e)
}

// workURI returns the resource of an entry.
func workURI(e worklog.Entry) resource.URI {
	_, block, _ := strings.Cut(e.ID, "/")
	return e.Call.Child(typeWork, block)
}

func workResource(user string, e worklog.Entry) (tree.Resource, error) {
	r, err := mounted(workURI(e), resource.Metadata{Purpose: e.Summary}, e)
	r.Space, r.At = resource.UserSpace(user), e.At
	return r, err
}
