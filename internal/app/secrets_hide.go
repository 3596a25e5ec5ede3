package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"steward/internal/fault"
	providerwire "steward/internal/provider/wire"
	"steward/internal/secret"
	"steward/internal/server/websocket"
	"steward/internal/settings"
)

// Hidden returns the masker that hides the secrets of this run.
func (a *App) Hidden() *secret.Masker {
	if a.masker == nil {
		a.masker = &secret.Masker{}
	}
	return a.masker
}

// Resolver returns a resolver of references to secrets. The secrets that it finds are hidden
// from then on.
func (a *App) Resolver(set *settings.Loaded) *secret.Resolver {
	return &secret.Resolver{Getenv: a.Getenv, Dir: a.Dir, Masker: a.Hidden(), Store: secret.NewStore(secret.Folder(set.Data))}
}

// learn hides the secrets that are known by now: the stored ones, the token of the
// machine's own user, and the keys in the settings and the environment.
func (a *App) learn(set *settings.Loaded) {
	if err := secret.NewStore(secret.Folder(set.Data)).Learn(a.Hidden()); err != nil {
		a.Note("steward: a secret is not used: %s", err)
	}
	a.Token(set.Data)() //nolint:errcheck // the command that needs it fails
	for _, p := range set.Providers {
		if key := p.Key.Reveal(); key != "" && !secret.IsReference(key) && secret.Check(key) == nil { // too short ones cannot be masked
			a.Hide(key, "provider key")
		}
	}
}

// Hide hides a value that was checked.
func (a *App) Hide(value, name string) {
	if err := a.Hidden().Add(name, value); err != nil {
		a.Note("steward: %s", err)
	}
}

// Declared returns a function that looks up the secrets that agents declare: the
// environment variable of that name, which may be a reference, or else the stored secret.
func (a *App) Declared(set *settings.Loaded, log *slog.Logger) func(agent, name string) (string, bool) {
	r := a.Resolver(set)
	return func(agent, name string) (string, bool) {
		ref := "store:" + name
		if v := strings.TrimSpace(a.Getenv(name)); secret.IsReference(v) {
			ref = v
		} else if v != "" {
			ref = "env:" + name
		}
		value, err := r.Resolve(context.Background(), ref)
		switch {
		case err == nil:
			return value, true
		case !fault.HasCode(err, "secret_missing") && !fault.HasCode(err, "secret_name_invalid"):
			log.Warn("a secret cannot be used", "secret", name, "agent", agent, "error", err)
		}
		return "", false
	}
}

// maskingWriter is a writer that masks secrets. Each write must be a whole text.
type maskingWriter struct {
	to     io.Writer
	masker *secret.Masker
}

func (h maskingWriter) Write(p []byte) (int, error) {
	if _, err := h.to.Write(h.masker.MaskBytes(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// modelClient returns the HTTP client for models, which masks secrets in prompts.
func (a *App) modelClient() *http.Client {
	c := a.Outside.through(providerwire.Pool())
	c.Transport = maskingTransport{c.Transport, a.Hidden()}
	return c
}

// maskingTransport masks secrets in the bodies of requests.
type maskingTransport struct {
	http.RoundTripper
	masker *secret.Masker
}

func (d maskingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || !d.masker.Any() {
		return d.RoundTripper.RoundTrip(r)
	}
	if r.GetBody != nil { // there is rarely anything to hide: check before copying a long conversation
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		found, err := d.masker.In(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		if !found {
			return d.RoundTripper.RoundTrip(r)
		}
	}
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err := body.ReadFrom(r.Body)
	if closing := r.Body.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	masked := d.masker.MaskBytes(body.Bytes())
	r = r.Clone(r.Context())
	r.ContentLength = int64(len(masked))
	r.Body = io.NopCloser(bytes.NewReader(masked))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(masked)), nil }
	return d.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections implements what http.Client looks for.
func (d maskingTransport) CloseIdleConnections() {
	if c, ok := d.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// masking masks secrets in the text of a server's answers. It passes on the chat, which takes
// over its connection, and gRPC, whose messages state their length: their content was masked
// when it was recorded.
func masking(m *secret.Masker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == websocket.Path || r.URL.Path == wyomingInside || r.URL.Path == homeGatePath {
			next.ServeHTTP(w, r)
			return
		}
		x := &maskedAnswer{ResponseWriter: w, masker: m}
		next.ServeHTTP(x, r)
		x.end()
	})
}

// maskedAnswer is an answer whose text is masked while it is written.
type maskedAnswer struct {
	http.ResponseWriter
	masker *secret.Masker
	out    *secret.Writer // nil: the answer is not text, or has not begun
	begun  bool
}

func (x *maskedAnswer) begin() {
	if x.begun {
		return
	}
	x.begun = true
	h := x.Header()
	if h.Get("Content-Length") != "" && !x.masker.Any() {
		return // a complete answer, and no secrets; during a stream a secret may become known
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	framed := strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect")
	if !framed && (strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || kind == "") {
		h.Del("Content-Length") // masking may change it
		x.out = x.masker.Writer(x.ResponseWriter)
	}
}

func (x *maskedAnswer) WriteHeader(status int) {
	x.begin()
	x.ResponseWriter.WriteHeader(status)
}

func (x *maskedAnswer) Write(p []byte) (int, error) {
	x.begin()
	if x.out == nil {
		return x.ResponseWriter.Write(p)
	}
	return x.out.Write(p)
}

// Unwrap is for http.ResponseController.
func (x *maskedAnswer) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush implements http.Flusher.
func (x *maskedAnswer) Flush() {
	x.begin()
	if f, ok := x.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (x *maskedAnswer) end() {
	if x.out != nil {
		x.out.Flush() //nolint:errcheck // who went away has no use for it
	}
}
