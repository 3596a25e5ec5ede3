// Package rest makes the requests of adapters to the HTTP interfaces of messengers. It reads a bounded
// answer and says what a failure means for a message that was to be posted: whether the request can have
// reached the service (channel.Uncertain) or not (channel.Unreachable).
package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
)

// Answer is what a service has answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Cut says that the answer was longer than the limit; Body is its beginning.
	Cut bool
}

// Do sends a request and reads at most limit bytes of the answer. The error is Unreachable, Uncertain, or
// that of a context that has ended before anything was sent. No error names the request's address, which
// holds the token at some services.
func Do(client *http.Client, service string, r *http.Request, limit int64) (Answer, error) {
	var connected atomic.Bool
	// net/http takes another connection only if nothing was written to the one before, which the server had closed.
	trace := &httptrace.ClientTrace{GetConn: func(string) { connected.Store(false) }, GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	resp, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return Answer{}, failure(service, err, connected.Load())
	}
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return a, failure(service, err, true)
	}
	if int64(len(a.Body)) > limit {
		a.Body, a.Cut = a.Body[:limit], true
	}
	return a, nil
}

func failure(service string, err error, connected bool) error {
	var in *url.Error
	if errors.As(err, &in) {
		err = in.Err // without the address
	}
	switch {
	case connected:
		return channel.Uncertain(service, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Unavailable, "channel_unreachable", "%s was not reached in time: %w", service, err)
	}
	return channel.Unreachable(service, err)
}

// maxPause bounds what a service can ask for.
const maxPause = 24 * time.Hour

// RetryAfter returns the pause of a Retry-After header in seconds, or another one if it has none.
func RetryAfter(h http.Header, otherwise time.Duration) time.Duration {
	n, err := strconv.ParseInt(strings.TrimSpace(h.Get("Retry-After")), 10, 64)
	if err != nil {
		return otherwise
	}
	return Pause(n)
}

// Pause returns a pause that a service has asked for in seconds: at least one, at most a day.
func Pause(seconds int64) time.Duration {
	return min(max(time.Duration(min(seconds, 1<<30))*time.Second, time.Second), maxPause)
}

// Base checks the address of a service, and returns it without a slash at its end.
func Base(o channel.Options, public string) (string, error) {
	if o.BaseURL == "" {
		return public, nil
	}
	u, err := url.Parse(o.BaseURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fault.New(fault.Invalid, "channel_base_url", "%q is not the address of a server", o.BaseURL).
			WithHint("write it as https://HOST, without a query")
	}
	return strings.TrimRight(o.BaseURL, "/"), nil
}

// Known checks that all settings are known ones.
func Known(o channel.Options, names ...string) error {
	for name := range o.Settings {
		found := false
		for _, n := range names {
			found = found || n == name
		}
		if !found {
			return fault.New(fault.Invalid, "channel_setting", "there is no setting %q", name).
				WithHint("the settings are: %s", strings.Join(names, ", "))
		}
	}
	return nil
}

// File is the body of an attachment, of which at most Limit bytes are read.
type File struct {
	io.ReadCloser
	Limit int64
	read  int64
}

// Read reads, and fails if the file is longer than the limit.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	f.read += int64(n)
	if f.read > f.Limit {
		return 0, fault.New(fault.TooLarge, "attachment_too_large", "the attachment has more than %d MB", f.Limit>>20)
	}
	return n, err
}

// Open requests a file.
func Open(client *http.Client, service string, r *http.Request, limit int64) (io.ReadCloser, error) {
	resp, err := client.Do(r)
	if err != nil {
		return nil, channel.Unreachable(service, failureCause(err))
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		kind := fault.Unavailable
		if resp.StatusCode < 500 {
			kind = fault.NotFound
		}
		return nil, fault.New(kind, "attachment_gone", "%s does not give out the attachment: %s", service, fmt.Sprint(resp.Status)).
			WithHint("ask its sender to send it again")
	}
	return &File{ReadCloser: resp.Body, Limit: limit}, nil
}

func failureCause(err error) error {
	var in *url.Error
	if errors.As(err, &in) {
		return in.Err
	}
	return err
}
