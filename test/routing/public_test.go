//go:build long

package routing

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/routing"
	"steward/internal/tool"
)

// The same is measured on sets that others made. STEWARD_SETS names a folder with their
// files, which are not part of Steward: data_full.json and domains.json of CLINC150
// (github.com/clinc/oos-eval), plugin_des.json and all_clean_data.csv of MetaTool
// (github.com/HowieHwong/MetaTool).
func readPublic(b *testing.B, name string) []byte {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("STEWARD_SETS"), name))
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func BenchmarkRouterOnCLINC150(b *testing.B) {
	var texts map[string][][2]string // by half: text and intent
	var domains map[string][]string
	for name, into := range map[string]any{"data_full.json": &texts, "domains.json": &domains} {
		if err := json.Unmarshal(readPublic(b, name), into); err != nil {
			b.Fatal(err)
		}
	}
	single := map[string][]string{} // agents for one intent each, as a home assistant has them
	for _, intent := range strings.Fields("weather alarm timer reminder calendar todo_list shopping_list smart_home play_music translate calculator recipe traffic directions") {
		single[intent] = []string{intent}
	}
	for _, c := range []struct {
		name   string
		agents map[string][]string // their intents
	}{{"an agent for each of 10 domains", domains}, {"an agent for each of 14 intents", single}} {
		for _, examples := range []int{8, 120} {
			f, p := measure(routing.New(clincAgents(texts["train"], c.agents, examples)), clincRequests(texts, c.agents))
			b.Logf("%s, up to %d examples: coverage at 95 %% precision %.1f %%, accuracy %.1f %%, calibration error %.3f, for none but sent to an agent %.1f %%, decided alone %.1f %% of which right %.1f %%, P95 %s",
				c.name, examples, 100*f.coverage, 100*f.accuracy, f.calibration, 100*f.stolen, 100*f.decided, 100*f.precision, p)
		}
	}
}

// clincAgents returns agents that say of themselves only the names of their intents. Their
// examples are spread over these.
func clincAgents(train [][2]string, intents map[string][]string, examples int) []routing.Agent {
	by := map[string][]string{}
	for _, x := range train {
		by[x[1]] = append(by[x[1]], x[0])
	}
	var agents []routing.Agent
	for _, name := range slices.Sorted(maps.Keys(intents)) {
		a, list := routing.Agent{Name: name}, intents[name]
		for _, intent := range list {
			a.Capabilities = append(a.Capabilities, strings.ReplaceAll(intent, "_", " "))
		}
		for n := range min(examples, len(list)*len(by[list[0]])) {
			a.Examples = append(a.Examples, by[list[n%len(list)]][n/len(list)])
		}
		agents = append(agents, a)
	}
	return agents
}

// clincRequests returns the requests for agents, at most 3,000, and a third as many for none.
func clincRequests(texts map[string][][2]string, intents map[string][]string) []request {
	var out []request
	for _, agent := range slices.Sorted(maps.Keys(intents)) {
		list, n := intents[agent], 0
		for _, x := range texts["test"] {
			if slices.Contains(list, x[1]) {
				if n++; n%3 > 0 || len(list) == 1 {
					out = append(out, request{x[0], agent})
				}
			}
		}
	}
	none := texts["oos_test"]
	for i := range min(len(out)/3, len(none)) {
		out = append(out, request{none[i][0], ""})
	}
	return out
}

func BenchmarkToolsOfMetaTool(b *testing.B) {
	var about map[string]string
	if err := json.Unmarshal(readPublic(b, "plugin_des.json"), &about); err != nil {
		b.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(readPublic(b, "all_clean_data.csv")))).ReadAll()
	if err != nil {
		b.Fatal(err)
	}
	var tools []struct{ Name, Description string }
	read(b, "tools.json", &tools)
	var specs []tool.Spec
	for _, name := range slices.Sorted(maps.Keys(about)) {
		specs = append(specs, tool.Spec{Name: name, Description: about[name]})
	}
	alone := tool.NewFinder(specs)
	for _, x := range tools {
		specs = append(specs, tool.Spec{Name: x.Name, Description: x.Description})
	}
	among := tool.NewFinder(specs)
	asked, found, amid := 0.0, 0.0, 0.0
	for i := 1; i < len(rows); i += 10 {
		asked++
		for f, hits := range map[*tool.Finder]*float64{alone: &found, among: &amid} {
			if slices.ContainsFunc(f.Find(rows[i][0], 15), func(n int) bool { return specs[n].Name == rows[i][1] }) {
				*hits++
			}
		}
	}
	b.Logf("the right tool among 15, of %.0f questions: %.1f %% with its %d tools alone, %.1f %% with %d more", asked, 100*found/asked, len(about), 100*amid/asked, len(tools))
}
