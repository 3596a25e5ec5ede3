package main

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"steward/internal/terminal"
)

// screened returns a writer that escapes what is written to a terminal. Other streams are
// returned unchanged.
func screened(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && terminalFile(f) {
		return terminal.NewScreen(f)
	}
	return w
}

// fileOf returns the file under a stream of the app; nil: there is none.
func fileOf(stream any) *os.File {
	switch s := stream.(type) {
	case *os.File:
		return s
	case *terminal.Screen:
		return s.File
	case *input:
		return fileOf(s.from)
	}
	return nil
}

// isTerminal reports whether a stream of the app is a terminal.
func isTerminal(stream any) bool {
	f := fileOf(stream)
	return f != nil && terminalFile(f)
}

// piece is the result of one read.
type piece struct {
	got []byte
	err error
}

// widthOf is width of any stream.
func widthOf(w any) int {
	f := fileOf(w)
	if f == nil {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd())) // fails if it is not a terminal
	if err != nil {
		return 0
	}
	return columns
}

// input is standard input. A read from a pipe or a terminal cannot be cancelled. So it runs
// in the background, and Read returns early when the command is interrupted. Only one
// goroutine may use it at a time.
type input struct {
	ctx  context.Context
	from io.Reader

	got   []byte // received, but not yet read
	err   error  // the error after got
	under chan piece
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if !in.await(nil) {
		return 0, context.Cause(in.ctx)
	}
	n := copy(p, in.got)
	in.got = in.got[n:]
	if n == 0 && len(p) > 0 {
		return 0, in.err
	}
	return n, nil
}

// await waits until there is something to read, or the end of the input. It gives up when
// the command is interrupted or timeout fires.
func (in *input) await(timeout <-chan time.Time) bool {
	for len(in.got) == 0 && in.err == nil {
		if in.under == nil {
			in.under = make(chan piece, 1)
			go func(under chan<- piece) {
				b := make([]byte, 32<<10)
				n, err := in.from.Read(b)
				under <- piece{b[:n], err}
			}(in.under)
		}
		select {
		case p := <-in.under:
			in.got, in.err, in.under = p.got, p.err, nil
		case <-timeout:
			return false
		case <-in.ctx.Done():
			return false
		}
	}
	return true
}
