package fts_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/store"
	"steward/test/postgres"
)

// vocabulary returns 20,000 words of English and German, alternating, the frequent
// ones first: those of the documents and of the page's German texts, and compounds of
// these.
func vocabulary(b *testing.B) []string {
	var all [2][]string
	for i, pattern := range []string{"../../../docs/*/*.md", "../../server/page/german.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			b.Fatal(pattern, err)
		}
		count := map[string]int{}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			for _, w := range regexp.MustCompile(`\pL{2,}`).FindAllString(strings.ToLower(string(text)), -1) {
				count[w]++
			}
		}
		for w := range count {
			all[i] = append(all[i], w)
		}
		slices.SortFunc(all[i], func(x, y string) int {
			if count[x] != count[y] {
				return count[y] - count[x]
			}
			return strings.Compare(x, y)
		})
		for n := len(all[i]); len(all[i]) < 10_000; {
			k := len(all[i])
			all[i] = append(all[i], all[i][k*7%n]+all[i][k*13%n])
		}
	}
	var out []string
	for i := range 10_000 {
		out = append(out, all[0][i], all[1][i])
	}
	return out
}

// rows is the size of a part of the corpus that is written at once.
const (
	benchUsers    = 20
	benchMessages = 100_000
	benchRows     = 500
)

func selfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBesidePostgres compares the index of the node with PostgreSQL's own text
// search, over the same 100,000 messages in German and English of 20 users, of whom one
// asks. In PostgreSQL the words of a message stand as they are and in the basic forms
// of both languages, as in the index of the node, beside a word for its owner, so that
// the index finds both at once. docs/decisions/0014-postgres.md has the outcome.
func BenchmarkBesidePostgres(b *testing.B) {
	ctx := context.Background()
	words := vocabulary(b)
	w := openWorld(b, b.TempDir())
	defer w.close()
	c, err := postgres.Start(true)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	conn, err := pgx.Connect(ctx, c.Super(c.Database(b, "")))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE words (seq bigint PRIMARY KEY, space text NOT NULL, tsv tsvector NOT NULL); CREATE INDEX words_tsv ON words USING gin (tsv)"); err != nil {
		b.Fatal(err)
	}

	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 3, uint64(len(words)-1))
	var talks []*talk
	for i := range benchUsers {
		talks = append(talks, w.talk(fmt.Sprint("user", i), "talk"))
	}
	var there, thereCPU time.Duration
	for i := 0; i < benchMessages; i += benchRows {
		t := talks[i/benchRows%benchUsers]
		var changes []store.Change
		var seqs []int64
		var texts []string
		for j := range benchRows {
			var s strings.Builder
			for range 20 + r.IntN(40) {
				s.WriteString(words[z.Uint64()] + " ")
			}
			changes = append(changes, t.change(&message.Message{Role: message.User, Blocks: text(s.String())}))
			seqs, texts = append(seqs, int64(i+j+1)), append(texts, s.String())
		}
		w.commit(t.Owner, changes...)
		began := time.Now()
		before, err := c.CPU()
		if err != nil {
			b.Fatal(err)
		}
		_, err = conn.Exec(ctx, `INSERT INTO words SELECT s, $3, to_tsvector('simple', t) || to_tsvector('english', t) || to_tsvector('german', t) || array_to_tsvector(ARRAY[' ' || $3])
			FROM unnest($1::bigint[], $2::text[]) AS r(s, t)`, seqs, texts, t.Owner)
		if err != nil {
			b.Fatal(err)
		}
		after, err := c.CPU()
		if err != nil {
			b.Fatal(err)
		}
		there, thereCPU = there+time.Since(began), thereCPU+after-before
	}
	if _, err := conn.Exec(ctx, "VACUUM ANALYZE words"); err != nil {
		b.Fatal(err)
	}
	began, before := time.Now(), selfCPU()
	if err := w.index.CatchUp(ctx); err != nil {
		b.Fatal(err)
	}
	here, hereCPU := time.Since(began), selfCPU()-before
	size, err := os.Stat(w.path())
	if err != nil {
		b.Fatal(err)
	}
	var table, gin int64
	if err := conn.QueryRow(ctx, "SELECT pg_total_relation_size('words'), pg_relation_size('words_tsv')").Scan(&table, &gin); err != nil {
		b.Fatal(err)
	}
	b.Logf("the index of the node: %v, %v of CPU, %d MB; PostgreSQL: %v, %v of CPU, %d MB, of which %d MB are its index", here.Round(time.Millisecond), hereCPU.Round(time.Millisecond), size.Size()>>20,
		there.Round(time.Millisecond), thereCPU.Round(time.Millisecond), table>>20, gin>>20)

	// The words of a question: of every frequency, as people ask.
	pick := func(from, to int) string { return words[from+r.IntN(to-from)] }
	for name, kind := range map[string]struct {
		order search.Order
		words func() []string
	}{
		"newest, one frequent word": {search.Newest, func() []string { return []string{pick(0, 20)} }},
		"newest, one rare word":     {search.Newest, func() []string { return []string{pick(2000, 10000)} }},
		"newest, two words":         {search.Newest, func() []string { return []string{pick(0, 100), pick(100, 1000)} }},
		"best, three to six words": {search.Best, func() (out []string) {
			for range 3 + r.IntN(4) {
				out = append(out, pick(10, 5000))
			}
			return out
		}},
	} {
		var own, other []time.Duration
		hits := [2]int{}
		for range 100 {
			q := kind.words()
			began := time.Now()
			hits[0] += len(w.search("user3", search.Query{Text: strings.Join(q, " "), Order: kind.order, Limit: 20}).Hits)
			own = append(own, time.Since(began))

			began = time.Now()
			var rows pgx.Rows
			if kind.order == search.Newest {
				rows, err = conn.Query(ctx, "SELECT seq FROM words WHERE tsv @@ (to_tsquery('simple', $1) && quote_literal(' ' || $2)::tsquery) AND space = $2 ORDER BY seq DESC LIMIT 20", strings.Join(q, " & "), "user3")
			} else {
				rows, err = conn.Query(ctx, `SELECT seq FROM words, (SELECT to_tsquery('english', $1) || to_tsquery('german', $1)) AS q(q)
					WHERE tsv @@ (q && quote_literal(' ' || $2)::tsquery) AND space = $2 ORDER BY ts_rank(tsv, q, 1) DESC, seq DESC LIMIT 20`, strings.Join(q, " | "), "user3")
			}
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
				hits[1]++
			}
			if rows.Err() != nil {
				b.Fatal(rows.Err())
			}
			other = append(other, time.Since(began))
		}
		slices.Sort(own)
		slices.Sort(other)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.Logf("%s: the index of the node %.1f and %.1f ms (%d hits), PostgreSQL %.1f and %.1f ms (%d hits)", name, ms(own[50]), ms(own[95]), hits[0], ms(other[50]), ms(other[95]), hits[1])
	}
}
