package home

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"steward/internal/tools/local"
)

// label names a device so that a model can name it again.
func (d device) label() string {
	s := d.Name + " (" + d.ID
	if d.Area.Name != "" {
		s += ", in " + d.Area.Name
	}
	return s + ")"
}

// words are states of binary sensors by their class: what off and on mean.
var words = map[string][2]string{
	"door": {"closed", "open"}, "garage_door": {"closed", "open"}, "window": {"closed", "open"}, "opening": {"closed", "open"}, "lock": {"locked", "unlocked"},
	"motion": {"no motion", "motion"}, "occupancy": {"nobody", "somebody"}, "presence": {"away", "home"}, "battery": {"battery is fine", "battery is low"},
	"moisture": {"dry", "wet"}, "smoke": {"no smoke", "smoke"}, "gas": {"no gas", "gas"}, "problem": {"fine", "problem"}, "safety": {"safe", "unsafe"},
}

// says returns a state in words.
func (d device) says(value string) string {
	if w, ok := words[d.Class]; ok && d.Domain == "binary_sensor" {
		switch value {
		case "off":
			return w[0]
		case "on":
			return w[1]
		}
	}
	switch {
	case value == "unavailable":
		return "not reachable"
	case d.Domain == "scene" || d.Domain == "button" || d.Domain == "input_button":
		return "can be used"
	}
	if unit, ok := d.Attributes["unit_of_measurement"].(string); ok && value != "unknown" {
		return value + " " + unit
	}
	return strings.ReplaceAll(value, "_", " ")
}

// line shows a device with its state.
func (d device) line() string {
	s := "- " + d.label() + ": " + d.says(d.State)
	if d.Domain == "light" && d.State == "on" {
		if n, ok := d.Attributes["brightness"].(float64); ok {
			s += ", brightness " + strconv.Itoa(int(math.Round(n*100/255))) + " %"
		}
	}
	if d.Domain == "climate" {
		s += d.figures("current_temperature", "is", "temperature", "set to")
	}
	if d.Domain == "cover" || d.Domain == "valve" {
		s += d.figures("current_position", "position")
	}
	return s
}

// figures shows attributes that are numbers, each after a word.
func (d device) figures(pairs ...string) (s string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if n, ok := d.Attributes[pairs[i]].(float64); ok {
			s += ", " + pairs[i+1] + " " + strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	return s
}

// list shows devices, up to maxShown, and how many more there are.
func list(devices []device) string {
	var b strings.Builder
	for _, d := range devices[:min(len(devices), maxShown)] {
		b.WriteString(d.line() + "\n")
	}
	if more := len(devices) - maxShown; more > 0 {
		fmt.Fprintf(&b, "(and %d more: name an area or more words)\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// details shows everything that is known of a device.
func (d device) details(zone *time.Location) string {
	var b strings.Builder
	b.WriteString(d.line())
	if !d.Changed.IsZero() {
		b.WriteString("\n  since " + d.Changed.In(zone).Format("Mon 2 Jan 2006 15:04"))
	}
	for _, name := range attributes[3:] {
		v, ok := d.Attributes[name]
		if !ok || v == nil {
			continue
		}
		b.WriteString("\n  " + strings.ReplaceAll(name, "_", " ") + ": ")
		if items, ok := v.([]any); ok {
			var parts []string
			for _, x := range items {
				parts = append(parts, fmt.Sprint(x))
			}
			b.WriteString(local.Line(strings.Join(parts, ", "), 400))
			continue
		}
		b.WriteString(local.Line(fmt.Sprint(v), 200))
	}
	if d.Guard != "" {
		b.WriteString("\n  home.access controls it and asks each time, because " + d.Guard)
	}
	return b.String()
}
