package wire

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/tool"
)

// ToolSchema returns the schema of a tool's arguments in a form that every vendor accepts:
//
//   - the names of properties have only letters, digits, '_', '.' and '-', and 64 at most (Anthropic, Gemini);
//     OriginalArgs maps them back
//   - at the root there is no combination of schemas, but one object (OpenAI, Anthropic, Gemini)
//   - each array says what its items are (OpenAI, Gemini)
//   - what is required is a list of properties that are there (OpenAI's strict form, Gemini)
//
// A schema that is so already is returned unchanged.
func ToolSchema(schema []byte) []byte {
	if !IsObject(schema) || acceptable(schema) {
		return schema
	}
	list := members(schema)
	if slices.ContainsFunc(list, isCombinator) {
		list = mergedRoot(list)
	}
	return AdaptSchema(objectOf(list), "", func(list []Keyword) []Keyword {
		list = withRequired(list)
		names := newNames(valueOf(list, "properties"))
		for i, k := range list {
			switch k.Name {
			case "properties":
				list[i].Value = renamed(k.Value)
			case "required":
				list[i].Value = renamedList(k.Value, names)
			}
		}
		return withItems(list)
	})
}

// acceptable reports whether there is nothing to adapt in a schema.
func acceptable(schema []byte) bool {
	good := !slices.ContainsFunc(members(schema), isCombinator)
	AdaptSchema(schema, "", func(list []Keyword) []Keyword {
		good = good && len(newNames(valueOf(list, "properties"))) == 0 && !needsItems(list) && !requiresUnknown(list)
		return list
	})
	return good
}

// members returns the keywords of a schema.
func members(schema []byte) (list []Keyword) {
	d := Decode(schema)
	d.Object(func(key []byte) { list = append(list, Keyword{string(key), d.Raw()}) })
	return list
}

func objectOf(list []Keyword) []byte {
	out := []byte{'{'}
	for _, k := range list {
		out = AppendMember(out, k.Name, k.Value)
	}
	return append(out, '}')
}

func valueOf(list []Keyword, name string) []byte {
	for _, k := range list {
		if k.Name == name {
			return k.Value
		}
	}
	return nil
}

// stringsOf returns the strings of a list.
func stringsOf(raw []byte) (list []string) {
	d := Decode(raw)
	d.Array(func(int) {
		if d.IsString() {
			list = append(list, d.String())
		}
	})
	return list
}

// isCombinator reports whether a keyword may not stand at the root of a tool's schema.
func isCombinator(k Keyword) bool {
	switch k.Name {
	case "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref":
		return true
	}
	return k.Name == "type" && string(k.Value) != `"object"`
}

// maxLifted bounds how deeply combinations are lifted.
const maxLifted = 4

// mergedRoot returns the keywords of a root as one object that has the properties of all its branches. What all
// branches require is required; what only some require is said in the description.
func mergedRoot(root []Keyword) []Keyword {
	var out []Keyword
	for _, k := range root {
		if !isCombinator(k) && k.Name != "type" && k.Name != "properties" && k.Name != "required" && (k.Name != "additionalProperties" || string(k.Value) == "false") {
			out = append(out, k)
		}
	}
	l := &rootMerger{root: root}
	required, choices := l.add(root, 0)
	out = append([]Keyword{{"type", []byte(`"object"`)}}, out...)
	if len(choices) > 0 {
		give := strings.Join(choices, ", or ")
		names := newNames(objectOf(l.properties))
		// In a fixed order, the longest first: the text is the same in each request.
		for _, was := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
		}) {
			if was != "" {
				give = strings.ReplaceAll(give, was, names[was])
			}
		}
		words := strings.TrimSpace(Decode(valueOf(root, "description")).String() + " Give " + give + ".")
		out = slices.DeleteFunc(out, func(k Keyword) bool { return k.Name == "description" })
		out = append(out, Keyword{"description", AppendString(nil, words)})
	}
	out = append(out, Keyword{"properties", objectOf(l.properties)})
	if len(required) > 0 {
		out = append(out, Keyword{"required", AppendStrings(nil, required)})
	}
	return out
}

// rootMerger collects the properties of the branches of a root.
type rootMerger struct {
	root       []Keyword
	properties []Keyword
}

