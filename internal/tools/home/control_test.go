package home_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/homeassistant"
)

func TestControl(t *testing.T) {
	w := newWorld(t, quick)
	for _, c := range []struct {
		args, service string
		data          map[string]any
		entities      string
	}{
		{`{"device":"the kitchen light","action":"turn_on"}`, "light.turn_on", nil, "light.kitchen"},
		{`{"device":"light.counter","action":"turn_off"}`, "light.turn_off", nil, "light.counter"},
		{`{"device":"left lamp","area":"bedroom","action":"toggle"}`, "light.toggle", nil, "light.bed_left"},
		{`{"device":"counter","action":"set","brightness":30,"color":"red"}`, "light.turn_on", map[string]any{"brightness_pct": 30.0, "color_name": "red"}, "light.counter"},
		{`{"device":"bath heating","action":"set","temperature":23.5}`, "climate.set_temperature", map[string]any{"temperature": 23.5}, "climate.bath"},
		{`{"device":"heating","action":"set","mode":"off"}`, "climate.set_hvac_mode", map[string]any{"hvac_mode": "off"}, "climate.bath"},
		{`{"device":"Kettle","action":"turn_on"}`, "switch.turn_on", nil, "switch.kettle"},
		{`{"device":"evening","action":"activate"}`, "scene.turn_on", nil, "scene.evening"},
		{`{"device":"lights","area":"bedroom","all":true,"action":"turn_off"}`, "light.turn_off", nil, "light.bed_left light.bed_right"},
		{`{"device":"new light","action":"turn_on"}`, "light.turn_on", nil, "light.new"},
	} {
		before := len(w.Calls())
		w.contains(w.call("control", c.args), "Done.")
		want := []homeassistant.Call{{Domain: strings.Split(c.service, ".")[0], Service: strings.Split(c.service, ".")[1], Entities: strings.Fields(c.entities), Data: c.data}}
		if got := w.Calls()[before:]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", c.args, got, want)
		}
	}
	w.contains(w.call("state", `{"device":"kitchen light"}`), "on, brightness 50 %")
	w.refused("action_impossible", "control", `{"device":"kettle","action":"set","value":3}`)
	w.refused("action_impossible", "control", `{"device":"bath heating","action":"set","mode":"boil"}`)
	w.refused("device_unreachable", "control", `{"device":"broken light","action":"turn_on"}`)
}

// A name that fits several devices changes none of them, and the error lists them.
func TestAnAmbiguousNameChangesNothing(t *testing.T) {
	w := newWorld(t, quick)
	err := w.refused("device_ambiguous", "control", `{"device":"lamp in the bedroom","action":"turn_off"}`)
	w.contains(err.Remedy, "Left lamp (light.bed_left, in Bedroom)", "Right lamp (light.bed_right, in Bedroom)")
	w.refused("device_ambiguous", "state", `{"device":"front door"}`)
	w.refused("device_not_found", "control", `{"device":"the","action":"turn_off"}`)
	err = w.refused("device_ambiguous", "access", `{"device":"front","action":"unlock"}`)
	w.contains(err.Remedy, "lock.front_door")
}

