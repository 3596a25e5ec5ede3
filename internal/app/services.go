package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	providerwire "steward/internal/provider/wire"
	"steward/internal/request"
	"steward/internal/runtime"
	"steward/internal/server/auth"
	"steward/internal/server/services"
	"steward/internal/service"
	servicelocal "steward/internal/service/local"
	serviceremote "steward/internal/service/remote"
	"steward/internal/settings"
	"steward/internal/store"
)

// agentServices provides the services of agents, and gives their programs the address and a
// token of those that an agent offers.
type agentServices struct {
	*service.Manager
	bindings func(agent string) (service.Bindings, error) // of agents that may be used
	declared func(agent string) (service.Bindings, error) // of any agent
	db       *servicelocal.DB
	kv       servicelocal.KV
	tokens   services.Tokens
	log      *slog.Logger
	timeouts settings.Timeouts

	mu     sync.Mutex
	chat   http.Handler            // of the llm service; nil until there is a node
	models map[string]llm.Provider // remote servers by owner and URL

	once sync.Once
	url  string // of the listener for programs, which opens with the first program
	http *http.Server
	err  error
}

// remoteAgents is where agents of other Stewards store their data. None of our own agents can
// have such a name.
const remoteAgents = "remote-steward/"

func newAgentServices(set *settings.Loaded, st store.Store, log *slog.Logger, secrets func(agent, name string) (string, bool),
	bindings func(agent string) (service.Bindings, error), profile func(ctx context.Context, user string) (json.RawMessage, error)) *agentServices {
	s := &agentServices{db: &servicelocal.DB{Dir: filepath.Join(set.Data, "services")}, kv: servicelocal.KV{Store: st},
		log: log, timeouts: set.Timeouts, models: map[string]llm.Provider{}}
	s.bindings = func(agent string) (service.Bindings, error) {
		if !strings.HasPrefix(agent, remoteAgents) {
			return bindings(agent)
		}
		all := service.Root()
		for n, b := range all {
			b.Owner = agent
			all[n] = b
		}
		return all, nil
	}
	s.Manager = service.NewManager(service.Options{
		Bindings: s.bindings, KV: s.kv, DB: s.db, Profile: profile, Log: log,
		Dial: func(url string, key service.Key) (service.RemoteBackend, error) {
			return serviceremote.Dial(url, key), nil
		},
		DialLog: serviceremote.DialLog,
		Secret:  secrets,
	})
	return s
}

// answer sets the handler of the llm service.
func (s *agentServices) answer(chat http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chat = chat
}

// handler returns the handler of the services. Users authenticate with their keys if a guard
// wraps it.
func (s *agentServices) handler() http.Handler {
	return services.Handler(services.Options{Services: s.Manager, Tokens: &s.tokens, Known: s.known, Logger: s.log,
		Chat: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			chat := s.chat
			s.mu.Unlock()
			if chat == nil {
				auth.WriteError(w, r, s.log, fault.New(fault.Unavailable, "starting", "Steward is still starting").Retrying(fault.RetryBackoff, 0))
				return
			}
			chat.ServeHTTP(w, r)
		})})
}

var agentPath = regexp.MustCompile(`^[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*){0,7}$`)

// known returns what a user may use with an API key: the data that agents of another Steward
// store here for that user.
func (s *agentServices) known(_ context.Context, user, agent string) (services.Grant, error) {
	if !agentPath.MatchString(agent) {
		return services.Grant{}, fault.New(fault.Invalid, "agent_invalid", "%.80q is not the path of an agent", agent).
			WithHint("name the agent in the header %s, such as personal_assistant/email", serviceremote.AgentHeader)
	}
	return services.Grant{Caller: service.Caller{Agent: remoteAgents + agent, User: user}, Services: service.Names(), Model: "default"}, nil
}

