package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/llm"
	"steward/internal/settings"
	domainlocal "steward/internal/tools/local"
)

// probeFor is how long the test of one model may take.
const probeFor = 3 * time.Minute

func (a *program) modelsTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test [MODEL…]", Short: "Find out what models can do, and remember it", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeModels,
		Long: "Ask each MODEL, by default those behind default, fast and strong, for a tool call, for the colours of\n" +
			"a picture and for an answer in a form: three small requests, within the limits of the settings. What\n" +
			"a model cannot do is remembered: from then on it gets the names of pictures instead of the pictures,\n" +
			"and tools and forms are described in words. A running server uses it after its next start.",
		RunE: func(c *cobra.Command, args []string) error { return a.testModels(c.Context(), args) },
	}
}

func (a *program) testModels(ctx context.Context, names []string) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	s, err := a.Supply(ctx, set, nil, a.Logger(set, a.Stderr))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{"default", "fast", "strong"}
	}
	var models []string // those that are asked first under the names, each once
	for _, name := range names {
		r, err := s.Resolve(name)
		if err != nil {
			return err
		}
		if !slices.Contains(models, r.Models[0]) {
			models = append(models, r.Models[0])
		}
	}
	found := map[string]llm.Tested{}
	for _, full := range models {
		a.Note("testing %s…", full)
		ctx, cancel := context.WithTimeout(ctx, probeFor)
		found[full], err = s.Probe(ctx, full, a.User())
		cancel()
		if err != nil {
			return err
		}
	}
	if err := keepTested(set, found); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(found)
	}
	return a.print(testTable(models, found))
}

// keepTested stores what was found. What could not be tested keeps its former result.
func keepTested(set *settings.Loaded, found map[string]llm.Tested) error {
	all := app.TestedModels(set, nil)
	for full, t := range found {
		can := maps.Clone(all[full].Can)
		if can == nil {
			can = map[llm.Ability]bool{}
		}
		maps.Copy(can, t.Can)
		t.Can = can
		if len(t.Errs) < len(t.Took) {
			all[full] = t
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = domainlocal.ReplaceTarget(app.TestedFile(set), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the results of the tests cannot be stored: %w", err)
	}
	return nil
}

func testTable(models []string, found map[string]llm.Tested) string {
	rows, failed := [][]string{{"MODEL", "TOOLS", "IMAGES", "FORM"}}, ""
	for _, full := range models {
		row, why := []string{full}, ""
		for _, ability := range []llm.Ability{llm.CanTools, llm.CanImages, llm.CanSchema} {
			t := found[full]
			word := map[bool]string{true: "yes", false: "no"}[t.Can[ability]]
			if err := t.Errs[ability]; err != nil {
				word, why = "?", cmp.Or(why, full+": "+err.Error()+"\n")
			}
			row = append(row, fmt.Sprintf("%s (%.1fs)", word, t.Took[ability].Seconds()))
		}
		rows, failed = append(rows, row), failed+why
	}
	return columns(rows, 0) + failed
}
