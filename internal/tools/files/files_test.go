package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/localtest"
	"steward/test/must"
	_ "steward/test/seed"
)

// kitOf returns the tools in a registry.
func kitOf(t testing.TB, opt Options) *tool.Registry {
	t.Helper()
	return localtest.Register(t, must.Get(Tools(opt)))
}

// sandbox makes a granted folder "notes" beside a secret that is not granted.
func sandbox(t testing.TB) (dir string, r *tool.Registry) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "granted")
	must.Do(t, os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(base, "secret.txt"), []byte("the secret"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("alpha\n"), 0o640))
	must.Do(t, os.WriteFile(filepath.Join(dir, "sub", "b.txt"), []byte("beta"), 0o644))
	locked := filepath.Join(base, "locked")
	must.Do(t, os.MkdirAll(locked, 0o755))
	return dir, kitOf(t, Options{Folders: []Folder{{Name: "notes", Path: dir, Write: true}, {Name: "locked", Path: locked}},
		Trash: func(string) string { return filepath.Join(base, "trash") }})
}

func TestFoldersAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for _, folders := range [][]Folder{
		{{Name: "", Path: dir}}, {{Name: "..", Path: dir}}, {{Name: "a/b", Path: dir}}, {{Name: `a\b`, Path: dir}}, {{Name: "a\n", Path: dir}},
		{{Name: "a", Path: dir}, {Name: "a", Path: dir}}, {{Name: "a", Path: filepath.Join(dir, "none")}}, {{Name: "a", Path: file}},
	} {
		if _, err := Tools(Options{Folders: folders}); !fault.HasCode(err, "folder_invalid") {
			t.Errorf("%+v: %v", folders, err)
		}
	}
}

