package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"steward/internal/app"
	"steward/internal/extract"
	"steward/internal/sandbox"
)

// Main runs the program with the arguments and streams of the process, and ends the process.
// version is the version that the linker set.
func Main(version string) {
	if code, mine := sandbox.Inside(os.Args); mine { // started by Steward itself, around a confined program
		os.Exit(code)
	}
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine { // started to read a document
		os.Exit(code)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	a := &program{stdin: os.Stdin, stdout: os.Stdout, signals: signals, exit: os.Exit, App: app.App{Stderr: os.Stderr, Environ: os.Environ(), Version: version, Process: true}}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
