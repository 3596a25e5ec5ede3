package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/worklog"
)

// workLog answers with a page of tool calls, the newest first.
func (f *server) workLog(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	filter, err := workLogFilter(r.URL.Query())
	if err != nil {
		return err
	}
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	list, next, err := f.Node.WorkLog(r.Context(), c.User, filter, after, limit)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Entries []worklog.Entry `json:"entries"`
		Next    store.Cursor    `json:"next,omitzero"`
	}{append([]worklog.Entry{}, list...), next})
}

func workLogFilter(v url.Values) (f worklog.Filter, err error) {
	f = worklog.Filter{Tool: v.Get("tool"), Outcome: worklog.Outcome(v.Get("outcome"))}
	if f.Outcome != "" && !slices.Contains(worklog.Outcomes(), f.Outcome) {
		return f, fault.New(fault.Invalid, "outcome_unknown", "no call ends as %.40q", f.Outcome).WithHint("use one of %v", worklog.Outcomes())
	}
	switch s := v.Get("branches"); s {
	case "", "preferred":
	case "all":
		f.AllBranches = true
	default:
		return f, fault.New(fault.Invalid, "branches_invalid", "branches=%.40q is not known", s).WithHint("use preferred or all")
	}
	for name, to := range map[string]*id.ID{"conversation": &f.Conversation, "interaction": &f.Interaction} {
		if s := v.Get(name); s != "" {
			var ok bool
			if *to, ok = id.Parse(s); !ok {
				return f, fault.New(fault.NotFound, name+"_not_found", "there is no %s %.80q", name, s)
			}
		}
	}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if s := v.Get(name); s != "" {
			if *to, err = time.Parse(time.RFC3339, s); err != nil {
				return f, fault.New(fault.Invalid, "time_invalid", "%s=%.40q is no time", name, s).WithHint("write it as in RFC 3339: 2006-01-02T15:04:05Z")
			}
		}
	}
	return f, nil
}

// workLogEntry answers with one call and the messages that it was made in.
func (f *server) workLogEntry(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	en, msgs, err := f.Node.WorkLogEntry(r.Context(), c.User, r.PathValue("message")+"/"+r.PathValue("block"))
	if err != nil {
		return err
	}
	out := struct {
		Entry    worklog.Entry     `json:"entry"`
		Messages []json.RawMessage `json:"messages"`
	}{Entry: en}
	for _, m := range msgs {
		out.Messages = append(out.Messages, message.Append(nil, m))
	}
	return reply(w, http.StatusOK, out)
}
