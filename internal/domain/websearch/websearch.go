// Package websearch lets an agent search the web with an Engine. The local substitute for an engine searches
// a folder of texts, and says so.
package websearch

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"steward/internal/domain/local"
	"steward/internal/message"
	"steward/internal/tool"
)

// Kind is the kind of source.
const Kind = "domain:websearch"

// Result is a page that was found.
type Result struct {
	Title   string
	Address string // for Engine.Page
	Snippet string
}

// Page is the text of a page.
type Page struct {
	Title   string
	Address string
	Text    string
	Next    int // where the rest begins, in bytes; 0 if there is none
}

// Engine searches the web. It is safe for concurrent use.
type Engine interface {
	// Search returns the best pages, best first.
	Search(ctx context.Context, query string, limit int) ([]Result, error)
	// Page returns the text of a page, from a byte on.
	Page(ctx context.Context, address string, from int) (Page, error)
	// Note says where the results come from, if not from the web.
	Note() string
}

// Options configure the source. The zero value works.
type Options struct {
	Engine Engine // nil: a folder
}

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Shared `yaml:",inline"`
	Folder       string `yaml:"folder"` // of texts instead of the web
}

// Opener returns the opener of the source.
func Opener(opt Options) tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		s := service{opt.Engine}
		if s.engine == nil {
			place, err := local.NewPlace(env, d.Folder, "web")
			if err != nil {
				return nil, err
			}
			s.engine = Folder(place.For(""))
		}
		k := local.NewKit(env, Kind)
		k.Share(d.Shared, d.Folder)
		return s.source(k)
	}
}

type service struct{ engine Engine }

type searchArgs struct {
	Query string `json:"query" jsonschema:"what to look for: a question, or the words that matter" minlen:"1" maxlen:"400"`
	Limit int    `json:"limit,omitzero" jsonschema:"how many results at most; 5 unless given" min:"1" max:"20"`
}

type openArgs struct {
	Page string `json:"page" jsonschema:"the page to open: its address, as the search shows it, or its title" minlen:"1" maxlen:"400"`
	From int    `json:"from,omitzero" jsonschema:"where to begin, in bytes, to read on" min:"0"`
}

func (s service) source(k *local.Kit) (tool.Source, error) {
	local.Query(k, tool.Spec{Name: "search", Yields: message.Untrusted, Reach: tool.ReachOut, Tidy: local.Again("query", "limit"),
		Description: "Searches the web: researches a subject, finds pages about it, or what answers a question, such as who, when, why or how.",
		Log:         tool.LogSpec{Summary: "Search the web for {query}"}}, s.search)
	local.Query(k, tool.Spec{Name: "open", Yields: message.Untrusted, Reach: tool.ReachOut, Targets: []string{"page"}, Tidy: local.Again("page", "from"),
		Description: "Opens a page that a search has found, and shows its text.",
		Log:         tool.LogSpec{Summary: "Open the page {page}"}}, s.page)
	return k.Source()
}

func (s service) search(ctx context.Context, _ tool.Invocation, a searchArgs) (string, error) {
	list, err := s.engine.Search(ctx, a.Query, cmp.Or(a.Limit, 5))
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return s.marked(fmt.Sprintf("Nothing was found for %q.", a.Query)), nil
	}
	var b strings.Builder
	for i, r := range list {
		fmt.Fprintf(&b, "%d. %s (%s)\n   %s\n", i+1, r.Title, r.Address, r.Snippet)
	}
	return s.marked(strings.TrimSuffix(b.String(), "\n")), nil
}

func (s service) marked(text string) string {
	if n := s.engine.Note(); n != "" {
		return text + "\n\n(" + n + ")"
	}
	return text
}

func (s service) page(ctx context.Context, _ tool.Invocation, a openArgs) (string, error) {
	p, err := s.engine.Page(ctx, a.Page, a.From)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s (%s)\n\n%s", p.Title, p.Address, strings.TrimSpace(p.Text))
	if p.Next > 0 {
		text += fmt.Sprintf("\n\n(The page goes on: open it from %d.)", p.Next)
	}
	return s.marked(text), nil
}

// Folder returns an engine that searches the texts of a folder.
func Folder(dir string) Engine { return folder{local.NewTexts(dir)} }

type folder struct{ texts *local.Texts }

const scheme = "local:"

// Note implements Engine.
func (folder) Note() string {
	return "This is no search of the web: a local folder of documents stands in for it."
}

// Search implements Engine.
func (f folder) Search(ctx context.Context, query string, limit int) ([]Result, error) {
	texts, _, err := f.texts.All(ctx)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, h := range local.Search(texts, query, limit) {
		out = append(out, Result{Title: h.Title, Address: scheme + h.Name, Snippet: h.Snippet})
	}
	return out, nil
}

// Page implements Engine.
func (f folder) Page(ctx context.Context, address string, from int) (Page, error) {
	texts, _, err := f.texts.All(ctx)
	if err != nil {
		return Page{}, err
	}
	t, err := local.Find(texts, strings.TrimPrefix(address, scheme))
	if err != nil {
		return Page{}, err
	}
	text, next := t.Page(from)
	return Page{Title: t.Title, Address: scheme + t.Name, Text: text, Next: next}, nil
}
