package fault

import (
	"context"
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx  context.Context
		d    time.Duration
		want bool
	}{
		{t.Context(), time.Millisecond, true}, {t.Context(), 0, true}, {t.Context(), -1, true},
		{ended, time.Hour, false}, {ended, 0, false},
	} {
		if got := Pause(c.ctx, c.d); got != c.want {
			t.Errorf("%v with %v: %v", c.d, c.ctx.Err(), got)
		}
	}
}
