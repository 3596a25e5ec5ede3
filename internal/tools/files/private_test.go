package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/test/localtest"
	"steward/test/must"
)

// What is Steward's own is seen by no tool, wherever a granted folder lies and however the path is written:
// above it, in it, and by hard links. Everything beside it is as usual.
func TestStewardsOwnIsNotSeen(t *testing.T) {
	home := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{home}, names...)...) }
	for _, name := range []string{"share/steward/secrets/mail", "share/steward/token", "share/steward/a/b/deep.txt", "conf/steward/steward.yaml", "mcp.json", "share/other.txt"} {
		must.Do(t, os.MkdirAll(filepath.Dir(at(name)), 0o700))
		must.Do(t, os.WriteFile(at(name), []byte("canary "+name+"\n"), 0o600))
	}
	must.Do(t, os.Link(at("share/steward/token"), at("harmless.txt")))
	must.Do(t, os.Link(at("mcp.json"), at("again.json")))
	must.Do(t, os.Symlink(at("share/steward"), at("link")))
	must.Do(t, os.WriteFile(at("one"), []byte("canary of one\n"), 0o600))
	must.Do(t, os.Link(at("one"), at("two"))) // of no concern
	private := []string{at("share/steward"), at("conf/steward"), at("mcp.json"), at("nowhere"), "/proc"}
	trash := t.TempDir()
	r := kitOf(t, Options{Folders: []Folder{{Name: "home", Path: home, Write: true}, {Name: "deep", Path: at("share/steward/a"), Write: true},
		{Name: "linked", Path: at("link/secrets")}, {Name: "process", Path: "/proc/self"}, {Name: "machine", Path: "/"}},
		Private: func() []string { return private }, Trash: func(string) string { return trash }})
	refused := []string{"home/share/steward", "home/share/steward/token", "home/share/steward/secrets/mail", "home/conf/steward/steward.yaml", "home/mcp.json",
		"home/harmless.txt", "home/again.json", "home/link/token", "deep", "deep/b/deep.txt", "linked/mail", "process/environ", "machine/proc/self/environ",
		"machine/proc/self/root" + at("share/steward/token"), "machine" + at("share/steward/token")}
	for _, path := range refused {
		for _, c := range [][2]string{
			{"files.read", `{"path":%q}`}, {"files.search", `{"query":"canary","path":%q}`}, {"files.list", `{"path":%q}`},
			{"files.write", `{"path":%q,"content":"mine","overwrite":true}`}, {"files.edit", `{"path":%q,"old":"canary","new":"mine"}`},
			{"files.move", `{"from":%q,"to":"home/moved"}`}, {"files.delete", `{"path":%q}`},
		} {
			got, err := localtest.Call(t, r, c[0], fmt.Sprintf(c[1], path))
			if c[0] == "files.list" && err != nil && !fault.HasCode(err, "path_refused") {
				continue // it is no folder
			}
			if !fault.HasCode(err, "path_refused") && !fault.HasCode(err, "folder_read_only") && !(path == "deep" && fault.HasCode(err, "not_a_file")) {
				t.Errorf("%s %s: %s, %v", c[0], path, got, err)
			}
		}
	}
	for _, path := range []string{"home/share", "home/conf"} { // what holds it stays where it is
		for tool, args := range map[string]string{"files.move": `{"from":%q,"to":"home/moved"}`, "files.delete": `{"path":%q}`} {
			if got, err := localtest.Call(t, r, tool, fmt.Sprintf(args, path)); !fault.HasCode(err, "path_refused") {
				t.Errorf("%s %s: %s, %v", tool, path, got, err)
			}
		}
	}
	if got, err := localtest.Call(t, r, "files.move", `{"from":"home/share/other.txt","to":"home/share/steward/new.txt"}`); !fault.HasCode(err, "path_refused") {
		t.Errorf("moved into it: %s, %v", got, err)
	}
	if got, err := localtest.Call(t, r, "files.search", `{"query":"canary","path":"home"}`); err != nil || strings.Count(got, "canary") != 3 ||
		!strings.Contains(got, "home/share/other.txt:1: canary share/other.txt\n") || !strings.Contains(got, "home/two:1:") {
		t.Errorf("a search: %s, %v", got, err)
	}
	few := kitOf(t, Options{Folders: []Folder{{Name: "deep", Path: at("share/steward/a")}, {Name: "home", Path: home}}, Private: func() []string { return private }})
	if got, err := localtest.Call(t, few, "files.search", `{"query":"canary"}`); err != nil || strings.Count(got, "canary") != 3 {
		t.Errorf("a search of all folders: %s, %v", got, err)
	}
	if got, err := localtest.Call(t, r, "files.list", `{"path":"home/share"}`); err != nil || strings.Contains(got, "steward") || !strings.Contains(got, "other.txt") {
		t.Errorf("a list: %s, %v", got, err)
	}
	if got, err := localtest.Call(t, r, "files.list", `{"path":"home"}`); err != nil || strings.Contains(got, "mcp.json") || strings.Contains(got, "harmless") {
		t.Errorf("a list: %s, %v", got, err)
	}
	if got, err := localtest.Call(t, r, "files.edit", `{"path":"home/two","old":"canary","new":"bird"}`); err != nil {
		t.Errorf("a file beside it: %s, %v", got, err)
	}
	if b := must.Get(os.ReadFile(at("share/steward/token"))); string(b) != "canary share/steward/token\n" {
		t.Errorf("the token is %q", b)
	}
}
