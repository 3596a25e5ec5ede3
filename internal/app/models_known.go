package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/settings"
	strictly "steward/internal/strict"
)

// Limits of the file of known models.
const (
	LargestKnown = 4 << 20 // bytes
	updateFor    = time.Minute
)

// KnownFile is the file that replaces the built-in list of known models.
func KnownFile(set *settings.Loaded) string { return filepath.Join(set.Data, "known-models.json") }

// KnownModels returns what is built in together with the file that was fetched last.
func KnownModels(set *settings.Loaded, log *slog.Logger) *llm.Known {
	known := llm.DefaultKnown()
	remembered(KnownFile(set), log, func(text []byte) error {
		fetched, err := llm.ReadKnown(text)
		if err == nil {
			known = known.With(fetched)
		}
		return err
	})
	return &known
}

// remembered reads a file about models, if it is there. A broken one is logged and not used.
func remembered(file string, log *slog.Logger, read func(text []byte) error) {
	text, err := strictly.ReadText(file, LargestKnown)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = read(text)
	}
	if err != nil && log != nil {
		log.Warn("a file about models is not used; steward models update and steward models test write new ones", "file", file, "err", err)
	}
}

// FetchKnown fetches a file that the user has named, by HTTPS or from this machine.
func FetchKnown(ctx context.Context, from string) ([]byte, error) {
	failed := func(kind fault.Kind, format string, args ...any) error {
		return fault.New(kind, "known_models_unreachable", "the file of known models cannot be fetched: "+format, args...)
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, failed(fault.Invalid, "%q is not an https URL", from)
	}
	ctx, cancel := context.WithTimeout(ctx, updateFor)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, failed(fault.Invalid, "%w", err)
	}
	client := &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 5 || r.URL.Scheme != via[0].URL.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(r)
	if err != nil {
		return nil, failed(fault.Unavailable, "%w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, failed(fault.Unavailable, "the server answered %s", resp.Status)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, LargestKnown))
	if err != nil {
		return nil, failed(fault.Unavailable, "%w", err)
	}
	return text, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// TestedFile is the file with what steward models test has found.
func TestedFile(set *settings.Loaded) string { return filepath.Join(set.Data, "tested-models.json") }

// TestedModels returns what tests have found.
func TestedModels(set *settings.Loaded, log *slog.Logger) map[string]llm.Tested {
	found := map[string]llm.Tested{}
	remembered(TestedFile(set), log, func(text []byte) error {
		var kept map[string]llm.Tested
		err := json.Unmarshal(text, &kept)
		if err == nil {
			maps.Copy(found, kept)
		}
		return err
	})
	return found
}
