package files

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
	kind, how := sniff(p.rel, head[:n], info.Size())
	if kind != "" {
		if k.opt.Reader != nil && (kind == "application/pdf" || strings.HasSuffix(strings.ToLower(p.rel), ".docx")) {
			return p.document(ctx, *k.opt.Reader, f, info, a)
		}
		return p.media(f, info, kind)
	}
	said, how, err := p.decoded(f, info, how)
	if err != nil {
		return tool.Result{}, p.fault(err)
	}
	out, err := p.page(ctx, said, a)
	if err == nil && how.name != utf8Form.name {
		out += fmt.Sprintf("\n[The file is written in %s.]", how.name)
	}
	return tool.Text(out), err
}

// decoded returns the text of a file. The form is determined from the whole file, or from its beginning if
// it is too large.
func (p place) decoded(f *os.File, info fs.FileInfo, how form) (io.Reader, form, error) {
	if info.Size() > maxWrite {
		in, err := how.reader(f)
		return in, how, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxWrite))
	if err != nil {
		return nil, how, err
	}
	if whole, ok := formOf(b, false); ok {
		how = whole
	}
	said, err := how.decode(b)
	return strings.NewReader(unixEnds(said)), how, err
}

// sniff returns the media type of a file, and for text "" and its form.
func sniff(name string, head []byte, size int64) (kind string, how form) {
	kind, _, _ = mime.ParseMediaType(http.DetectContentType(head)) // its own output parses
	how, isText := formOf(head, int64(len(head)) < size)
	switch {
	case !strings.HasPrefix(kind, "text/") && kind != "application/octet-stream":
		return kind, how
	case isText:
		return "", how
	}
	if byName, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name))); err == nil && kind == "application/octet-stream" {
		return byName, how
	}
	return kind, how
}

// text reports whether b is UTF-8 text. cut says that it may end inside a character.
func text(b []byte, cut bool) bool {
	if cut {
		b, _ = complete(b)
	}
	return utf8.Valid(b) && !slices.Contains(b, 0)
}

// complete returns b without the character that it ends inside of, and the beginning of that.
func complete(b []byte) (_, rest []byte) {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return b[:i], b[i:]
		}
	}
	return b, nil
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
		doc.Text = "(it has no text; it may be scanned)"
	}
	out, err := p.page(ctx, strings.NewReader(doc.Text), a)
	return tool.Text(fmt.Sprintf("%s (%s, %d bytes):\n%s", p.shown, doc.Kind, info.Size(), out)), err
}

// media returns an image or a PDF, and describes any other file.
func (p place) media(f *os.File, info fs.FileInfo, kind string) (tool.Result, error) {
	image := kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp"
	if !image && kind != "application/pdf" || info.Size() > maxMedia {
		why := "it is not text"
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

// page reads lines of a text, as many as fit. A line that does not fit alone counts as several.
func (p place) page(ctx context.Context, text io.Reader, a readArgs) (string, error) {
	in, first := bufio.NewReaderSize(text, maxPage), max(a.Line, 1)
	var out strings.Builder
	var rest []byte // the beginning of a character that the next part ends
	for line := 1; ; line++ {
		part, err := in.ReadSlice('\n')
		part, rest = append(rest, part...), nil
		if errors.Is(err, bufio.ErrBufferFull) {
			part, rest = complete(part)
			err = nil
		}
		switch {
		case err != nil && err != io.EOF:
			return "", p.fault(err)
		case ctx.Err() != nil:
			return "", ctx.Err()
		case len(part) == 0 && line == 1:
			return "(the file is empty)", nil
		case len(part) == 0 && line <= first:
			return "", fault.New(fault.Invalid, "line_invalid", "%q has no line %d", p.shown, first)
		case len(part) == 0 && first == 1:
			return out.String(), nil
		case len(part) == 0:
			return out.String() + fmt.Sprintf("\n[Lines %d to %d: the end.]", first, line-1), nil
		case line < first:
			continue
		case line == first+a.Lines && a.Lines > 0, line > first && out.Len()+len(part) > maxPage:
			return out.String() + fmt.Sprintf("\n[Lines %d to %d. Read on at line %d.]", first, line-1, line), nil
		}
		out.WriteString(strings.ToValidUTF8(string(part), "\uFFFD"))
	}
}
