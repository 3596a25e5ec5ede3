package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"steward/internal/terminal"
)

// Screened returns a writer that escapes what is written to a terminal. Other streams are
// returned unchanged.
func Screened(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && terminalFile(f) {
		return terminal.NewScreen(f)
	}
	return w
}

// FileOf returns the file under a stream of the app; nil: there is none.
func FileOf(stream any) *os.File {
	switch s := stream.(type) {
	case *os.File:
		return s
	case *terminal.Screen:
		return s.File
	case *Input:
		return FileOf(s.From)
	}
	return nil
}

// IsTerminal reports whether a stream of the app is a terminal.
func IsTerminal(stream any) bool {
	f := FileOf(stream)
	return f != nil && terminalFile(f)
}

// piece is the result of one read.
type piece struct {
	got []byte
	err error
}

// WidthOf is width of any stream.
func WidthOf(w any) int {
	f := FileOf(w)
	if f == nil {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd())) // fails if it is not a terminal
	if err != nil {
		return 0
	}
	return columns
}

// Input is standard input. A read from a pipe or a terminal cannot be cancelled. So it runs
// in the background, and Read returns early when the command is interrupted. Only one
// goroutine may use it at a time.
type Input struct {
	Ctx  context.Context
	From io.Reader

	Got   []byte // received, but not yet read
	Err   error  // the error after got
	under chan piece
}

// Read implements io.Reader.
func (in *Input) Read(p []byte) (int, error) {
	if !in.Await(nil) {
		return 0, context.Cause(in.Ctx)
	}
	n := copy(p, in.Got)
	in.Got = in.Got[n:]
	if n == 0 && len(p) > 0 {
		return 0, in.Err
	}
	return n, nil
}

// Await waits until there is something to read, or the end of the input. It gives up when
// the command is interrupted or timeout fires.
func (in *Input) Await(timeout <-chan time.Time) bool {
	for len(in.Got) == 0 && in.Err == nil {
		if in.under == nil {
			in.under = make(chan piece, 1)
			go func(under chan<- piece) {
				b := make([]byte, 32<<10)
				n, err := in.From.Read(b)
				under <- piece{b[:n], err}
			}(in.under)
		}
		select {
		case p := <-in.under:
			in.Got, in.Err, in.under = p.got, p.err, nil
		case <-timeout:
			return false
		case <-in.Ctx.Done():
			return false
		}
	}
	return true
}

// Counted formats a number with its noun.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Some lists the first of many names.
func Some(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Plural is Counted for a word whose plural ends in s.
func Plural(n int, what string) string { return Counted(n, what, what+"s") }