func TestList(t *testing.T) {
	dir, r := sandbox(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must.Do(t, os.Chtimes(filepath.Join(dir, "a.txt"), at, at))
	must.Do(t, os.Symlink("a.txt", filepath.Join(dir, "link")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	l := must.Get(net.Listen("unix", filepath.Join(dir, "socket")))
	defer l.Close()
	must.Do(t, os.WriteFile(filepath.Join(dir, "bad\xff"), nil, 0o600))
	const whole = "notes/ has 6 entries:\na.txt  6 bytes  2026-01-02T03:04:05Z\nbad\uFFFD  0 bytes"
	localtest.Table(t, r, []localtest.Row{
		{"files.list", `{}`, "notes/ (read and write)\nlocked/ (read only)\n"},
		{"files.list", `{"path":"/"}`, "notes/ (read and write)\nlocked/ (read only)\n"},
		{"files.list", `{"path":"notes/sub/deep"}`, "notes/sub/deep/ is empty"},
		{"files.list", `{"path":"notes/sub/deep/"}`, "notes/sub/deep/ is empty"},
		{"files.list", `{"path":"notes/a.txt"}`, "not_a_folder"},
		{"files.list", `{"path":"notes/none"}`, "file_not_found"},
		{"files.list", `{"path":"other"}`, "path_refused"},
		{"files.list", `{"path":"notes/link"}`, "path_refused"},
	})
	got, err := localtest.Call(t, r, "files.list", `{"path":"notes"}`)
	if err != nil || !strings.HasPrefix(got, whole) {
		t.Errorf("%s, %v", got, err)
	}
	for _, s := range []string{"link  (not a regular file: cannot be used)", "pipe  (not a regular file: cannot be used)", "socket  (not a regular file: cannot be used)", "\nsub/\n"} {
		if !strings.Contains(got, s) {
			t.Errorf("%s\ndoes not say %q", got, s)
		}
	}
	for i := range maxEntries + 20 {
		must.Do(t, os.WriteFile(filepath.Join(dir, "sub", "deep", fmt.Sprintf("f%04d", i)), nil, 0o600))
	}
	got, err = localtest.Call(t, r, "files.list", `{"path":"notes/sub/deep"}`)
	if err != nil || strings.Count(got, "\n") != maxEntries+2 || !strings.HasSuffix(got, "[There are more: continue with offset 500.]\n") {
		t.Errorf("%d lines, %v", strings.Count(got, "\n"), err)
	}
	got, err = localtest.Call(t, r, "files.list", `{"path":"notes/sub/deep","offset":510}`)
	if err != nil || strings.Count(got, "\n") != 11 || !strings.Contains(got, "f0510") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err = localtest.Call(t, r, "files.list", `{"path":"notes/sub/deep","offset":9999}`); err != nil || strings.Count(got, "\n") != 1 {
		t.Errorf("%s, %v", got, err)
	}
}

func TestNothingLeadsOut(t *testing.T) {
	dir, r := sandbox(t)
	must.Do(t, os.Symlink("../secret.txt", filepath.Join(dir, "out")))
	must.Do(t, os.Symlink("..", filepath.Join(dir, "up")))
	must.Do(t, os.Symlink("/etc", filepath.Join(dir, "etc")))
	must.Do(t, os.Symlink("sub", filepath.Join(dir, "inside")))
	for _, p := range []string{
		"../secret.txt", "notes/../../secret.txt", "notes/..", "notes/sub/../../../secret.txt", "notes/out", "notes/up/secret.txt",
		"notes/etc/passwd", "notes/inside/b.txt", "/etc/passwd", "//etc/passwd", "~/x", "notes//a.txt", "notes/./a.txt", "./notes/a.txt",
		`notes\a.txt`, `notes/..\..\secret.txt`, "notes/a.txt\x00", "secret.txt", "", ".", "..", "NOTES/a.txt",
		"notes/%2e%2e/secret.txt", dir + "/a.txt", "file:///etc/passwd",
	} {
		for _, name := range []string{"files.read", "files.list", "files.write"} {
			m := map[string]any{"path": p}
			if name == "files.write" {
				m["content"], m["overwrite"] = "broken", true
			}
			args := must.Get(json.Marshal(m))
			got, err := localtest.Call(t, r, name, string(args))
			if name == "files.write" && strings.Contains(p, "%2e") && err == nil {
				continue // an ordinary name
			}
			if name == "files.list" && strings.Trim(p, "./") == "" {
				continue // the list of granted folders
			}
			if err == nil || strings.Contains(got, "secret") {
				t.Errorf("%s %q: %q", name, p, got)
			}
			if err != nil && strings.Contains(err.Error(), filepath.Dir(dir)) && !strings.Contains(p, dir) {
				t.Errorf("%s %q tells a path of the machine: %v", name, p, err)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "secret.txt")); err != nil || string(b) != "the secret" {
		t.Errorf("%s, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "sub", "b.txt")); err != nil || string(b) != "beta" {
		t.Errorf("%s, %v", b, err)
	}
}

func TestWhatIsNoPlainFileIsRefusedAtOnce(t *testing.T) {
	dir, r := sandbox(t)
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	l := must.Get(net.Listen("unix", filepath.Join(dir, "socket")))
	defer l.Close()
	localtest.Table(t, r, []localtest.Row{ // a pipe that nobody writes to would hang a plain open
		{"files.read", `{"path":"notes/pipe"}`, "not_a_file"},
		{"files.read", `{"path":"notes/socket"}`, "not_a_file"},
		{"files.read", `{"path":"notes/sub"}`, "not_a_file"},
		{"files.read", `{"path":"notes"}`, "not_a_file"},
		{"files.write", `{"path":"notes/pipe","content":"x","overwrite":true}`, "not_a_file"},
		{"files.write", `{"path":"notes/sub","content":"x","overwrite":true}`, "not_a_file"},
		{"files.write", `{"path":"notes","content":"x","overwrite":true}`, "not_a_file"},
		{"files.read", `{"path":"notes/a.txt/x"}`, "not_a_folder"},
		{"files.read", `{"path":"notes/` + strings.Repeat("n", 300) + `"}`, "name_too_long"},
		{"files.write", `{"path":"notes/a.txt/x","content":"x"}`, "not_a_folder"},
	})
}

func TestRead(t *testing.T) {
	dir, r := sandbox(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "utf8"), []byte("a€b😀c"), 0o600)) // 1 3 1 4 1
	must.Do(t, os.WriteFile(filepath.Join(dir, "latin1.txt"), []byte("caf\xe9 cr\xe8me"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "data.bin"), []byte{0, 1, 2, 3}, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "data.zip"), []byte("PK\x03\x04rest"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "data.json"), []byte{'{', 0, 1, 2}, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "late.txt"), append(bytes.Repeat([]byte("x"), 8999), '\n', 'x', 0xff, 'y'), 0o600))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, n := range []string{"data.bin", "data.zip", "latin1.txt", "data.json"} {
		must.Do(t, os.Chtimes(filepath.Join(dir, n), at, at))
	}
	localtest.Table(t, r, []localtest.Row{
		{"files.read", `{"path":"notes/a.txt"}`, "alpha\n"},
		{"files.read", `{"path":"notes/sub/b.txt"}`, "beta"},
		{"files.read", `{"path":"notes/empty"}`, "(the file is empty)"},
		{"files.read", `{"path":"notes/none"}`, "file_not_found"},
		{"files.read", `{"path":"notes/utf8","line":-1}`, "args_invalid"},
		{"files.read", `{"path":"notes/late.txt","line":2}`, "xÿy\n[Lines 2 to 2: the end.]\n[The file is written in Windows-1252.]"},
		{"files.read", `{"path":"notes/latin1.txt"}`, "café crème\n[The file is written in Windows-1252.]"},
		{"files.read", `{"path":"notes/data.bin"}`, "notes/data.bin is a file of type application/octet-stream with 4 bytes, changed 2026-01-02T03:04:05Z; it is not text."},
		{"files.read", `{"path":"notes/data.zip"}`, "notes/data.zip is a file of type application/zip with 8 bytes, changed 2026-01-02T03:04:05Z; it is not text."},
		{"files.read", `{"path":"notes/data.json"}`, "notes/data.json is a file of type application/json with 4 bytes, changed 2026-01-02T03:04:05Z; it is not text."},
	})
}

func TestReadMedia(t *testing.T) {
	dir, r := sandbox(t)
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 50)...)
	pdf := append([]byte("%PDF-1.7\n"), make([]byte, 50)...)
	must.Do(t, os.WriteFile(filepath.Join(dir, "p.png"), png, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "d.pdf"), pdf, 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "big.png"), append(png, make([]byte, maxMedia)...), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "i.bmp"), []byte("BM........"), 0o600))
	read := func(name string) tool.Result {
		res := must.Get(localtest.Invoke(t, r, "files.read", tool.Invocation{Args: []byte(`{"path":"notes/` + name + `"}`)}))
		return res
	}
	if img, ok := read("p.png").Content[1].(*message.Image); !ok || img.MIME != "image/png" || !bytes.Equal(img.Data, png) {
		t.Errorf("%+v", img)
	}
	if f, ok := read("d.pdf").Content[1].(*message.File); !ok || f.MIME != "application/pdf" || f.Name != "d.pdf" || !bytes.Equal(f.Data, pdf) {
		t.Errorf("%+v", f)
	}
	if res := read("big.png"); len(res.Content) != 1 || !strings.Contains(res.Content[0].(*message.Text).Text, "too large to be shown") {
		t.Errorf("%+v", res)
	}
	if res := read("i.bmp"); len(res.Content) != 1 || !strings.Contains(res.Content[0].(*message.Text).Text, "image/bmp") {
		t.Errorf("%+v", res)
	}
}

