// Package openai is a server for OpenAI's API: chat completions, responses, models and embeddings
// (https://platform.openai.com/docs/api-reference). Programs written for that API can use Steward's
// models and continue Steward's conversations. docs/reference/openai.md says what is supported.
package openai

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/internal/provider/wire"
	"steward/internal/server/auth"
	"steward/internal/turn"
)

// Node is the part of the runtime that the server uses.
type Node interface {
	Models(ctx context.Context) (found llm.Listing, aliases []string)
	Agents(ctx context.Context) []kits.AgentView
	Resolve(name string) (llm.Resolved, error)
	FitRequest(ctx context.Context, models []string, r *llm.Request, msgs []*message.Message, whole bool) ([]*message.Message, error)
	Embed(ctx context.Context, model string, texts []string) (llm.Vectors, error)
	ReadAttached(ctx context.Context, user, model string, content []message.Block) error
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
	Watch(ctx context.Context, user string, conversation id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
}

// Options configure the server. Node is required; zero values are good defaults for the rest.
type Options struct {
	Node      Node
	MaxBody   int64          // bytes of a request; 0: auth.MaxBody
	KeepAlive time.Duration  // interval of keep-alives in a silent stream; 0: 15 seconds
	Labels    message.Labels // of everything that is sent to a model outside a conversation
	Logger    *slog.Logger
}

type server struct {
	Options
	form  wire.Codec // the form of clients' messages
	items wire.Codec // the form of clients' items
}

// Handler returns the server, which serves /v1/chat/completions, /v1/responses, /v1/models and
// /v1/embeddings.
// Mount it behind a auth.Guard with WriteError.
func Handler(o Options) http.Handler {
	if o.KeepAlive <= 0 {
		o.KeepAlive = 15 * time.Second
	}
	f := &server{Options: o, form: form(openai.Chat), items: form(openai.Responses)}
	mux := http.NewServeMux()
	for pattern, h := range f.routes() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(path, f.only(method, h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, r, fault.New(fault.NotFound, "unknown_url", "there is no %s %.200s", r.Method, r.URL.Path).
			WithHint("use /v1/chat/completions, /v1/responses, /v1/models or /v1/embeddings"))
	})
	return mux
}

// serve answers one request of a user.
type serve func(w http.ResponseWriter, r *http.Request, user string) error

// Routes returns the patterns of all routes, such as "GET /v1/models", sorted. It reads Handler's
// own table.
func Routes() []string { return slices.Sorted(maps.Keys((&server{}).routes())) }

func (f *server) routes() map[string]serve {
	return map[string]serve{
		"POST /v1/chat/completions": f.chat,
		"POST /v1/responses":        f.respond,
		"POST /v1/embeddings":       f.embeddings,
		"GET /v1/models":            f.models,
		"GET /v1/models/{id...}":    f.model,
	}
}

// only returns a handler for one method that requires an authenticated caller.
func (f *server) only(method string, serve serve) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := auth.From(r.Context())
		switch {
		case err != nil:
		case r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead):
			w.Header().Set("Allow", method)
			writeError(w, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "method_not_allowed", "%s supports only %s", r.URL.Path, method))
			return
		default:
			err = serve(w, r, caller.User)
		}
		if err != nil {
			auth.Log(r, f.Logger, err)
			WriteError(w, r, err)
		}
	})
}

// WriteError answers with an error in OpenAI's form.
func WriteError(w http.ResponseWriter, _ *http.Request, err error) {
	e := auth.Public(err)
	writeError(w, status(e), e)
}

func writeError(w http.ResponseWriter, status int, e *fault.Error) {
	auth.RetryAfter(w.Header(), e)
	if status >= 400 && !e.Recoverable() && (status == http.StatusTooManyRequests || status >= 500) {
		w.Header().Set("X-Should-Retry", "false") // OpenAI's own clients respect it
	}
	auth.Reply(w, status, append(errorBody(status, e), '\n'))
}

// status returns the HTTP status that OpenAI's clients expect for an error.
func status(e *fault.Error) int {
	switch {
	case e.Code == "auth_failed": // the provider's key is at fault, not the caller's
		return http.StatusBadGateway
	case e.Code == "media_type":
		return auth.StatusOf(e)
	case e.Code == "context_too_long", e.Kind == fault.Unsupported:
		return http.StatusBadRequest
	}
	return auth.Status(e.Kind)
}

// errorBody returns the object {"error":{message, type, param, code}}.
func errorBody(status int, e *fault.Error) []byte {
	var o struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    string  `json:"code"`
		} `json:"error"`
	}
	o.Error.Message, o.Error.Type, o.Error.Code = e.Error(), "invalid_request_error", e.Code
	switch {
	case status == http.StatusUnauthorized:
		o.Error.Code = "invalid_api_key"
	case e.Code == "context_too_long":
		o.Error.Code = "context_length_exceeded"
	case e.Kind == fault.Exhausted:
		o.Error.Type = "insufficient_quota"
	case status == http.StatusTooManyRequests:
		o.Error.Type = "rate_limit_error"
	case status >= 499:
		o.Error.Type = "server_error"
	}
	if p := param(e); p != "" {
		o.Error.Param = &p
	}
	return encode(o)
}

// param returns the name of the invalid parameter in OpenAI's notation: "messages[0].content".
func param(e *fault.Error) string {
	if p, ok := e.Details["param"].(string); ok {
		return p
	}
	pointer, _ := e.Details["member"].(string)
	var b strings.Builder
	for tok := range jsontext.Pointer(pointer).Tokens() {
		switch {
		case strings.Trim(tok, "0123456789") == "":
			b.WriteString("[" + tok + "]")
		case b.Len() > 0:
			b.WriteString("." + tok)
		default:
			b.WriteString(tok)
		}
	}
	return b.String()
}

// bad returns the error for an invalid value of a parameter.
func bad(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "invalid_value", format, args...).Detail("param", param)
}

// unsupported returns the error for a parameter, or a value of one, that Steward does not support.
// Ignoring it would answer a different question.
func unsupported(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Unsupported, "unsupported_parameter", format, args...).Detail("param", param)
}
