package tool

import (
	"steward/internal/fault"
	"steward/internal/message"
)

// Declared returns the labels of what a tool of others returns, as its
// declaration says it: none given means untrusted, since somebody else wrote
// it. It checks the declared reach along with them. Errors: Invalid,
// tool_yields_invalid, tool_reach_invalid.
func Declared(yields *[]string, reach Reach) (message.Labels, error) {
	switch reach {
	case "", ReachHere, ReachOut:
	default:
		return 0, fault.New(fault.Invalid, "tool_reach_invalid", "reach is %.40q", string(reach)).
			With("it is here (what the tool is given stays on this machine) or out")
	}
	if yields == nil {
		return message.Untrusted, nil
	}
	var labels message.Labels
	for _, name := range *yields {
		l, err := message.ParseLabel(name)
		if err != nil {
			return 0, fault.New(fault.Invalid, "tool_yields_invalid", "yields: %w", err).
				With("list private, untrusted or secret, or nothing ([])")
		}
		labels |= l
	}
	return labels, nil
}
