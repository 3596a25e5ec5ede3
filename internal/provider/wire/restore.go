package wire

import (
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
)

// CodeMismatch is the code of a manifest that belongs to another history.
const CodeMismatch = "history_mismatch"

// Restore gives back the history that a manifest was made of: content, links
// and this provider's metadata are taken from decoded, what was read from the
// wire; all else from the manifest. A block that left nothing on the wire
// comes back empty, an image as a file without content; one that the model was
// only told of comes back as these words, but for a file of which they tell
// the address. The result's message i is that of the manifest's entry i. A
// manifest that does not fit is refused (history_mismatch).
func Restore(m *Manifest, decoded []*message.Message) ([]*message.Message, error) {
	r := &restoring{entries: m.Messages, atoms: atomsOf(decoded)}
	for _, e := range m.Messages {
		if e.Message == nil {
			return nil, mismatch("an entry has no message")
		}
		r.out = append(r.out, bare(e.Message))
		r.done = append(r.done, make(map[place]bool))
	}
	for i, p := range m.Wire {
		if err := r.piece(p); err != nil {
			return nil, mismatch("piece %d: %s", i, err)
		}
	}
	if r.words != "" || len(r.atoms) > 0 {
		return nil, mismatch("there is more on the wire")
	}
	for i, msg := range r.out {
		r.settle(i, msg)
		if err := message.Validate(msg); err != nil {
			return nil, mismatch("message %d: %w", i, err)
		}
	}
	if err := message.CheckHistory(r.out); err != nil {
		return nil, mismatch("%w", err)
	}
	return r.out, nil
}

func mismatch(format string, args ...any) error {
	return fault.New(fault.Invalid, CodeMismatch, "the manifest is not that of this history: %w", fmt.Errorf(format, args...))
}

// atom is a block as it was read from the wire.
type atom struct {
	message *message.Message
	block   message.Block
}

// atomsOf lists the blocks; the images and files of a result follow it.
func atomsOf(msgs []*message.Message) []atom {
	var out []atom
	for _, m := range msgs {
		for _, b := range m.Blocks {
			out = append(out, atom{m, b})
			if r, ok := b.(*message.ToolResult); ok {
				for _, c := range r.Content {
					if _, text := c.(*message.Text); !text {
						out = append(out, atom{m, c})
					}
				}
			}
		}
	}
	return out
}

type restoring struct {
	entries []Entry
	out     []*message.Message
	done    []map[place]bool // the blocks that have their content
	atoms   []atom           // not yet used
	now     atom             // the one being used
	words   string           // what of its text is left
}

func (r *restoring) piece(p Piece) error {
	switch {
	case !p.Join && r.words != "":
		return fmt.Errorf("%d bytes of text are left", len(r.words))
	case !p.Join && len(r.atoms) == 0:
		return fmt.Errorf("there is nothing left on the wire")
	case p.Join && p.Kind != pieceText && p.Kind != pieceFile:
		return fmt.Errorf("a %s cannot join a text", p.Kind)
	case !p.Join:
		r.now, r.atoms = r.atoms[0], r.atoms[1:]
		if err := r.begin(p.Kind); err != nil {
			return err
		}
	}
	var words string
	if p.Kind == pieceText || p.Kind == pieceFile {
		if p.Len < 0 || p.Len > len(r.words) {
			return fmt.Errorf("a text of %d bytes is wanted, %d are there", p.Len, len(r.words))
		}
		words, r.words = r.words[:p.Len], r.words[p.Len:]
	}
	if p.Message < 0 {
		return nil
	}
	to, err := r.target(p)
	if err != nil {
		return err
	}
	return r.fill(p, to, words)
}

// begin checks that the atom is of the kind, and takes up its words.
func (r *restoring) begin(kind string) error {
	ok := false
	switch b := r.now.block.(type) {
	case *message.Text:
		r.words, ok = b.Text, kind == pieceText || kind == pieceFile
	case *message.Reasoning:
		r.words, ok = b.Text, kind == pieceText
	case *message.ToolResult:
		r.words, ok = ResultText(b), kind == pieceResult
	case *message.ToolCall:
		ok = kind == pieceCall
	case *message.Vendor:
		ok = kind == pieceVendor
	case *message.Image, *message.File:
		ok = kind == pieceMedia
	}
	if !ok {
		return fmt.Errorf("a %s is wanted, a %T is there", kind, r.now.block)
	}
	return nil
}

// target finds the block that a piece belongs to: in the list that it stands in.
func (r *restoring) target(p Piece) (*message.Block, error) {
	if p.Message >= len(r.out) {
		return nil, fmt.Errorf("there is no message %d", p.Message)
	}
	m := r.out[p.Message]
	if (m.Role == message.Assistant) != (r.now.message.Role == message.Assistant) {
		return nil, fmt.Errorf("the %s's is wanted, the %s's is there", m.Role, r.now.message.Role)
	}
	list, at := m.Blocks, p.Block
	if p.Content > 0 && at >= 0 && at < len(list) {
		res, _ := list[at].(*message.ToolResult)
		if res == nil {
			return nil, fmt.Errorf("block %d of message %d is no result", at, p.Message)
		}
		list, at = res.Content, p.Content-1
	}
	key := place{0, p.Block, p.Content}
	if at < 0 || at >= len(list) || r.done[p.Message][key] {
		return nil, fmt.Errorf("message %d has no such block, or has its content already", p.Message)
	}
	r.done[p.Message][key] = true
	if own := r.now.message.Meta; own.Provider == r.entries[p.Message].Message.Meta.Provider {
		m.Meta = own
	}
	return &list[at], nil
}

