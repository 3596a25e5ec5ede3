package auth

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// MaxBody is the default size limit of a request's body or a WebSocket message, in bytes.
const MaxBody = 32 << 20

// drainFactor limits how much of an oversized body is read and discarded, as a multiple of the limit.
// A server that stops reading resets the connection, and the client never sees the error.
const drainFactor = 8

// ReadBody returns a request's body, which must be JSON (media_type). A body of more than limit
// bytes (0: MaxBody) is too_large; the connection stays usable if possible.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if t := mediaType(r); t != "application/json" && r.ContentLength != 0 {
		return nil, wrongType(t, "application/json")
	}
	if limit <= 0 {
		limit = MaxBody
	}
	c, _ := From(r.Context()) // without a caller there are no bounds: a program of Steward's has called
	limit = c.BodyLimit(limit)
	if r.ContentLength > limit*drainFactor || r.ContentLength > limit && r.Header.Get("Expect") != "" {
		w.Header().Set("Connection", "close")
		return nil, TooLarge(limit)
	}
	if r.ContentLength > limit {
		return nil, discard(w, r, limit)
	}
	size := r.ContentLength
	if size < 0 { // it may be as long as the limit
		size = limit
	}
	if err := c.ReserveRequest(r.Context(), size); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(min(n, 1<<20)) + bytes.MinRead) // a Content-Length header alone allocates no more than this
	}
	n, err := buf.ReadFrom(io.LimitReader(c.pacedReader(r.Body, limit), limit+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, "body_broken", "the request was interrupted: %w", err)
	}
	if n <= limit {
		return buf.Bytes(), c.checkMarks(buf.Bytes())
	}
	return nil, discard(w, r, limit)
}

// discard reads the rest of a body that is too large without keeping it, and returns the error.
func discard(w http.ResponseWriter, r *http.Request, limit int64) error {
	if _, err := io.CopyN(io.Discard, r.Body, limit*(drainFactor-1)); !errors.Is(err, io.EOF) {
		w.Header().Set("Connection", "close")
	}
	return TooLarge(limit)
}

// mediaType returns the type of a request's body without parameters. It is empty if the type is
// missing or invalid.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// refuseForms refuses a body that a form on any web page, or a script without permission, could have
// sent. All servers accept only application/ types, except that of forms.
func refuseForms(r *http.Request) error {
	t := mediaType(r)
	if r.ContentLength == 0 || strings.HasPrefix(t, "application/") && t != "application/x-www-form-urlencoded" {
		return nil
	}
	return wrongType(t, "application/json, or another type that the path takes")
}

func wrongType(t, want string) error {
	return fault.New(fault.Unsupported, "media_type", "unsupported content type %.100q", t).
		WithHint("send the header Content-Type: %s", want)
}

// TooLarge returns the error for more than limit bytes.
func TooLarge(limit int64) error {
	return fault.New(fault.TooLarge, "too_large", "the request exceeds the limit of %d bytes", limit).
		Detail("limit", limit).WithHint("send less, or split the request")
}

// Decode reads a request's body into v as Unmarshal does.
func Decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := ReadBody(w, r, limit)
	if err != nil {
		return err
	}
	return Unmarshal(body, v)
}

// Unmarshal decodes one JSON value strictly: no unknown members (unless v collects them), no
// repeated names, names in their exact case, valid UTF-8. Errors (Invalid): invalid_utf8,
// invalid_json, duplicate_member, unknown_member, member_invalid; Details has "position" (a byte
// offset) and "member" (a JSON pointer).
func Unmarshal(data []byte, v any) error {
	return unmarshal(data, v, json.RejectUnknownMembers(true))
}

// UnmarshalKnown is like Unmarshal, but ignores members that v does not have.
func UnmarshalKnown(data []byte, v any) error { return unmarshal(data, v) }

func unmarshal(data []byte, v any, opts ...json.Options) error {
	if !utf8.Valid(data) {
		return fault.New(fault.Invalid, "invalid_utf8", "the request is not valid UTF-8").
			Detail("position", validPrefix(data)).WithHint("encode text as UTF-8")
	}
	err := json.Unmarshal(data, v, opts...)
	if err == nil {
		return nil
	}
	if syn, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntax(syn)
	}
	sem, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return fault.New(fault.Invalid, "invalid_json", "invalid JSON: %w", err)
	}
	where := pointer(sem.JSONPointer)
	if errors.Is(sem, json.ErrUnknownName) {
		return fault.New(fault.Invalid, "unknown_member", "unknown member %s", where).
			Detail("member", where).WithHint("leave it out, or correct its spelling; case matters")
	}
	if coded, ok := errors.AsType[*fault.Error](sem.Err); ok {
		return coded.Detail("member", where)
	}
	return fault.New(fault.Invalid, "member_invalid", "%s cannot be a JSON %s here", or(where, "the request"), sem.JSONKind).
		Detail("member", where).Detail("position", sem.ByteOffset)
}

func syntax(e *jsontext.SyntacticError) error {
	where := pointer(e.JSONPointer)
	if errors.Is(e, jsontext.ErrDuplicateName) {
		return fault.New(fault.Invalid, "duplicate_member", "duplicate member %s", where).
			Detail("member", where).Detail("position", e.ByteOffset)
	}
	return fault.New(fault.Invalid, "invalid_json", "invalid JSON: at byte %d: %v", e.ByteOffset, e.Err).
		Detail("position", e.ByteOffset)
}

// pointer shortens a pointer, whose names come from the client.
func pointer(p jsontext.Pointer) string {
	const most = 200
	if len(p) > most {
		return strings.ToValidUTF8(string(p[:most]), "") + "…"
	}
	return string(p)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func validPrefix(b []byte) int {
	at := 0
	for at < len(b) {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}
