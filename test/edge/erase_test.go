package edge_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/test/edge"
)

// holders returns the files below a node's data folder that contain a text.
func holders(n *edge.Node, text string) (found []string) {
	n.T.Helper()
	err := filepath.WalkDir(n.Data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

// talker is a model that repeats its input.
func talker(t *testing.T) http.Handler {
	return edge.Script(t, func(in edge.Asked) edge.Reply { return edge.Reply{Text: "You said " + in.User()} })
}

const canary = "zqxcanaryzqx"

func TestErasedTextIsInNoFileWithoutAServer(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: talker(t)})
	n.Must("ask", "remember "+canary)
	n.Write(`"remember `+canary+`"`+"\n", "data", "history") // as the chat stores typed input
	conv := strings.Fields(n.Must("conversations", "list"))
	n.Must("search", canary)
	if len(holders(n, canary)) == 0 {
		t.Fatal("the text is in no file before it is erased")
	}
	var id string
	for _, w := range conv {
		if len(w) == 36 || len(w) == 32 || len(w) == 26 {
			id = w
			break
		}
	}
	n.Must("conversations", "delete", "--yes", "--erase", id)
	if left := holders(n, canary); left != nil {
		t.Errorf("the text is still in %v", left)
	}
}

func TestErasedTextIsInNoFileBesideReaders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		env   []string
		erase func(n *edge.Node, conv string)
	}{
		{"a conversation with erase", nil, func(n *edge.Node, conv string) {
			if status, b := n.HTTP("DELETE", "/api/v1/conversations/"+conv+"?erase=true", nil); status != 204 {
				n.T.Fatalf("%d %s", status, b)
			}
		}},
		{"a conversation where nothing deleted is kept", []string{"STEWARD_KEEP_DELETED=0s"}, func(n *edge.Node, conv string) {
			n.Must("conversations", "delete", "--yes", conv)
		}},
		{"messages with erase", nil, func(n *edge.Node, conv string) {
			var page struct{ Messages []struct{ ID string } }
			n.Get("/api/v1/conversations/"+conv+"/messages", &page)
			var ids []string
			for _, m := range page.Messages {
				ids = append(ids, m.ID)
			}
			n.Must(append([]string{"messages", "delete", "--erase", "--conversation", conv}, ids...)...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := edge.Serve(t, edge.Options{Model: talker(t), Env: c.env})
			watching := n.Dial()
			a := watching.Turn(map[string]any{"content": "remember " + canary}, nil)
			stop := make(chan struct{})
			searched := make(chan struct{})
			go func() { // reads the database and the index continuously
				defer close(searched)
				for {
					select {
					case <-stop:
						return
					default:
						n.Command("search", canary).Run() //nolint:errcheck // it finds nothing in the end
					}
				}
			}()
			c.erase(n, a.Conversation)
			left := holders(n, canary)
			close(stop)
			<-searched
			if left != nil {
				t.Errorf("the text is still in %v", left)
			}
		})
	}
}

func TestEventsAboutErasedResourcesAreErased(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: talker(t)})
	publish := func(uri string) string {
		return strings.TrimSpace(n.Must("events", "publish", uri, "--body", `{"text":"`+canary+`"}`))
	}
	gone := func(what string) {
		t.Helper()
		if left := holders(n, canary); left != nil {
			t.Fatalf("%s: the text is still in %v", what, left)
		}
	}
	n.Must("events", "erase", publish("cld:home.Lamp.kitchen"))
	gone("an event by its id")

	conv := n.Ask("hello", nil).Conversation
	publish("cld:common.Conversation." + conv)
	n.Must("conversations", "delete", "--yes", "--erase", conv)
	gone("an event about a conversation")

	const note = "cld:identity.User.local/home.Note.a"
	for _, text := range []string{"one ", "two "} {
		n.Must("resources", "put", note, "--body", `{"text":"`+text+canary+`"}`)
	}
	publish(note)
	n.Must("resources", "delete", "--erase", note)
	gone("a resource with its versions, and an event about it")

	conv = n.Ask("hello again", nil).Conversation
	var made struct{ ID string }
	n.JSON(&made, "branch", "new")
	n.Dial().Turn(map[string]any{"content": "remember " + canary, "conversation_id": conv}, nil)
	n.Must("branch", "switch", "main")
	n.Must("branch", "delete", "--erase", made.ID)
	gone("a branch")
	if r := n.Run("events", "erase", id.New().String()); r.Code == 0 || !strings.Contains(r.Err, "no event") {
		t.Errorf("%+v", r)
	}
}

func TestAnImportedCircleKeepsItsMessages(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	node := func(id, parent, text string) string {
		return `"` + id + `":{"id":"` + id + `","parent":"` + parent + `","children":[],"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["` + text + `"]}}}`
	}
	file := n.Write(`[{"title":"circle","mapping":{`+node("a", "b", "one")+`,`+node("b", "a", "two")+`},"current_node":"b","conversation_id":"x"}]`, "conversations.json")
	r := n.Run("import", file)
	if r.Code != 0 || !strings.Contains(r.Err, "2 messages") || !strings.Contains(r.Err, "cycle") {
		t.Errorf("%d %s%s", r.Code, r.Out, r.Err)
	}
}
