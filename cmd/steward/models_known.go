package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/settings"
	strictly "steward/internal/strict"
	domainlocal "steward/internal/tools/local"
)

// Limits of the file of known models.
const (
	largestKnown = 4 << 20 // bytes
	updateFor    = time.Minute
)

func knownFile(set *settings.Loaded) string { return filepath.Join(set.Data, "known-models.json") }

// knownModels returns what is built in together with the file that was fetched last.
func knownModels(set *settings.Loaded, log *slog.Logger) *llm.Known {
	known := llm.DefaultKnown()
	remembered(knownFile(set), log, func(text []byte) error {
		fetched, err := llm.ReadKnown(text)
		if err == nil {
			known = known.With(fetched)
		}
		return err
	})
	return &known
}

// remembered reads a file about models, if it is there. A broken one is not used, and told in the log.
func remembered(file string, log *slog.Logger, read func(text []byte) error) {
	text, err := strictly.ReadText(file, largestKnown)
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

func (a *app) modelsUpdateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "update [URL]", Short: "Fetch prices, windows and abilities of models", Args: cobra.MaximumNArgs(1),
		Long: "Fetch a file of known models from URL, by default from models_url of the settings, and print what it\n" +
			"changes. The file is checked first; a broken one changes nothing. A running server uses it after its\n" +
			"next start. The guide on models describes its form.",
		RunE: func(c *cobra.Command, args []string) error { return a.updateModels(c.Context(), args) },
	}
}

func (a *app) updateModels(ctx context.Context, args []string) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	from := set.ModelsURL
	if len(args) > 0 {
		from = args[0]
	}
	if from == "" {
		return fault.New(fault.Invalid, "models_url_missing", "it is not said where the file of known models is").
			WithHint("name its URL, or set models_url in the settings")
	}
	text, err := fetchKnown(ctx, from)
	if err != nil {
		return err
	}
	fetched, err := llm.ReadKnown(text)
	if err != nil {
		return err
	}
	before := knownModels(set, nil)
	if err := domainlocal.ReplaceTarget(knownFile(set), text); err != nil {
		return fmt.Errorf("the file of known models cannot be stored: %w", err)
	}
	lines := before.Changes(before.With(fetched))
	if a.json {
		return a.printJSON(map[string]any{"as_of": fetched.AsOf, "changes": append([]string{}, lines...)})
	}
	for _, line := range lines {
		if err := a.print(line + "\n"); err != nil {
			return err
		}
	}
	return a.print(fmt.Sprintf("As of %s: %d changes.\n", fetched.AsOf, len(lines)))
}

// fetchKnown fetches a file that the user has named, by HTTPS or from this machine.
func fetchKnown(ctx context.Context, from string) ([]byte, error) {
	failed := func(kind fault.Kind, format string, args ...any) error {
		return fault.New(kind, "known_models_unreachable", "the file of known models cannot be fetched: "+format, args...)
	}
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, failed(fault.Invalid, "%q is no https URL", from)
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
		return nil, failed(fault.Unavailable, "the server says %s", resp.Status)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, largestKnown))
	if err != nil {
		return nil, failed(fault.Unavailable, "%w", err)
	}
	return text, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
