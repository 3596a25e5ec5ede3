package store

import (
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
)

// termAbout indexes resources that describe a resource elsewhere in the tree:
// published events, and questions to a group.
const termAbout = "about"

// About returns the terms for a resource that describes resources of some spaces.
// EraseAbout erases it along with any of these, or with an ancestor of one.
func About(spaces []resource.Space, of ...resource.URI) []Term {
	var out []Term
	seen := map[resource.URI]bool{}
	for _, u := range of {
		for ; !u.Zero() && !seen[u]; u = u.Parent() {
			seen[u] = true
			for _, sp := range spaces {
				out = append(out, aboutOne(sp, u))
			}
		}
	}
	return out
}

func aboutOne(sp resource.Space, u resource.URI) Term {
	return Term{Name: termAbout, Value: string(sp) + " " + u.String()}
}

// EraseAbout erases everything, in all spaces, that describes a resource of the
// given space or what lies below it, on behalf of an actor.
func EraseAbout(ctx context.Context, s Store, actor string, sp resource.Space, u resource.URI) error {
	q := Query{Term: aboutOne(sp, u), NoBody: true}
	for it, err := range Items(ctx, s, ForNode(resource.System), q) {
		if err != nil {
			return err
		}
		sc := ForNode(it.Space)
		sc.Actor = actor
		_, err = s.Commit(ctx, sc, Batch{Changes: []Change{{Op: Erase, URI: it.URI}}})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
