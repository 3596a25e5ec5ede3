// Package year lives a year with Steward on a virtual clock, and measures what it remembers at the end.
//
// A person is made up from life.txt and talk.txt with a fixed seed: moves, new jobs, changed tastes, slips that
// are corrected, standing instructions, and much small talk. Three web pages want to be remembered, and two
// secrets are forgotten. The whole of `steward serve` runs with its database; only the language model and the
// web are doubles. At the end the person asks about everything, and the test looks at what Steward shows a model
// with each question: the facts and passages that an answer would rest on.
//
// Half of the topics were used to choose the weights of the recall ("tune"), the others only measure ("kept").
package year

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/app"
	"steward/internal/extract"
	"steward/internal/id"
	"steward/internal/memory"
	"steward/internal/record"
	"steward/internal/store"
	"steward/test/edge"
	"steward/test/network"
)

// world is Steward, and what is around it.
type world struct {
	t     testing.TB
	dir   string
	net   *network.Network
	model *model
	reads bool // the model reads conversations for facts

	logs  bytes.Buffer
	app   *app.App
	local *app.Local
	srv   *app.Server
}

// TestMain lets Steward read pages in this program.
func TestMain(m *testing.M) {
	if code, mine := extract.Inside(os.Args, os.Stdin, os.Stdout); mine {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// newWorld makes a world with an empty data folder. With reads, the model reads conversations for facts.
func newWorld(t testing.TB, l *life, reads bool) *world {
	w := &world{t: t, dir: t.TempDir(), net: network.New(t), model: &model{life: l}, reads: reads}
	settings := "listen: 127.0.0.1:7420\nprofile: {time_zone: UTC}\nweb: {hosts: [\"127.0.0.1:8080\"]}\nrouting: \"off\"\nmodels: {embed: offline/lexical}\n" +
		fmt.Sprintf("memory: {read: %t, rest: 1m, per_day: 1000}\n", reads)
	w.net.Serve(9001, edge.Script(t, w.model.reply))
	w.net.Serve(8080, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= len(poisons) {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<html><title>Tips</title><body><p>Ten tips for a tidy desk.</p><p>%s</p></body></html>", poisons[n].text)
	}))
	w.check(os.WriteFile(filepath.Join(w.dir, "steward.yaml"), []byte(settings), 0o600))
	t.Cleanup(func() {
		if w.local != nil {
			w.close()
		}
		if t.Failed() {
			t.Logf("%.5000s", w.logs.String())
		}
	})
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// open starts Steward as steward serve does.
func (w *world) open() {
	w.t.Helper()
	env := []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=127.0.0.1:1", "OPENAI_API_KEY=test-key", "OPENAI_BASE_URL=http://127.0.0.1:9001/v1"}
	w.app = &app.App{Stderr: io.Discard, Dir: w.dir, Serving: true, Config: filepath.Join(w.dir, "steward.yaml"), Data: filepath.Join(w.dir, "data"), Environ: env,
		Outside: app.Outside{Dial: w.net.Dial, Listen: w.net.Listen, Poll: time.Hour}}
	set, err := w.app.Settings()
	w.check(err)
	log := w.app.Logger(set, &w.logs)
	ctx := context.Background()
	w.local, err = w.app.OpenLocal(ctx, set, log)
	w.check(err)
	w.srv, err = w.app.Listen(ctx, set, w.local, set.Listen, log)
	w.check(err)
	synctest.Wait()
}

func (w *world) close() {
	w.t.Helper()
	w.check(w.srv.Close())
	w.check(w.local.Close())
	w.local = nil
	synctest.Wait()
}

// until lets time pass with Steward off.
func (w *world) until(at time.Time) {
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// say has the person say something, and waits until it is answered. conv is empty for a new conversation.
func (w *world) say(conv, text string) string {
	w.t.Helper()
	if fact, ok := strings.CutPrefix(text, "Remember that "); ok && !w.reads { // by the command, which asks no model
		fact = strings.ToUpper(fact[:1]) + fact[1:]
		_, err := w.local.Own.SaveFact(w.t.Context(), client.FactInput{Text: &fact})
		w.check(err)
		time.Sleep(5 * time.Second)
		return conv
	}
	got, err := w.local.Own.Say(w.t.Context(), client.Message{Conversation: conv, Content: []client.Block{{Type: "text", Text: text}}})
	w.check(err)
	time.Sleep(5 * time.Second)
	synctest.Wait()
	return got.Conversation
}

// recalled returns the lines of what was recalled in a conversation, as a model is shown them.
func (w *world) recalled(conv string) string {
	w.t.Helper()
	c, ok := id.Parse(conv)
	if !ok {
		w.t.Fatalf("%q is no conversation", conv)
	}
	facts, err := w.memory().Facts(w.t.Context(), w.local.User)
	w.check(err)
	var b strings.Builder
	for it, err := range store.Items(w.t.Context(), w.local.Store, store.ForUser(w.local.User), store.Query{Type: record.TypeMessage, Under: record.ConversationURI(c), Limit: store.DefaultLimit}) {
		w.check(err)
		m, err := record.DecodeMessage(it.URI, it.Body)
		w.check(err)
		if len(m.Blocks) == 0 || m.Blocks[0].Base().Origin != record.OriginMemory {
			continue
		}
		if refs := memory.ParseReference(m.Text()); refs != nil {
			b.WriteString(memory.Render(refs, facts, time.UTC) + "\n")
		}
		passages := memory.ParsePassages(m.Text())
		found, err := w.memory().ReadPassages(w.t.Context(), w.local.User, passages)
		w.check(err)
		b.WriteString(memory.RenderPassages(passages, found, time.UTC) + "\n")
	}
	return b.String()
}

// memory returns an engine that reads the facts.
func (w *world) memory() *memory.Engine { return memory.New(memory.Options{Store: w.local.Store}) }
