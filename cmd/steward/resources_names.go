package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/identity"
	"steward/internal/resource"
	"steward/internal/store"
)

// plainText is plainLine for text of several lines.
func plainText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = plainLine(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// completeResources offers the URIs of what the user keeps. They are read from
// the database: a node that could judge who sees what takes too long to open.
func (a *app) completeResources(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
		st, err := a.reading(ctx)
		if err != nil || st == nil {
			return nil, err
		}
		defer st.Close()
		const most = 100
		place := resource.Root(identity.TypeUser, a.user())
		page, err := st.Query(ctx, store.ForUser(a.user()), store.Query{Under: place, Limit: most, NoBody: true})
		for _, it := range page.Items {
			if short, ok := strings.CutPrefix(it.URI.String(), place.String()+"/"); ok && !strings.HasPrefix(short, "tree.") {
				out = append(out, resource.Scheme+short)
			}
		}
		return out, err
	})
}

// completeSpaces offers the spaces that the user may write.
func (a *app) completeSpaces(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	groups, none := a.offerRead(c, func(ctx context.Context, s *session) (out []cobra.Completion, err error) {
		u, err := s.User(ctx, a.user())
		for _, g := range u.Groups {
			out = append(out, string(resource.GroupSpace(g)))
		}
		return out, err
	})
	return append([]cobra.Completion{string(resource.UserSpace(a.user()))}, groups...), none
}
