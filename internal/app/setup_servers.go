package app

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
	"steward/internal/source/mcp"
	"steward/internal/tool"
)

// serverFile is the file of MCP servers that Steward writes.
func serverFile(set *settings.Loaded) string { return filepath.Join(set.Data, "mcp.json") }

// MCPServers returns the user's own servers by name.
func (a *App) MCPServers(set *settings.Loaded) map[string]mcp.Decl {
	files := append([]string{serverFile(set)}, set.MCP...)
	for _, file := range a.MCPFiles {
		files = append(files, a.Path(file))
	}
	return mcp.Declared(files...)
}

// MCPEnv returns what a server of the user's own gets of its surroundings.
func (a *App) MCPEnv(set *settings.Loaded, name string) tool.Env {
	log := slog.New(slog.DiscardHandler)
	have := a.Declared(set, log)
	return tool.Env{Name: name, Secret: func(name string) (string, bool) { return have("", name) }, Log: log}
}

// at says where a server is.
func at(d *mcp.Decl) (text string, program bool) {
	if d.URL != "" {
		return d.URL, false
	}
	words := d.Args
	switch c := d.Command.(type) {
	case string:
		words = append([]string{c}, words...)
	case []any:
		for i := len(c) - 1; i >= 0; i-- {
			if w, ok := c[i].(string); ok {
				words = append([]string{w}, words...)
			}
		}
	}
	return strings.Join(words, " "), true
}

// Servers implements api.Setup.
func (s *setupService) Servers(context.Context) (client.Servers, error) {
	_, set := s.current()
	out := client.Servers{Servers: []client.Server{}, Known: []client.KnownServer{}}
	all, own := s.app.MCPServers(set), mcp.Declared(serverFile(set))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		x := client.Server{Name: name}
		x.At, x.Program = at(&d)
		x.At = s.app.Hidden().Mask(x.At)
		_, x.Removable = own[name]
		if keys, err := d.Resource(s.app.MCPEnv(set, name), TokensOf(set, nil)); err == nil && keys != nil {
			x.SignsIn = true
			x.Lacks, x.SignedIn = keys.Lacks()
		}
		out.Servers = append(out.Servers, x)
	}
	have := s.app.Declared(set, slog.New(slog.DiscardHandler))
	for _, k := range mcp.KnownServers() {
		_, there := all[k.Name]
		d := k.In(set.Workspace)
		x := client.KnownServer{Name: k.Name, Title: k.Title, Source: k.Source, Added: there}
		x.At, x.Program = at(&d)
		for _, name := range slices.Sorted(maps.Keys(k.Secrets)) {
			_, ok := have("", name)
			x.Needs = append(x.Needs, client.KnownSecret{Name: name, About: k.Secrets[name], Have: ok})
		}
		out.Known = append(out.Known, x)
	}
	return out, nil
}

// AddServer implements api.Setup. Of servers that are programs it takes only those that are known by name, from the
// machine's own user: nobody can name a program in a browser.
func (s *setupService) AddServer(_ context.Context, user string, in client.NewServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.set
	if in.Known != "" {
		in.Name = cmp.Or(in.Name, strings.ReplaceAll(in.Known, "-", "_"))
	}
	if !providerName.MatchString(in.Name) {
		return fault.New(fault.Invalid, "mcp_name_invalid", "%.40q cannot be the name of a server", in.Name).WithHint("use lower-case letters, digits, - and _")
	}
	if _, there := s.app.MCPServers(set)[in.Name]; there { // before its secret is replaced
		return fault.New(fault.Conflict, "mcp_server_exists", "there is a server %s already", in.Name).WithHint("choose another name, or remove it first")
	}
	d, secrets, err := s.declare(set, user, in)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if err := secret.Check(secrets[name]); err != nil {
			return fault.Of(err).Detail("secret", name)
		}
	}
	store := secret.NewStore(secret.Folder(set.Data))
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		s.app.Hide(secrets[name], "secret of an MCP server")
		if err := store.Set(name, secrets[name]); err != nil {
			return err
		}
	}
	s.log.Info("an MCP server was added", "by", user, "name", in.Name)
	return mcp.AddServer(serverFile(set), in.Name, d)
}

