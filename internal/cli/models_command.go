package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/llm"
	domainlocal "steward/internal/tools/local"

	"github.com/spf13/cobra"
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
	if a.json {
		return a.printJSON(r)
	}
	found, names := [][]string{{"PROVIDER", "FOUND"}}, [][]string{{"NAME", "STANDS FOR"}}
	for _, p := range r.Providers {
		found = append(found, []string{p.Name, cmp.Or(p.Error, p.Found)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Aliases)) {
		names = append(names, []string{name, strings.Join(r.Aliases[name], ", then ")})
	}
	return a.print(columns(found, 0) + "\n" + columns(names, 0) + "\nMODEL\n" + strings.Join(append(r.Models, ""), "\n"))
}

// completeModels offers the aliases and models.
func (a *program) completeModels(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		set, err := a.Settings()
		if err != nil {
			return nil, err
		}
		s, err := a.Supply(ctx, set, nil, nil)
		if err != nil {
			return nil, err
		}
		names := slices.Clone(s.Models.Aliases())
		for _, m := range s.List(ctx).Models {
			if !m.Embedder {
				names = append(names, m.Full())
			}
		}
		return names, nil
	})
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
	if a.json {
		return a.printJSON(map[string]any{"as_of": fetched.AsOf, "changes": append([]string{}, lines...)})
	}
	for _, line := range lines {
		if err := a.print(line + "\n"); err != nil {
			return err
		}
	}
	return a.print(fmt.Sprintf("As of %s: %d changes.\n", fetched.AsOf, len(lines)))
}
