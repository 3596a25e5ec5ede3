package wire

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"steward/internal/fault"
)

// The codes of llm.Model's errors.
const (
	CodeAuth        = "auth_failed"
	CodeRate        = "rate_limited"
	CodeOverloaded  = "overloaded"
	CodeProvider    = "provider_error"
	CodeRefused     = "request_refused"
	CodeContext     = "context_too_long"
	CodeNoModel     = "model_not_found"
	CodeNoTools     = "tools_unsupported"
	CodeNoImages    = "images_unsupported"
	CodeNoSchema    = "schema_unsupported"
	CodeNoEffort    = "effort_unsupported"
	CodeFirstByte   = "first_byte_timeout"
	CodeIdle        = "idle_timeout"
	CodeBroken      = "stream_broken"
	CodeUnreachable = "unreachable"
	CodeCancelled   = "cancelled"
	CodeTooLarge    = "reply_too_large"
)

const (
	maxRetryAfter = 24 * time.Hour
	maxExcerpt    = 300 // runes of a foreign message in an error
)

// Refusal is the content of a vendor's error body.
type Refusal struct {
	Code    string        // one of the codes; empty: determined by the status
	Message string        // the vendor's message; empty: an excerpt of the body
	After   time.Duration // when to try again, if the body says
	Remedy  string        // replaces the usual one
	Final   bool          // a retry does not help, although the code suggests it
	Window  int           // of CodeContext: the model's window; zero: taken from the message
}

// Refused returns the coded error for an answer whose status is not 2xx.
func (c *Client) Refused(status int, h http.Header, body []byte) *fault.Error {
	var r Refusal
	if c.opt.Explain != nil {
		r = c.opt.Explain(status, body)
	}
	if r.Code == "" {
		r.Code = codeOf(status)
	}
	r.long(status, string(body[:min(len(body), maxWords)]))
	if r.Message == "" {
		r.Message = excerpt(body)
	}
	if r.Message == "" {
		r.Message = "HTTP " + strconv.Itoa(status) + " " + http.StatusText(status)
	}
	if status/100 == 3 {
		r.Remedy = "if you trust the server that it points to, set the base URL of " + c.opt.Name + " to that"
	}
	if after := retryAfter(h, time.Now()); after > 0 {
		r.After = after
	}
	return c.RefusalError(r).Detail("status", status)
}

// RefusedAs returns the coded error for a refusal in the middle of a stream that names a status.
func (c *Client) RefusedAs(status int, r Refusal) *fault.Error {
	if r.Code == "" {
		r.Code = codeOf(status)
	}
	r.long(status, "")
	return c.RefusalError(r).Detail("status", status)
}

// long recognises that a request was refused as too long, whatever the vendor calls that. The message may stand
// anywhere in the body: gateways wrap what they are told.
func (r *Refusal) long(status int, body string) {
	switch {
	case r.Code == CodeContext && status != http.StatusRequestEntityTooLarge:
		return
	case r.Code == CodeRate && !r.Final && (neverFits(r.Message) || neverFits(body)):
		r.Code, r.After = CodeContext, 0
		return
	}
	said := r.Message
	if !tooLong(said) {
		if said = body; !tooLong(said) {
			return
		}
	}
	switch r.Code {
	case "", CodeContext, CodeRefused, CodeProvider, CodeNoModel:
		if r.Code == CodeNoModel && status != http.StatusBadRequest {
			return
		}
		r.Code = CodeContext
		if r.Window == 0 {
			r.Window = cmp.Or(Window(said), wordedWindow(plainWords(body))) // llama.cpp says it in a field
		}
	}
}

// RefusalError returns the coded error for a refusal with a known Code, for example one in the middle of a
// stream.
func (c *Client) RefusalError(r Refusal) *fault.Error {
	r.long(0, "")
	if r.Code == "" {
		r.Code = CodeProvider
	}
	if r.Code == CodeRefused && effortWords.MatchString(strings.ToLower(r.Message[:min(len(r.Message), maxWords)])) {
		r.Code = CodeNoEffort
	}
	e := c.Fault(r.Code, r.Message, r.After)
	if w := cmp.Or(r.Window, Window(r.Message)); r.Code == CodeContext && w > 0 {
		e = e.Detail("window", w)
	}
	if r.Remedy != "" {
		e = e.WithHint("%s", r.Remedy)
	}
	if r.Final {
		e = e.Retrying(fault.RetryNone, 0)
	}
	return e
}

func codeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return CodeAuth
	case status == http.StatusNotFound:
		return CodeNoModel
	case status == http.StatusRequestEntityTooLarge:
		return CodeContext
	case status == http.StatusTooManyRequests:
		return CodeRate
	case status == http.StatusServiceUnavailable, status == 529: // 529: Anthropic's "overloaded"
		return CodeOverloaded
	case status == http.StatusRequestTimeout, status >= 500:
		return CodeProvider
	}
	return CodeRefused
}

// faults has the kind of each code's error and what to do about it. A hint may have {name}, the
// provider's name, and {url}, its base URL. A code without an entry is Invalid.
var faults = map[string]struct {
	kind  fault.Kind
	hint  string
	retry fault.Retry
}{
	CodeAuth:       {fault.Unauthentic, "check the API key of {name}", ""},
	CodeRate:       {fault.RateLimited, "", fault.RetryAfter},
	CodeOverloaded: {fault.Unavailable, "", fault.RetryBackoff},
	CodeProvider:   {fault.Unavailable, "", fault.RetryBackoff},
	CodeBroken:     {fault.Unavailable, "", fault.RetryBackoff},
	CodeContext:    {fault.TooLarge, "shorten the conversation, or choose a model with a larger context window", ""},
	CodeNoModel:    {fault.NotFound, "choose a model that {name} has; if it has none, check its base URL, {url}", ""},
	CodeNoTools:    {fault.Unsupported, "", ""},
	CodeNoImages:   {fault.Unsupported, "", ""},
	CodeNoSchema:   {fault.Unsupported, "", ""},
	CodeNoEffort:   {fault.Unsupported, "take the effort off, or choose a model that takes one", ""},
}

