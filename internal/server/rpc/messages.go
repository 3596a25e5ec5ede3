package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/server/httpauth"
	"steward/proto/searchpb"
)

// messages implements the service search.Search.
type messages struct{ node Node }

// QueryMessages implements searchpb.SearchHandler.
func (m messages) QueryMessages(ctx context.Context, in *searchpb.QueryMessagesRequest) (*searchpb.QueryMessagesResponse, error) {
	c, err := httpauth.From(ctx)
	if err != nil {
		return nil, err
	}
	q, err := queryOf(in)
	if err != nil {
		return nil, err
	}
	page, err := m.node.Search(ctx, c.User, q)
	if err != nil {
		return nil, err
	}
	out := &searchpb.QueryMessagesResponse{Hits: make([]*searchpb.Hit, len(page.Hits)), Next: string(page.Next), Behind: page.Behind}
	for i := range page.Hits {
		out.Hits[i] = hitOf(&page.Hits[i])
	}
	return out, nil
}

func queryOf(in *searchpb.QueryMessagesRequest) (q search.Query, err error) {
	q = search.Query{Text: in.GetQuery(), Role: message.Role(in.GetRole()), Tool: in.GetTool(), After: search.Cursor(in.GetAfter())}
	switch q.Role {
	case "", message.User, message.Assistant, message.Tool:
	default:
		return q, fault.New(fault.Invalid, "role_unknown", "there is no role %.40q", q.Role).WithHint("use user, assistant or tool")
	}
	if s := in.GetConversation(); s != "" {
		var ok bool
		if q.Conversation, ok = id.Parse(s); !ok {
			return q, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", s).
				WithHint("give the id of one: hits name the conversations that they are from")
		}
	}
	if q.Since, err = timeOf("since", in.GetSince()); err != nil {
		return q, err
	}
	if q.Until, err = timeOf("until", in.GetUntil()); err != nil {
		return q, err
	}
	if q.Limit, err = within("limit", in.GetLimit(), search.MaxLimit); err == nil {
		q.Around, err = within("around", in.GetAround(), search.MaxAround)
	}
	return q, err
}

func timeOf(name string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, fault.New(fault.Invalid, "time_invalid", "%s is not a time: %w", name, err).WithHint("give seconds and nanoseconds since 1970")
	}
	return t.AsTime(), nil
}

func within(name string, n int32, most int) (int, error) {
	if n < 0 || int(n) > most {
		return 0, fault.New(fault.Invalid, name+"_invalid", "%s=%d is out of bounds", name, n).WithHint("use a number from 1 to %d, or leave it out", most)
	}
	return int(n), nil
}

func hitOf(h *search.Hit) *searchpb.Hit {
	out := &searchpb.Hit{Line: lineOf(h.Line), Before: linesOf(h.Before), After: linesOf(h.After),
		Conversation: h.Conversation.String(), Title: valid(h.Title), Interaction: h.Interaction.String(),
		Uri: h.URI.String(), Labels: h.Labels.Names()}
	for _, s := range h.Spans {
		out.Spans = append(out.Spans, &searchpb.Span{From: int32(s.From), To: int32(s.To)})
	}
	return out
}

func lineOf(l search.Line) *searchpb.Line {
	return &searchpb.Line{Message: l.Message.String(), Role: string(l.Role), Tool: valid(l.Tool),
		Time: timestamppb.New(l.At), Text: valid(l.Text)}
}

func linesOf(lines []search.Line) (out []*searchpb.Line) {
	for _, l := range lines {
		out = append(out, lineOf(l))
	}
	return out
}
