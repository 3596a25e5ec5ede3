// Package page serves Steward's page: what a person sees in a browser.
//
// # How it works
//
// A screen is a function that makes HTML (gomponents) of what the HTTP API answers: the page asks the same API
// as every other client, within this process and as the person who is signed in (visit.api). So it can do
// nothing that the person could not do otherwise, and what it shows is told in one place. Only the chat
// watches a conversation directly (package turn).
//
// The browser runs a few small modules (assets). A link loads a whole screen. A button or a form with the
// attribute data-do sends its fields as JSON to POST /do/NAME; the answer is a list of patches: fragments with
// ids, which replace the elements with these ids or are added to others (patch). A screen that changes by
// itself has one event stream, GET /live, which carries the same patches. A patch may be applied any number of
// times, so that a stream that begins again loses and doubles nothing. The pages of a person that show the same
// share what they show (source).
//
// # Who is asking
//
// A link with a secret signs a browser in (identity.Registry.SignIn). The secret is in the fragment of the
// address, which browsers send neither to us nor as a referrer; a module exchanges it for the cookie of a session.
// In a browser that is signed in as somebody else this needs a click, because a link that was sent would have the
// person write into another account. The cookie is HttpOnly and SameSite=Strict, and over TLS its name
// begins with __Host-. A key opens the API alone, and a cookie the page alone.
//
// auth.Guard.Browser refuses what pages of other origins ask for. GET changes nothing; an action
// is a POST with JSON, which says that it comes from our own page. Routes lists everything that is served, and
// test/crossing tries all of it as other people and as nobody.
//
// A session that ends on the page ends its streams at once (ended), and one that ends otherwise within recheckEvery.
// The answer to signing out has the browser forget what it has kept.
//
// # What may run
//
// Text of models and of others passes goldmark, which escapes HTML, and then bluemonday. The
// Content-Security-Policy allows only our own modules and styles, and nothing of other hosts. Each is enough.
// Pictures in Markdown are links, since whoever serves one learns that it was seen; a link says which host it goes
// to. All other text is g.Text of visible, which shows what cannot be seen; files are sent to be kept, and pictures
// with a policy that lets nothing run.
//
// # What it costs
//
// What another user sends is bounded by auth.Intake, as for the other servers, and so are open streams, each of which is a
// request. A stream that is not read for writeWithin ends, and keeps no more than the frames of one channel. Markdown is read up
// to bounds (markdown.go), and a growing text less often the longer it takes. A panic in the goroutine of a stream ends
// this stream alone (alive).
package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	g "maragu.dev/gomponents"

	"steward/client"
	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/runtime"
	"steward/internal/server/auth"
)

// Options configure the page. All but Cluster, Logger and Closing are required.
type Options struct {
	Node    *runtime.Node
	API     http.Handler // of package api, which is called with the person in the context
	People  *identity.Registry
	Version string
	Cluster string // name of this node in its cluster; empty: there is none
	Logger  *slog.Logger
	Closing <-chan struct{} // closed when the server stops: streams, which would last as long as their pages, end then
}

type server struct {
	Options
	markdown *markdown
	files    map[string]*file
	build    string // over all assets: part of their addresses
	mux      *http.ServeMux
	pending  *pendings
	ended    *ended
	hub      hub
}

// file is an asset.
type file struct {
	data, packed []byte
	mime         string
}

//go:embed assets
var assets embed.FS // read-only

// maxBody bounds the body of an action: a message with attachments is the largest.
const maxBody = 48 << 20

// Handler returns the page. It serves everything below "/". Mount it behind auth.Guard.Browser with Fail.
func Handler(o Options) (http.Handler, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{Options: o, markdown: newMarkdown(), files: map[string]*file{}, mux: http.NewServeMux(), pending: &pendings{}, ended: &ended{}, hub: hub{log: o.Logger}}
	if err := s.readAssets(); err != nil {
		return nil, err
	}
	for _, x := range s.routes() {
		s.mux.Handle(x.pattern, x.handler)
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault.New(fault.NotFound, "unknown_url", "there is no %.200s", r.URL.Path).
			WithHint("Steward has /ws, /v1, /api/v1, /mcp, /channels, /tool.Tool, /search.Search, /event.Event, /services/v1, /hooks, /healthz and /readyz, and its page at /"))
	})
	return secure(s.mux), nil
}

