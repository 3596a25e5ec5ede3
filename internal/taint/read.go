package taint

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// Limits of what goes out unasked in a turn once something private and something untrusted were
// read. They bound what a model can tell by its choice among the user's words: see
// docs/operations/security.md.
const (
	MaxUnasked   = 4  // queries
	MaxArguments = 3  // arguments of one of them
	MaxWords     = 32 // words of one argument
)

// Lookup returns the spec of a tool by its name.
type Lookup func(name string) (tool.Spec, bool)

// OfQuery returns where a query that reaches outside comes from, as Of does for actions, and its
// destination. It requires more than Of. Once something private and something untrusted were read,
// a query is fixed only if
//
//   - each argument is a whole value that the user typed in this turn (see typed), or the schema's
//     default, or what the turn's plan says,
//   - the user named the destination (see Destination): he typed the address, or the name of the
//     server or the tool, or the plan has the call,
//   - each stretch of his text goes to a destination once, in the order in which he typed it, and
//     a server gets one call that carries nothing that he typed, and
//   - it is among the first MaxUnasked such queries of the turn, counted in the order in which the
//     model made them, whether or not they have run.
//
// If all private data came from the source that is queried, it learns nothing new. Then only
// targets (tool.Spec.Targets) and addresses have to be typed.
//
// sources are those whose private data the model had been shown (message.Common). lookup finds the
// tools of the earlier calls.
func OfQuery(turn []*message.Message, call message.Ref, spec tool.Spec, args []byte, sources []string, lookup Lookup) policy.Flow {
	to := Destination(spec, args)
	if clean(turn, call) {
		return policy.Flow{Fixed: true, To: to}
	}
	q := queries{text: typedBefore(turn, call), sent: map[string]int{}}
	for _, m := range turn {
		last := m.ID == call.Message
		for _, c := range m.Calls() {
			if last && c.Block >= call.Block {
				break
			}
			q.earlier(c, lookup)
			q.call(c)
		}
		if last {
			break
		}
		if res := m.Result(); m.Role == message.Tool && res != nil {
			q.result(res)
		}
	}
	names, why := q.judge(spec, args, sources)
	if why == "" {
		return policy.Flow{Fixed: true, To: to}
	}
	f := open(why, "")
	if len(names) > 0 {
		f = open(describeLeak(turn, call, names, spec, args, to, sources), pointersTo(names)...)
	}
	f.To = to
	return f
}

// queries goes through the outside queries of a turn.
type queries struct {
	replay
	text  typed
	sent  map[string]int // by destination: where the last part of the user's text that it got ends
	bare  []string       // the servers that got a call without any of the user's text
	count int            // queries that needed no question
}

// earlier counts an earlier call of the turn if it needed no question.
func (q *queries) earlier(c message.Call, lookup Lookup) {
	if q.count == MaxUnasked || !c.Labels.Has(message.Private|message.Untrusted) {
		return
	}
	spec, ok := lookup(tool.FromWire(c.Name))
	if !ok || spec.Effect != tool.Query || !spec.Out() {
		return
	}
	if args, err := tool.Canonical(orEmpty(c.Args)); err == nil {
		q.judge(spec, args, c.Sources)
	}
}

// judge decides a call, and counts it if it needs no question. Otherwise it returns the arguments
// that are not the user's, or none if it is not about them, and the reason.
func (q *queries) judge(spec tool.Spec, args []byte, sources []string) (names []string, why string) {
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return nil, "its arguments cannot be read"
	}
	back := returnsToSource(spec, sources)
	planned := q.planned(spec.Name, args)
	to := Destination(spec, args)
	properties := schemaOf(spec.Input).Properties
	used, free, words := q.sent[to], 0, 0
	for name, raw := range given {
		if planned != nil && !slices.Contains(planned.untrusted, name) {
			continue
		}
		lead := isDestination(spec, name, raw)
		if back && !lead {
			continue
		}
		p, known := properties[name]
		free++
		if known && isDefault(p, raw) {
			continue
		}
		end, ok := q.text.value(raw, q.sent[to], lead)
		if !ok || !known {
			names = append(names, name)
			continue
		}
		used = max(used, end)
		if !isTarget(spec, name) {
			words++
		}
	}
	server, _, _ := strings.Cut(spec.Name, ".")
	fresh := used > q.sent[to]
	switch slices.Sort(names); {
	case len(names) > 0:
		return names, "its arguments are not what the user typed"
	case free == 0 && back: // it tells its own source what that knows
		return nil, ""
	case planned == nil && free > MaxArguments:
		return nil, fmt.Sprintf("the choice of more than %d arguments can tell what was read", MaxArguments)
	case planned == nil && !(words == 0 && addressed(spec, args)) && !q.named(spec):
		return nil, "the user did not name " + to
	case planned == nil && !fresh && slices.Contains(q.bare, server):
		return nil, "another call of " + server + " that carries nothing new can tell what was read"
	case q.count == MaxUnasked:
		return nil, fmt.Sprintf("after %d such calls in a turn, the choice of what is asked can tell what was read", MaxUnasked)
	}
	if !fresh && planned == nil {
		q.bare = append(q.bare, server)
	}
	q.sent[to] = used
	q.count++
	return nil, ""
}

// returnsToSource reports whether all private data that was shown came from the source that is queried.
func returnsToSource(spec tool.Spec, sources []string) bool {
	own := spec.Source()
	return own != "" && len(sources) > 0 && !slices.ContainsFunc(sources, func(s string) bool { return s != own })
}

