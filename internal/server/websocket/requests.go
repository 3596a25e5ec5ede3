package websocket

import (
	"context"

	"steward/client"
)

// The frames about requests.
type (
	requestsFrame struct {
		head
		Request string `json:"request_id"` // its tree; empty: a list
		All     bool   `json:"all"`        // include closed ones
		Limit   int    `json:"limit"`
	}
	cancelFrame struct { // cancels a request, or resumes a parked turn
		head
		Request string `json:"request_id"`
	}
)

// The most requests that a frame lists, and the default.
const (
	maxRequests       = 1000
	maxListedRequests = 100
)

// requests answers with the open requests, or with the tree of one.
func (c *conn) requests(f *requestsFrame) error {
	node, user := c.server.o.Node, c.caller.User
	if f.Request != "" {
		tree, err := node.RequestTree(c.ctx, user, f.Request)
		if err != nil {
			return err
		}
		return c.answer(answer{Type: "requests", Re: f.ID, Request: &tree})
	}
	if f.Limit == 0 {
		f.Limit = maxListedRequests
	}
	if f.Limit < 0 || f.Limit > maxRequests {
		return badMember("limit", "limit must be a number from 1 to %d", maxRequests)
	}
	list, err := node.Requests(c.ctx, user, f.All, f.Limit)
	if err != nil {
		return err
	}
	return c.answer(answer{Type: "requests", Re: f.ID, Requests: append([]client.Request{}, list...)})
}

// aboutRequest calls do with the request that a frame names.
func aboutRequest(do func(n Node, ctx context.Context, user, which string) error) func(*conn, *cancelFrame) error {
	return func(c *conn, f *cancelFrame) error {
		if f.Request == "" {
			return missing("request_id")
		}
		return do(c.server.o.Node, c.ctx, c.caller.User, f.Request)
	}
}
