package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// plainText is plainLine for text of several lines.
func plainText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = plainLine(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// completeResources offers the URIs of what the user keeps.
func (a *app) completeResources(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offerStored(c, func(ctx context.Context, st *sqlite.Store) ([]cobra.Completion, error) {
		const most = 100
		place := resource.Root(identity.TypeUser, a.user())
		page, err := st.Query(ctx, store.ForUser(a.user()), store.Query{Under: place, Limit: most, NoBody: true})
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, it := range page.Items {
			if short, ok := strings.CutPrefix(it.URI.String(), place.String()+"/"); ok && !strings.HasPrefix(short, "tree.") {
				out = append(out, resource.Scheme+short)
			}
		}
		return out, nil
	})
}

// completeSpaces offers the spaces that the user may write.
func (a *app) completeSpaces(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := completing(c)
	defer cancel()
	out := []cobra.Completion{string(resource.UserSpace(a.user()))}
	st, err := a.reading(ctx)
	if err != nil || st == nil {
		return out, none
	}
	defer st.Close()
	p, err := identity.New(st).Principal(ctx, a.user())
	if err != nil {
		return out, none
	}
	for _, g := range p.Groups {
		out = append(out, string(resource.GroupSpace(g)))
	}
	return out, none
}
