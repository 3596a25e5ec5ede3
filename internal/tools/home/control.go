package home

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

type controlArgs struct {
	Device      string   `json:"device" jsonschema:"Name or entity id of the device, or with all: what the devices have in common, such as lights" minlen:"1" maxlen:"100"`
	Action      string   `json:"action" jsonschema:"What to do; set changes one value, which one of the other arguments gives" enum:"turn_on,turn_off,toggle,set,activate,start,stop,pause,play,next,previous,return_to_base"`
	Area        string   `json:"area,omitzero" jsonschema:"The area in which it is" maxlen:"100"`
	All         bool     `json:"all,omitzero" jsonschema:"Every device that fits, not exactly one"`
	Brightness  *int     `json:"brightness,omitzero" jsonschema:"Of a light, in percent" min:"0" max:"100"`
	Color       string   `json:"color,omitzero" jsonschema:"Of a light: an English color name" maxlen:"30" pattern:"^[a-z]*$"`
	Kelvin      *int     `json:"kelvin,omitzero" jsonschema:"Color temperature of a light" min:"1000" max:"12000"`
	Temperature *float64 `json:"temperature,omitzero" jsonschema:"Of heating or cooling, in the unit of the home" min:"-50" max:"250"`
	Mode        string   `json:"mode,omitzero" jsonschema:"Mode of a climate device, or the option of a select" maxlen:"80"`
	Value       *float64 `json:"value,omitzero" jsonschema:"Percent of a fan, humidifier or volume; value of a number"`
}

type accessArgs struct {
	Device   string `json:"device" jsonschema:"The whole name of the device, or its entity id" minlen:"1" maxlen:"100"`
	Action   string `json:"action" jsonschema:"What to do" enum:"lock,unlock,open,close,stop,set_position,arm_home,arm_away,arm_night,disarm,turn_on,turn_off,press,run"`
	Area     string `json:"area,omitzero" jsonschema:"The area in which it is" maxlen:"100"`
	Position *int   `json:"position,omitzero" jsonschema:"Of a cover or valve, in percent; 100 is open" min:"0" max:"100"`
}

// step is one call of a service.
type step struct {
	domain, service string
	data            map[string]any
	devices         []device
}

// plan is what a call would do.
type plan []step

