package histories

import (
	"flag"
	"os"
	"testing"
)

// Each check is a long one: some are enough where nobody asks for more
// (-rapid.checks, make histories).
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("12"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
