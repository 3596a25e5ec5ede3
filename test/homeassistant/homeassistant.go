// Package homeassistant is a Home Assistant for tests: its WebSocket API and the history of its REST API over
// a home in memory. It is made from developers.home-assistant.io/docs/api/websocket, …/docs/api/rest, and from
// the registries and exposed entities as homeassistant/components/config and …/homeassistant answer for them.
package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// Token is the long-lived token of the home's owner.
const Token = "long-lived token of ann"

// Version is the version that the server announces.
const Version = "2026.11.2"

// Secret returns the token.
func Secret(context.Context) (string, error) { return Token, nil }

// Entity is an entity with its entry in the registry and its state.
type Entity struct {
	ID, Name, Area, State string
	Device                string
	Attributes            map[string]any
	Hidden, Disabled      bool
	Private               bool // it is not exposed
	Undecided             bool // nobody has decided whether it is exposed
}

// Area is an area of the home.
type Area struct {
	ID, Name string
	Aliases  []string
}

// Call is a call of a service.
type Call struct {
	Domain, Service string
	Entities        []string
	Data            map[string]any
}

// Server is a running server.
type Server struct {
	URL string

	mu          sync.Mutex
	tb          testing.TB
	entities    []*Entity
	areas       []Area
	calls       []Call
	open        map[*session]bool
	connections int
	attempts    int

	// The fields below change what the server does. Set them with Do.
	Member     bool              // the token is not an administrator's
	Fail       map[string]string // service ("light.turn_on") to the code of its error
	Drop       string            // a type of command at which the connection is closed, once
	DropAfter  string            // a service after whose call the connection is closed, once
	LoseEvents bool              // no event is sent
	Silent     bool              // nothing is answered
	TurnsOn    string            // an entity that is turned on directly after an answer to get_states
	History    string            // the answer to requests for history
	Token      string            // the token that is right
	Called     func(Call)        // is told of each call of a service, in the lock
}

type session struct {
	ws         *websocket.Conn
	write      sync.Mutex
	subscribed map[string]int // event type to the number of the subscription
}

// Start starts a server with a home.
func Start(tb testing.TB, areas []Area, entities ...Entity) *Server {
	s := New(tb, areas, entities...)
	web := httptest.NewServer(s)
	s.URL = web.URL
	tb.Cleanup(func() {
		s.Cut()
		web.Close()
	})
	return s
}

// New returns a home that is served as a handler. Cut ends the connections.
func New(tb testing.TB, areas []Area, entities ...Entity) *Server {
	s := &Server{tb: tb, areas: areas, open: map[*session]bool{}, Fail: map[string]string{}, Token: Token}
	for _, e := range entities {
		s.entities = append(s.entities, &e)
	}
	return s
}

// Do changes the server while it runs.
func (s *Server) Do(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Calls returns the calls of services so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Connections returns how many connections were authenticated, and how many tried.
func (s *Server) Connections() (authenticated, attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections, s.attempts
}

// Cut closes all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	all := s.open
	s.open = map[*session]bool{}
	s.mu.Unlock()
	for c := range all {
		c.ws.CloseNow() //nolint:errcheck // that is the purpose
	}
}

// Set changes the state of an entity, as a switch on the wall does.
func (s *Server) Set(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entities {
		if e.ID == id {
			e.State = state
			s.changed(e)
			return
		}
	}
	s.tb.Errorf("there is no entity %s", id)
}

// Change changes an entity's entry in the registry.
func (s *Server) Change(id string, change func(*Entity)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entities {
		if e.ID == id {
			change(e)
		}
	}
	s.publish("entity_registry_updated", map[string]any{"action": "update", "entity_id": id})
}

func (e *Entity) state() map[string]any {
	attributes := map[string]any{"friendly_name": e.Name}
	for k, v := range e.Attributes {
		attributes[k] = v
	}
	at := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05.000000-07:00")
	return map[string]any{"entity_id": e.ID, "state": e.State, "attributes": attributes, "last_changed": at, "last_reported": at, "last_updated": at,
		"context": map[string]any{"id": "01KAZ0", "parent_id": nil, "user_id": nil}}
}

