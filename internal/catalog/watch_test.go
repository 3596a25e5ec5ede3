package catalog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/store"
	"steward/test/leak"
	"steward/test/must"
)

func TestMain(m *testing.M) { leak.Main(m) }

// watching runs a test with the system's notifications, and with polling.
func watching(t *testing.T, test func(t *testing.T, w *world)) {
	for name, poll := range map[string]time.Duration{"notified": 0, "polling": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.opt.Watch, w.opt.Poll = true, poll
			test(t, w)
		})
	}
}

func status(c *Catalog, path string) Status {
	for _, l := range c.Listings() {
		if l.Path == path {
			return l.Status
		}
	}
	return ""
}

func TestWatchFoldersComeChangeAndGo(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.edge.offer("box", spec("box.add", "Adds."))
		c := w.open()
		w.agent("email", "mcp: {box: {files: [lib/run.py]}}\n")
		w.write("email/lib/run.py", "print(1)")
		until(t, c, "the new folder is found", func() bool { return status(c, "email") == Pending })
		approve(t, c, "email")
		w.agent("email/agents/filter", "")
		until(t, c, "a new child is found", func() bool { return status(c, "email/filter") == Pending })
		approve(t, c, "email/filter")

		// Like an editor: writes a new file and renames it over the old one.
		w.write("email/.agent.yaml.swp", "name: email\ndescription: Better.\nmcp: {box: {files: [lib/run.py]}}\n")
		must.Do(t, os.Rename(filepath.Join(w.dir, "email/.agent.yaml.swp"), filepath.Join(w.dir, "email/agent.yaml")))
		until(t, c, "the change is found", func() bool { return !usable(c, "email") && status(c, "email") == Pending })
		if usable(c, "email/filter") {
			t.Fatal("below what waits something is used")
		}
		approve(t, c, "email")

		w.write("email/lib/run.py", "print(2)")
		until(t, c, "the changed program is found", func() bool { return !usable(c, "email") })
		approve(t, c, "email")

		must.Do(t, os.Rename(filepath.Join(w.dir, "email"), filepath.Join(w.dir, "..", "elsewhere")))
		until(t, c, "the folder is gone", func() bool { return status(c, "email") == "" && len(c.Tree().ByPath) == 1 })
		must.Do(t, os.Rename(filepath.Join(w.dir, "..", "elsewhere"), filepath.Join(w.dir, "email")))
		until(t, c, "it is back, as approved", func() bool { return usable(c, "email") && usable(c, "email/filter") })
		w.remove("email/agents/filter")
		until(t, c, "the child is gone", func() bool { return !usable(c, "email/filter") && usable(c, "email") })
	})
}

func TestWatchAFolderThatAnotherOneHasReplaced(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.agent("email", "")
		c := w.open()
		old := filepath.Join(w.dir, "..", "old")
		must.Do(t, os.Rename(filepath.Join(w.dir, "email"), old))
		must.Do(t, os.CopyFS(filepath.Join(w.dir, "email"), os.DirFS(old)))
		must.Do(t, os.RemoveAll(old))
		says := func(what string) {
			w.write("email/agent.yaml", "name: email\ndescription: "+what+"\n")
			until(t, c, what+" is seen", func() bool {
				list := c.Listings()
				return len(list) == 1 && list[0].Description == what
			})
		}
		says("New.")
		says("In place.")
	})
}

func TestWatchManyFoldersThatAreMovedAwayAndDeleted(t *testing.T) {
	w := newWorld(t)
	w.opt.Watch, w.opt.Folders = true, nil
	for i := range 40 {
		top := filepath.Join(w.dir, fmt.Sprint(i))
		w.mkdir(top)
		w.opt.Folders = append(w.opt.Folders, top)
	}
	c := w.open()
	w.agent("0/first", "")
	until(t, c, "the folders are watched", func() bool { return status(c, "first") == Pending })
	for _, top := range w.opt.Folders[1:] {
		must.Do(t, os.Rename(top, top+".away"))
		must.Do(t, os.Remove(top+".away"))
	}
	w.agent("39/last", "")
	until(t, c, "the watch goes on", func() bool { return status(c, "last") == Pending })
}

func TestWatchAFolderThatIsNotThereYet(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.opt.Folders = []string{filepath.Join(w.dir, "not", "yet")}
		w.opt.Servers = []string{filepath.Join(w.dir, "mcp.json")}
		c := w.open()
		w.agent("not/yet/email", "")
		until(t, c, "the agent in the new folder is found", func() bool { return status(c, "email") == Pending })
		w.write("mcp.json", `{"mcpServers":{"docs":{"command":["x"]}}}`)
		until(t, c, "the server is found", func() bool { return status(c, "mcp:docs") == Pending })
		approve(t, c, "mcp:docs")
		w.remove("mcp.json")
		until(t, c, "the server is gone", func() bool { return status(c, "mcp:docs") == "" })
	})
}

