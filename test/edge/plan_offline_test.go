package edge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// Answers of Open-Meteo's services, as open-meteo.com/en/docs and …/docs/geocoding-api show them.
const (
	seattle  = `{"results":[{"id":5809844,"name":"Seattle","latitude":47.60621,"longitude":-122.33207,"timezone":"America/Los_Angeles","country":"United States","admin1":"Washington"}]}`
	drizzles = `{"latitude":47.6,"longitude":-122.3,"timezone":"America/Los_Angeles","current":{"time":"2026-11-24T02:15","interval":900,"temperature_2m":8.5,"apparent_temperature":6.4,"precipitation":0.1,"weather_code":51,"wind_speed_10m":9.8},` +
		`"daily":{"time":["2026-11-24"],"weather_code":[61],"temperature_2m_max":[9.1],"temperature_2m_min":[5.0],"precipitation_sum":[1.2],"precipitation_probability_max":[80],"wind_speed_10m_max":[20.1],"sunrise":["2026-11-24T07:25"],"sunset":["2026-11-24T16:24"]}}`
)

// outside serves the weather and a search on this machine, as settings. Once both sides have been asked, at
// the latest, they answer: who asks one after the other waits in vain. While down is set they refuse.
func outside(t *testing.T, down *atomic.Bool) (settings string) {
	asked := map[string]chan struct{}{"/search": make(chan struct{}), "/forecast": make(chan struct{})}
	var once [2]sync.Once
	meet := func(r *http.Request, n int, own, other string) {
		once[n].Do(func() { close(asked[own]) })
		select {
		case <-asked[other]:
		case <-r.Context().Done():
		}
	}
	answers := func(w http.ResponseWriter, r *http.Request) (text string) {
		switch {
		case down.Load():
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Path == "/places":
			return seattle
		case r.URL.Path == "/search" && r.URL.Query().Get("q") != "lodging weekend mountain trip":
			t.Errorf("searched for %s", r.URL.RawQuery)
		case r.URL.Path == "/search":
			meet(r, 0, "/search", "/forecast")
			return `{"results":[{"title":"A hut","url":"https://hut.example","content":"Beds above the clouds"}]}`
		default:
			meet(r, 1, "/forecast", "/search")
			return drizzles
		}
		return ""
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, answers(w, r)) //nolint:errcheck // the caller may be gone
	}))
	t.Cleanup(service.Close)
	return fmt.Sprintf("profile: {location: Seattle}\nweather: {url: %q, places_url: %q}\nweb: {search: {engine: searxng, url: %q}}\n", service.URL+"/forecast", service.URL+"/places", service.URL)
}

// TestTheOfflineModelPlans: steps that follow each other become one designed agent with a tool for each, and
// a step whose tool is not certain is named instead.
func TestTheOfflineModelPlans(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, map[bool]string{true: seattle, false: drizzles}[r.URL.Path == "/places"]) //nolint:errcheck // the caller may be gone
	}))
	t.Cleanup(service.Close)
	n := edge.New(t, edge.Options{})
	n.Env = append(n.Env, "STEWARD_CONFIG="+n.Write(fmt.Sprintf("weather: {url: %q, places_url: %q}\n", service.URL+"/forecast", service.URL+"/places"), "own.yaml"))
	out := n.Must("ask", "-q", "--agent", "planner", "Check the weather in Seattle and then set a timer for 10 minutes")
	if !strings.Contains(out, "drizzle") || !strings.Contains(out, "timer") {
		t.Error(out)
	}
	if tree := n.Must("requests", "show", "last"); !inOrder(tree, []string{"plan.start", "weather.forecast", "timer.set"}) {
		t.Error(tree)
	}
	out = n.Must("ask", "-q", "--agent", "planner", "Check the weather in Seattle and then take care of the timer")
	if !strings.Contains(out, `not sure what "take care of the timer" means`) || strings.Contains(out, "drizzle") {
		t.Error(out)
	}
}