// route is a pattern of http.ServeMux, and what serves it.
type route struct {
	pattern string
	handler http.Handler
}

// routes are all that the page serves.
func (s *server) routes() (list []route) {
	add := func(pattern string, h http.HandlerFunc) { list = append(list, route{pattern, h}) }
	for _, x := range s.screens() {
		list = append(list, route{"GET " + x.path, s.screen(x)})
	}
	for name, do := range s.actions() {
		if forAdmins(name) {
			do = adminOnly(do)
		}
		add("POST /do/"+name, func(w http.ResponseWriter, r *http.Request) { s.act(w, r, do) })
	}
	add("GET /live", s.live)
	add("GET /chat/{conversation}/export", s.export)
	add("GET /chat/{conversation}/file/{message}/{block}", s.file)
	add("GET /chat/{conversation}/file/{message}/{block}/{part}", s.file)
	add("POST /import", s.importFile)
	add("GET /shared/{user}/{secret}", s.shared)
	add("GET /memory/export", s.exportMemory)
	add("GET /memory/graph/export", s.exportGraph)
	add("POST /documents", s.upload)
	add("GET /in", s.signInPage)
	add("POST /in", s.signIn)
	add("GET /assets/{build}/{name}", s.asset)
	add("GET /manifest.webmanifest", s.manifest)
	return list
}

// Screens returns the paths of all screens, for the tests that look at each.
func Screens() (list []string) {
	for _, x := range (&server{}).screens() {
		list = append(list, x.path)
	}
	return list
}

// Routes returns everything that the page serves: the patterns of its routes, such as "GET /jobs/{name}" and
// "POST /do/send", and for each thing that a stream can follow "GET /live?of=NAME". The tests of test/crossing
// compare it with what they try.
func Routes() (list []string) {
	s := &server{}
	for _, x := range s.routes() {
		if x.pattern != "GET /live" {
			list = append(list, x.pattern)
		}
	}
	list = append(list, "GET /live?of=")
	for of := range lives() {
		list = append(list, "GET /live?of="+of)
	}
	return list
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; media-src 'self' blob:; " +
	"manifest-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types steward"

// secure sets the headers that bound what a browser may do with our answers.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(self), microphone=(self), geolocation=()")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// screen is a page of its own.
type screen struct {
	path   string // a pattern of http.ServeMux
	render func(v *visit) (content, error)
}

// content is what a screen shows.
type content struct {
	title string
	nav   string // the entry of the navigation that it belongs to
	main  g.Node
	live  string // the parameters of /live; empty: nothing changes by itself
	wide  bool   // it fills the window, such as the chat
}

// action is what POST /do/NAME does with the JSON that a form or a button sends.
type action func(v *visit, in json.RawMessage) (*reply, error)

// reply is the answer to an action.
type reply struct {
	Patches []patch `json:"patches,omitempty"`
	Go      string  `json:"go,omitzero"`    // the address of a screen to show
	Toast   string  `json:"toast,omitzero"` // a short text for the person
	Data    any     `json:"data,omitempty"` // for a module of ours

	cookie *http.Cookie // to set
	leave  bool         // the person has signed out
}

// patch changes the document. With an ID, HTML takes the place of the element with this id, or is added to In if
// there is none; without HTML, the element is removed.
type patch struct {
	ID    string `json:"id,omitzero"`
	In    string `json:"in,omitzero"`    // the id of the element that it is added to
	First bool   `json:"first,omitzero"` // it is added before the others
	HTML  string `json:"html,omitzero"`

	// Of a list that a look returns. The patch with a shape has those that follow and are within it in its HTML: it
	// is sent if the shape has changed, and they are sent otherwise.
	shape  string
	within bool
}

// put returns a patch that shows a node with an id.
func put(id, in string, n g.Node) patch { return patch{ID: id, In: in, HTML: text(n)} }

func text(n g.Node) string {
	var b strings.Builder
	if err := n.Render(&b); err != nil {
		panic(err) // a strings.Builder does not fail
	}
	return b.String()
}

func (s *server) screen(x screen) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := s.visit(r)
		if fault.Is(err, fault.Unauthentic) {
			s.signInPage(w, r)
			return
		}
		var c content
		if err == nil {
			c, err = x.render(v)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.write(w, r, http.StatusOK, v.document(c))
	})
}

