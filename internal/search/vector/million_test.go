//go:build long

package vector_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/store"
)

// BenchmarkHybrid measures searches in the messages of one owner, beside whom 20 others have
// a tenth as many together, with the settings of a server. All messages are committed to a
// store and read from its log, as in use. The searches run in a process of their own, so
// that its memory is theirs. STEWARD_BENCH_DIR names a folder in which the files are kept
// for the next run.
func BenchmarkHybrid(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkHybrid(b, size) })
	}
}

// measureEnv names the folder that a process measures searches in.
const measureEnv = "STEWARD_TEST_MEASURE_DIR"

func benchmarkHybrid(b *testing.B, size int) {
	dir := b.TempDir()
	if kept := os.Getenv("STEWARD_BENCH_DIR"); kept != "" {
		dir = filepath.Join(kept, fmt.Sprint(size))
		must(b, os.MkdirAll(dir, 0o700))
	}
	w := openWorld(b, dir, vector.Options{})
	_, err := os.Stat(filepath.Join(dir, "full"))
	if errors.Is(err, fs.ErrNotExist) {
		start := time.Now()
		w.town(size)
		b.Logf("%d messages were committed within %v", size, time.Since(start).Round(time.Second))
		must(b, os.WriteFile(filepath.Join(dir, "full"), nil, 0o600))
	}
	text := fts.New(fts.Options{Path: filepath.Join(dir, "search.db"), Store: w.store})
	start := time.Now()
	must(b, text.CatchUp(b.Context()))
	words := time.Since(start)
	start = time.Now()
	w.catchUp()
	b.Logf("read by words within %v, by vectors within %v", words.Round(time.Second), time.Since(start).Round(time.Second))
	must(b, text.Close())
	w.close()
	for _, name := range []string{"search.db", "vectors.db"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(b, err)
		b.Logf("%s has %d MB", name, info.Size()>>20)
	}
	program, err := os.Executable()
	must(b, err)
	for _, way := range []string{"plain scan", "FTS5 alone", "text", "vectors", "hybrid"} {
		cmd := exec.Command(program, "-test.run=^TestMeasure$", "-test.v")
		cmd.Env = append(os.Environ(), measureEnv+"="+dir, measureEnv+"_WAY="+way)
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%s: %v\n%s", way, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, figures, ok := strings.Cut(line, "figures: "); ok {
				b.Logf("%8d messages, %-10s %s", size, way, strings.TrimSpace(figures))
			}
		}
	}
}

// syllables make the words of the town.
var syllables = strings.Fields("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bra cle dri fro glu sta tre spi plo cru")

// townWord returns one of the words of the town, by its place in the order of frequency.
func townWord(n uint64) string {
	var b strings.Builder
	for n += 40; n > 0; n /= uint64(len(syllables)) {
		b.WriteString(syllables[n%uint64(len(syllables))])
	}
	return b.String()
}

var functionWords = strings.Fields("the of and to in is that it was for on with as at by this from or had not are but have")

// townText returns a text of 8 to 50 words. Half of them are function words; the others are
// distributed by Zipf's law, and the most frequent one is in every ninth message.
func townText(r *rand.Rand, z *rand.Zipf) string {
	var b strings.Builder
	for range 4 + r.IntN(22) {
		b.WriteString(townWord(z.Uint64()))
		b.WriteByte(' ')
		b.WriteString(functionWords[r.IntN(len(functionWords))])
		b.WriteByte(' ')
	}
	return b.String()
}

func townZipf(r *rand.Rand) *rand.Zipf { return rand.NewZipf(r, 1.15, 30, 60_000) }

// town commits the messages of ana and of 20 others, in conversations of 100 messages.
func (w *world) town(size int) {
	r := rand.New(rand.NewPCG(1, 2))
	z := townZipf(r)
	const each = 100
	for at := 0; at < size+size/10; at += each {
		user := "ana"
		if at%(11*each) == 10*each {
			user = fmt.Sprint("user", at/(11*each)%20)
		}
		c := w.talk(user, fmt.Sprint("talk ", at))
		var changes []store.Change
		for j := range each {
			m := userSays(townText(r, z))
			if j%2 == 1 {
				m.Role = message.Assistant
			}
			changes = append(changes, c.change(m))
		}
		w.commit(user, changes...)
	}
}

// townQuestions are of words from the messages, as they come: most questions have frequent
// and rare ones.
func townQuestions(n int) (out []string) {
	r := rand.New(rand.NewPCG(1, 2))
	z := townZipf(r)
	other := rand.New(rand.NewPCG(3, 4))
	for len(out) < n {
		var all []string
		for i, word := range strings.Fields(townText(r, z)) {
			if i%2 == 0 {
				all = append(all, word)
			}
		}
		other.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		out = append(out, "what is the "+strings.Join(all[:min(len(all), 3+other.IntN(4))], " ")+"?")
	}
	return out
}

// TestMeasure is run by BenchmarkHybrid in a process of its own.
func TestMeasure(t *testing.T) {
	dir, way := os.Getenv(measureEnv), os.Getenv(measureEnv+"_WAY")
	if dir == "" {
		return // there is nothing to measure
	}
	w := openWorld(t, dir, vector.Options{})
	h := w.hybrid(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Follow(ctx) }()
	search := measured(t, w, h, way)
	start := time.Now()
	search("what is the warm up?")
	first := time.Since(start)
	many := 300
	if way == "plain scan" || way == "FTS5 alone" {
		many = 40 // they take long
	}
	var times, work []time.Duration
	for _, q := range townQuestions(many) {
		start, cpu := time.Now(), used(t)
		search(q)
		times, work = append(times, time.Since(start)), append(work, used(t)-cpu)
	}
	slices.Sort(times)
	slices.Sort(work)
	cancel()
	<-done
	w.close()
	show := func(all []time.Duration, percent int) time.Duration {
		return all[many*percent/100].Round(10 * time.Microsecond)
	}
	t.Logf("figures: P50 %v, P95 %v, of CPU time P50 %v, P95 %v; the first one %v; memory at most %d MB", show(times, 50), show(times, 95), show(work, 50), show(work, 95),
		first.Round(time.Millisecond), peak(t))
}

// used returns the CPU time of the process. It does not depend on what else the machine does.
func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured returns a way to search.
func measured(t *testing.T, w *world, h *vector.Hybrid, way string) func(string) {
	scope := store.ForUser("ana")
	ask := func(mode search.Mode) func(string) {
		return func(text string) {
			page, err := h.Search(t.Context(), scope, search.Query{Text: text, Mode: mode})
			must(t, err)
			if page.Behind != 0 {
				t.Fatalf("%d entries are missing", page.Behind)
			}
		}
	}
	switch way {
	case "text":
		return ask(search.ByText)
	case "vectors":
		return ask(search.ByVectors)
	case "hybrid":
		return ask(search.Hybrid)
	case "plain scan":
		return plainScan(t, w)
	}
	return fts5Alone(t, w)
}

// peak returns the most memory that the process has had, in MB.
func peak(t *testing.T) int {
	f, err := os.Open("/proc/self/status")
	must(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if kb, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.Fields(kb)[0])
			must(t, err)
			return n >> 10
		}
	}
	return 0
}
