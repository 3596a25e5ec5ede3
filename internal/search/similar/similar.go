// Package similar compares a request with what resources say of themselves: tools with what
// a person asks for, agents with the task that is to be done.
//
// A resource describes itself by four texts: its purpose, instructions, applicability and
// evaluation (resource.Metadata). They are compiled into one description, and the
// description is embedded by the model that also embeds messages (package vector). The
// similarity of a request and a resource is the cosine of the angle between their vectors.
//
// # Beside the words
//
// Those who ask have an order by words already (search/words, routing.Router). What is known
// by vectors is merged with it (Merge). Without an embedding model there is nothing to
// merge: vectors that are made of words find the right one of 1,000 tools less often than
// the words themselves (docs/concepts/routing.md), so they are not used here.
//
// # Life
//
// A vector is kept in memory by the hash of its text and model. The first request after a
// start, or after a change of the resources, has their descriptions embedded in the
// background, in batches. A request waits for them, and for its own vector, for
// Options.Patience together; then the words alone decide. After a failure the model is left
// alone for a minute. A request is sent only to a model that policy allows it to go to;
// what is secret is never sent.
package similar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/search"
)

// Model is an embedding model.
type Model struct {
	Name     string // "provider/model"
	Embedder llm.Embedder
}

// Options of New. Model, Life and Go are required.
type Options struct {
	// Model returns the configured embedding model, or an error if there is none.
	Model func() (Model, error)
	// Allow returns an error if a request with these labels may not go to a model. nil:
	// every request may.
	Allow func(ctx context.Context, model string, r *llm.Request) error
	// Patience is how long a request waits for vectors; zero: two seconds.
	Patience time.Duration
	// Life ends when the node closes, and Go runs a function that closing waits for.
	Life context.Context
	Go   func(func()) bool
	Log  *slog.Logger // nil: nothing is logged
}

// Bounds.
const (
	defaultPatience = 2 * time.Second
	maxText         = 2000 // bytes of a text that are embedded
	maxTexts        = 1200 // descriptions that one request is compared with; their vectors fit into maxKept
	maxDims         = 4096 // of a vector
	batch           = 96   // texts in one request to the model
	fillTimeout     = 5 * time.Minute
	pause           = time.Minute // after a failure
	maxKept         = 24 << 20    // bytes of vectors in each of two generations
)

// Finder compares requests with descriptions. A nil Finder knows nothing. It is safe for
// concurrent use.
type Finder struct {
	opt Options

	mu      sync.Mutex
	now     map[key][]float32 // the younger generation of what is kept
	before  map[key][]float32
	kept    int           // bytes in now
	filling chan struct{} // closed when the descriptions that are being embedded are there; nil: none are
	resting time.Time     // until then the model is not asked
}

type key [sha256.Size]byte

// New returns a finder.
func New(o Options) *Finder {
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Finder{opt: o, now: map[key][]float32{}}
}

// Request is what resources are compared with.
type Request struct {
	User   string
	Agent  string // on whose behalf the text is sent
	Labels message.Labels
	Text   string
}

// Scores returns how similar each description is to a request, from -1 to 1. It returns nil if that is
// not known: there is no model, it may not be sent the request, it fails, or it is too slow.
func (f *Finder) Scores(ctx context.Context, r Request, descriptions []string) []float64 {
	if f == nil || r.Text == "" || len(descriptions) == 0 || len(descriptions) > maxTexts || r.Labels.Has(message.Secret) {
		return nil
	}
	m, err := f.opt.Model()
	if err != nil || f.rests() {
		return nil
	}
	if f.opt.Allow != nil {
		if err := f.opt.Allow(ctx, m.Name, &llm.Request{User: r.User, Agent: r.Agent, Labels: r.Labels}); err != nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, f.opt.Patience)
	defer cancel()
	document, query := search.Prefixes(m.Name)
	texts := make([]string, len(descriptions))
	for i, d := range descriptions {
		texts[i] = document + llm.Cut(d, maxText)
	}
	if !f.known(ctx, m, texts) {
		return nil
	}
	asked := query + llm.Cut(r.Text, maxText)
	if _, ok := f.vector(m, asked); !ok {
		if err := f.embed(ctx, m, []string{asked}); err != nil {
			f.failed(ctx, m, err)
			return nil
		}
	}
	v, ok := f.vector(m, asked)
	out := make([]float64, len(texts))
	for i, t := range texts {
		d, there := f.vector(m, t)
		if !ok || !there || len(d) != len(v) {
			return nil // more is asked for at a time than is kept, or the model has changed
		}
		for k, x := range v {
			out[i] += float64(x) * float64(d[k])
		}
	}
	return out
}

