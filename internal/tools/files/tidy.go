package files

import (
	"context"
	"path"
	"strings"

	json "github.com/go-json-experiment/json"

	"steward/internal/tool"
)

// Obsolete implements tool.Optimizer. A change makes the listings obsolete that would now look
// different: those of its folder, and of a folder above that did not yet list the next folder on the
// path. It also makes obsolete what was read there.
func (c changing) Obsolete(_ context.Context, call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error) {
	changed, err := pathsOf(call)
	if err != nil {
		return nil, err
	}
	var out []tool.Obsolete
	for _, e := range earlier {
		at, err := pathsOf(e)
		if err != nil || len(at) == 0 { // it listed the granted folders, which no change changes
			continue
		}
		for _, p := range changed {
			if e.Name == "files.list" && changesListing(at[0], p, e) {
				out = append(out, tool.Obsolete{Ref: e.Ref, Reason: p + " was written, moved or deleted after the folder was listed"})
				break
			}
			if e.Name == "files.read" && (at[0] == p || strings.HasPrefix(at[0], p+"/")) {
				out = append(out, tool.Obsolete{Ref: e.Ref, Reason: p + " was moved or deleted after the file was read"})
				break
			}
		}
	}
	return out, nil
}

// changesListing reports whether writing the file changes a listing of a folder.
func changesListing(folder, written string, listing tool.PastCall) bool {
	rest, ok := strings.CutPrefix(written, folder+"/")
	if !ok {
		return false
	}
	next, _, deeper := strings.Cut(rest, "/")
	return !deeper || !strings.Contains("\n"+listing.Result.Text(), "\n"+next+"/\n")
}

// pathsOf returns the paths of a call in their canonical form.
func pathsOf(p tool.PastCall) (out []string, err error) {
	var a struct{ Path, From, To string }
	err = json.Unmarshal(p.Args, &a, json.MatchCaseInsensitiveNames(true))
	for _, shown := range []string{a.Path, a.From, a.To} {
		if shown != "" {
			out = append(out, path.Clean(shown))
		}
	}
	return out, err
}