// add adds a branch. It returns what it requires, and the choices that it leaves.
func (l *rootMerger) add(branch []Keyword, depth int) (required, choices []string) {
	if depth > maxLifted {
		return nil, nil
	}
	if ref := Decode(valueOf(branch, "$ref")).String(); ref != "" {
		required, choices = l.add(resolved(l.root, ref), depth+1)
	}
	for _, p := range members(valueOf(branch, "properties")) {
		if i := slices.IndexFunc(l.properties, func(k Keyword) bool { return k.Name == p.Name }); i < 0 {
			l.properties = append(l.properties, p)
		} else if !bytes.Equal(l.properties[i].Value, p.Value) {
			l.properties[i].Value = Append(nil, `{"anyOf":[$,$]}`, l.properties[i].Value, p.Value)
		}
	}
	required = append(required, stringsOf(valueOf(branch, "required"))...)
	for _, k := range branch {
		if k.Name != "anyOf" && k.Name != "oneOf" && k.Name != "allOf" {
			continue
		}
		var common []string
		var each []string
		d := Decode(k.Value)
		d.Array(func(i int) {
			needs, further := l.add(members(d.Raw()), depth+1)
			choices = append(choices, further...)
			if len(needs) > 0 {
				each = append(each, strings.Join(needs, " and "))
			}
			if k.Name == "allOf" || i == 0 {
				common = append(common, needs...)
			} else {
				common = slices.DeleteFunc(common, func(s string) bool { return !slices.Contains(needs, s) })
			}
		})
		required = append(required, common...)
		if k.Name != "allOf" && len(each) > 1 {
			choices = append(choices, each...)
		}
	}
	slices.Sort(required)
	return slices.Compact(required), choices
}

