package channel

import (
	"log/slog"
	"net/http"
	"path/filepath"

	"steward/internal/tools/local"
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
	// State keeps what would be a file in Dir, where several machines connect the account in turn. It begins with that
	// file. nil: the file does.
	State State
	// Settings are the service's own, by the names that the adapter documents.
	Settings map[string]string
}

// State keeps what an adapter needs at its next connection, such as how far it has read.
type State interface {
	// Load returns what was saved last, by whatever machine; nil: nothing was.
	Load() ([]byte, error)
	// Save fails if another machine has saved something since the last Load: this one should not be connected.
	Save(data []byte) error
}

// LoadState returns what was saved last, at most limit bytes; nil: nothing was. name is that of the file.
func (o Options) LoadState(name string, limit int64) ([]byte, error) {
	if o.State != nil {
		if data, err := o.State.Load(); data != nil || err != nil {
			return data, err
		} // else it may be the first start since there are several machines
	}
	return local.ReadFile(filepath.Join(o.Dir, name), limit)
}

// SaveState keeps what LoadState returns. After a crash it is the old or the new one.
func (o Options) SaveState(name string, data []byte) error {
	if o.State != nil {
		return o.State.Save(data)
	}
	path := filepath.Join(o.Dir, name)
	if err := local.Replace(path, data); err != nil {
		return local.Fault(path, err)
	}
	return nil
}
