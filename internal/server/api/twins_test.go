package api_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/runtime"
)

// The client imports none of Steward's packages, so it has its own types for the
// API's answers. They have the same members.
func TestTheClientReadsWhatTheAPIAnswers(t *testing.T) {
	for _, c := range []struct{ theirs, ours any }{
		{client.Intent{}, runtime.IntentView{}},
		{client.Request{}, runtime.RequestView{}},
	} {
		theirs, ours := members(reflect.TypeOf(c.theirs)), members(reflect.TypeOf(c.ours))
		if len(ours) == 0 || !slices.Equal(theirs, ours) {
			t.Errorf("%T has\n%v\nand %T\n%v", c.theirs, theirs, c.ours, ours)
		}
	}
}

// members returns the names of a struct's members in JSON, sorted.
func members(s reflect.Type) (names []string) {
	for f := range s.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			names = append(names, members(f.Type)...)
		case name != "-" && f.IsExported():
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
