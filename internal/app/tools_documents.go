package app

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"

	"steward/client"
	"steward/internal/extract"
	"steward/internal/memory/documents"
	"steward/internal/memory/graph"
	"steward/internal/message"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tools/document"
	domainlocal "steward/internal/tools/local"
)

// documentsFile returns the path of the index of the documents in a data folder.
func documentsFile(data string) string { return filepath.Join(data, "documents.db") }

// documentEngine returns the engine that keeps documents in a store, and what they state in a graph. Close must be called after the last use.
func (a *App) documentEngine(st store.Store, set *settings.Loaded, reader extract.Reader, statements *graph.Engine, log *slog.Logger) *documents.Engine {
	opt := documents.Options{Store: st, Path: documentsFile(set.Data), Reader: reader, Private: a.private(set), With: statements.DocumentChanges, Mask: a.Hidden().Mask, Log: log}
	for _, f := range set.Documents.Folders {
		opt.Folders = append(opt.Folders, documents.Folder{Path: a.Path(f.Path), User: cmp.Or(f.User, a.User()), Own: f.Own})
	}
	return documents.New(opt)
}

// documentTools are the tools for documents that people have added.
func (l *Local) documentTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: document.Name, tools: func() ([]tool.Tool, error) {
		k := domainlocal.NewKit(builtInEnv(set, document.Name), tool.OriginOwn)
		document.AddTools(k, func(ctx context.Context, user, query string, limit int) (out []client.DocumentHit, labels message.Labels, err error) {
			hits, err := l.papers.Search(ctx, user, query, limit)
			for i := range hits {
				out, labels = append(out, hits[i].View()), labels|hits[i].Document.Labels
			}
			return out, labels, err
		})
		return k.Tools()
	}}
}
