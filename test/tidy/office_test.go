package tidy_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tools/files"
	"steward/internal/turn"
	"steward/test/leak"
	"steward/test/storetest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const user = "anna"

// office is a Steward with the real files tools, a folder of real files, and a
// model that sees only what it is sent.
type office struct {
	*runtime.Node
	t     *testing.T
	dir   string
	model *bookkeeper
	conv  id.ID
}

// allow is an authorizer that allows everything.
type allow struct{}

func (allow) Authorize(context.Context, policy.Question) (policy.Decision, error) {
	return policy.Decision{Verdict: policy.Allow, Reason: "the folder is a test's own", Rule: "test"}, nil
}

// plain is a tool without its tidying strategies.
type plain struct{ tool.Tool }

func (p plain) Spec() tool.Spec {
	s := p.Tool.Spec()
	s.Tidy = nil
	return s
}

// Unwrap returns the wrapped tool.
func (p plain) Unwrap() tool.Tool { return p.Tool }

// Check implements tool.Checker.
func (p plain) Check(args []byte) error { return p.Tool.(tool.Checker).Check(args) }

// open opens an office. window is the context window of its model in tokens;
// zero means that everything fits.
func open(t *testing.T, strategies bool, window int) *office {
	t.Helper()
	o := &office{t: t, dir: t.TempDir(), model: &bookkeeper{}}
	o.furnish()
	server := httptest.NewServer(o.model)
	config := llm.Config{Providers: []llm.Provider{openai.New(openai.Options{Name: "test", BaseURL: server.URL + "/v1", HTTP: server.Client()})},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"test/bookkeeper"}}}, Retry: llm.RetryPolicy{Attempts: 1}}
	config.Windows = map[string]int{"test/bookkeeper": cmp.Or(window, 10_000_000)} // large enough for everything by default
	models, err := llm.New(config)
	o.must(err)
	st := storetest.NewModel()
	o.Node, err = runtime.Open(t.Context(), runtime.Options{Store: st, Models: models, Tools: o.tools(strategies), Authorizer: allow{},
		Agents: []agent.Definition{{Name: "clerk", Version: "1", Model: "default", Prompt: "You keep the books.", Tools: []string{"files.*"}}}})
	o.must(err)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := o.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		server.Client().CloseIdleConnections()
		server.Close()
	})
	return o
}

func (o *office) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) tools(strategies bool) *tool.Registry {
	o.t.Helper()
	list, err := files.Tools(files.Options{Folders: []files.Folder{{Name: "office", Path: o.dir, Write: true}}, Trash: func(string) string { return o.dir + "-trash" }})
	o.must(err)
	r := &tool.Registry{}
	for _, t := range list {
		if !slices.Contains([]string{"files.list", "files.read", "files.search", "files.write"}, t.Spec().Name) {
			continue
		}
		if !strategies {
			t = plain{t}
		}
		o.must(r.Add(t))
	}
	return r
}

// furnish writes three files. Each line has a name, a description and a number.
func (o *office) furnish() {
	for _, f := range []struct {
		name, line string
		lines      int
	}{
		{"ledger.txt", "item-%03d   paid to the supplier on the second of the month   %d\n", 40},
		{"stock.txt", "part-%03d   on the shelf in the back, counted by hand   %d\n", 50},
		{"hours.txt", "day-%03d   worked on the new house by the river, rain or shine   %d\n", 120},
	} {
		var b strings.Builder
		for i := range f.lines {
			fmt.Fprintf(&b, f.line, i+1, 10+i*7%90)
		}
		o.must(os.WriteFile(filepath.Join(o.dir, f.name), []byte(b.String()), 0o644))
	}
}

// file returns the current content of a file.
func (o *office) file(path string) string {
	o.t.Helper()
	b, err := os.ReadFile(filepath.Join(o.dir, strings.TrimPrefix(path, "office/")))
	o.must(err)
	return string(b)
}

// edit changes a file outside Steward, as a person does.
func (o *office) edit(path, old, new string) {
	o.t.Helper()
	text := o.file(path)
	if strings.Count(text, old) != 1 {
		o.t.Fatalf("%s has %q not just once", path, old)
	}
	o.must(os.WriteFile(filepath.Join(o.dir, strings.TrimPrefix(path, "office/")), []byte(strings.Replace(text, old, new, 1)), 0o644))
}

// ask sends a request. It returns the answer and the number of tokens that the
// model was shown for it.
func (o *office) ask(words string) (string, int64) {
	o.t.Helper()
	ctx := o.t.Context()
	acc, err := o.Send(ctx, user, turn.Input{Conversation: o.conv, Agent: "clerk", Content: []message.Block{&message.Text{Text: words}}})
	o.must(err)
	o.conv = acc.Conversation
	for f, err := range o.Watch(ctx, user, o.conv, turn.Cursor{Seq: acc.Seq - 1}) {
		o.must(err)
		if f.Kind == turn.FrameError {
			o.t.Fatalf("%s: %v", words, f.Err)
		}
		if f.Kind == turn.FrameComplete {
			break
		}
	}
	all := o.all()
	_, shown := o.model.shown()
	return all[len(all)-1].Text(), shown
}

// all returns all messages of the conversation.
func (o *office) all() (out []conversation.Entry) {
	o.t.Helper()
	for after := store.Cursor(""); ; {
		page, next, err := o.Conversations.Messages(o.t.Context(), store.ForUser(user), o.conv, after, 0, false)
		o.must(err)
		out = append(out, page...)
		if after = next; after == "" {
			return out
		}
	}
}
