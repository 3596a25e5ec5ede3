// Package services is the server for agents' programs and for other Stewards: state, db, log, user and
// llm over HTTP. docs/guides/services.md describes it.
package services

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/server/auth"
	"steward/internal/service"
)

// Options configure the server. Services is required.
type Options struct {
	Services *service.Manager
	Tokens   *Tokens
	// Known returns what a user may use with an API key, as the agent in the Steward-Agent header. If it
	// is nil, only tokens are accepted.
	Known func(ctx context.Context, user, agent string) (Grant, error)
	// Chat answers OpenAI's chat completions for an authenticated caller (auth.From). If it is nil,
	// there is no llm service.
	Chat   http.Handler
	Logger *slog.Logger // nil: slog.Default()
}

type server struct{ Options }

// Prefix is the path below which the server is served.
const Prefix = "/services/v1"

const maxBody = 1 << 20

// Handler returns the server. It checks tokens itself. Callers that a guard has authenticated before it
// (auth.From) use an API key.
func Handler(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	f := &server{o}
	mux := http.NewServeMux()
	for pattern, rt := range f.routes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Prefix+path, func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, rt.service, rt.serve) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		auth.WriteError(w, r, o.Logger, fault.New(fault.NotFound, "unknown_url", "there is no %s %.200s", r.Method, r.URL.Path).
			WithHint("%s has /state, /db/query, /db/exec, /log, /user and /llm/chat/completions", Prefix))
	})
	return mux
}

// route is a handler and the service that it belongs to.
type route struct {
	service service.Name
	serve   func(g Grant, w http.ResponseWriter, r *http.Request) (any, error)
}

// Routes returns the patterns of all routes, such as "GET /services/v1/state", sorted. It reads the
// table that Handler uses.
func Routes() []string {
	var all []string
	for pattern := range (&server{}).routes() {
		method, path, _ := strings.Cut(pattern, " ")
		all = append(all, method+" "+Prefix+path)
	}
	slices.Sort(all)
	return all
}

// routes are the routes by method and path below Prefix.
func (f *server) routes() map[string]route {
	return map[string]route{
		"GET /state":                 {service.State, f.list},
		"GET /state/{key...}":        {service.State, f.get},
		"PUT /state/{key...}":        {service.State, f.put},
		"DELETE /state/{key...}":     {service.State, f.delete},
		"POST /db/query":             {service.DB, f.query},
		"POST /db/exec":              {service.DB, f.exec},
		"POST /log":                  {service.Logging, f.log},
		"GET /user":                  {service.User, f.user},
		"POST /llm/chat/completions": {service.LLM, f.complete},
	}
}

// answered is returned by a route that has written its answer itself.
type answered struct{}

func (f *server) serve(w http.ResponseWriter, r *http.Request, n service.Name, do func(Grant, http.ResponseWriter, *http.Request) (any, error)) {
	g, err := f.grant(r)
	if err == nil {
		err = g.may(n)
	}
	var v any
	if err == nil {
		v, err = do(g, w, r)
	}
	if err != nil {
		auth.WriteError(w, r, f.Logger, err)
		return
	}
	switch v := v.(type) {
	case answered:
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case json.RawMessage:
		auth.Reply(w, http.StatusOK, v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			auth.WriteError(w, r, f.Logger, err)
			return
		}
		auth.Reply(w, http.StatusOK, b)
	}
}

// grant authenticates the caller: a program by its token, or a user by a key.
func (f *server) grant(r *http.Request) (Grant, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if ok && strings.HasPrefix(token, tokenMark) && f.Tokens != nil {
		return f.Tokens.Find(token, time.Now())
	}
	caller, err := auth.From(r.Context())
	if err == nil && slices.Contains(caller.Roles, policy.RoleGuest) && r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/db/query") && !strings.HasSuffix(r.URL.Path, "/llm/chat/completions") {
		return Grant{}, fault.New(fault.Denied, "guest_changes_nothing", "guests cannot change anything").WithHint("use the key of a member or a service")
	}
	if err == nil && r.Method != http.MethodGet && r.Method != http.MethodDelete {
		if err := caller.Store(r.Context(), max(r.ContentLength, 0)); err != nil {
			return Grant{}, err
		}
	}
	if err != nil || f.Known == nil {
		return Grant{}, fault.New(fault.Unauthentic, "service_token_missing", "the services require a token").
			WithHint("send the STEWARD_TOKEN of the call as Authorization: Bearer …")
	}
	return f.Known(r.Context(), caller.User, r.Header.Get("Steward-Agent"))
}

