package tool_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/tool"
)

// bare is a tool without behaviour.
type bare tool.Spec

func (b bare) Spec() tool.Spec { return tool.Spec(b) }
func (bare) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("done"), nil
}

const someSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "description": "where <it> is", "minLength": 1},
		"depth": {"type": "integer", "minimum": 0, "maximum": 9},
		"filter": {"type": "object", "properties": {"since": {"type": "string", "format": "date-time"}, "kinds": {"type": "array", "items": {"type": "string", "enum": ["file", "folder"]}}}}
	},
	"required": ["path"]
}`

func spec(name string) bare {
	return bare{Name: name, Description: "Does \"" + name + "\" & more.", Effect: tool.Query, Input: []byte(someSchema)}
}

// function is OpenAI's form.
type function struct {
	Type     string
	Function struct {
		Name, Description string
		Parameters        struct {
			Type       string
			Properties map[string]any
			Required   []string
		}
	}
}

func TestOpenAIFunction(t *testing.T) {
	b := tool.OpenAIFunction(tool.Spec(spec("files.list")))
	var got function
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	f := got.Function
	if got.Type != "function" || f.Name != "files__list" || f.Description != `Does "files.list" & more.` ||
		f.Parameters.Type != "object" || len(f.Parameters.Properties) != 3 || !slices.Equal(f.Parameters.Required, []string{"path"}) {
		t.Errorf("%s", b)
	}
	for _, input := range []string{"", "{", "null null"} {
		b := tool.OpenAIFunction(tool.Spec{Name: "a.b", Input: []byte(input)})
		if want := `{"type":"function","function":{"name":"a__b","description":"","parameters":{"type":"object"}}}`; string(b) != want {
			t.Errorf("the schema %q makes %s", input, b)
		}
	}
}

// TestFunctionsFollowTheRegistry adds and removes tools at random, and checks the list each time.
func TestFunctionsFollowTheRegistry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r tool.Registry
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			name := "some.tool_" + rapid.StringMatching("[a-d]").Draw(t, "name")
			if rapid.Bool().Draw(t, "add") {
				_, there := r.Get(name)
				if err := r.Add(spec(name)); (err != nil) != there {
					t.Fatal(err)
				}
			} else {
				r.Remove(name)
			}
			list := r.Functions()
			var got []function
			if err := json.Unmarshal(list, &got); err != nil {
				t.Fatalf("%v: %s", err, list)
			}
			names := []string{}
			for _, f := range got {
				names = append(names, tool.FromWire(f.Function.Name))
			}
			if !slices.Equal(names, append([]string{}, r.Names()...)) {
				t.Fatalf("%v is listed as %v", r.Names(), names)
			}
		}
	})
}
