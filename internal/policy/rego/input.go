package rego

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/tool"
)

// asked is a question together with the other data that policies see.
type asked struct {
	policy.Question
	opt  *Options
	who  policy.Principal
	when time.Time // in the user's zone; zero: not computed yet

	room  [256]byte // for the key
	top   [16][2]*ast.Term
	items [16][2]*ast.Term
}

// identify looks up who the user is.
func (a *asked) identify(ctx context.Context) error {
	if a.opt.Directory == nil {
		a.who = policy.Principal{User: a.User, Roles: []string{policy.RoleMember}}
		return nil
	}
	var err error
	a.who, err = a.opt.Directory.Principal(ctx, a.User)
	return err
}

func (a *asked) time() time.Time {
	if a.when.IsZero() {
		a.when = a.At
		if a.when.IsZero() {
			a.when = time.Now()
		}
		zone := time.Local
		if a.opt.Zone != nil {
			if z := a.opt.Zone(a.User); z != nil {
				zone = z
			}
		}
		a.when = a.when.In(zone)
	}
	return a.when
}

// fields is a set of input fields, one bit per entry of table.
type fields uint64

// field is a part of the input document that policies read or ignore as a whole. It says how the
// part is shown to policies, and how questions that differ in it get different keys.
type field struct {
	path  string // "tool.name"
	value func(*asked) (*ast.Term, error)
	key   func([]byte, *asked) []byte
}

func text(path string, get func(*asked) string) field {
	return field{path, func(a *asked) (*ast.Term, error) { return ast.InternedTerm(get(a)), nil },
		func(b []byte, a *asked) []byte { return keyText(b, get(a)) }}
}

func flag(path string, get func(*asked) bool) field {
	return field{path, func(a *asked) (*ast.Term, error) { return ast.InternedTerm(get(a)), nil },
		func(b []byte, a *asked) []byte {
			if get(a) {
				return append(b, 1)
			}
			return append(b, 0)
		}}
}

func list(path string, get func(*asked) []string) field {
	return field{path, func(a *asked) (*ast.Term, error) { return texts(get(a)), nil },
		func(b []byte, a *asked) []byte {
			b = binary.AppendUvarint(b, uint64(len(get(a))))
			for _, s := range get(a) {
				b = keyText(b, s)
			}
			return b
		}}
}

func number(path string, get func(*asked) int) field {
	return field{path, func(a *asked) (*ast.Term, error) { return ast.InternedTerm(get(a)), nil },
		func(b []byte, a *asked) []byte { return binary.AppendVarint(b, int64(get(a))) }}
}