// known waits until all texts have vectors. It returns false if that takes too long or fails.
func (f *Finder) known(ctx context.Context, m Model, texts []string) bool {
	for {
		missing := f.missing(m, texts)
		if len(missing) == 0 {
			return true
		}
		f.mu.Lock()
		done := f.filling
		if done == nil {
			if time.Now().Before(f.resting) {
				f.mu.Unlock()
				return false
			}
			done = make(chan struct{})
			f.filling = done
			if !f.opt.Go(func() { f.fill(m, missing, done) }) {
				f.filling = nil
				f.mu.Unlock()
				return false
			}
		}
		f.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
}

// fill embeds descriptions.
func (f *Finder) fill(m Model, texts []string, done chan struct{}) {
	ctx, cancel := context.WithTimeout(f.opt.Life, fillTimeout)
	defer cancel()
	var err error
	for some := range slices.Chunk(texts, batch) {
		if err = f.embed(ctx, m, some); err != nil {
			f.failed(ctx, m, err)
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filling = nil
	close(done)
}

// embed asks the model for the vectors of texts, and keeps them.
func (f *Finder) embed(ctx context.Context, m Model, texts []string) error {
	v, err := m.Embedder.Embed(ctx, texts)
	if err != nil {
		return err
	}
	if len(v.Values) != len(texts) {
		return fault.New(fault.Unavailable, "provider_error", "%s returned %d vectors for %d texts", m.Name, len(v.Values), len(texts))
	}
	for i, t := range texts {
		unit, ok := unitOf(v.Values[i])
		if !ok {
			return fault.New(fault.Unavailable, "provider_error", "%s returned no usable vector", m.Name)
		}
		f.keep(keyOf(m, t), unit)
	}
	return nil
}

// failed leaves the model alone for a while. That the request was too slow, or was stopped, is no failure.
func (f *Finder) failed(ctx context.Context, m Model, err error) {
	if ctx.Err() != nil {
		return
	}
	f.opt.Log.Warn("resources are found by words alone: the embedding model failed", "model", m.Name, "error", err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = time.Now().Add(pause)
}

func (f *Finder) rests() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.resting)
}

// missing returns the texts without vectors, each once.
func (f *Finder) missing(m Model, texts []string) (out []string) {
	seen := map[string]bool{}
	for _, t := range texts {
		if seen[t] {
			continue
		}
		seen[t] = true
		if _, ok := f.vector(m, t); !ok {
			out = append(out, t)
		}
	}
	return out
}

func keyOf(m Model, text string) key { return sha256.Sum256([]byte(m.Name + "\x00" + text)) }

// vector returns the vector of a text, if it is kept. What is used stays in the younger generation.
func (f *Finder) vector(m Model, text string) ([]float32, bool) {
	k := keyOf(m, text)
	f.mu.Lock()
	v, ok := f.now[k]
	old := f.before[k]
	f.mu.Unlock()
	if !ok && old != nil {
		f.keep(k, old)
		return old, true
	}
	return v, ok
}

// keep keeps a vector. A full generation becomes the older one, which is dropped as a whole.
func (f *Finder) keep(k key, v []float32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now[k] != nil {
		return
	}
	size := 4*len(v) + 2*len(k)
	if f.kept+size > maxKept {
		f.before, f.now, f.kept = f.now, map[key][]float32{}, 0
	}
	f.now[k] = v
	f.kept += size
}

// unitOf returns a vector of length 1.
func unitOf(v []float32) ([]float32, bool) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if len(v) == 0 || len(v) > maxDims || sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, false
	}
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out, true
}

// Of merging: the constant of reciprocal rank fusion, and how many places of each list count.
const (
	fusionRank  = 60
	fusionDepth = 60
)

// Merge merges an order by words with similarities by reciprocal rank fusion (Cormack, Clarke and Büttcher,
// 2009). words are indexes of resources, the best first; scores are the similarities of all resources. Ties
// keep the order of the words.
func Merge(words []int, scores []float64) []int {
	if scores == nil {
		return words
	}
	byVector := make([]int, len(scores))
	for i := range byVector {
		byVector[i] = i
	}
	slices.SortStableFunc(byVector, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	sum := map[int]float64{}
	var out []int
	add := func(list []int) {
		for rank, i := range list[:min(len(list), fusionDepth)] {
			if _, ok := sum[i]; !ok {
				out = append(out, i)
			}
			sum[i] += 1 / float64(fusionRank+1+rank)
		}
	}
	add(words)
	add(byVector)
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(sum[b], sum[a]) })
	return out
}

// sharpness makes shares of similarities: the similarities of most models' short texts lie within a few tenths.
const sharpness = 0.05

// Shares returns which share of certainty each of some similarities gets. They add up to 1.
func Shares(scores []float64) []float64 {
	if len(scores) == 0 {
		return nil
	}
	top, sum := slices.Max(scores), 0.0
	out := make([]float64, len(scores))
	for i, s := range scores {
		out[i] = math.Exp((s - top) / sharpness)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}
