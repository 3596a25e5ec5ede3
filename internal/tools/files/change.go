package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/diff"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

type editArgs struct {
	Path string `json:"path" jsonschema:"the file to change, beginning with a granted folder's name" minlen:"1" maxlen:"1024"`
	Old  string `json:"old" jsonschema:"the text to replace, exactly as it stands in the file, with its line breaks and indentation; it must occur once, so take enough of its surroundings" minlen:"1"`
	New  string `json:"new" jsonschema:"the text that takes its place; empty to remove it"`
	All  bool   `json:"all,omitzero" jsonschema:"replace it everywhere in the file"`
}

type moveArgs struct {
	From string `json:"from" jsonschema:"the file or folder to move or rename, beginning with a granted folder's name" minlen:"1" maxlen:"1024"`
	To   string `json:"to" jsonschema:"its new path in the same granted folder; nothing may be there yet" minlen:"1" maxlen:"1024"`
}

type deleteArgs struct {
	Path string `json:"path" jsonschema:"the file or folder to delete, beginning with a granted folder's name" minlen:"1" maxlen:"1024"`
}

// changing is an action on files.
type changing struct {
	local.Layer
	k *kit
}

// addActions adds the actions, which need the trash.
func (k *kit) addActions(to *local.Kit) {
	gone := []tool.Strategy{{Kind: tool.Custom, Tools: []string{"files.list", "files.read"}}}
	rewrite(k, to, tool.Spec{Name: "write", Targets: []string{"path"}, Tidy: rewritten, Sentences: withFolder(k.mainFolder(), writeFile...),
		Description: "Writes a text file: creates it, or replaces its whole content (with overwrite). " + begin,
		Log:         tool.LogSpec{Summary: "Write {path}, {content:lines|empty}", Does: changesFile, Parameters: []string{"path", "overwrite"}, Impact: []string{"path"}, Previewed: []string{"content"}},
		Widths: []tool.Width{{Name: "write {path}, whatever is in it", Any: []string{"content", "overwrite"}},
			{Name: "write files in {path:folder}", Any: []string{"content"}, Folder: []string{"path"}}}},
		func(a writeArgs) (string, error) { return a.Path, nil }, writeArgs.text)
	rewrite(k, to, tool.Spec{Name: "edit", Targets: []string{"path"}, Tidy: rewritten,
		Description: "Changes a part of a text file: replaces one text by another, exactly. Prefer it to files.write for files that exist. " + begin,
		Log:         tool.LogSpec{Summary: "Edit {path}", Does: changesFile, Parameters: []string{"path", "all"}, Impact: []string{"path"}, Previewed: []string{"old", "new", "all"}},
		Widths: []tool.Width{{Name: "edit {path}", Any: []string{"old", "new", "all"}},
			{Name: "edit files in {path:folder}", Any: []string{"old", "new", "all"}, Folder: []string{"path"}}}},
		func(a editArgs) (string, error) { return a.Path, nil }, editArgs.text)
	addChange(k, to, tool.Spec{Name: "move", Targets: []string{"from", "to"}, Tidy: gone, Sentences: withFolder(k.mainFolder(), moveFile...),
		Description: "Moves or renames a file or folder inside a granted folder. It never replaces anything. " + begin,
		Log:         tool.LogSpec{Summary: "Move {from} to {to}", Does: "moves or renames a file", Impact: []string{"from", "to"}},
		Widths:      []tool.Width{{Name: "move files from {from:folder} to {to:folder}", Folder: []string{"from", "to"}}}}, k.move)
	addChange(k, to, tool.Spec{Name: "delete", Targets: []string{"path"}, Tidy: gone, Sentences: withFolder(k.mainFolder(), deleteFile...),
		Description: "Deletes a file or folder. It is kept in a trash for a while, so that deleting can be undone. " + begin,
		Log:         tool.LogSpec{Summary: "Delete {path}", Does: "moves a file or folder to the trash", Impact: []string{"path"}},
		Widths:      []tool.Width{{Name: "delete anything in {path:folder}", Folder: []string{"path"}}}}, k.delete)
}

const changesFile = "changes a file"

// rewritten is what becomes obsolete when a file has a new content.
var rewritten = []tool.Strategy{
	{Kind: tool.ByTool, Tools: []string{"files.read"}, Parameters: []string{"path"}},
	{Kind: tool.Custom, Tools: []string{"files.list"}}}