// remoteModels returns the server of an llm service at a URL.
func (s *agentServices) remoteModels(b service.Binding) (llm.Provider, error) {
	at := b.Owner + " " + b.URL
	if p := s.remoteModel(at, nil); p != nil {
		return p, nil
	}
	key, err := s.Key(b) // without the lock: it may run a program, which may itself request a model here
	if err != nil {
		return nil, err
	}
	client := providerwire.Pool()
	if key != "" {
		client.Transport = replacing(client.Transport, &credential{now: key, read: func(context.Context) (string, error) { return s.Key(b) }})
	}
	return s.remoteModel(at, Vendors()[0].Open(llm.Endpoint{Name: "service", BaseURL: strings.TrimSuffix(b.URL, "/"), Key: key, Dialect: "chat", HTTP: client,
		FirstByte: s.timeouts.FirstByte, Idle: s.timeouts.Idle})), nil
}

// remoteModel returns the known server. If there is none, it stores and returns made, which
// may be nil.
func (s *agentServices) remoteModel(at string, made llm.Provider) llm.Provider {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.models[at]; p != nil {
		return p
	}
	if made != nil {
		s.models[at] = made
	}
	return made
}

// remoteModelPrefix begins the name under which programs call the model of an agent's llm service at
// a URL. The agent's path follows.
const remoteModelPrefix = "service:"

// programsNode is the node as programs use it to call models.
type programsNode struct {
	*runtime.Node
	services *agentServices
}

// Resolve also finds the models of agents' llm services.
func (n programsNode) Resolve(name string) (llm.Resolved, error) {
	agent, far := strings.CutPrefix(name, remoteModelPrefix)
	if !far {
		return n.Node.Resolve(name)
	}
	b, err := n.services.Binding(agent, service.LLM)
	if err != nil {
		return llm.Resolved{}, err
	}
	return n.ServiceModel(b)
}

// tokenLife is how long a program's token is valid unless it is revoked before.
const tokenLife = 24 * time.Hour

// environ returns the environment variables with which an agent's programs find the services
// that it offers. A program that is started without a user and kept running gets only the
// address; each of its calls then brings a token.
func (s *agentServices) environ(agent string) func(ctx context.Context) ([]string, func(), error) {
	return func(ctx context.Context) ([]string, func(), error) {
		rc, _ := request.From(ctx)
		find := s.bindings
		if rc.User == "" { // it may be started for inspection, before its approval
			find = s.declared
		}
		all, err := find(agent)
		if err != nil {
			return nil, nil, err
		}
		grant := services.Grant{Caller: service.Caller{Agent: agent, User: rc.User}, Services: offered(all),
			Model: cmp.Or(all[service.LLM].Model, "default"), Expires: time.Now().Add(tokenLife)}
		if all[service.LLM].Source == service.Remote {
			grant.Model = remoteModelPrefix + agent
		}
		if len(grant.Services) == 0 {
			return nil, func() {}, nil
		}
		if s.once.Do(s.listen); s.err != nil {
			return nil, nil, s.err
		}
		env := []string{"STEWARD_SERVICES_URL=" + s.url}
		if rc.User == "" {
			return env, func() {}, nil
		}
		token, revoke := s.tokens.Mint(grant)
		return append(env, "STEWARD_TOKEN="+token), revoke, nil
	}
}

// offered returns the services that an agent offers to its programs.
func offered(all service.Bindings) []service.Name {
	return slices.DeleteFunc(service.Names(), func(n service.Name) bool { return !all[n].Offered })
}

// listen opens the listener for programs, on loopback.
func (s *agentServices) listen() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.err = fault.New(fault.Unavailable, "listen_failed", "programs cannot be served: %w", err)
		return
	}
	s.url = "http://" + ln.Addr().String() + services.Prefix
	s.http = auth.Timeouts{}.Server(s.handler())
	s.http.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	go func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serving programs failed", "error", err)
		}
	}()
}

// Close closes the listener, the services and their databases.
func (s *agentServices) Close() error {
	s.once.Do(func() { s.err = fault.New(fault.Unavailable, "closing", "Steward is closing") })
	var err error
	if s.http != nil {
		err = s.http.Close()
	}
	return errors.Join(err, s.Manager.Close(), s.db.Close())
}
