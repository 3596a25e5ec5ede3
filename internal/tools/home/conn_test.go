package home_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/tools/home"
	"steward/test/homeassistant"
)

// until waits for a condition that another goroutine makes true.
func (w *world) until(holds func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("it did not happen")
		}
	}
}

func (w *world) has(device, state string) func() bool {
	return func() bool {
		got, err := w.try("state", `{"device":"`+device+`"}`)
		return err == nil && strings.Contains(got, ": "+state)
	}
}

func TestAWrongToken(t *testing.T) {
	w := newWorld(t, quick)
	w.Do(func(s *homeassistant.Server) { s.Token = "another" })
	for range 5 {
		if err := w.refused("home_token_refused", "list", `{}`); !strings.Contains(err.Remedy, "long-lived access token") {
			t.Error(err.Remedy)
		}
	}
	if _, attempts := w.Connections(); attempts != 1 { // Home Assistant bans who keeps trying
		t.Errorf("%d attempts", attempts)
	}
	if _, _, err := w.home.Check(t.Context()); !fault.HasCode(err, "home_token_refused") {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	w := newWorld(t, quick)
	version, n, err := w.home.Check(t.Context())
	if err != nil || version != homeassistant.Version || n != 18 {
		t.Error(version, n, err)
	}
}

// States follow events, through lost connections.
func TestStatesAreLive(t *testing.T) {
	w := newWorld(t, quick)
	w.call("list", `{}`)
	for i, state := range []string{"on", "off", "on", "off", "on"} {
		w.Set("light.kitchen", state)
		w.until(w.has("kitchen light", state))
		w.Cut()
		w.until(func() bool { n, _ := w.Connections(); return n >= i+2 })
	}
	w.Change("light.private", func(e *homeassistant.Entity) { e.Private = false })
	w.until(w.has("private light", "on"))
	w.Change("light.counter", func(e *homeassistant.Entity) { e.Hidden = true })
	w.until(func() bool {
		_, err := w.try("state", `{"device":"light.counter"}`)
		return fault.HasCode(err, "device_not_found")
	})
}

// What changes while there is no connection is known after the next one, and a connection that is lost in the
// middle of reading is made again.
func TestChangesBetweenConnections(t *testing.T) {
	w := newWorld(t, quick)
	w.call("list", `{}`)
	for _, at := range []string{"subscribe_events", "get_states", "config/device_registry/list", "homeassistant/expose_entity/list"} {
		n, _ := w.Connections()
		w.Do(func(s *homeassistant.Server) { s.Drop = at })
		w.Cut()
		w.until(func() bool { now, _ := w.Connections(); return now >= n+2 })
		w.Set("light.kitchen", at)
		w.until(w.has("kitchen light", strings.ReplaceAll(at, "_", " ")))
	}
}

// An event directly after the states that were read is newer than they are.
func TestAnEventAfterTheStates(t *testing.T) {
	w := newWorld(t, quick)
	w.Do(func(s *homeassistant.Server) { s.TurnsOn = "light.kitchen" })
	for i := range 30 {
		w.until(w.has("kitchen light", "on"))
		w.Cut()
		w.until(func() bool { n, _ := w.Connections(); return n >= i+2 })
	}
}

// Events that never come are made up for when everything is read again.
func TestLostEvents(t *testing.T) {
	timing := quick
	timing.Reload = 5 * time.Millisecond
	w := newWorld(t, timing)
	w.call("list", `{}`)
	w.Do(func(s *homeassistant.Server) { s.LoseEvents = true })
	w.Set("light.kitchen", "on")
	w.until(w.has("kitchen light", "on"))
}

// A connection that answers nothing any more is noticed by a ping, and states from before are not shown.
func TestADeadConnection(t *testing.T) {
	timing := quick
	timing.Ping, timing.Answer = 5*time.Millisecond, time.Second
	w := newWorld(t, timing)
	w.call("list", `{}`)
	w.Do(func(s *homeassistant.Server) { s.Silent = true })
	w.until(func() bool { _, err := w.try("list", `{}`); return err != nil })
	if err := w.refused("home_timeout", "list", `{}`); err.Remedy == "" {
		t.Error(err)
	}
	w.Do(func(s *homeassistant.Server) { s.Silent = false })
	w.until(func() bool { _, err := w.try("list", `{}`); return err == nil })
}

// Without an administrator's token, the entity registry says what is exposed. What nobody has decided is not shown.
func TestATokenOfAMember(t *testing.T) {
	w := newWorld(t, quick)
	w.Do(func(s *homeassistant.Server) { s.Member = true })
	w.contains(w.call("list", `{"kind":"light"}`), "Kitchen light", "!Private", "!New light")
}

func TestNobodyIsThere(t *testing.T) {
	timing := quick
	timing.Wait = 50 * time.Millisecond
	h := home.New(home.Options{URL: "http://127.0.0.1:1", Token: homeassistant.Secret, Transport: http.DefaultTransport, Timing: timing})
	if _, _, err := h.Check(t.Context()); !fault.HasCode(err, "home_unavailable") || fault.Of(err).Remedy == "" {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := h.Check(t.Context()); err == nil {
		t.Error("it is closed")
	}
}

func TestHistory(t *testing.T) {
	w := newWorld(t, quick)
	w.Do(func(s *homeassistant.Server) {
		s.History = `[[{"entity_id":"sensor.bath_temperature","state":"19.5","attributes":{},"last_changed":"2026-11-29T06:00:00+00:00","last_updated":"2026-11-29T06:00:00+00:00"},{"state":"22","last_changed":"2026-11-29T07:00:00+00:00"},{"state":"unavailable","last_changed":"2026-11-29T07:30:00+00:00"}]]`
	})
	w.contains(w.call("history", `{"device":"temperature","area":"bath","hours":6}`), "in the last 6 hours: from 19.5 °C to 22 °C\n- Sun 29 Nov 06:00: 19.5 °C\n- Sun 29 Nov 07:00: 22 °C\n- Sun 29 Nov 07:30: not reachable")
	w.Do(func(s *homeassistant.Server) { s.History = "[]" })
	w.contains(w.call("history", `{"device":"kettle"}`), "nothing is recorded")
	var long []string
	for range 5000 {
		long = append(long, `{"state":"21.5","last_changed":"2026-11-29T07:00:00+00:00"}`)
	}
	w.Do(func(s *homeassistant.Server) { s.History = "[[" + strings.Join(long, ",") + "]]" })
	if got := w.call("history", `{"device":"temperature","area":"bath"}`); len(got) > 4000 {
		t.Errorf("%d bytes", len(got))
	}
	w.Do(func(s *homeassistant.Server) { s.History = "<html>" })
	w.refused("home_unavailable", "history", `{"device":"kettle"}`)
}