func addChange[In any](k *kit, to *local.Kit, s tool.Spec, fn func(context.Context, tool.Invocation, In) (string, error)) {
	s.Yields = message.Private
	local.Change(to, s, func(_ context.Context, user string) (changes, error) { return changes{k, user}, nil },
		func(ctx context.Context, in tool.Invocation, a In, _ changes) (string, error) { return fn(ctx, in, a) }, tool.Text)
	to.Wrap(func(l local.Layer) tool.Tool { return changing{l, k} })
}

// rewriting is an action that gives a text file another text.
type rewriting struct {
	local.Layer
	preview func(ctx context.Context, in tool.Invocation) (string, error)
}

// Preview implements tool.Previewer: it shows the difference of the texts. The arguments describe a new file completely.
func (r rewriting) Preview(ctx context.Context, in tool.Invocation) (string, error) {
	return r.preview(ctx, in)
}

// previousState is what is at the place of a file before it is rewritten.
type previousState struct {
	place
	text  string
	form  form // in which the new text is written
	there bool
}

// rewrite adds an action that writes the text that next returns to the text file that at names, with the reply
// of the change.
func rewrite[In any](k *kit, to *local.Kit, s tool.Spec, at func(In) (string, error), next func(In, *previousState) (now, reply string, err error)) {
	prepared := func(ctx context.Context, user string, a In) (f previousState, root *os.Root, now, file, reply string, err error) {
		shown, err := at(a)
		if err == nil {
			f.place, root, err = k.writable(ctx, user, shown)
		}
		if err != nil {
			return f, nil, "", "", "", err
		}
		f.text, f.form, err = f.textOf(root)
		if f.there = !fault.HasCode(err, "file_not_found"); err == nil || !f.there {
			now, reply, err = next(a, &f)
		}
		if err == nil {
			file, err = f.form.encode(now)
		}
		if err == nil && len(file) > maxWrite {
			err = fault.New(fault.TooLarge, "file_too_large", "%q would have %d bytes: at most %d", f.shown, len(file), maxWrite)
		}
		if err != nil {
			root.Close() // it was only read
		}
		return f, root, now, file, reply, err
	}
	addChange(k, to, s, func(ctx context.Context, in tool.Invocation, a In) (string, error) {
		f, root, _, file, reply, err := prepared(ctx, in.User, a)
		if err != nil {
			return "", tool.NotDone(err)
		}
		defer root.Close()
		return reply, k.put(ctx, in, f.place, root, file, f.there)
	})
	to.Wrap(func(l local.Layer) tool.Tool {
		return rewriting{l, func(ctx context.Context, in tool.Invocation) (string, error) {
			var a In
			if err := json.Unmarshal(in.Args, &a); err != nil {
				return "", fault.New(fault.Invalid, "args_invalid", "the arguments do not fit: %w", err)
			}
			f, root, now, _, _, err := prepared(ctx, in.User, a)
			if err != nil {
				return "", err
			}
			defer root.Close()
			if !f.there {
				return "", nil
			}
			return unified(f.shown, f.text, now), nil
		}}
	})
}

// unified returns the difference of two texts as a unified diff.
func unified(name, old, now string) string {
	d := diff.Diff(name, []byte(old), name+" (new)", []byte(now))
	if _, rest, ok := bytes.Cut(d, []byte("\n")); ok { // the first line repeats the names
		d = rest
	}
	return string(d)
}

// textOf returns the content of a text file, and the form that an edit keeps.
func (p place) textOf(root *os.Root) (string, form, error) {
	f, info, err := p.openFile(root)
	if err != nil {
		return "", utf8Form, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxWrite+1))
	switch {
	case err != nil:
		return "", utf8Form, p.fault(err)
	case len(b) > maxWrite:
		return "", utf8Form, fault.New(fault.TooLarge, "file_too_large", "%q has %d bytes: at most %d can be edited", p.shown, info.Size(), maxWrite)
	}
	how, ok := formOf(b, false)
	said, err := "", error(nil)
	if ok {
		said, err = how.decode(b)
	}
	if back, encErr := how.encode(said); !ok || err != nil || encErr != nil || back != string(b) {
		return "", utf8Form, fault.New(fault.Invalid, "not_a_text", "%q is not text in UTF-8, UTF-16 or Windows-1252", p.shown)
	}
	return said, how, nil
}

