package client

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
)

// maxPage is the largest number of items in one answer of the API.
const maxPage = 1000

// List reads a list page by page until it has limit items or the list ends. member is the member of
// the answers that holds the items. next is the position after the last item read, or empty at the
// end of the list.
func List[T any](ctx context.Context, c *Client, route, member string, p Params, limit int) (all []T, next string, err error) {
	all = []T{}
	for {
		var page []T
		page, next, err = onePage[T](ctx, c, route, member, p, min(limit-len(all), maxPage), next)
		if err != nil {
			return nil, "", err
		}
		if all = append(all, page...); next == "" || len(all) >= limit {
			return all, next, nil
		}
	}
}

// Each yields the items of a list. It fetches pages as they are consumed.
func Each[T any](ctx context.Context, c *Client, route, member string, p Params, size int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for next := ""; ; {
			page, more, err := onePage[T](ctx, c, route, member, p, min(size, maxPage), next)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range page {
				if !yield(x, nil) {
					return
				}
			}
			if next = more; next == "" {
				return
			}
		}
	}
}

func onePage[T any](ctx context.Context, c *Client, route, member string, p Params, limit int, after string) (list []T, next string, err error) {
	q := Params{"limit": strconv.Itoa(limit)}
	for name, value := range p {
		q[name] = value
	}
	if after != "" {
		q["after"] = after
	}
	var page map[string]json.RawMessage
	if err := c.Call(ctx, route, q, nil, &page); err != nil {
		return nil, "", err
	}
	err = json.Unmarshal(page[member], &list)
	if more, ok := page["next"]; ok && err == nil {
		err = json.Unmarshal(more, &next)
	}
	if err != nil {
		err = c.unreachable(err)
	}
	return list, next, err
}

// whole reads a list that the API returns in one answer.
func whole[T any](ctx context.Context, c *Client, route, member string, p Params) (list []T, err error) {
	var page map[string]json.RawMessage
	if err := c.Call(ctx, route, p, nil, &page); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(page[member], &list); err != nil {
		return nil, c.unreachable(err)
	}
	return list, nil
}
