package runtime

import (
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/effect"
	"steward/internal/lifetime"
)

// awaitChange wakes when the first question expires, whatever its place in the
// list.
func TestAwaitChangeWakesAtTheFirstExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var list []effect.Question
		for _, s := range []time.Duration{10, 2, 5} {
			list = append(list, effect.Question{Expires: began.Add(s * time.Second)})
		}
		life := lifetime.New(t.Context())
		if !awaitChange(t.Context(), life, nil, list) || time.Since(began) != 2*time.Second {
			t.Errorf("it looked after %s", time.Since(began))
		}
	})
}