func (a editArgs) text(f *previousState) (now, reply string, err error) {
	now, n := replaceText(f.text, a.Old, a.New)
	switch {
	case !f.there:
		return "", "", f.fault(fs.ErrNotExist)
	case n == 0:
		return "", "", fault.New(fault.NotFound, "text_not_found", "the text to replace is not in %q", f.shown).
			WithHint("read the file again, and copy the text exactly, with its spaces and line breaks")
	case n > 1 && !a.All:
		return "", "", fault.New(fault.Conflict, "text_not_unique", "the text to replace is in %q %d times", f.shown, n).
			WithHint("include more of the surrounding text, or set all to replace each occurrence")
	case now == f.text:
		return "", "", fault.New(fault.Invalid, "edit_empty", "nothing to change: the two texts are the same apart from line ends")
	}
	return now, fmt.Sprintf("Changed %s:\n%s", f.shown, unified(f.shown, f.text, now)), nil
}

func (a writeArgs) text(f *previousState) (now, reply string, err error) {
	what, was := "Wrote", f.form
	f.form = utf8Form
	if f.there {
		what = "Replaced"
		if !a.Overwrite {
			return "", "", f.exists()
		}
	}
	reply = fmt.Sprintf("%s %s: %d bytes.", what, f.shown, len(a.Content))
	if f.there && was.name != utf8Form.name {
		reply += fmt.Sprintf(" It was %s, and is UTF-8 now.", was.name)
	}
	return a.Content, reply, nil
}

// move renames a file or folder.
func (k *kit) move(ctx context.Context, in tool.Invocation, a moveArgs) (string, error) {
	from, root, err := k.writable(ctx, in.User, a.From)
	if err != nil {
		return "", tool.NotDone(err)
	}
	defer root.Close()
	to, other, err := k.writable(ctx, in.User, a.To)
	if err != nil {
		return "", tool.NotDone(err)
	}
	other.Close() // it is the same folder, or refused
	if from.Name != to.Name {
		return "", tool.NotDone(fault.New(fault.Invalid, "move_across", "%q and %q are in different granted folders", from.shown, to.shown).WithHint("move within one folder"))
	}
	state, err := stateOf(ctx, root, from.rel)
	switch {
	case err != nil:
		return "", tool.NotDone(from.fault(err))
	case state == "":
		return "", tool.NotDone(from.fault(fs.ErrNotExist))
	}
	if err := k.keep(ctx, in.User, local.Key(in), note{Path: from.shown, To: to.shown, Before: state, After: state}, from, root); err != nil {
		return "", tool.NotDone(err)
	}
	if err := rename(root, from, to); err != nil {
		return "", err
	}
	return fmt.Sprintf("Moved %s to %s.", from.shown, to.shown), nil
}

// rename gives a file or folder another name that is not taken.
func rename(root *os.Root, from, to place) error {
	info, err := root.Lstat(from.rel)
	if err != nil {
		return tool.NotDone(from.fault(err))
	}
	if _, err := root.Lstat(to.rel); err == nil {
		return tool.NotDone(to.exists())
	}
	if strings.HasPrefix(to.rel, from.rel+"/") {
		return tool.NotDone(fault.New(fault.Invalid, "move_inside", "%q cannot be moved into itself", from.shown))
	}
	if err := root.MkdirAll(path.Dir(to.rel), 0o755); err != nil {
		return tool.NotDone(to.fault(err))
	}
	if err := to.publish(root, from.rel, info.IsDir()); err != nil { // a link never replaces a file that was created in the meantime
		return tool.NotDone(err)
	}
	if err := syncAncestors(root, path.Dir(to.rel)); err != nil {
		return to.fault(err)
	}
	return nil
}

