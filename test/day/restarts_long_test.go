//go:build long

package day

import (
	"testing"
	"testing/synctest"
)

// TestADayWithRestarts: Steward is closed and opened again whenever time has passed, and a moment after each
// thing that Ann does. Nothing is lost, and nothing happens twice.
func TestADayWithRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t)
		d.restless = true
		d.live()
		d.count()
	})
}
