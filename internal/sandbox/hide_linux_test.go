package sandbox

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/must"
)

// What is hidden can neither be read nor written, and a program with the folder above it cannot put
// something else in its place: neither by renaming that folder, nor by removing it, nor through another
// mount that it makes.
func TestWhatIsHiddenIsNotReplaced(t *testing.T) {
	script := `cd "$HOME_OF_USER"
cat conf/steward/settings conf/file 2>&1
echo mine >conf/steward/settings
echo mine >conf/steward/new
echo mine >conf/file
rm -f conf/file
mv conf away && mkdir -p conf/steward && echo mine >conf/steward/settings
mv conf/steward conf/away
mv conf/file conf/away
rm -rf conf/steward
ln -s "$PWD/other" conf/steward
unshare -Urm sh -c 'umount conf/steward; umount -l conf; umount conf/file; cat conf/steward/settings conf/file; mount --bind other conf; echo mine >conf/steward/settings'
echo also >conf/other
`
	for _, free := range []bool{true, false} {
		home := folders(t, "conf/steward", "other/steward")
		at := func(name string) string { return filepath.Join(home, name) }
		for _, name := range []string{"conf/steward/settings", "conf/file"} {
			must.Do(t, os.WriteFile(at(name), []byte("SECRET"), 0o600))
		}
		c := Command{Path: "sh", Args: []string{"-c", script}, Unsandboxed: free, Env: []string{"HOME_OF_USER=" + home}, Hide: []string{at("conf/steward"), at("conf/file")}}
		if !free {
			c.Write = []string{home}
		}
		p := must.Get(Start(context.Background(), c))
		said := string(must.Get(io.ReadAll(p.Stdout)))
		must.Do(t, p.Wait())
		if said += p.Stderr(); strings.Contains(said, "SECRET") {
			t.Errorf("unsandboxed %v: it read what is hidden: %s", free, said)
		}
		for _, name := range []string{"conf/steward/settings", "conf/file"} {
			if b, err := os.ReadFile(at(name)); err != nil || string(b) != "SECRET" {
				t.Errorf("unsandboxed %v: %s is %q now, %v\n%s", free, name, b, err, said)
			}
		}
		if list := must.Get(os.ReadDir(at("conf/steward"))); len(list) != 1 {
			t.Errorf("unsandboxed %v: it made %v", free, list)
		}
		if b, err := os.ReadFile(at("conf/other")); err != nil || string(b) != "also\n" {
			t.Errorf("unsandboxed %v: it cannot write beside what is hidden: %v\n%s", free, err, said)
		}
	}
}