// delete moves a file or folder to the trash.
func (k *kit) delete(ctx context.Context, in tool.Invocation, a deleteArgs) (string, error) {
	p, root, err := k.writable(ctx, in.User, a.Path)
	if err != nil {
		return "", tool.NotDone(err)
	}
	defer root.Close()
	state, err := stateOf(ctx, root, p.rel)
	if err == nil && state == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", tool.NotDone(p.fault(err))
	}
	if err := k.keep(ctx, in.User, local.Key(in), note{Path: p.shown, Before: state}, p, root); err != nil {
		return "", tool.NotDone(err)
	}
	if err := root.RemoveAll(p.rel); err != nil {
		return "", p.fault(err)
	}
	if err := syncAncestors(root, path.Dir(p.rel)); err != nil {
		return "", p.fault(err)
	}
	return fmt.Sprintf("Deleted %s. It is in the trash, so this can be undone.", p.shown), nil
}

// recorded is a change that the trash remembers, and how things are now.
type recorded struct {
	note
	p     place
	root  *os.Root
	trash *os.Root
	to    place
	now   string // the state of Path
	there string // the state of To
}

func (r *recorded) close() {
	for _, root := range []*os.Root{r.root, r.trash} {
		if root != nil {
			root.Close() // changes have been synced
		}
	}
}

// findRecord finds the record of a call. It returns nil if there is none.
func (k *kit) findRecord(ctx context.Context, user, key string) (*recorded, error) {
	r := &recorded{}
	if ok, err := local.LoadNote(k.changesOf(user), key, &r.note); err != nil || !ok {
		return nil, err
	}
	var err error
	if r.trash, err = k.trash(user); err == nil {
		r.p, r.root, err = k.writable(ctx, user, r.Path)
	}
	if err == nil {
		r.now, err = stateOf(ctx, r.root, r.p.rel)
	}
	if err == nil && r.To != "" {
		var other *os.Root
		if r.to, other, err = k.writable(ctx, user, r.To); err == nil {
			other.Close() // the folder is open as root
			r.there, err = stateOf(ctx, r.root, r.to.rel)
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// done and undone report whether things are as after the change, and as before it.
func (r *recorded) done() bool {
	if r.To != "" {
		return r.there == r.After && r.now == ""
	}
	return r.now == r.After
}

func (r *recorded) undone() bool { return r.now == r.Before && (r.To == "" || r.there == "") }

// changes are a user's changes of files, which the trash remembers. They implement local.Changes.
type changes struct {
	k    *kit
	user string
}

// Applied implements local.Changes.
func (c changes) Applied(ctx context.Context, key string) (reply string, ok bool, err error) {
	r, err := c.k.findRecord(ctx, c.user, key)
	if err != nil || r == nil {
		return "", false, err // without a record it did not begin
	}
	defer r.close()
	switch {
	case r.done():
		return "It was done, before Steward was interrupted: " + r.p.shown, true, nil
	case r.undone():
		_ = r.root.Remove(tempName(r.p.rel, key)) // of a write; it is only untidy
		return "", false, nil
	}
	return "", false, local.OutcomeUnknown(r.p.shown)
}

// Revert implements local.Changes. Later changes by others are kept.
func (c changes) Revert(ctx context.Context, key string) (reply string, err error) {
	r, err := c.k.findRecord(ctx, c.user, key)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", local.NotApplied()
	}
	defer r.close()
	switch {
	case r.undone(): // by an attempt that a crash has ended
	case !r.done():
		return "", local.ChangedSince(r.p.shown)
	case r.To != "":
		err = rename(r.root, r.to, r.p)
	case r.Before == "":
		if err = r.root.Remove(r.p.rel); err == nil {
			err = syncAncestors(r.root, path.Dir(r.p.rel))
		}
	default:
		err = r.restore(ctx)
	}
	if err != nil {
		return "", r.p.fault(err)
	}
	return "Undone: " + r.p.shown + " is restored.", nil
}

// restore copies what was replaced beside its old place, and renames it.
func (r *recorded) restore(ctx context.Context) error {
	dir := path.Dir(r.p.rel)
	if err := r.root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := tempName(r.p.rel, r.Was)
	c := copier{ctx: ctx, bytes: maxFormer, files: maxFormerFiles}
	err := r.root.RemoveAll(temp) // of an attempt that a crash ended
	if err == nil {
		err = c.copy(r.trash, r.Was, r.root, temp)
	}
	if err == nil {
		err = r.root.Rename(temp, r.p.rel)
	}
	if err != nil {
		_ = r.root.RemoveAll(temp) // the error that counts is the first
		return err
	}
	return syncAncestors(r.root, dir)
}
