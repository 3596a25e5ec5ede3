package offline

import (
	"encoding/json"
	"maps"
	"strings"
)

// build makes the arguments' object from the values of the parameters.
func build(params []*param, values []any) map[string]any {
	args := map[string]any{}
	for i, p := range params {
		if values[i] == nil {
			continue
		}
		at := args
		for _, name := range p.path[:len(p.path)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		at[p.path[len(p.path)-1]] = values[i]
	}
	return args
}

func equal(a, b map[string]any) bool {
	return string(encode(a)) == string(encode(b))
}

// encode writes arguments as JSON; their members are sorted, so it is stable.
func encode(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // a pending value cannot be written, and is never sent
		return []byte("{}")
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// drop removes an optional argument.
func drop(args map[string]any, path []string) map[string]any {
	out := maps.Clone(args)
	if len(path) == 1 {
		delete(out, path[0])
	} else if sub, ok := out[path[0]].(map[string]any); ok {
		if sub = drop(sub, path[1:]); len(sub) == 0 {
			delete(out, path[0])
		} else {
			out[path[0]] = sub
		}
	}
	return out
}
