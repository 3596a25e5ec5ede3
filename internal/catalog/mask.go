package catalog

import (
	"encoding/json"
	"regexp"
	"strings"
)

// secretKey are the names of what is not shown of a declaration: a server's
// declaration often holds its credentials.
var secretKey = regexp.MustCompile(`(?i)(token|secret|key|passw|auth|credential|cookie|bearer)`)

// secretArg is an argument that hands over a secret.
var secretArg = regexp.MustCompile(`(?i)^(--?[a-z0-9_-]*(?:token|secret|key|passw|auth|credential)[a-z0-9_-]*=).+$`)

// masked writes a declaration as a person is shown it and as it is kept, with
// what is secret left out. The approval's hash is over all of it.
func masked(n *node) []byte {
	b, err := json.MarshalIndent(mask(n, ""), "", "  ")
	if err != nil {
		return nil // what was read from JSON: cannot fail
	}
	return append(b, '\n')
}

func mask(n *node, key string) any {
	switch n.kind {
	case kindMap:
		out := map[string]any{}
		for _, f := range n.fields {
			out[f.key] = mask(f.value, f.key)
		}
		return out
	case kindList:
		out := make([]any, len(n.list))
		for i, e := range n.list {
			after := i > 0 && strings.HasPrefix(n.list[i-1].text, "-") && !strings.Contains(n.list[i-1].text, "=") && secretKey.MatchString(n.list[i-1].text)
			if after {
				out[i] = mask(e, "secret")
			} else {
				out[i] = mask(e, key)
			}
		}
		return out
	case kindText:
		if m := secretArg.FindStringSubmatch(n.text); m != nil {
			return m[1] + "••••"
		}
		// ${NAME} names a secret and is none.
		if secretKey.MatchString(key) && !strings.HasPrefix(n.text, "${") {
			return "••••"
		}
	}
	return n.any()
}
