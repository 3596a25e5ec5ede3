package importexport

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"steward/internal/fault"
)

// archive reads a zip file: every conversations.json in any folder or, if there is none, every file
// that looks like JSON. It extracts nothing to disk, so names in the archive cannot cause harm.
func (r *reader) archive(in io.Reader, buffered io.Reader) {
	at, size, closing, err := r.seekable(in, buffered)
	if err != nil {
		r.yieldChat(nil, err)
		return
	}
	defer closing()
	list := &directory{at, 4 * int64(r.MaxChat)}
	z, err := zip.NewReader(list, size)
	list.left = math.MaxInt64
	if err != nil {
		r.yieldChat(nil, r.archiveFault(err))
		return
	}
	const maxFiles = 200_000
	if len(z.File) > maxFiles {
		r.yieldChat(nil, r.archiveFault(fmt.Errorf("it holds %d files", len(z.File))))
		return
	}
	chats, others := conversationFiles(z.File)
	left := r.MaxTotal
	r.assets = newAssets(others, r.MaxChat)
	for _, f := range chats {
		if r.ended {
			return
		}
		left -= r.member(f, left)
	}
	if r.found == 0 {
		r.yieldChat(nil, r.unknown(""))
		return
	}
	if rest := r.assets.unused(); len(rest) > 0 {
		r.Tell(fmt.Sprintf("%s: files without conversations are left out: %s", r.Name, strings.Join(rest, ", ")))
	}
}

// directory bounds how much of an archive is read for its list of files, all of which is held in memory.
type directory struct {
	io.ReaderAt
	left int64
}

// ReadAt implements io.ReaderAt.
func (d *directory) ReadAt(p []byte, off int64) (int, error) {
	if d.left -= int64(len(p)); d.left < 0 {
		return 0, errors.New("its list of files is too long")
	}
	return d.ReaderAt.ReadAt(p, off)
}

// seekable returns the archive as an io.ReaderAt. A stream is first copied to a temporary file,
// which is unlinked at once.
func (r *reader) seekable(in, buffered io.Reader) (io.ReaderAt, int64, func(), error) {
	if l, ok := in.(contextReader); ok {
		in = l.Reader
	}
	if f, ok := in.(interface {
		io.ReaderAt
		Stat() (os.FileInfo, error)
	}); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			return f, st.Size(), func() {}, nil
		}
	}
	tmp, err := os.CreateTemp(r.TempDir, "steward-import-*.zip")
	if err != nil {
		return nil, 0, nil, fault.New(fault.Unavailable, "import_unreadable", "the archive cannot be kept while it is read: %w", err).
			WithHint("see that the folder for temporary files can be written, or unpack the archive and import conversations.json")
	}
	done := func() {
		tmp.Close()           //nolint:errcheck // nothing of it is needed any more
		os.Remove(tmp.Name()) //nolint:errcheck // as above
	}
	n, err := io.Copy(tmp, io.LimitReader(buffered, r.MaxTotal+1))
	s := newStream(nil, r.Name, r.MaxTotal)
	switch {
	case err != nil:
		err = s.fault(err)
	case n > r.MaxTotal:
		err = s.fault(errTotal)
	}
	if err != nil {
		done()
		return nil, 0, nil, err
	}
	return tmp, n, done, nil
}

func (r *reader) archiveFault(err error) error {
	return fault.New(fault.Invalid, "import_archive_broken", "%s is not a readable zip file: %w", r.Name, err).
		WithHint("download it again, or unpack it and import conversations.json")
}

// conversationFiles separates the files that hold conversations from the others.
func conversationFiles(files []*zip.File) (chats, others []*zip.File) {
	named := func(f *zip.File) bool {
		b := strings.ToLower(path.Base(f.Name))
		return strings.HasPrefix(b, "conversations") && strings.HasSuffix(b, ".json")
	}
	anyJSON := func(f *zip.File) bool {
		e := strings.ToLower(path.Ext(f.Name))
		return e == ".json" || e == ".jsonl"
	}
	want := anyJSON
	if slices.ContainsFunc(files, named) {
		want = named
	}
	for _, f := range files {
		switch {
		case f.FileInfo().IsDir():
		case want(f):
			chats = append(chats, f)
		default:
			others = append(others, f)
		}
	}
	slices.SortStableFunc(chats, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	return chats, others
}

// member reads one file of the archive and returns how many bytes it took. It does not trust the
// size that an entry states.
func (r *reader) member(f *zip.File, left int64) int64 {
	in, err := f.Open()
	if err != nil {
		r.yieldChat(nil, r.archiveFault(err))
		return 0
	}
	defer in.Close() //nolint:errcheck // it was only read
	s := newStream(contextReader{r.ctx, in}, r.Name+" › "+printable(f.Name), left)
	before := r.found
	err = r.values(s)
	if err != nil && (r.found > before || fault.Of(err).Code != "import_format_unknown") {
		r.yieldChat(nil, err)
	}
	return s.in.off
}

// printable makes a foreign name safe to show.
func printable(name string) string {
	return short(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '_'
		}
		return c
	}, valid(path.Base(name))))
}

// assets are the files of an archive that messages refer to. A nil pointer has none.
type assets struct {
	files []*zip.File
	byID  map[string]int
	used  []bool
	most  int // the limit for one conversation, in bytes
	left  int // what is left of it
}

func newAssets(files []*zip.File, most int) *assets {
	a := &assets{files: files, byID: map[string]int{}, used: make([]bool, len(files)), most: most}
	for i, f := range files {
		if id := assetID(path.Base(f.Name)); id != "" {
			if _, ok := a.byID[id]; !ok {
				a.byID[id] = i
			}
		}
	}
	return a
}

// assetID returns the id at the start of the name of one of ChatGPT's files: "file-AbC123" or
// "file_0000abc".
func assetID(name string) string {
	if !strings.HasPrefix(name, "file-") && !strings.HasPrefix(name, "file_") {
		return ""
	}
	end := strings.IndexFunc(name[5:], func(c rune) bool {
		return !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	})
	if end < 0 {
		return name
	}
	return name[:5+end]
}

// maxAsset is the size of the largest picture that is imported, in bytes.
const maxAsset = 20 << 20

// get returns a file by its id.
func (a *assets) get(id string) (data []byte, name string, ok bool) {
	if a == nil {
		return nil, "", false
	}
	i, ok := a.byID[assetID(id)]
	if !ok {
		return nil, "", false
	}
	a.used[i] = true
	most := min(maxAsset, a.left)
	in, err := a.files[i].Open()
	if err != nil {
		return nil, "", false
	}
	defer in.Close() //nolint:errcheck // it was only read
	data, err = io.ReadAll(io.LimitReader(in, int64(most)+1))
	if err != nil || len(data) == 0 || len(data) > most {
		return nil, "", false
	}
	a.left -= len(data)
	return data, printable(a.files[i].Name), true
}

// renew resets the limit for the next conversation.
func (a *assets) renew() {
	if a != nil {
		a.left = a.most
	}
}

// unused returns the names of the files that no message referred to, but only the first ones if
// there are many.
func (a *assets) unused() []string {
	var out []string
	more := 0
	for i, f := range a.files {
		switch {
		case a.used[i]:
		case len(out) < 8:
			out = append(out, printable(f.Name))
		default:
			more++
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
