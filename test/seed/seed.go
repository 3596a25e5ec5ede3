// Package seed makes the random cases of rapid the same in each run, so that a
// failure can be repeated and go test can keep results. A package whose tests
// draw random cases imports it for this effect. The flag -rapid.seed, which
// make test-long sets, counts before it.
package seed

import (
	"flag"

	_ "pgregory.net/rapid" // defines the flag
)

var _ = flag.Set("rapid.seed", "1123")
