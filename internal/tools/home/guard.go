package home

import (
	"slices"
	"strings"
)

// The words below are written as wordsOf returns them, without accents.

// entrance are words in the names of plugs, relays and the like that may open or protect the house.
var entrance = strings.Fields("garage gate door lock unlock alarm siren valve shutter cover blind window entrance entry " +
	"tor hoftor gartentor tur tuer haustur turoffner schloss alarmanlage sirene ventil rollladen rolladen jalousie markise fenster eingang einfahrt")

// innocent are words that contain one of entrance and do not mean it.
var innocent = strings.Fields("outdoor indoor clock block ventilator ventilation")

// guardOf returns why a person must be asked about a device each time, or "". What is not known to be harmless
// is guarded: a script can open a door. Groups are looked into at any depth; seen are those on the way, each of
// which is looked at once.
func (m *model) guardOf(d device, seen map[string]bool) string {
	seen[d.ID] = true
	if slices.Contains(m.ask, d.ID) {
		return "the settings name it in home.ask"
	}
	switch d.Domain {
	case "lock", "alarm_control_panel", "cover", "valve", "siren":
		return "it is a " + strings.ReplaceAll(d.Domain, "_", " ")
	case "script", "automation", "button", "input_button":
		return "it can do anything"
	case "scene", "group":
		if len(d.Members) == 0 {
			return "it is not known what it changes"
		}
	}
	if slices.Contains([]string{"garage", "garage_door", "door", "gate", "lock", "window"}, d.Class) {
		return "it is a " + strings.ReplaceAll(d.Class, "_", " ")
	}
	if slices.Contains([]string{"switch", "input_boolean", "select", "input_select", "number", "input_number", "fan", "remote"}, d.Domain) {
		for _, w := range wordsOf(d.Name + " " + strings.ReplaceAll(d.ID, "_", " ")) {
			if !slices.Contains(innocent, w) && slices.ContainsFunc(entrance, func(e string) bool {
				return w == e || len(e) > 3 && strings.HasSuffix(w, e) || len(e) > 4 && strings.HasPrefix(w, e)
			}) {
				return "its name says that it may open or protect something"
			}
		}
	}
	for _, id := range d.Members {
		s, known := m.states[id]
		if !known {
			return "it is not known what it changes"
		}
		if seen[id] {
			continue
		}
		if in := m.plain(s); m.guardOf(in, seen) != "" {
			return "it also changes " + in.Name
		}
	}
	return ""
}