func keyText(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

func texts(list []string) *ast.Term {
	terms := make([]*ast.Term, len(list))
	for i, s := range list {
		terms[i] = ast.InternedTerm(s)
	}
	return ast.ArrayTerm(terms...)
}

// table has all fields of the input except its point, because each point has its own rules.
// docs/guides/policies.md explains the fields.
var table = [...]field{
	text("user.name", func(a *asked) string { return a.User }),
	list("user.roles", func(a *asked) []string { return a.who.Roles }),
	list("user.groups", func(a *asked) []string { return a.who.Groups }),
	text("agent", func(a *asked) string { return a.Agent }),
	list("lineage", func(a *asked) []string { return a.Lineage }),
	text("action", func(a *asked) string { return a.Action }),
	text("resource.uri", func(a *asked) string { return uriText(a.Resource.URI) }),
	text("resource.type", func(a *asked) string { return a.Resource.Type }),
	text("resource.space", func(a *asked) string { return string(a.Resource.Space) }),
	{"resource.owner", func(a *asked) (*ast.Term, error) {
		kind, name := owner(a.Resource.Space)
		return ast.ObjectTerm(ast.Item(ownerKind, ast.InternedTerm(kind)), ast.Item(ownerName, ast.InternedTerm(name))), nil
	}, func(b []byte, a *asked) []byte { return keyText(b, string(a.Resource.Space)) }},
	metadata("resource.metadata", func(a *asked) *resource.Metadata { return &a.Resource.Metadata }),
	text("tool.name", func(a *asked) string { return a.Tool.Name }),
	text("tool.full_name", func(a *asked) string { return cmp.Or(a.Tool.FullName, a.Tool.Name) }),
	text("tool.effect", func(a *asked) string { return string(a.Tool.Effect) }),
	text("tool.origin", func(a *asked) string { return a.Tool.Origin }),
	text("tool.description", func(a *asked) string { return a.Tool.Description }),
	text("tool.version", func(a *asked) string { return a.Tool.Version }),
	text("tool.reach", func(a *asked) string { return string(reach(&a.Tool)) }),
	flag("tool.out", func(a *asked) bool { return a.Tool.Out() }),
	list("tool.targets", func(a *asked) []string { return a.Tool.Targets }),
	text("tool.delivery", func(a *asked) string { return string(delivery(&a.Tool)) }),
	flag("tool.asks", func(a *asked) bool { return a.Tool.Asks }),
	flag("tool.async", func(a *asked) bool { return a.Tool.Async || a.Tool.AsyncAfter > 0 }),
	flag("tool.dedupes", func(a *asked) bool { return a.Tool.Dedupes }),
	labels("tool.yields", func(a *asked) message.Labels { return a.Tool.Yields }),
	metadata("tool.metadata", func(a *asked) *resource.Metadata { return &a.Tool.Metadata }),
	{"args", (*asked).arguments, func(b []byte, a *asked) []byte { return keyText(b, string(a.Args)) }},
	flag("labels.private", func(a *asked) bool { return a.Labels.Has(message.Private) }),
	flag("labels.untrusted", func(a *asked) bool { return a.Labels.Has(message.Untrusted) }),
	flag("labels.secret", func(a *asked) bool { return secret(a.Labels) }),
	flag("flow.fixed", func(a *asked) bool { return a.Flow.Fixed }),
	list("flow.open", func(a *asked) []string { return a.Flow.Open }),
	text("flow.why", func(a *asked) string { return a.Flow.Why }),
	text("flow.to", func(a *asked) string { return a.Flow.To }),
	flag("flow.cleared", func(a *asked) bool { return a.Flow.Cleared }),
	flag("flow.refused", func(a *asked) bool { return a.Flow.Refused }),
	flag("attended", func(a *asked) bool { return a.Attended }),
	text("model.provider", func(a *asked) string { return a.Model.Provider }),
	text("model.name", func(a *asked) string { return a.Model.Name }),
	flag("model.local", func(a *asked) bool { return a.Model.Local }),
	text("target", func(a *asked) string { return a.Target }),
	{"budget.tokens", func(a *asked) (*ast.Term, error) {
		if a.Left.Tokens == 0 {
			return nil, nil
		}
		return ast.InternedTerm(a.Left.Tokens), nil
	}, func(b []byte, a *asked) []byte { return binary.AppendVarint(b, int64(a.Left.Tokens)) }},
	{"budget.cost", func(a *asked) (*ast.Term, error) {
		if a.Left.Cost == 0 {
			return nil, nil
		}
		return ast.FloatNumberTerm(a.Left.Cost), nil
	}, func(b []byte, a *asked) []byte {
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(a.Left.Cost))
	}},
	number("time.hour", func(a *asked) int { return a.time().Hour() }),
	number("time.minute", func(a *asked) int { return a.time().Minute() }),
	text("time.weekday", func(a *asked) string { return strings.ToLower(a.time().Weekday().String()) }),
	text("time.date", func(a *asked) string { return a.time().Format(time.DateOnly) }),
	text("time.rfc3339", func(a *asked) string { return a.time().Format(time.RFC3339) }),
}

// Terms that are needed often in the document.
var pointTerm, ownerKind, ownerName = ast.StringTerm("point"), ast.StringTerm("kind"), ast.StringTerm("name")

// Sets of fields by topic.
var (
	readsAgents = mask("agent") | mask("lineage")
	readsClock  = mask("time.rfc3339") // to the second: not worth caching
	readsAll    = mask("")
)

// mask returns the fields at, above and below a path; all fields for the empty path.
func mask(path string) fields {
	var m fields
	for i := range table {
		p := table[i].path
		if path == "" || p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(path, p+".") {
			m |= 1 << i
		}
	}
	return m
}

// key appends to b whatever distinguishes a question from others at this point. It returns false
// if the question must not be cached.
func (p *point) key(b []byte, a *asked) ([]byte, bool) {
	if p.reads&readsClock != 0 {
		return b, false
	}
	for i := range p.members {
		b = table[p.members[i].index].key(b, a)
	}
	return b, len(b) <= maxKey
}

// member is a field that is read, with its place in the document.
type member struct {
	index       int
	group, name *ast.Term // a nil group: top level
}

