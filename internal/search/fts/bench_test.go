package fts_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/store"
)

// fill adds n messages of about 40 words, with Zipf's distribution, in ten
// conversations of two users.
func (w *world) fill(n int) {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 3, 20_000)
	var talks []*talk
	for i := range 10 {
		talks = append(talks, w.talk([]string{"ana", "ben"}[i%2], fmt.Sprint("talk ", i)))
	}
	const many = 500
	for i := 0; i < n; i += many {
		c := talks[i/many%len(talks)]
		var changes []store.Change
		for j := range many {
			var b strings.Builder
			for range 20 + r.IntN(40) {
				fmt.Fprintf(&b, "word%d ", z.Uint64())
			}
			if (i+j)%10_000 == 77 {
				b.WriteString("needle")
			}
			if j%50 == 0 {
				b.WriteString("北京大学的猫")
			}
			role := message.User
			if j%2 == 1 {
				role = message.Assistant
			}
			changes = append(changes, c.change(&message.Message{Role: role, Blocks: text(b.String())}))
		}
		w.commit(c.Owner, changes...)
	}
}

// BenchmarkSearch searches 100,000 messages. It reports the median of each kind of
// query, and the cost of indexing.
func BenchmarkSearch(b *testing.B) {
	w := openWorld(b, b.TempDir())
	defer w.close()
	w.fill(100_000)
	start := time.Now()
	if err := w.index.CatchUp(context.Background()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	size, err := os.Stat(w.path())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("100,000 messages were taken in within %v, into %d MB", took.Round(time.Millisecond), size.Size()>>20)
	for name, q := range map[string]search.Query{
		"best rare":   {Text: "needle word9000 word1", Order: search.Best},
		"best common": {Text: "word3 word7 word30 word200 word1500", Order: search.Best},
		"frequent":    {Text: "word1"},
		"two words":   {Text: "word5 word9"},
		"phrase":      {Text: `"word1 word2"`},
		"rare":        {Text: "needle"},
		"none":        {Text: "needle word19999"},
		"prefix":      {Text: "word12*"},
		"excluded":    {Text: "word3 -word1"},
		"choice":      {Text: "word7 OR word8 word30"},
		"chinese":     {Text: "北京大"},
		"neighbours":  {Text: "word1", Around: 1},
		"since":       {Text: "word1", Until: time.Date(2030, 1, 2, 6, 0, 0, 0, time.UTC)},
		"second page": {Text: "word1", After: w.search("ana", search.Query{Text: "word1"}).Next},
	} {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for b.Loop() {
				start := time.Now()
				w.search("ana", q)
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/median")
		})
	}
}

// BenchmarkCatch indexes turns of a chat with a tool call, of four messages each.
func BenchmarkCatch(b *testing.B) {
	w := openWorld(b, b.TempDir())
	defer w.close()
	var talks []*talk
	for i := range 32 {
		talks = append(talks, w.talk("ana", fmt.Sprint("talk ", i)))
	}
	const turns = 5000
	for i := range turns {
		c := talks[i%len(talks)]
		w.now = w.now.Add(5 * time.Millisecond)
		var changes []store.Change
		for _, said := range []*message.Message{
			{Role: message.User, Blocks: text(fmt.Sprintf("What is 12 times 7? This is question %d of the conversation, and it has about as many words as such a question tends to have.", i))},
			{Role: message.Assistant, Blocks: text("multiply")},
			{Role: message.Assistant, Blocks: text("84")},
			{Role: message.Assistant, Blocks: text("The product of the two numbers is what the tool said.")},
		} {
			changes = append(changes, c.change(said))
		}
		w.commit(c.Owner, changes...)
	}
	b.ResetTimer()
	if err := w.index.CatchUp(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/(4*turns), "µs/message")
}
