package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// structured asks for a value of a schema and checks that it holds.
func structured(t testing.TB, schema, system, said string, tools ...tool.Spec) map[string]any {
	t.Helper()
	r := &llm.Request{System: system, Transcript: llm.NewTranscript(user(said)), Schema: &llm.Schema{Name: "answer", JSON: []byte(schema)}}
	if len(tools) > 0 {
		r.Tools = llm.NewToolset(tools...)
	}
	text := ask(t, newProvider().Model(""), r).Blocks
	var v map[string]any
	raw := []byte(textOf(text))
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := validate(schema, v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func validate(schema string, v any) error {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return err
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return err
	}
	return r.Validate(v)
}

const agents = `Choose the agent for the request.
Agents:
- weather: Answers questions about the weather and forecasts in any city.
- calendar: Creates, moves and deletes appointments and meetings.
- accountant: Writes invoices and checks payments.
`

func TestRouting(t *testing.T) {
	schema := `{"type":"object","properties":{"agent":{"type":"string"},"confidence":{"type":"number","minimum":0,"maximum":1},"reason":{"type":"string"}},"required":["agent","confidence","reason"],"additionalProperties":false}`
	sure := structured(t, schema, agents, "What's the weather forecast for Oslo?")
	if sure["agent"] != "weather" || sure["confidence"].(float64) < 0.7 || !strings.Contains(sure["reason"].(string), "weather") {
		t.Errorf("%v", sure)
	}
	if v := structured(t, schema, agents, "Request: move the meeting with Anna to Friday"); v["agent"] != "calendar" {
		t.Errorf("%v", v)
	}
	unsure := structured(t, schema, agents, "Sing me a lullaby")
	if unsure["confidence"].(float64) > 0.4 {
		t.Errorf("%v", unsure)
	}
	enum := `{"type":"object","properties":{"agent":{"enum":["weather","calendar","accountant","none"]},"confidence":{"type":"integer","minimum":0,"maximum":100}},"required":["agent","confidence"]}`
	if v := structured(t, enum, agents, "Write an invoice for Ben"); v["agent"] != "accountant" || v["confidence"].(float64) < 50 {
		t.Errorf("%v", v)
	}
	if v := structured(t, enum, agents, "Sing me a lullaby"); v["agent"] != "none" {
		t.Errorf("%v", v)
	}
}

func TestPlanning(t *testing.T) {
	schema := `{"type":"object","properties":{
		"analysis":{"type":"string","minLength":1},"plan":{"type":"string","minLength":1},"tools":{"type":"array","items":{"type":"string"},"uniqueItems":true},
		"system_prompt":{"type":"string"},"guidance":{"type":"string"},"iterations":{"type":"integer","minimum":1,"maximum":20},"needs_splitting":{"type":"boolean"},
		"subtasks":{"type":"array","items":{"$ref":"#/$defs/task"}}},
		"required":["analysis","plan","tools","system_prompt","iterations","needs_splitting"],"additionalProperties":false,
		"$defs":{"task":{"type":"object","properties":{"title":{"type":"string","maxLength":40},"goal":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}},"subtasks":{"type":"array","items":{"$ref":"#/$defs/task"}}},"required":["title","goal"],"additionalProperties":false}}}`
	c := newConversation(t)
	v := structured(t, schema, "You plan.", "Multiply 6 by 7 and tell me the weather in Oslo", c.tools.Specs()...)
	if got := fmt.Sprint(v["tools"]); got != "[math.multiply weather.current]" {
		t.Errorf("tools %s", got)
	}
	tasks, _ := v["subtasks"].([]any)
	if len(tasks) != 2 || v["needs_splitting"] != true || v["iterations"].(float64) != 3 {
		t.Errorf("%v", v)
	}
	if first, _ := tasks[0].(map[string]any); fmt.Sprint(first["tools"]) != "[math.multiply]" || !strings.Contains(first["goal"].(string), "Multiply 6 by 7") {
		t.Errorf("%v", tasks[0])
	}
}

func TestEvaluation(t *testing.T) {
	schema := `{"type":"object","properties":{"passed":{"type":"boolean"},"score":{"type":"number","minimum":0,"maximum":1},"verdict":{"enum":["pass","fail"]},"reason":{"type":"string"}},"required":["passed","score","verdict"]}`
	for said, want := range map[string]bool{
		"Task: weather in Oslo\nEvaluation: names the temperature in Oslo\nResult: The temperature in Oslo is 20 degrees.": true,
		"Task: weather in Oslo\nEvaluation: names the temperature in Oslo\nResult: The service failed with an error.":      false,
		"Task: weather in Oslo\nEvaluation: names the temperature in Oslo\nResult: Bananas are yellow.":                    false,
		"Task: weather in Oslo\nResult:": false,
	} {
		v := structured(t, schema, "Judge the result.", said)
		if v["passed"] != want || (v["verdict"] == "pass") != want || (v["score"].(float64) >= 0.5) != want {
			t.Errorf("%q: %v", said, v)
		}
	}
}

func TestExtraction(t *testing.T) {
	schema := `{"type":"object","properties":{"guest":{"type":"string","description":"name of the guest"},"nights":{"type":"integer"},"arrival":{"type":"string","format":"date"},"email":{"type":"string","format":"email"},
		"breakfast":{"type":"boolean"},"board":{"type":"string","enum":["full","half","none"]}},"required":["guest","nights","arrival","email"]}`
	v := structured(t, schema, "Extract the booking.", "Book 3 nights for Anna Schmidt on 2026-05-01, write to anna@example.com, with breakfast")
	if v["guest"] != "Anna Schmidt" || v["nights"] != 3.0 || v["arrival"] != "2026-05-01" || v["email"] != "anna@example.com" || v["breakfast"] != true {
		t.Errorf("%v", v)
	}
	v = structured(t, schema, "", "nothing to see")
	if v["email"] != "user@example.com" || v["arrival"] != "2026-03-04" {
		t.Errorf("%v", v)
	}
}

func TestSchemaFeatures(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"const":5},"b":{"type":["null","string"]},"c":{"type":"null"}},"required":["a","b","c"]}`,
		`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},"m":{"type":"integer","multipleOf":7,"minimum":10},"k":{"type":"number","exclusiveMinimum":3},"l":{"exclusiveMaximum":-3}},"required":["n","m","k","l"]}`,
		`{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z]{2}-\\d{3,5}(x|y)?$"},"s":{"type":"string","minLength":300},"t":{"type":"string","maxLength":3}},"required":["code","s","t"]}`,
		`{"type":"object","properties":{"x":{"anyOf":[{"type":"integer","minimum":5},{"type":"null"}]},"y":{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"}},"required":["kind"]},{"type":"object","properties":{"kind":{"const":"b"},"v":{"type":"number"}},"required":["kind","v"]}]}},"required":["x","y"]}`,
		`{"type":"object","allOf":[{"properties":{"a":{"type":"integer","minimum":3}},"required":["a"]},{"properties":{"a":{"maximum":9},"b":{"type":"string"}},"required":["b"]}]}`,
		`{"type":"object","properties":{"list":{"type":"array","minItems":3,"uniqueItems":true,"items":{"enum":["a","b","c","d"]}},"pair":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2},"has":{"type":"array","contains":{"const":1},"minContains":2}},"required":["list","pair","has"]}`,
		`{"type":"object","minProperties":3,"additionalProperties":{"type":"integer"}}`,
		`{"type":"object","required":["a","b_x"],"patternProperties":{"_x$":{"type":"boolean"}},"additionalProperties":{"type":"number"}}`,
		`{"type":"object","properties":{"tree":{"$ref":"#/definitions/node"}},"required":["tree"],"definitions":{"node":{"type":"object","properties":{"name":{"type":"string"},"child":{"$ref":"#/definitions/node"}},"required":["name"]}}}`,
		`{"type":"object","properties":{"when":{"type":"string","format":"date-time"},"clock":{"type":"string","format":"time"},"link":{"type":"string","format":"uri"},"id":{"type":"string","format":"uuid"},"any":{},"yes":true},"required":["when","clock","link","id","any","yes"]}`,
		`{"type":"object","properties":{"numbers":{"type":"array","items":{"type":"integer"},"minItems":4,"uniqueItems":true},"flags":{"type":"array","items":{"type":"boolean"},"minItems":2,"uniqueItems":true},"words":{"type":"array","items":{"type":"string"},"minItems":2,"uniqueItems":true}},"required":["numbers","flags","words"]}`,
	} {
		structured(t, schema, agents, "Multiply 6 by 7 and tell me the weather in Oslo tomorrow")
		structured(t, schema, "", "")
	}
}