// declare returns the declaration of a server to add, and the secrets to store for it.
func (s *setupService) declare(set *settings.Loaded, user string, in client.NewServer) (d mcp.Decl, secrets map[string]string, err error) {
	secrets = map[string]string{}
	if in.Known == "" {
		u, err := url.Parse(in.URL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Contains(in.URL, "${") || len(in.URL) > 1000 {
			return d, nil, fault.New(fault.Invalid, "mcp_url_invalid", "%.100q is not the address of a server", in.URL).WithHint("write https://HOST/mcp; programs are added with steward mcp add")
		}
		d.URL = in.URL
		if in.Token != "" {
			name := strings.ToUpper("mcp_" + strings.ReplaceAll(in.Name, "-", "_") + "_token")
			secrets[name] = in.Token
			d.Headers = map[string]string{"Authorization": "Bearer ${" + name + "}"}
		}
		return d, secrets, nil
	}
	k, ok := mcp.KnownServer(in.Known)
	switch {
	case !ok:
		return d, nil, fault.New(fault.NotFound, "mcp_server_unknown", "no server is known as %.40q", in.Known).WithHint("add it by its address")
	case k.Decl.URL == "" && user != identity.Local:
		return d, nil, fault.New(fault.Denied, "program_guarded", "%s is a program, which only the machine's own user lets run", in.Known)
	case k.Folder && (set.Workspace == "" || set.Workspace == "off"):
		return d, nil, fault.New(fault.Invalid, "folder_missing", "%s works in a folder, and the workspace is off", in.Known).WithHint("choose a folder in the settings (workspace), or use steward mcp add %s --folder FOLDER", in.Known)
	}
	have := s.app.Declared(set, slog.New(slog.DiscardHandler))
	for _, name := range slices.Sorted(maps.Keys(k.Secrets)) {
		if _, there := have("", name); there {
			continue
		}
		value := strings.TrimSpace(in.Secrets[name])
		if value == "" {
			return d, nil, fault.New(fault.Invalid, "secret_missing", "%s needs %s", in.Known, name).WithHint("it is %s", k.Secrets[name]).Detail("secret", name)
		}
		secrets[name] = value
	}
	return k.In(set.Workspace), secrets, nil
}

// RemoveServer implements api.Setup.
func (s *setupService) RemoveServer(_ context.Context, user, name string) error {
	_, set := s.current()
	s.signing.end(name)
	s.log.Info("an MCP server was removed", "by", user, "name", name)
	return mcp.RemoveServer(serverFile(set), name)
}

// signInTime is how long a person has for a sign-in.
const signInTime = 10 * time.Minute

// signInWait is how long SignInState waits.
const signInWait = 25 * time.Second

// signIns are the sign-ins at servers that are open, or have ended last, by the name of the server.
type signIns struct {
	mu     sync.Mutex
	all    map[string]*signIn
	closed bool
	run    sync.WaitGroup
}

// signIn is a sign-in. Its URL and code do not change after shown is closed, and err not after done is.
type signIn struct {
	cancel      context.CancelFunc
	url, code   string
	until       time.Time
	answers     chan url.Values
	shown, done chan struct{}
	err         error
}

// close ends all sign-ins, and waits for their ends.
func (s *signIns) close() error {
	s.mu.Lock()
	s.closed = true
	for _, x := range s.all {
		x.cancel()
	}
	s.mu.Unlock()
	s.run.Wait()
	return nil
}

// end ends the sign-in at a server.
func (s *signIns) end(server string) {
	s.mu.Lock()
	x := s.all[server]
	delete(s.all, server)
	s.mu.Unlock()
	if x != nil {
		x.cancel()
		<-x.done
	}
}

// begin begins a sign-in. ask asks the person.
func (s *signIns) begin(server string, ask func(context.Context, *signIn) error) (*signIn, error) {
	s.end(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fault.New(fault.Unavailable, "shutting_down", "Steward is stopping")
	}
	ctx, cancel := context.WithTimeout(context.Background(), signInTime)
	x := &signIn{cancel: cancel, until: time.Now().Add(signInTime), answers: make(chan url.Values), shown: make(chan struct{}), done: make(chan struct{})}
	if s.all == nil {
		s.all = map[string]*signIn{}
	}
	s.all[server] = x // there are as many as servers
	s.run.Go(func() {
		defer cancel()
		x.err = ask(ctx, x)
		if ctx.Err() == context.DeadlineExceeded {
			x.err = fault.New(fault.Timeout, "oauth_timeout", "the sign-in was not completed in time").WithHint("begin again")
		}
		close(x.done)
	})
	return x, nil
}

func (s *signIns) get(server string) *signIn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[server]
}

// view shows a sign-in.
func (s *setupService) view(server string, x *signIn) client.SignIn {
	out := client.SignIn{Server: server, State: client.SignInOpen, Until: x.until}
	select {
	case <-x.done:
		out.State = client.SignInDone
		if x.err != nil {
			out.State, out.Error = client.SignInFailed, s.app.Hidden().Mask(WithoutRemedy(fault.Of(x.err)))
		}
		return out
	default:
	}
	select {
	case <-x.shown:
		out.URL, out.Code = x.url, x.code
	default:
	}
	return out
}