func TestWatchAnInvalidAgentIsToldOnceAndTheRestGoesOn(t *testing.T) {
	watching(t, func(t *testing.T, w *world) {
		w.agent("good", "")
		w.write("bad/agent.yaml", "name: bad\ndescripton: x\n")
		c := w.approved("good")
		file := filepath.Join(w.dir, "bad/agent.yaml")
		if n := strings.Count(w.log.String(), "descripton"); n != 1 || !strings.Contains(w.log.String(), "file="+file) || !strings.Contains(w.log.String(), "line=2") || !strings.Contains(w.log.String(), "did you mean") {
			t.Fatalf("told %d times: %s", n, w.log)
		}
		for range 3 {
			rescan(t, c)
		}
		if n := strings.Count(w.log.String(), "descripton"); n != 1 {
			t.Fatalf("told %d times", n)
		}
		w.write("bad/agent.yaml", "name: bad\ndescription: x\n")
		until(t, c, "it is right now", func() bool { return status(c, "bad") == Pending })
		w.write("bad/agent.yaml", "name: bad\ndescripton: x\n")
		until(t, c, "it is told of again", func() bool { return status(c, "bad") == Invalid && strings.Count(w.log.String(), "descripton") == 2 })
		if !usable(c, "good") {
			t.Fatal("the rest does not go on")
		}
	})
}

func TestChangesAreTold(t *testing.T) {
	w := newWorld(t)
	w.agent("email", "")
	c := w.open()
	told := c.Changed()
	rescan(t, c)
	select {
	case <-told:
		t.Fatal("told of nothing")
	default:
	}
	v := c.Tree().Version
	approve(t, c, "email")
	<-told
	if c.Tree().Version <= v {
		t.Fatal("the version does not count up")
	}
	v, told = c.Tree().Version, c.Changed()
	w.agent("other", "")
	rescan(t, c)
	<-told
	if c.Tree().Version != v {
		t.Fatal("what waits is no change of what may be used")
	}
}

func TestAWatcherThatTheSystemDoesNotGrant(t *testing.T) {
	w := newWorld(t)
	w.opt.Watch = true
	w.agent("email", "")
	c := w.open()
	// Only folders can be watched.
	c.mu.Lock()
	c.dirs = append(c.dirs, "/dev/null/x")
	c.mu.Unlock()
	c.requestScan()
	w.agent("other", "")
	until(t, c, "it is found all the same", func() bool { return status(c, "other") == Pending })
	must.Do(t, c.Close())
	if err := c.Rescan(context.Background()); err == nil {
		t.Fatal("a closed catalog reads")
	}
}

func TestTheStateOfASourceIsKept(t *testing.T) {
	w := newWorld(t)
	w.agent("email", "mcp: {box: {}}\n")
	w.agent("other", "mcp: {cup: {}}\n")
	c := w.approved("email")
	src := w.edge.last("box")
	w.agent("other", "mcp: {cup: {url: 'http://localhost'}}\n")
	rescan(t, c)
	if w.edge.last("box") != src {
		t.Fatal("a source that has not changed was opened again")
	}
	select {
	case <-src.closed:
		t.Fatal("it was closed")
	default:
	}
	data := src.env.Data
	w.agent("email", "mcp: {box: {url: 'http://localhost'}}\n")
	rescan(t, c)
	if now := w.edge.last("box"); now == src || now.env.Data != data {
		t.Fatal("a changed source keeps its private folder, and is opened anew")
	}
}

// What one node decides about an agent is in effect at another one over the same store, once that is told.
func TestDecisionsOfAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.agent("post", "")
	here := w.open()
	w.opt.Data = t.TempDir()
	there := w.open()
	approve(t, there, "post")
	if here.Tree().ByPath["post"] != nil {
		t.Fatal("it is known before it was told")
	}
	told := func() {
		t.Helper()
		for en, err := range store.Entries(t.Context(), w.store, store.ForNode(""), store.LogQuery{}) {
			must.Do(t, err)
			must.Do(t, here.Told(t.Context(), en.URI, en.Version))
		}
	}
	if told(); here.Tree().ByPath["post"] == nil {
		t.Error("the agent that was approved elsewhere cannot be used")
	}
	scans := here.scans.Load()
	if told(); here.scans.Load() != scans {
		t.Errorf("%d scans for what is known", here.scans.Load()-scans)
	}
	must.Get(there.Revoke(t.Context(), "ann", "post", "no more"))
	if told(); here.Tree().ByPath["post"] != nil {
		t.Error("the agent that was revoked elsewhere can be used")
	}
}
