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
	Order        search.Order  `json:"order"`
	Mode         search.Mode   `json:"mode"`
	Threshold    float64       `json:"threshold"`
	Agent        string        `json:"agent"`
	Labels       []string      `json:"labels"`
	Without      []string      `json:"without"`
	Message      string        `json:"message"`
}

type queryResponse struct {
	Hits   []hit         `json:"hits,omitempty"`
	Next   search.Cursor `json:"next"`
	Behind uint64        `json:"behind"`
	By     string        `json:"by,omitzero"`
	Notice string        `json:"notice,omitzero"`
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
	Score        float64      `json:"score,omitzero"`
	Seq          uint64       `json:"seq"`
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
	out.Next, out.Behind, out.By, out.Notice = page.Next, page.Behind, page.By, page.Notice
	for _, h := range page.Hits {
		x := hit{Line: line(h.Line), Before: linesOf(h.Before), After: linesOf(h.After), Conversation: h.Conversation, Title: h.Title,
			Interaction: h.Interaction, URI: h.URI, Labels: h.Labels.Names(), Score: h.Score, Seq: h.Seq}
		for _, s := range h.Spans {
			x.Spans = append(x.Spans, span(s))
		}
		out.Hits = append(out.Hits, x)
	}
	return out, err
}

func (in *queryRequest) query() (q search.Query, err error) {
	q = search.Query{Text: in.Query, Order: in.Order, Mode: in.Mode, Role: in.Role, Tool: in.Tool, Agent: in.Agent, Since: in.Since, Until: in.Until, After: in.After}
	switch q.Order {
	case "", search.Best, search.Newest:
	default:
		return q, fault.New(fault.Invalid, "order_unknown", "there is no order %.40q", q.Order).WithHint("use best or newest")
	}
	if err := q.Mode.Check(); err != nil {
		return q, err
	}
	if err := knownRole(q.Role); err != nil {
		return q, err
	}
	if q.Conversation, err = conversationID(in.Conversation); err != nil {
		return q, err
	}
	if in.Message != "" {
		var ok bool
		if q.Message, ok = id.Parse(in.Message); !ok {
			return q, fault.New(fault.NotFound, "message_not_found", "there is no message %.80s", in.Message).
				WithHint("use the id of a message, such as one that a hit names")
		}
	}
	if q.Labels, err = labelsOf(in.Labels); err != nil {
		return q, err
	}
	if q.Without, err = labelsOf(in.Without); err != nil {
		return q, err
	}
	if q.Threshold = in.Threshold; q.Threshold < 0 || q.Threshold > 1 {
		return q, fault.New(fault.Invalid, "threshold_invalid", "threshold=%g is out of range", q.Threshold).WithHint("use a number from 0 to 1, or leave it out")
	}
	if q.Limit, err = within("limit", in.Limit, search.MaxLimit); err == nil {
		q.Around, err = within("around", in.Around, search.MaxAround)
	}
	return q, err
}

func knownRole(r message.Role) error {
	switch r {
	case "", message.User, message.Assistant, message.Tool:
		return nil
	}
	return fault.New(fault.Invalid, "role_unknown", "there is no role %.40q", r).WithHint("use user, assistant or tool")
}

// conversationID reads the id of a conversation, which may be missing.
func conversationID(text string) (conv id.ID, err error) {
	conv, ok := id.Parse(text)
	if text != "" && !ok {
		return id.ID{}, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", text).
			WithHint("use the id of a conversation, such as one that a hit names")
	}
	return conv, nil
}

func labelsOf(names []string) (out message.Labels, err error) {
	for _, name := range names {
		l, err := message.ParseLabel(name)
		if err != nil {
			return 0, err
		}
		out |= l
	}
	return out, nil
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