// The pages of a text add up to the text, and no page ends inside a character.
func TestPagesGiveTheWhole(t *testing.T) {
	dir, r := sandbox(t)
	rapid.Check(t, func(t2 *rapid.T) {
		text := strings.ToValidUTF8(rapid.StringN(1, 300, 1000).Draw(t2, "text"), "?")
		text = strings.ReplaceAll(text, "\x00", "0")
		text = strings.TrimLeft(text, "\uFEFF\r") + "."
		if kind, _ := sniff("x", []byte(text), int64(len(text))); kind != "" {
			return // its content is not recognised as text
		}
		text = strings.Repeat(text, rapid.SampledFrom([]int{1, 3*maxPage/len(text) + 1}).Draw(t2, "times"))
		must.Do(t, os.WriteFile(filepath.Join(dir, "page"), []byte(text), 0o600))
		lines := rapid.IntRange(0, 40).Draw(t2, "lines")
		var whole strings.Builder
		for line, calls := 1, 0; line > 0; calls++ {
			args := fmt.Sprintf(`{"path":"notes/page","line":%d}`, line)
			if lines > 0 && calls < 20 { // the rest at once
				args = fmt.Sprintf(`{"path":"notes/page","line":%d,"lines":%d}`, line, lines)
			}
			got := must.Get(localtest.Call(t, r, "files.read", args))
			body, note := got, ""
			if i := strings.LastIndex(got, "\n[Lines "); i >= 0 {
				body, note = got[:i], got[i:]
			}
			if !utf8.ValidString(got) || len(got) > maxPage+100 {
				t2.Fatalf("%d bytes: %q", len(got), note)
			}
			whole.WriteString(body)
			line = 0
			if _, next, ok := strings.Cut(note, "Read on at line "); ok {
				line = must.Get(strconv.Atoi(strings.TrimSuffix(next, ".]")))
			}
		}
		if text = unixEnds(text); whole.String() != text {
			t2.Fatalf("%q became %q", text, whole.String())
		}
	})
}

