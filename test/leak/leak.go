// Package leak finds goroutines that tests leave behind.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine that is ending may take: goleak's own half
// second is short on a busy machine.
const patience = time.Minute

// Main runs the tests of a package, which fail if they leave goroutines behind.
// It ends the process.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find returns an error that tells of the goroutines that do not end.
func Find(options ...goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil || time.Since(began) > patience {
			return err
		}
	}
}
