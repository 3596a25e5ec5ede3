package catalog

import (
	"encoding/json"
	"regexp"
	"strings"

	"steward/internal/strict"
)

// secretKey are the names of what is not shown of a declaration: a server's
// declaration often holds its credentials.
var secretKey = regexp.MustCompile(`(?i)(token|secret|key|passw|auth|credential|cookie|bearer)`)

// secretArg is an argument that hands over a secret.
var secretArg = regexp.MustCompile(`(?i)^(--?[a-z0-9_-]*(?:token|secret|key|passw|auth|credential)[a-z0-9_-]*=).+$`)

// masked writes a declaration as a person is shown it and as it is kept, with
// what is secret left out. The approval's hash is over all of it.
func masked(n *strict.Node) []byte {
	b, err := json.MarshalIndent(mask(n, ""), "", "  ")
	if err != nil {
		return nil // what was read from JSON: cannot fail
	}
	return append(b, '\n')
}

func mask(n *strict.Node, key string) any {
	switch n.Kind {
	case strict.Map:
		out := map[string]any{}
		for _, f := range n.Fields {
			out[f.Key] = mask(f.Value, f.Key)
		}
		return out
	case strict.List:
		out := make([]any, len(n.List))
		for i, e := range n.List {
			after := i > 0 && strings.HasPrefix(n.List[i-1].Text, "-") && !strings.Contains(n.List[i-1].Text, "=") && secretKey.MatchString(n.List[i-1].Text)
			if after {
				out[i] = mask(e, "secret")
			} else {
				out[i] = mask(e, key)
			}
		}
		return out
	case strict.Text:
		if m := secretArg.FindStringSubmatch(n.Text); m != nil {
			return m[1] + "••••"
		}
		// ${NAME} names a secret and is none.
		if secretKey.MatchString(key) && !strings.HasPrefix(n.Text, "${") {
			return "••••"
		}
	}
	return n.Value()
}