// fill gives a block its content.
func (r *restoring) fill(p Piece, to *message.Block, words string) error {
	c := (*to).Base()
	if own := r.now.block.Base().Meta; own.Provider == c.Meta.Provider {
		c.Meta = own
	} else {
		c.Meta = message.Meta{}
	}
	switch b := (*to).(type) {
	case *message.Text:
		if p.Kind == pieceText {
			b.Text = words
			return nil
		}
	case *message.Reasoning:
		if p.Kind == pieceText {
			b.Text = words
			return nil
		}
	case *message.ToolCall:
		if p.Kind == pieceCall {
			return r.call(p, b)
		}
	case *message.Vendor:
		if p.Kind == pieceVendor {
			return nil
		}
	case *message.ToolResult:
		if p.Kind == pieceResult {
			if from := r.now.block.(*message.ToolResult); !sameTool(from.Name, b.Name) {
				return fmt.Errorf("a result of %.80q is wanted, one of %.80q is there", b.Name, from.Name)
			}
			return nil
		}
	case *message.Image:
		switch p.Kind {
		case pieceText:
			*to = &message.Text{Common: *c, Text: words}
			return nil
		case pieceMedia:
			r.media(p, &b.MIME, &b.Data, &b.URL)
			return nil
		}
	case *message.File:
		return r.file(p, to, b, words)
	}
	return fmt.Errorf("a %s cannot be the content of a %T", p.Kind, *to)
}

// media takes up an image or a file; its type too, where the wire tells it: but
// not the parameters that a vendor leaves out.
func (r *restoring) media(p Piece, mime *string, data *[]byte, url *string) {
	var told string
	switch b := r.now.block.(type) {
	case *message.Image:
		told, *data, *url = b.MIME, b.Data, b.URL
	case *message.File:
		told, *data, *url = b.MIME, b.Data, b.URL
	}
	if !p.Mute && !strings.HasPrefix(*mime, told+";") {
		*mime = told
	}
}

func (r *restoring) file(p Piece, to *message.Block, b *message.File, words string) error {
	switch p.Kind {
	case pieceMedia:
		r.media(p, &b.MIME, &b.Data, &b.URL)
		return nil
	case pieceText:
		if url := fileURL(b.Name, words); url != "" {
			b.URL = url
		} else {
			*to = &message.Text{Common: b.Common, Text: words}
		}
		return nil
	case pieceFile:
		head, _ := FileText(&message.File{Name: b.Name})
		if len(words) < len(head) || words[:len(head)] != head {
			return fmt.Errorf("a file %.80q is wanted", b.Name)
		}
		if data := words[len(head):]; data != "" {
			b.Data = []byte(data)
		}
		return nil
	}
	return fmt.Errorf("a %s cannot be the content of a file", p.Kind)
}

// fileURL returns the address that FileText's words tell, if they do.
func fileURL(name, words string) string {
	told, _ := FileText(&message.File{Name: name, URL: "x"}) // ends in "x]"
	rest, ok := strings.CutPrefix(words, strings.TrimSuffix(told, "x]"))
	url, closed := strings.CutSuffix(rest, "]")
	if !ok || !closed {
		return ""
	}
	return url
}

func (r *restoring) call(p Piece, b *message.ToolCall) error {
	from := r.now.block.(*message.ToolCall)
	if !sameTool(from.Name, b.Name) {
		return fmt.Errorf("a call of %.80q is wanted, one of %.80q is there", b.Name, from.Name)
	}
	args := from.Args
	if p.Wrapped != "" {
		args = AppendArgs(nil, args, p.Wrapped)
	}
	switch {
	case p.Len == 0 && (len(args) == 0 || string(args) == "{}"):
		return nil
	case p.Len != len(args) && string(args) != "{}":
		return fmt.Errorf("arguments of %d bytes are wanted, %d are there", p.Len, len(args))
	}
	b.Args = args
	return nil
}

// settle makes the blocks that left nothing on the wire ones that may stand in
// a history.
func (r *restoring) settle(i int, m *message.Message) {
	if len(m.Meta.Fields) == 0 {
		m.Meta = message.Meta{}
	}
	for j, b := range m.Blocks {
		m.Blocks[j] = settled(b, r.done[i][place{0, j, 0}])
		if res, ok := b.(*message.ToolResult); ok {
			for k, c := range res.Content {
				res.Content[k] = settled(c, r.done[i][place{0, j, k + 1}])
			}
		}
	}
}

func settled(b message.Block, done bool) message.Block {
	c := b.Base()
	if !done {
		c.Meta = message.Meta{}
	}
	if img, ok := b.(*message.Image); ok && !done {
		return &message.File{Common: *c, MIME: img.MIME}
	}
	return b
}
