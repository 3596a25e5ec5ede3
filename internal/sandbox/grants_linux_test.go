package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/test/must"
)

func folders(t *testing.T, names ...string) (base string) {
	t.Helper()
	base = t.TempDir()
	for _, name := range names {
		must.Do(t, os.MkdirAll(filepath.Join(base, name), 0o755))
	}
	return base
}

func TestMountsAreRead(t *testing.T) {
	got, err := mounts(strings.NewReader("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" +
		"30 22 8:1 /a\\040b /mnt/c\\134d rw - ext4 /dev/sda1 rw\n" +
		"31 22 0:5 / /proc rw shared:2 master:3 - proc proc rw\nbroken\n"))
	want := []mountedAt{{"8:1", "/", "/", "ext4"}, {"8:1", "/a b", `/mnt/c\d`, "ext4"}, {"0:5", "/", "/proc", "proc"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v %v", got, err)
	}
}

// A folder can be reached by its own path, by other mounts of its file system, and in parts by mounts of
// its subfolders, but not by another file system at the same path.
func TestAFoldersOtherPathsAreFound(t *testing.T) {
	base := folders(t, "own/db", "again/own", "part", "foreign/own", "covered")
	at := func(name string) string { return filepath.Join(base, name) }
	all := []mountedAt{
		{device: "8:1", root: "/", path: "/"},
		{device: "8:1", root: base, path: at("again")},
		{device: "8:1", root: at("own/db"), path: at("part")},
		{device: "8:2", root: base, path: at("foreign")},
		{device: "8:1", root: base, path: at("covered")}, // own is not visible there
	}
	got := aliases(all, at("own"))
	if want := []string{at("own"), at("again/own"), at("part")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, err := Places([]string{at("own")}); err != nil || !slices.Contains(got, at("own")) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := Places([]string{at("nowhere")}); !fault.HasCode(err, "sandbox_failed") {
		t.Error(err)
	}
}

// shown returns bubblewrap's arguments with paths relative to a base.
func shown(base string, args []string) string {
	return strings.ReplaceAll(strings.Join(args, " "), base+"/", "")
}

func TestWhatIsGrantedAndHidden(t *testing.T) {
	base := folders(t, "read/deep", "write/deep", "steward/db", "agent/data", "copy")
	must.Do(t, os.WriteFile(filepath.Join(base, "copy/run.sh"), nil, 0o755))
	at := func(name string) string { return filepath.Join(base, name) }
	for name, x := range map[string]struct {
		c          Command
		want, code string
	}{
		"parents first":         {c: Command{Read: []string{at("read/deep"), at("read")}}, want: "--ro-bind read read"},
		"below what is written": {c: Command{Read: []string{at("write/deep")}, Write: []string{at("write")}}, want: "--bind write write"},
		"written below what is read": {c: Command{Read: []string{at("read")}, Write: []string{at("read/deep")}},
			want: "--ro-bind read read --bind read/deep read/deep"},
		"of the system": {c: Command{Read: []string{"/usr/bin"}}, want: ""},
		"hidden": {c: Command{Read: []string{at("steward")}, Hide: []string{at("steward/db")}},
			want: "--ro-bind steward steward --perms 0755 --tmpfs steward/db --remount-ro steward/db"},
		"what is hidden":     {c: Command{Read: []string{at("steward/db")}, Hide: []string{at("steward")}}, code: "sandbox_path_invalid"},
		"its own data there": {c: Command{Data: at("steward/db"), Hide: []string{at("steward")}}, want: "--bind steward/db steward/db"},
		"a copy": {c: Command{Dir: at("agent"), Instead: map[string]string{at("agent"): at("copy")}},
			want: "--perms 0755 --tmpfs agent --ro-bind copy/run.sh agent/run.sh --ro-bind agent/data agent/data --remount-ro agent"},
		"a copy that is written": {c: Command{Write: []string{at("agent")}, Instead: map[string]string{at("agent"): at("copy")}}, code: "sandbox_path_invalid"},
		"what is not there":      {c: Command{Read: []string{at("nowhere")}}, code: "sandbox_path_invalid"},
	} {
		args, err := (&confined{Command: x.c}).granted()
		if x.code != "" && !fault.HasCode(err, x.code) || x.code == "" && (err != nil || shown(base, args) != x.want) {
			t.Errorf("%s: %q, %v; want %q%s", name, shown(base, args), err, x.want, x.code)
		}
	}
}
