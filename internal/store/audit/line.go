package audit

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Format is the name of the format that Export writes.
const Format = "steward.audit/1"

// The kinds of lines.
const (
	kindBegin   = "begin"   // the first line: what the export is, and the head before its first entry
	kindEntry   = "entry"   // an entry
	kindOmitted = "omitted" // the hashes of entries that are not exported
	kindSeal    = "seal"    // the seal over the entries before it
	kindEnd     = "end"     // the last line: the head after all entries
)

// line is a line of an export. Its members depend on its kind.
type line struct {
	Kind string `json:"kind"`

	// begin
	Format string      `json:"format,omitzero"`
	Made   time.Time   `json:"made,omitzero"`
	By     string      `json:"by,omitzero"`
	Of     string      `json:"of,omitzero"` // "all", or the user whose entries it contains
	After  *store.Head `json:"after,omitzero"`

	// omitted: the concatenated hashes of the entries from From on
	From   uint64 `json:"from,omitzero"`
	Hashes []byte `json:"hashes,omitzero"`

	*Entry

	// seal, end
	Head    *store.Head `json:"head,omitzero"`
	Entries int         `json:"entries,omitzero"` // of the export
}

// Entry is an entry of the log, in plain fields.
type Entry struct {
	Seq     uint64         `json:"seq"`
	At      time.Time      `json:"at"`
	Who     string         `json:"who"`  // a user, "agent:NAME" or "system"
	Did     string         `json:"did"`  // "put", "delete" or "erase"
	Type    string         `json:"type"` // of the resource
	URI     resource.URI   `json:"uri"`
	Space   resource.Space `json:"space"`            // its owner
	Request id.ID          `json:"request,omitzero"` // the request that led to it; of a turn, its interaction
	Version uint64         `json:"version"`
	Before  uint64         `json:"before,omitzero"` // the entry of the previous version
	State   string         `json:"state,omitzero"`

	Decision *Decision       `json:"decision,omitzero"` // of an intent
	Grant    json.RawMessage `json:"grant,omitzero"`    // of a standing approval: what it allows
	Shown    *Shown          `json:"shown,omitzero"`    // of a message that a model wrote

	Body     *string    `json:"body,omitzero"`        // with bodies, text
	Binary   *string    `json:"body_base64,omitzero"` // with bodies, if it is not text
	Salt     string     `json:"salt,omitzero"`        // with bodies: it is hashed in front of the body
	Erased   bool       `json:"erased,omitzero"`      // the body was erased
	Masked   bool       `json:"masked,omitzero"`      // a secret in the body is hidden, so it does not match its hash
	BodyHash store.Hash `json:"body_hash"`            // the salted hash of the body
	Hash     store.Hash `json:"hash"`
}

var opWords = map[resource.Op]string{resource.OpPut: "put", resource.OpDelete: "delete", resource.OpErase: "erase"}

// newEntry returns the line of an entry, without its body and what the body says.
func newEntry(s *store.Sealed) *Entry {
	return &Entry{
		Seq: s.Seq, At: s.At, Who: s.Actor, Did: opWords[s.Op], Type: s.URI.Type(), URI: s.URI, Space: s.Space, Request: s.Request,
		Version: s.Version, Before: s.Prev, State: s.State, BodyHash: s.Mark, Hash: s.Hash,
		Erased: s.Op == resource.OpPut && s.Body == nil && s.Salt == nil,
	}
}

// sealed is the inverse of tell.
func (e *Entry) sealed() (s store.Sealed, ok bool) {
	s = store.Sealed{Prev: e.Before, Mark: e.BodyHash, Hash: e.Hash, Entry: resource.Entry{
		Seq: e.Seq, At: e.At, Space: e.Space, Actor: e.Who, Request: e.Request, URI: e.URI, Version: e.Version, State: e.State,
	}}
	for op, word := range opWords {
		if word == e.Did {
			s.Op = op
		}
	}
	return s, s.Op != 0 && e.Type == e.URI.Type()
}

// setBody adds the body and its salt to the line.
func (e *Entry) setBody(s *store.Sealed, mask func(string) string) {
	if s.Salt == nil || s.Op != resource.OpPut {
		return
	}
	e.Salt = base64.StdEncoding.EncodeToString(s.Salt[:])
	if !utf8.Valid(s.Body) {
		b := base64.StdEncoding.EncodeToString(s.Body)
		e.Binary = &b
		return
	}
	text := string(s.Body)
	if hidden := mask(text); hidden != text {
		text, e.Masked, e.Salt = hidden, true, ""
	}
	e.Body = &text
}

// body is the inverse of setBody; false: the line has no body.
func (e *Entry) body() ([]byte, *store.Salt, bool) {
	var salt store.Salt
	b, err := base64.StdEncoding.DecodeString(e.Salt)
	if err != nil || len(b) != len(salt) {
		return nil, nil, false
	}
	copy(salt[:], b)
	switch {
	case e.Body != nil:
		return []byte(*e.Body), &salt, true
	case e.Binary != nil:
		b, err := base64.StdEncoding.DecodeString(*e.Binary)
		return b, &salt, err == nil
	}
	return nil, nil, false
}
