package catalog

import (
	"errors"
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/strict"
)

// declaration is the part of a file that an Opener decodes.
type declaration struct {
	file    string
	node    *strict.Node
	lenient bool
	known   []string
}

// decode returns the decode function for an Opener. Its error lists all faults, which are also
// added to problems.
func (c declaration) decode(problems *[]Problem) func(into any) error {
	return func(into any) error {
		var found []Problem
		strict.Decoder{Bad: reporter(c.file, &found), Lenient: c.lenient, Known: c.known}.Decode(c.node, into)
		if len(found) == 0 {
			return nil
		}
		*problems = append(*problems, found...)
		lines := make([]string, len(found))
		for i, p := range found {
			lines[i] = p.String()
		}
		return fault.New(fault.Invalid, "agent_invalid", "%s: %w", strings.Join(lines, "\n"), errReported)
	}
}

// errReported marks an error whose problems are already reported.
var errReported = errors.New("the definition is invalid")

// reporter returns a report that collects the problems of a file.
func reporter(file string, into *[]Problem) strict.Report {
	return func(p strict.Position, code, remedy, format string, args ...any) {
		if len(*into) >= maxProblems {
			return
		}
		*into = append(*into, Problem{File: file, Line: p.Line, Column: p.Column, Code: code,
			Message: visible(fmt.Sprintf(format, args...)), Remedy: visible(remedy)})
	}
}

// maxProblems bounds the problems that are reported of one file.
const maxProblems = 50

// String formats a problem like a compiler: FILE:LINE:COLUMN: message; remedy.
func (p Problem) String() string {
	s := visible(p.File)
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	s += ": " + p.Message
	if p.Remedy != "" {
		s += "; " + p.Remedy
	}
	return s
}
