package tool

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
)

// Declared is what the declaration of a source says of one of its tools: the
// labels of what it returns, where what it is given goes, and which arguments
// say where to. What is nil or empty is not said.
type Declared struct {
	Yields  *message.Labels
	Reach   Reach
	Targets []string
}

// Declare reads what a declaration says of a tool that it knows by names.
// yields is a list of labels and reach a word, for all tools, or each a map by
// the names of tools and globs: the longest key that matches counts. Errors:
// Invalid, tool_yields_invalid, tool_reach_invalid.
func Declare(yields, reach any, targets map[string][]string, names ...string) (Declared, error) {
	var d Declared
	for _, value := range values(yields) {
		if _, err := parseYields(value); err != nil {
			return d, err
		}
	}
	if v := pick(yields, names); v != nil {
		labels, err := parseYields(v)
		if err != nil {
			return d, err
		}
		d.Yields = &labels
	}
	for _, v := range values(reach) {
		if err := checkReach(v); err != nil {
			return d, err
		}
	}
	if v := pick(reach, names); v != nil {
		d.Reach = Reach(wordOf(v))
	}
	if _, t, ok := Matched(targets, names...); ok {
		d.Targets = append([]string{}, t...)
	}
	return d, nil
}

// byTool returns the members of a map by tools; nil: it is none.
func byTool(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case map[string]string:
		out := map[string]any{}
		for k, x := range v {
			out[k] = x
		}
		return out
	case map[string][]string:
		out := map[string]any{}
		for k, x := range v {
			out[k] = x
		}
		return out
	}
	return nil
}

// values are all that a declaration says, whatever of.
func values(v any) []any {
	if v == nil {
		return nil
	}
	m := byTool(v)
	if m == nil {
		return []any{v}
	}
	var out []any
	for _, x := range m {
		out = append(out, x)
	}
	return out
}

// pick returns what a declaration says of a tool; nil: nothing.
func pick(v any, names []string) any {
	m := byTool(v)
	if m == nil {
		return v
	}
	_, found, _ := Matched(m, names...)
	return found
}

func wordOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Reach:
		return string(v)
	}
	return "?"
}

func checkReach(v any) error {
	switch Reach(wordOf(v)) {
	case "", ReachHere, ReachOut:
		return nil
	}
	return fault.New(fault.Invalid, "tool_reach_invalid", "reach is %.40v", v).
		WithHint("it is here (what the tool is given stays on this machine) or out, for the source or by tool")
}

func parseYields(v any) (labels message.Labels, err error) {
	bad := func(why any) error {
		return fault.New(fault.Invalid, "tool_yields_invalid", "yields: %v", why).
			WithHint("list private, untrusted or secret, or nothing ([]), for the source or by tool")
	}
	var list []any
	switch v := v.(type) {
	case []any:
		list = v
	case []string:
		for _, s := range v {
			list = append(list, s)
		}
	case *[]string:
		return parseYields(*v)
	default:
		return 0, bad("a list is expected")
	}
	for _, x := range list {
		name, ok := x.(string)
		if !ok {
			return 0, bad("a list of texts is expected")
		}
		l, err := message.ParseLabel(name)
		if err != nil {
			return 0, bad(fault.Of(err).Message)
		}
		labels |= l
	}
	return labels, nil
}

// Flows fills in where a tool's data come from and go to: what is declared,
// and else a proposal by fixed rules, of the tool's name and schema. Nothing
// that a source says of itself makes it laxer but a name that sounds like
// public data, which leaves its own results unprotected and no others. stays
// says that what the tool is given cannot leave this machine, whoever says so.
//
// A person is shown all of it, and approves it as a whole or changes it.
func (s *Spec) Flows(d Declared, stays bool) {
	s.Guessed.Yields, s.Guessed.Targets = d.Yields == nil, d.Targets == nil
	switch {
	case d.Yields != nil:
		s.Yields = *d.Yields
	case s.Effect == Query && public(s.Name):
		s.Yields = message.Untrusted
	default:
		s.Yields = message.Private | message.Untrusted
	}
	if s.Reach = d.Reach; s.Reach == "" && stays {
		s.Reach = ReachHere
	}
	if s.Targets = d.Targets; s.Targets == nil {
		s.Targets = proposedTargets(*s)
	}
}

// Words of names. A tool is taken to return what anybody may know if a word of
// publicWords is in its name and none of privateWords.
var (
	publicWords = strings.Fields("web search internet wiki wikipedia weather forecast climate news headline headlines map maps geo geocode geocoding " +
		"route routes routing directions place places poi restaurant restaurants transit timetable departures arrivals elevation distance timezone " +
		"holiday holidays currency rates quote quotes stock stocks dictionary definition synonyms recipe recipes catalog catalogue product products " +
		"shop store price prices page pages fetch browse browser url website encyclopedia air pollen traffic movie movies film films book books")
	privateWords = strings.Fields("my me mine own mail mails email emails inbox message messages thread threads chat channel channels conversation calendar " +
		"event events appointment meeting meetings contact contacts person people file files folder folders document documents note notes notebook task " +
		"tasks todo todos ticket tickets issue issues order orders cart basket wishlist account accounts balance transaction transactions invoice " +
		"invoices payment payments user users profile history saved favourite favourites favorite favorites home device devices sensor sensors state " +
		"states drive photo photos health password passwords secret customer customers member members log logs database sql internal private team " +
		"project projects booking bookings reservation reservations subscription loan loans shelf")
	// Of the arguments of queries, those lead somewhere that name an address of
	// the network; of actions, those that name people and accounts too.
	netWords   = strings.Fields("url urls uri uris link links href host hostname domain endpoint webhook callback server website site feed")
	placeWords = strings.Fields("to cc bcc recipient recipients email emails mail phone address addresses number channel chat room user username " +
		"account iban destination target")
)

func public(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '.' || c == '_' || c == '-' })
	in := func(list []string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	return in(publicWords) && !in(privateWords)
}

// Arguments returns the names of the arguments that the schema tells, sorted.
func (s Spec) Arguments() []string {
	var schema struct{ Properties map[string]any }
	if json.Unmarshal(s.Input, &schema) != nil {
		return nil // the schema is checked where a tool is offered
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

// proposedTargets are the arguments whose names or formats say that they lead
// somewhere. Of an action of which none does, any may: nil.
func proposedTargets(s Spec) []string {
	var schema struct {
		Properties map[string]struct {
			Format string `json:"format"`
		} `json:"properties"`
	}
	dec := json.NewDecoder(bytes.NewReader(s.Input))
	if err := dec.Decode(&schema); err != nil {
		return nil
	}
	targets := []string{}
	for name, p := range schema.Properties {
		words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
		leads := slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains(netWords, w) || s.Effect == Action && slices.Contains(placeWords, w)
		}) ||
			slices.Contains([]string{"email", "idn-email", "uri", "url", "iri", "hostname", "uri-reference"}, p.Format)
		if leads {
			targets = append(targets, name)
		}
	}
	if slices.Sort(targets); s.Effect == Action && len(targets) == 0 {
		return nil
	}
	return targets
}
