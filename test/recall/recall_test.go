//go:build long

// Package recall measures how well the search finds what was said: over 60 long
// conversations, questions in plain words ask for single statements with other words.
//
// The conversations are generated from templates (kinds.txt, filler.txt) with a fixed
// seed, so the figures are the same in each run. Half of the kinds of questions were used
// to choose the weights of the ranking (tune); the other half was not (kept). A statement
// may be corrected later; then the correction should come before it.
package recall

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

//go:embed kinds.txt
var kindsFile string

//go:embed filler.txt
var fillerFile string

const (
	conversations = 60
	messages      = 160 // in each conversation, about
	questions     = 600
	owner         = "ana"
)

// kind is a kind of fact.
type kind struct {
	name           string
	kept           bool
	say, fix, turn []string
	ask            []string
}

func kinds(t *testing.T) (all []kind) {
	t.Helper()
	for line := range strings.Lines(kindsFile) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		k := &kind{}
		if len(all) > 0 {
			k = &all[len(all)-1]
		}
		switch word {
		case "", "#":
		case "kind":
			name, half, _ := strings.Cut(rest, " ")
			all = append(all, kind{name: name, kept: half == "kept"})
		case "say":
			k.say = append(k.say, rest)
		case "fix":
			k.fix = append(k.fix, rest)
		case "turn":
			k.turn = append(k.turn, rest)
		case "ask":
			k.ask = append(k.ask, rest)
		default:
			t.Fatalf("kinds.txt has the line %q", line)
		}
	}
	return all
}

// values are what the letters of templates stand for.
var values = map[byte][]string{
	'N': strings.Fields("Ann Bea Carl Dora Emil Fay Gus Hana Ivo Jana Kurt Lena Milo Nora Otis Pia Quinn Rosa Sven Tara Ugo Vera Wim Xenia Yara Zeno Alma Bruno Cleo Dario"),
	'O': strings.Fields("Aldo Berta Cyril Doris Edgar Flora Georg Helga Ingo Josef"),
	'C': strings.Fields("Graz Linz Lyon Porto Turin Bergen Ghent Leeds Malmo Bilbao Trieste Basel Krakow Split"),
	'D': strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
	'T': strings.Fields("8:15 9:40 10:05 11:30 13:20 14:45 15:10 16:35 17:50 18:25"),
	'J': strings.Fields("carpenter nurse baker lawyer teacher welder librarian pilot gardener tailor"),
	'F': strings.Fields("walnuts celery parsnips ginger lentils mustard sesame plums beetroot rosemary"),
	'K': strings.Fields("red green silver black white yellow purple orange"),
	'E': {"3 May", "17 June", "21 October", "9 March", "30 January", "12 August", "26 November"},
	'W': strings.Fields("Falcon Juniper Meadow Comet Harbour Lantern Marble Saffron Willow Pepper"),
	'G': strings.Fields("teapot lamp backpack clock umbrella telescope blanket kettle camera"),
	'M': strings.Fields("40 65 85 120 150 210 300 480"),
	'S': strings.Fields("tennis handball chess hockey volleyball rowing badminton"),
	'P': strings.Fields("Amoxil Zestor Florin Candesan Ramitec Metoral"),
	'A': strings.Fields("cat dog parrot rabbit tortoise hamster"),
	'Z': strings.Fields("3 4 6 7 12 14 38 41 43"),
	'I': strings.Fields("cello flute harp trumpet accordion oboe"),
}

// fill replaces the letters of a template; those in fixed have a given value.
func fill(r *rand.Rand, template string, fixed map[byte]string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		v, ok := fixed[after[0]]
		if !ok {
			v = values[after[0]][r.IntN(len(values[after[0]]))]
		}
		b.WriteString(v)
		template = after[2:]
	}
}

// question asks for a message.
type question struct {
	kept   bool
	text   string
	answer id.ID
	old    id.ID // the statement that the answer corrects; zero: none
}

// line is a message to come.
type line struct {
	role message.Role
	text string
	id   id.ID
}

// town is the store with the conversations.
type town struct {
	store     *sqlite.Store
	questions []question
	messages  int
}