// resolved returns the schema that a reference inside of the root names.
func resolved(root []Keyword, ref string) []Keyword {
	if ref == "#" {
		return root
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	at := root
	for name := range strings.SplitSeq(path, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		at = members(valueOf(at, name))
	}
	return at
}

// needsItems reports whether a schema is of an array, and does not say what its items are.
func needsItems(list []Keyword) bool {
	kind := valueOf(list, "type")
	array := string(kind) == `"array"` || slices.Contains(stringsOf(kind), "array")
	return array && !Decode(valueOf(list, "items")).IsObject()
}

// withItems adds items to the schema of an array that has none. A list of schemas, as older drafts have it, is
// of any of them.
func withItems(list []Keyword) []Keyword {
	if !needsItems(list) {
		return list
	}
	items := []byte(`{}`)
	if tuple := valueOf(list, "items"); Decode(tuple).IsArray() && len(bytes.TrimSpace(tuple[1:len(tuple)-1])) > 0 {
		items = Append(nil, `{"anyOf":$}`, tuple)
	}
	list = slices.DeleteFunc(slices.Clone(list), func(k Keyword) bool { return k.Name == "items" })
	return append(list, Keyword{"items", items})
}

// requiresUnknown reports whether a schema requires what is not among its properties, or not in a list.
func requiresUnknown(list []Keyword) bool {
	required, properties := valueOf(list, "required"), valueOf(list, "properties")
	if required == nil {
		return false
	}
	if !Decode(required).IsArray() {
		return true
	}
	have := members(properties)
	return properties != nil && slices.ContainsFunc(stringsOf(required), func(name string) bool {
		return !slices.ContainsFunc(have, func(p Keyword) bool { return p.Name == name })
	})
}

// withRequired leaves out of what a schema requires what is not among its properties.
func withRequired(list []Keyword) []Keyword {
	if !requiresUnknown(list) {
		return list
	}
	have := members(valueOf(list, "properties"))
	names := slices.DeleteFunc(stringsOf(valueOf(list, "required")), func(name string) bool {
		return !slices.ContainsFunc(have, func(p Keyword) bool { return p.Name == name })
	})
	list = slices.DeleteFunc(slices.Clone(list), func(k Keyword) bool { return k.Name == "required" })
	if len(names) == 0 {
		return list
	}
	return append(list, Keyword{"required", AppendStrings(nil, names)})
}

// maxKey is the most bytes of the name of a property.
const maxKey = 64

func takesKey(name string) bool {
	return IsID(strings.ReplaceAll(name, ".", "_"), maxKey)
}

// newNames returns the names under which properties are sent that have names of another form.
func newNames(properties []byte) map[string]string {
	var names map[string]string
	taken := map[string]bool{}
	list := members(properties)
	for _, p := range list {
		taken[p.Name] = true
	}
	for _, p := range list {
		if takesKey(p.Name) {
			continue
		}
		if names == nil {
			names = map[string]string{}
		}
		clean := strings.Map(func(r rune) rune {
			if r < 0x80 && takesKey(string(r)) {
				return r
			}
			return '_'
		}, p.Name)
		clean = strings.TrimLeft(clean, "_")
		if clean = clean[:min(len(clean), maxKey-4)]; clean == "" {
			clean = "property"
		}
		name := clean
		for n := 2; taken[name]; n++ {
			name = clean + "_" + strconv.Itoa(n)
		}
		taken[name], names[p.Name] = true, name
	}
	return names
}

func renamed(properties []byte) []byte {
	names := newNames(properties)
	if len(names) == 0 {
		return properties
	}
	list := members(properties)
	for i, p := range list {
		if name, ok := names[p.Name]; ok {
			list[i].Name = name
		}
	}
	return objectOf(list)
}

func renamedList(required []byte, names map[string]string) []byte {
	if len(names) == 0 {
		return required
	}
	list := stringsOf(required)
	for i, s := range list {
		if name, ok := names[s]; ok {
			list[i] = name
		}
	}
	return AppendStrings(nil, list)
}

// OriginalArgs returns arguments that a model wrote for a tool whose schema was sent as ToolSchema adapts it, with
// the names of the schema itself.
func OriginalArgs(schema, args []byte) []byte {
	if !IsObject(schema) || !IsObject(args) {
		return args
	}
	bad := false
	AdaptSchema(schema, "", func(list []Keyword) []Keyword {
		bad = bad || len(newNames(valueOf(list, "properties"))) > 0
		return list
	})
	if !bad {
		return args
	}
	o := &restoring{root: members(schema)}
	top := o.root
	if slices.ContainsFunc(top, isCombinator) {
		top = mergedRoot(top)
	}
	return o.value([][]Keyword{top}, args, 0)
}

type restoring struct{ root []Keyword }

// maxNested bounds how deeply arguments are restored.
const maxNested = 64

// value restores a value that may be of any of the schemas.
func (o *restoring) value(schemas [][]Keyword, raw []byte, depth int) []byte {
	if depth > maxNested {
		return raw
	}
	schemas = o.branches(schemas, 0)
	switch d := Decode(raw); {
	case d.IsObject():
		var list []Keyword
		d.Object(func(key []byte) {
			name, below := o.member(schemas, string(key))
			list = append(list, Keyword{name, o.value(below, d.Raw(), depth+1)})
		})
		return objectOf(list)
	case d.IsArray():
		var items [][]Keyword
		for _, s := range schemas {
			if v := valueOf(s, "items"); Decode(v).IsObject() {
				items = append(items, members(v))
			} else if v != nil {
				d := Decode(v)
				d.Array(func(int) { items = append(items, members(d.Raw())) })
			}
			if v := valueOf(s, "prefixItems"); v != nil {
				d := Decode(v)
				d.Array(func(int) { items = append(items, members(d.Raw())) })
			}
		}
		out := []byte{'['}
		d.Array(func(int) { out = append(Comma(out), o.value(items, d.Raw(), depth+1)...) })
		return append(out, ']')
	}
	return raw
}

// member returns the original name of a member, and the schemas of its value.
func (o *restoring) member(schemas [][]Keyword, name string) (original string, below [][]Keyword) {
	original = name
	for _, s := range schemas {
		properties := valueOf(s, "properties")
		for was, now := range newNames(properties) {
			if now == name {
				original = was
			}
		}
		if v := valueOf(members(properties), original); v != nil {
			below = append(below, members(v))
		} else if v := valueOf(s, "additionalProperties"); Decode(v).IsObject() {
			below = append(below, members(v))
		}
		for _, p := range members(valueOf(s, "patternProperties")) {
			below = append(below, members(p.Value))
		}
	}
	return original, below
}

// branches returns the schemas and those that they combine or refer to.
func (o *restoring) branches(schemas [][]Keyword, depth int) (out [][]Keyword) {
	if depth > maxLifted {
		return schemas
	}
	for _, s := range schemas {
		out = append(out, s)
		var more [][]Keyword
		for _, k := range s {
			switch k.Name {
			case "anyOf", "oneOf", "allOf":
				d := Decode(k.Value)
				d.Array(func(int) { more = append(more, members(d.Raw())) })
			case "if", "then", "else":
				more = append(more, members(k.Value))
			case "$ref":
				more = append(more, resolved(o.root, Decode(k.Value).String()))
			}
		}
		if len(more) > 0 {
			out = append(out, o.branches(more, depth+1)...)
		}
	}
	return out
}

// original returns the arguments of a call with the names of its tool's own schema.
func (a *Assembly) original(name string, args []byte) []byte {
	specs := a.Tools.Specs()
	if i := slices.IndexFunc(specs, func(s tool.Spec) bool { return s.Name == name }); i >= 0 {
		return OriginalArgs(specs[i].Input, args)
	}
	return args
}
