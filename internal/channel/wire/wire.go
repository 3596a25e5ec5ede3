// Package wire is what the adapters of several services share.
//
// A message must not be posted twice, so an adapter has to know what became of a request that failed.
// Begin watches one request. As long as no connection was found for it, nothing can have been posted;
// from then on the service may have received it, whatever the error says.
package wire

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"unicode"

	"steward/internal/channel"
)

// Request is one request to a service.
type Request struct{ connected atomic.Bool }

// Begin returns a context for one request, which is watched.
func Begin(ctx context.Context) (context.Context, *Request) {
	r := &Request{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { r.connected.Store(true) }}), r
}

// Failed returns the coded error of a request that posts something and got no answer.
func (r *Request) Failed(service string, err error) error {
	if r.connected.Load() {
		return channel.Uncertain(service, err)
	}
	return channel.Unreachable(service, err)
}

// Clean returns what somebody wrote as valid UTF-8 without control characters other than tabs and line
// feeds.
func Clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// Line returns a text of a service, such as a name or the reason of an error, as one short line.
func Line(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// Key returns 22 letters and digits that derive from a text, where a service wants a short key.
func Key(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.NewReplacer("-", "a", "_", "b").Replace(base64.RawURLEncoding.EncodeToString(sum[:16]))
}
