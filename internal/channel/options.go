package channel

import (
	"log/slog"
	"net/http"
)

// Options are what the constructor of every adapter takes. A constructor connects to nothing: it checks
// what it is given and returns an error that names the wrong setting.
type Options struct {
	// Token is the account's secret at the service. It never goes into a log or an error.
	Token string
	// BaseURL is where the service is reached; empty: the service's public address.
	BaseURL string
	// Client makes the requests; never nil. It has no timeout of its own.
	Client *http.Client
	// Log is never nil.
	Log *slog.Logger
	// Dir is a folder for what the service itself demands to be kept (the keys of encrypted rooms). It
	// belongs to this account alone, and need not exist yet.
	Dir string
	// Settings are the service's own, by the names that the adapter documents.
	Settings map[string]string
}
