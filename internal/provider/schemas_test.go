package provider_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/apis"
)

// serverSchemas are schemas as tools of public servers have them, reduced to what is odd about each, with
// the name under which the first property is sent, and the one that it has.
var serverSchemas = []struct{ name, schema, sent, original string }{
	{"plain", `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`, "q", "q"},
	{"no properties", `{"type":"object"}`, "", ""},
	{"empty properties", `{"type":"object","properties":{},"additionalProperties":false}`, "", ""},
	{"empty", `{}`, "", ""},
	{"null required", `{"type":"object","properties":{"a":{"type":"string"}},"required":null}`, "a", "a"},
	{"null properties", `{"type":"object","properties":null}`, "", ""},
	{"a missing property is required", `{"type":"object","properties":{"a":{}},"required":["a","b"]}`, "a", "a"},
	{"a dollar", `{"type":"object","properties":{"$top":{"type":"integer"}},"required":["$top"]}`, "top", "$top"},
	{"a dot", `{"type":"object","properties":{"filter.name":{"type":"string"}}}`, "", "filter.name"},
	{"a bracket", `{"type":"object","properties":{"ids[]":{"type":"string"}}}`, "", "ids[]"},
	{"a blank", `{"type":"object","properties":{"issue type":{"type":"string"}}}`, "issue_type", "issue type"},
	{"umlauts", `{"type":"object","properties":{"größe":{"type":"number"}}}`, "gr__e", "größe"},
	{"a long name", `{"type":"object","properties":{"` + strings.Repeat("n", 90) + `":{"type":"string"}}}`, "", strings.Repeat("n", 90)},
	{"alike", `{"type":"object","properties":{"$id":{"type":"string"},"id":{"type":"string"}}}`, "id_2", "$id"},
	{"an at sign", `{"type":"object","properties":{"@type":{"type":"string"}}}`, "", "@type"},
	{"any at the top", `{"anyOf":[{"properties":{"id":{"type":"string"}},"required":["id"]},{"properties":{"name":{"type":"string"}},"required":["name"]}]}`, "id", "id"},
	{"one at the top", `{"type":"object","oneOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}`, "a", "a"},
	{"all at the top", `{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"array"}}}]}`, "a", "a"},
	{"a reference at the top", `{"$ref":"#/$defs/In","$defs":{"In":{"type":"object","properties":{"a":{"type":"string"}}}}}`, "a", "a"},
	{"definitions", `{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}`, "a", "a"},
	{"a recursive reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`, "a", "a"},
	{"types with null", `{"type":["object","null"],"properties":{"a":{"type":["string","null"],"default":null}}}`, "a", "a"},
	{"nullable", `{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`, "a", "a"},
	{"no types", `{"properties":{"a":{"description":"anything"}}}`, "a", "a"},
	{"an array of anything", `{"type":"object","properties":{"a":{"type":"array"}}}`, "a", "a"},
	{"a tuple", `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"},{"type":"number"}]}}}`, "a", "a"},
	{"a new tuple", `{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}]}}}`, "a", "a"},
	{"an array below any", `{"type":"object","properties":{"a":{"anyOf":[{"type":"array"},{"type":"string"}]}}}`, "a", "a"},
	{"formats", `{"type":"object","properties":{"a":{"type":"string","format":"uri"},"b":{"type":"integer","format":"uint"},"c":{"type":"string","format":"date-time"}}}`, "a", "a"},
	{"a lookahead", `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!\\.)[a-z.]+$"}}}`, "a", "a"},
	{"const", `{"type":"object","properties":{"a":{"const":"fixed"}}}`, "a", "a"},
	{"values of a map", `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`, "a", "a"},
	{"patterns of names", `{"type":"object","properties":{"a":{"type":"object","patternProperties":{"^x-":{"type":"string"}}}}}`, "a", "a"},
	{"numbers to choose from", `{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]}}}`, "a", "a"},
	{"null to choose", `{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]}}}`, "a", "a"},
	{"nothing to choose from", `{"type":"object","properties":{"a":{"type":"string","enum":[]}}}`, "a", "a"},
	{"a yes", `{"type":"object","properties":{"a":true,"b":{"type":"string"}}}`, "a", "a"},
	{"not", `{"type":"object","properties":{"a":{"not":{"type":"null"}}}}`, "a", "a"},
	{"if", `{"type":"object","properties":{"a":{"type":"string"}},"if":{"properties":{"a":{"const":"x"}}},"then":{"required":["a"]}}`, "a", "a"},
	{"comments", `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/x","$comment":"c","title":"T","type":"object","properties":{"a":{"type":"string","examples":["x"]}}}`, "a", "a"},
	{"large numbers", `{"type":"object","properties":{"a":{"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615}}}`, "a", "a"},
	{"dependent", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"dependentRequired":{"a":["b"]}}`, "a", "a"},
	{"itself", `{"type":"object","properties":{"a":{"$ref":"#"},"$k":{"type":"string"}}}`, "k", "$k"},
	{"below", `{"type":"object","properties":{"a":{"type":"object","properties":{"$b":{"type":"array"}},"required":["$b"]}}}`, "a", "a"},
}

// parameters finds the schema of the tool in a request's body, wherever the dialect has it.
func parameters(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"parameters", "input_schema", "parametersJsonSchema"} {
			if s, ok := v[key].(map[string]any); ok && (v["name"] == "files__list") {
				return s
			}
		}
		for _, x := range v {
			if s := parameters(x); s != nil {
				return s
			}
		}
	case []any:
		for _, x := range v {
			if s := parameters(x); s != nil {
				return s
			}
		}
	}
	return nil
}

// sentName is what vendors take for the name of a property: Anthropic documents ^[a-zA-Z0-9_.-]{1,64}$, the
// narrowest (Tool use, input_schema).
var sentName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// unfit says what a vendor would refuse in a schema. OpenAI (Function calling), Anthropic (Tool use) and Gemini
// (Schema) want an object at the top without alternatives; OpenAI and Gemini want the items of each array.
func unfit(s map[string]any, top bool) (why []string) {
	if top {
		if s["type"] != "object" {
			why = append(why, fmt.Sprintf("the type at the top is %v", s["type"]))
		}
		for _, key := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} {
			if _, there := s[key]; there {
				why = append(why, key+" at the top")
			}
		}
	}
	array := s["type"] == "array"
	if list, ok := s["type"].([]any); ok {
		array = slices.Contains(list, any("array"))
	}
	if _, ok := s["items"].(map[string]any); array && !ok {
		why = append(why, fmt.Sprintf("the items of an array are %v", s["items"]))
	}
	properties, _ := s["properties"].(map[string]any)
	for name, x := range properties {
		if !sentName.MatchString(name) {
			why = append(why, "the name "+name)
		}
		if sub, ok := x.(map[string]any); ok {
			why = append(why, unfit(sub, false)...)
		}
	}
	if list, ok := s["required"].([]any); ok && top {
		for _, name := range list {
			if _, there := properties[name.(string)]; !there {
				why = append(why, fmt.Sprintf("%v is required and not there", name))
			}
		}
	} else if _, there := s["required"]; there && !ok {
		why = append(why, "required is no list")
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := s[key].([]any)
		for _, x := range list {
			if sub, ok := x.(map[string]any); ok {
				why = append(why, unfit(sub, false)...)
			}
		}
	}
	return why
}

// TestSchemasOfServers: whatever schema a server's tool has, each vendor is sent one that it takes, and the
// arguments of a call come back under the names that the tool knows.
func TestSchemasOfServers(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			for _, c := range serverSchemas {
				says := &apis.Says{Type: "text/event-stream", Bodies: []string{fmt.Sprintf(d.line, d.mark)}}
				r := apis.Hello()
				r.Tools = llm.NewToolset(tool.Spec{Name: "files.list", Description: "Lists files.", Input: []byte(c.schema)})
				_, _, _ = apis.Collect(d.open(says), r) // what it answers is not looked at
				var body any
				if len(says.Sent) != 1 || json.Unmarshal([]byte(says.Sent[0]), &body) != nil {
					t.Errorf("%s: %q was sent", c.name, says.Sent)
					continue
				}
				sent := parameters(body)
				if sent == nil && c.original == "" { // Gemini takes no schema without properties
					continue
				}
				if sent == nil {
					t.Errorf("%s: no schema is in %s", c.name, says.Sent[0])
					continue
				}
				if why := unfit(sent, true); len(why) > 0 {
					t.Errorf("%s: %s: %v", c.name, strings.Join(why, "; "), sent)
				}
				if c.original == "" {
					continue
				}
				name := c.sent
				properties, _ := sent["properties"].(map[string]any)
				if name == "" {
					for only := range properties {
						name = only
					}
				}
				if _, there := properties[name]; !there {
					t.Errorf("%s: %s is not sent: %v", c.name, name, sent)
					continue
				}
				if got := d.returns(t, c.schema, `{`+quoted(name)+`:"x"}`); got != `{`+quoted(c.original)+`:"x"}` {
					t.Errorf("%s: arguments come back as %s", c.name, got)
				}
			}
		})
	}
}

// returns has a model call the tool with arguments, and returns what the tool would get.
func (d dialect) returns(t *testing.T, schema, args string) string {
	t.Helper()
	var body strings.Builder
	for _, e := range []string{d.call(quoted(args)), d.stop, d.mark} {
		for x := range strings.SplitSeq(e, "\x00") {
			fmt.Fprintf(&body, d.line, x)
		}
	}
	r := apis.Hello()
	r.Tools = llm.NewToolset(tool.Spec{Name: "files.list", Description: "Lists files.", Input: []byte(schema)})
	reply, _, err := apis.Collect(d.open(&apis.Says{Type: "text/event-stream", Bodies: []string{body.String()}}), r)
	if err != nil || reply == nil {
		t.Errorf("%s: %v", schema, err)
		return ""
	}
	m := &message.Message{Role: message.Assistant, Blocks: reply.Blocks}
	if calls := m.Calls(); len(calls) == 1 {
		return string(calls[0].Args)
	}
	return ""
}