// Fault returns the error for one of the codes. message is the vendor's own message. after is when
// to try again, or zero if unknown.
func (c *Client) Fault(code, message string, after time.Duration) *fault.Error {
	f := faults[code]
	e := fault.New(cmp.Or(f.kind, fault.Invalid), code, "%s: %s", c.opt.Name, c.sanitize(message))
	if f.hint != "" {
		e = e.WithHint("%s", strings.NewReplacer("{name}", c.opt.Name, "{url}", c.BaseURL()).Replace(f.hint))
	}
	after = min(after, maxRetryAfter)
	switch {
	case f.retry == "":
		return e
	case after > 0:
		if e.Kind == fault.RateLimited && e.Remedy == "" {
			e = e.WithHint("%s", waitHint(after))
		}
		return e.Retrying(fault.RetryAfter, after)
	case f.retry == fault.RetryAfter:
		return e.Retrying(fault.RetryAfter, time.Second)
	}
	return e.Retrying(f.retry, 0)
}

// waitHint tells people when a server wants to be asked again.
func waitHint(after time.Duration) string {
	switch {
	case after >= maxRetryAfter:
		return "it asks to wait for a day or longer; use another model, or try earlier all the same"
	case after >= time.Minute:
		return "it asks to wait for " + strings.TrimSuffix(after.Round(time.Minute).String(), "0s") + "; then try again"
	}
	return "it asks to wait for " + max(after, time.Second).Round(time.Second).String() + "; then try again"
}

// Broken returns the coded error for a stream that ended before its end mark. cause may be nil.
func (c *Client) Broken(cause error) *fault.Error {
	e := c.Fault(CodeBroken, "the stream broke off before its end", 0)
	e.Cause = c.safe(cause)
	return e
}

// Malformed returns the coded error for a stream that does not follow the vendor's documentation.
func (c *Client) Malformed(cause error) *fault.Error {
	e := c.Fault(CodeBroken, "the stream is malformed", 0)
	e.Cause = c.safe(cause)
	return e
}

func (c *Client) unreachable(err error) *fault.Error {
	var coded *fault.Error
	if errors.As(err, &coded) { // of a transport that signs in
		return coded
	}
	err = c.safe(err)
	e := fault.New(fault.Unavailable, CodeUnreachable, "%s cannot be reached at %s: %w", c.opt.Name, c.BaseURL(), err).
		Retrying(fault.RetryBackoff, 0)
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return e.WithHint("check the host name and this machine's network")
	case errors.As(err, &unknown), errors.As(err, &host):
		return e.WithHint("check the certificate of the server, or the proxy in between")
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return e.WithHint("the server speaks plain HTTP: begin the base URL with http://")
	}
	return e.WithHint("check that the server runs and that the base URL is right")
}

// safe removes the URL, which may contain a key, from an error of net/http, and hides an error
// whose text still contains a secret.
func (c *Client) safe(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	if err == nil {
		return nil
	}
	if s := err.Error(); c.sanitize(s) != oneLine(s) {
		return errors.New(c.sanitize(s))
	}
	return err
}

// minSecret is the minimum length of the keys that are searched for in messages. Shorter ones
// occur in other words by chance, and protect nothing.
const minSecret = 6

// sanitize makes a foreign message safe to show: without secrets, on one line, short.
func (c *Client) sanitize(s string) string {
	for _, secret := range c.opt.Secrets {
		if len(secret) >= minSecret {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	return oneLine(s)
}

func oneLine(s string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = b.Len() > 0
			continue
		case n >= maxExcerpt:
			return b.String() + "…"
		case space:
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// excerpt returns the readable beginning of a body that is not the vendor's JSON, often the HTML
// page of a proxy.
func excerpt(body []byte) string {
	if t := bytes.TrimSpace(body); len(t) > 0 && t[0] == '<' {
		body = stripTags(t)
	}
	if len(body) > 4*maxExcerpt {
		body = body[:4*maxExcerpt]
	}
	return oneLine(strings.ToValidUTF8(string(body), "\uFFFD"))
}

// stripTags returns the text of an HTML page, without tags, scripts and styles.
func stripTags(page []byte) (out []byte) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for hidden := false; ; {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return out
		case html.TextToken:
			if !hidden {
				out = append(append(out, ' '), z.Text()...)
			}
		case html.StartTagToken, html.EndTagToken:
			name, _ := z.TagName()
			hidden = kind == html.StartTagToken && (string(name) == "script" || string(name) == "style")
		}
	}
}

// retryAfter reads Retry-After (RFC 9110, 10.2.3: seconds or a date) and OpenAI's retry-after-ms.
// It returns zero if there is none, and at most a day.
func retryAfter(h http.Header, now time.Time) time.Duration {
	var seconds float64
	if ms, ok := delay(h.Get("Retry-After-Ms")); ok {
		seconds = ms / 1000
	} else if s, ok := delay(h.Get("Retry-After")); ok {
		seconds = s
	} else if t, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		seconds = t.Sub(now).Seconds()
	}
	seconds = min(max(seconds, 0), maxRetryAfter.Seconds())
	return time.Duration(seconds * float64(time.Second))
}

// delay parses a delay, which may be too large for a float64.
func delay(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, n >= 0 && (err == nil || errors.Is(err, strconv.ErrRange))
}
