package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/server/services"
	"steward/internal/service"
)

// TestAKeyThatTakesItsTime: the program that prints the key of one agent's model may
// itself request a model from Steward. Nothing else waits for it.
func TestAKeyThatTakesItsTime(t *testing.T) {
	at := func(owner, key string) service.Binding {
		return service.Binding{Owner: owner, Source: service.Remote, Config: service.Config{URL: "http://127.0.0.1:9/v1", Key: key}}
	}
	near, far := at("near", "NEAR"), at("far", "FAR")
	s := &agentServices{log: slog.New(slog.DiscardHandler), models: map[string]llm.Provider{}}
	s.answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	token, revoke := s.tokens.Mint(services.Grant{Services: service.Names(), Model: "default", Expires: time.Now().Add(time.Hour)})
	defer revoke()
	asked := 0
	var among llm.Provider // made while the key was being looked up
	s.Manager = service.NewManager(service.Options{Log: s.log, Secret: func(_, name string) (string, bool) {
		if asked++; name != "FAR" || asked > 1 {
			return "key", true
		}
		r := httptest.NewRequest("POST", services.Prefix+"/llm/chat/completions", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		if w.Code != http.StatusTeapot {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if _, err := s.remoteModels(near); err != nil {
			t.Error(err)
		}
		var err error
		if among, err = s.remoteModels(far); err != nil {
			t.Error(err)
		}
		return "key", true
	}})
	p, err := s.remoteModels(far) // it does not wait for itself
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.remoteModels(far); err != nil || p != among || again != among || asked != 3 {
		t.Errorf("%v %v %v %v, the key was asked for %d times", err, p, again, among, asked)
	}
	if err := s.Manager.Close(); err != nil {
		t.Error(err)
	}
}

// TestANameThatNoAgentHas: the agents of another Steward have names that none of ours can have.
func TestANameThatNoAgentHas(t *testing.T) {
	if g, err := new(agentServices).known(t.Context(), "ada", "office"); err != nil || agentPath.MatchString(g.Agent) {
		t.Errorf("one of ours could be called %q: %v", g.Agent, err)
	}
}
