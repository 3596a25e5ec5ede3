package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/settings"
	domainlocal "steward/internal/tools/local"
)

func (a *program) modelsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "models", Short: "List the models and the names for them", GroupID: "look",
		Long: "List the providers and how each was found, the models behind the names default, fast, strong and\n" +
			"embed, and the models that the providers have.",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return a.listModels(c.Context()) },
	}
	c.AddCommand(a.modelsTestCommand(), a.modelsUpdateCommand())
	return c
}

// modelReport is what steward models --json writes.
type modelReport struct {
	Providers []providerReport    `json:"providers"`
	Aliases   map[string][]string `json:"aliases"`
	Models    []string            `json:"models"`
}

type providerReport struct {
	Name  string `json:"name"`
	Found string `json:"found"`
	Error string `json:"error,omitempty"`
}

func (a *program) listModels(ctx context.Context) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	s, err := a.Supply(ctx, set, nil, a.Logger(set, a.Stderr))
	if err != nil {
		return err
	}
	list := s.List(ctx)
	r := modelReport{Aliases: map[string][]string{}, Models: []string{}}
	for _, src := range s.Sources {
		p := providerReport{Name: src.Name(), Found: src.How}
		if err := list.Errors[src.Name()]; err != nil {
			p.Error = err.Error()
		}
		r.Providers = append(r.Providers, p)
	}
	for name, al := range s.Aliases {
		r.Aliases[name] = al.Models
	}
	for _, m := range list.Models {
		r.Models = append(r.Models, m.Full())
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	found, names := [][]string{{"PROVIDER", "FOUND"}}, [][]string{{"NAME", "RESOLVES TO"}}
	for _, p := range r.Providers {
		found = append(found, []string{p.Name, cmp.Or(p.Error, p.Found)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Aliases)) {
		names = append(names, []string{name, strings.Join(r.Aliases[name], ", then ")})
	}
	return a.Print(command.Columns(found, 0) + "\n" + command.Columns(names, 0) + "\nMODEL\n" + strings.Join(append(r.Models, ""), "\n"))
}

func (a *program) modelsUpdateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "update [URL]", Short: "Fetch prices, windows and abilities of models", Args: cobra.MaximumNArgs(1),
		Long: "Fetch a file of known models from URL, by default from models_url of the settings, and print what it\n" +
			"changes. The file is checked first; a broken one changes nothing. A running server uses it after its\n" +
			"next start. The guide on models describes its form.",
		RunE: func(c *cobra.Command, args []string) error { return a.updateModels(c.Context(), args) },
	}
}

func (a *program) updateModels(ctx context.Context, args []string) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	from := set.ModelsURL
	if len(args) > 0 {
		from = args[0]
	}
	if from == "" {
		return fault.New(fault.Invalid, "models_url_missing", "no URL of the file of known models is set").
			WithHint("name its URL, or set models_url in the settings")
	}
	text, err := app.FetchKnown(ctx, from)
	if err != nil {
		return err
	}
	fetched, err := llm.ReadKnown(text)
	if err != nil {
		return err
	}
	before := app.KnownModels(set, nil)
	if err := domainlocal.ReplaceTarget(app.KnownFile(set), text); err != nil {
		return fmt.Errorf("the file of known models cannot be stored: %w", err)
	}
	lines := before.Changes(before.With(fetched))
	if a.JSON {
		return a.PrintJSON(map[string]any{"as_of": fetched.AsOf, "changes": append([]string{}, lines...)})
	}
	for _, line := range lines {
		if err := a.Print(line + "\n"); err != nil {
			return err
		}
	}
	return a.Print(fmt.Sprintf("As of %s: %d changes.\n", fetched.AsOf, len(lines)))
}

// probeTimeout is how long the test of one model may take.
const probeTimeout = 3 * time.Minute

func (a *program) modelsTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test [MODEL…]", Short: "Find out what models can do, and remember it", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.CompleteModels,
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
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		found[full], err = s.Probe(ctx, full, a.User())
		cancel()
		if err != nil {
			return err
		}
	}
	if err := keepTested(set, found); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(found)
	}
	return a.Print(testTable(models, found))
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
	return command.Columns(rows, 0) + failed
}
