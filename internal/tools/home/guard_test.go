package home

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "steward/test/seed" // a failing property says how to repeat it
)

// TestNoGroupLeadsToALock: in any home, whatever groups and scenes hold each other, what is not guarded reaches no
// lock, no cover and nothing unknown.
func TestNoGroupLeadsToALock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		var ids []string
		for i := range rapid.IntRange(1, 12).Draw(t, "entities") {
			ids = append(ids, rapid.SampledFrom([]string{"light", "lock", "cover", "group", "scene", "light", "group"}).Draw(t, "domain")+fmt.Sprintf(".e%d", i))
		}
		for _, id := range ids {
			s := &state{ID: id, State: "on", Attributes: map[string]any{}}
			if d := domainOf(id); d == "group" || d == "scene" || rapid.Bool().Draw(t, "a light group") && d == "light" {
				var members []any
				for range rapid.IntRange(0, 4).Draw(t, "members") {
					members = append(members, rapid.SampledFrom(append(ids, "light.unknown")).Draw(t, "member"))
				}
				s.Attributes["entity_id"] = members
			}
			m.apply(id, s)
		}
		for _, id := range ids {
			if m.device(m.states[id]).Guard != "" {
				continue
			}
			for _, reached := range m.reach(id, nil) {
				if _, known := m.states[reached]; !known || slices.Contains([]string{"lock", "cover"}, domainOf(reached)) {
					t.Fatalf("%s is not guarded, and reaches %s: %v", id, reached, m.states)
				}
			}
		}
	})
}

// reach returns all that an entity holds, at any depth.
func (m *model) reach(id string, seen []string) []string {
	if slices.Contains(seen, id) {
		return seen
	}
	seen = append(seen, id)
	for _, x := range m.plain(m.states[id]).Members {
		seen = m.reach(x, seen)
	}
	return seen
}

// FuzzStates: whatever Home Assistant answers for states, what is kept is bounded and can be shown.
func FuzzStates(f *testing.F) {
	f.Add(`[{"entity_id":"light.a","state":"on","attributes":{"brightness":1e300,"friendly_name":["x"],"entity_id":"light.a","rgb_color":[1,[2,{"a":3}],null]},"last_changed":"2026-11-29T08:00:00.000000+00:00"}]`)
	f.Add(`[null,{"entity_id":"","state":"x"},{"entity_id":".","attributes":null}]`)
	f.Fuzz(func(t *testing.T, body string) {
		var states []*state
		if json.Unmarshal([]byte(body), &states) != nil {
			return
		}
		m := newModel()
		for _, s := range states {
			if s != nil {
				m.apply(s.ID, s)
			}
		}
		for _, s := range m.states {
			d := m.device(s)
			if n := len(d.line()); n > 2000 {
				t.Errorf("a line of %d bytes", n)
			}
			d.details(s.Changed.Location())
			abilities(d)
		}
	})
}

// BenchmarkDevices: a tool call in a home of 3,000 entities.
func BenchmarkDevices(b *testing.B) {
	c := &conn{model: newModel()}
	c.expected = true
	for i := range 3000 {
		id := fmt.Sprintf("light.l%d", i)
		c.apply(id, &state{ID: id, State: "on", Attributes: map[string]any{"friendly_name": fmt.Sprintf("Lamp %d", i)}})
	}
	b.ReportAllocs()
	for b.Loop() {
		matches(c.devices(), "lamp 2000")
	}
}
