package policy

import "slices"

// Stricter returns the decision that allows less, with the obligations of both. One question
// cannot have approvers of two groups, so that is denied.
func Stricter(x, y Decision) Decision {
	out, other := x, y
	if rank(y.Verdict) > rank(x.Verdict) {
		out, other = y, x
	}
	if rank(out.Verdict) == rank(Deny) {
		return out
	}
	out.Mask = slices.Compact(slices.Sorted(slices.Values(slices.Concat(x.Mask, y.Mask))))
	if out.Cap == 0 || other.Cap != 0 && other.Cap < out.Cap {
		out.Cap = other.Cap
	}
	switch {
	case out.Approvers == "":
		out.Approvers = other.Approvers
	case other.Approvers != "" && other.Approvers != out.Approvers:
		return Decision{Verdict: Deny, Version: out.Version, Rule: both(out.Rule, ", ", other.Rule),
			Reason: "policy requires approval by " + out.Approvers + " and by " + other.Approvers + ", and only one group can be asked"}
	}
	if other.Verdict == out.Verdict && other.Reason != out.Reason {
		out.Reason, out.Rule = both(out.Reason, "; ", other.Reason), both(out.Rule, ", ", other.Rule)
	}
	return out
}

// rank orders verdicts by how little they allow.
func rank(v Verdict) int {
	switch v {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// both joins two texts, either of which may be empty.
func both(x, by, y string) string {
	if x == "" || y == "" {
		return x + y
	}
	return x + by + y
}
