package effect

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"steward/internal/intent"
	"steward/internal/tool"
)

// Width is a range of calls that a question offers a standing approval for. To give it, a person looks at
// the question with this pattern, and answers with the hash of that.
type Width struct {
	Name    string         `json:"name"` // in words: "add any task"
	Pattern intent.Pattern `json:"pattern"`
}

// exactly is the name of the width that covers only the call itself.
const exactly = "exactly this"

// widths returns the widths that are offered for a call, the narrowest useful one first, and last that of
// the call alone. Each covers the call, and none covers a call with other recipients or destinations,
// except for files of the same folder and pages of the same host.
func widths(t tool.Tool, args []byte, zone *time.Location) ([]Width, error) {
	own, err := intent.Exactly(args)
	if err != nil {
		return nil, err
	}
	given, err := decoded(args)
	if err != nil {
		return nil, err
	}
	var out []Width
	for _, w := range tool.WidthsOf(t, args) {
		p, ok := widthPattern(own, given, w, t.Spec().Targets)
		known := func(x Width) bool { return x.Pattern.Within(p) && p.Within(x.Pattern) }
		if !ok || !coversCall(p, t, args) || p.Within(own) || slices.ContainsFunc(out, known) {
			continue
		}
		out = append(out, Width{Name: tool.FillTemplate(w.Name, given, zone, written).Text, Pattern: p})
	}
	return append(out, Width{Name: exactly, Pattern: own}), nil
}

// widthPattern returns the pattern of a width around a call. It returns false if the width makes no sense for
// this call, or leaves a recipient or destination open.
func widthPattern(own intent.Pattern, given map[string]any, w tool.Width, targets []string) (intent.Pattern, bool) {
	p := maps.Clone(own)
	for _, name := range w.Any {
		if slices.Contains(targets, name) {
			return nil, false
		}
		p[name] = intent.Match{Any: true}
	}
	for name, glob := range w.Like {
		p[name] = intent.Match{Like: glob}
	}
	for _, near := range []struct {
		names []string
		glob  func(string) (string, bool)
	}{{w.Folder, intent.Folder}, {w.Host, intent.Host}} {
		for _, name := range near.names {
			text, _ := given[name].(string)
			glob, ok := near.glob(text)
			if !ok {
				return nil, false
			}
			p[name] = intent.Match{Like: glob}
		}
	}
	p, err := p.Checked()
	return p, err == nil
}

// decoded decodes arguments. Numbers keep their digits.
func decoded(args []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v map[string]any
	return v, d.Decode(&v)
}