// members lists the fields of a set, with those of one group together.
func members(m fields) []member {
	var out []member
	for i := range table {
		if m&(1<<i) == 0 {
			continue
		}
		group, name, nested := strings.Cut(table[i].path, ".")
		x := member{index: i, name: ast.InternedTerm(group)}
		if nested {
			x.group, x.name = ast.InternedTerm(group), ast.InternedTerm(name)
			if n := len(out); n > 0 && out[n-1].group != nil && out[n-1].group.Equal(x.group) {
				x.group = out[n-1].group // the same pointer, so that groups can be compared by pointer
			}
		}
		out = append(out, x)
	}
	return out
}

// document builds the input from the fields that the point reads.
func (a *asked) document(p *point) (*ast.Term, error) {
	top := append(a.top[:0], ast.Item(pointTerm, p.term))
	items := a.items[:0]
	for i, m := range p.members {
		v, err := table[m.index].value(a)
		if err != nil {
			return nil, err
		}
		if v != nil && m.group == nil {
			top = append(top, ast.Item(m.name, v))
		} else if v != nil {
			items = append(items, ast.Item(m.name, v))
		}
		if m.group != nil && (i+1 == len(p.members) || p.members[i+1].group != m.group) {
			top = append(top, ast.Item(m.group, ast.ObjectTerm(items...)))
			items = items[:0]
		}
	}
	return ast.ObjectTerm(top...), nil
}

// arguments parses the canonical arguments once. Arguments that are not canonical are not those
// that the executor would get, and cannot be judged.
func (a *asked) arguments() (*ast.Term, error) {
	if len(a.Args) == 0 {
		return nil, nil
	}
	same, err := tool.Canonical(a.Args)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(same, a.Args) {
		return nil, fault.New(fault.Invalid, "args_not_canonical", "the arguments are not in their canonical form")
	}
	v, err := ast.ValueFromReader(bytes.NewReader(a.Args))
	if err != nil {
		return nil, fault.New(fault.Invalid, "args_invalid", "the arguments cannot be read: %w", err)
	}
	return ast.NewTerm(v), nil
}

// secret reports whether labels include Secret, or a label that this version does not know.
func secret(l message.Labels) bool { return l.Has(message.Secret) || l&^message.AllLabels != 0 }

func labels(path string, get func(*asked) message.Labels) field {
	return field{path, func(a *asked) (*ast.Term, error) {
		l := get(a)
		return ast.ObjectTerm(ast.Item(ast.InternedTerm("private"), ast.InternedTerm(l.Has(message.Private))),
			ast.Item(ast.InternedTerm("untrusted"), ast.InternedTerm(l.Has(message.Untrusted))),
			ast.Item(ast.InternedTerm("secret"), ast.InternedTerm(secret(l)))), nil
	}, func(b []byte, a *asked) []byte { return append(b, byte(get(a))) }}
}

func metadata(path string, get func(*asked) *resource.Metadata) field {
	return field{path, func(a *asked) (*ast.Term, error) {
		m := get(a)
		return ast.ObjectTerm(ast.Item(ast.InternedTerm("purpose"), ast.InternedTerm(m.Purpose)),
			ast.Item(ast.InternedTerm("instructions"), ast.InternedTerm(m.Instructions)),
			ast.Item(ast.InternedTerm("applicability"), ast.InternedTerm(m.Applicability)),
			ast.Item(ast.InternedTerm("evaluation"), ast.InternedTerm(m.Evaluation))), nil
	}, func(b []byte, a *asked) []byte {
		m := get(a)
		return keyText(keyText(keyText(keyText(b, m.Purpose), m.Instructions), m.Applicability), m.Evaluation)
	}}
}

// reach returns where a tool's arguments go, also if its spec does not say.
func reach(s *tool.Spec) tool.Reach {
	if s.Out() {
		return tool.ReachOut
	}
	return tool.ReachHere
}

func delivery(s *tool.Spec) tool.Delivery {
	if s.Delivery == "" {
		return tool.Inline
	}
	return s.Delivery
}

func uriText(u resource.URI) string {
	if u.Zero() {
		return ""
	}
	return u.String()
}

// owner splits a space: "user", "ann"; "group", "kitchen"; "system", "".
func owner(s resource.Space) (kind, name string) {
	kind, name, _ = strings.Cut(string(s), ":")
	return kind, name
}

// Fields returns the paths of the input document that policies see.
func Fields() []string {
	out := []string{"point"}
	for i := range table {
		out = append(out, table[i].path)
	}
	return out
}