func TestWrite(t *testing.T) {
	dir, r := sandbox(t)
	content := func(name string) string {
		b := must.Get(os.ReadFile(filepath.Join(dir, name)))
		return string(b)
	}
	localtest.Table(t, r, []localtest.Row{
		{"files.write", `{"path":"notes/new.txt","content":"one"}`, "Wrote notes/new.txt: 3 bytes."},
		{"files.write", `{"path":"notes/new.txt","content":"two"}`, "file_exists"},
		{"files.write", `{"path":"notes/x/y/z.txt","content":""}`, "Wrote notes/x/y/z.txt: 0 bytes."},
		{"files.write", `{"path":"notes/a.txt","content":"new €","overwrite":true}`, "Replaced notes/a.txt: 7 bytes."},
		{"files.write", `{"path":"notes/fresh.txt","content":"f","overwrite":true}`, "Wrote notes/fresh.txt: 1 bytes."},
		{"files.write", `{"path":"locked/x","content":"x"}`, "folder_read_only"},
		{"files.write", `{"path":"notes/x"}`, "args_invalid"},
		{"files.write", `{"path":"notes/big","content":"` + strings.Repeat("b", maxWrite+1) + `"}`, "file_too_large"},
	})
	if content("new.txt") != "one" || content("a.txt") != "new €" || content("x/y/z.txt") != "" || content("fresh.txt") != "f" {
		t.Error("the contents are wrong")
	}
	info := must.Get(os.Stat(filepath.Join(dir, "a.txt")))
	if info.Mode().Perm() != 0o640 {
		t.Errorf("the mode became %v", info.Mode())
	}
	noTempFiles(t, dir)
}

func noTempFiles(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if strings.Contains(p, ".steward-") {
			t.Errorf("%s is left behind", p)
		}
		return err
	}))
}

func TestFailuresOfWritingLeaveTheFileAlone(t *testing.T) {
	dir, r := sandbox(t)
	// A folder with the name of the temporary file blocks the write.
	in := tool.Invocation{Args: []byte(`{"path":"notes/a.txt","content":"new","overwrite":true}`), Key: "k"}
	block := filepath.Join(dir, tempName("a.txt", "k"))
	must.Do(t, os.MkdirAll(filepath.Join(block, "full"), 0o755))
	_, err := localtest.Invoke(t, r, "files.write", in)
	if err == nil || !tool.CertainlyNotDone(err) {
		t.Errorf("%v", err)
	}
	must.Do(t, os.RemoveAll(block))
	// The temporary file that a crash left behind is replaced.
	must.Do(t, os.WriteFile(block, []byte("half of i"), 0o600))
	must.Get(localtest.Invoke(t, r, "files.write", in))
	if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(b) != "new" {
		t.Errorf("%q", b)
	}
	noTempFiles(t, dir)
	if os.Getuid() != 0 { // root may do everything
		must.Do(t, os.Chmod(dir, 0o555))
		defer os.Chmod(dir, 0o755)
		if _, err := localtest.Call(t, r, "files.write", `{"path":"notes/q","content":"x"}`); !fault.HasCode(err, "file_denied") {
			t.Error(err)
		}
	}
}

func TestPublishLosesToAFileMadeMeanwhile(t *testing.T) {
	dir, _ := sandbox(t)
	root := must.Get(os.OpenRoot(dir))
	defer root.Close()
	p := place{Folder: Folder{Name: "notes", Path: dir}, shown: "notes/race", rel: "race"}
	must.Do(t, p.prepare(root, "temp", "mine", 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "race"), []byte("theirs"), 0o600))
	if err := p.publish(root, "temp", false); !fault.HasCode(err, "file_exists") {
		t.Error(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "race")); string(b) != "theirs" {
		t.Errorf("%q", b)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "temp")))
	p.rel = "gone"
	if err := p.publish(root, "temp", false); !fault.HasCode(err, "file_not_found") {
		t.Error(err)
	}
	if err := p.publish(root, "temp", true); !fault.HasCode(err, "file_not_found") {
		t.Error(err)
	}
	if err := syncAncestors(root, "none"); err == nil {
		t.Error("a folder that is not there was synced")
	}
}

