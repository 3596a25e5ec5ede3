// Package hooks lets other programs begin jobs: a POST to /hooks/ID is a webhook.
//
// A call has no credential of a user. It is signed with the secret of the webhook, as Stripe and others do it:
//
//	X-Steward-Signature: t=SECONDS,v1=HEX
//
// HEX is the HMAC-SHA256 of "SECONDS.BODY" under the secret, and SECONDS the Unix time of the call. So nobody
// without the secret can call, change a body, or use a call of yesterday: it is refused more than five minutes
// before or after its time. Within that time a call that is repeated begins nothing: the occurrence derives
// from the signature, is durable, and is found again. That holds across restarts, and it makes repeating safe
// for a caller who got no answer.
//
// The order of the checks gives nothing away. A webhook that does not exist and a wrong signature have the same
// answer, after the same work: the body is read, and a signature is computed in both cases. The database is not
// asked before the signature is right. Calls in progress are bounded, and so are the valid calls of a webhook.
//
// GitHub's X-Hub-Signature-256 is not accepted. It has no time, and does not cover the number of the delivery,
// so a recorded call could be repeated for ever.
//
// What a caller writes is text from outside. The job's turn gets it as private and untrusted.
package hooks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/record"
	"steward/internal/server/auth"
)

// Prefix is the path below which the server is mounted.
const Prefix = "/hooks/"

// Header is the header with the time and the signature of a call.
const Header = "X-Steward-Signature"

// Limits.
const (
	Window  = 5 * time.Minute // between the time of a call and the present
	maxBody = 64 << 10        // bytes
	maxRate = 30              // calls of a webhook in a minute
	maxOpen = 16              // calls whose body is being read, of all webhooks
	maxKept = 10_000          // webhooks whose calls are counted
)

// Options configure the server. Jobs and Secret are required.
type Options struct {
	Jobs interface {
		Happened(ctx context.Context, hook id.ID, key string, e jobs.Event) (record.Occurrence, error)
	}
	Secret func(name string) (string, error) // a secret by its name; an error: there is none
	Now    func() time.Time                  // nil: time.Now
	Logger *slog.Logger                      // nil: none
}

type server struct {
	Options
	nobody []byte        // the key with which calls of webhooks are checked that do not exist
	slots  chan struct{} // calls whose body is being read

	mu    sync.Mutex
	calls map[id.ID]*minute
}

// minute counts the calls of a webhook since a time.
type minute struct {
	since time.Time
	n     int
}

// Handler returns the server, which serves the paths below Prefix. It needs no auth.Guard: the signature is the
// credential.
func Handler(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{Options: o, nobody: make([]byte, sha256.Size), slots: make(chan struct{}, maxOpen), calls: map[id.ID]*minute{}}
	rand.Read(s.nobody) //nolint:errcheck // it never fails
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, err := s.call(w, r)
		if err != nil {
			s.Logger.InfoContext(r.Context(), "a call of a webhook was refused", "code", fault.Of(err).Code, "from", r.RemoteAddr)
			auth.WriteError(w, r, s.Logger, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		json.NewEncoder(w).Encode(map[string]string{"occurrence_id": o.ID.String(), "state": o.State}) //nolint:errcheck // the caller may have gone
	})
}

// errNoCall answers calls of webhooks that do not exist, and those with a wrong signature.
var errNoCall = fault.New(fault.NotFound, "hook_unknown", "there is no such webhook, or the signature is wrong").
	WithHint("check the URL and the secret; %s is t=SECONDS,v1=HEX, with the HMAC-SHA256 of SECONDS, a dot and the body", Header)

// call checks a call and begins the job. It returns once the occurrence is stored.
func (s *server) call(w http.ResponseWriter, r *http.Request) (record.Occurrence, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return record.Occurrence{}, fault.New(fault.Invalid, "method_unknown", "a webhook is called with POST")
	}
	body, err := s.read(w, r)
	if err != nil {
		return record.Occurrence{}, err
	}
	stamp, signature, err := parse(r.Header.Get(Header))
	if err != nil {
		return record.Occurrence{}, err
	}
	hook, _ := id.Parse(strings.TrimPrefix(r.URL.Path, Prefix)) // the zero ID has no secret
	key := s.nobody
	secret, missing := s.Secret(record.HookSecret(hook))
	if missing == nil {
		key = []byte(secret)
	}
	if !hmac.Equal(signature, Sign(key, stamp, body)) || missing != nil {
		return record.Occurrence{}, errNoCall
	}
	now := s.Now()
	if d := now.Sub(time.Unix(stamp, 0)); d > Window || d < -Window {
		return record.Occurrence{}, fault.New(fault.Unauthentic, "hook_late", "the time of the call is %s from now; a call is valid for %s", d.Abs().Round(time.Second), Window).
			WithHint("sign it when it is sent, and check the clocks of both machines")
	}
	if !utf8.Valid(body) {
		return record.Occurrence{}, fault.New(fault.Invalid, "hook_text", "the body is not text").WithHint("send JSON or other text in UTF-8")
	}
	if !s.admit(hook, now) {
		w.Header().Set("Retry-After", "60")
		return record.Occurrence{}, fault.New(fault.RateLimited, "hook_rate", "the webhook is called more than %d times a minute", maxRate).WithHint("call less often, and say more in each call")
	}
	return s.Jobs.Happened(r.Context(), hook, hex.EncodeToString(signature), jobs.Event{Cause: "a call of its webhook", Text: string(body)})
}

// read reads a body.
func (s *server) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		return nil, fault.New(fault.RateLimited, "hook_rate", "too many webhooks are called at the moment").WithHint("call again in a second")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, fault.New(fault.TooLarge, "body_too_large", "the body has more than %d KiB", maxBody>>10).WithHint("send a URL of what is large, or a part")
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "body_broken", "the body ended early: %w", err).WithHint("send it again")
	}
	return body, nil
}

// parse reads the header of a signature.
func parse(header string) (stamp int64, signature []byte, err error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			stamp, err = strconv.ParseInt(value, 10, 64)
		case "v1":
			signature, err = hex.DecodeString(value)
		}
		if err != nil {
			break
		}
	}
	if err != nil || stamp <= 0 || len(signature) != sha256.Size {
		return 0, nil, fault.New(fault.Unauthentic, "hook_unsigned", "the call is not signed").
			WithHint("send the header %s: t=SECONDS,v1=HEX, with the HMAC-SHA256 of SECONDS, a dot and the body", Header)
	}
	return stamp, signature, nil
}

// Sign returns the signature of a body at a Unix time.
func Sign(key []byte, stamp int64, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(strconv.AppendInt(nil, stamp, 10))
	m.Write([]byte("."))
	m.Write(body)
	return m.Sum(nil)
}

// admit counts a call. It returns false if there are too many.
func (s *server) admit(hook id.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[hook]
	if c == nil || now.Sub(c.since) >= time.Minute || now.Before(c.since) {
		if c == nil && len(s.calls) >= maxKept {
			clear(s.calls)
		}
		c = &minute{since: now}
		s.calls[hook] = c
	}
	c.n++
	return c.n <= maxRate
}