// ids names the devices of a plan.
func (p plan) ids() string {
	var ids []string
	for _, s := range p {
		for _, d := range s.devices {
			ids = append(ids, d.ID)
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// text shows a plan to a person.
func (p plan) text() string {
	var lines []string
	for _, s := range p {
		what := strings.ReplaceAll(s.service, "_", " ")
		for _, name := range slices.Sorted(maps.Keys(s.data)) {
			if v, err := json.Marshal(s.data[name]); err == nil {
				what += ", " + strings.ReplaceAll(name, "_", " ") + " " + string(v)
			}
		}
		for _, d := range s.devices {
			lines = append(lines, d.label()+": "+what+". It is "+d.says(d.State)+" now.")
		}
	}
	return strings.Join(lines, "\n")
}

func (h *Home) control(ctx context.Context, in tool.Invocation, _ controlArgs) (string, error) {
	return h.carryOut(ctx, in, h.planControl)
}

func (h *Home) access(ctx context.Context, in tool.Invocation, _ accessArgs) (string, error) {
	return h.carryOut(ctx, in, h.planAccess)
}

// carryOut does what a call plans, one service after the other, and tells the states afterwards.
func (h *Home) carryOut(ctx context.Context, in tool.Invocation, planned func(context.Context, []byte) (*conn, plan, error)) (string, error) {
	c, todo, err := planned(ctx, in.Args)
	if err == nil {
		err = h.kept(local.Key(in), todo.ids())
	}
	if err != nil {
		return "", tool.NotDone(err)
	}
	var after []device
	for i, s := range todo {
		var ids []string
		for _, d := range s.devices {
			ids = append(ids, d.ID)
		}
		if _, err := c.call(ctx, s.domain, s.service, ids, s.data, false); err != nil {
			if i > 0 { // the steps before are done
				e := fault.Of(err)
				err = fault.New(fault.Unavailable, "home_partly_done", "some devices were changed, then: %s", e.Message).WithHint("ask for the states of the devices with home.list")
			}
			return "", err
		}
		for _, d := range s.devices {
			if now, ok := c.current(d.ID); ok {
				after = append(after, now)
			}
		}
	}
	return "Done. Home Assistant now says:\n" + list(after), nil
}

// planControl finds what a call of control would do, and refuses what is guarded.
func (h *Home) planControl(ctx context.Context, args []byte) (*conn, plan, error) {
	var a controlArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %w", err)
	}
	c, all, err := h.present(ctx)
	if err != nil {
		return nil, nil, err
	}
	devices, err := a.targets(all)
	if err != nil {
		return nil, nil, err
	}
	var todo plan
	for _, d := range devices {
		if d.Guard != "" {
			return nil, nil, fault.New(fault.Denied, "device_guarded", "home.control does not change %s: %s", d.label(), d.Guard).
				WithHint("use home.access, which asks the user each time")
		}
		s, err := a.step(d)
		if err != nil {
			return nil, nil, err
		}
		if d.State == "unavailable" {
			return nil, nil, fault.New(fault.Conflict, "device_unreachable", "Home Assistant does not reach %s", d.label()).WithHint("check its power and its network")
		}
		same := slices.IndexFunc(todo, func(t step) bool { return t.domain == s.domain && t.service == s.service })
		if same < 0 {
			todo = append(todo, s)
			same = len(todo) - 1
		}
		todo[same].devices = append(todo[same].devices, d)
	}
	return c, todo, nil
}

// targets returns the devices that a call is about.
func (a controlArgs) targets(all []device) ([]device, error) {
	can := func(d device) bool { _, err := a.step(d); return err == nil && d.Guard == "" }
	if !a.All {
		d, err := one(all, a.Device, a.Area, can)
		return []device{d}, err
	}
	all, err := inArea(all, a.Area)
	if err != nil {
		return nil, err
	}
	found := matches(all, a.Device)
	if some := slices.DeleteFunc(slices.Clone(found), func(d device) bool { return !can(d) || d.State == "unavailable" }); len(some) > 0 {
		found = some
	}
	switch {
	case len(found) == 0:
		return nil, fault.New(fault.NotFound, "device_not_found", "no device that Home Assistant exposes fits %.100q", a.Device).WithHint("find devices with home.list")
	case len(found) > maxTargets:
		return nil, fault.New(fault.TooLarge, "devices_too_many", "%d devices fit %.100q; one call changes at most %d", len(found), a.Device, maxTargets).WithHint("name an area")
	}
	return found, nil
}

// switched are the domains that can be turned on and off.
var switched = []string{"light", "switch", "fan", "input_boolean", "media_player", "climate", "humidifier", "water_heater", "group"}

// others are the services of further actions, by domain.
var others = map[string]map[string]string{
	"scene":        {"activate": "turn_on", "turn_on": "turn_on"},
	"media_player": {"play": "media_play", "pause": "media_pause", "stop": "media_stop", "next": "media_next_track", "previous": "media_previous_track"},
	"vacuum":       {"start": "start", "pause": "pause", "stop": "stop", "return_to_base": "return_to_base", "turn_on": "start", "turn_off": "return_to_base"},
}

// step returns the service for a device.
func (a controlArgs) step(d device) (step, error) {
	cannot := func() (step, error) {
		return step{}, fault.New(fault.Invalid, "action_impossible", "%s cannot do %s with these arguments", d.label(), a.Action).
			WithHint("it can: %s", strings.Join(abilities(d), ", "))
	}
	s := step{domain: d.Domain, service: a.Action, data: map[string]any{}}
	if name, ok := others[d.Domain][a.Action]; ok {
		s.service = name
		return s, nil
	}
	switch a.Action {
	case "turn_on", "turn_off", "toggle":
		if !slices.Contains(switched, d.Domain) || a.Action == "toggle" && d.Domain == "water_heater" {
			return cannot()
		}
		if d.Domain == "group" {
			s.domain = "homeassistant"
		}
		if d.Domain == "light" && a.Action == "turn_on" {
			a.light(s.data)
		}
		return s, nil
	case "set":
		if a.set(d, &s) {
			return s, nil
		}
	}
	return cannot()
}

func (a controlArgs) light(data map[string]any) {
	if a.Brightness != nil {
		data["brightness_pct"] = *a.Brightness
	}
	if a.Color != "" {
		data["color_name"] = a.Color
	} else if a.Kelvin != nil {
		data["color_temp_kelvin"] = *a.Kelvin
	}
}

// set finds the service that sets a value of a device. It returns false if there is none.
func (a controlArgs) set(d device, s *step) bool {
	put := func(service, name string, v any) bool {
		s.service, s.data[name] = service, v
		return true
	}
	has := func(list string) bool {
		options, _ := d.Attributes[list].([]any)
		return slices.Contains(options, any(a.Mode))
	}
	percent := a.Value != nil && *a.Value >= 0 && *a.Value <= 100
	switch {
	case d.Domain == "light":
		s.service = "turn_on"
		a.light(s.data)
		return len(s.data) > 0
	case (d.Domain == "climate" || d.Domain == "water_heater") && a.Temperature != nil:
		return put("set_temperature", "temperature", *a.Temperature)
	case d.Domain == "climate" && has("hvac_modes"):
		return put("set_hvac_mode", "hvac_mode", a.Mode)
	case d.Domain == "climate" && has("preset_modes"):
		return put("set_preset_mode", "preset_mode", a.Mode)
	case d.Domain == "fan" && percent:
		return put("set_percentage", "percentage", *a.Value)
	case d.Domain == "humidifier" && percent:
		return put("set_humidity", "humidity", *a.Value)
	case d.Domain == "media_player" && percent:
		return put("volume_set", "volume_level", *a.Value/100)
	case (d.Domain == "number" || d.Domain == "input_number") && a.Value != nil:
		return put("set_value", "value", *a.Value)
	case (d.Domain == "select" || d.Domain == "input_select") && has("options"):
		return put("select_option", "option", a.Mode)
	}
	return false
}

// abilities names the actions of a device.
func abilities(d device) (can []string) {
	if d.Guard != "" {
		return slices.Sorted(maps.Keys(guarded(d.Domain)))
	}
	if slices.Contains(switched, d.Domain) {
		can = append(can, "turn_on", "turn_off")
	}
	can = append(can, slices.Sorted(maps.Keys(others[d.Domain]))...)
	if sets := map[string]string{"light": "brightness, color or kelvin", "climate": "temperature or mode", "water_heater": "temperature", "fan": "value", "humidifier": "value", "media_player": "value",
		"number": "value", "input_number": "value", "select": "mode", "input_select": "mode"}[d.Domain]; sets != "" {
		can = append(can, "set ("+sets+")")
	}
	return can
}

// guarded returns the services of a domain by the actions of access.
func guarded(domain string) map[string]string {
	switch domain {
	case "lock":
		return map[string]string{"lock": "lock", "unlock": "unlock", "open": "open"}
	case "cover", "valve":
		return map[string]string{"open": "open_" + domain, "close": "close_" + domain, "stop": "stop_" + domain, "set_position": "set_" + domain + "_position"}
	case "alarm_control_panel":
		return map[string]string{"arm_home": "alarm_arm_home", "arm_away": "alarm_arm_away", "arm_night": "alarm_arm_night", "disarm": "alarm_disarm"}
	case "button", "input_button":
		return map[string]string{"press": "press"}
	case "scene":
		return map[string]string{"run": "turn_on"}
	case "script":
		return map[string]string{"run": "turn_on", "stop": "turn_off"}
	case "automation":
		return map[string]string{"run": "trigger", "turn_on": "turn_on", "turn_off": "turn_off"}
	case "siren", "switch", "input_boolean", "fan", "light", "group", "media_player", "climate", "humidifier":
		return map[string]string{"turn_on": "turn_on", "turn_off": "turn_off"}
	}
	return nil
}

// planAccess finds what a call of access would do. A name must be whole: what opens a house is not guessed.
func (h *Home) planAccess(ctx context.Context, args []byte) (*conn, plan, error) {
	var a accessArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, nil, fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %w", err)
	}
	c, all, err := h.present(ctx)
	if err != nil {
		return nil, nil, err
	}
	service := func(d device) (name string, ok bool) {
		name, ok = guarded(d.Domain)[a.Action]
		return name, ok && (a.Action == "set_position") == (a.Position != nil)
	}
	d, err := one(all, a.Device, a.Area, func(d device) bool { _, ok := service(d); return ok && d.Guard != "" })
	if err != nil {
		return nil, nil, err
	}
	if !named(d, a.Device) {
		return nil, nil, fault.New(fault.Conflict, "device_ambiguous", "%.100q is not the whole name of a device", a.Device).
			WithHint("say which is meant, by its whole name or its entity id: %s", d.label())
	}
	if d.Guard == "" {
		return nil, nil, fault.New(fault.Invalid, "device_harmless", "%s needs no question each time", d.label()).WithHint("use home.control")
	}
	name, ok := service(d)
	if !ok {
		return nil, nil, fault.New(fault.Invalid, "action_impossible", "%s cannot do %s with these arguments", d.label(), a.Action).
			WithHint("it can: %s; position goes with set_position", strings.Join(abilities(d), ", "))
	}
	if d.State == "unavailable" {
		return nil, nil, fault.New(fault.Conflict, "device_unreachable", "Home Assistant does not reach %s", d.label()).WithHint("check its power and its network")
	}
	s := step{domain: d.Domain, service: name, data: map[string]any{}, devices: []device{d}}
	if d.Domain == "group" {
		s.domain = "homeassistant"
	}
	if a.Position != nil {
		s.data["position"] = *a.Position
	}
	return c, plan{s}, nil
}
