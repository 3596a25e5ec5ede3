package wire_test

import (
	"testing"

	"steward/internal/provider/wire"
)

// Schemas of real servers' tools, as they are sent, and arguments as they come and as the tool gets them.
func TestToolSchemas(t *testing.T) {
	for _, test := range []struct{ schema, sent, args, original string }{
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"$a": 1}`, `{"$a": 1}`},
		{`{"type":"object","properties":{"$top":{"type":"integer"},"filter":{}},"required":["$top"]}`,
			`{"type":"object","properties":{"top":{"type":"integer"},"filter":{}},"required":["top"]}`,
			`{"top":5,"filter":"x"}`, `{"$top":5,"filter":"x"}`},
		{`{"type":"object","properties":{"$top":{},"top":{},"größe in cm":{},"@":{}}}`, `{"type":"object","properties":{"top_2":{},"top":{},"gr__e_in_cm":{},"property":{}}}`,
			`{"top":1,"top_2":2,"gr__e_in_cm":3,"property":4}`, `{"top":1,"$top":2,"größe in cm":3,"@":4}`},
		{`{"type":"object","properties":{"list":{"type":"array","items":{"$ref":"#/$defs/x"}}},"$defs":{"x":{"type":"object","properties":{"$id":{}}}}}`,
			`{"type":"object","properties":{"list":{"type":"array","items":{"$ref":"#/$defs/x"}}},"$defs":{"x":{"type":"object","properties":{"id":{}}}}}`,
			`{"list":[{"id":1},{"id":2}]}`, `{"list":[{"$id":1},{"$id":2}]}`},
		{`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["array","null"]},"c":{"type":"array","items":[{"type":"string"},{"type":"number"}]},"d":{"type":"array","items":true}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":["array","null"],"items":{}},"c":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}},"d":{"type":"array","items":{}}}}`,
			`{"a":[1]}`, `{"a":[1]}`},
		{`{"anyOf":[{"properties":{"$id":{"type":"string"}},"required":["$id"]},{"properties":{"name":{"type":"string"},"$id":{"type":"string"}},"required":["name"]}]}`,
			`{"type":"object","description":"Give id, or name.","properties":{"id":{"type":"string"},"name":{"type":"string"}}}`,
			`{"id":"x"}`, `{"$id":"x"}`},
		{`{"type":"object","description":"Finds.","properties":{"q":{}},"required":["q"],"allOf":[{"properties":{"n":{"type":"array"}},"required":["n"]}],"not":{"required":["z"]}}`,
			`{"type":"object","description":"Finds.","properties":{"q":{},"n":{"type":"array","items":{}}},"required":["n","q"]}`, `{}`, `{}`},
		{`{"type":"object","properties":{"q":{}},"allOf":[{"properties":{"n":{}}}],"additionalProperties":false}`,
			`{"type":"object","additionalProperties":false,"properties":{"q":{},"n":{}}}`, `{}`, `{}`},
		{`{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}`,
			`{"type":"object","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}},"properties":{"a":{"type":"string"}},"required":["a"]}`, `{}`, `{}`},
		{`{"type":"object","properties":{"in":{"$ref":"#"},"$k":{}}}`, `{"type":"object","properties":{"in":{"$ref":"#"},"k":{}}}`, `{"in":{"in":{"k":1}},"k":2}`, `{"in":{"in":{"$k":1}},"$k":2}`},
		{`{"type":"object","properties":{"m":{"type":"object","patternProperties":{"^x":{"properties":{"$k":{}}}}},"t":{"type":"array","prefixItems":[{"properties":{"$k":{}}}],"items":{}}},"then":{"properties":{"$z":{}}}}`,
			`{"type":"object","properties":{"m":{"type":"object","patternProperties":{"^x":{"properties":{"k":{}}}}},"t":{"type":"array","prefixItems":[{"properties":{"k":{}}}],"items":{}}}}`,
			`{"m":{"x1":{"k":1}},"t":[{"k":2}]}`, `{"m":{"x1":{"$k":1}},"t":[{"$k":2}]}`},
		{`{"properties":{"a":{}},"required":["a","b"]}`, `{"properties":{"a":{}},"required":["a"]}`, `{}`, `{}`},
		{`{"type":"object","properties":{"a":{}},"required":null}`, `{"type":"object","properties":{"a":{}}}`, `{}`, `{}`},
		{`{"type":["object","null"],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`, `{"a":null}`, `{"a":null}`},
	} {
		if got := string(wire.ToolSchema([]byte(test.schema))); got != test.sent {
			t.Errorf("%s\nis sent as\n%s\nwant\n%s", test.schema, got, test.sent)
		}
		if got := string(wire.OriginalArgs([]byte(test.schema), []byte(test.args))); got != test.original {
			t.Errorf("%s\nfor %s\nbecame\n%s\nwant\n%s", test.args, test.schema, got, test.original)
		}
		if again := string(wire.ToolSchema(wire.ToolSchema([]byte(test.schema)))); again != test.sent {
			t.Errorf("adapted again it is\n%s", again)
		}
	}
}
