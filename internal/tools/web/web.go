// Package web lets an agent read pages of the web and search it. Connections go only where a
// Dialer of package egress allows, also after redirects. Pages and results count as untrusted.
package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/internal/extract"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Options configure the domain. Transport is required.
type Options struct {
	Transport http.RoundTripper // connects only where it is allowed; see egress.Dialer
	Reader    extract.Reader
	Search    Search
	Now       func() time.Time // nil: time.Now
}

type fetchArgs struct {
	URL  string `json:"url" jsonschema:"Address of the page, http or https" minlen:"8" maxlen:"2000"`
	From int    `json:"from,omitzero" jsonschema:"Where to begin in the text, to read on" min:"0" max:"1048576"`
}

type searchArgs struct {
	Query string `json:"query" jsonschema:"What to search for, as you would type it into a search engine" minlen:"1" maxlen:"400"`
	Count int    `json:"count,omitzero" jsonschema:"How many results" min:"1" max:"20" default:"8"`
}

// Add adds the tools web.fetch and web.search to a kit.
func Add(k *local.Kit, opt Options) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	f := &fetcher{Options: opt, pages: map[string]*page{}, robots: map[string]*rules{}}
	local.Query(k, tool.Spec{Name: "fetch", Yields: message.Untrusted, Reach: tool.ReachOut, Targets: []string{"url"}, Timeout: fetchTimeout + 25*time.Second,
		Description: "Reads a page of the web: the text and links of HTML, PDF, Word files and feeds. Long texts come in parts.",
		Sentences:   fetchSentences,
		Tidy:        local.ReplacesEarlier("url", "from"),
		Log:         tool.LogSpec{Summary: "Read {url}"},
		Widths:      []tool.Width{{Name: "read any page of {url:host}", Any: []string{"from"}, Host: []string{"url"}}}}, f.tool)
	search := tool.Spec{Name: "search", Yields: message.Untrusted, Reach: tool.ReachOut, Timeout: searchTimeout + 5*time.Second, Host: opt.Search.host(),
		Description: "Searches the web. Returns titles, addresses and excerpts; read the pages that matter with " + k.Name("fetch") + ", and name their addresses as sources in the answer.",
		Sentences:   searchSentences,
		Tidy:        local.ReplacesEarlier("query"),
		Log:         tool.LogSpec{Summary: "Search the web for {query}"}}
	if opt.Search.Call != nil { // that tool is judged by itself: a person is asked once, and its long results are cut once
		search.Reach, search.Timeout, search.ResultCap = tool.ReachHere, 10*time.Minute, 2*tool.DefaultResultCap
	}
	local.Query(k, search, func(ctx context.Context, in tool.Invocation, a searchArgs) (tool.Result, error) {
		if opt.Search.Call != nil {
			return opt.Search.Call(ctx, in, a.Query)
		}
		if a.Count == 0 {
			a.Count = 8
		}
		found, err := opt.Search.run(ctx, opt.Transport, a.Query, a.Count)
		return tool.Text(formatResults(found)), err
	})
}

// formatResults lists results for a model.
func formatResults(found []Result) string {
	if len(found) == 0 {
		return "Nothing was found."
	}
	var b strings.Builder
	for i, r := range found {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, r.Title, r.URL)
		if r.Excerpt != "" {
			fmt.Fprintf(&b, "   %s\n", r.Excerpt)
		}
	}
	return b.String()
}

// shown is how many bytes of a text one call returns.
const shown = 20_000

// tool is web.fetch.
func (f *fetcher) tool(ctx context.Context, in tool.Invocation, a fetchArgs) (string, error) {
	p, err := f.fetch(ctx, in.User, a.URL)
	if err != nil {
		return "", err
	}
	return p.text(a.From), nil
}

// text returns a part of a page for a model.
func (p *page) text(from int) string {
	var b strings.Builder
	d := p.doc
	for _, line := range []string{d.Title, p.url, d.Byline} {
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	b.WriteByte('\n')
	part, next := local.CutAtLine(d.Text, from, shown)
	b.WriteString(part)
	if next > 0 {
		fmt.Fprintf(&b, "\n\n[The text continues: read on from %d.]", next)
	} else if d.Truncated {
		b.WriteString("\n\n[The rest was left out.]")
	}
	if from == 0 && len(d.Links) > 0 {
		b.WriteString("\n\nLinks:\n")
		for _, l := range d.Links[:min(len(d.Links), 60)] {
			fmt.Fprintf(&b, "- %s: %s\n", l.Text, l.URL)
		}
	}
	return b.String()
}
