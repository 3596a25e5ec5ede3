// Package served serves a node to one person, as the terminal chat is
// served.
package served

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"steward/client"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/chat"
	"steward/internal/server/httpauth"
)

// To serves a node to a user over HTTP until the test ends. agents decides
// about agents and sources; nil: there are none.
func To(t *testing.T, n *runtime.Node, user string, agents chat.Agents) *client.Client {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	talks := chat.Handler(chat.Options{Node: n, Agents: agents, Logger: log})
	mux := http.NewServeMux()
	mux.Handle(chat.Path, talks)
	mux.Handle("/", api.Handler(api.Options{Node: n, Agents: agents, Logger: log}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(httpauth.With(r.Context(), httpauth.Caller{User: user, Admin: true})))
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		talks.Shutdown(ctx) //nolint:errcheck // says that it has cut some off
		s.Close()
	})
	return client.New(client.Options{URL: s.URL, HTTP: s.Client(), Fault: httpauth.FaultOf})
}
