package resource_test

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/resource"
)

// A short URI means its place in a space, and is above what lies there in every space.
func TestShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := uris().Draw(t, "uri")
		space := resource.Space(rapid.SampledFrom([]string{"user:ana", "group:family"}).Draw(t, "space"))
		whole := resource.Expand(space, u)
		if !resource.IsShort(u) {
			if whole != u {
				t.Fatalf("%s became %s", u, whole)
			}
			return
		}
		if whole.String() != resource.Place(space).String()+"/"+u.String()[len(resource.Scheme):] {
			t.Fatalf("%s in %s is %s", u, space, whole)
		}
		if got, ok := resource.SpaceOf(whole); !ok || got != space {
			t.Fatalf("%s is in %s, %v", whole, got, ok)
		}
		child := whole.Child("home.Part", "1")
		if !whole.Below(u) || !child.Below(u) || !child.Below(whole) || u.Below(whole) || !u.Below(u) || resource.Expand(space, whole) != whole {
			t.Fatalf("%s and %s", u, whole)
		}
		if other := whole.Parent().Child("home.Other", "x"); other.Below(u) || other.Below(whole) {
			t.Fatalf("%s is below %s", other, u)
		}
	})
}

func TestPlacesOfSpaces(t *testing.T) {
	note := resource.Root("home.Note", "a")
	for space, want := range map[resource.Space]string{
		"user:ana": "cld:identity.User.ana/home.Note.a", "group:family": "cld:identity.Group.family/home.Note.a",
		"system": "cld:home.Note.a", "": "cld:home.Note.a", "group:": "cld:home.Note.a", "group:a/b": "cld:home.Note.a",
	} {
		if got := resource.Expand(space, note).String(); got != want {
			t.Errorf("in %q it is %s, want %s", space, got, want)
		}
	}
	if u := resource.Root("common.Conversation", "1"); resource.IsShort(u) || resource.IsShort(resource.URI{}) || resource.Place("user:ana").Child("common.Conversation", "1").Below(u) {
		t.Error("what Steward owns is not short")
	}
}
