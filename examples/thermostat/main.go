// Command thermostat is a small MCP server: the one of docs/guides/headless.md.
package main

import (
	"context"
	"fmt"
	"os"

	"steward/examples/thermostat/home"
)

func main() {
	if err := home.Serve(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "thermostat:", err)
		os.Exit(1)
	}
}
