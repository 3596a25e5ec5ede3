package search

import (
	"context"
	"slices"
	"time"

	"steward/internal/store"
)

// Words is an Index that can also rank what another index has found.
type Words interface {
	Index
	// SearchWith is Search among what the words find and what another index has found. The
	// filters apply to all of it. nil: Search.
	SearchWith(ctx context.Context, sc store.Scope, q Query, others *Others) (Page, error)
}

// Others are messages that another index has found, in the order Best.
type Others struct {
	Keys []string // of their URIs
	// Only leaves out what only words find.
	Only bool
	// Weigh sets Score and Shown of all messages that were found.
	Weigh func([]*Place)
}

// Place is a message that was found.
type Place struct {
	Key   string // of its URI
	At    time.Time
	Asks  bool    // it is a person's question
	Score float64 // of its words and of those around it; zero: they do not find it
	Shown float64 // Hit.Score
}

// PreferNewer raises newer ones among the messages that are nearly as good as the best: if a
// statement was corrected, the correction is what still holds. The newest of them gains a
// share of its score. Those below a share of the best score gain nothing.
func PreferNewer(found []*Place, gain, near float64) {
	top := 0.0
	for _, p := range found {
		top = max(top, p.Score)
	}
	var good []*Place
	for _, p := range found {
		if p.Score > 0 && p.Score >= top*near {
			good = append(good, p)
		}
	}
	slices.SortStableFunc(good, func(a, b *Place) int { return a.At.Compare(b.At) })
	for i, p := range good {
		p.Score *= 1 + gain*float64(i+1)/float64(len(good))
	}
}
