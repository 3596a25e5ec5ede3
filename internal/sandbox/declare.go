package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/tool"
)

// Grants is what a declaration lets a confined program do.
type Grants struct {
	Network any      `yaml:"network" json:"network,omitzero"` // as egress.Declared takes it
	Read    []string `yaml:"read" json:"read,omitempty"`
	Write   []string `yaml:"write" json:"write,omitempty"`
	Limits  Limits   `yaml:"limits" json:"limits,omitzero"`
}

// IsLocalOnly reports whether data given to the program cannot leave this machine, because the program
// has no network.
func (g *Grants) IsLocalOnly() bool {
	if g == nil {
		return true
	}
	network, err := egress.Declared(g.Network)
	return err == nil && network.Zero()
}

// Words returns the words of a declared command: a program, or a list of a program and its first
// arguments. A text is never split at spaces. bad says what is wrong with the command. Without a
// command there are no words.
func Words(command any) (words []string, bad *fault.Error) {
	var one string
	b, err := json.Marshal(command)
	if err == nil && json.Unmarshal(b, &one) == nil {
		if one != "" {
			words = []string{one}
		}
	} else if err = errors.Join(err, json.Unmarshal(b, &words)); err != nil {
		return nil, fault.New(fault.Invalid, "command_invalid", "there is no command: the value is not a text or a list of texts").
			WithHint("write command: with the program, or a list of the program and its arguments; quote arguments that look like numbers")
	}
	return words, nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// GoodVariable reports whether a variable is valid in a program's environment.
func GoodVariable(name, value string) bool {
	return variableName.MatchString(name) && !strings.ContainsRune(value, 0)
}

// reference matches ${NAME} and ${NAME:-TEXT}, and the spellings of other programs: ${env:NAME},
// ${input:NAME}.
var reference = regexp.MustCompile(`\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_.-]*)(:-[^}]*)?\}`)

// Expander replaces ${NAME} in texts by the secret of that name, and ${NAME:-TEXT} by TEXT if
// there is no such secret. It remembers the values, so that they can be masked in messages.
type Expander struct {
	Secret  func(string) (string, bool) // may be nil
	Values  []string
	missing []string
}

// Expand replaces the references in s.
func (x *Expander) Expand(s string) string {
	return reference.ReplaceAllStringFunc(s, func(m string) string {
		parts := reference.FindStringSubmatch(m)
		v, ok := x.value(parts[1])
		switch {
		case ok:
			return v
		case parts[2] != "":
			return parts[2][2:]
		}
		x.missing = append(x.missing, parts[1])
		return ""
	})
}

// Named returns the secret of a name.
func (x *Expander) Named(name string) string {
	v, ok := x.value(name)
	if !ok {
		x.missing = append(x.missing, name)
		return ""
	}
	return v
}

func (x *Expander) value(name string) (string, bool) {
	if x.Secret == nil {
		return "", false
	}
	v, ok := x.Secret(name)
	if ok {
		x.Values = append(x.Values, v)
	}
	return v, ok
}

// Missing names the secrets that were not found: "A and B", or nothing.
func (x *Expander) Missing() string {
	slices.Sort(x.missing)
	return strings.Join(slices.Compact(x.missing), " and ")
}

// Mask removes the values of secrets from a text.
func Mask(text string, secrets []string) string {
	for _, v := range secrets {
		if len(v) >= 4 { // a shorter one is not secret, and masking it would garble the text
			text = strings.ReplaceAll(text, v, "•••")
		}
	}
	return text
}

// Grant grants the program what a declaration says. path makes a path of the declaration
// absolute.
func (c *Command) Grant(g *Grants, path func(string) (string, error)) (err error) {
	if g == nil {
		return nil
	}
	c.Limits = g.Limits
	if c.Network, err = egress.Declared(g.Network); err != nil {
		return err
	}
	for _, list := range []struct{ from, to *[]string }{{&g.Read, &c.Read}, {&g.Write, &c.Write}} {
		for _, p := range *list.from {
			p, err := path(p)
			if err != nil {
				return err
			}
			*list.to = append(*list.to, p)
		}
	}
	return nil
}

// Provision gives the program what its level provides: the approved copies, its own folder, and the
// services for as long as it runs. It returns the secrets among that, and a function that ends
// the services.
func (c *Command) Provision(ctx context.Context, env tool.Env) (secrets []string, release func(), err error) {
	release = func() {}
	c.Name, c.Log, c.Hide = env.Name, env.Log, env.Hide
	if env.Snapshot != nil {
		if c.Instead, err = env.Snapshot(); err != nil {
			return nil, release, err
		}
	}
	if env.Data != "" {
		if err := os.MkdirAll(env.Data, 0o700); err != nil {
			return nil, release, fault.New(fault.Unavailable, "sandbox_failed", "the program's own folder cannot be created: %w", err).
				WithHint("make sure that Steward may write there")
		}
		c.Data = env.Data
		c.Env = append(c.Env, "STEWARD_DATA="+env.Data)
	}
	if len(env.Config) > 0 {
		c.Env = append(c.Env, "STEWARD_CONFIG="+string(env.Config))
	}
	vars, release, err := services(ctx, env)
	if err != nil {
		return nil, release, err
	}
	for _, v := range vars {
		c.Env = append(c.Env, v)
		name, value, _ := strings.Cut(v, "=")
		if u, err := url.Parse(value); err == nil && u.Host != "" && u.Port() != "" && !slices.Contains(c.Connect, u.Host) {
			c.Connect = append(c.Connect, u.Host)
		}
		if strings.Contains(name, "TOKEN") || strings.Contains(name, "KEY") {
			secrets = append(secrets, value)
		}
	}
	return secrets, release, nil
}

// services returns the variables by which a program reaches its services, and a function that
// ends them.
func services(ctx context.Context, env tool.Env) (vars []string, release func(), err error) {
	if env.Services != nil {
		vars, release, err = env.Services(ctx)
	}
	if release == nil {
		release = func() {}
	}
	return vars, release, err
}

// Token returns the token that opens the services to a single call, for a program that serves
// many. The token ends with release. It is empty if there are no services.
func Token(ctx context.Context, env tool.Env) (token string, release func(), err error) {
	vars, release, err := services(ctx, env)
	for _, v := range vars {
		if value, ok := strings.CutPrefix(v, "STEWARD_TOKEN="); ok {
			token = value
		}
	}
	return token, release, err
}