func (f *server) list(g Grant, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit := 0
	if s := q.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 0 {
			return nil, fault.New(fault.Invalid, "limit_invalid", "the limit %.20q is not a number", s).WithHint("give a whole number")
		}
	}
	keys, err := f.Services.List(r.Context(), g.Caller, q.Get("prefix"), q.Get("after"), limit)
	return map[string]any{"keys": keys}, err
}

func (f *server) get(g Grant, _ http.ResponseWriter, r *http.Request) (any, error) {
	return f.Services.Get(r.Context(), g.Caller, r.PathValue("key"))
}

func (f *server) put(g Grant, w http.ResponseWriter, r *http.Request) (any, error) {
	body, err := auth.ReadBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	return nil, f.Services.Put(r.Context(), g.Caller, r.PathValue("key"), body)
}

func (f *server) delete(g Grant, _ http.ResponseWriter, r *http.Request) (any, error) {
	return nil, f.Services.Delete(r.Context(), g.Caller, r.PathValue("key"))
}

func (f *server) query(g Grant, w http.ResponseWriter, r *http.Request) (any, error) {
	var s service.Statement
	if err := auth.Decode(w, r, maxBody, &s); err != nil {
		return nil, err
	}
	return f.Services.Query(r.Context(), g.Caller, s.SQL, s.Args...)
}

func (f *server) exec(g Grant, w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Statements []service.Statement `json:"statements"`
	}
	if err := auth.Decode(w, r, maxBody, &in); err != nil {
		return nil, err
	}
	n, err := f.Services.Exec(r.Context(), g.Caller, in.Statements...)
	return map[string]any{"changed": n}, err
}

func (f *server) log(g Grant, w http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Level   string         `json:"level"`
		Message string         `json:"message"`
		Attrs   map[string]any `json:"attrs"`
	}
	if err := auth.Decode(w, r, maxBody, &in); err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if in.Level != "" {
		if err := level.UnmarshalText([]byte(in.Level)); err != nil {
			return nil, fault.New(fault.Invalid, "level_invalid", "%.20q is not a level", in.Level).WithHint("write debug, info, warn or error")
		}
	}
	l, err := f.Services.Logger(g.Agent)
	if err != nil {
		return nil, err
	}
	attrs := []slog.Attr{slog.String("user", g.User)}
	for k, v := range in.Attrs {
		attrs = append(attrs, slog.Any(k, v))
	}
	l.LogAttrs(r.Context(), level, in.Message, attrs...)
	return nil, nil
}

func (f *server) user(g Grant, _ http.ResponseWriter, r *http.Request) (any, error) {
	return f.Services.Profile(r.Context(), g.Caller)
}

// complete answers a request with the model of the agent's llm service, whatever model the program names.
func (f *server) complete(g Grant, w http.ResponseWriter, r *http.Request) (any, error) {
	if f.Chat == nil {
		return nil, fault.New(fault.Unsupported, "service_unsupported", "there is no llm service")
	}
	if strings.HasPrefix(g.Model, "agent:") {
		return nil, fault.New(fault.Denied, "service_unsupported", "the llm service must be a model, not %.80q", g.Model).
			WithHint("name a model under services in agent.yaml")
	}
	body, err := auth.ReadBody(w, r, auth.MaxBody)
	if err != nil {
		return nil, err
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil || in == nil {
		return nil, fault.New(fault.Invalid, "body_invalid", "the request is not a JSON object").WithHint("send a chat completions request")
	}
	delete(in, "metadata")                 // it can continue a conversation, which only the user may do
	in["model"], _ = json.Marshal(g.Model) // a string: cannot fail
	if body, err = json.Marshal(in); err != nil {
		return nil, err
	}
	r = r.Clone(auth.With(r.Context(), auth.Caller{User: g.User}))
	r.Header = http.Header{"Content-Type": {"application/json"}}
	r.URL.Path, r.ContentLength, r.Body = "/v1/chat/completions", int64(len(body)), io.NopCloser(bytes.NewReader(body))
	f.Chat.ServeHTTP(w, r)
	return answered{}, nil
}
