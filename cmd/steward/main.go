// Command steward is a self-hosted agent runtime in one binary: see README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones, for machines that have none

	"steward/internal/extract"
	"steward/internal/sandbox"
)

// version is set by the linker.
var version = "unknown"

func main() {
	if code, mine := sandbox.Inside(os.Args); mine { // started by Steward itself, around a confined program
		os.Exit(code)
	}
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine { // started to read a document
		os.Exit(code)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), version: version, signals: signals, exit: os.Exit, process: true,
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
