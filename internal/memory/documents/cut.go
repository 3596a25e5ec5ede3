package documents

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/extract"
	"steward/internal/record"
)

// Sizes of passages, in bytes.
const (
	goodPart = 1200 // a passage is ended at the next block once it is this long
	mostPart = 2000 // no passage is longer
	maxParts = 4000 // of a document
)

// Cut cuts what was read of a file into passages, by its structure: pages, messages, headings, paragraphs, and
// the blocks of code. It reports whether the end is left out. Every line that is not blank is in exactly one
// passage, in order, but for the marks with which a PDF's pages begin.
func Cut(name string, doc *extract.Document) (parts []record.DocumentPart, left bool) {
	c := cutter{code: doc.Kind == extract.Text && isCode(name), plain: doc.Kind == extract.PDF || doc.Kind == extract.Mail}
	if len(doc.Sections) == 0 {
		if doc.Kind == extract.Text { // other formats have other lines than their files
			c.line = 1 + doc.Above
		}
		c.cut(doc.Text)
	}
	for _, s := range doc.Sections {
		c.to.Heading, c.to.Page, c.to.Message = "", 0, 0
		if doc.Kind == extract.PDF {
			c.to.Page = s.Number
		} else {
			c.to.Heading, c.to.Message = s.Title, s.Number
		}
		c.cut(doc.Text[s.From:s.To])
	}
	if len(c.parts) > maxParts {
		return c.parts[:maxParts], true
	}
	return c.parts, doc.Truncated
}

// cutter cuts one document.
type cutter struct {
	code  bool
	plain bool // it has no headings of Markdown
	line  int  // of the text that is cut; 0: lines are not counted
	to    record.DocumentPart
	parts []record.DocumentPart
}

// block is a stretch of lines that belong together.
type block struct {
	from, to int    // lines
	level    int    // of a heading; 0: it is none
	title    string // of a heading
}

// cut cuts one page, message or text. A heading begins a passage, and headings without text between them stay
// together with the text that follows.
func (c *cutter) cut(text string) {
	lines := strings.Split(text, "\n")
	blocks := proseBlocks(lines, c.plain)
	if c.code {
		blocks = codeBlocks(lines)
	}
	size := func(from, to int) (n int) {
		for _, l := range lines[from:to] {
			n += len(l) + 1
		}
		return n
	}
	var above []block // the headings that the passage stands below
	start, bare := -1, true
	heading := c.to.Heading
	flush := func(end int) {
		if start >= 0 {
			c.add(lines, start, end)
		}
		start, bare = -1, true
	}
	for _, b := range blocks {
		if start >= 0 && (b.level > 0 && !bare || size(start, b.to) > goodPart) {
			flush(b.from)
		}
		if b.level > 0 {
			for len(above) > 0 && above[len(above)-1].level >= b.level {
				above = above[:len(above)-1]
			}
			above = append(above, b)
			titles := make([]string, len(above))
			for i := range above {
				titles[i] = above[i].title
			}
			c.to.Heading = strings.Join(titles, " > ")
		}
		if start < 0 {
			start = b.from
		}
		bare = bare && b.level > 0
	}
	flush(len(lines))
	c.to.Heading = heading
}

// add adds a passage of some lines, or several if it is too long.
func (c *cutter) add(lines []string, from, to int) {
	for from < to {
		if strings.TrimSpace(lines[from]) == "" {
			from++
			continue
		}
		end, n := from, 0
		for end < to && n+len(lines[end])+1 <= mostPart {
			n += len(lines[end]) + 1
			end++
		}
		p := c.to
		if c.line > 0 {
			p.Line = c.line + from
		}
		if end == from { // one line is too long
			for rest := strings.TrimSpace(lines[from]); rest != ""; rest = strings.TrimSpace(rest) {
				n := breakAt(rest, goodPart)
				p.Text = strings.TrimSpace(rest[:n])
				c.parts = append(c.parts, p)
				rest = rest[n:]
			}
			from++
			continue
		}
		p.Text = strings.TrimRightFunc(strings.Join(lines[from:end], "\n"), unicode.IsSpace)
		c.parts = append(c.parts, p)
		from = end
	}
}

// breakAt returns where a text is broken so that its beginning has at most n bytes: after a sentence, at a space,
// or else between two characters.
func breakAt(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	head := s[:n]
	if i := strings.LastIndexAny(head, ".!?"); i >= n/2 && s[i+1] == ' ' {
		return i + 1
	}
	if i := strings.LastIndexByte(head, ' '); i >= n/2 {
		return i
	}
	return n
}

