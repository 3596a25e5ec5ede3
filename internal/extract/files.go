package extract

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ledongthuc/pdf"
	"github.com/mmcdole/gofeed"

	"steward/internal/fault"
)

// Limits inside a file.
const (
	maxPages = 2000     // of a PDF
	maxXML   = 64 << 20 // bytes of the unpacked text of a DOCX
	maxItems = 200      // of a feed
	maxDepth = 1000     // elements within elements of a DOCX
)

func readPDF(ctx context.Context, data []byte) (Document, error) {
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		if errors.Is(err, pdf.ErrInvalidPassword) {
			return Document{}, fault.New(fault.Invalid, "extract_damaged", "the PDF is encrypted").WithHint("save it without a password")
		}
		return Document{}, damaged("PDF", err)
	}
	d := Document{Kind: PDF, Title: r.Trailer().Key("Info").Key("Title").Text(), Pages: r.NumPage()}
	var b strings.Builder
	for i := 1; i <= min(d.Pages, maxPages) && b.Len() <= MaxText; i++ {
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		p := r.Page(i)
		if p.V.IsNull() {
			continue
		}
		text, err := p.GetPlainText(nil)
		if err != nil {
			return Document{}, damaged("PDF", fmt.Errorf("page %d: %w", i, err))
		}
		if d.Pages > 1 {
			fmt.Fprintf(&b, "[page %d]\n", i)
		}
		from := b.Len()
		b.WriteString(strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")))
		d.Sections = append(d.Sections, Section{Number: i, From: from, To: b.Len()})
		b.WriteString("\n\n")
	}
	d.Truncated = d.Pages > maxPages
	if strings.TrimSpace(b.String()) == "" || !strings.ContainsFunc(b.String(), func(r rune) bool { return r > ' ' }) {
		return Document{}, fault.New(fault.Invalid, "extract_unsupported", "the PDF has no text, only images").WithHint("show its pages to a model that sees images")
	}
	d.Text = b.String()
	return d, nil
}

// readDOCX reads the text of a Word file: its paragraphs, headings and tables (ECMA-376, part 1,
// section 17).
func readDOCX(ctx context.Context, data []byte) (Document, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return Document{}, damaged("DOCX", err)
	}
	f, err := z.Open("word/document.xml")
	if err != nil {
		return Document{}, fault.New(fault.Invalid, "extract_unsupported", "this archive is not a Word document").WithHint("HTML, PDF, DOCX, feeds, mail and text can be read")
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := wordText(ctx, io.LimitReader(f, maxXML))
	if err != nil {
		return Document{}, damaged("DOCX", err)
	}
	return Document{Kind: DOCX, Text: text}, nil
}

// wordText turns the main part of a Word file into Markdown.
func wordText(ctx context.Context, r io.Reader) (string, error) {
	var b strings.Builder
	d := xml.NewDecoder(r)
	inText, inCell, depth := false, 0, 0
	for n := 0; b.Len() <= MaxText; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return "", errors.New("its elements are nested too deeply")
			}
			switch t.Name.Local {
			case "t":
				inText = true
			case "tab":
				b.WriteByte('\t')
			case "br", "cr":
				b.WriteByte('\n')
			case "tc":
				inCell++
			case "pStyle":
				b.WriteString(heading(t))
			}
		case xml.EndElement:
			depth--
			switch t.Name.Local {
			case "t":
				inText = false
			case "p":
				if inCell > 0 {
					b.WriteByte(' ')
				} else {
					b.WriteString("\n\n")
				}
			case "tc":
				inCell--
				b.WriteString("| ")
			case "tr":
				b.WriteByte('\n')
			}
		case xml.CharData:
			if inText {
				b.Write(t)
			}
		}
	}
	return b.String(), nil
}

// heading returns the Markdown of a paragraph style: Heading1 to Heading6, Title, ListParagraph.
func heading(e xml.StartElement) string {
	for _, a := range e.Attr {
		if a.Name.Local != "val" {
			continue
		}
		switch level, ok := strings.CutPrefix(a.Value, "Heading"); {
		case ok && len(level) == 1 && level >= "1" && level <= "6":
			return strings.Repeat("#", int(level[0]-'0')) + " "
		case a.Value == "Title":
			return "# "
		case a.Value == "ListParagraph":
			return "- "
		}
	}
	return ""
}

// isFeed reports whether data is a feed of Atom, RSS or JSON Feed.
func isFeed(media string, data []byte) bool {
	switch media {
	case "application/rss+xml", "application/atom+xml", "application/feed+json":
		return true
	case "text/xml", "application/xml", "application/json", "text/plain":
		return gofeed.DetectFeedType(bytes.NewReader(data[:min(len(data), 4096)])) != gofeed.FeedTypeUnknown
	}
	return false
}

func readFeed(ctx context.Context, in Input) (Document, error) {
	f, err := gofeed.NewParser().Parse(bytes.NewReader(in.Data))
	if err != nil {
		return Document{}, damaged("feed", err)
	}
	d := Document{Kind: Feed, Title: f.Title, Truncated: len(f.Items) > maxItems}
	var b strings.Builder
	for _, it := range f.Items[:min(len(f.Items), maxItems)] {
		body := it.Description
		if body == "" {
			body = it.Content
		}
		part, err := readHTML(ctx, Input{Data: []byte(body), MediaType: "text/html; charset=utf-8", Base: it.Link, Whole: true})
		if err != nil {
			return Document{}, err
		}
		fmt.Fprintf(&b, "## %s\n", oneLine(it.Title))
		if when := it.PublishedParsed; when != nil {
			fmt.Fprintf(&b, "%s\n", when.UTC().Format("2006-01-02 15:04"))
		}
		if it.Link != "" && len(d.Links) < MaxLinks {
			fmt.Fprintf(&b, "%s\n", it.Link)
			d.Links = append(d.Links, Link{oneLine(it.Title), it.Link})
		}
		b.WriteString("\n" + part.Text + "\n\n")
	}
	d.Text = b.String()
	return d, nil
}
