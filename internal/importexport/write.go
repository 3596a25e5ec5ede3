package importexport

import (
	"bufio"
	"hash"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
	"steward/internal/record"
)

// Writer writes Steward's own export: one object with a record per line, so that it can be streamed
// and two exports can be compared line by line. Its methods must be called in the order in which
// they are declared. Close returns the first error of the stream.
type Writer struct {
	w    *bufio.Writer
	sum  hash.Hash // nil: it is not signed
	list string    // the list that is open
	buf  []byte    // of the newest message
}

// NewWriter begins the export of a conversation, signed with a seal.
func NewWriter(w io.Writer, c *record.Conversation, seal Seal) *Writer {
	x := &Writer{w: bufio.NewWriterSize(w, 32<<10), sum: seal.begin()}
	x.w.WriteString(`{"steward_export":2,`)
	x.put(`"id":"` + c.ID.String() + `"`)
	x.w.WriteByte(',')
	x.put(`"conversation":`)
	x.put(string(record.Encode(c)))
	return x
}

// put writes signed content.
func (x *Writer) put(s string) {
	x.w.WriteString(s)
	if x.sum != nil {
		io.WriteString(x.sum, s) //nolint:errcheck // a hash takes everything
	}
}

// Branch adds a branch.
func (x *Writer) Branch(b *record.Branch) { x.line("branches", branchLine{b.ID, *b}) }

// Interaction adds an interaction.
func (x *Writer) Interaction(i *Interaction) { x.line("interactions", i) }

// Run adds a run.
func (x *Writer) Run(r *Run) { x.line("runs", r) }

// Mark adds the mark of a message.
func (x *Writer) Mark(m *record.Mark) { x.line("marks", markLine{m.Message, *m}) }

// Pin adds a pin.
func (x *Writer) Pin(p *record.Pin) { x.line("pins", pinLine{p.Message, *p}) }

// Summary adds a message that replaces others.
func (x *Writer) Summary(p Placed) { x.message("summaries", p) }

// Message adds a message. Messages must be added in the order of their positions.
func (x *Writer) Message(p Placed) error {
	x.message("messages", p)
	return x.Err()
}

func (x *Writer) message(list string, p Placed) {
	b := append(x.buf[:0], `{"interaction":"`...)
	b = append(p.Interaction.AppendText(b), `","branch":`...)
	b, _ = jsontext.AppendQuote(b, p.Branch) // the only error is invalid UTF-8, and ids are valid
	b = strconv.AppendInt(append(b, `,"pos":`...), p.Pos, 10)
	b = message.Append(append(b, `,"message":`...), p.Message)
	if len(p.Rests) > 0 {
		b = append(append(b, `,"rests":`...), record.Encode(p.Rests)...)
	}
	x.buf = append(b, '}')
	x.write(list, x.buf)
}

// Err returns the error of the stream, if it has failed.
func (x *Writer) Err() error {
	_, err := x.w.Write(nil)
	return err
}

// Close ends the export.
func (x *Writer) Close() error {
	if x.list != "messages" {
		x.open("messages")
	}
	x.put("\n]")
	x.sign("mac")
	x.w.WriteString("}\n")
	return x.w.Flush()
}

// open closes the open list and begins another.
func (x *Writer) open(list string) {
	if x.list != "" {
		x.put("\n]")
	}
	if x.list = list; list == "messages" {
		x.sign("signed") // so that a reader can decide early whether to trust the rest
	}
	x.w.WriteString(",\n")
	x.put(`"` + list + `":[`)
}

// sign writes a member that signs everything written so far.
func (x *Writer) sign(name string) {
	if x.sum != nil {
		x.w.WriteString(",\n\"" + name + `":` + signature(x.sum))
	}
}

func (x *Writer) line(list string, v any) { x.write(list, record.Encode(v)) }

func (x *Writer) write(list string, line []byte) {
	if x.list != list {
		x.open(list)
		x.put("\n")
	} else {
		x.put(",\n")
	}
	x.put(string(line))
}
