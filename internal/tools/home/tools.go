package home

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// shown are the labels of what is read: it is the user's own, and names, titles and states come from devices
// and from services on the web.
const shown = message.Private | message.Untrusted

const callTimeout = 45 * time.Second

type listArgs struct {
	Query string `json:"query,omitzero" jsonschema:"Words of names, areas and kinds, such as kitchen light; without any: an overview of the areas" maxlen:"100"`
	Area  string `json:"area,omitzero" jsonschema:"Only devices in this area" maxlen:"100"`
	Kind  string `json:"kind,omitzero" jsonschema:"Only devices of this kind: light, switch, climate, sensor, lock, cover, scene, media_player and so on" maxlen:"40"`
}

type stateArgs struct {
	Device string `json:"device" jsonschema:"Name or entity id of the device" minlen:"1" maxlen:"100"`
	Area   string `json:"area,omitzero" jsonschema:"The area in which it is" maxlen:"100"`
	Kind   string `json:"kind,omitzero" jsonschema:"Its kind, if several devices have the name: lock, door, light, temperature and so on" maxlen:"40"`
}

type historyArgs struct {
	stateArgs
	Hours int `json:"hours,omitzero" jsonschema:"How many hours back" min:"1" max:"168" default:"24"`
}

// values are the arguments of control that say what a device should do.
var values = []string{"action", "brightness", "color", "kelvin", "temperature", "mode", "value"}

// Add adds the tools to a kit.
func Add(k *local.Kit, h *Home) {
	local.Share(k, []*tool.Audience{h.opt.For}, func(a *tool.Audience) *tool.Audience { return a })
	local.Query(k, tool.Spec{Name: "list", Yields: shown, Timeout: callTimeout, Sentences: listSentences,
		Description: "Lists areas, or devices of the home with their states: lights, plugs, heating, sensors, locks, covers, scenes, scripts. Name words, an area or a kind, because a home has many devices.",
		Tidy:        local.ReplacesEarlier("query", "area", "kind"),
		Log:         tool.LogSpec{Summary: "List devices[ called {query}][ in {area}][ of kind {kind}]"}}, h.list)
	local.Query(k, tool.Spec{Name: "state", Yields: shown, Timeout: callTimeout, Sentences: stateSentences,
		Description: "Tells the present state of a device of the home, and what it can do.",
		Tidy:        local.ReplacesEarlier("device", "area", "kind"),
		Log:         tool.LogSpec{Summary: "Look up the state of {device}[ in {area}]"}}, h.state)
	local.Query(k, tool.Spec{Name: "history", Yields: shown, Timeout: callTimeout,
		Description: "Tells how the state of a device of the home changed in the last hours.",
		Log:         tool.LogSpec{Summary: "Look up the history of {device}[ in {area}]"}}, h.history)
	local.Action(k, tool.Spec{Name: "control", Yields: shown, Timeout: callTimeout, Sentences: controlSentences,
		Description: "Controls a harmless device of the home: turns lights, plugs and appliances on and off, sets brightness, color, temperature, volume and modes, activates scenes. Locks, alarms, covers, valves, garage doors, scripts and buttons need home.access.",
		Tidy:        []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("state")}}},
		Log: tool.LogSpec{Summary: "Control {device}[ in {area}]: {action}[, brightness {brightness} %][, {color}][, {kelvin} K][, {temperature}°][, {mode}][, value {value}][, all: {all}]",
			Does: "changes a device of your home", Impact: []string{"device", "area"}},
		Widths: []tool.Width{{Name: "control {device}[ in {area}] in any way", Any: values},
			{Name: "control any device that needs no question each time", Any: append([]string{"device", "area", "all"}, values...)}}}, h.control, nil)
	k.Wrap(func(l local.Layer) tool.Tool { return previewed{l, h, h.planControl} })
	local.Action(k, tool.Spec{Name: "access", Asks: true, Yields: shown, Timeout: callTimeout, Sentences: accessSentences,
		Description: "Locks and unlocks, opens and closes, arms and disarms: locks, alarms, covers, blinds, valves, garage doors, gates, sirens; runs scripts and presses buttons. The user is asked each time. Give the whole name or the entity id.",
		Tidy:        []tool.Strategy{{Kind: tool.ByTool, Tools: []string{k.Name("list"), k.Name("state")}}},
		Log: tool.LogSpec{Summary: "Operate {device}[ in {area}]: {action}[, position {position} %]",
			Does: "moves or disarms something that protects your home", Impact: []string{"device", "area"}}}, h.access, nil)
	k.Wrap(func(l local.Layer) tool.Tool { return previewed{l, h, h.planAccess} })
}

// present returns what is exposed now.
func (h *Home) present(ctx context.Context) (*conn, []device, error) {
	c, err := h.connected(ctx)
	if err != nil {
		return nil, nil, err
	}
	return c, c.devices(), nil
}

func (h *Home) list(ctx context.Context, _ tool.Invocation, a listArgs) (string, error) {
	_, all, err := h.present(ctx)
	if err != nil {
		return "", err
	}
	if a.Query == "" && a.Area == "" && a.Kind == "" {
		return overview(all), nil
	}
	found, err := inArea(all, a.Area)
	if err != nil {
		return "", err
	}
	if a.Kind != "" {
		found = ofKind(found, a.Kind)
	}
	if a.Query != "" {
		if words := asked(a.Query); len(words) > 0 {
			found = slices.DeleteFunc(slices.Clone(found), func(d device) bool { return len(matches([]device{d}, a.Query)) == 0 })
		}
	}
	if len(found) == 0 {
		return "No device that Home Assistant exposes fits.", nil
	}
	return list(found), nil
}

