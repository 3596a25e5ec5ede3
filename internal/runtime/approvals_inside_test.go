package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/effect"
)

// Who follows questions looks again when the first of them expires, wherever
// it stands.
func TestTheFirstQuestionThatExpiresIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var list []effect.Question
		for _, s := range []time.Duration{10, 2, 5} {
			list = append(list, effect.Question{Expires: began.Add(s * time.Second)})
		}
		n := &Node{life: context.Background()}
		if !n.awaitChange(t.Context(), nil, list) || time.Since(began) != 2*time.Second {
			t.Errorf("it looked after %s", time.Since(began))
		}
	})
}
