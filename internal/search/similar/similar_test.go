package similar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/test/leak"
	_ "steward/test/seed"
)

func TestMain(m *testing.M) { leak.Main(m) }

// double is an embedding model that knows a few words of two subjects.
type double struct {
	mu    sync.Mutex
	sent  [][]string
	delay time.Duration
	err   error
	dims  int
}

func (d *double) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	d.mu.Lock()
	delay, err := d.delay, d.err
	d.sent = append(d.sent, slices.Clone(texts))
	d.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return llm.Vectors{}, ctx.Err()
	}
	if err != nil {
		return llm.Vectors{}, err
	}
	out := llm.Vectors{Model: "test/e"}
	for _, t := range texts {
		v := make([]float32, max(d.dims, 3))
		v[2] = 0.1
		for _, w := range []string{"rain", "umbrella", "weather"} {
			v[0] += float32(strings.Count(t, w))
		}
		for _, w := range []string{"letter", "mail", "stamp"} {
			v[1] += float32(strings.Count(t, w))
		}
		out.Values = append(out.Values, v)
	}
	return out, nil
}

func (d *double) count() (requests, texts int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sent {
		texts += len(s)
	}
	return len(d.sent), texts
}

func finder(ctx context.Context, d *double) *Finder {
	return New(Options{Model: func() (Model, error) { return Model{"test/e", d}, nil }, Life: ctx, Go: func(f func()) bool { go f(); return true }})
}

var descriptions = []string{"weather: tells the weather", "mail: sends mail"}

func TestScores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &double{}
		f := finder(t.Context(), d)
		got := f.Scores(t.Context(), Request{Text: "do I need an umbrella?"}, descriptions)
		if len(got) != 2 || got[0] < 0.9 || got[1] > 0.1 {
			t.Fatalf("%v", got)
		}
		// What was embedded is not embedded again, also in another order and with one more.
		f.Scores(t.Context(), Request{Text: "do I need an umbrella?"}, []string{descriptions[1], descriptions[0], "stamps", "stamps"})
		if requests, texts := d.count(); requests != 3 || texts != 4 {
			t.Errorf("%d requests, %d texts: %q", requests, texts, d.sent)
		}
	})
}

// A request waits for a slow model only so long. What is being embedded goes on, and serves the next request.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &double{delay: 10 * time.Second}
		f := finder(t.Context(), d)
		began := time.Now()
		if got := f.Scores(t.Context(), Request{Text: "rain"}, descriptions); got != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %s", got, time.Since(began))
		}
		time.Sleep(10 * time.Second)
		d.mu.Lock()
		d.delay = time.Second
		d.mu.Unlock()
		if got := f.Scores(t.Context(), Request{Text: "rain"}, descriptions); got == nil {
			t.Error("the descriptions were not kept")
		}
		if requests, _ := d.count(); requests != 2 {
			t.Errorf("%d requests", requests)
		}
	})
}

// After a failure the model is left alone for a minute.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &double{err: errors.New("down")}
		f := finder(t.Context(), d)
		ask := func() []float64 { return f.Scores(t.Context(), Request{Text: "rain"}, descriptions) }
		for range 2 {
			if ask() != nil {
				t.Error("scores without vectors")
			}
		}
		if requests, _ := d.count(); requests != 1 {
			t.Errorf("%d requests", requests)
		}
		d.mu.Lock()
		d.err = nil
		d.mu.Unlock()
		time.Sleep(time.Minute)
		if ask() == nil {
			t.Error("the model is not asked again")
		}
	})
}

// What may not be sent is not, and what makes no sense is not compared.
func TestWhatIsNotCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &double{}
		f := finder(t.Context(), d)
		f.opt.Allow = func(_ context.Context, model string, r *llm.Request) error {
			if model != "test/e" || r.User != "ana" || r.Agent != "planner" {
				t.Errorf("%s %+v", model, r)
			}
			if r.Labels.Has(message.Private) {
				return errors.New("no")
			}
			return nil
		}
		for _, c := range []struct {
			r    Request
			docs []string
		}{
			{Request{User: "ana", Agent: "planner", Text: "rain", Labels: message.Private}, descriptions}, {Request{Text: "rain", Labels: message.Secret}, descriptions},
			{Request{Text: ""}, descriptions}, {Request{Text: "rain"}, nil}, {Request{Text: "rain"}, make([]string, maxTexts+1)},
		} {
			if got := f.Scores(t.Context(), c.r, c.docs); got != nil {
				t.Errorf("%+v: %v", c.r, got)
			}
		}
		if requests, _ := d.count(); requests != 0 {
			t.Errorf("%d requests", requests)
		}
		var none *Finder
		if none.Scores(t.Context(), Request{Text: "rain"}, descriptions) != nil {
			t.Error("no finder knows something")
		}
		f.opt.Model = func() (Model, error) { return Model{}, errors.New("none") }
		if f.Scores(t.Context(), Request{Text: "rain"}, descriptions) != nil {
			t.Error("no model knows something")
		}
	})
}

// The vectors that are kept are bounded, and those in use stay.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &double{dims: maxDims}
		f := finder(t.Context(), d)
		for i := range 4 {
			docs := []string{"rain in use"}
			for k := range 700 {
				docs = append(docs, fmt.Sprintf("letter %d %d", i, k))
			}
			if got := f.Scores(t.Context(), Request{Text: "umbrella"}, docs); len(got) != 701 || got[0] < 0.9 {
				t.Fatalf("round %d: %d scores", i, len(got))
			}
		}
		if n := len(f.now) + len(f.before); n > 2*maxKept/(4*maxDims) {
			t.Errorf("%d vectors are kept", n)
		}
		if _, texts := d.count(); texts != 4*700+2 {
			t.Errorf("%d texts were sent", texts)
		}
	})
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		words  []int
		scores []float64
		want   []int
	}{
		{[]int{3, 1}, nil, []int{3, 1}},
		{[]int{2, 0}, []float64{0.1, 0.9, 0.2}, []int{2, 0, 1}},
		{nil, []float64{0.1, 0.9}, []int{1, 0}},
		{[]int{1, 0}, []float64{0.5, 0.5}, []int{1, 0}},
	} {
		if got := Merge(c.words, c.scores); !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %v, not %v", c.words, c.scores, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 100).Draw(t, "scores")
		words := rapid.SliceOfDistinct(rapid.IntRange(0, len(scores)-1), func(i int) int { return i }).Draw(t, "words")
		got := Merge(words, scores)
		sorted := slices.Compact(slices.Sorted(slices.Values(got)))
		if len(sorted) != len(got) || got[0] < 0 {
			t.Fatalf("%v", got)
		}
		sum := 0.0
		for _, s := range Shares(scores) {
			sum += s
		}
		if sum < 0.999 || sum > 1.001 {
			t.Fatalf("the shares add up to %g", sum)
		}
	})
}
