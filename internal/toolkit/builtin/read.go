package builtin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

func (k *kit) read(ctx context.Context, user string, a readArgs) (tool.Result, error) {
	mine, err := k.foldersOf(ctx, user)
	if err != nil {
		return tool.Result{}, err
	}
	p, root, err := mine.open(a.Path)
	if err != nil {
		return tool.Result{}, err
	}
	defer root.Close()
	f, info, err := p.openFile(root)
	if err != nil {
		return tool.Result{}, err
	}
	defer f.Close()
	head := make([]byte, 8192)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return tool.Result{}, p.fault(err)
	}
	if kind := sniff(p.rel, head[:n], info.Size()); kind != "" {
		if k.opt.Reader != nil && (kind == "application/pdf" || strings.HasSuffix(strings.ToLower(p.rel), ".docx")) {
			return p.document(ctx, *k.opt.Reader, f, info, a)
		}
		return p.media(f, info, kind)
	}
	if a.Line > 0 || a.Lines > 0 {
		return p.lines(ctx, f, a)
	}
	out, err := p.page(f, info.Size(), a)
	return tool.Text(out), err
}

// sniff returns the media type of a file, and "" for text.
func sniff(name string, head []byte, size int64) string {
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(head)) // its own output parses
	switch {
	case !strings.HasPrefix(kind, "text/") && kind != "application/octet-stream":
		return kind
	case text(head, int64(len(head)) < size):
		return ""
	}
	if byName, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name))); err == nil && kind == "application/octet-stream" {
		return byName
	}
	return kind
}

// text reports whether b is UTF-8 text. cut says that it may end inside a character.
func text(b []byte, cut bool) bool {
	if cut {
		for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
			if utf8.RuneStart(b[len(b)-i]) {
				if !utf8.FullRune(b[len(b)-i:]) {
					b = b[:len(b)-i]
				}
				break
			}
		}
	}
	return utf8.Valid(b) && !slices.Contains(b, 0)
}

// document returns the text of a PDF or Word file, page by page.
func (p place) document(ctx context.Context, r extract.Reader, f *os.File, info fs.FileInfo, a readArgs) (tool.Result, error) {
	data, err := io.ReadAll(io.LimitReader(f, extract.MaxBytes+1))
	if err != nil {
		return tool.Result{}, p.fault(err)
	}
	doc, err := r.Read(ctx, extract.Input{Data: data})
	if err != nil {
		return tool.Result{}, err
	}
	if strings.TrimSpace(doc.Text) == "" {
		doc.Text = "(there is no text in it; it may be scanned)"
	}
	out, err := p.page(strings.NewReader(doc.Text), int64(len(doc.Text)), a)
	return tool.Text(fmt.Sprintf("%s (%s, %d bytes):\n%s", p.shown, doc.Kind, info.Size(), out)), err
}

// media returns an image or a PDF, and describes any other file.
func (p place) media(f *os.File, info fs.FileInfo, kind string) (tool.Result, error) {
	image := kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
	if !image && kind != "application/pdf" || info.Size() > maxMedia {
		why := "it is not UTF-8 text"
		if info.Size() > maxMedia {
			why = "it is too large to be shown"
		}
		return tool.Text(fmt.Sprintf("%s is a file of type %s with %d bytes, changed %s; %s.",
			p.shown, kind, info.Size(), info.ModTime().UTC().Format(time.RFC3339), why)), nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxMedia))
	if err != nil {
		return tool.Result{}, p.fault(err)
	}
	if image {
		return tool.Result{Content: []message.Block{&message.Text{Text: p.shown + ":"}, &message.Image{MIME: kind, Data: data}}}, nil
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: p.shown + ":"},
		&message.File{MIME: kind, Name: path.Base(p.rel), Data: data}}}, nil
}

// maxScan bounds how much of a file is read to find a line.
const maxScan = 256 << 20

// lines reads some lines of a text. A line that is too long for a page is cut.
func (p place) lines(ctx context.Context, f *os.File, a readArgs) (tool.Result, error) {
	in := bufio.NewReaderSize(io.LimitReader(f, maxScan), maxPage)
	var b strings.Builder
	first := max(a.Line, 1)
	for n := 1; ; n++ {
		line, err := nextLine(in)
		switch {
		case err != nil && err != io.EOF:
			return tool.Result{}, p.fault(err)
		case n%4096 == 0 && ctx.Err() != nil:
			return tool.Result{}, ctx.Err()
		}
		if n >= first && line != "" {
			if b.Len() > 0 && b.Len()+len(line) > maxPage || a.Lines > 0 && n == first+a.Lines {
				return tool.Text(fmt.Sprintf("%s\n[Lines %d to %d. Read on at line %d.]", strings.ToValidUTF8(b.String(), "\uFFFD"), first, n-1, n)), nil
			}
			b.WriteString(line)
		}
		if err == io.EOF {
			break
		}
	}
	if b.Len() == 0 {
		return tool.Result{}, fault.New(fault.Invalid, "line_invalid", "%q has no line %d", p.shown, first)
	}
	return tool.Text(strings.ToValidUTF8(b.String(), "\uFFFD")), nil
}

// nextLine returns a line, or as much of it as the buffer holds.
func nextLine(in *bufio.Reader) (string, error) {
	part, err := in.ReadSlice('\n')
	line := string(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, err
}

// page reads a part of a text, without splitting characters.
func (p place) page(f io.ReaderAt, size int64, a readArgs) (string, error) {
	if a.Limit == 0 {
		a.Limit = maxPage
	}
	if a.Offset > 0 && a.Offset >= size {
		return "", fault.New(fault.Invalid, "offset_invalid", "%q has %d bytes: there is nothing at %d", p.shown, size, a.Offset)
	}
	// Room for a character that begins before the offset, and one that ends after the limit.
	from := max(0, a.Offset-utf8.UTFMax+1)
	buf := make([]byte, int(a.Offset-from)+a.Limit+utf8.UTFMax)
	n, err := f.ReadAt(buf, from)
	if err != nil && err != io.EOF {
		return "", p.fault(err)
	}
	buf = buf[:n]
	start := border(buf, int(a.Offset-from))
	end := border(buf, min(start+a.Limit, len(buf)))
	if end <= start && len(buf) > start { // the limit is shorter than a character
		_, size := utf8.DecodeRune(buf[start:])
		end = start + size
	}
	out := strings.ToValidUTF8(string(buf[start:end]), "\uFFFD")
	first, last := from+int64(start), from+int64(end)
	switch {
	case len(buf) == 0:
		out = "(the file is empty)"
	case last < size:
		out += fmt.Sprintf("\n[Bytes %d to %d of %d. Read on at offset %d.]", first, last, size, last)
	case first > 0:
		out += fmt.Sprintf("\n[Bytes %d to %d of %d: the end.]", first, last, size)
	}
	return out, nil
}

// border returns the last index up to at where a character begins.
func border(b []byte, at int) int {
	if at >= len(b) {
		return len(b)
	}
	for i := at; i >= 0 && i > at-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return at
}
