package api

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/server/httpauth"
)

// search answers with a page of the messages that match.
func (f *server) search(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	q, err := searchQuery(r.URL.Query())
	if err != nil {
		return err
	}
	page, err := f.Node.Search(r.Context(), c.User, q)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, page)
}

func searchQuery(v url.Values) (q search.Query, err error) {
	q = search.Query{Text: v.Get("q"), Role: message.Role(v.Get("role")), Tool: v.Get("tool"), After: search.Cursor(v.Get("after"))}
	switch q.Role {
	case "", message.User, message.Assistant, message.Tool:
	default:
		return q, fault.New(fault.Invalid, "role_unknown", "nobody speaks as %.40q", q.Role).WithHint("use user, assistant or tool")
	}
	if s := v.Get("conversation"); s != "" {
		var ok bool
		if q.Conversation, ok = id.Parse(s); !ok {
			return q, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80s", s).
				WithHint("GET %s/conversations lists them", Prefix)
		}
	}
	for _, t := range []struct {
		name string
		to   *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		if s := v.Get(t.name); s != "" {
			if *t.to, err = time.Parse(time.RFC3339, s); err != nil {
				return q, fault.New(fault.Invalid, "time_invalid", "%s=%.40q is no time", t.name, s).WithHint("write it as in RFC 3339: 2006-01-02T15:04:05Z")
			}
		}
	}
	if q.Limit, err = searchCount(v, "limit", 1, search.MaxLimit); err == nil {
		q.Around, err = searchCount(v, "around", 0, search.MaxAround)
	}
	return q, err
}

// searchCount reads a number; 0 where there is none.
func searchCount(v url.Values, name string, least, most int) (int, error) {
	s := v.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fault.New(fault.Invalid, name+"_invalid", "%s=%.40q is out of bounds", name, s).WithHint("use a number from %d to %d", least, most)
	}
	return n, nil
}
