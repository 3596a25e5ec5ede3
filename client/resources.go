package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

// Resource is a resource, identified by its URI.
type Resource struct {
	URI           string          `json:"uri"`
	Type          string          `json:"type"`
	Space         string          `json:"space"`
	Version       uint64          `json:"version,omitzero"`
	State         string          `json:"state,omitzero"`
	At            time.Time       `json:"at,omitzero"`
	Actor         string          `json:"actor,omitzero"`
	Purpose       string          `json:"purpose,omitzero"`
	Instructions  string          `json:"instructions,omitzero"`
	Applicability string          `json:"applicability,omitzero"`
	Evaluation    string          `json:"evaluation,omitzero"`
	Masked        bool            `json:"masked,omitzero"` // policy hides a part of it
	Body          json.RawMessage `json:"body,omitempty"`
	Text          string          `json:"text,omitzero"`
	Base64        string          `json:"base64,omitzero"`
}

// ResourceList is one part of a list, with the position at which the list continues.
type ResourceList struct {
	Resources []Resource `json:"resources"`
	Next      string     `json:"next,omitzero"`
}

func (c *Client) resources(ctx context.Context, route string, p Params, limit int) (ResourceList, error) {
	list, next, err := List[Resource](ctx, c, route, "resources", p, limit)
	return ResourceList{list, next}, err
}

// ResourceQuery selects the resources to list. Empty members select everything.
type ResourceQuery struct {
	Under, Type, Space, State string
	Since, Until              time.Time
	Bodies                    bool
	After                     string // ResourceList.Next of an earlier list
}

// Resources returns at most limit resources in the order of the tree or, if Since is set, the most
// recently changed first.
func (c *Client) Resources(ctx context.Context, q ResourceQuery, limit int) (ResourceList, error) {
	return c.resources(ctx, "GET /resources", Params{"under": q.Under, "type": q.Type, "space": q.Space, "state": q.State,
		"since": stamp(q.Since), "until": stamp(q.Until), "bodies": yes(q.Bodies), "after": q.After}, limit)
}

// Item identifies a resource by its URI and, if the URI alone is ambiguous, by its space.
type Item struct {
	URI, Space string
	Version    uint64 // of the resource; 0: any
}

func (i Item) params() Params {
	p := Params{"uri": i.URI, "space": i.Space}
	if i.Version > 0 {
		p["version"] = strconv.FormatUint(i.Version, 10)
	}
	return p
}

// Resource returns a resource, or an earlier version of it.
func (c *Client) Resource(ctx context.Context, i Item) (Resource, error) {
	return ask[Resource](ctx, c, "GET /resources/item", i.params(), nil)
}

// PutResource stores a resource. If i.Version is set, it succeeds only if the resource is at that
// version. If create is set, it succeeds only if the resource does not exist yet.
func (c *Client) PutResource(ctx context.Context, i Item, body json.RawMessage, state string, create bool) (Resource, error) {
	p := i.params()
	p["state"], p["create"] = state, yes(create)
	return ask[Resource](ctx, c, "PUT /resources/item", p, body)
}

// DeleteResource deletes a resource. If erase is set, all its versions are removed permanently.
func (c *Client) DeleteResource(ctx context.Context, i Item, erase bool) error {
	p := i.params()
	p["erase"] = yes(erase)
	return c.Call(ctx, "DELETE /resources/item", p, nil, nil)
}

// ResourceParents returns the ancestors of a resource.
func (c *Client) ResourceParents(ctx context.Context, i Item) (out ResourceList, err error) {
	err = c.Call(ctx, "GET /resources/parents", i.params(), nil, &out)
	return out, err
}

// ResourceHistory returns at most limit versions of a resource, the newest first.
func (c *Client) ResourceHistory(ctx context.Context, i Item, limit int) (ResourceList, error) {
	return c.resources(ctx, "GET /resources/history", i.params(), limit)
}