// planned returns the step of the plan that a call is, or nil.
func (q *queries) planned(name string, args []byte) *binding {
	if q.plan == nil {
		return nil
	}
	b, _ := q.bind(name, args)
	return b
}

// schema is the part of an input schema that is used here.
type schema struct {
	Properties map[string]property `json:"properties"`
}

type property struct {
	Default json.RawMessage `json:"default"`
}

func schemaOf(b []byte) (s schema) {
	if json.Unmarshal(b, &s) != nil {
		return schema{} // then it has no defaults
	}
	return s
}

func isDefault(p property, raw json.RawMessage) bool {
	if p.Default == nil {
		return false
	}
	v, err := decode(p.Default)
	return err == nil && same(v, raw)
}

// isDestination reports whether an argument says where a call goes: it is a target, or holds an address.
func isDestination(spec tool.Spec, name string, raw json.RawMessage) bool {
	return isTarget(spec, name) || strings.Contains(string(raw), "://")
}

// Destination returns where a query goes, for people and to compare: the hosts of the addresses in
// its targets, or else the tool, such as "web.search". A target that is not an address is part of it.
func Destination(spec tool.Spec, args []byte) string {
	hosts, names := places(spec, args)
	if len(names) > 0 {
		return spec.Name + ": " + strings.Join(append(hosts, names...), ", ")
	}
	return cmp.Or(strings.Join(hosts, ", "), spec.Name)
}

// addressed reports whether a query goes to the addresses in its targets, and nowhere else.
func addressed(spec tool.Spec, args []byte) bool {
	hosts, names := places(spec, args)
	return len(hosts) > 0 && len(names) == 0
}

// places returns the hosts of the addresses in the targets of a query, and the targets that are no
// addresses; each sorted.
func places(spec tool.Spec, args []byte) (hosts, names []string) {
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return nil, nil
	}
	for name, raw := range given {
		v, err := decode(raw)
		if err != nil || !isTarget(spec, name) {
			continue
		}
		eachText(v, func(s string) {
			if host := hostOf(s); host != "" {
				hosts = appendNew(hosts, host)
			} else {
				names = appendNew(names, short(s))
			}
		})
	}
	slices.Sort(hosts)
	slices.Sort(names)
	return hosts, names
}

// endings are those of hosts without a scheme. Others may be names of files, such as notes.zip.
var endings = strings.Fields("com org net info edu gov eu de at ch uk fr it es nl io dev")

// hostOf returns the host and port of an address in lower case, or "".
func hostOf(s string) string {
	bare := !strings.Contains(s, "://")
	if bare {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.User != nil || u.Host == "" {
		return ""
	}
	if dot := strings.LastIndexByte(u.Host, '.'); bare && (dot < 1 || !slices.Contains(endings, u.Host[dot+1:])) {
		return ""
	}
	return short(strings.ToLower(u.Host))
}

// maxPlace is how many bytes of a destination are shown.
const maxPlace = 253

// short shortens a destination, so that it stays different from others.
func short(s string) string {
	if len(s) <= maxPlace {
		return s
	}
	return fmt.Sprintf("%s… (%x)", strings.ToValidUTF8(s[:80], ""), sha256.Sum256([]byte(s)))
}

// eachText calls f with each text in a value, member names included.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			f(name)
			eachText(x, f)
		}
	case []any:
		for _, x := range v {
			eachText(x, f)
		}
	case string:
		f(v)
	}
}

// describeLeak describes what a query could carry: `q` could carry what mail.read returned to
// search.example.com.
func describeLeak(turn []*message.Message, call message.Ref, names []string, spec tool.Spec, args []byte, to string, sources []string) string {
	var given map[string]json.RawMessage
	_ = json.Unmarshal(args, &given) // judge has read them
	var carried, all []string
	known := []string{spec.Source()}
	for _, m := range turn {
		if m.ID == call.Message {
			break
		}
		res := m.Result()
		if res == nil || !message.LabelsOf(m.Blocks).Has(message.Private) {
			continue
		}
		from := message.SourcesOf(m.Blocks)
		known = message.JoinSources(known, from)
		if slices.Equal(from, []string{spec.Source()}) {
			continue
		}
		quoted := "`" + res.Name + "`"
		all = appendNew(all, quoted)
		text := strings.ToLower(res.Text())
		if slices.ContainsFunc(names, func(n string) bool { return sharesWord(string(given[n]), text) }) {
			carried = appendNew(carried, quoted)
		}
	}
	verb, from := "would carry", carried
	if len(carried) == 0 {
		verb, from = "could carry", all
	}
	what := strings.Join(from, ", ") + " returned"
	if len(carried) == 0 && (len(all) == 0 || len(sources) == 0 || slices.ContainsFunc(sources, func(s string) bool { return !slices.Contains(known, s) })) {
		what = strings.Join(append(from, "earlier messages"), ", ") + " hold"
	}
	if spec.Host != "" && to == spec.Name {
		to = spec.Host
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = "`" + name + "`"
	}
	return fmt.Sprintf("%s %s what %s to `%s`", strings.Join(quoted, ", "), verb, what, to)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// sharesWord reports whether an argument and a text share a word of at least four bytes.
func sharesWord(arg, text string) bool {
	words := wordsOf(text)
	return slices.ContainsFunc(wordsOf(arg), func(w string) bool { return len(w) >= 4 && slices.Contains(words, w) })
}

func pointersTo(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = pointerTo(name)
	}
	return out
}