func build(t *testing.T) *town {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() }) //nolint:errcheck // nothing depends on it
	w := &town{store: st}
	r := rand.New(rand.NewPCG(7, 11))
	filler := strings.Split(strings.TrimSpace(fillerFile), "\n")
	talks := make([][]line, conversations)
	w.plant(t, r, talks)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, told := range talks {
		now = w.write(t, i, weave(r, told, filler), now)
	}
	return w
}

// plant puts statements into the conversations, and notes the questions about them. Each
// kind is told of a person once.
func (w *town) plant(t *testing.T, r *rand.Rand, talks [][]line) {
	all := kinds(t)
	type about struct {
		kind   int
		person string
	}
	var pairs []about
	for k := range all {
		for _, p := range values['N'] {
			pairs = append(pairs, about{k, p})
		}
	}
	r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for n, p := range pairs[:questions] {
		k, at := all[p.kind], n%len(talks)
		fixed := map[byte]string{'N': p.person}
		add := func(role message.Role, text string) id.ID {
			l := line{role, text, id.New()}
			talks[at] = append(talks[at], l)
			return l.id
		}
		if k.name == "pet" { // the question names the animal
			fixed['A'] = values['A'][r.IntN(len(values['A']))]
		}
		q := question{kept: k.kept, text: fill(r, k.ask[r.IntN(len(k.ask))], fixed)}
		switch {
		case len(k.turn) > 0:
			ask, answer, _ := strings.Cut(k.turn[r.IntN(len(k.turn))], "|")
			add(message.User, fill(r, ask, fixed))
			q.answer = add(message.Assistant, fill(r, answer, fixed))
		case len(k.fix) > 0 && n%2 == 0:
			q.old = add(message.User, fill(r, k.say[r.IntN(len(k.say))], fixed))
			if at < len(talks)-1 && n%4 == 0 { // the correction is in a later conversation
				at += 1 + r.IntN(len(talks)-1-at)
			}
			q.answer = add(message.User, fill(r, k.fix[r.IntN(len(k.fix))], fixed))
		default:
			q.answer = add(message.User, fill(r, k.say[r.IntN(len(k.say))], fixed))
		}
		w.questions = append(w.questions, q)
	}
}

// weave puts small talk between statements. An answer stays behind its question.
func weave(r *rand.Rand, told []line, filler []string) (out []line) {
	small := func() {
		for range max(1, (messages-len(told))/max(1, len(told))) {
			role := message.User
			if r.IntN(2) == 0 {
				role = message.Assistant
			}
			out = append(out, line{role, fill(r, filler[r.IntN(len(filler))], nil), id.New()})
		}
	}
	for i, l := range told {
		if l.role == message.User || i == 0 {
			small()
		}
		out = append(out, l)
	}
	small()
	return out
}

// write commits a conversation, and returns the time of its end.
func (w *town) write(t *testing.T, n int, lines []line, now time.Time) time.Time {
	t.Helper()
	conv, inter := id.New(), id.New()
	changes := []store.Change{{URI: record.ConversationURI(conv), Body: record.Encode(record.Conversation{
		ID: conv, Owner: owner, Title: fmt.Sprint("talk ", n), Created: now, Updated: now})}}
	var prev id.ID
	for i, l := range lines {
		now = now.Add(time.Minute)
		m := &message.Message{Role: l.role, At: now, Prev: prev, Blocks: []message.Block{&message.Text{Text: l.text}}}
		prev = l.id
		changes = append(changes, store.Change{URI: record.InteractionURI(conv, inter).ChildID(record.TypeMessage, l.id), Body: message.Append(nil, m),
			Place: &store.Place{List: record.BranchURI(conv, record.MainBranch), Pos: int64(i + 1)}})
	}
	for chunk := range slices.Chunk(changes, 200) {
		if _, err := w.store.Commit(t.Context(), store.ForUser(owner), store.Batch{Changes: chunk}); err != nil {
			t.Fatal(err)
		}
	}
	w.messages += len(lines)
	return now.Add(time.Hour)
}

// Figures is what a search achieves.
type figures struct {
	n, corrected      int
	recall, hit1, mrr float64
	current           float64 // share of corrected statements whose correction comes first
	took              time.Duration
}