// ofKind returns the devices of a kind.
func ofKind(all []device, kind string) []device {
	return slices.DeleteFunc(slices.Clone(all), func(d device) bool { return !isOfKind(d, kind) })
}

func isOfKind(d device, kind string) bool {
	kind = strings.ToLower(strings.TrimSpace(kind))
	if d.Domain == kind || d.Class == kind {
		return true
	}
	return slices.ContainsFunc(wordsOf(kind), d.isKind)
}

// overview counts the devices in each area by their domains.
func overview(all []device) string {
	type count struct {
		domain string
		n      int
	}
	areas := map[string][]count{}
	var names []string
	for _, d := range all {
		name := cmp.Or(d.Area.Name, "(no area)")
		if areas[name] == nil {
			names = append(names, name)
		}
		i := slices.IndexFunc(areas[name], func(c count) bool { return c.domain == d.Domain })
		if i < 0 {
			areas[name] = append(areas[name], count{d.Domain, 0})
			i = len(areas[name]) - 1
		}
		areas[name][i].n++
	}
	if len(names) == 0 {
		return "Home Assistant exposes no device. Devices are exposed there under Settings, Voice assistants, Expose."
	}
	const most = 100
	return local.List(names, most, func(name string) string {
		var parts []string
		for _, c := range areas[name] {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.domain))
		}
		slices.Sort(parts)
		return "- " + name + ": " + strings.Join(parts[:min(len(parts), 15)], ", ")
	})
}

// device finds the device that a query is about.
func (h *Home) device(ctx context.Context, a stateArgs) (*conn, device, error) {
	c, all, err := h.present(ctx)
	if err != nil {
		return nil, device{}, err
	}
	var prefer []func(device) bool
	if kind := strings.ToLower(strings.TrimSpace(a.Kind)); kind != "" {
		prefer = append(prefer, func(d device) bool { return d.Domain == kind || d.Class == kind }, func(d device) bool { return isOfKind(d, kind) })
	}
	d, err := one(all, a.Device, a.Area, prefer...)
	return c, d, err
}

func (h *Home) state(ctx context.Context, in tool.Invocation, a stateArgs) (string, error) {
	c, d, err := h.device(ctx, a)
	if err != nil {
		return "", err
	}
	text := d.details(h.opt.Location(in.User))
	if can := abilities(d); len(can) > 0 {
		text += "\n  actions: " + strings.Join(can, ", ")
	}
	if d.Domain == "todo" {
		items, err := c.items(ctx, d.ID)
		if err != nil {
			return "", err
		}
		text += items
	}
	return text, nil
}

// items returns the open items of a to-do list, which are not part of its state.
func (c *conn) items(ctx context.Context, id string) (string, error) {
	body, err := c.call(ctx, "todo", "get_items", []string{id}, map[string]any{"status": []string{"needs_action"}}, true)
	if err != nil {
		return "", err
	}
	var lists map[string]struct {
		Items []struct {
			Summary string `json:"summary"`
		} `json:"items"`
	}
	if err := c.decode(body, &lists); err != nil {
		return "", err
	}
	var b strings.Builder
	items := lists[id].Items
	for _, i := range items[:min(len(items), maxShown)] {
		b.WriteString("\n  - " + local.Line(i.Summary, 200))
	}
	if more := len(items) - maxShown; more > 0 {
		fmt.Fprintf(&b, "\n  (and %d more)", more)
	}
	return b.String(), nil
}

// previewed is an action that shows which device it would change. What a person was shown is what is changed:
// if the name leads to another device by then, the call is refused.
type previewed struct {
	local.Layer
	h    *Home
	plan func(context.Context, []byte) (*conn, plan, error)
}

// Preview implements tool.Previewer.
func (p previewed) Preview(ctx context.Context, in tool.Invocation) (string, error) {
	_, todo, err := p.plan(ctx, in.Args)
	if err != nil {
		return "", err
	}
	p.h.promise(local.Key(in), todo.ids())
	return todo.text(), nil
}

// promises are the devices that were shown under the keys of calls. It is bounded: the oldest are forgotten.
type promises struct {
	shown map[string]string
	order []string
}

const maxPromises = 500

// several stands for different devices that were shown under one key.
const several = "several devices"

func (h *Home) promise(key, ids string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promises.shown == nil {
		h.promises.shown = map[string]string{}
	}
	before, again := h.promises.shown[key]
	if !again {
		h.promises.order = append(h.promises.order, key)
	} else if before != ids {
		ids = several // it is not known which of them was approved
	}
	h.promises.shown[key] = ids
	if len(h.promises.order) > maxPromises {
		delete(h.promises.shown, h.promises.order[0])
		h.promises.order = h.promises.order[1:]
	}
}

// kept refuses a call that would change other devices than were shown.
func (h *Home) kept(key, ids string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.promises.shown[key]; ok && before != ids {
		return fault.New(fault.Conflict, "device_changed", "the name now leads to another device (%s) than was shown (%s)", ids, before).
			WithHint("name the device by its entity id")
	}
	return nil
}
