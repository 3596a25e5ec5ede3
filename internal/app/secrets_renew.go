package app

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/settings"
	files "steward/internal/strict"
)

// credential is a secret that is sent with requests and may be replaced while Steward runs. What is in
// a file is read for each request. What a program prints is read again when it was refused, but not
// more often than every pause, because the program may ask a person.
type credential struct {
	read func(context.Context) (string, error)
	file bool // reading it costs nothing

	mu    sync.Mutex
	now   string
	tried time.Time // when it was last read after a refusal
}

const credentialPause = 10 * time.Second

// current returns the secret for a request. While its file is being written, that is the former one.
func (c *credential) current(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file {
		v, err := c.read(ctx)
		if fault.HasCode(err, "secret_missing") {
			return "", err
		}
		if err == nil {
			c.now = v
		}
	}
	return c.now, nil
}

// renewed returns the secret after one was refused, which may be the same.
func (c *credential) renewed(ctx context.Context, refused func(now string) bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !refused(c.now) || time.Since(c.tried) < credentialPause {
		return c.now, nil
	}
	c.tried = time.Now()
	v, err := c.read(ctx)
	if err == nil {
		c.now = v
	}
	return c.now, err
}

// replacing returns a transport that sends the credential as it is now, wherever the headers of a
// request hold its first value.
func replacing(base http.RoundTripper, c *credential) http.RoundTripper {
	first := c.now
	write := func(r *http.Request, now string) http.Header {
		out := r.Header.Clone()
		for _, values := range out {
			for i, v := range values {
				values[i] = strings.ReplaceAll(v, first, now)
			}
		}
		return out
	}
	holds := func(h http.Header) bool {
		for _, values := range h {
			if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, first) }) {
				return true
			}
		}
		return false
	}
	same := func(a, b http.Header) bool { return maps.EqualFunc(a, b, slices.Equal[[]string]) }
	return egress.Renewing{Base: base, Set: func(r *http.Request, sent http.Header) (changed bool, err error) {
		if !holds(r.Header) {
			return false, nil
		}
		var now string
		if sent == nil {
			now, err = c.current(r.Context())
		} else {
			now, err = c.renewed(r.Context(), func(now string) bool { return same(sent, write(r, now)) })
		}
		if err != nil {
			return false, err
		}
		r.Header = write(r, now)
		return sent != nil && !same(sent, r.Header), nil
	}}
}

// resolveKeys replaces references to keys by the keys, and remembers where those that may change come from.
func (a *App) resolveKeys(ctx context.Context, set *settings.Loaded) error {
	for name, p := range set.Providers {
		ref := p.Key.Reveal()
		switch {
		case p.Off || ref == "":
			continue
		case secret.IsReference(ref):
			read := func(ctx context.Context) (string, error) { return a.Resolver(set).Resolve(ctx, ref) }
			key, err := read(ctx)
			if err != nil {
				e := fault.Of(err)
				return fault.New(e.Kind, e.Code, "the key of the provider %s: %s", name, WithoutRemedy(e)).WithHint("%s", e.Remedy)
			}
			p.Key = settings.Secret(key)
			set.Providers[name] = p
			a.keepRenewed(name, &credential{read: read, now: key, file: strings.HasPrefix(ref, "file:") || strings.HasPrefix(ref, "store:")})
		case p.KeyFile != "" && set.SourceOf("providers."+name+".key").Where == p.KeyFile:
			a.keepRenewed(name, &credential{now: ref, file: true, read: func(context.Context) (string, error) {
				text, err := files.ReadFile(p.KeyFile, secret.MaxLength)
				if err != nil {
					return "", fault.New(fault.NotFound, "secret_missing", "the key of the provider %s cannot be read: %w", name, err).
						WithHint("correct providers.%s.key_file", name)
				}
				key := strings.TrimSpace(string(text))
				if err := secret.Check(key); err != nil {
					return "", err
				}
				return key, a.Hidden().Add("provider key", key)
			}})
		}
	}
	return nil
}

func (a *App) keepRenewed(name string, c *credential) {
	if a.credentials == nil {
		a.credentials = map[string]*credential{}
	}
	a.credentials[name] = c
}

// clientFor returns the HTTP client for a provider's models. It masks secrets in prompts, and sends the
// provider's key as it is now.
func (a *App) clientFor(name string, shared *http.Client) *http.Client {
	c := a.credentials[name]
	masks, ok := shared.Transport.(maskingTransport)
	if c == nil || !ok {
		return shared
	}
	masks.RoundTripper = replacing(masks.RoundTripper, c)
	own := *shared
	own.Transport = masks
	return &own
}
