package home_test

import (
	"context"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/tools/home"
)

// follow follows a condition, and returns what it has seen: "+" it came true, "-" it did not.
func (w *world) follow(condition, cursor string) (seen func() string, stop func() string) {
	w.Helper()
	c, err := home.ParseCondition(condition)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var mu sync.Mutex
	text, done := "", make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range w.home.Watch(ctx, c, cursor) {
			mu.Lock()
			switch {
			case err != nil:
				text += fault.Of(err).Code
			case e.Entered:
				text += "+"
			default:
				text += "-"
			}
			cursor = e.Cursor
			mu.Unlock()
		}
	}()
	return func() string { mu.Lock(); defer mu.Unlock(); return text }, func() string { cancel(); <-done; return cursor }
}

func TestWatchAState(t *testing.T) {
	w := newWorld(t, quick)
	seen, stop := w.follow("light.kitchen=on", "")
	reaches := func(want string) { w.Helper(); w.until(func() bool { return seen() == want }) }
	reaches("-") // what holds now is known
	w.Set("light.kitchen", "on")
	reaches("-+")
	w.Set("light.kitchen", "unavailable") // says nothing
	w.Set("light.kitchen", "on")
	w.Set("light.kitchen", "off")
	reaches("-+-")
	w.Cut()
	w.Set("light.kitchen", "on") // while there is no connection
	reaches("-+-+")
	w.Cut()
	w.until(w.has("kitchen light", "on"))
	w.Set("light.kitchen", "off")
	reaches("-+-+-")
	cursor := stop()

	// What came true while nobody looked is reported once.
	w.Set("light.kitchen", "on")
	w.until(w.has("kitchen light", "on"))
	seen, stop = w.follow("light.kitchen=on", cursor)
	reaches("+")
	cursor = stop()
	seen, stop = w.follow("light.kitchen=on", cursor)
	w.Set("light.kitchen", "off")
	reaches("-")
	stop()

	seen, stop = w.follow("sensor.bath_temperature>25", "")
	reaches("-")
	for _, v := range []string{"24", "26", "27", "unknown", "28", "25", "25.5"} {
		w.Set("sensor.bath_temperature", v)
	}
	reaches("-+-+")
	stop()

	seen, stop = w.follow("light.private=on", "")
	reaches("home_not_exposed")
	stop()
}

func TestConditions(t *testing.T) {
	for _, text := range []string{"", "light.hall", "hall=on", "sensor.x>", "sensor.x>warm", "light.hall==on ", "Light.Hall=on"} {
		c, err := home.ParseCondition(text)
		if !fault.HasCode(err, "condition_invalid") && c.Value != "=on" {
			t.Errorf("%q: %+v %v", text, c, err)
		}
	}
	for text, want := range map[string]home.Condition{"light.hall=on": {Entity: "light.hall", Op: "=", Value: "on"}, " sensor.x >= 2.5": {Entity: "sensor.x", Op: ">=", Value: "2.5"},
		"cover.a!=closed": {Entity: "cover.a", Op: "!=", Value: "closed"}} {
		if c, err := home.ParseCondition(text); err != nil || c != want {
			t.Errorf("%q: %+v %v", text, c, err)
		}
	}
	w := newWorld(t, quick)
	if err := w.home.CanWatch(t.Context(), home.Condition{Entity: "light.kitchen", Op: "=", Value: "on"}); err != nil {
		t.Error(err)
	}
	if err := w.home.CanWatch(t.Context(), home.Condition{Entity: "light.none", Op: "=", Value: "on"}); !fault.HasCode(err, "home_not_exposed") {
		t.Error(err)
	}
}
