// Package api is the server for Steward's own command line and other programs:
// plain JSON over HTTP, under /api/v1. docs/api.md describes it.
package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/server/httpauth"
	"steward/internal/store"
	"steward/internal/worklog"
)

// Node is what the server needs of the runtime.
type Node interface {
	Conversations(ctx context.Context, user string, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error)
	Conversation(ctx context.Context, user string, conv id.ID) (record.Conversation, error)
	ReadMessages(ctx context.Context, user string, conv id.ID, r runtime.Reading) ([]conversation.Entry, store.Cursor, error)
	FindCall(ctx context.Context, user, callID string) ([]conversation.Called, error)
	Rename(ctx context.Context, user string, conv id.ID, title string) (record.Conversation, error)
	Delete(ctx context.Context, user string, conv id.ID) error
	Erase(ctx context.Context, user string, conv id.ID, names ...string) error
	EraseMessages(ctx context.Context, user string, conv id.ID, msgs ...id.ID) error
	Exchanger
	Eraser
	Models(ctx context.Context) (found llm.Listing, aliases []string)
	Search(ctx context.Context, user string, q search.Query) (search.Page, error)
	WorkLog(ctx context.Context, user string, f worklog.Filter, after store.Cursor, limit int) ([]worklog.Entry, store.Cursor, error)
	History
	Requester
	Approver
	WorkLogEntry(ctx context.Context, user, ref string) (worklog.Entry, []*message.Message, error)
}

// Identity is what the server needs to know of users; identity.Registry is one.
type Identity interface {
	Create(ctx context.Context, user, name string, expires time.Time) (identity.Key, string, error)
	List(ctx context.Context, user string) ([]identity.Key, error)
	Revoke(ctx context.Context, key id.ID) error
	Profile(ctx context.Context, user string) (identity.Profile, error)
	SetProfile(ctx context.Context, user string, p identity.Profile) (identity.Profile, error)
}

// Options of the server. Node and Identity are needed.
type Options struct {
	Node     Node
	Identity Identity
	Agents   catalog.Approver // nil: there are no agents
	Judge    policy.Judge     // who may decide about agents; nil: administrators
	Logger   *slog.Logger

	People    People    // nil: there are no users to manage
	Resources Resources // nil: there are none
	Audit     Audit     // nil: the log is not audited
}

// maxBody is enough for what this server takes.
const maxBody = 64 << 10

// Prefix is where the server is to be mounted.
const Prefix = "/api/v1"

type server struct {
	Options
	mux *http.ServeMux
}

// serve answers one request of a caller.
type serve func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error

// Handler returns the server, which serves what lies below Prefix. Mount it
// behind a httpauth.Guard.
func Handler(o Options) http.Handler {
	f := &server{o, http.NewServeMux()}
	for pattern, h := range f.routes() {
		route, params, _ := strings.Cut(pattern, "?")
		method, path, _ := strings.Cut(route, " ")
		f.mux.Handle(method+" "+Prefix+path, f.handle(h, params))
	}
	f.mux.HandleFunc("/", f.absent)
	return f.mux
}

// Routes returns the patterns of all that the server serves, such as
// "GET /api/v1/conversations/{id}", in order. It is Handler's own table, so
// that what is said of each route can be held against it.
func Routes() []string {
	var all []string
	for pattern := range (&server{}).routes() {
		route, _, _ := strings.Cut(pattern, "?")
		method, path, _ := strings.Cut(route, " ")
		all = append(all, method+" "+Prefix+path)
	}
	slices.Sort(all)
	return all
}

// routes are what the server serves, by method and path below Prefix, and after
// a question mark the names of the parameters that a route takes, joined by &;
// those that may be given several times have a * behind them.
func (f *server) routes() map[string]serve {
	routes := f.histories()
	maps.Copy(routes, f.agents())
	maps.Copy(routes, f.asking())
	maps.Copy(routes, f.actions())
	maps.Copy(routes, f.accounts())
	maps.Copy(routes, f.tree())
	maps.Copy(routes, f.audits())
	maps.Copy(routes, f.policies())
	maps.Copy(routes, map[string]serve{
		"GET /conversations?after&limit":                                                  f.conversations,
		"GET /conversations/{id}":                                                         f.conversation,
		"PATCH /conversations/{id}":                                                       f.rename,
		"DELETE /conversations/{id}?erase":                                                f.delete,
		"GET /conversations/{id}/messages?branch&after&limit&reverse&deleted":             f.messages,
		"GET /conversations/{id}/export?format&mask_private":                              f.export,
		"GET /messages?call":                                                              f.called,
		"POST /import?name&format":                                                        f.importChats,
		"POST /convert?from&to":                                                           f.convert,
		"GET /search?q&role&tool&conversation&since&until&limit&around&after":             f.search,
		"GET /log?tool&outcome&branches&conversation&interaction&since&until&after&limit": f.workLog,
		"GET /log/{message}/{block}":                                                      f.workLogEntry,
		"GET /requests?all&all_users&limit":                                               f.requests,
		"GET /requests/{id}":                                                              f.request,
		"DELETE /requests/{id}?user":                                                      f.cancelRequest,
		"POST /requests/{id}/resume?user":                                                 f.resumeRequest,
		"GET /keys?user":                                                                  f.keys,
		"POST /keys":                                                                      f.createKey,
		"DELETE /keys/{id}":                                                               f.revokeKey,
		"GET /profile":                                                                    f.profile,
		"PUT /profile":                                                                    f.setProfile,
		"GET /models":                                                                     f.models,
	})
	return routes
}