// What opens or protects the house is refused by control, by whatever name or group, and each time asked about
// by access.
func TestWhatOpensAHouseIsGuarded(t *testing.T) {
	all := append(house(),
		homeassistant.Entity{ID: "group.all", Name: "Everything", State: "on", Attributes: map[string]any{"entity_id": []string{"light.kitchen", "group.doors"}}},
		homeassistant.Entity{ID: "group.doors", Name: "Doors", State: "on", Attributes: map[string]any{"entity_id": []string{"lock.front_door"}}},
		homeassistant.Entity{ID: "group.loop", Name: "Loop", State: "on", Attributes: map[string]any{"entity_id": []string{"group.loop"}}},
		homeassistant.Entity{ID: "group.lights", Name: "Lights below", State: "on", Attributes: map[string]any{"entity_id": []string{"light.kitchen"}}},
		homeassistant.Entity{ID: "switch.relay", Name: "Türöffner", State: "off"},
		homeassistant.Entity{ID: "switch.dull", Name: "Dull", State: "off"}, // the settings name it
		homeassistant.Entity{ID: "button.ring", Name: "Ring", State: "unknown"},
		homeassistant.Entity{ID: "valve.water", Name: "Water", State: "open"},
	)
	w := newWorld(t, quick, all...)
	for _, id := range strings.Fields("lock.front_door cover.garage switch.gate alarm_control_panel.home scene.arrive script.party group.all group.doors switch.relay switch.dull button.ring valve.water") {
		for _, action := range []string{"turn_on", "turn_off", "toggle", "activate", "set"} {
			err := w.refused("device_guarded", "control", fmt.Sprintf(`{"device":%q,"action":%q}`, id, action))
			w.contains(err.Remedy, "home.access")
		}
	}
	w.call("control", `{"device":"group.lights","action":"turn_off"}`)
	spec := w.tools["access"].Spec()
	if !spec.Asks || spec.Effect != tool.Action {
		t.Errorf("access does not ask each time: %+v", spec)
	}
	if w.tools["control"].Spec().Asks {
		t.Error("control asks each time")
	}
	for args, want := range map[string]string{
		`{"device":"Front door","action":"unlock"}`:                      "lock.unlock lock.front_door",
		`{"device":"garage door","action":"open"}`:                       "cover.open_cover cover.garage",
		`{"device":"garage door","action":"set_position","position":30}`: "cover.set_cover_position cover.garage",
		`{"device":"house alarm","action":"disarm"}`:                     "alarm_control_panel.alarm_disarm alarm_control_panel.home",
		`{"device":"arrive","action":"run"}`:                             "scene.turn_on scene.arrive",
		`{"device":"party","action":"run"}`:                              "script.turn_on script.party",
		`{"device":"Everything","action":"turn_off"}`:                    "homeassistant.turn_off group.all",
		`{"device":"gate relay","action":"turn_on"}`:                     "switch.turn_on switch.gate",
	} {
		w.call("access", args)
		calls := w.Calls()
		last := calls[len(calls)-1]
		if got := last.Domain + "." + last.Service + " " + strings.Join(last.Entities, " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	w.refused("device_harmless", "access", `{"device":"kettle","action":"turn_on"}`)
	w.refused("action_impossible", "access", `{"device":"garage door","action":"lock"}`)
}

// A person is shown which device a name means. If it means another one by the time of the call, nothing happens.
func TestWhatWasShownIsWhatIsChanged(t *testing.T) {
	w := newWorld(t, quick)
	args := json.RawMessage(`{"action":"unlock","device":"front door"}`)
	in := tool.Invocation{Args: args, User: "ann", Key: "asked"}
	p, ok := tool.PreviewerOf(w.tools["access"])
	if !ok {
		t.Fatal("access shows nothing")
	}
	shown, err := p.Preview(t.Context(), in)
	if err != nil || shown != "Front door (lock.front_door, in Hall): unlock. It is locked now." {
		t.Errorf("%v %q", err, shown)
	}
	w.Change("lock.front_door", func(e *homeassistant.Entity) { e.Name, e.State = "Old door", "locked" })
	w.Change("lock.new", func(e *homeassistant.Entity) { e.Name, e.Undecided = "Front door", false })
	w.until(func() bool { return strings.Contains(w.call("list", `{"kind":"lock"}`), "Old door") })
	for range 2 { // also after it was shown again
		_, err = w.tools["access"].Call(t.Context(), in)
		if !fault.HasCode(err, "device_changed") {
			t.Errorf("%v", err)
		}
		if _, err := p.Preview(t.Context(), in); err != nil {
			t.Error(err)
		}
	}
	_, err = w.tools["access"].Call(t.Context(), in)
	if !fault.HasCode(err, "device_changed") || !tool.CertainlyNotDone(err) || len(w.Calls()) > 0 {
		t.Errorf("%v %v", err, w.Calls())
	}
}

func TestAServiceThatFails(t *testing.T) {
	w := newWorld(t, quick)
	for code, want := range map[string]struct {
		code    string
		certain bool
	}{
		"home_assistant_error":     {"home_failed", false}, // the integration may have done it
		"unknown_error":            {"home_failed", false},
		"timeout":                  {"home_timeout", false},
		"not_found":                {"home_refused", true},
		"service_validation_error": {"home_refused", true},
		"unauthorized":             {"home_forbidden", true},
	} {
		w.Do(func(s *homeassistant.Server) { s.Fail["light.turn_on"] = code })
		_, err := w.try("control", `{"device":"kitchen light","action":"turn_on"}`)
		if !fault.HasCode(err, want.code) || tool.CertainlyNotDone(err) != want.certain || fault.Of(err).Remedy == "" {
			t.Errorf("%s: %v, certain %v", code, err, tool.CertainlyNotDone(err))
		}
	}
	// The connection ends after the call: it may have happened, and is not sent again.
	w.Do(func(s *homeassistant.Server) { s.DropAfter = "light.turn_off" })
	_, err := w.try("control", `{"device":"kitchen light","action":"turn_off"}`)
	if !fault.HasCode(err, "home_unavailable") || tool.CertainlyNotDone(err) {
		t.Errorf("%v", err)
	}
	w.call("list", `{}`)
	if got := len(w.Calls()); got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
}

// A home of 3,000 entities: results stay small, and one call changes few devices.
func TestALargeHome(t *testing.T) {
	var all []homeassistant.Entity
	for i := range 3000 {
		all = append(all, homeassistant.Entity{ID: fmt.Sprintf("light.l%d", i), Name: fmt.Sprintf("Lamp %d", i), Area: places[i%len(places)].ID, State: "off", Private: i%10 == 9})
	}
	w := newWorld(t, quick, all...)
	for _, args := range []string{`{}`, `{"query":"lamp"}`, `{"kind":"light"}`, `{"area":"kitchen"}`} {
		if got := w.call("list", args); len(got) > 4000 || args != `{}` && !strings.Contains(got, "more: name an area or more words") {
			t.Errorf("%s: %d bytes", args, len(got))
		}
	}
	err := w.refused("device_ambiguous", "control", `{"device":"lamp","action":"turn_on"}`)
	if len(err.Remedy) > 1000 {
		t.Errorf("the hint has %d bytes", len(err.Remedy))
	}
	w.refused("devices_too_many", "control", `{"device":"lamps","all":true,"action":"turn_on"}`)
	w.contains(w.call("control", `{"device":"lamp 2000","action":"turn_on"}`), "Lamp 2000", "!Lamp 2001")
	w.contains(w.call("list", `{"query":"lamp 198"}`), "Lamp 1980 ", "!Lamp 1989 ") // the beginnings of words; not exposed
	if got := w.Calls(); len(got) != 1 || !slices.Equal(got[0].Entities, []string{"light.l2000"}) {
		t.Errorf("%v", got)
	}
}
