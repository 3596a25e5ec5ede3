package rpc

import (
	"context"
	"math"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/server/auth"
)

type itemsRequest struct {
	Vector []float32 `json:"vector"`
	Text   string    `json:"text"`
	Model  string    `json:"model"`
	Filter struct {
		Threshold    float64      `json:"threshold"`
		Limit        int          `json:"limit"`
		MaxTokens    int64        `json:"max_tokens,string"`
		Conversation string       `json:"conversation"`
		Role         message.Role `json:"role"`
		Since        time.Time    `json:"since"`
		Until        time.Time    `json:"until"`
	} `json:"filter"`
}

type itemsResponse struct {
	Items  []item   `json:"items,omitempty"`
	Models []string `json:"models,omitempty"`
	By     string   `json:"by"`
	Behind uint64   `json:"behind"`
}

// item is a search.Item.
type item struct {
	Identifier   resource.URI `json:"identifier"`
	Score        float64      `json:"score"`
	Conversation id.ID        `json:"conversation"`
	Interaction  id.ID        `json:"interaction"`
	Message      id.ID        `json:"message"`
	Role         message.Role `json:"role"`
	At           time.Time    `json:"time"`
	Text         string       `json:"text"`
	span
	Tokens int64    `json:"tokens"`
	Labels []string `json:"labels,omitempty"`
}

// queryItems serves vector.Vector.QueryItems.
func (f *Server) queryItems(ctx context.Context, in *itemsRequest) (out itemsResponse, err error) {
	c, err := auth.From(ctx)
	if err != nil {
		return out, err
	}
	q, err := in.query()
	if err != nil {
		return out, err
	}
	page, err := f.Node.QueryItems(ctx, c.User, q)
	out = itemsResponse{Models: page.Models, By: page.By, Behind: page.Behind}
	for _, x := range page.Items {
		out.Items = append(out.Items, item{Identifier: x.URI, Score: x.Score, Conversation: x.Conversation, Interaction: x.Interaction, Message: x.Message,
			Role: x.Role, At: x.At, Text: x.Text, span: span(x.Place), Tokens: x.Tokens, Labels: x.Labels.Names()})
	}
	return out, err
}

func (in *itemsRequest) query() (q search.ItemQuery, err error) {
	f := &in.Filter
	q = search.ItemQuery{Text: in.Text, Vector: in.Vector, Model: in.Model, Role: f.Role, Since: f.Since, Until: f.Until, Threshold: f.Threshold, MaxTokens: f.MaxTokens}
	if err := q.Check(); err != nil {
		return q, err
	}
	if err := knownRole(q.Role); err != nil {
		return q, err
	}
	if q.Conversation, err = conversationID(f.Conversation); err != nil {
		return q, err
	}
	if math.Abs(q.Threshold) > 1 {
		return q, fault.New(fault.Invalid, "threshold_invalid", "threshold=%g is out of range", q.Threshold).WithHint("use a number from -1 to 1, or leave it out")
	}
	if q.MaxTokens < 0 {
		return q, fault.New(fault.Invalid, "max_tokens_invalid", "max_tokens=%d is out of range", q.MaxTokens).WithHint("use a number above 0, or leave it out")
	}
	q.Limit, err = within("limit", f.Limit, search.MaxLimit)
	return q, err
}