func (f *server) handle(h serve, params string) http.Handler {
	known := strings.FieldsFunc(params, func(r rune) bool { return r == '&' })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := httpauth.From(r.Context())
		if err == nil {
			err = understood(r.URL, known)
		}
		if err == nil {
			err = h(w, r, c)
		}
		if own, here := w.(ErrorTaker); err != nil && here {
			own.Fail(err)
		} else if err != nil {
			httpauth.WriteError(w, r, f.Logger, err)
		}
	})
}

// ErrorTaker is an http.ResponseWriter of a caller in the same process, who
// takes errors as they are, also those that an answer has begun before.
type ErrorTaker interface{ Fail(err error) }

// understood refuses a query of which a part would be passed over: a parameter
// that the route does not have, or has once and is given twice.
func understood(u *url.URL, known []string) error {
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.New(fault.Invalid, "query_invalid", "the query of the address cannot be read: %w", err).WithHint("escape what stands in it")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(known, name+"*"):
		case !slices.Contains(known, name):
			e := fault.New(fault.Invalid, "parameter_unknown", "there is no parameter %.40q here", name).Detail("parameter", name)
			if len(known) == 0 {
				return e.WithHint("leave it out: there are none")
			}
			return e.WithHint("use %s", strings.ReplaceAll(strings.Join(known, ", "), "*", ""))
		case len(given[name]) > 1:
			return fault.New(fault.Invalid, "parameter_repeated", "%s is given %d times", name, len(given[name])).
				WithHint("give it once").Detail("parameter", name)
		}
	}
	return nil
}

// absent answers what no pattern matches: the path, or its method.
func (f *server) absent(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = m
		if _, pattern := f.mux.Handler(&probe); pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		httpauth.WriteError(w, r, f.Logger, fault.New(fault.NotFound, "unknown_url", "there is no %.200s", r.URL.Path).
			WithHint("docs/api.md lists what there is"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	e := fault.New(fault.Invalid, "method_not_allowed", "%.200s does not take %.20s", r.URL.Path, r.Method).WithHint("use %s", strings.Join(allowed, " or "))
	httpauth.Reply(w, http.StatusMethodNotAllowed, append(httpauth.AppendMembers([]byte(`{"error":{`), e), "}}\n"...))
}

// reply answers with a value as JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.Internal, "answer_unwritable", "the answer cannot be written: %w", err)
	}
	httpauth.Reply(w, status, append(b, '\n'))
	return nil
}

// pathID reads the id in a request's path. One that cannot be an id is not there.
func pathID(r *http.Request, what string) (id.ID, error) {
	x, ok := id.Parse(r.PathValue("id"))
	if !ok || x.Zero() {
		return x, fault.New(fault.NotFound, what+"_not_found", "there is no %s %.80s", what, r.PathValue("id")).
			WithHint("GET %s/%ss lists them", Prefix, what)
	}
	return x, nil
}

const maxPage = 1000

// page reads where a page begins and how long it may be.
func page(r *http.Request) (store.Cursor, int, error) {
	q := r.URL.Query()
	limit := store.DefaultLimit
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxPage {
			return "", 0, fault.New(fault.Invalid, "limit_invalid", "%.40q is no limit", s).WithHint("use a number from 1 to %d", maxPage)
		}
		limit = n
	}
	return store.Cursor(q.Get("after")), limit, nil
}

// admin refuses callers who may not manage keys.
func admin(c httpauth.Caller) error {
	if !c.Admin {
		return fault.New(fault.Denied, "admin_only", "keys are managed on the machine that Steward runs on").
			WithHint("use steward keys there")
	}
	return nil
}

// Health returns the handler of /healthz (the process answers) and /readyz
// (it can serve: ready has no error). They tell no secrets and need no key.
func Health(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		httpauth.Reply(w, http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := ready(ctx); err != nil {
			e := fault.Of(err) // the code only: the text may name paths
			b, _ := json.Marshal(map[string]string{"status": "unavailable", "code": e.Code})
			httpauth.Reply(w, http.StatusServiceUnavailable, append(b, '\n'))
			return
		}
		httpauth.Reply(w, http.StatusOK, []byte("{\"status\":\"ready\"}\n"))
	})
	return mux
}

const readyTimeout = 5 * time.Second
