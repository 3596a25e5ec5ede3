// Command steward is a self-hosted agent runtime in one binary: see README.md.
package main

import (
	_ "time/tzdata" // time zones, for machines that have none

	"steward/internal/cli"
)

// version is set by the linker.
var version = "unknown"

func main() { cli.Main(version) }
