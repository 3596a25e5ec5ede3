package home

import (
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/tools/local"
)

// skipped are words of a phrase that name nothing.
var skipped = strings.Fields("the a an my our all any of in at on from for is are der die das den dem des ein eine einen im in am auf vom von mein meine meinen meinem meiner alle")

// kinds are words that people use for a kind of device, as wordsOf returns them, with its domains or classes.
var kinds = map[string][]string{
	"light": {"light"}, "lights": {"light"}, "lamp": {"light"}, "lamps": {"light"}, "licht": {"light"}, "lichter": {"light"}, "lampe": {"light"}, "lampen": {"light"}, "beleuchtung": {"light"}, "lighting": {"light"},
	"switch": {"switch"}, "plug": {"switch", "outlet"}, "outlet": {"switch", "outlet"}, "schalter": {"switch"}, "steckdose": {"switch", "outlet"},
	"heating": {"climate"}, "thermostat": {"climate"}, "heizung": {"climate"}, "heater": {"climate"}, "radiator": {"climate"},
	"lock": {"lock"}, "schloss": {"lock"}, "door": {"door", "lock"}, "tur": {"door", "lock"}, "tuer": {"door", "lock"}, "window": {"window"}, "fenster": {"window"},
	"blind": {"cover"}, "blinds": {"cover"}, "shutter": {"cover"}, "shutters": {"cover"}, "curtain": {"cover"}, "cover": {"cover"}, "covers": {"cover"}, "rollladen": {"cover"}, "rollo": {"cover"}, "jalousie": {"cover"}, "vorhang": {"cover"},
	"garage": {"garage", "garage_door"}, "alarm": {"alarm_control_panel"}, "alarmanlage": {"alarm_control_panel"}, "valve": {"valve"}, "ventil": {"valve"}, "siren": {"siren"},
	"fan": {"fan"}, "ventilator": {"fan"}, "tv": {"media_player"}, "television": {"media_player"}, "fernseher": {"media_player"}, "speaker": {"media_player"}, "lautsprecher": {"media_player"}, "music": {"media_player"}, "musik": {"media_player"},
	"vacuum": {"vacuum"}, "staubsauger": {"vacuum"}, "scene": {"scene"}, "scenes": {"scene"}, "szene": {"scene"}, "szenen": {"scene"}, "script": {"script"}, "skript": {"script"},
	"temperature": {"temperature"}, "temperatur": {"temperature"}, "humidity": {"humidity"}, "luftfeuchtigkeit": {"humidity"}, "sensor": {"sensor", "binary_sensor"}, "motion": {"motion"}, "bewegung": {"motion"},
}

// wordsOf returns the words of a text, in small letters.
func wordsOf(text string) (out []string) {
	for t := range search.Tokens(text) {
		out = append(out, t.Text)
	}
	return out
}

// asked returns the words of a phrase that name something.
func asked(phrase string) []string {
	return slices.DeleteFunc(wordsOf(phrase), func(w string) bool { return slices.Contains(skipped, w) })
}

// isKind reports whether a word names the kind of a device.
func (d device) isKind(word string) bool {
	for _, k := range kinds[word] {
		if k == d.Domain || k == d.Class {
			return true
		}
	}
	return word == d.Domain
}

// areaWords are the words of the area's names.
func (d device) areaWords() []string {
	return wordsOf(strings.Join(append([]string{d.Area.Name}, d.Area.Aliases...), " "))
}

// matches returns the devices that a phrase fits best: its id; its whole name; its name with its area; words
// of its name, its area and its kind; and last the beginnings of such words.
func matches(all []device, phrase string) []device {
	words := asked(phrase)
	if len(words) == 0 {
		return nil
	}
	same := func(a, b []string) bool { return containsAll(a, b) && containsAll(b, a) }
	each := func(d device, fits func(word, own string) bool) bool {
		own := slices.Concat(asked(d.Name), d.areaWords())
		return !slices.ContainsFunc(words, func(w string) bool {
			return !d.isKind(w) && !slices.ContainsFunc(own, func(o string) bool { return fits(w, o) })
		})
	}
	return local.FirstMatches(all, func(device) bool { return false },
		func(d device) bool { return d.ID == strings.TrimSpace(phrase) },
		func(d device) bool { return same(words, asked(d.Name)) },
		func(d device) bool {
			return d.Area.Name != "" && same(words, slices.Concat(asked(d.Name), asked(d.Area.Name)))
		},
		func(d device) bool { return each(d, func(word, own string) bool { return word == own }) },
		func(d device) bool {
			return each(d, func(word, own string) bool { return len(word) > 2 && strings.HasPrefix(own, word) })
		},
	)
}

// one returns the only device that a phrase fits, or an error with the candidates. Among several, those count
// that the first of the preferences accepts that accepts any.
func one(all []device, phrase, in string, prefer ...func(device) bool) (device, error) {
	found, err := inArea(all, in)
	if err != nil {
		return device{}, err
	}
	found = matches(found, phrase)
	if len(found) > 1 {
		if some := local.FirstMatches(found, func(device) bool { return false }, prefer...); len(some) > 0 {
			found = some
		}
	}
	d, err := local.ExactlyOne("device", phrase, found, func(d device) string { return d.label() })
	if fault.HasCode(err, "device_not_found") {
		return d, fault.New(fault.NotFound, "device_not_found", "there is no device %.100q among those that Home Assistant exposes", phrase).
			WithHint("find devices with home.list; a device is exposed in Home Assistant under Settings, Voice assistants, Expose")
	}
	return d, err
}

// inArea returns the devices of an area; all of them if none is named.
func inArea(all []device, name string) ([]device, error) {
	words := asked(name)
	if name == "" {
		return all, nil
	}
	fits := func(d device, how func(area []string) bool) bool {
		for _, n := range append([]string{d.Area.Name}, d.Area.Aliases...) {
			if n != "" && how(asked(n)) {
				return true
			}
		}
		return false
	}
	found := local.FirstMatches(all, func(device) bool { return false },
		func(d device) bool { return fits(d, func(area []string) bool { return slices.Equal(area, words) }) },
		func(d device) bool {
			return len(words) > 0 && fits(d, func(area []string) bool {
				return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(area, w) })
			})
		})
	var areas []string
	for _, d := range found {
		if !slices.Contains(areas, d.Area.Name) {
			areas = append(areas, d.Area.Name)
		}
	}
	switch len(areas) {
	case 1:
		return found, nil
	case 0:
		return nil, fault.New(fault.NotFound, "area_not_found", "there is no area %.100q with a device that Home Assistant exposes", name).WithHint("home.list shows the areas")
	}
	return nil, fault.New(fault.Conflict, "area_ambiguous", "several areas are called like %.100q", name).WithHint("say which is meant: %s", strings.Join(areas[:min(len(areas), 10)], "; "))
}

// named reports whether a phrase is the whole name of a device, with or without its area, or its id.
func named(d device, phrase string) bool {
	if d.ID == strings.TrimSpace(phrase) {
		return true
	}
	words, name := asked(phrase), asked(d.Name)
	return containsAll(words, name) && containsAll(slices.Concat(name, d.areaWords()), words)
}

// containsAll reports whether a list has all of some words.
func containsAll(list, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(list, w) })
}