// measure asks the questions of a half.
func (w *town) measure(t *testing.T, ix search.Index, mode search.Mode, kept bool) (f figures) {
	t.Helper()
	start := time.Now()
	for _, q := range w.questions {
		if q.kept != kept {
			continue
		}
		page, err := ix.Search(context.Background(), store.ForUser(owner), search.Query{Text: q.text, Mode: mode, Limit: 30})
		if err != nil {
			t.Fatal(err)
		}
		place := func(m id.ID) int {
			return slices.IndexFunc(page.Hits, func(h search.Hit) bool { return h.Message == m })
		}
		f.n++
		at := place(q.answer)
		if at >= 0 && at < 10 {
			f.recall++
			f.mrr += 1 / float64(at+1)
		}
		if at == 0 {
			f.hit1++
		}
		if !q.old.Zero() {
			f.corrected++
			if old := place(q.old); at >= 0 && (old < 0 || at < old) {
				f.current++
			}
		}
	}
	n := float64(f.n)
	f.recall, f.mrr, f.hit1, f.current = f.recall/n, f.mrr/n, f.hit1/n, f.current/float64(max(1, f.corrected))
	f.took = time.Since(start) / time.Duration(f.n)
	return f
}

// way is a way to search.
type way struct {
	name    string
	ranking fts.Ranking
	mode    search.Mode
}

// ways are what is compared, all over the same messages: FTS5's BM25 alone, the search in
// words, the built-in vectors, and what Steward does without an embedding model.
var ways = []way{
	{"plain BM25 over messages", fts.Ranking{Exact: true}, search.ByText},
	{"BM25 over stems with neighbours", fts.Ranking{Near: 0.3, Far: 0.1}, search.ByText},
	{"Steward, text", fts.DefaultRanking, search.ByText},
	{"Steward, lexical vectors", fts.DefaultRanking, search.ByVectors},
	{"Steward, hybrid", fts.DefaultRanking, search.Hybrid},
}

func TestRecall(t *testing.T) {
	w := build(t)
	if w.messages < 50*100 || len(w.questions) < 500 {
		t.Fatalf("%d messages, %d questions", w.messages, len(w.questions))
	}
	vectors := vector.New(vector.Options{Path: filepath.Join(t.TempDir(), "vectors.db"), Store: w.store})
	if err := errors.Join(vectors.CatchUp(t.Context()), vectors.Embed(t.Context())); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d questions about %d messages in %d conversations\n%-34s %5s %10s %7s %7s %8s %9s\n", len(w.questions), w.messages, conversations,
		"", "half", "recall@10", "MRR@10", "hit@1", "current", "a search")
	got := map[string]figures{}
	for _, r := range ways {
		words := fts.New(fts.Options{Path: filepath.Join(t.TempDir(), "search.db"), Store: w.store, Ranking: &r.ranking})
		if err := words.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		ix := &vector.Hybrid{Text: words, Vectors: vectors}
		for _, half := range []string{"tune", "kept"} {
			f := w.measure(t, ix, r.mode, half == "kept")
			got[r.name+half] = f
			fmt.Fprintf(&table, "%-34s %5s %10.3f %7.3f %7.3f %8.3f %9v\n", r.name, half, f.recall, f.mrr, f.hit1, f.current, f.took.Round(100*time.Microsecond))
		}
		if err := words.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := vectors.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	const point = 0.01
	hybrid := got["Steward, hybridkept"]
	for _, r := range ways[:4] {
		other := got[r.name+"kept"]
		if r.mode == search.ByText && r.ranking != fts.DefaultRanking {
			other.recall, other.mrr, other.hit1 = other.recall+point, other.mrr+point, other.hit1+point // it must be better, not as good
		}
		if hybrid.recall < other.recall-point || hybrid.mrr < other.mrr-point || hybrid.hit1 < other.hit1-point {
			t.Errorf("hybrid search is worse than %s", r.name)
		}
	}
	if hybrid.current < 0.65 {
		t.Errorf("the current statement comes first in %.0f %% only", 100*hybrid.current)
	}
}
