package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

// The table of keys in docs/guides/agents.md has exactly those that the decoder reads.
func TestEveryKeyOfAServerIsDocumented(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/guides/agents.md"))
	_, after, _ := strings.Cut(string(page), "The keys of a server")
	_, after, _ = strings.Cut(after, "|---|---|\n")
	table, _, _ := strings.Cut(after, "\n\n")
	var told []string
	for _, row := range strings.Split(table, "\n") {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			told = append(told, m[1])
		}
	}
	var read []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Decl]()) {
		if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" {
			read = append(read, key)
		}
	}
	slices.Sort(told)
	slices.Sort(read)
	if !slices.Equal(told, read) {
		t.Errorf("the table has\n%v, and the decoder reads\n%v", told, read)
	}
}

// The spec that a person approves includes what the server says in _meta, or the declaration instead.
// Invalid _meta is refused.
func TestWhatIsDeclaredOfATool(t *testing.T) {
	s := &source{word: "srv", approved: map[string]string{}, decl: Decl{
		Dedupes: []string{"pay_*"}, Status: map[string]string{"pay_twice": "look"},
		Overrides: tool.Overrides{
			Effects: map[string]tool.Effect{"*": tool.Query, "pay*": tool.Action, "srv.pay_now": tool.Query, "none_*": tool.Query},
			Tidy:    map[string][]tool.StrategyDecl{"look": {{By: "parameters", Parameters: []string{"p"}, Cascade: []string{"other.tool"}}}},
		},
	}}
	schema := json.RawMessage(`{"type":"object","properties":{"p":{"type":"string"}}}`)
	listed := func(name string, meta sdk.Meta) *sdk.Tool {
		t.Helper()
		k, _, err := trimTool(&sdk.Tool{Name: name, Description: "It is.", InputSchema: schema, Meta: meta})
		must.Do(t, err)
		return k
	}
	offers, refused := s.offers([]*sdk.Tool{
		listed("look", sdk.Meta{"steward/dedupes": true, "other": strings.Repeat("x", 1000)}),
		listed("pay_now", nil), listed("pay_later", sdk.Meta{"steward/status_tool": "srv.look"}), listed("pay_twice", nil),
		listed("see", sdk.Meta{"steward/tidy": []any{map[string]any{"by": "age", "max_age": "10m"}, map[string]any{"by": "tools", "tools": []any{"look"}}}}),
		listed("far", sdk.Meta{"steward/tidy": []any{map[string]any{"by": "tools", "tools": []any{"mail.read"}}}}),
		listed("odd", sdk.Meta{"steward/dedupes": "yes"}), listed("late", sdk.Meta{"steward/tidy": []any{map[string]any{"by": "age", "max_age": "soon"}}}),
		listed("custom", sdk.Meta{"steward/tidy": []any{map[string]any{"by": "custom"}}}),
		listed("pay_blind", sdk.Meta{"steward/status_tool": "pay_later"}),
	}, nil)
	told := map[string]string{}
	for name, o := range offers {
		sp := o.spec
		told[name] = fmt.Sprint(sp.Effect, sp.Dedupes, sp.Status, len(sp.Tidy))
	}
	want := map[string]string{"srv.look": "queryfalse1", "srv.pay_now": "queryfalse0", "srv.pay_later": "actiontruesrv.look0",
		"srv.pay_twice": "actiontruesrv.look0", "srv.see": "queryfalse2"}
	if !maps.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
	var all []string
	for _, err := range refused {
		all = append(all, fault.Of(err).Code)
	}
	if got := strings.Join(slices.Sorted(slices.Values(all)), " "); got != "mcp_meta_invalid mcp_status_invalid mcp_tool_unknown tool_tidy_invalid tool_tidy_invalid tool_tidy_invalid" {
		t.Errorf("%s: %v", got, refused)
	}
	other := offers["srv.pay_later"].spec
	if other.Dedupes = false; tool.Identity(other) == offers["srv.pay_later"].identity {
		t.Error("that it recognises the key is not approved")
	}
}

func TestStatusOf(t *testing.T) {
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	for name, c := range map[string]struct {
		in   *sdk.CallToolResult
		want string
	}{
		"done":       {text(`{"status":"done","result":"paid"}`), "true paid <nil>"},
		"an object":  {&sdk.CallToolResult{StructuredContent: map[string]any{"status": "done", "result": map[string]any{"n": 1}}}, `true {"n":1} <nil>`},
		"not done":   {text(`{"status":"not_done"}`), "false  <nil>"},
		"no idea":    {text(`{"status":"pending"}`), "mcp_status_unknown"},
		"no JSON":    {text("well"), "mcp_status_unknown"},
		"it failed":  {&sdk.CallToolResult{IsError: true, StructuredContent: map[string]any{"status": "not_done"}}, "mcp_status_unknown"},
		"no content": {&sdk.CallToolResult{}, "mcp_status_unknown"},
	} {
		happened, res, err := statusOf("srv.look", c.in)
		said := ""
		for _, b := range res.Content {
			said += b.(*message.Text).Text
		}
		got := fmt.Sprint(happened, " ", said, " ", err)
		if err != nil {
			got = fault.Of(err).Code
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
