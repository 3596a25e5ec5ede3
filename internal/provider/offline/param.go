package offline

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
)

// shape is what a parameter's value looks like.
type shape uint8

const (
	shString shape = iota
	shNumber
	shInteger
	shBoolean
	shEnum
	shArray
	shOther // filled from a default or not at all
)

// role is what a parameter is about, as its name, format and description tell.
type role uint32

const (
	rolePerson role = 1 << iota
	rolePlace
	roleOrigin
	roleTarget
	roleText
	roleTitle
	roleQuery
	roleID
	rolePath
	roleEmail
	roleLink
	rolePhone
	roleAmount
	roleCurrency
	roleLanguage
	roleZone
	roleDate
	roleTime
	roleMoment // date and time
	roleSpan
	roleUnix
	roleStart
	roleEnd
	roleMin
	roleMax
	roleExpression
	roleOrdinal
	roleStreet
)

const roleWhen = roleDate | roleTime | roleMoment | roleUnix

// param is a value that a call may carry: a leaf of the arguments.
type param struct {
	path     []string
	name     string // the leaf's
	required bool   // along the whole path
	shape    shape
	item     *param // of arrays
	enum     []choice
	schema   *jsonschema.Schema
	nameWord []string        // stems of the name
	descWord []string        // stems of the description that no sibling shares
	strong   role            // by name and format
	weak     role            // by description
	preps    map[string]bool // prepositions that name or description bring along
	unit     unit            // in which a number is wanted
	hint     string          // the description in lower case
}

// choice is one value of an enumeration.
type choice struct {
	value any
	text  string
	words []string // stems
}

func (p *param) is(r role) bool    { return (p.strong|p.weak)&r != 0 }
func (p *param) named(r role) bool { return p.strong&r != 0 }

// splitName cuts "startDate", "start_date" and "start-date" into words.
func splitName(name string) []string {
	var out []string
	var cur strings.Builder
	flush := func() {
		if cur.Len() > 0 {
			out = append(out, strings.ToLower(cur.String()))
			cur.Reset()
		}
	}
	prev := ' '
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
		case unicode.IsUpper(r) && (unicode.IsLower(prev) || unicode.IsDigit(prev)):
			flush()
			cur.WriteRune(r)
		default:
			cur.WriteRune(r)
		}
		prev = r
	}
	flush()
	return out
}

// wordStems are the stems of a text's words that carry meaning.
func wordStems(text string) []string {
	var out []string
	for _, w := range splitName(joined.Replace(text)) {
		if !stopwords[w] || particles[w] {
			out = append(out, stem(w))
		}
	}
	return out
}

// joined writes the compounds without their hyphens.
var joined = strings.NewReplacer("to-do", "todo", "To-do", "Todo", "e-mail", "email", "E-mail", "Email", "wi-fi", "wifi", "Wi-Fi", "Wifi")

const maxDepth = 6 // of nested argument objects

// flatten lists the leaves of an object schema in the order in which it is written.
func flatten(root *jsonschema.Schema, raw []byte) []*param {
	f := &flattener{root: root, orders: propertyOrders(raw)}
	f.object(root, nil, true, 0, "")
	for _, p := range f.out {
		p.sharpen(f.out)
	}
	return f.out
}

type flattener struct {
	root   *jsonschema.Schema
	orders map[string][]string
	out    []*param
}

func (f *flattener) object(s *jsonschema.Schema, path []string, required bool, depth int, where string) {
	for _, name := range ordered(s.Properties, f.orders[where]) {
		sub := resolve(f.root, s.Properties[name])
		full := append(path[:len(path):len(path)], name)
		need := required && contains(s.Required, name)
		if typeOf(sub) == "object" && len(sub.Properties) > 0 && depth < maxDepth {
			f.object(sub, full, need, depth+1, where+"/"+name)
			continue
		}
		p := newParam(f.root, sub, s.Properties[name].Description, name)
		p.path, p.required = full, need
		if len(path) > 0 { // the object's name belongs to its members
			p.descWord = append(p.descWord, wordStems(path[len(path)-1])...)
		}
		f.out = append(f.out, p)
	}
}

