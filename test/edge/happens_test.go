package edge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/client"
	"steward/test/edge"
	"steward/test/homeassistant"
	"steward/test/mailtest"
)

// Jobs begin on mail, on files and on a state of the home, once each, also on what happens while Steward does not run.
// The agent is told what happened, and no job begins on what was there before.
func TestJobsBeginWhenSomethingHappens(t *testing.T) {
	t.Parallel()
	server := mailtest.Start(t)
	house := homeassistant.Start(t, nil, homeassistant.Entity{ID: "light.hall", Name: "Hall light", State: "off"})
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply { return edge.Reply{Text: "Heard: " + in.User()} })})
	box := t.TempDir()
	withMailbox(n, server, "", fmt.Sprintf("folders: [{name: box, path: %q}]\nhome: {url: %q, token: %q}\n", box, house.URL, homeassistant.Token))
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(box, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server.Put(t, "INBOX", letter("old"))
	write("old.txt")
	n.Serve()
	watched(n)
	n.Must("jobs", "add", "Look at the mail", "--name", "letters", "--mail", "home", "--from", "bob", "--subject", "bill")
	n.Must("jobs", "add", "Look at the file", "--name", "papers", "--file", filepath.Join(box, "*.txt"))
	n.Must("jobs", "add", "Look at the light", "--name", "lights", "--home", "light.hall = on")
	for _, refused := range [][]string{{"--mail", "work"}, {"--file", "/etc/passwd"}, {"--home", "light.none=on"}, {"--home", "light.hall"}, {"--every", "day", "--agent", "nobody"}} {
		if r := n.Run(append([]string{"jobs", "add", "x", "--name", "x"}, refused...)...); r.Code == 0 {
			t.Errorf("%v was added", refused)
		}
	}
	history := func(name string) (list []client.Occurrence) { n.JSON(&list, "jobs", "history", name); return list }
	begun := func(times int) {
		t.Helper()
		for _, name := range []string{"letters", "papers", "lights"} {
			n.Until(fmt.Sprintf("%s has begun %d times", name, times), func() bool {
				list := history(name)
				if len(list) > times {
					t.Fatalf("%s: %+v", name, list)
				}
				return len(list) == times
			})
		}
	}
	cursors := func() map[string]string { // what is known of each
		var stored struct {
			Resources []struct{ Body struct{ Name, Cursor string } }
		}
		n.JSON(&stored, "resources", "list", "--type", "jobs.Job", "--bodies")
		out := map[string]string{}
		for _, j := range stored.Resources {
			if j.Body.Cursor != "" {
				out[j.Body.Name] = j.Body.Cursor
			}
		}
		return out
	}
	n.Until("the jobs are followed", func() bool { return len(cursors()) == 3 })
	server.Put(t, "INBOX", letter("another"))
	server.Put(t, "INBOX", letter("bill"))
	write("one.txt")
	write("one.pdf")
	house.Set("light.hall", "on")
	begun(1)
	n.Until("they are done", func() bool {
		return history("letters")[0].State == "done" && history("papers")[0].State == "done" && history("lights")[0].State == "done"
	})
	for name, want := range map[string]string{"letters": "subject: bill", "papers": "box/one.txt", "lights": "Hall light is on"} {
		if out := n.Must("messages", "list", "--conversation", history(name)[0].Conversation, "--json"); !strings.Contains(out, want) || !strings.Contains(out, "untrusted") {
			t.Errorf("%s is not told %q:\n%s", name, want, out)
		}
	}
	house.Set("light.hall", "off")
	n.Until("the light is seen to be off", func() bool { return cursors()["lights"] == "false" })
	n.Stop()
	server.Put(t, "INBOX", letter("bill"))
	write("two.txt")
	house.Set("light.hall", "on")
	n.Serve()
	begun(2)
}