func TestSchemasThatCannotBeMet(t *testing.T) {
	for _, schema := range []string{`{"type":"object","properties":{"a":false},"required":["a"]}`, `{"type":12}`, `{"$ref":"#/nowhere"}`, `not json`} {
		var last error
		for e, err := range newProvider().Model("").Stream(context.Background(), &llm.Request{Transcript: llm.NewTranscript(user("hello")), Schema: &llm.Schema{JSON: []byte(schema)}}) {
			if err == nil && e.Kind == llm.Done {
				t.Errorf("%s was answered", schema)
			}
			last = err
		}
		if !fault.HasCode(last, "schema_unsupported") {
			t.Errorf("%s: %v", schema, last)
		}
	}
}

// anySchema draws a random schema that some value meets.
func anySchema(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{"string", "integer", "number", "boolean", "enum", "const", "pattern", "bounds", "null"}
		if depth > 0 {
			kinds = append(kinds, "array", "object", "object", "anyOf")
		}
		switch rapid.SampledFrom(kinds).Draw(t, "kind") {
		case "string":
			low := rapid.IntRange(0, 20).Draw(t, "min")
			return fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d,"description":%q}`, low, low+rapid.IntRange(0, 30).Draw(t, "more"), rapid.SampledFrom([]string{"name of the city", "the reason", "a date", ""}).Draw(t, "desc"))
		case "integer":
			low := rapid.IntRange(-50, 50).Draw(t, "min")
			return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, low, low+rapid.IntRange(0, 9).Draw(t, "more"))
		case "number":
			return fmt.Sprintf(`{"type":"number","exclusiveMinimum":%d}`, rapid.IntRange(-9, 9).Draw(t, "min"))
		case "boolean":
			return `{"type":"boolean"}`
		case "enum":
			return rapid.SampledFrom([]string{`{"enum":["red","green"]}`, `{"enum":[1,2,3]}`, `{"type":"string","enum":["none"]}`, `{"enum":[null,true]}`}).Draw(t, "enum")
		case "const":
			return `{"const":{"a":[1,"x"]}}`
		case "pattern":
			return rapid.SampledFrom([]string{`{"type":"string","pattern":"^[a-f0-9]{8}$"}`, `{"type":"string","pattern":"^(foo|bar)+$","minLength":6}`, `{"type":"string","pattern":"\\d\\s?[^x]"}`}).Draw(t, "pattern")
		case "bounds":
			return fmt.Sprintf(`{"type":"number","multipleOf":%s,"minimum":0.3}`, rapid.SampledFrom([]string{"0.5", "3", "1"}).Draw(t, "step"))
		case "null":
			return `{"type":"null"}`
		case "array":
			n := rapid.IntRange(0, 3).Draw(t, "items")
			return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%d}`, anySchema(depth-1).Draw(t, "item"), n, n+2)
		case "anyOf":
			return fmt.Sprintf(`{"anyOf":[%s,%s]}`, anySchema(depth-1).Draw(t, "a"), anySchema(depth-1).Draw(t, "b"))
		}
		return anyObject(depth-1).Draw(t, "object")
	})
}

func anyObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"agent", "confidence", "reason", "tools", "subtasks", "passed", "city", "count", "when", "items", "plan", "x"}), 0, 5, rapid.ID).Draw(t, "names")
		var props, required []string
		for _, n := range names {
			props = append(props, fmt.Sprintf("%q:%s", n, anySchema(depth).Draw(t, n)))
			if rapid.Bool().Draw(t, "required") {
				required = append(required, fmt.Sprintf("%q", n))
			}
		}
		return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, strings.Join(props, ","), strings.Join(required, ","))
	})
}

func TestRandomSchemasAreMet(t *testing.T) {
	said := []string{"", "Book a table for 4 at Luigi's tomorrow at 7pm and tell Anna", "multiply 3 by 4, then add 5", "Result: failed\nRequest: \"paint it red\"", "- a: b\n- c: d"}
	rapid.Check(t, func(rt *rapid.T) {
		schema := anyObject(3).Draw(rt, "schema")
		text := rapid.SampledFrom(said).Draw(rt, "said")
		r := &llm.Request{System: agents, Transcript: llm.NewTranscript(user(text)), Schema: &llm.Schema{JSON: []byte(schema)}}
		for e, err := range newProvider().Model("").Stream(context.Background(), r) {
			if err != nil {
				rt.Fatalf("%s: %v", schema, err)
			}
			if e.Kind == llm.Done {
				var v any
				if err := json.Unmarshal([]byte(textOf(e.Reply.Blocks)), &v); err != nil {
					rt.Fatal(err)
				}
				if err := validate(schema, v); err != nil {
					rt.Fatalf("%s: %v", schema, err)
				}
			}
		}
	})
}