// proseBlocks returns the headings and paragraphs of Markdown or plain text. A fenced block of code is one.
func proseBlocks(lines []string, plain bool) (out []block) {
	start, fence := -1, ""
	end := func(at int) {
		if start >= 0 {
			out = append(out, block{from: start, to: at})
		}
		start = -1
	}
	for i, l := range lines {
		l = strings.TrimSpace(l)
		switch level := headingLevel(l); {
		case fence != "":
			if strings.HasPrefix(l, fence) {
				fence = ""
			}
		case l == "":
			end(i)
		case !plain && level > 0:
			end(i)
			out = append(out, block{i, i + 1, level, strings.TrimSpace(strings.Trim(l, "#"))})
		default:
			if !plain && (strings.HasPrefix(l, "```") || strings.HasPrefix(l, "~~~")) {
				fence = l[:3]
			}
			if start < 0 {
				start = i
			}
		}
	}
	end(len(lines))
	return out
}

// headingLevel returns the level of a heading of Markdown, or 0.
func headingLevel(line string) int {
	n := len(line) - len(strings.TrimLeft(line, "#"))
	if n < 1 || n > 6 || len(line) > 300 || !strings.HasPrefix(line[n:], " ") {
		return 0
	}
	return n
}

// codeBlocks returns the definitions of a source file: they are separated by a blank line, and begin with a line
// that is not indented and closes nothing.
func codeBlocks(lines []string) (out []block) {
	blank := true
	for i, l := range lines {
		if strings.TrimSpace(l) == "" {
			blank = true
			continue
		}
		if blank && (len(out) == 0 || !strings.ContainsAny(l[:1], " \t})]")) {
			out = append(out, block{from: i})
		}
		out[len(out)-1].to = i + 1
		blank = false
	}
	return out
}

// codeNames are the endings of the names of source files.
var codeNames = strings.Fields(".go .py .js .mjs .ts .tsx .jsx .rs .java .kt .c .h .cc .cpp .hpp .cs .rb .php .pl .sh .bash .fish .lua .swift .scala .sql .r .jl .hs .ml .ex .exs .erl .clj .css .scss .proto .tf .nix .zig")

// textNames are the endings of the names of other files of text.
var textNames = strings.Fields(".txt .text .md .markdown .rst .org .adoc .tex .csv .tsv .log .json .yaml .yml .toml .ini .cfg .conf .env.example .srt .vtt .ics .vcf .ttl .nt .jsonld")

func isCode(name string) bool { return hasEnding(name, codeNames) }

func hasEnding(name string, endings []string) bool {
	ext := strings.ToLower(path.Ext(name))
	for _, e := range endings {
		if ext == e {
			return true
		}
	}
	return false
}

// textType is the type of all texts that are not HTML. No feed is looked for in it.
const textType = "text/markdown"

// mediaType returns the type of a file by its name; empty: it is derived from the content.
func mediaType(name string) string {
	switch ext := strings.ToLower(path.Ext(name)); ext {
	case ".eml":
		return extract.MailType
	case ".mbox":
		return extract.MailboxType
	case ".html", ".htm", ".xhtml":
		return "text/html"
	case ".pdf":
		return "application/pdf"
	case ".docx":
		return "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	}
	if isCode(name) || hasEnding(name, textNames) {
		return textType
	}
	return ""
}

// Readable reports whether a file in a watched folder is read: its name says that it is a document.
func Readable(name string) bool { return mediaType(name) != "" }

// Cite returns where a passage stands, as a person says it: "report.pdf p. 3", "notes.md:120".
func Cite(name string, p *record.DocumentPart) string {
	switch {
	case p.Page > 0:
		return name + " p. " + strconv.Itoa(p.Page)
	case p.Message > 0:
		where := name
		if p.Message > 1 || !strings.HasSuffix(strings.ToLower(name), ".eml") {
			where += " message " + strconv.Itoa(p.Message)
		}
		if p.Heading != "" {
			where += " (" + p.Heading + ")"
		}
		return where
	case p.Line > 0:
		return name + ":" + strconv.Itoa(p.Line)
	case p.Heading != "":
		return name + " (" + p.Heading + ")"
	}
	return name
}
