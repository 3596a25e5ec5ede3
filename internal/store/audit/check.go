package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"steward/internal/fault"
	"steward/internal/store"
)

// maxLine bounds a line of an export: the largest body that a store accepts,
// written as text.
const maxLine = 1 << 30

// Checked is the result of checking an export.
type Checked struct {
	After   store.Head  `json:"after"`           // where it begins
	Head    store.Head  `json:"head"`            // where it ends
	Entries int         `json:"entries"`         // entries that it contains
	Omitted int         `json:"omitted"`         // entries of which it has only the hashes
	Bodies  int         `json:"bodies"`          // bodies that match their hashes
	Beyond  []uint64    `json:"beyond,omitzero"` // anchors before its beginning or after its end
	Flaw    *store.Flaw `json:"flaw,omitzero"`
}

// VerifyExport follows the chain through an export, without a store: it computes
// each entry's hash and the chain's hashes, and compares them with the seals and
// the anchors. It reports the first deviation. If the input is not an export at all,
// it returns an error (export_invalid).
func VerifyExport(r io.Reader, anchors ...store.Head) (Checked, error) {
	c := checker{anchors: make(map[uint64]store.Hash)}
	for _, a := range anchors {
		c.anchors[a.Seq] = a.Hash
	}
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	for in.Scan() && c.Flaw == nil {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		c.number++
		if err := c.line(in.Bytes()); err != nil {
			return Checked{}, err
		}
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return Checked{}, invalid("a line is too long")
		}
		return Checked{}, fault.New(fault.Unavailable, "export_unreadable", "the export cannot be read: %w", err).
			WithHint("check that the file exists and is complete")
	}
	return c.end()
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "export_invalid", "not an export of the audit log: "+format, args...).
		WithHint("give a file that `steward audit export` has written")
}

type checker struct {
	Checked
	anchors map[uint64]store.Hash
	number  int // of the current line
	ended   bool
	sealed  uint64 // the newest sealed entry
}

func (c *checker) line(b []byte) error {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		if c.number == 1 {
			return invalid("line 1: %w", err)
		}
		c.recordFlaw(c.Head.Seq+1, "line %d cannot be read: %s", c.number, err)
		return nil
	}
	if c.number == 1 {
		if l.Kind != kindBegin || l.Format != Format || l.After == nil {
			return invalid("unknown format %q", l.Format)
		}
		c.After, c.Head, c.sealed = *l.After, *l.After, l.After.Seq
		if c.Head.Seq == 0 && c.Head.Hash != (store.Hash{}) {
			c.recordFlaw(1, "the start of the chain is missing")
		}
		c.anchor()
		return nil
	}
	switch {
	case c.ended:
		c.recordFlaw(c.Head.Seq+1, "there is data after the end")
	case l.Kind == kindEntry && l.Entry != nil:
		c.entry(l.Entry)
	case l.Kind == kindOmitted:
		c.omitted(&l)
	case l.Kind == kindSeal && l.Head != nil:
		c.head(l.Head, "seal")
		c.sealed = c.Head.Seq
	case l.Kind == kindEnd && l.Head != nil:
		c.ended = true
		c.head(l.Head, "end")
		if l.Entries != c.Entries {
			c.recordFlaw(c.Head.Seq, "it has %d entries, but states %d", c.Entries, l.Entries)
		}
	default:
		c.recordFlaw(c.Head.Seq+1, "unknown kind of line %d", c.number)
	}
	return nil
}

// recordFlaw records the first flaw.
func (c *checker) recordFlaw(seq uint64, format string, args ...any) {
	if c.Flaw == nil {
		c.Flaw = &store.Flaw{Seq: seq, What: fmt.Sprintf(format, args...)}
	}
}

func (c *checker) entry(e *Entry) {
	s, ok := e.sealed()
	switch sum := s.Sum(); {
	case e.Seq != c.Head.Seq+1:
		c.recordFlaw(c.Head.Seq+1, "missing: entry %d follows", e.Seq)
	case !ok || sum != e.Hash:
		c.recordFlaw(e.Seq, "the entry was changed: its hash differs")
	default:
		c.body(e)
	}
	if c.Flaw != nil {
		c.Flaw.URI = e.URI
		return
	}
	c.Entries++
	c.link(e.Hash)
}

// body checks whether an exported body matches its hash.
func (c *checker) body(e *Entry) {
	if e.Body == nil && e.Binary == nil || e.Masked {
		return
	}
	b, salt, ok := e.body()
	if !ok || store.MarkBody(salt, sha256.Sum256(b)) != e.BodyHash {
		c.recordFlaw(e.Seq, "its body was changed")
		return
	}
	c.Bodies++
}

func (c *checker) omitted(l *line) {
	const size = len(store.Hash{})
	if l.From != c.Head.Seq+1 || len(l.Hashes) == 0 || len(l.Hashes)%size != 0 {
		c.recordFlaw(c.Head.Seq+1, "missing: the hashes continue from entry %d", l.From)
		return
	}
	for b := l.Hashes; len(b) > 0; b = b[size:] {
		c.Omitted++
		c.link(store.Hash(b[:size]))
	}
}

// link adds one entry to the chain.
func (c *checker) link(h store.Hash) {
	c.Head = store.Head{Seq: c.Head.Seq + 1, Hash: c.Head.Hash.Link(h)}
	c.anchor()
}

// anchor compares the chain with a known head at this position.
func (c *checker) anchor() {
	if want, ok := c.anchors[c.Head.Seq]; ok && want != c.Head.Hash {
		c.recordGap("the log up to entry %d has changed since that head was taken", c.Head.Seq)
	}
}

// recordGap records a flaw somewhere after the last seal, up to here.
func (c *checker) recordGap(format string, args ...any) {
	c.recordFlaw(min(c.sealed+1, c.Head.Seq), format, args...)
	if c.Flaw.Through == 0 && c.Flaw.Seq < c.Head.Seq {
		c.Flaw.Through = c.Head.Seq
	}
}

func (c *checker) head(h *store.Head, what string) {
	if *h != c.Head {
		c.recordGap("the %s does not match these entries: one of them was changed or removed", what)
	}
}

func (c *checker) end() (Checked, error) {
	switch {
	case c.number == 0:
		return Checked{}, invalid("the file is empty")
	case c.Flaw == nil && !c.ended:
		c.recordFlaw(c.Head.Seq+1, "missing: the export is incomplete")
	case c.Flaw == nil:
		for seq := range c.anchors {
			if seq < c.After.Seq || seq > c.Head.Seq {
				c.Beyond = append(c.Beyond, seq)
			}
		}
		slices.Sort(c.Beyond)
	}
	return c.Checked, nil
}