// write sends HTML, compressed if the browser takes it.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, n g.Node) {
	var b bytes.Buffer
	if err := n.Render(&b); err != nil {
		s.Logger.Error("cannot make a page", "path", r.URL.Path, "error", err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	send(w, r, status, b.Bytes())
}

func send(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(b) > 1000 && acceptsGzip(r) {
		b = packed(b)
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	w.Write(b) //nolint:errcheck // the browser has gone
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		panic(err) // a bytes.Buffer does not fail
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// Fail answers a request that failed: a browser that wants a page gets one.
func Fail(log *slog.Logger) auth.Fail {
	return (&server{Options: Options{Logger: log}}).fail
}

func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		auth.WriteError(w, r, s.Logger, err)
		return
	}
	f := fault.Of(err)
	status := auth.StatusOf(f)
	if status >= 500 {
		s.Logger.Error("a page failed", "path", r.URL.Path, "error", err)
	}
	v := &visit{server: s, r: r, lang: languageOf(r)}
	s.write(w, r, status, v.errorPage(f))
}

// act performs an action.
func (s *server) act(w http.ResponseWriter, r *http.Request, do action) {
	out, err := func() (*reply, error) {
		v, err := s.visit(r)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json") // auth.Guard.Browser has refused what forms can send
		in, err := auth.ReadBody(w, r, maxBody)
		if err != nil {
			return nil, err
		}
		out, err := do(v, in)
		if err == nil && endsSessions(r.Pattern) {
			s.ended.tell()
		}
		return out, err
	}()
	if err != nil {
		auth.WriteError(w, r, s.Logger, err)
		return
	}
	if out == nil {
		out = &reply{}
	}
	out.Toast = visible(out.Toast)
	b, err := json.Marshal(out)
	if err != nil {
		auth.WriteError(w, r, s.Logger, err)
		return
	}
	if out.cookie != nil {
		http.SetCookie(w, out.cookie)
	}
	if out.leave { // what this browser keeps of the person: pictures, drafts
		w.Header().Set("Clear-Site-Data", `"cache", "storage"`)
	}
	w.Header().Set("Content-Type", "application/json")
	send(w, r, http.StatusOK, b)
}

// read reads the fields of an action.
func read[T any](in json.RawMessage) (x T, err error) {
	if err := json.Unmarshal(in, &x); err != nil {
		return x, fault.New(fault.Invalid, "fields_invalid", "the fields are not as expected: %w", err)
	}
	return x, nil
}

func (s *server) readAssets() error {
	sum := sha256.New()
	err := fs.WalkDir(assets, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		sum.Write(data)
		kind := mime.TypeByExtension(path.Ext(name))
		if path.Ext(name) == ".js" {
			kind = "text/javascript; charset=utf-8"
		}
		s.files[path.Base(name)] = &file{data: data, packed: packed(data), mime: kind}
		return nil
	})
	s.build = hex.EncodeToString(sum.Sum(nil))[:12]
	return err
}

// asset serves a file of ours. Its address changes with its content, so browsers keep it.
func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	f := s.files[r.PathValue("name")]
	if f == nil {
		s.fail(w, r, fault.New(fault.NotFound, "unknown_url", "there is no file %.100q", r.PathValue("name")))
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.mime)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.PathValue("build") != s.build { // the page is older than this Steward
		h.Set("Cache-Control", "no-store")
	}
	b := f.data
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		b = f.packed
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

func (s *server) at(name string) string { return "/assets/" + s.build + "/" + name }

// visit is a request of a person who is signed in.
type visit struct {
	*server
	r      *http.Request
	caller auth.Caller
	lang   string

	conversation id.ID                    // that is shown; zero: none
	queued       map[string]client.Intent // the actions of that conversation by their calls; see storedCall
}

func (s *server) visit(r *http.Request) (*visit, error) {
	c, err := auth.From(r.Context())
	if err != nil {
		return nil, err
	}
	return &visit{server: s, r: r, caller: c, lang: languageOf(r)}, nil
}

func (v *visit) ctx() context.Context { return v.r.Context() }

// workLog says in words what calls do.
func (v *visit) workLog() *worklog.Engine { return v.Node.Engine.WorkLog(v.caller.User) }
