package files

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Notes are Markdown files in a folder of the workspace. The tools are those of files, with titles in
// place of paths.

const maxNote = 1 << 20

type noteArgs struct {
	Title string `json:"title" jsonschema:"the title of the note, which names its file" minlen:"1" maxlen:"120"`
}

type noteWriteArgs struct {
	Title     string `json:"title" jsonschema:"the title of the note, which names its file" minlen:"1" maxlen:"120"`
	Text      string `json:"text" jsonschema:"the whole note, in Markdown"`
	Overwrite bool   `json:"overwrite,omitzero" jsonschema:"replace the note if there is one"`
}

type noteAppendArgs struct {
	Title string `json:"title" jsonschema:"the title of the note; it is made if there is none" minlen:"1" maxlen:"120"`
	Text  string `json:"text" jsonschema:"what is added at its end, in Markdown" minlen:"1"`
}

type noteSearchArgs struct {
	Query string `json:"query" jsonschema:"the words that a line of a note must have" minlen:"1" maxlen:"1000"`
}

// notes adds the tools for notes in a folder such as workspace/Notes.
func (k *kit) notes(to *local.Kit) {
	dir := k.opt.Notes
	if dir == "" || !k.changeable() {
		return
	}
	local.Query(to, tool.Spec{Name: "list", Yields: ownLabels, Sentences: listNotes,
		Description: "Lists the user's notes, which are Markdown files in " + dir + ".",
		Log:         tool.LogSpec{Summary: "List the notes"}},
		func(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
			out, err := k.list(ctx, in, listArgs{Path: dir})
			return emptyIfMissing(out, err)
		})
	local.Query(to, tool.Spec{Name: "search", Yields: ownLabels, Sentences: searchNotes,
		Description: "Searches the user's notes for words, and returns the lines that have all of them.",
		Log:         tool.LogSpec{Summary: "Search the notes for {query}"}, Tidy: local.ReplacesEarlier("query")},
		func(ctx context.Context, in tool.Invocation, a noteSearchArgs) (string, error) {
			out, err := k.search(ctx, in, searchArgs{Query: a.Query, Path: dir})
			return emptyIfMissing(out, err)
		})
	local.Query(to, tool.Spec{Name: "read", Yields: ownLabels, Sentences: readNote,
		Description: "Reads a note of the user's by its title. A long note is read on with files.read.",
		Log:         tool.LogSpec{Summary: "Read the note {title}", Impact: []string{"title"}}, Tidy: local.ReplacesEarlier("title")},
		func(ctx context.Context, in tool.Invocation, a noteArgs) (tool.Result, error) {
			at, err := notePath(dir, a.Title)
			if err != nil {
				return tool.Result{}, err
			}
			return k.read(ctx, in, readArgs{Path: at})
		})
	changed := []tool.Strategy{{Kind: tool.ByTool, Tools: []string{"notes.read"}, Parameters: []string{"title"}}}
	rewrite(k, to, tool.Spec{Name: "write", Targets: []string{"title"}, Tidy: changed, Sentences: writeNote,
		Description: "Writes a note of the user's: a new one, or with overwrite the replacement of an existing one.",
		Log:         tool.LogSpec{Summary: "Write the note {title}, {text:lines|empty}", Does: "changes a note", Parameters: []string{"title", "overwrite"}, Impact: []string{"title"}, Previewed: []string{"text"}},
		Widths:      []tool.Width{{Name: "write the note {title}, whatever is in it", Any: []string{"text", "overwrite"}}}},
		func(a noteWriteArgs) (string, error) { return notePath(dir, a.Title) },
		func(a noteWriteArgs, f *previousState) (now, reply string, err error) {
			return writeArgs{Content: a.Text, Overwrite: a.Overwrite}.text(f)
		})
	rewrite(k, to, tool.Spec{Name: "append", Targets: []string{"title"}, Tidy: changed, Sentences: appendNote,
		Description: "Adds text at the end of a note of the user's. It makes the note if there is none.",
		Log:         tool.LogSpec{Summary: "Add {text:lines} to the note {title}", Does: "changes a note", Parameters: []string{"title"}, Impact: []string{"title"}, Previewed: []string{"text"}},
		Widths:      []tool.Width{{Name: "add anything to the note {title}", Any: []string{"text"}}}},
		func(a noteAppendArgs) (string, error) { return notePath(dir, a.Title) }, noteAppendArgs.text)
}

// notePath returns the path of a note. A title is a file's name, and nothing more.
func notePath(dir, title string) (string, error) {
	title = strings.TrimSuffix(strings.TrimSpace(title), ".md")
	if title == "" || strings.HasPrefix(title, ".") || strings.ContainsAny(title, "/\\\x00\n\r") {
		return "", fault.New(fault.Invalid, "title_invalid", "%.80q is not a valid note title", title).WithHint("use a title without slashes and line breaks that does not begin with a dot")
	}
	return dir + "/" + title + ".md", nil
}

// emptyIfMissing reports that there are no notes if their folder is not there yet.
func emptyIfMissing(out string, err error) (string, error) {
	if fault.HasCode(err, "file_not_found") {
		return "There are no notes yet.", nil
	}
	return out, err
}

func (a noteAppendArgs) text(f *previousState) (now, reply string, err error) {
	end, now := endOf(f.text), f.text
	if now != "" && !strings.HasSuffix(now, end) {
		now += end
	}
	now += strings.ReplaceAll(strings.TrimSuffix(unixEnds(a.Text), "\n")+"\n", "\n", end)
	if len(now) > maxNote {
		return "", "", fault.New(fault.TooLarge, "note_too_large", "the note would have %d bytes: at most %d", len(now), maxNote).WithHint("start another note")
	}
	return now, fmt.Sprintf("Added to %s: it has %d bytes now.", f.shown, len(now)), nil
}
