package main

import (
	"context"
	"io"
	"os"
	"time"

	"steward/internal/server/terminal"
)

// screened returns the stream through which everything reaches a terminal.
// Other streams get their bytes as they are.
func screened(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && terminalFile(f) {
		return terminal.NewScreen(f)
	}
	return w
}

// fileOf returns the file below a stream of the app; nil: it is none.
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

// isTerminal reports whether a stream of the app is one.
func isTerminal(stream any) bool {
	f := fileOf(stream)
	return f != nil && terminalFile(f)
}

// input is standard input. Reading from a pipe or a terminal cannot be broken
// off, so a read goes on in the background, and ends for the reader when the
// command is interrupted. One goroutine at a time.
type input struct {
	ctx  context.Context
	from io.Reader

	got   []byte // and not yet read
	err   error  // what came after it
	under chan piece
}

// piece is what one read has brought.
type piece struct {
	got []byte
	err error
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

// await waits until there is something to read, or the end. It gives up when
// the command is interrupted, or when timeout fires.
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