func (s *Server) changed(e *Entity) {
	s.publish("state_changed", map[string]any{"entity_id": e.ID, "old_state": nil, "new_state": e.state()})
}

// publish sends an event to those who have subscribed to it. The caller holds the lock.
func (s *Server) publish(event string, data any) {
	if s.LoseEvents {
		return
	}
	for c := range s.open {
		if n := c.subscribed[event]; n != 0 {
			c.send(map[string]any{"id": n, "type": "event", "event": map[string]any{"event_type": event, "data": data, "origin": "LOCAL", "time_fired": "2026-11-29T08:00:00.000000+00:00"}})
		}
	}
}

func (c *session) send(v any) {
	c.write.Lock()
	defer c.write.Unlock()
	b, _ := json.Marshal(v)                                    //nolint:errcheck,errchkjson // maps of texts
	c.ws.Write(context.Background(), websocket.MessageText, b) //nolint:errcheck // the client may be gone
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/websocket":
		ws, err := websocket.Accept(w, r, nil)
		if err == nil {
			s.talk(r.Context(), &session{ws: ws, subscribed: map[string]int{}})
		}
	case strings.HasPrefix(r.URL.Path, "/api/history/period/"):
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+s.Token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.FormValue("filter_entity_id") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, s.History) //nolint:errcheck // the client may be gone
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *Server) talk(ctx context.Context, c *session) {
	defer c.ws.CloseNow() //nolint:errcheck // it may be closed
	s.mu.Lock()
	s.attempts++
	right := s.Token
	s.mu.Unlock()
	c.send(map[string]any{"type": "auth_required", "ha_version": Version})
	var auth struct {
		Type  string `json:"type"`
		Token string `json:"access_token"`
	}
	_, data, err := c.ws.Read(ctx)
	if err != nil || json.Unmarshal(data, &auth) != nil || auth.Type != "auth" || auth.Token != right {
		c.send(map[string]any{"type": "auth_invalid", "message": "Invalid access token or password"})
		c.ws.Close(websocket.StatusNormalClosure, "") //nolint:errcheck // the client may be gone
		return
	}
	c.send(map[string]any{"type": "auth_ok", "ha_version": Version})
	s.mu.Lock()
	s.connections++
	s.open[c] = true
	s.mu.Unlock()
	defer s.Do(func(s *Server) { delete(s.open, c) })
	last := 0
	for {
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			return
		}
		var m struct {
			ID        int            `json:"id"`
			Type      string         `json:"type"`
			Event     string         `json:"event_type"`
			Assistant string         `json:"assistant"`
			Domain    string         `json:"domain"`
			Service   string         `json:"service"`
			Data      map[string]any `json:"service_data"`
			Target    struct {
				Entities []string `json:"entity_id"`
			} `json:"target"`
			Response bool `json:"return_response"`
		}
		if json.Unmarshal(data, &m) != nil {
			return
		}
		fail := func(code, text string) {
			c.send(map[string]any{"id": m.ID, "type": "result", "success": false, "error": map[string]any{"code": code, "message": text}})
		}
		result := func(v any) { c.send(map[string]any{"id": m.ID, "type": "result", "success": true, "result": v}) }
		if m.ID <= last {
			fail("id_reuse", "Identifier values have to increase.")
			continue
		}
		last = m.ID
		s.mu.Lock()
		silent, drop, member := s.Silent, s.Drop == m.Type, s.Member
		if drop {
			s.Drop = ""
		}
		s.mu.Unlock()
		if drop {
			return
		}
		if silent {
			continue
		}
		switch m.Type {
		case "ping":
			c.send(map[string]any{"id": m.ID, "type": "pong"})
		case "subscribe_events":
			s.Do(func(*Server) { c.subscribed[m.Event] = m.ID })
			result(nil)
		case "get_states", "config/area_registry/list", "config/device_registry/list", "config/entity_registry/list":
			s.Do(func(s *Server) {
				result(s.lists(m.Type)) // in the lock: events after it are newer
				for _, e := range s.entities {
					if m.Type == "get_states" && e.ID == s.TurnsOn {
						e.State = "on"
						s.changed(e)
						e.State = "off"
					}
				}
			})
		case "homeassistant/expose_entity/list", "homeassistant/expose_new_entities/get":
			if member {
				fail("unauthorized", "Unauthorized")
				continue
			}
			s.Do(func(s *Server) { result(s.exposed(m.Type)) })
		case "call_service":
			code, end := s.service(Call{m.Domain, m.Service, m.Target.Entities, m.Data})
			switch {
			case end:
				return
			case code != "":
				fail(code, "The service "+m.Domain+"."+m.Service+" failed")
			case m.Response != (m.Service == "get_items"):
				fail("service_validation_error", "The service does not return responses, or must be called with return_response")
			default:
				var response any
				if m.Response {
					response = map[string]any{m.Target.Entities[0]: map[string]any{"items": []map[string]any{{"summary": "Milk", "uid": "1", "status": "needs_action"}, {"summary": "Bread", "uid": "2", "status": "needs_action"}}}}
				}
				result(map[string]any{"context": map[string]any{"id": "01KAZ1", "parent_id": nil, "user_id": "ann"}, "response": response})
			}
		default:
			fail("unknown_command", "Unknown command.")
		}
	}
}

