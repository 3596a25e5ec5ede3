package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
)

func TestGrantKeepsWhatIsThere(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"no file":      {"", "folders:\n  - name: docs\n    path: /home/ann/docs\n    write: true\n"},
		"no folders":   {"# mine\nlog: {level: warn}", "# mine\nlog: {level: warn}\nfolders:\n  - name: docs\n    path: /home/ann/docs\n    write: true\n"},
		"an empty one": {"folders: # none yet\nlog: {level: warn}\n", "folders: # none yet\n  - name: docs\n    path: /home/ann/docs\n    write: true\nlog: {level: warn}\n"},
		"a list":       {"folders:\n- name: a # first\n  path: /a\n", "folders:\n- name: docs\n  path: /home/ann/docs\n  write: true\n- name: a # first\n  path: /a\n"},
		"deeper":       {"folders:\n    # mine\n    - {name: a, path: /a}\n", "folders:\n    - name: docs\n      path: /home/ann/docs\n      write: true\n    # mine\n    - {name: a, path: /a}\n"},
		"in brackets":  {"folders: [{name: a, path: /a}] # x\n", "folders: [{name: docs, path: /home/ann/docs, write: true}, {name: a, path: /a}] # x\n"},
		"empty too":    {"folders: []\n", "folders: [{name: docs, path: /home/ann/docs, write: true}, ]\n"},
		"read before":  {"folders:\n  - name: d # mine\n    path: /home/ann/docs\n", "folders:\n  - write: true\n    name: d # mine\n    path: /home/ann/docs\n"},
		"and inline":   {"folders: [{name: d, path: /home/ann/docs}]\n", "folders: [{write: true, name: d, path: /home/ann/docs}]\n"},
	} {
		path := filepath.Join(t.TempDir(), "steward.yaml")
		if tt.before != "" {
			write(t, path, tt.before)
		}
		if err := Grant(path, Folder{Name: "docs", Path: "/home/ann/docs", Write: true}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != tt.after {
			t.Errorf("%s: %v\n%s", name, err, b)
		}
		if _, err := Load(Options{File: path, Environ: []string{"HOME=" + t.TempDir()}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrantRefuses(t *testing.T) {
	for _, before := range []string{"{a: 1}\n", "folders: x\n", "folders:\n  a: 1\n", "folders: [{write: false, path: /d, name: d}]\n", "folders: [\n", "folders: &x\n  - {name: a, path: /a}\n"} {
		path := filepath.Join(t.TempDir(), "steward.yaml")
		write(t, path, before)
		err := Grant(path, Folder{Name: "d", Path: "/d", Write: true})
		if !fault.HasCode(err, "settings_uneditable") || !strings.Contains(fault.Of(err).Remedy, "path: /d") {
			t.Errorf("%q: %v", before, err)
		}
		if b, _ := os.ReadFile(path); string(b) != before {
			t.Errorf("%q has become %q", before, b)
		}
	}
}

// Whatever the file looks like and the path is called, the grant is read back, or nothing is changed.
func TestGrantedFoldersAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		where := "/" + rapid.StringMatching(`[ -~äß€\n\t]{1,40}`).Draw(t, "path")
		before := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"# c\n", "log:\n  level: warn\n", "\n", "folders:\n  # d\n  - name: x\n    path: /x\n",
			"folders: [{name: y, path: /y}]\n", "folders:\n- name: z\n  path: /z\n", "folders: []\n"})).Draw(t, "file"), "")
		out, err := granted([]byte(before), Folder{Name: "new", Path: where})
		if err != nil {
			return // see TestGrantRefuses
		}
		root, err := parsed(out)
		if err != nil || root.Get("folders").List[0].Get("path").Text != where {
			t.Fatalf("%v %q", err, out)
		}
	})
}
