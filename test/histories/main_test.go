//go:build long

package histories

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs few checks by default, since each takes long. Use -rapid.checks
// (make histories) for more.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
