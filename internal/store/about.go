package store

import (
	"context"

	"steward/internal/fault"
	"steward/internal/resource"
)

// termAbout finds what tells of a resource in another place: published events,
// and questions that are put to a group.
const termAbout = "about"

// About returns the terms of what tells of resources of some spaces: it goes
// when one of them is erased, or what one of them lies below.
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

// EraseAbout erases what tells of a resource of a space, in all spaces, on
// behalf of an actor.
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
