// Package builtin provides Steward's own tools: a calculator, the clock, hashes, and files in granted
// folders. They are Go functions (tool.New) with a schema from their argument types. What changes files
// does so atomically, can say after a crash whether it did, and can be undone.
package builtin

import (
	"context"
	"time"

	"steward/internal/extract"
	"steward/internal/tool"
)

// Options say what the tools may see. The zero value grants no folder.
type Options struct {
	// Folders are where the files tools work. Without any folder there are no files tools.
	Folders []Folder
	// More returns the folders that were granted since then, if there are files tools at all. One
	// replaces an earlier one of its name. nil: there are none.
	More func() []Folder
	// Trash returns the folder that keeps what a user's changes have replaced, so that they can be
	// settled and undone. Without it, or without a writable folder, no tool changes files.
	Trash func(user string) string
	// Reader reads documents that are no plain text; nil: they are only named.
	Reader *extract.Reader
	// Notes is where notes are kept, such as workspace/Notes: a path in a writable folder. Empty: there
	// are no tools for notes.
	Notes string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Zone returns a user's own time zone, for calls that name none. nil, or a nil result: UTC.
	Zone func(user string) *time.Location
	// Groups returns the groups that a user is in; nil: there are none.
	Groups func(ctx context.Context, user string) ([]string, error)
}

// Folder is a granted folder.
type Folder struct {
	Name  string // how the model names it: one word, the first part of every path
	Path  string // where it is
	Write bool   // it may be written to
	Make  bool   // it is made when it is first used
	// For are the users who may use it; nil: everybody.
	For *tool.Audience
}

// Tools returns the tools. Errors: Invalid, folder_invalid (a bad or repeated name, or a path that is
// not a folder).
func Tools(opt Options) ([]tool.Tool, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Zone == nil {
		opt.Zone = func(string) *time.Location { return nil }
	}
	k := kit{opt: opt}
	k.math()
	k.clock()
	k.hash()
	k.files()
	return k.tools, k.err
}

// kit collects tools and the first error.
type kit struct {
	opt   Options
	tools []tool.Tool
	err   error
}

func (k *kit) add(t tool.Tool, err error) {
	if err != nil && k.err == nil {
		k.err = err
	}
	if k.err == nil {
		k.tools = append(k.tools, t)
	}
}

// query adds a query from a function that needs only its arguments.
func query[In, Out any](k *kit, name, description string, log tool.LogSpec, fn func(In) (Out, error)) {
	k.add(tool.New(tool.Spec{Name: name, Description: description, Effect: tool.Query, Version: "1", Log: log},
		func(_ context.Context, _ tool.Invocation, in In) (Out, error) { return fn(in) }))
}

// again makes the earlier result of the same question obsolete.
func again(parameters ...string) tool.Strategy {
	return tool.Strategy{Kind: tool.ByParameters, Parameters: parameters}
}
