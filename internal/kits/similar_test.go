package kits

import (
	"context"
	"slices"
	"strings"
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/search/similar"
	"steward/internal/tool"
)

// rainy is an embedding model for which German words of the weather are like English ones.
type rainy struct{}

func (rainy) Embed(_ context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: "test/e"}
	for _, t := range texts {
		v := []float32{0, 0.3}
		for _, w := range []string{"rain", "regen", "wetter"} {
			v[0] += float32(strings.Count(strings.ToLower(t), w))
		}
		out.Values = append(out.Values, v)
	}
	return out, nil
}

// An embedding model finds tools for a request that shares no word with them; those that share words stay found.
func TestToolsAreFoundByVectors(t *testing.T) {
	k := kitOfMany(t)
	k.Similar = similar.New(similar.Options{Model: func() (similar.Model, error) { return similar.Model{Name: "test/e", Embedder: rainy{}}, nil },
		Life: t.Context(), Go: func(f func()) bool { go f(); return true }})
	near := func(text string) Near {
		return func(about []string) []float64 {
			return k.Similar.Scores(t.Context(), similar.Request{Text: text}, about)
		}
	}
	shown := func(text string, near Near) []string {
		c := k.Choice(ToolBudget{12, 1 << 20})
		c.AddSimilar(text, near, "")
		return namesIn(k.Subset(c.Shown))
	}
	const german = "Braucht man morgen wegen Regen einen Schirm?"
	if got := shown(german, near(german)); !slices.Contains(got, "group0.tool0") {
		t.Errorf("with a model: %q", got)
	}
	if got := shown(german, nil); slices.Contains(got, "group0.tool0") {
		t.Errorf("without a model: %q", got)
	}
	if got := shown("Danke sehr", near("Danke sehr")); !slices.Equal(got, shown("Danke sehr", nil)) { // something is similar to everything
		t.Errorf("for a few words: %q", got)
	}
	const english = "Are there letters in the inbox?"
	if got := shown(english, near(english)); !slices.Contains(got, "group1.tool0") {
		t.Errorf("what shares words is not shown: %q", got)
	}

	find, ok := k.Registry.Get(FindTool)
	if !ok {
		t.Fatal("there is no tools.find")
	}
	res, err := find.Call(t.Context(), tool.Invocation{Args: []byte(`{"query":"Regen"}`)})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Content[0].(*message.Text).Text
	if !strings.HasPrefix(text, "group0.tool") {
		t.Error(text)
	}
	var names []string
	for _, i := range k.FoundIn(text) {
		names = append(names, k.All.Specs()[i].Name)
	}
	if len(names) != maxFound || !slices.Contains(names, "group0.tool0") || !strings.Contains(text, names[9]+": ") {
		t.Errorf("the result names %q", names)
	}
	if got := k.FoundIn("There is no tool like that."); got != nil {
		t.Errorf("%v", got)
	}
}
