//go:build !long

package seed

import "flag"

// Without the tag long each property is tried with few cases. The flag
// -rapid.checks counts before it.
var _ = flag.Set("rapid.checks", "20")
