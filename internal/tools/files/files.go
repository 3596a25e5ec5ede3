// Package files provides the tools for files in granted folders, and for notes, which are files too. Changes
// are atomic, can be settled after a crash, and can be undone.
package files

import (
	"context"

	"steward/internal/extract"
	"steward/internal/tool"
	"steward/internal/tools/local"
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
	// Private returns places of Steward's own, which the files tools do not see, wherever they lie. nil:
	// there are none.
	Private func() []string
	// Reader reads documents other than plain text; nil: they are only named.
	Reader *extract.Reader
	// Notes is where notes are kept, such as workspace/Notes: a path in a writable folder. Empty: there
	// are no tools for notes.
	Notes string
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

	private *local.Private
}

// Tools returns the tools. Errors: Invalid, folder_invalid (a bad or repeated name, or a path that is
// not a folder).
func Tools(opt Options) (tools []tool.Tool, err error) {
	if err := checkFolders(opt.Folders); err != nil {
		return nil, err
	}
	k := &kit{opt}
	for _, group := range []struct {
		name string
		add  func(*local.Kit)
	}{{"files", k.files}, {"notes", k.notes}} {
		to := local.NewKit(tool.Env{Name: group.name}, "")
		group.add(to)
		more, err := to.Tools()
		if err != nil {
			return nil, err
		}
		tools = append(tools, more...)
	}
	return tools, nil
}

// kit is what the tools have in common.
type kit struct{ opt Options }
