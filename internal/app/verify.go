package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"steward/internal/extract"
	"steward/internal/search"
	"steward/internal/search/vector"
	"steward/internal/settings"
)

// IndexState is what VerifyIndexes finds out about one index.
type IndexState struct {
	Path string // of its file
	Of   string // what it holds: "messages" or "documents"
	search.Agreement
	Err error
}

// VerifyIndexes compares the indexes in the data folder with the store, by count and hash. Those that do not
// exist are left out. It changes nothing.
func (a *App) VerifyIndexes(ctx context.Context, st Store, set *settings.Loaded) (out []IndexState) {
	log := slog.New(slog.DiscardHandler)
	index := newIndex(set.Data, st, vector.Options{Model: noModels}, nil, log)
	papers := a.documentEngine(st, set, extract.Reader{}, a.newGraph(st, func() mentioned { return mentioned{} }), log)
	for _, x := range []struct {
		path, of string
		verify   func(context.Context) (search.Agreement, error)
	}{
		{searchFile(set.Data), "messages", index.words.Verify},
		{vectorsFile(set.Data), "messages", index.Vectors.Verify},
		{documentsFile(set.Data), "documents", papers.Verify},
	} {
		if _, err := os.Stat(x.path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s := IndexState{Path: x.path, Of: x.of}
		s.Agreement, s.Err = x.verify(ctx)
		out = append(out, s)
	}
	if err := errors.Join(index.Close(), papers.Close()); err != nil && len(out) > 0 {
		out[0].Err = errors.Join(out[0].Err, err)
	}
	return out
}
