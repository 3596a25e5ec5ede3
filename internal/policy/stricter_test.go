package policy

import (
	"reflect"
	"testing"
)

func TestStricter(t *testing.T) {
	masked := Obligations{Mask: []string{"/a"}, Cap: 20}
	parents := Obligations{Mask: []string{"/b", "/a"}, Cap: 10, Approvers: "parents"}
	for name, c := range map[string]struct{ x, y, want Decision }{
		"both allow": {Decision{Verdict: Allow, Reason: "x", Rule: "1", Obligations: masked}, Decision{Verdict: Allow, Reason: "y", Rule: "2"},
			Decision{Verdict: Allow, Reason: "x; y", Rule: "1, 2", Obligations: masked}},
		"to ask keeps what was to be masked": {Decision{Verdict: Allow, Reason: "x", Obligations: masked}, Decision{Verdict: Ask, Reason: "y", Rule: "2"},
			Decision{Verdict: Ask, Reason: "y", Rule: "2", Obligations: masked}},
		"both ask": {Decision{Verdict: Ask, Reason: "x", Obligations: masked}, Decision{Verdict: Ask, Reason: "y", Rule: "2", Obligations: parents},
			Decision{Verdict: Ask, Reason: "x; y", Rule: "2", Obligations: Obligations{Mask: []string{"/a", "/b"}, Cap: 10, Approvers: "parents"}}},
		"deny":        {Decision{Verdict: Deny, Reason: "x"}, Decision{Verdict: Ask, Obligations: parents}, Decision{Verdict: Deny, Reason: "x"}},
		"no verdict":  {Decision{Verdict: Allow}, Decision{Verdict: "perhaps"}, Decision{Verdict: "perhaps"}},
		"same reason": {Decision{Verdict: Ask, Reason: "x", Rule: "1"}, Decision{Verdict: Ask, Reason: "x", Rule: "2"}, Decision{Verdict: Ask, Reason: "x", Rule: "1"}},
		"two groups": {Decision{Verdict: Ask, Rule: "1", Obligations: parents}, Decision{Verdict: Allow, Rule: "2", Obligations: Obligations{Approvers: "boss"}},
			Decision{Verdict: Deny, Rule: "1, 2", Reason: "policy requires approval by parents and by boss, and only one group can be asked"}},
	} {
		if got := Stricter(c.x, c.y); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
