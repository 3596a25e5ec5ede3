package importexport

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// object is a JSON object, its members undecoded.
type object map[string]jsontext.Value

// objectOf decodes an object, listOf a list and stringOf a text. They return the zero
// value for anything else.
func objectOf(v jsontext.Value) object         { return as[object](v) }
func listOf(v jsontext.Value) []jsontext.Value { return as[[]jsontext.Value](v) }
func stringOf(v jsontext.Value) string         { return as[string](v) }

func as[T any](v jsontext.Value) (out T) {
	var none T
	if len(v) == 0 || json.Unmarshal(v, &out, lenient()) != nil {
		return none
	}
	return out
}

func lenient() json.Options { return json.JoinOptions(lenientText()...) }

// take removes a member and returns it.
func (o object) take(name string) jsontext.Value {
	v := o[name]
	delete(o, name)
	return v
}

// text removes a member and returns its text. A member that is not a text stays.
func (o object) text(name string) string {
	if o[name].Kind() != '"' {
		if o[name].Kind() == 'n' {
			delete(o, name)
		}
		return ""
	}
	return stringOf(o.take(name))
}

// metaOf keeps the non-empty members that have no other place. They are sent to no
// provider, since none has this name.
func metaOf(source string, o object) message.Meta {
	var raw []byte
	for _, name := range sortedKeys(o) {
		if v := o[name]; !empty(v) {
			raw = appendMember(raw, valid(name), strict(v))
		}
	}
	if raw == nil {
		return message.Meta{}
	}
	return message.Meta{Provider: "import:" + source, Fields: append(raw, '}')}
}

func empty(v jsontext.Value) bool {
	if k := v.Kind(); k == 'n' || k == 'f' || k == 0 {
		return true
	}
	c := v.Clone()
	return c.Compact(lenientText()...) == nil && (string(c) == "{}" || string(c) == "[]" || string(c) == `""`)
}

// strict returns the value in the strict form that the store keeps: unique names and
// valid UTF-8. A value that violates it is kept as text.
func strict(v jsontext.Value) []byte {
	c := v.Clone()
	if c.IsValid() && c.Compact() == nil {
		return c
	}
	b, _ := jsontext.AppendQuote(nil, valid(string(v))) // the only error is invalid UTF-8
	return b
}

// seconds decodes a time in seconds since 1970, with a fraction. It returns the zero
// time for anything else.
func seconds(v jsontext.Value) time.Time {
	if v.Kind() != '0' {
		return time.Time{}
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f <= 0 || f > 1e11 {
		return time.Time{}
	}
	if f > 1e10 { // some programs write milliseconds
		f /= 1000
	}
	return time.UnixMicro(int64(f * 1e6)).UTC()
}

// stamp decodes a time as text or in seconds. It returns the zero time for anything
// else.
func stamp(v jsontext.Value) time.Time {
	s := stringOf(v)
	if s == "" {
		return seconds(v)
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 && t.Year() < 10000 {
			return t.UTC().Truncate(time.Microsecond)
		}
	}
	return time.Time{}
}

// base64Bytes decodes base64 in any of the usual alphabets.
func base64Bytes(s string) ([]byte, bool) {
	s = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "").Replace(s)
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return b, err == nil && len(b) > 0
}

// media adds a picture or a file.
func (s *blockMaker) media(mimeType, name string, data []byte) {
	c := s.common()
	if strings.HasPrefix(mimeType, "image/") {
		s.blocks = append(s.blocks, &message.Image{Common: c, MIME: valid(mimeType), Data: data})
		return
	}
	s.blocks = append(s.blocks, &message.File{Common: c, MIME: valid(mimeType), Name: valid(name), Data: data})
}

// sniffMIME guesses the media type of data by its first bytes, or else by its name.
func sniffMIME(data []byte, name string) string {
	kind := http.DetectContentType(data)
	if strings.HasPrefix(kind, "image/") || kind == "application/pdf" {
		return kind
	}
	return message.MediaType(name, "application/octet-stream")
}
