package home_test

import (
	"slices"
	"testing"

	"steward/client"
	"steward/internal/fault"
)

// View shows what is exposed, with what can be done to it, and no more than was asked for.
func TestView(t *testing.T) {
	w := newWorld(t, quick)
	v, err := w.home.View(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]client.HomeDevice{}
	for _, a := range v.Areas {
		for _, d := range a.Devices {
			all[d.ID] = d
		}
	}
	if len(all) != v.Total || v.Areas[len(v.Areas)-1].Name != "" || !slices.IsSortedFunc(v.Areas[:len(v.Areas)-1], func(a, b client.HomeArea) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		t.Errorf("%d devices of %d in %+v", len(all), v.Total, v.Areas)
	}
	for _, hidden := range []string{"light.hidden", "light.private", "lock.new"} {
		if _, ok := all[hidden]; ok {
			t.Errorf("%s is shown", hidden)
		}
	}
	for id, want := range map[string][]string{"light.kitchen": {"turn_off", "turn_on"}, "lock.front_door": {"lock", "open", "unlock"}, "scene.evening": {"activate"}, "scene.arrive": {"run"},
		"sensor.bath_temperature": nil, "light.broken": nil} {
		have := slices.Sorted(slices.Values(all[id].Actions))
		if !slices.Equal(have, want) {
			t.Errorf("%s can %v, want %v", id, have, want)
		}
		if _, err := w.home.ToolFor(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	bath := all["climate.bath"]
	if bath.Setting == nil || bath.Setting.Name != "temperature" || bath.Setting.Now != 22 || bath.Current != 21.5 || !slices.Equal(bath.Modes, []string{"off", "heat"}) || bath.Mode != "heat" {
		t.Errorf("%+v", bath)
	}
	if all["sensor.bath_temperature"].Says != "21.5 °C" || all["light.broken"].Says != "not reachable" || all["cover.garage"].Guard == "" || all["light.kitchen"].Guard != "" {
		t.Errorf("%+v", all)
	}
	if v, err := w.home.View(t.Context(), "kitchen LIGHT", 1); err != nil || v.Total != 2 || len(v.Areas) != 1 || v.Areas[0].Devices[0].ID != "light.counter" {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := w.home.View(t.Context(), "", 2); err != nil || v.Total != len(all) || len(v.Areas[0].Devices) > 2 {
		t.Errorf("%+v, %v", v, err)
	}
	for id, want := range map[string]string{"light.kitchen": "home.control", "lock.front_door": "home.access", "switch.gate": "home.access"} {
		if name, err := w.home.ToolFor(t.Context(), id); err != nil || name != want {
			t.Errorf("%s: %q, %v", id, name, err)
		}
	}
	if _, err := w.home.ToolFor(t.Context(), "light.private"); !fault.HasCode(err, "home_not_exposed") {
		t.Error(err)
	}
	if !w.home.Admits("ann", nil) || w.home.Admits("eve", nil) {
		t.Error("the home is ann's")
	}
}
