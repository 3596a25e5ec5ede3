// Package document lets an agent read and analyse documents, which are text and Markdown files in a folder.
package document

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
const Kind = "domain:document"

// declaration is the declaration in agent.yaml.
type declaration struct {
	local.Shared `yaml:",inline"`
	Folder       string `yaml:"folder"`
}

// Opener returns the opener of the source.
func Opener() tool.Opener {
	return func(env tool.Env, decode func(into any) error) (tool.Source, error) {
		var d declaration
		if err := decode(&d); err != nil {
			return nil, err
		}
		place, err := local.NewPlace(env, d.Folder, "documents")
		if err != nil {
			return nil, err
		}
		k := local.NewKit(env, Kind)
		k.Share(d.Shared, d.Folder)
		return service{place}.source(k)
	}
}

type service struct{ place local.Place }

// of returns the documents of a user.
func (s service) of(user string) *local.Texts { return local.NewTexts(s.place.For(user)) }

type searchArgs struct {
	Query string `json:"query" jsonschema:"what the documents are to mention: a subject, or words" minlen:"1" maxlen:"400"`
	Limit int    `json:"limit,omitzero" jsonschema:"how many results at most; 5 unless given" min:"1" max:"20"`
}

type readArgs struct {
	Document string `json:"document" jsonschema:"the document: its name or title" minlen:"1" maxlen:"400"`
	From     int    `json:"from,omitzero" jsonschema:"where to begin, in bytes, to read on" min:"0"`
}

type oneArgs struct {
	Document string `json:"document" jsonschema:"the document: its name or title" minlen:"1" maxlen:"400"`
}

type twoArgs struct {
	First  string `json:"first_document" jsonschema:"one document: its name or title" minlen:"1" maxlen:"400"`
	Second string `json:"second_document" jsonschema:"the other document: its name or title" minlen:"1" maxlen:"400"`
}

// labels are the labels of documents: they belong to the user, and may come from anybody.
const labels = message.Private | message.Untrusted

func (s service) source(k *local.Kit) (tool.Source, error) {
	local.Query(k, tool.Spec{Name: "list", Yields: labels,
		Description: "Lists the documents that there are: their names, titles and lengths.",
		Log:         tool.LogSpec{Summary: "List the documents"}}, s.list)
	local.Query(k, tool.Spec{Name: "read", Yields: labels, Tidy: local.Again("document", "from"),
		Description: "Reads a document: shows its text.",
		Log:         tool.LogSpec{Summary: "Read the document {document}"}}, s.read)
	local.Query(k, tool.Spec{Name: "search", Yields: labels, Tidy: local.Again("query", "limit"),
		Description: "Searches the documents for a subject or for words: finds which documents mention it, and where.",
		Log:         tool.LogSpec{Summary: "Search the documents for {query}"}}, s.search)
	local.Query(k, tool.Spec{Name: "outline", Yields: labels, Tidy: local.Again("document"),
		Description: "Outlines a document: shows its structure, the headings and sections that it has.",
		Log:         tool.LogSpec{Summary: "Outline the document {document}"}}, s.outline)
	local.Query(k, tool.Spec{Name: "compare", Yields: labels, Tidy: local.Again("first_document", "second_document"),
		Description: "Compares two documents: how similar they are, which subjects both have, and what only one of them speaks of; their differences.",
		Log:         tool.LogSpec{Summary: "Compare {first_document} with {second_document}"}}, s.compare)
	local.Query(k, tool.Spec{Name: "statistics", Yields: labels, Tidy: local.Again("document"),
		Description: "Counts what is in a document: statistics of its words, sentences and paragraphs, how long it takes to read, and its most frequent words.",
		Log:         tool.LogSpec{Summary: "Count the words of {document}"}}, s.statistics)
	return k.Source()
}

func (s service) list(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
	docs, problems, err := s.of(in.User).All(ctx)
	if err != nil {
		return "", err
	}
	if len(docs) == 0 && len(problems) == 0 {
		return "There are no documents.", nil
	}
	var out []string
	for _, d := range docs {
		out = append(out, fmt.Sprintf("- %s: %q, %d words", d.Name, d.Title, d.Words()))
	}
	for _, p := range problems {
		out = append(out, "- cannot be read: "+p)
	}
	return strings.Join(out, "\n"), nil
}

func (s service) find(ctx context.Context, user, name string) (*local.Text, error) {
	docs, _, err := s.of(user).All(ctx)
	if err != nil {
		return nil, err
	}
	return local.Find(docs, name)
}

func (s service) read(ctx context.Context, in tool.Invocation, a readArgs) (string, error) {
	d, err := s.find(ctx, in.User, a.Document)
	if err != nil {
		return "", err
	}
	text, next := d.Page(a.From)
	out := fmt.Sprintf("%s (%s)\n\n%s", d.Title, d.Name, strings.TrimSpace(text))
	if next > 0 {
		out += fmt.Sprintf("\n\n(The document goes on: read it from %d.)", next)
	}
	return out, nil
}

func (s service) search(ctx context.Context, in tool.Invocation, a searchArgs) (string, error) {
	docs, _, err := s.of(in.User).All(ctx)
	if err != nil {
		return "", err
	}
	hits := local.Search(docs, a.Query, cmp.Or(a.Limit, 5))
	if len(hits) == 0 {
		return fmt.Sprintf("No document has anything about %q.", a.Query), nil
	}
	var b strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&b, "%d. %s (%s)\n   %s\n", i+1, h.Title, h.Name, h.Snippet)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (s service) outline(ctx context.Context, in tool.Invocation, a oneArgs) (string, error) {
	d, err := s.find(ctx, in.User, a.Document)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Outline of %q (%s):\n%s", d.Title, d.Name, Outline(d.Body)), nil
}

func (s service) compare(ctx context.Context, in tool.Invocation, a twoArgs) (string, error) {
	docs, _, err := s.of(in.User).All(ctx)
	if err != nil {
		return "", err
	}
	first, err := local.Find(docs, a.First)
	if err != nil {
		return "", err
	}
	second, err := local.Find(docs, a.Second)
	if err != nil {
		return "", err
	}
	return Compare(first, second), nil
}

func (s service) statistics(ctx context.Context, in tool.Invocation, a oneArgs) (string, error) {
	d, err := s.find(ctx, in.User, a.Document)
	if err != nil {
		return "", err
	}
	return Statistics(d), nil
}