// ordered returns the names of the properties: first as written, then the rest.
func ordered(props map[string]*jsonschema.Schema, order []string) []string {
	out := make([]string, 0, len(props))
	seen := make(map[string]bool, len(props))
	for _, n := range order {
		if props[n] != nil && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	if len(out) < len(props) {
		for _, n := range sortedKeys(props) {
			if !seen[n] && props[n] != nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// propertyOrders returns the order of properties of each nested object of a
// schema, by path: a Go map does not keep it.
func propertyOrders(raw []byte) map[string][]string {
	out := map[string][]string{}
	var walk func(raw []byte, where string, depth int)
	walk = func(raw []byte, where string, depth int) {
		props := member(raw, "properties")
		for _, m := range members(props) {
			out[where] = append(out[where], m.name)
			if depth < maxDepth {
				walk(m.value, where+"/"+m.name, depth+1)
			}
		}
	}
	walk(raw, "", 0)
	return out
}

type jsonMember struct {
	name  string
	value json.RawMessage
}

func member(raw []byte, name string) []byte {
	for _, m := range members(raw) {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// members returns the members of a JSON object in order; none if it is not one.
func members(raw []byte) []jsonMember {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []jsonMember
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || dec.Decode(&v) != nil {
			return out
		}
		out = append(out, jsonMember{name, v})
	}
	return out
}

// resolve follows local references and the first branch that is not null.
func resolve(root, s *jsonschema.Schema) *jsonschema.Schema {
	for range 8 {
		next := s
		switch {
		case s == nil:
			return &jsonschema.Schema{}
		case s.Ref != "":
			name, ok := strings.CutPrefix(s.Ref, "#/$defs/")
			next = root.Defs[name]
			if !ok {
				next = root.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
			}
			if s.Ref == "#" {
				next = root
			}
		case typeOf(s) == "" && len(s.Enum) == 0 && s.Const == nil:
			for _, branch := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf, s.AllOf} {
				for _, b := range branch {
					if b != nil && b.Type != "null" && next == s {
						next = b
					}
				}
			}
		}
		if next == s {
			return s
		}
		s = next
	}
	return &jsonschema.Schema{}
}

// typeOf returns the type of a schema's values, null aside.
func typeOf(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}
	switch {
	case len(s.Properties) > 0:
		return "object"
	case s.Items != nil || s.PrefixItems != nil:
		return "array"
	}
	return ""
}

func newParam(root, s *jsonschema.Schema, desc, name string) *param {
	if desc == "" {
		desc = s.Description
	}
	p := &param{name: name, schema: s, hint: strings.ToLower(desc), nameWord: wordStems(name)}
	p.descWord = wordStems(desc)
	switch t := typeOf(s); {
	case len(s.Enum) > 0 || s.Const != nil:
		p.shape = shEnum
		p.enum = choices(s)
	case t == "string" || t == "":
		p.shape = shString
		if t == "" && (len(s.AnyOf) > 0 || s.Not != nil) {
			p.shape = shOther
		}
	case t == "number":
		p.shape = shNumber
	case t == "integer":
		p.shape = shInteger
	case t == "boolean":
		p.shape = shBoolean
	case t == "array" && s.Items != nil:
		p.shape = shArray
		item := resolve(root, s.Items)
		if typeOf(item) == "array" || typeOf(item) == "object" {
			p.shape = shOther
			break
		}
		p.item = newParam(root, item, desc, name)
	default:
		p.shape = shOther
	}
	p.learn(splitName(name))
	return p
}

func choices(s *jsonschema.Schema) []choice {
	values := s.Enum
	if s.Const != nil {
		values = []any{*s.Const}
	}
	out := make([]choice, 0, len(values))
	for _, v := range values {
		c := choice{value: v}
		if text, ok := v.(string); ok {
			c.text = text
			c.words = allStems(text)
		}
		out = append(out, c)
	}
	return out
}

func allStems(text string) []string {
	var out []string
	for _, w := range splitName(text) {
		out = append(out, stem(w))
	}
	return out
}

// roleWords tell a role by a word of a name (or of a description, which counts less).
var roleWords = parseRoles(map[role]string{
	rolePerson:     "person recipient contact user customer client guest attendee author artist assignee owner employee sender patient driver friend player passenger member participant receiver addressee host teacher student colleague invitee who whom name",
	rolePlace:      "city place location destination origin station airport room where area region town street venue stop port district site branch office shop store",
	roleOrigin:     "from origin source start departure sender old src",
	roleTarget:     "to target destination end recipient arrival new into dest dst goal onto",
	roleText:       "text message body content note comment reason memo caption instruction remark feedback sentence paragraph input task todo reminder value",
	roleTitle:      "title name label subject heading summary topic item product event",
	roleQuery:      "query search keyword term topic question q phrase about word pattern",
	roleID:         "id number code reference tracking sku key isbn plate serial identifier ref num no uuid",
	rolePath:       "path file filename folder directory document dir",
	roleEmail:      "email mail recipient to cc bcc attendee e-mail",
	roleLink:       "url link uri website address webpage page site href feed endpoint",
	rolePhone:      "phone telephone mobile number cell",
	roleAmount:     "amount price cost quantity count total budget sum fee value limit number max min",
	roleCurrency:   "currency",
	roleLanguage:   "language lang locale",
	roleZone:       "timezone zone tz",
	roleDate:       "date day deadline due birthday until expiry expires since checkin checkout",
	roleTime:       "time hour clock",
	roleMoment:     "datetime timestamp when moment start end deadline due at since until begin",
	roleSpan:       "duration length timeout interval delay period long snooze",
	roleUnix:       "unix epoch",
	roleStart:      "start begin from since after earliest departure checkin first",
	roleEnd:        "end until to before finish till latest return checkout deadline last due by",
	roleMin:        "min minimum least lowest low lower above over",
	roleMax:        "max maximum most highest high upper below under limit budget",
	roleExpression: "expression formula equation",
	roleStreet:     "street address",
	roleOrdinal:    "index position rank page chapter episode season level row column step number",
})

func parseRoles(table map[role]string) map[string]role {
	out := map[string]role{}
	for r, list := range table {
		for _, w := range strings.Fields(list) {
			out[stem(w)] |= r
		}
	}
	return out
}

// learn derives what the parameter is about.
func (p *param) learn(name []string) {
	p.preps = map[string]bool{}
	for _, w := range name {
		p.strong |= roleWords[stem(w)]
		if c, ok := prepositions[w]; ok {
			p.preps[c] = true
		}
	}
	for _, w := range splitName(p.hint) {
		p.weak |= roleWords[stem(w)]
	}
	p.learnFormat()
	p.learnUnit(name)
}

// learnFormat takes what the schema's format says.
func (p *param) learnFormat() {
	if strings.Contains(strings.Join(p.nameWord, ""), "timezon") || strings.Contains(p.hint, "time zone") || strings.Contains(p.hint, "timezone") {
		if p.named(roleZone) || strings.Contains(p.hint, "iana") || !p.named(roleWhen) {
			p.strong = p.strong&^roleWhen | roleZone
			p.weak &^= roleWhen
		}
	}
	switch p.schema.Format {
	case "email", "idn-email":
		p.strong = roleEmail
	case "uri", "url", "iri", "uri-reference":
		p.strong = roleLink
	case "date":
		p.strong = p.strong&^(roleTime|roleMoment) | roleDate
	case "time":
		p.strong = p.strong&^(roleDate|roleMoment) | roleTime
	case "date-time":
		p.strong = p.strong&^(roleDate|roleTime) | roleMoment
	case "duration":
		p.strong |= roleSpan
	case "uuid":
		p.strong |= roleID
	case "":
		if p.shape == shString && (strings.Contains(p.hint, "rfc 3339") || strings.Contains(p.hint, "rfc3339") || strings.Contains(p.hint, "iso 8601") && strings.Contains(p.hint, "time")) && p.strong&roleSpan == 0 {
			p.strong = p.strong&^(roleDate|roleTime) | roleMoment
		}
	}
}

// learnUnit finds the unit in which a number is wanted: the name's word, else
// the description's.
func (p *param) learnUnit(name []string) {
	if p.shape != shNumber && p.shape != shInteger {
		return
	}
	for _, w := range name {
		if u, ok := units[w]; ok && (len(w) > 1 || len(name) > 1) {
			p.unit = u
			return
		}
	}
	for _, w := range strings.FieldsFunc(p.hint, func(r rune) bool { return !unicode.IsLetter(r) && r != '%' && r != '°' }) {
		if u, ok := units[w]; ok && (len(w) > 2 || w == "kg" || w == "km" || w == "cm" || w == "mm" || w == "ml" || w == "%" || w == "°") && w != "real" && w != "second" {
			p.unit = u
			return
		}
	}
}

// sharpen drops description words that other parameters of the tool share.
func (p *param) sharpen(all []*param) {
	var own []string
	for _, w := range p.descWord {
		shared := false
		for _, q := range all {
			if q != p && (contains(q.descWord, w) || contains(q.nameWord, w)) {
				shared = true
				break
			}
		}
		if !shared && !contains(own, w) {
			own = append(own, w)
		}
	}
	p.descWord = own
	if p.item != nil {
		p.item.descWord = own
	}
}
