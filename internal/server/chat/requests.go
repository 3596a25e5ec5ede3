package chat

import "steward/internal/runtime"

// The frames that are about requests.
type (
	requestsFrame struct {
		head
		Request string `json:"request_id"` // its tree; empty: a list
		All     bool   `json:"all"`        // those that are closed too
		Limit   int    `json:"limit"`
	}
	cancelFrame struct {
		head
		Request string `json:"request_id"`
	}
)

// The most requests that a frame lists, and how many unless it says.
const (
	maxRequests  = 1000
	someRequests = 100
)

// requests answers with the requests that are open, or with the tree of one.
func (c *conn) requests(f *requestsFrame) error {
	node, user := c.server.o.Node, c.caller.User
	answer := struct {
		Type     string                `json:"type"`
		Re       string                `json:"re,omitzero"`
		Requests []runtime.RequestView `json:"requests,omitzero"`
		Request  *runtime.RequestView  `json:"request,omitzero"`
	}{Type: "requests", Re: f.ID}
	if f.Request != "" {
		tree, err := node.RequestTree(c.ctx, user, f.Request)
		if err != nil {
			return err
		}
		answer.Request = &tree
	} else {
		if f.Limit == 0 {
			f.Limit = someRequests
		}
		if f.Limit < 0 || f.Limit > maxRequests {
			return badMember("limit", "limit is a number from 1 to %d", maxRequests)
		}
		list, err := node.Requests(c.ctx, user, f.All, f.Limit)
		if err != nil {
			return err
		}
		answer.Requests = append([]runtime.RequestView{}, list...)
	}
	return c.answer(answer)
}

func (c *conn) cancelRequest(f *cancelFrame) error {
	if f.Request == "" {
		return missing("request_id")
	}
	return c.server.o.Node.CancelRequest(c.ctx, c.caller.User, f.Request)
}

// resumeTurn goes on with a turn that is parked.
func (c *conn) resumeTurn(f *cancelFrame) error {
	if f.Request == "" {
		return missing("request_id")
	}
	return c.server.o.Node.ResumeRequest(c.ctx, c.caller.User, f.Request)
}
