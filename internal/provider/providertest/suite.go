package providertest

import "testing"

// Suite runs the table of behaviours on a provider.
func Suite(t *testing.T, v Vendor) {
	for s, reason := range v.Lacks {
		t.Logf("%s has no form for %q: %s", v.Name, s, reason)
	}
	t.Run("good streams", func(t *testing.T) { goodStreams(t, v) })
	t.Run("failures", func(t *testing.T) { failures(t, v) })
	t.Run("time", func(t *testing.T) { timing(t, v) })
	t.Run("histories", func(t *testing.T) { Histories(t, v) })
	t.Run("requests", func(t *testing.T) { Requests(t, v) })
}
