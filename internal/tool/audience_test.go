package tool_test

import (
	"testing"

	"steward/internal/tool"
)

func TestAudience(t *testing.T) {
	for _, c := range []struct {
		users, groups []string
		user          string
		in            []string
		admits        bool
	}{
		{nil, nil, tool.OwnUser, nil, true},
		{nil, nil, "ann", []string{"family"}, false},
		{[]string{"ann"}, nil, "ann", nil, true},
		{[]string{"ann"}, nil, tool.OwnUser, nil, false},
		{nil, []string{"family"}, "bob", []string{"work", "family"}, true},
		{nil, []string{"family"}, tool.OwnUser, nil, false},
		{[]string{"*"}, nil, "eve", nil, true},
	} {
		if got := tool.OwnedBy(c.users, c.groups).Admits(c.user, c.in); got != c.admits {
			t.Errorf("%+v: %v", c, got)
		}
	}
	of := func(dir string, users ...string) *tool.Audience { return tool.Env{Dir: dir}.Audience(users, nil) }
	if of("/agents/x") != nil || of("") == nil || of("/agents/x", "ann") == nil {
		t.Error("sources of the settings are the machine's own user's, those of agents everybody's")
	}
}
