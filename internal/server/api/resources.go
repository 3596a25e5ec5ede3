package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/server/auth"
	"steward/internal/tree"
)

// asking converts the caller for the tree.
func asking(c *call) tree.Caller {
	return tree.Caller{User: c.User, Attended: c.Attended(), Request: id.New()}
}

func (f *server) tree() (*tree.Service, error) {
	if f.Resources == nil {
		return nil, unsupported("resources", "this Steward has no resources")
	}
	return f.Resources, nil
}

// item is the resource that a request names.
type item struct {
	Space resource.Space `query:"space"` // in which the name is resolved
	URI   string         `query:"uri"`
}

// find returns the tree and the URI of an item.
func (f *server) find(c *call, it item) (*tree.Service, resource.URI, error) {
	all, err := f.tree()
	if err != nil {
		return nil, resource.URI{}, err
	}
	if it.URI == "" {
		return nil, resource.URI{}, fault.New(fault.Invalid, "uri_missing", "no resource is named").WithHint("name one: ?uri=cld:home.Note.shopping")
	}
	uri, err := tree.Parse(c.User, it.Space, it.URI)
	return all, uri, err
}

type resourcePage struct {
	Resources []tree.Resource `json:"resources"`
	Next      string          `json:"next,omitzero"`
}

func (f *server) listResources(ctx context.Context, c *call, in struct {
	page
	Type   string         `query:"type"`
	Space  resource.Space `query:"space"`
	State  string         `query:"state"`
	Under  string         `query:"under"`
	Since  time.Time      `query:"since"`
	Until  time.Time      `query:"until"`
	Bodies bool           `query:"bodies"`
}) (resourcePage, error) {
	all, err := f.tree()
	if err != nil {
		return resourcePage{}, err
	}
	q := tree.Query{Type: in.Type, Space: in.Space, State: in.State, Since: in.Since, Until: in.Until, Bodies: in.Bodies,
		After: string(in.After), Limit: in.limit()}
	if in.Under != "" {
		if q.Under, err = tree.Parse(c.User, q.Space, in.Under); err != nil {
			return resourcePage{}, err
		}
	}
	got, err := all.List(ctx, asking(c), q)
	return resourcePage{got.Items, got.Next}, err
}

func (f *server) getResource(ctx context.Context, c *call, in struct {
	item
	Version uint64 `query:"version"`
}) (tree.Resource, error) {
	all, uri, err := f.find(c, in.item)
	if err != nil {
		return tree.Resource{}, err
	}
	if in.Version > 0 {
		return all.Version(ctx, asking(c), uri, in.Version)
	}
	got, err := all.Get(ctx, asking(c), uri)
	if err == nil && got.Version > 0 {
		c.w.Header().Set("ETag", etag(got.Version))
		if c.r.Header.Get("If-None-Match") == etag(got.Version) {
			c.status = http.StatusNotModified
		}
	}
	return got, err
}

func etag(version uint64) string { return `"` + strconv.FormatUint(version, 10) + `"` }

// ifMatch returns the version that a request requires: that of the query or that of the
// header If-Match: "3" (RFC 9110, section 13.1).
func ifMatch(c *call, version uint64) (uint64, error) {
	m := c.r.Header.Get("If-Match")
	if m == "" {
		return version, nil
	}
	text, opened := strings.CutPrefix(m, `"`)
	text, closed := strings.CutSuffix(text, `"`)
	n, err := strconv.ParseUint(text, 10, 64)
	if !opened || !closed || err != nil || n == 0 {
		return 0, fault.New(fault.Invalid, "version_invalid", "%.60q is not a version", m).WithHint(`write it as If-Match: "3"`)
	}
	if version != 0 && version != n {
		return 0, fault.New(fault.Invalid, "version_invalid", "If-Match gives version %d, but the query gives %d", n, version).WithHint("give only one of them")
	}
	return n, nil
}

// putResource stores the request's body as the resource's.
func (f *server) putResource(ctx context.Context, c *call, in struct {
	item
	Version uint64 `query:"version"`
	Create  bool   `query:"create"`
	State   string `query:"state"`
}) (tree.Resource, error) {
	all, uri, err := f.find(c, in.item)
	if err == nil {
		in.Version, err = ifMatch(c, in.Version)
	}
	if err != nil {
		return tree.Resource{}, err
	}
	switch m := c.r.Header.Get("If-None-Match"); m {
	case "":
	case "*":
		in.Create = true
	default:
		return tree.Resource{}, fault.New(fault.Invalid, "version_invalid", "If-None-Match can only be * here, not %.60q", m)
	}
	body, err := auth.ReadBody(c.w, c.r, tree.MaxBody)
	if err == nil {
		err = c.Store(ctx, int64(len(body)))
	}
	if err != nil {
		return tree.Resource{}, err
	}
	got, err := all.Put(ctx, asking(c), tree.Put{URI: uri, Space: in.Space, Body: body, State: in.State, Version: in.Version, Create: in.Create})
	if err == nil {
		c.w.Header().Set("ETag", etag(got.Version))
	}
	if got.Version == 1 {
		c.status = http.StatusCreated
	}
	return got, err
}

func (f *server) deleteResource(ctx context.Context, c *call, in struct {
	item
	Version uint64 `query:"version"`
	Erase   bool   `query:"erase"`
}) (noContent, error) {
	all, uri, err := f.find(c, in.item)
	if err == nil {
		in.Version, err = ifMatch(c, in.Version)
	}
	if err != nil {
		return noContent{}, err
	}
	return noContent{}, all.Delete(ctx, asking(c), tree.Removal{URI: uri, Version: in.Version, Erase: in.Erase})
}

func (f *server) resourceParents(ctx context.Context, c *call, in item) (resourcePage, error) {
	all, uri, err := f.find(c, in)
	if err != nil {
		return resourcePage{}, err
	}
	list, err := all.Parents(ctx, asking(c), uri)
	return resourcePage{Resources: list}, err
}

func (f *server) resourceHistory(ctx context.Context, c *call, in struct {
	item
	page
}) (resourcePage, error) {
	all, uri, err := f.find(c, in.item)
	if err != nil {
		return resourcePage{}, err
	}
	got, err := all.History(ctx, asking(c), uri, string(in.After), in.limit())
	return resourcePage{got.Items, got.Next}, err
}
