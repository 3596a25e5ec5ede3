package home_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/home"
	"steward/internal/tools/local"
	"steward/test/homeassistant"
)

// places are the areas of the house.
var places = []homeassistant.Area{{ID: "kitchen", Name: "Kitchen", Aliases: []string{"Küche"}}, {ID: "bed", Name: "Bedroom"}, {ID: "bath", Name: "Bath"}, {ID: "hall", Name: "Hall"}}

// house is a small home.
func house() []homeassistant.Entity {
	member := func(ids ...string) map[string]any { return map[string]any{"entity_id": ids} }
	class := func(class string) map[string]any { return map[string]any{"device_class": class} }
	return []homeassistant.Entity{
		{ID: "light.kitchen", Name: "Kitchen light", Area: "kitchen", State: "off", Attributes: map[string]any{"brightness": 128}},
		{ID: "light.counter", Name: "Counter", Area: "kitchen", State: "on", Device: "d1"},
		{ID: "light.bed_left", Name: "Left lamp", Area: "bed", State: "on"},
		{ID: "light.bed_right", Name: "Right lamp", Area: "bed", State: "on"},
		{ID: "climate.bath", Name: "Bath heating", Area: "bath", State: "heat", Attributes: map[string]any{"current_temperature": 21.5, "temperature": 22, "hvac_modes": []string{"off", "heat"}}},
		{ID: "sensor.bath_temperature", Name: "Bath temperature", Area: "bath", State: "21.5", Attributes: map[string]any{"device_class": "temperature", "unit_of_measurement": "°C"}},
		{ID: "lock.front_door", Name: "Front door", Area: "hall", State: "locked"},
		{ID: "binary_sensor.front_door", Name: "Front door", Area: "hall", State: "off", Attributes: class("door")},
		{ID: "cover.garage", Name: "Garage door", State: "closed", Attributes: class("garage")},
		{ID: "switch.gate", Name: "Gate relay", State: "off"},
		{ID: "switch.kettle", Name: "Kettle", Area: "kitchen", State: "off"},
		{ID: "alarm_control_panel.home", Name: "House alarm", State: "armed_away"},
		{ID: "scene.evening", Name: "Evening", State: "unknown", Attributes: member("light.kitchen", "light.counter")},
		{ID: "scene.arrive", Name: "Arrive", State: "unknown", Attributes: member("light.kitchen", "lock.front_door")},
		{ID: "script.party", Name: "Party", State: "off"},
		{ID: "todo.shopping", Name: "Shopping", State: "2"},
		{ID: "light.hidden", Name: "Hidden light", Area: "kitchen", State: "on", Hidden: true},
		{ID: "light.private", Name: "Private light", Area: "kitchen", State: "on", Private: true},
		{ID: "light.new", Name: "New light", Area: "hall", State: "off", Undecided: true},
		{ID: "lock.new", Name: "New lock", Area: "hall", State: "locked", Undecided: true},
		{ID: "light.broken", Name: "Broken light", Area: "hall", State: "unavailable"},
	}
}

// world is a Home Assistant and the tools over it.
type world struct {
	*testing.T
	*homeassistant.Server
	home  *home.Home
	tools map[string]tool.Tool
	key   int
}

// quick are waits that a test can live with.
var quick = home.Timing{Answer: 30 * time.Second, Wait: 30 * time.Second, Retry: time.Millisecond, Banned: time.Hour, Settle: time.Millisecond}

func newWorld(t *testing.T, timing home.Timing, entities ...homeassistant.Entity) *world {
	if entities == nil {
		entities = house()
	}
	s := homeassistant.Start(t, places, entities...)
	w := &world{T: t, Server: s, tools: map[string]tool.Tool{}}
	w.home = home.New(home.Options{URL: s.URL, Token: homeassistant.Secret, Transport: http.DefaultTransport, Timing: timing, Ask: []string{"switch.dull"}, For: tool.OwnedBy([]string{"ann"}, nil)})
	t.Cleanup(func() { w.home.Close() }) //nolint:errcheck // it returns none
	k := local.NewKit(tool.Env{Name: "home"}, "")
	home.Add(k, w.home)
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, t := range list {
		w.tools[strings.TrimPrefix(t.Spec().Name, "home.")] = t
	}
	return w
}

