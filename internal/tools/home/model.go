package home

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/tools/local"
)

// model is what is known of the home: the states as they change, and what the registries said when they were
// last read. It is guarded by the mutex of its connection.
type model struct {
	states   map[string]state
	areas    map[string]area
	entries  map[string]entry
	exposed  map[string]bool // what a person has decided in Home Assistant
	expected bool            // new entities of common kinds are exposed
	ask      []string        // guarded by the settings
}

func newModel(ask ...string) model { return model{states: map[string]state{}, ask: ask} }

// state is the state of an entity.
type state struct {
	ID         string         `json:"entity_id"`
	State      string         `json:"state"`
	Attributes map[string]any `json:"attributes"`
	Changed    time.Time      `json:"last_changed"`
}

// area is an area of the area registry.
type area struct {
	ID      string   `json:"area_id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
}

// entry is an entity in the entity registry. Entities without a unique id are not in it.
type entry struct {
	ID       string  `json:"entity_id"`
	Area     string  `json:"area_id"`
	Device   string  `json:"device_id"`
	Name     string  `json:"name"`
	Original string  `json:"original_name"`
	Hidden   *string `json:"hidden_by"`
	Disabled *string `json:"disabled_by"`
	Category *string `json:"entity_category"`
	Options  struct {
		Conversation struct {
			Expose *bool `json:"should_expose"`
		} `json:"conversation"`
	} `json:"options"`
}

// appliance is a device in the device registry.
type appliance struct {
	ID       string  `json:"id"`
	Area     string  `json:"area_id"`
	Disabled *string `json:"disabled_by"`
}

// device is an exposed entity, as tools show it.
type device struct {
	state
	Name    string
	Area    area
	Domain  string
	Class   string   // device_class
	Members []string // of a group or a scene
	Guard   string   // why it is guarded; see guardOf
}

// attributes are the attributes that are kept: they describe what a device does, without free text of others.
var attributes = []string{"friendly_name", "device_class", "unit_of_measurement", "entity_id",
	"brightness", "color_mode", "color_temp_kelvin", "rgb_color", "supported_color_modes", "effect",
	"current_temperature", "temperature", "target_temp_high", "target_temp_low", "min_temp", "max_temp", "hvac_modes", "hvac_action", "preset_mode", "preset_modes",
	"current_humidity", "humidity", "fan_mode", "fan_modes", "percentage", "oscillating", "current_position", "volume_level", "is_volume_muted", "source", "source_list",
	"media_title", "media_artist", "options", "min", "max", "step", "battery_level", "wind_speed", "pressure", "next_dawn", "next_dusk"}

// apply records the new state of an entity; nil: it is gone.
func (m *model) apply(id string, s *state) {
	if s == nil {
		delete(m.states, id)
		return
	}
	if _, known := m.states[id]; !known && len(m.states) >= maxEntities || s.ID != id || len(id) > 255 {
		return
	}
	kept := map[string]any{}
	for _, name := range attributes {
		if v, ok := s.Attributes[name]; ok {
			kept[name] = bounded(v)
		}
	}
	m.states[id] = state{ID: id, State: local.Line(s.State, 255), Attributes: kept, Changed: s.Changed}
}

// bounded limits an attribute: a text, a number, or a list of texts and numbers.
func bounded(v any) any {
	switch v := v.(type) {
	case string:
		return local.Line(v, 200)
	case []any:
		v = v[:min(len(v), 200)]
		for i := range v {
			if v[i] = bounded(v[i]); v[i] == nil {
				v[i] = ""
			}
		}
		return v
	case float64, bool:
		return v
	}
	return nil
}

// load reads the registries and all states. Home Assistant sends answers and events in the order in which
// things happened. So the states of an answer are applied by the reader: an event that comes after it is newer.
func (c *conn) load(ctx context.Context) error {
	var areas []area
	var entries []entry
	var appliances []appliance
	for _, q := range []struct {
		name string
		into any
	}{{"area", &areas}, {"device", &appliances}, {"entity", &entries}} {
		body, err := c.ask(ctx, command{"type": "config/" + q.name + "_registry/list"})
		if err == nil {
			err = c.decode(body, q.into)
		}
		if err != nil {
			return err
		}
	}
	exposed, expected, err := c.exposure(ctx)
	if err != nil {
		return err
	}
	places := map[string]appliance{}
	for _, a := range appliances {
		places[a.ID] = a
	}
	c.mu.Lock()
	c.exposed, c.expected = exposed, expected
	c.areas, c.entries = map[string]area{}, map[string]entry{}
	for _, a := range areas[:min(len(areas), maxEntities)] {
		c.areas[a.ID] = a
	}
	for _, e := range entries[:min(len(entries), maxEntities)] {
		on := places[e.Device]
		e.Area = cmp.Or(e.Area, on.Area)
		if e.Disabled == nil {
			e.Disabled = on.Disabled
		}
		c.entries[e.ID] = e
	}
	c.mu.Unlock()
	var unreadable error
	_, err = c.askAnd(ctx, command{"type": "get_states"}, func(a answer) {
		if a.Success {
			unreadable = c.replaceStates(a.Result)
		}
	})
	if err != nil {
		return err
	}
	return unreadable
}

// replaceStates replaces all states by those of an answer.
func (c *conn) replaceStates(body json.RawMessage) error {
	var states []*state
	if err := c.decode(body, &states); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]bool{}
	for _, s := range states {
		if s != nil {
			now[s.ID] = true
			c.apply(s.ID, s)
		}
	}
	maps.DeleteFunc(c.states, func(id string, _ state) bool { return !now[id] })
	return nil
}

func (c *conn) decode(body json.RawMessage, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return c.h.unavailable("its answer cannot be read: %w", err)
	}
	return nil
}

// exposure reads which entities are exposed to voice assistants, and whether new ones are. Only administrators
// may ask; without that right, what the entity registry says about each entity counts.
func (c *conn) exposure(ctx context.Context) (exposed map[string]bool, expected bool, err error) {
	exposed = map[string]bool{}
	var list struct {
		Entities map[string]struct {
			Conversation *bool `json:"conversation"`
		} `json:"exposed_entities"`
	}
	body, err := c.ask(ctx, command{"type": "homeassistant/expose_entity/list"})
	if err == nil {
		err = c.decode(body, &list)
	}
	if fault.HasCode(err, "home_forbidden") || fault.HasCode(err, "home_refused") {
		return exposed, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for id, e := range list.Entities {
		if e.Conversation != nil {
			exposed[id] = *e.Conversation
		}
	}
	var fresh struct {
		Expose bool `json:"expose_new"`
	}
	body, err = c.ask(ctx, command{"type": "homeassistant/expose_new_entities/get", "assistant": "conversation"})
	if err == nil {
		err = c.decode(body, &fresh)
	}
	if fault.HasCode(err, "home_forbidden") || fault.HasCode(err, "home_refused") {
		err = nil
	}
	return exposed, fresh.Expose, err
}

// isExposed reports whether Home Assistant exposes an entity. Where nobody has decided, it exposes new
// entities of common kinds, if that is set; see homeassistant/components/homeassistant/exposed_entities.py.
func (m *model) isExposed(s state) bool {
	e := m.entries[s.ID]
	if e.Hidden != nil || e.Disabled != nil {
		return false
	}
	if yes, decided := m.exposed[s.ID]; decided {
		return yes
	}
	if decided := e.Options.Conversation.Expose; decided != nil {
		return *decided
	}
	if !m.expected || e.Category != nil {
		return false
	}
	class, _ := s.Attributes["device_class"].(string)
	switch domainOf(s.ID) {
	case "climate", "cover", "fan", "humidifier", "light", "media_player", "scene", "switch", "todo", "vacuum", "water_heater":
		return true
	case "binary_sensor":
		return slices.Contains([]string{"door", "garage_door", "lock", "motion", "opening", "presence", "window"}, class)
	case "sensor":
		return slices.Contains([]string{"aqi", "carbon_monoxide", "carbon_dioxide", "humidity", "pm10", "pm25", "temperature", "volatile_organic_compounds"}, class)
	}
	return false
}

func domainOf(id string) string {
	domain, _, _ := strings.Cut(id, ".")
	return domain
}

// device describes an entity, and whether it is guarded.
func (m *model) device(s state) device {
	d := m.plain(s)
	d.Guard = m.guardOf(d, map[string]bool{})
	return d
}

func (m *model) plain(s state) device {
	e := m.entries[s.ID]
	name, _ := s.Attributes["friendly_name"].(string)
	_, object, _ := strings.Cut(s.ID, ".")
	d := device{state: s, Area: m.areas[e.Area], Domain: domainOf(s.ID), Name: local.Line(cmp.Or(name, e.Name, e.Original, strings.ReplaceAll(object, "_", " ")), 100)}
	d.Area.Name = local.Line(d.Area.Name, 60)
	d.Class, _ = s.Attributes["device_class"].(string)
	members, _ := s.Attributes["entity_id"].([]any)
	for _, x := range members {
		if id, ok := x.(string); ok {
			d.Members = append(d.Members, id)
		}
	}
	return d
}

// devices returns the exposed entities, by area and name.
func (c *conn) devices() []device {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []device
	for _, s := range c.states {
		if c.isExposed(s) {
			out = append(out, c.device(s))
		}
	}
	slices.SortFunc(out, func(a, b device) int {
		return cmp.Or(cmp.Compare(a.Area.Name, b.Area.Name), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// current returns the present state of an entity, if it still is exposed.
func (c *conn) current(id string) (device, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.states[id]
	if !ok || !c.isExposed(s) {
		return device{}, false
	}
	return c.device(s), true
}