// BeginSignIn implements api.Setup.
func (s *setupService) BeginSignIn(ctx context.Context, user, server string, device bool) (client.SignIn, error) {
	_, set := s.current()
	d, there := s.app.MCPServers(set)[server]
	if !there {
		return client.SignIn{}, serverUnknown(server)
	}
	opt, env := TokensOf(set, s.app.Hidden()), s.app.MCPEnv(set, server)
	keys, err := d.Resource(env, opt)
	switch {
	case err != nil:
		return client.SignIn{}, err
	case keys == nil:
		return client.SignIn{}, fault.New(fault.Unsupported, "mcp_no_sign_in", "%s is a program, or has a token: it needs no sign-in", server)
	}
	if err := NeedsSignIn(ctx, d, env, opt, keys, server); err != nil {
		return client.SignIn{}, notCaller(err)
	}
	x, err := s.signing.begin(server, func(ctx context.Context, x *signIn) error {
		return keys.Ask(ctx, oauth.Asking{Device: device, Answers: x.answers, Show: func(url, code string) {
			x.url, x.code = url, code
			close(x.shown)
		}})
	})
	if err != nil {
		return client.SignIn{}, err
	}
	s.log.Info("a sign-in at an MCP server was begun", "by", user, "name", server)
	select {
	case <-x.shown:
	case <-x.done:
		return client.SignIn{}, notCaller(cmp.Or(x.err, error(fault.New(fault.Unavailable, "oauth_failed", "the sign-in has ended"))))
	case <-ctx.Done():
		return client.SignIn{}, ctx.Err()
	}
	return s.view(server, x), nil
}

// NeedsSignIn asks a server what sign-in it requires. It returns an error if it cannot be asked, or requires none
// (mcp_no_sign_in).
func NeedsSignIn(ctx context.Context, d mcp.Decl, env tool.Env, opt mcp.Options, keys *oauth.Resource, name string) error {
	source, err := mcp.Opener(opt)(env, func(into any) error { *into.(*mcp.Decl) = d; return nil })
	if err != nil {
		return err
	}
	_, err = source.Announce(ctx)
	source.Close() //nolint:errcheck // it was only asked
	lacks, connected := keys.Lacks()
	switch {
	case err != nil && !strings.HasPrefix(fault.Of(err).Code, "oauth_"):
		return err
	case err == nil && lacks == "" && !connected:
		return fault.New(fault.Unsupported, "mcp_no_sign_in", "%s requires no sign-in: it can be used as it is", name)
	}
	return nil
}

// notCaller is an error of another server as an answer to an administrator: that it refuses Steward does not mean
// that Steward refuses the caller.
func notCaller(err error) error {
	e := fault.Of(err)
	if e.Kind == fault.Unauthentic || e.Kind == fault.Denied || e.Kind == fault.Internal {
		return fault.New(fault.Unavailable, e.Code, "%s", WithoutRemedy(e)).WithHint("%s", e.Remedy)
	}
	return err
}

func serverUnknown(name string) error {
	return fault.New(fault.NotFound, "mcp_server_unknown", "there is no MCP server %.80q", name).WithHint("steward mcp list shows the servers")
}

// SignInState implements api.Setup.
func (s *setupService) SignInState(ctx context.Context, server string, wait bool) (client.SignIn, error) {
	x := s.signing.get(server)
	if x == nil {
		return client.SignIn{}, fault.New(fault.NotFound, "sign_in_unknown", "no sign-in at %.80q was begun", server).WithHint("begin one")
	}
	if wait {
		late := time.NewTimer(signInWait)
		defer late.Stop()
		select {
		case <-x.done:
		case <-late.C:
		case <-ctx.Done():
		}
	}
	return s.view(server, x), nil
}

// AnswerSignIn implements api.Setup.
func (s *setupService) AnswerSignIn(ctx context.Context, server, address string) (client.SignIn, error) {
	now, err := s.SignInState(ctx, server, false)
	if err != nil || now.State != client.SignInOpen {
		return now, err
	}
	x := s.signing.get(server)
	if x == nil {
		return now, serverUnknown(server)
	}
	q, err := oauth.Answer(now.URL, address)
	if err != nil {
		return now, err
	}
	select {
	case x.answers <- q:
	case <-x.done:
	case <-ctx.Done():
		return now, ctx.Err()
	}
	return s.SignInState(ctx, server, true)
}
