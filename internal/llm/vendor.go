package llm

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"time"
)

// Vendor is what the rest of the program knows of one provider: how it is called and found, what its
// models take, in which form its messages are, and how its API is opened. Each package of a provider
// exports one. Nothing outside of it compares the names of vendors. All functions are safe for
// concurrent use.
type Vendor struct {
	Name   string // in the settings, and the part before '/' in a model's name
	Title  string // as people know it
	Traced string // its name in OpenTelemetry's conventions, if that is another
	Access Access

	// How it is found. Of several variables with a key that are set, the last one counts.
	BaseURL     string   // where it is by default; empty: each customer has another address
	URLEnv      string   // the variable with an address
	KeyEnv      []string // the variables with a key
	KeyPrefixes []string // how its keys begin, by which one that was typed is recognised

	// ReadURL reads an address as people write it in URLEnv. Nil: it is a whole URL.
	ReadURL func(text string) string
	// Locate completes where a customer's models are in a cloud. Nil: it is no cloud. A provider with a
	// name of one's own is in this cloud if its dialect is the vendor's name.
	Locate func(at Site, getenv func(string) string) (Site, error)
	// SignIn returns a transport that signs requests, where a key is not simply sent. May be nil.
	SignIn func(base http.RoundTripper, key string, getenv func(string) string) http.RoundTripper

	// What its models do.
	Presets        Presets
	Prices         map[string]Price        // of those that Known lacks; "*" stands for all of them
	Documents      []string                // the types of documents that they read: "application/pdf", "audio/*"
	Tools          []string                // those that run at the vendor
	Transcriptions string                  // the path at which recordings are transcribed in OpenAI's form; empty: nowhere
	UpToServer     bool                    // what they can do is up to their server: their names tell nothing
	Elsewhere      func(model string) bool // whether a local server has a model elsewhere; nil: none
	Starter        *Starter                // how to get the first model of a server of one's own; nil: no advice

	Formats []Format // of its messages, its usual one first, under its name
	Servers []Vendor // that offer the same API; these have no Servers

	// Open returns its client. It makes no request: what is wrong shows in the calls.
	Open func(e Endpoint) Provider
}

// Access is how a vendor's models become available.
type Access string

// The kinds of access.
const (
	ByKey    Access = "key"      // with a key, or an address of one's own. Which models are good is known
	ByServer Access = "server"   // at a server, which is asked for its models
	ByLocal  Access = "local"    // at a server on this machine, which is looked for at its BaseURL
	BuiltIn  Access = "built in" // always
)

// Presets are a vendor's default models. Empty: none is known.
type Presets struct {
	Standard   string `json:"model"`
	Fast       string `json:"fast"`
	Strong     string `json:"strong"`
	Embed      string `json:"embed"`
	Transcribe string `json:"transcribe"`
}

// List returns a function that lists the models for chats, a further one first, for servers that do not list
// them.
func (p Presets) List(further string) func(context.Context) ([]Info, error) {
	return func(context.Context) (list []Info, _ error) {
		for _, model := range []string{further, p.Standard, p.Fast, p.Strong} {
			if model != "" && !slices.ContainsFunc(list, func(i Info) bool { return i.Name == model }) {
				list = append(list, Info{Name: model})
			}
		}
		return list, nil
	}
}

// Site is where in a cloud a customer's models are.
type Site struct {
	BaseURL, Project, Region string
	Key                      bool // there is a key
}

// Starter says how to get a model that runs on this machine.
type Starter struct {
	Download string         // where the server is from
	Pull     string         // the command that fetches a model, without its name
	Models   []StarterModel // good with tools, the smallest first
}

// StarterModel is a model with its download size and the memory that it needs, in GB.
type StarterModel struct {
	Name         string
	Size, Memory float64
}

// Endpoint is where and how a vendor's models are asked. Empty values are the vendor's defaults.
type Endpoint struct {
	Name            string // of the provider
	BaseURL         string
	Key             string
	Dialect         string // as in the settings
	Model           string // the default model that the settings name
	Tools           []string
	Stores          []string // vector stores that a tool searches
	HTTP            *http.Client
	FirstByte, Idle time.Duration
}

// Format is a form of messages.
type Format struct {
	Name    string
	Codec   Codec
	List    string     // the member of a request's body that holds the messages
	Answers [][]string // the members of an answer's body that may hold messages; a second name: deeper, in each element
	System  string     // the member that holds what the system says at the beginning; empty: List has it
	Others  []string   // further members that the codec reads

	// EncodeSystem writes the member System. Nil without it.
	EncodeSystem func(texts []string) json.RawMessage
}

// ToolJudge is a Provider that knows whether a model takes tools.
type ToolJudge interface {
	// TakesTools returns true if it is unknown.
	TakesTools(ctx context.Context, model string) bool
}

// Vendors is the table of vendors, the preferred one first. Servers with a name of one's own are asked
// as the first one is.
type Vendors []Vendor

// All yields the vendors, and then their servers.
func (t Vendors) All() iter.Seq[Vendor] {
	return func(yield func(Vendor) bool) {
		for _, v := range t {
			if !yield(v) {
				return
			}
		}
		for _, v := range t {
			for _, s := range v.Servers {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Index returns the place of a vendor in the table; -1 for a server and what is unknown.
func (t Vendors) Index(name string) int {
	for i, v := range t {
		if v.Name == name {
			return i
		}
	}
	return -1
}

// Named returns a vendor or server by its name.
func (t Vendors) Named(name string) (Vendor, bool) {
	for v := range t.All() {
		if v.Name == name {
			return v, true
		}
	}
	return Vendor{}, false
}

// For returns the vendor of a provider with a name and a dialect in the settings. Its name is the
// provider's.
func (t Vendors) For(name, dialect string) Vendor {
	v, ok := t.Named(dialect)
	if !ok || v.Locate == nil {
		v, ok = t.Named(name)
	}
	if !ok && len(t) > 0 {
		v = Vendor{Title: name, Access: ByServer, Tools: t[0].Tools, Transcriptions: t[0].Transcriptions, Open: t[0].Open}
	}
	v.Name = name
	return v
}

// Codecs returns the codec of each vendor's usual format.
func (t Vendors) Codecs() map[string]Codec {
	out := map[string]Codec{}
	for _, v := range t {
		if len(v.Formats) > 0 {
			out[v.Name] = v.Formats[0].Codec
		}
	}
	return out
}
