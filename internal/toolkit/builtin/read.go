package builtin

import (
	"bufio"
	"cmp"
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

	"steward/internal/domain/local"
	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

func (k *kit) read(ctx context.Context, in tool.Invocation, a readArgs) (tool.Result, error) {
	mine, err := k.foldersOf(ctx, in.User)
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
		if err := p.lines(ctx, f, &a); err != nil {
			return tool.Result{}, err
		}
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

// lines finds the bytes that some lines have.
func (p place) lines(ctx context.Context, f *os.File, a *readArgs) error {
	in := bufio.NewReader(io.LimitReader(f, maxScan))
	first, at, start := max(a.Line, 1), int64(0), int64(0)
	for line := 1; line < first+a.Lines; {
		part, err := in.ReadSlice('\n')
		at += int64(len(part))
		switch {
		case err == io.EOF && line < first:
			return fault.New(fault.Invalid, "line_invalid", "%q has no line %d", p.shown, first)
		case err == nil:
			if line++; line == first {
				start = at
			}
		case err == io.EOF:
			line = first + a.Lines
		case !errors.Is(err, bufio.ErrBufferFull):
			return p.fault(err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
	a.Offset = start
	if a.Lines > 0 {
		a.Limit = int(min(at-start, maxPage))
	}
	return nil
}

// page reads a part of a text, if possible of whole lines.
func (p place) page(f io.ReaderAt, size int64, a readArgs) (string, error) {
	if a.Offset > 0 && a.Offset >= size {
		return "", fault.New(fault.Invalid, "offset_invalid", "%q has %d bytes: there is nothing at %d", p.shown, size, a.Offset)
	}
	limit := cmp.Or(a.Limit, maxPage)
	buf := make([]byte, limit+2*utf8.UTFMax)
	n, err := f.ReadAt(buf, a.Offset)
	if err != nil && err != io.EOF {
		return "", p.fault(err)
	}
	part, next := local.Cut(string(buf[:n]), 0, limit)
	last := a.Offset + int64(cmp.Or(next, n))
	first := last - int64(len(part))
	out := strings.ToValidUTF8(part, "\uFFFD")
	switch {
	case n == 0:
		out = "(the file is empty)"
	case last < size:
		out += fmt.Sprintf("\n[Bytes %d to %d of %d. Read on at offset %d.]", first, last, size, last)
	case first > 0:
		out += fmt.Sprintf("\n[Bytes %d to %d of %d: the end.]", first, last, size)
	}
	return out, nil
}
