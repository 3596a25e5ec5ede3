package documents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
)

// Limits of a search.
const (
	DefaultHits = 5
	MaxHits     = 50
	maxQuery    = 1000 // bytes
	maxWords    = 64   // of a query
)

// Hit is a passage that a search has found.
type Hit struct {
	Document record.Document
	Part     record.DocumentPart
	Line     int // of the words that were found; 0: lines are not counted
	Score    float64
}

// Cite returns where the words of the hit stand.
func (h *Hit) Cite() string {
	p := h.Part
	p.Line = h.Line
	return Cite(h.Document.Name, &p)
}

// View shows a hit to a person.
func (h *Hit) View() client.DocumentHit {
	return client.DocumentHit{Passage: client.Passage{Text: h.Part.Text, Cite: h.Cite(), Heading: h.Part.Heading, Page: h.Part.Page, Line: h.Line, Message: h.Part.Message},
		Document: h.Document.ID.String(), Name: h.Document.Name, Path: h.Document.Path, Labels: h.Document.Labels.Names(), Score: h.Score}
}

// Search finds passages of a user's documents, the best first: those that have rare words of the query, and many
// of them (BM25 over stems). No word is required. Error code: query_invalid.
func (e *Engine) Search(ctx context.Context, user, query string, limit int) ([]Hit, error) {
	if limit <= 0 {
		limit = DefaultHits
	}
	if len(query) > maxQuery {
		return nil, fault.New(fault.Invalid, "query_invalid", "the query has more than %d bytes", maxQuery)
	}
	asked := search.QueryStems(query)
	if asked = asked[:min(len(asked), maxWords)]; len(asked) == 0 {
		return nil, fault.New(fault.Invalid, "query_invalid", "the query has no words")
	}
	list, err := e.index.find(ctx, user, slices.Concat(asked...), min(limit, MaxHits))
	if err != nil {
		return nil, err
	}
	type whole struct {
		doc  record.Document
		text record.DocumentText
	}
	read := map[id.ID]*whole{}
	var out []Hit
	for _, f := range list {
		w := read[f.doc]
		if w == nil {
			w = &whole{}
			if w.doc, err = e.read(ctx, user, f.doc); fault.Is(err, fault.NotFound) {
				continue // erased since
			}
			if err == nil {
				w.text, err = e.Text(ctx, user, f.doc)
			}
			if err != nil {
				return nil, err
			}
			read[f.doc] = w
		}
		if f.part >= len(w.text.Parts) {
			continue // replaced since
		}
		p := w.text.Parts[f.part]
		out = append(out, Hit{Document: w.doc, Part: p, Line: bestLine(&p, asked), Score: f.score})
	}
	return out, nil
}

// bestLine returns the number of the line of a passage that has most words of a query.
func bestLine(p *record.DocumentPart, asked [][]string) int {
	if p.Line == 0 {
		return 0
	}
	return p.Line + best(strings.Split(p.Text, "\n"), search.LanguageOf(p.Text), asked)
}

// best returns the index of the line that has most words of a query; of several, the first that is no heading.
func best(lines []string, language search.Language, asked [][]string) int {
	best, most := 0, 0
	for i, l := range lines {
		here := stems(language, l)
		n := 0
		for _, forms := range asked {
			if slices.ContainsFunc(forms, func(stem string) bool { return slices.Contains(here, stem) }) {
				n += 2
			}
		}
		if n > 0 && headingLevel(l) == 0 {
			n++
		}
		if n > most {
			best, most = i, n
		}
	}
	return best
}

// Excerpt returns at most so many lines of a passage, about the one that has most words of a query. Where others
// are left out, it has an ellipsis.
func Excerpt(text, query string, most int) string {
	lines := strings.Split(text, "\n")
	if len(lines) <= most {
		return text
	}
	at := best(lines, search.LanguageOf(text), search.QueryStems(query))
	from := min(max(0, at-most/2), len(lines)-most)
	out := strings.TrimSpace(strings.Join(lines[from:from+most], "\n"))
	if from > 0 {
		out = "…\n" + out
	}
	if from+most < len(lines) {
		out += "\n…"
	}
	return out
}

// Passages are passages for the context of a model.
type Passages struct {
	Hits   []Hit
	Text   string         // each passage under its citation
	Labels message.Labels // of all of them
}

// Passages returns what a user's documents say about a query, in at most budget bytes: whole passages, the best
// first. Those that do not fit are left out; the first is shortened. A query without words has none.
func (e *Engine) Passages(ctx context.Context, user, query string, budget int) (Passages, error) {
	if len(query) > maxQuery {
		end := maxQuery
		for !utf8.RuneStart(query[end]) {
			end--
		}
		query = query[:end]
	}
	hits, err := e.Search(ctx, user, query, MaxHits)
	if fault.HasCode(err, "query_invalid") {
		return Passages{}, nil
	}
	if err != nil {
		return Passages{}, err
	}
	var out Passages
	var b strings.Builder
	for _, h := range hits {
		head := fmt.Sprintf("[%s]\n", h.Cite())
		text := h.Part.Text
		left := budget - b.Len() - len(head) - 2
		if len(text) > left {
			if len(out.Hits) > 0 || left < 80 {
				continue
			}
			text = strings.TrimSpace(text[:breakAt(text, left-len("…"))]) + "…"
		}
		b.WriteString(head + text + "\n\n")
		out.Hits, out.Labels = append(out.Hits, h), out.Labels|h.Document.Labels
	}
	out.Text = strings.TrimSpace(b.String())
	return out, nil
}
