package home

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"steward/client"
	"steward/internal/tools/local"
)

// Admits reports whether a user may use the home.
func (h *Home) Admits(user string, groups []string) bool { return h.opt.For.Admits(user, groups) }

// View returns at most limit of the devices that fit the words of query, by area. It connects.
func (h *Home) View(ctx context.Context, query string, limit int) (client.Home, error) {
	c, all, err := h.present(ctx)
	if err != nil {
		return client.Home{}, err
	}
	if words := strings.Fields(strings.ToLower(query)); len(words) > 0 {
		all = slices.DeleteFunc(all, func(d device) bool {
			text := strings.ToLower(d.Name + " " + d.Area.Name + " " + d.ID)
			return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
		})
	}
	v := client.Home{Version: c.version, Areas: []client.HomeArea{}, Total: len(all)}
	slices.SortStableFunc(all, func(a, b device) int { // what is in no area comes last
		switch {
		case a.Area.Name == "" && b.Area.Name != "":
			return 1
		case a.Area.Name != "" && b.Area.Name == "":
			return -1
		}
		return 0
	})
	for _, d := range all[:min(limit, len(all))] {
		if n := len(v.Areas); n == 0 || v.Areas[n-1].Name != d.Area.Name {
			v.Areas = append(v.Areas, client.HomeArea{Name: d.Area.Name})
		}
		a := &v.Areas[len(v.Areas)-1]
		a.Devices = append(a.Devices, d.view())
	}
	return v, nil
}

// ToolFor returns the tool that controls a device: control, or access if it is guarded. Error code:
// home_not_exposed.
func (h *Home) ToolFor(ctx context.Context, entity string) (string, error) {
	c, err := h.connected(ctx)
	if err != nil {
		return "", err
	}
	d, ok := c.current(entity)
	switch {
	case !ok:
		return "", notExposed(local.Line(entity, 100))
	case d.Guard != "":
		return "home.access", nil
	}
	return "home.control", nil
}

func (d device) view() client.HomeDevice {
	v := client.HomeDevice{ID: d.ID, Name: d.Name, Kind: d.Domain, Class: local.Line(d.Class, 40), State: local.Line(d.State, 100), Says: local.Line(d.says(d.State), 120), Changed: d.Changed, Guard: d.Guard}
	if d.State == "unavailable" {
		return v
	}
	for _, a := range abilities(d) {
		again := d.Domain == "scene" || d.Domain == "vacuum" // turn_on is another word for activate, or start
		if !strings.HasPrefix(a, "set") && !(again && strings.HasPrefix(a, "turn_")) {
			v.Actions = append(v.Actions, a)
		}
	}
	v.Setting, v.Current = d.setting(), d.number("current_temperature", 0)
	if d.Guard != "" {
		return v
	}
	list := map[string]string{"climate": "hvac_modes", "select": "options", "input_select": "options"}[d.Domain]
	modes, _ := d.Attributes[list].([]any)
	for _, m := range modes[:min(len(modes), maxShown)] {
		if s, ok := m.(string); ok {
			v.Modes = append(v.Modes, s)
		}
	}
	if len(v.Modes) > 0 {
		v.Mode = d.State
	}
	return v
}

// number returns an attribute that is a number.
func (d device) number(name string, otherwise float64) float64 {
	if n, ok := d.Attributes[name].(float64); ok {
		return n
	}
	return otherwise
}

// value returns the state of a device whose state is a number.
func (d device) value() float64 {
	n, err := strconv.ParseFloat(d.State, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// setting returns the number that can be set, if the device has one now.
func (d device) setting() *client.HomeSetting {
	s := &client.HomeSetting{Name: "value", Max: 100, Step: 1}
	has := func(name string) bool { _, ok := d.Attributes[name].(float64); return ok }
	if d.Guard != "" {
		if (d.Domain == "cover" || d.Domain == "valve") && has("current_position") {
			s.Name, s.Now = "position", d.number("current_position", 0)
			return s
		}
		return nil
	}
	switch {
	case d.Domain == "light" && has("brightness"):
		s.Name, s.Min, s.Now = "brightness", 1, math.Round(d.number("brightness", 0)*100/255)
	case (d.Domain == "climate" || d.Domain == "water_heater") && has("temperature"):
		s.Name, s.Now, s.Min, s.Max, s.Step = "temperature", d.number("temperature", 0), d.number("min_temp", 7), d.number("max_temp", 35), .5
	case d.Domain == "fan" && has("percentage"):
		s.Now = d.number("percentage", 0)
	case d.Domain == "humidifier" && has("humidity"):
		s.Now = d.number("humidity", 0)
	case d.Domain == "media_player" && has("volume_level"):
		s.Now = math.Round(d.number("volume_level", 0) * 100)
	case d.Domain == "number" || d.Domain == "input_number":
		s.Now, s.Min, s.Max, s.Step = d.value(), d.number("min", 0), d.number("max", 100), d.number("step", 1)
	default:
		return nil
	}
	return s
}