func text(res tool.Result) string {
	var out []string
	for _, b := range res.Content {
		if t, ok := b.(*message.Text); ok {
			out = append(out, t.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (w *world) try(name, args string) (string, error) {
	w.Helper()
	w.key++
	res, err := w.tools[name].Call(w.Context(), tool.Invocation{Args: json.RawMessage(args), User: "ann", Key: fmt.Sprint(w.key)})
	return text(res), err
}

func (w *world) call(name, args string) string {
	w.Helper()
	got, err := w.try(name, args)
	if err != nil {
		w.Fatalf("%s %s: %v (%s)", name, args, err, fault.Of(err).Remedy)
	}
	return got
}

// refused calls a tool that has to fail with a code, without a call of a service.
func (w *world) refused(code, name, args string) *fault.Error {
	w.Helper()
	before := len(w.Calls())
	got, err := w.try(name, args)
	if action := w.tools[name].Spec().Effect == tool.Action; !fault.HasCode(err, code) || action && !tool.CertainlyNotDone(err) {
		w.Errorf("%s %s: %v %s, want %s", name, args, err, got, code)
	}
	if len(w.Calls()) != before {
		w.Errorf("%s %s called %v", name, args, w.Calls()[before:])
	}
	return fault.Of(err)
}

func (w *world) contains(got string, want ...string) {
	w.Helper()
	for _, s := range want {
		if no, ok := strings.CutPrefix(s, "!"); strings.Contains(got, no) == ok {
			w.Errorf("%q in\n%s", s, got)
		}
	}
}

func TestWhatIsThere(t *testing.T) {
	w := newWorld(t, quick)
	w.contains(w.call("list", `{}`), "- Kitchen: 1 switch, 2 light", "- Bath: 1 climate, 1 sensor", "- Hall: 1 binary_sensor, 1 lock, 2 light", "(no area)")
	w.contains(w.call("list", `{"query":"kitchen light"}`), "- Kitchen light (light.kitchen, in Kitchen): off", "Counter (light.counter, in Kitchen): on", "!Hidden", "!Private", "!Kettle")
	w.contains(w.call("list", `{"area":"Küche","kind":"light"}`), "Kitchen light", "Counter", "!Kettle")
	w.contains(w.call("list", `{"query":"hidden"}`), "No device")
	w.contains(w.call("list", `{"kind":"lock"}`), "Front door", "!New lock")
	w.contains(w.call("state", `{"device":"front door","kind":"lock"}`), "Front door (lock.front_door, in Hall): locked", "since Sun 29 Nov 2026 08:00", "home.access", "unlock")
	w.contains(w.call("state", `{"device":"front door","kind":"door"}`), "binary_sensor.front_door", "closed")
	w.contains(w.call("state", `{"device":"temperature","area":"bath"}`), "Bath temperature (sensor.bath_temperature, in Bath): 21.5 °C")
	w.contains(w.call("state", `{"device":"bath heating"}`), "heat, is 21.5, set to 22", "hvac modes: off, heat")
	w.contains(w.call("state", `{"device":"shopping"}`), "Shopping (todo.shopping): 2", "- Milk\n  - Bread")
	for _, id := range []string{"light.hidden", "light.private", "lock.new", "Private light"} {
		w.refused("device_not_found", "state", `{"device":"`+id+`"}`)
		w.refused("device_not_found", "control", `{"device":"`+id+`","action":"turn_on"}`)
		w.refused("device_not_found", "access", `{"device":"`+id+`","action":"unlock"}`)
	}
	w.refused("area_not_found", "list", `{"area":"cellar"}`)
}
