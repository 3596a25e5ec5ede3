package vector_test

import (
	"context"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/killed"
	"steward/test/leak"
)

// world is a store with conversations, and an index over it.
type world struct {
	t     testing.TB
	dir   string
	store *sqlite.Store
	index *vector.Index
	now   time.Time
}

func openWorld(t testing.TB, dir string, opt vector.Options) *world {
	t.Helper()
	w := &world{t: t, dir: dir, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	must(t, err)
	w.store = st
	w.index = w.open(opt)
	return w
}

func newWorld(t testing.TB, opt vector.Options) *world {
	t.Helper()
	w := openWorld(t, t.TempDir(), opt)
	t.Cleanup(w.close)
	return w
}

func (w *world) path() string { return filepath.Join(w.dir, "vectors.db") }

func (w *world) open(opt vector.Options) *vector.Index {
	if opt.Path == "" {
		opt.Path = w.path()
	}
	opt.Store = w.store
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	return vector.New(opt)
}

// reopen closes the index and opens it with other options.
func (w *world) reopen(opt vector.Options) {
	must(w.t, w.index.Close())
	w.index = w.open(opt)
}

func (w *world) close() {
	must(w.t, w.index.Close())
	must(w.t, w.store.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) commit(user string, changes ...store.Change) {
	w.t.Helper()
	_, err := w.store.Commit(context.Background(), store.ForUser(user), store.Batch{Changes: changes})
	must(w.t, err)
}

// talk is a conversation of a user.
type talk struct {
	*world
	record.Conversation
	inter, head id.ID
	pos         int64
}

func (w *world) talk(user, title string) *talk {
	c := &talk{world: w, Conversation: record.Conversation{ID: id.New(), Owner: user, Title: title, Created: w.now, Updated: w.now}, inter: id.New()}
	c.put()
	return c
}

// put writes the conversation's record.
func (c *talk) put() {
	c.commit(c.Owner, store.Change{URI: record.ConversationURI(c.ID), Body: record.Encode(&c.Conversation)})
}

func (c *talk) uri(msg id.ID) resource.URI {
	return record.InteractionURI(c.ID, c.inter).ChildID(record.TypeMessage, msg)
}

func (c *talk) change(m *message.Message) store.Change {
	c.now = c.now.Add(time.Second)
	m.ID, m.Prev, m.At = id.New(), c.head, c.now
	c.head = m.ID
	c.pos++
	stored := *m
	stored.ID = id.ID{}
	return store.Change{URI: c.uri(m.ID), Body: message.Append(nil, &stored), Place: &store.Place{List: record.BranchURI(c.ID, record.MainBranch), Pos: c.pos}}
}

func (c *talk) add(blocks ...message.Block) id.ID {
	c.t.Helper()
	m := &message.Message{Role: message.User, Blocks: blocks}
	c.commit(c.Owner, c.change(m))
	return m.ID
}

func (c *talk) say(s string) id.ID {
	c.t.Helper()
	return c.add(&message.Text{Text: s})
}

// nearest returns the texts of the messages that a search finds, best first.
func (w *world) nearest(user string, q vector.Query) []string {
	w.t.Helper()
	a, err := w.index.Nearest(context.Background(), store.ForUser(user), q)
	must(w.t, err)
	var out []string
	for _, m := range a.Matches {
		res, err := w.store.Get(context.Background(), store.ForUser(user), m.URI)
		must(w.t, err)
		msg, err := record.DecodeMessage(m.URI, res.Body)
		must(w.t, err)
		out = append(out, search.Read(msg).Text)
	}
	return out
}

// expect checks what a search for a text finds, best first.
func (w *world) expect(user, text string, want ...string) {
	w.t.Helper()
	if got := w.nearest(user, vector.Query{Text: text, Limit: max(len(want), 1)}); !slices.Equal(got, want) {
		w.t.Fatalf("%s finds with %q:\n%q\nnot\n%q", user, text, got, want)
	}
}

// catchUp reads the log and embeds everything.
func (w *world) catchUp() {
	w.t.Helper()
	must(w.t, w.index.CatchUp(context.Background()))
	must(w.t, w.index.EmbedDue(context.Background()))
}

func (w *world) census() []vector.Census {
	w.t.Helper()
	c, err := w.index.Census(context.Background())
	must(w.t, err)
	return c
}

// double is an embedding model: texts that share words are similar. It notes what it was
// sent.
type double struct {
	name string
	dims int

	mu    sync.Mutex
	texts []string
	fail  func(texts []string) error
}

// Embed implements llm.Embedder.
func (d *double) Embed(_ context.Context, texts []string) (llm.Vectors, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail(texts); err != nil {
			return llm.Vectors{}, err
		}
	}
	d.texts = append(d.texts, texts...)
	out := llm.Vectors{Model: d.name}
	for _, t := range texts {
		v := make([]float32, d.dims)
		for _, word := range strings.Fields(strings.ToLower(t)) {
			h := fnv.New64a()
			h.Write([]byte(d.name + word))
			r := rand.New(rand.NewPCG(h.Sum64(), 1))
			for i := range v {
				v[i] += float32(r.NormFloat64())
			}
		}
		out.Values = append(out.Values, v)
		out.Tokens += int64(len(t)+3) / 4
	}
	return out, nil
}

func (d *double) sent() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.texts)
}

func (d *double) model() vector.Model { return vector.Model{Name: d.name, Embedder: d} }

// only returns the option Model for doubles, of which the first is the configured one.
func only(all ...*double) func(string) (vector.Model, error) {
	return func(name string) (vector.Model, error) {
		for _, d := range all {
			if name == "" || name == d.name {
				return d.model(), nil
			}
		}
		return vector.Model{}, errNone
	}
}

func TestMain(m *testing.M) {
	killed.Inside(builtKilled)
	leak.Main(m)
}

func userSays(s string) *message.Message {
	return &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: s}}}
}
