package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"steward/internal/search"
)

// Search asks the Steward that serves.
func (r *remote) Search(ctx context.Context, q search.Query) (search.Page, error) {
	v := url.Values{"q": {q.Text}, "around": {strconv.Itoa(q.Around)}, "limit": {strconv.Itoa(q.PageSize())}}
	for name, value := range map[string]string{
		"conversation": q.Conversation.String(), "role": string(q.Role), "tool": q.Tool, "after": string(q.After),
		"since": wireTime(q.Since), "until": wireTime(q.Until),
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	var page search.Page
	err := r.call(ctx, http.MethodGet, "/search?"+v.Encode(), nil, &page)
	return page, err
}

func wireTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