func TestFaultsOfTheSystem(t *testing.T) {
	p := place{shown: "notes/x"}
	for err, code := range map[error]string{
		syscall.ENOSPC: "disk_full", syscall.EROFS: "file_denied", syscall.EACCES: "file_denied", fs.ErrNotExist: "file_not_found",
		syscall.ENOTDIR: "not_a_folder", syscall.ENAMETOOLONG: "name_too_long", syscall.EIO: "file_unavailable",
	} {
		got := p.fault(&fs.PathError{Op: "open", Path: "/the/machine/x", Err: err})
		if !fault.HasCode(got, code) || strings.Contains(got.Error(), "/the/machine") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestFolderThatIsGone(t *testing.T) {
	dir, r := sandbox(t)
	must.Do(t, os.RemoveAll(dir))
	localtest.Table(t, r, []localtest.Row{
		{"files.read", `{"path":"notes/a.txt"}`, "file_not_found"},
		{"files.list", `{"path":"notes"}`, "file_not_found"},
		{"files.write", `{"path":"notes/a.txt","content":"x"}`, "file_not_found"},
	})
}

func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    string // the file's content before the call; "-": there is none
		now       string // and when it is settled
		temp      bool   // the temporary file is there
		happened  bool
		uncertain bool
	}{
		{"it was written", "-", "mine", false, true, false},
		{"it was replaced", "theirs", "mine", false, true, false},
		{"it was not yet replaced", "theirs", "theirs", true, false, false},
		{"it was not yet made", "-", "-", true, false, false},
		{"another content", "theirs", "others", false, false, true},
		{"another content of the same length", "-", "mink", false, false, true},
		{"it is gone", "theirs", "-", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, r := sandbox(t)
			name := filepath.Join(dir, "sub", "s.txt")
			put := func(content string) {
				must.Do(t, os.RemoveAll(name))
				if content != "-" {
					must.Do(t, os.WriteFile(name, []byte(content), 0o600))
				}
			}
			in := tool.Invocation{Args: []byte(`{"path":"notes/sub/s.txt","content":"mine","overwrite":true}`), Key: "k"}
			tl, _ := r.Get("files.write")
			s, ok := tool.SettlerOf(tl)
			if !ok {
				t.Fatal("files.write cannot be asked")
			}
			put(c.before)
			if happened, _, err := s.Settle(t.Context(), in); happened || err != nil {
				t.Errorf("before it began: %v, %v", happened, err)
			}
			must.Get(localtest.Invoke(t, r, "files.write", in))
			put(c.now)
			if c.temp {
				must.Do(t, os.WriteFile(filepath.Join(dir, tempName("sub/s.txt", "k")), []byte("mine"), 0o600))
			}
			happened, res, err := s.Settle(t.Context(), in)
			if happened != c.happened || (err != nil) != c.uncertain || c.uncertain && !fault.HasCode(err, "change_unsettled") {
				t.Errorf("%v, %v", happened, err)
			}
			if happened && !strings.Contains(res.Content[0].(*message.Text).Text, "notes/sub/s.txt") {
				t.Errorf("%+v", res)
			}
			noTempFiles(t, dir)
		})
	}
}

// Readers never see a partly written file.
func TestWritesAreAtomic(t *testing.T) {
	_, r := sandbox(t)
	long := map[string]bool{}
	for _, c := range "ab" {
		long[strings.Repeat(string(c), 20000)] = true
	}
	stop := make(chan struct{})
	done := make(chan error, 1)
	must.Get(localtest.Call(t, r, "files.write", `{"path":"notes/w","content":"`+strings.Repeat("a", 20000)+`","overwrite":true}`))
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			c := strings.Repeat(string("ab"[i%2]), 20000)
			if _, err := localtest.Call(t, r, "files.write", `{"path":"notes/w","content":"`+c+`","overwrite":true}`); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 200 {
		got, err := localtest.Call(t, r, "files.read", `{"path":"notes/w"}`)
		if err != nil || !long[got] {
			t.Errorf("half a file of %d bytes, %v", len(got), err)
			break
		}
	}
	close(stop)
	if err := <-done; err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	dir := t.TempDir()
	r := kitOf(t, Options{Folders: []Folder{{Name: "notes", Path: dir, Write: true}}, Trash: func(string) string { return dir }})
	localtest.Described(t, r, "files.delete files.edit files.list files.move files.read files.search files.write",
		"files.write", "files.edit", "files.move", "files.delete")
	if w, _ := r.Get("files.write"); slices.Contains(w.Spec().Log.Parameters, "content") {
		t.Errorf("the log keeps whole files: %v", w.Spec().Log)
	}
	if names := kitOf(t, Options{Folders: []Folder{{Name: "notes", Path: dir}}}).Names(); len(names) != 3 {
		t.Errorf("a folder that is read only: %v", names)
	}
	if names := kitOf(t, Options{}).Names(); len(names) != 0 {
		t.Errorf("no folder: %v", names)
	}
}
