package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/tree"
)

// mimeJSON is the type of every resource: their bodies are JSON.
const mimeJSON = "application/json"

// reader is the session's user, as the tree knows callers.
func (x *session) reader() tree.Caller {
	return tree.Caller{User: x.caller.User, Attended: x.caller.Attended(), Request: id.New()}
}

// listResources lists what the user may read, a page at a time.
func (x *session) listResources(ctx context.Context, r *sdk.ListResourcesRequest) (*sdk.ListResourcesResult, error) {
	q := tree.Query{Limit: maxPage}
	if r.Params != nil {
		q.After = r.Params.Cursor
	}
	page, err := x.o.Tree.List(ctx, x.reader(), q)
	if err != nil {
		return nil, err
	}
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, NextCursor: page.Next}
	for i := range page.Items {
		out.Resources = append(out.Resources, resourceOf(&page.Items[i]))
	}
	return out, nil
}

func resourceOf(r *tree.Resource) *sdk.Resource {
	uri := r.URI.String()
	out := &sdk.Resource{URI: uri, Name: strings.TrimPrefix(uri, resource.Scheme), Description: r.Description(), MIMEType: mimeJSON, Meta: metaOf(r)}
	return out
}

// metaOf is what is known of a resource besides its body.
func metaOf(r *tree.Resource) sdk.Meta {
	m := sdk.Meta{"steward/space": string(r.Space)}
	if r.Version > 0 {
		m["steward/version"] = r.Version
	}
	if r.State != "" {
		m["steward/state"] = r.State
	}
	if r.Masked {
		m["steward/masked"] = true
	}
	return m
}

// templates are the forms of URIs by which clients find resources.
func templates() []*sdk.ResourceTemplate {
	return []*sdk.ResourceTemplate{
		{URITemplate: "cld:{+path}", Name: "resource", Title: "Any resource", MIMEType: mimeJSON,
			Description: "A resource of Steward's tree. A path that begins with a type of the user's own, such as home.Note.shopping, is relative to the user's place."},
		{URITemplate: noteTemplate, Name: "note", Title: "Note", MIMEType: mimeJSON, Description: "A note of the user's."},
		{URITemplate: "cld:common.Conversation.{id}", Name: "conversation", Title: "Conversation", MIMEType: mimeJSON, Description: "A conversation of the user's."},
	}
}

const noteTemplate = "cld:home.Note.{name}"

// readResource reads one resource. One that does not exist and one that the user may not read are the same.
func (x *session) readResource(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri, err := tree.Parse(x.caller.User, "", r.Params.URI)
	if err != nil {
		return nil, err
	}
	got, err := x.o.Tree.Get(ctx, x.reader(), uri)
	if fault.Is(err, fault.NotFound) {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: mimeJSON, Text: string(got.Body), Meta: metaOf(&got)}}}, nil
}

// subscribe follows a resource and everything below it. The log says when it has changed; what the user may not read
// is never reported.
func (x *session) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	name := r.Params.URI
	uri, err := tree.Parse(x.caller.User, "", name)
	if err != nil {
		return x.wireError(ctx, "resources/subscribe", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.subscriptions[name] != nil:
		return nil
	case x.ends == nil || x.ends.Err() != nil:
		return x.wireError(ctx, "resources/subscribe", fault.New(fault.Unavailable, "closing", "the session has ended"))
	case len(x.subscriptions) >= maxSubscriptions:
		return x.wireError(ctx, "resources/subscribe", fault.New(fault.Exhausted, "too_many_subscriptions", "the session already follows %d resources", maxSubscriptions).
			WithHint("follow a resource above them, which includes all below it"))
	}
	following, stop := context.WithCancel(x.ends)
	x.subscriptions[name] = stop
	go x.follow(following, name, uri)
	return nil
}

func (x *session) unsubscribe(_ context.Context, r *sdk.UnsubscribeRequest) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if stop := x.subscriptions[r.Params.URI]; stop != nil {
		stop()
		delete(x.subscriptions, r.Params.URI)
	}
	return nil
}

// follow tells the client when a resource changes, once for each batch of the log.
func (x *session) follow(ctx context.Context, name string, uri resource.URI) {
	f := events.Filter{Prefixes: []resource.URI{uri}, Details: []events.DetailType{events.Put, events.Delete}}
	for b, err := range x.o.Node.Subscribe(ctx, x.caller.User, f, events.Now) {
		if err == nil {
			err = x.caller.Recheck(ctx)
		}
		if err != nil {
			if ctx.Err() == nil {
				x.o.Logger.InfoContext(ctx, "a subscription over MCP has ended", "error", err)
				x.close() // the client notices, and begins again if it may
			}
			return
		}
		if len(b.Events) > 0 {
			x.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: name}) //nolint:errcheck // it never fails; a client that has gone ends ctx
		}
	}
}
