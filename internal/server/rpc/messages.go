package rpc

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/server/auth"
)

type queryRequest struct {
	Query        string        `json:"query"`
	Conversation string        `json:"conversation"`
	Role         message.Role  `json:"role"`
	Tool         string        `json:"tool"`
	Since        time.Time     `json:"since"`
	Until        time.Time     `json:"until"`
	Around       int           `json:"around"`
	Limit        int           `json:"limit"`
	After        search.Cursor `json:"after"`
}

type queryResponse struct {
	Hits   []hit         `json:"hits,omitempty"`
	Next   search.Cursor `json:"next"`
	Behind uint64        `json:"behind"`
}

// hit is a search.Hit. Its parts name their members differently than the HTTP API does.
type hit struct {
	Line         line         `json:"line"`
	Spans        []span       `json:"spans,omitempty"`
	Before       []line       `json:"before,omitempty"`
	After        []line       `json:"after,omitempty"`
	Conversation id.ID        `json:"conversation"`
	Title        string       `json:"title"`
	Interaction  id.ID        `json:"interaction"`
	URI          resource.URI `json:"uri"`
	Labels       []string     `json:"labels,omitempty"`
}

type line struct {
	Message id.ID        `json:"message"`
	Role    message.Role `json:"role"`
	Tool    string       `json:"tool"`
	At      time.Time    `json:"time"`
	Text    string       `json:"text"`
}

type span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// queryMessages serves search.Search.QueryMessages.
func (f *Server) queryMessages(ctx context.Context, in *queryRequest) (out queryResponse, err error) {
	c, err := auth.From(ctx)
	if err != nil {
		return out, err
	}
	q, err := in.query()
	if err != nil {
		return out, err
	}
	page, err := f.Node.Search(ctx, c.User, q)
	out.Next, out.Behind = page.Next, page.Behind
	for _, h := range page.Hits {
		x := hit{Line: line(h.Line), Before: linesOf(h.Before), After: linesOf(h.After), Conversation: h.Conversation, Title: h.Title,
			Interaction: h.Interaction, URI: h.URI, Labels: h.Labels.Names()}
		for _, s := range h.Spans {
			x.Spans = append(x.Spans, span(s))
		}
		out.Hits = append(out.Hits, x)
	}
	return out, err
}

func (in *queryRequest) query() (q search.Query, err error) {
	q = search.Query{Text: in.Query, Order: search.Newest, Role: in.Role, Tool: in.Tool, Since: in.Since, Until: in.Until, After: in.After}
	switch q.Role {
	case "", message.User, message.Assistant, message.Tool:
	default:
		return q, fault.New(fault.Invalid, "role_unknown", "there is no role %.40q", q.Role).WithHint("use user, assistant or tool")
	}
	if in.Conversation != "" {
		var ok bool
		if q.Conversation, ok = id.Parse(in.Conversation); !ok {
			return q, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", in.Conversation).
				WithHint("use the id of a conversation, such as one that a hit names")
		}
	}
	if q.Limit, err = within("limit", in.Limit, search.MaxLimit); err == nil {
		q.Around, err = within("around", in.Around, search.MaxAround)
	}
	return q, err
}

func within(name string, n, most int) (int, error) {
	if n < 0 || n > most {
		return 0, fault.New(fault.Invalid, name+"_invalid", "%s=%d is out of range", name, n).WithHint("use a number from 1 to %d, or leave it out", most)
	}
	return n, nil
}

func linesOf(lines []search.Line) (out []line) {
	for _, l := range lines {
		out = append(out, line(l))
	}
	return out
}
