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

// Declared is what the declaration of a source says about one of its tools: the labels of its
// results, where its arguments go, and which arguments name recipients or destinations. Nil or empty
// fields are not declared.
type Declared struct {
	Yields  *message.Labels
	Reach   Reach
	Targets []string
}

// Declare reads what a declaration says about a tool with these names. yields is a list of labels
// and reach a word, for all tools; or each is a map by names of tools and globs, in which the
// longest matching key counts. Errors: Invalid, tool_yields_invalid, tool_reach_invalid.
func Declare(yields, reach any, targets map[string][]string, names ...string) (d Declared, err error) {
	lists, err := perTool[[]string](yields)
	labels := map[string]message.Labels{}
	for name, list := range lists {
		for _, word := range list {
			var l message.Labels
			if l, err = message.ParseLabel(word); err != nil {
				break
			}
			labels[name] |= l
		}
	}
	if err != nil {
		return d, fault.New(fault.Invalid, "tool_yields_invalid", "yields: %s", fault.Of(err).Message).
			WithHint("list private, untrusted or secret, or nothing ([]), for the source or by tool")
	}
	if key, _, ok := BestMatch(lists, names...); ok {
		l := labels[key]
		d.Yields = &l
	}
	reaches, err := perTool[Reach](reach)
	for _, r := range reaches {
		if r != "" && r != ReachHere && r != ReachOut {
			err = fault.New("", "", "%.40q is invalid", string(r))
		}
	}
	if err != nil {
		return d, fault.New(fault.Invalid, "tool_reach_invalid", "reach: %s", fault.Of(err).Message).
			WithHint("write here (the arguments stay on this machine) or out, for the source or by tool")
	}
	_, d.Reach, _ = BestMatch(reaches, names...)
	if _, t, ok := BestMatch(targets, names...); ok {
		d.Targets = append([]string{}, t...)
	}
	return d, nil
}

// perTool reads a value that is declared for all tools, or by name or glob, as a map by globs.
func perTool[T any](said any) (by map[string]T, err error) {
	if said == nil {
		return nil, nil
	}
	b, err := json.Marshal(said)
	if err != nil {
		return nil, err // plain values: cannot fail
	}
	if json.Unmarshal(b, &by) == nil {
		return by, nil
	}
	var all T
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fault.New("", "", "%.80s is not valid here", b)
	}
	return map[string]T{"*": all}, nil
}

// Flows fills in where a tool's data come from and go to: the declared values, and otherwise a
// proposal by fixed rules from the tool's name and schema. What a source says about itself never
// makes the proposal laxer, except for a name that sounds like public data, which leaves only its
// own results unprotected. stays means that the arguments cannot leave this machine, whatever is
// declared.
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

// Words in names. A tool is assumed to return public data if its name has a word of publicWords
// and none of privateWords.
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
	// Arguments of queries count as targets if they name a network address; those of actions also
	// if they name people or accounts.
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

// Arguments returns the names of the arguments in the schema, sorted.
func (s Spec) Arguments() []string {
	var schema struct{ Properties map[string]any }
	if json.Unmarshal(s.Input, &schema) != nil {
		return nil // the schema is checked where a tool is offered
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

// Required returns the names of the arguments that a call must have.
func (s Spec) Required() []string {
	var schema struct{ Required []string }
	if json.Unmarshal(s.Input, &schema) != nil {
		return nil
	}
	return schema.Required
}

// proposedTargets returns the arguments whose names or formats say that they lead somewhere. For
// an action without any such argument it returns nil: any argument may.
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
