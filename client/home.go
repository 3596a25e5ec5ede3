package client

import (
	"context"
	"strconv"
	"time"
)

// Home is the home that Home Assistant runs: what it exposes, by area.
type Home struct {
	Version string     `json:"version"` // of Home Assistant
	Areas   []HomeArea `json:"areas"`   // the last one without a name: what is in no area
	Total   int        `json:"total"`   // devices that fit, of which the areas may have fewer
}

// HomeArea is an area with its devices.
type HomeArea struct {
	Name    string       `json:"name"`
	Devices []HomeDevice `json:"devices"`
}

// HomeDevice is a device, as Home Assistant exposes it.
type HomeDevice struct {
	ID      string       `json:"id"`             // of the entity: "light.kitchen"
	Name    string       `json:"name"`           // text of the home
	Kind    string       `json:"kind"`           // light, switch, climate, sensor, lock, cover, scene, and so on
	Class   string       `json:"class,omitzero"` // of a sensor or a cover: door, temperature, …
	State   string       `json:"state"`
	Says    string       `json:"says"`             // the state in words, with its unit
	Current float64      `json:"current,omitzero"` // the temperature that heating or cooling measures
	Changed time.Time    `json:"changed,omitzero"`
	Guard   string       `json:"guard,omitzero"`    // why a person is asked each time; empty: it is harmless
	Actions []string     `json:"actions,omitempty"` // what can be done: turn_on, lock, open, …
	Setting *HomeSetting `json:"setting,omitempty"` // a number that can be set
	Modes   []string     `json:"modes,omitempty"`   // of which one can be set
	Mode    string       `json:"mode,omitzero"`
}

// HomeSetting is a number that can be set.
type HomeSetting struct {
	Name string  `json:"name"` // the member of HomeCommand: brightness, temperature, position or value
	Now  float64 `json:"now"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Step float64 `json:"step"`
}

// HomeCommand says what a device should do. What a number or a mode sets goes with the action "set", or
// "set_position".
type HomeCommand struct {
	Device      string   `json:"device"` // its id
	Action      string   `json:"action"`
	Brightness  *int     `json:"brightness,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	Position    *int     `json:"position,omitempty"`
	Value       *float64 `json:"value,omitempty"`
	Mode        string   `json:"mode,omitzero"`
}

// HomeOutcome is what became of a command.
type HomeOutcome struct {
	Status   string `json:"status"`            // "ok", "error", "denied" or "unknown"; "waiting" for a person, or "running"
	Text     string `json:"text"`              // what the tool says, or what a person is asked
	Tool     string `json:"tool"`              // home.control or home.access
	Approval string `json:"approval,omitzero"` // the question that waits
}

// Home returns at most limit devices of the home, those that fit the words of query. Error code: home_off.
func (c *Client) Home(ctx context.Context, query string, limit int) (Home, error) {
	return ask[Home](ctx, c, "GET /home", Params{"query": query, "limit": strconv.Itoa(limit)}, nil)
}

// ControlHome has a device do something, as a call of a tool: policies decide, and a person may be asked.
func (c *Client) ControlHome(ctx context.Context, command HomeCommand) (HomeOutcome, error) {
	return ask[HomeOutcome](ctx, c, "POST /home/control", nil, command)
}
