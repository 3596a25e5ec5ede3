// Package document lets an agent search the documents that its user has added, which package documents keeps.
//
// documents.search is a query. Its result has the labels of the documents that it shows: a document is private,
// and untrusted unless its owner has said that it is their own text. Each passage stands under its citation,
// such as "report.pdf p. 3" or "notes.md:120", so that the model can name its source.
package document

import (
	"context"
	"fmt"
	"strings"

	"steward/client"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Name is the first word of the tool's name.
const Name = "documents"

// Search finds passages in a user's documents, the best first, with the labels of all of them.
type Search func(ctx context.Context, user, query string, limit int) ([]client.DocumentHit, message.Labels, error)

type searchArgs struct {
	Query string `json:"query" minlen:"1" maxlen:"1000" jsonschema:"Words of what is looked for; any of them counts, rare ones more"`
	Limit int    `json:"limit,omitzero" min:"1" max:"20" default:"5" jsonschema:"How many passages at most"`
}

// AddTools adds the tools to a kit named "documents".
func AddTools(k *local.Kit, search Search) {
	local.Query(k, tool.Spec{Name: "search", Yields: message.Private, Tidy: local.ReplacesEarlier("query", "limit"), Sentences: searchSentences(),
		Description: "Searches the documents that the user has added (PDF, Word, web pages, notes, code, mail). Returns passages, best first, each with its page or line. Name these as sources.",
		Log:         tool.LogSpec{Summary: "Search the documents for {query}", Parameters: []string{"query"}}},
		func(ctx context.Context, in tool.Invocation, a searchArgs) (tool.Result, error) {
			hits, labels, err := search(ctx, in.User, a.Query, a.Limit)
			if err != nil {
				return tool.Result{}, err
			}
			res := tool.Text(text(hits, a.Query))
			res.Labels = message.Private | labels
			return res, nil
		})
}

func searchSentences() []string {
	return []string{
		"search my documents for {query=notice period}",
		"search [my|the|all] documents for [the|my] {query:any}", "find [the|my] {query} in [my|the] documents", "(what do|what did) my documents say about {query}", "which documents mention {query:any}",
		"de: such in meinen Dokumenten nach {query=Kündigungsfrist}",
		"de: (such|suche|durchsuch|durchsuche) [in] (meinen|meine|den) dokumenten nach {query:any}", "de: (was steht|was sagen) in meinen dokumenten (über|zu) {query}",
	}
}

// text shows passages to a model.
func text(hits []client.DocumentHit, query string) string {
	if len(hits) == 0 {
		return fmt.Sprintf("No document says anything about %q.", query)
	}
	var b strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&b, "%d. %s", i+1, h.Cite)
		if h.Heading != "" && !strings.Contains(h.Cite, h.Heading) {
			fmt.Fprintf(&b, ", %s", h.Heading)
		}
		b.WriteString("\n" + strings.TrimSpace(h.Text) + "\n\n")
	}
	return strings.TrimSpace(b.String()) + "\n"
}
