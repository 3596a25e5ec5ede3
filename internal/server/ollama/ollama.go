// Package ollama is a server for Ollama's API (https://github.com/ollama/ollama/blob/main/docs/api.md), so that
// programs written for Ollama, such as Home Assistant's integration, use Steward and its agents as models.
//
// Two kinds of models are offered. An alias of the settings, such as default:latest, is asked as it is: the
// client's messages go to the model, and what the model calls are the client's own tools, whose calls go back to the
// client. An agent, such as agent:assistant, answers in a turn with its own tools, of which the client sees
// nothing but the answer. Both are stateless for the client, which sends the whole conversation each time.
// Models of providers that no alias names cannot be used, so that the settings say what strangers can spend.
//
// The protocol has no credential. The server is off until the settings name a listening address, the peers that
// may connect (auth.Peers), and the one user as whom all of them speak. Turns are unattended: a call that policy
// would ask about is not made, and nothing can be approved or decided here. Everything is bounded: the bytes of a
// request, the connections, and the requests that are answered at the same time.
//
// docs/reference/ollama.md says what is supported, field by field.
package ollama

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/ollama"
	"steward/internal/provider/wire"
	"steward/internal/server/auth"
)

// Node is the part of the runtime that the server uses.
type Node interface {
	auth.Sender
	Aliases() []string
	Agents(ctx context.Context) []kits.AgentView
	Resolve(name string) (llm.Resolved, error)
	Window(models []string) int
	FitRequest(ctx context.Context, models []string, r *llm.Request, msgs []*message.Message, whole bool) ([]*message.Message, error)
	Embed(ctx context.Context, model string, texts []string) (llm.Vectors, error)
	ReadAttached(ctx context.Context, user, model string, content []message.Block) error
}

// Options configure the server. Node is required; zero values are good defaults for the rest.
type Options struct {
	Node     Node
	MaxBody  int64         // bytes of a request; 0: 16 MB
	Parallel int           // requests to models that are answered at the same time; 0: 4
	Timeout  time.Duration // of one answer; 0: ten minutes
	Logger   *slog.Logger
}

type server struct {
	Options
	form  wire.Codec    // the form of clients' messages
	slots chan struct{} // one for each request to a model
	began time.Time     // when the server began, which is when its models were "modified"
}

// Version is the version of Ollama whose API the server follows. Clients compare it with what they need.
const Version = "0.12.6"

// Handler returns the server. Mount it behind auth.Guard.WrapUser with WriteError, and listen for auth.Peers alone.
func Handler(o Options) http.Handler {
	if o.MaxBody <= 0 {
		o.MaxBody = 16 << 20
	}
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{Options: o, form: ollama.New(ollama.Options{}).Codec(""), slots: make(chan struct{}, o.Parallel), began: time.Now()}
	s.form.Check = check
	mux := http.NewServeMux()
	for pattern, h := range s.routes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(path, s.only(method, h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) { // how clients look for a server
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "Ollama is running")
			return
		}
		WriteError(w, r, fault.New(fault.NotFound, "unknown_url", "there is no %s %.200s", r.Method, r.URL.Path).
			WithHint("use /api/chat, /api/generate, /api/embed, /api/tags, /api/show, /api/ps or /api/version"))
	})
	return mux
}

// serve answers one request.
type serve func(w http.ResponseWriter, r *http.Request, caller auth.Caller) error

// Routes returns the patterns of all routes, such as "GET /api/tags", sorted. It reads Handler's own table.
func Routes() []string { return slices.Sorted(maps.Keys((&server{}).routes())) }

func (s *server) routes() map[string]serve {
	return map[string]serve{
		"POST /api/chat":       s.chat,
		"POST /api/generate":   s.generate,
		"POST /api/embed":      s.embed,
		"POST /api/embeddings": s.embedOne,
		"POST /api/show":       s.show,
		"POST /api/pull":       s.pull,
		"GET /api/tags":        s.tags,
		"GET /api/ps":          s.running,
		"GET /api/version":     s.version,
	}
}

// only returns a handler for one method that requires an authenticated caller.
func (s *server) only(method string, h serve) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := auth.From(r.Context())
		if err == nil && r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			auth.Reply(w, http.StatusMethodNotAllowed, errorBody(fault.New(fault.Invalid, "method_not_allowed", "%s supports only %s", r.URL.Path, method)))
			return
		}
		if err == nil {
			err = h(w, r, caller)
		}
		if err != nil {
			auth.Log(r, s.Logger, err)
			WriteError(w, r, err)
		}
	})
}

// WriteError answers with an error in Ollama's form.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	e := auth.Public(err)
	auth.RetryAfter(w.Header(), e)
	auth.Reply(w, status(e), errorBody(e))
}

// status returns the HTTP status that Ollama's clients expect for an error.
func status(e *fault.Error) int {
	switch {
	case e.Code == "auth_failed": // the provider's key is at fault, not the caller's
		return http.StatusBadGateway
	case e.Code == "context_too_long", e.Kind == fault.Unsupported:
		return http.StatusBadRequest
	}
	return auth.Status(e.Kind)
}

// errorBody returns the object {"error": "…"}: clients show the text to a person.
func errorBody(e *fault.Error) []byte {
	return line(struct {
		Error string `json:"error"`
	}{e.Error()})
}

// line writes an object on a line of its own. Invalid UTF-8 becomes U+FFFD; these types have no other errors.
func line(v any) []byte {
	b, _ := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false))
	return append(b, '\n')
}

func reply(w http.ResponseWriter, v any) error {
	auth.Reply(w, http.StatusOK, line(v))
	return nil
}

// read reads the body of a request as JSON, whatever its type is called: curl sends none, and Ollama asks for none.
// A web page cannot use this, because the guard has refused requests of foreign origins.
func (s *server) read(w http.ResponseWriter, r *http.Request, v any) (size int, err error) {
	r.Header.Set("Content-Type", "application/json")
	body, err := auth.ReadBody(w, r, s.MaxBody)
	if err != nil {
		return 0, err
	}
	return len(body), auth.UnmarshalKnown(body, v)
}

// enter waits until a request may be answered, and bounds its time. leave ends it.
func (s *server) enter(ctx context.Context) (bounded context.Context, leave func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, s.Timeout)
	select {
	case s.slots <- struct{}{}:
		return bounded, func() { <-s.slots; cancel() }, nil
	case <-bounded.Done():
		cancel()
		return nil, nil, fault.New(fault.Unavailable, "server_busy", "server busy, please try again").Retrying(fault.RetryBackoff, 0)
	}
}

// bad returns the error for a request that cannot be used.
func bad(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "invalid_value", format, args...)
}
