package builtin

import (
	"context"
	"path"
	"strings"

	json "github.com/go-json-experiment/json"

	"steward/internal/tool"
)

// Obsolete implements tool.Optimizer. A write makes the listings obsolete that would now look
// different: those of its folder, and of a folder above that did not yet list the next folder on the
// path.
func (w *writer) Obsolete(_ context.Context, call tool.Past, earlier []tool.Past) ([]tool.Obsolete, error) {
	written, err := w.k.pathOf(call)
	if err != nil {
		return nil, err
	}
	var out []tool.Obsolete
	for _, e := range earlier {
		if e.Name != "files.list" {
			continue
		}
		if p, err := w.k.pathOf(e); err == nil && changes(p, written, e) { // an error means that it listed the granted folders, which no write changes
			out = append(out, tool.Obsolete{Ref: e.Ref, Reason: written + " was written after the folder was listed"})
		}
	}
	return out, nil
}

// changes reports whether writing the file changes a listing of a folder.
func changes(folder, written string, listing tool.Past) bool {
	rest, ok := strings.CutPrefix(written, folder+"/")
	if !ok {
		return false
	}
	next, _, deeper := strings.Cut(rest, "/")
	return !deeper || !strings.Contains("\n"+listing.Result.Text(), "\n"+next+"/\n")
}

// pathOf returns the path of a call in its canonical form.
func (k *kit) pathOf(p tool.Past) (string, error) {
	var a struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(p.Args, &a); err != nil {
		return "", err
	}
	at, err := folders(k.opt.Folders).find(a.Path)
	return path.Clean(at.shown), err
}
