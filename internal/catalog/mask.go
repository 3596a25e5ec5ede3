package catalog

import (
	"encoding/json"
	"regexp"
	"strings"

	"steward/internal/strict"
)

// secretKey matches the names of members that are masked: a server's declaration often holds its
// credentials.
var secretKey = regexp.MustCompile(`(?i)(token|secret|key|passw|auth|credential|cookie|bearer)`)

// secretArg matches an argument that contains a secret.
var secretArg = regexp.MustCompile(`(?i)^(--?[a-z0-9_-]*(?:token|secret|key|passw|auth|credential)[a-z0-9_-]*=).+$`)

// masked returns a declaration with its secrets masked, as it is shown and stored. The hash of an
// approval covers the whole declaration.
func masked(n *strict.Node) []byte {
	b, err := json.MarshalIndent(mask(n, ""), "", "  ")
	if err != nil {
		return nil // it was read from JSON: cannot fail
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
			out[i] = mask(e, key)
			if i == 0 {
				continue
			}
			if flag := n.List[i-1].Text; strings.HasPrefix(flag, "-") && !strings.Contains(flag, "=") && secretKey.MatchString(flag) {
				out[i] = mask(e, "secret")
			}
		}
		return out
	case strict.Text:
		if m := secretArg.FindStringSubmatch(n.Text); m != nil {
			return m[1] + "••••"
		}
		// ${NAME} refers to a secret, but is not one.
		if secretKey.MatchString(key) && !strings.HasPrefix(n.Text, "${") {
			return "••••"
		}
	}
	return n.Value()
}
