package page

import (
	"encoding/base64"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
)

// fileAt is the address of a file or picture in a message; "": the page has no conversation of the person's.
func (v *visit) fileAt(m id.ID, block int) string {
	if v.conversation.Zero() {
		return ""
	}
	return "/chat/" + v.conversation.String() + "/file/" + m.String() + "/" + strconv.Itoa(block)
}

// attachment shows a picture or a file.
func (v *visit) attachment(at string, b message.Block) g.Node {
	switch b := b.(type) {
	case *message.Image:
		if len(b.Data) == 0 || !slices.Contains(pictures(), b.MIME) {
			return Span(Class("file"), v.icon("image"), ownText(b.URL))
		}
		if at == "" {
			return Img(Class("attached"), Alt(v.t("An attached image")), Src("data:"+b.MIME+";base64,"+base64.StdEncoding.EncodeToString(b.Data)))
		}
		return A(Class("picture"), Href(at), Target("_blank"), Img(Class("attached"), Alt(v.t("An attached image")), Src(at), Loading("lazy")))
	case *message.File:
		if at == "" || len(b.Data) == 0 {
			return Span(Class("file"), v.icon("file"), ownText(b.Name))
		}
		return A(Class("file"), Href(at), Download(""), v.icon("file"), ownText(b.Name), Span(Class("quiet"), g.Text(bytesOf(len(b.Data)))))
	}
	return nil
}

func bytesOf(n int) string {
	switch {
	case n >= 1<<20:
		return strconv.Itoa(n>>20) + " MB"
	case n >= 1<<10:
		return strconv.Itoa(n>>10) + " KB"
	}
	return strconv.Itoa(n) + " B"
}

// made shows the files and pictures that a call has returned.
func (v *visit) made(r *message.ToolResult) g.Node {
	if r == nil {
		return nil
	}
	var out []g.Node
	for i, b := range r.Content {
		if _, words := b.(*message.Text); words {
			continue
		}
		at := v.fileAt(r.Call.Message, r.Call.Block)
		if at != "" {
			at += "/" + strconv.Itoa(i)
		}
		out = append(out, v.attachment(at, b))
	}
	if len(out) == 0 {
		return nil
	}
	return Div(Class("made-files"), g.Group(out))
}

// file sends a file or a picture of a message, or of the result of a call of the message.
func (s *server) file(w http.ResponseWriter, r *http.Request) {
	v, err := s.visit(r)
	var b message.Block
	if err == nil {
		b, err = v.findFile()
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	// The browser keeps it, but asks each time whether the person may still see it. It never changes.
	h.Set("Cache-Control", "private, no-cache")
	tag := strconv.QuoteToASCII(r.PathValue("message") + "-" + r.PathValue("block") + "-" + r.PathValue("part"))
	h.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	var data []byte
	switch b := b.(type) {
	case *message.Image:
		if data = b.Data; slices.Contains(pictures(), b.MIME) {
			h.Set("Content-Type", b.MIME)
		} else {
			h.Set("Content-Disposition", "attachment")
		}
	case *message.File:
		data = b.Data
		name := strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f || r == '/' || r == '\\' {
				return '_'
			}
			return r
		}, visible(b.Name))
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.Write(data) //nolint:errcheck // the browser has gone
}

func (v *visit) findFile() (message.Block, error) {
	missing := fault.New(fault.NotFound, "file_not_found", "there is no such file")
	conv, err := conversationID(v.r.PathValue("conversation"))
	if err != nil {
		return nil, err
	}
	msg, ok := id.Parse(v.r.PathValue("message"))
	block, err := strconv.Atoi(v.r.PathValue("block"))
	if !ok || err != nil || block < 0 {
		return nil, missing
	}
	sc := store.ForUser(v.caller.User)
	if _, err := v.Node.Conversations.Get(v.ctx(), sc, conv); err != nil {
		return nil, err
	}
	m, err := v.Node.Conversations.Find(v.ctx(), sc, conv, msg)
	if err != nil {
		return nil, err
	}
	blocks := m.Blocks
	if part := v.r.PathValue("part"); part != "" {
		call := message.Ref{Message: msg, Block: block}
		if block, err = strconv.Atoi(part); err != nil || block < 0 {
			return nil, missing
		}
		turn, err := v.Node.Conversations.Turn(v.ctx(), sc, conv, m.Interaction)
		if err != nil {
			return nil, err
		}
		blocks = nil
		for _, m := range turn {
			if r := m.Result(); r != nil && r.Call == call {
				blocks = r.Content
			}
		}
	}
	if block >= len(blocks) {
		return nil, missing
	}
	switch blocks[block].(type) {
	case *message.Image, *message.File:
		return blocks[block], nil
	}
	return nil, missing
}
