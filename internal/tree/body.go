package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/resource"
)

// MaxBody is the maximum size of a body in bytes.
const MaxBody = 1 << 20

const (
	maxDepth = 64 // nesting of a body
	maxState = 64 // bytes
)

// CheckBody refuses what cannot be a resource's body, as Put does.
func CheckBody(body []byte) error {
	_, err := checkBody(body)
	return err
}

// checkBody accepts one JSON object in valid UTF-8, without duplicate names,
// whose metadata members are texts. Errors (Invalid): body_invalid with
// Details["position"], metadata_invalid; too_large.
func checkBody(body []byte) (resource.Metadata, error) {
	var m resource.Metadata
	if len(body) > MaxBody {
		return m, fault.New(fault.TooLarge, "too_large", "the body has %d bytes; a resource has at most %d", len(body), MaxBody).
			Detail("limit", MaxBody).WithHint("split it into several resources")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if dec.PeekKind() != '{' {
		return m, badBody(dec.InputOffset(), "it is not a JSON object")
	}
	for open := true; open; open = dec.StackDepth() > 0 {
		if _, err := dec.ReadToken(); err != nil {
			at := dec.InputOffset()
			if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
				at = syntax.ByteOffset
			}
			return m, badBody(at, err.Error())
		}
		if dec.StackDepth() > maxDepth {
			return m, badBody(dec.InputOffset(), "its values are nested too deeply")
		}
	}
	if rest := bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return m, badBody(int64(len(body)-len(rest)), "there is data after the object")
	}
	m, odd := metadata(body)
	if odd != "" {
		return m, fault.New(fault.Invalid, "metadata_invalid", "the member %s of a resource must be a text", odd).
			Detail("member", "/"+odd).WithHint("write it as a text, or rename the member")
	}
	return m, nil
}

// metadata returns the members of a body that describe it, and the name of one
// that is not a text. Other bodies have no metadata.
func metadata(body []byte) (m resource.Metadata, odd string) {
	var raw struct {
		Purpose       jsontext.Value `json:"purpose"`
		Instructions  jsontext.Value `json:"instructions"`
		Applicability jsontext.Value `json:"applicability"`
		Evaluation    jsontext.Value `json:"evaluation"`
	}
	if jsontext.Value(body).Kind() != '{' || jsonv2.Unmarshal(body, &raw) != nil {
		return m, ""
	}
	for _, f := range []struct {
		name string
		raw  jsontext.Value
		to   *string
	}{{"purpose", raw.Purpose, &m.Purpose}, {"instructions", raw.Instructions, &m.Instructions},
		{"applicability", raw.Applicability, &m.Applicability}, {"evaluation", raw.Evaluation, &m.Evaluation}} {
		if f.raw != nil && (f.raw.Kind() != '"' || jsonv2.Unmarshal(f.raw, f.to) != nil) {
			odd = f.name
		}
	}
	return m, odd
}

func badBody(at int64, why string) error {
	return fault.New(fault.Invalid, "body_invalid", "invalid body: at byte %d: %.200s", at, why).
		Detail("position", at).WithHint(`send one JSON object, such as {"text": "…"}`)
}

// checkState accepts a short word (state_invalid).
func checkState(state string) error {
	ok := len(state) <= maxState && state != Deleted
	for _, c := range []byte(state) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if !ok {
		return fault.New(fault.Invalid, "state_invalid", "invalid state %.80q", state).
			WithHint("a state is a word of at most %d lower-case letters, digits, _ and -, and not %q", maxState, Deleted)
	}
	return nil
}

// MarshalJSON implements json.Marshaler. A body that is JSON becomes the member
// "body", other text "text", and other bytes "base64".
func (r Resource) MarshalJSON() ([]byte, error) {
	out := struct {
		URI     resource.URI   `json:"uri"`
		Type    string         `json:"type"`
		Space   resource.Space `json:"space"`
		Version uint64         `json:"version,omitzero"`
		State   string         `json:"state,omitzero"`
		At      time.Time      `json:"at,omitzero"`
		Actor   string         `json:"actor,omitzero"`
		resource.Metadata
		Masked bool            `json:"masked,omitzero"`
		Body   json.RawMessage `json:"body,omitempty"`
		Text   string          `json:"text,omitzero"`
		Base64 string          `json:"base64,omitzero"`
	}{URI: r.URI, Type: r.URI.Type(), Space: r.Space, Version: r.Version, State: r.State, At: r.At, Actor: r.Actor,
		Metadata: r.Metadata, Masked: r.Masked}
	switch {
	case json.Valid(r.Body) && utf8.Valid(r.Body):
		out.Body = r.Body
	case utf8.Valid(r.Body):
		out.Text = string(r.Body)
	default:
		out.Base64 = base64.StdEncoding.EncodeToString(r.Body)
	}
	return json.Marshal(out)
}