// lists answers for the states and the registries. The caller holds the lock.
func (s *Server) lists(what string) any {
	all := []map[string]any{}
	switch what {
	case "config/area_registry/list":
		for _, a := range s.areas {
			all = append(all, map[string]any{"area_id": a.ID, "name": a.Name, "aliases": append([]string{}, a.Aliases...), "floor_id": nil, "icon": nil, "labels": []string{}, "picture": nil})
		}
		return all
	case "config/device_registry/list":
		for _, e := range s.entities {
			if e.Device != "" {
				all = append(all, map[string]any{"id": e.Device, "area_id": e.Area, "name": e.Name, "name_by_user": nil, "disabled_by": nil})
			}
		}
		return all
	}
	for _, e := range s.entities {
		if what == "get_states" {
			if !e.Disabled {
				all = append(all, e.state())
			}
			continue
		}
		by := func(yes bool) any {
			if yes {
				return "user"
			}
			return nil
		}
		entry := map[string]any{"entity_id": e.ID, "area_id": e.Area, "device_id": nil, "name": nil, "original_name": e.Name, "hidden_by": by(e.Hidden), "disabled_by": by(e.Disabled), "entity_category": nil, "options": map[string]any{}, "platform": "demo"}
		if e.Device != "" {
			entry["device_id"], entry["area_id"] = e.Device, nil
		}
		if !e.Undecided {
			entry["options"] = map[string]any{"conversation": map[string]any{"should_expose": !e.Private}}
		}
		all = append(all, entry)
	}
	return all
}

// exposed answers for what is exposed. The caller holds the lock.
func (s *Server) exposed(what string) any {
	if what == "homeassistant/expose_new_entities/get" {
		return map[string]any{"expose_new": true}
	}
	list := map[string]any{}
	for _, e := range s.entities {
		list[e.ID] = map[string]any{}
		if !e.Undecided {
			list[e.ID] = map[string]any{"conversation": !e.Private}
		}
	}
	return map[string]any{"exposed_entities": list}
}

// service calls a service.
func (s *Server) service(call Call) (code string, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := call.Domain + "." + call.Service
	if code := s.Fail[name]; code != "" {
		return code, false
	}
	s.calls = append(s.calls, call)
	if s.Called != nil {
		s.Called(call)
	}
	to := map[string]string{"turn_on": "on", "turn_off": "off", "lock": "locked", "unlock": "unlocked", "open_cover": "open", "close_cover": "closed",
		"alarm_disarm": "disarmed", "media_play": "playing", "media_pause": "paused", "set_hvac_mode": fmt.Sprint(call.Data["hvac_mode"])}[call.Service]
	for _, e := range s.entities {
		if slices.Contains(call.Entities, e.ID) {
			if to != "" && call.Domain != "scene" {
				e.State = to
			}
			s.changed(e)
		}
	}
	if s.DropAfter == name {
		s.DropAfter = ""
		return "", true
	}
	return "", false
}
