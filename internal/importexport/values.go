package importexport

import (
	"encoding/base64"
	"maps"
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

// objectOf decodes an object; nil when it is none.
func objectOf(v jsontext.Value) object {
	if v.Kind() != '{' {
		return nil
	}
	var o object
	if json.Unmarshal(v, &o, lenient()) != nil {
		return nil
	}
	return o
}

// listOf decodes a list; nil when it is none.
func listOf(v jsontext.Value) []jsontext.Value {
	if v.Kind() != '[' {
		return nil
	}
	var l []jsontext.Value
	if json.Unmarshal(v, &l, lenient()) != nil {
		return nil
	}
	return l
}

// stringOf decodes a text; "" when it is none.
func stringOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s, lenient()) != nil {
		return ""
	}
	return s
}

// take removes a member and returns it.
func (o object) take(name string) jsontext.Value {
	v := o[name]
	delete(o, name)
	return v
}

// text removes a member and returns its text; a member that is no text stays.
func (o object) text(name string) string {
	if o[name].Kind() != '"' {
		if o[name].Kind() == 'n' {
			delete(o, name)
		}
		return ""
	}
	return stringOf(o.take(name))
}

// rest returns the members that say something, in a form that may be kept.
func (o object) rest() map[string][]byte {
	var out map[string][]byte
	for name, v := range o {
		if empty(v) {
			continue
		}
		if out == nil {
			out = map[string][]byte{}
		}
		out[valid(name)] = strict(v)
	}
	return out
}

func empty(v jsontext.Value) bool {
	if k := v.Kind(); k == 'n' || k == 'f' || k == 0 {
		return true
	}
	c := v.Clone()
	return c.Compact(lenientText()...) == nil && (string(c) == "{}" || string(c) == "[]" || string(c) == `""`)
}

// strict returns the value in the strict form that a store keeps: names once,
// UTF-8. What cannot be brought into it is kept as text.
func strict(v jsontext.Value) []byte {
	c := v.Clone()
	if c.IsValid() && c.Compact() == nil {
		return c
	}
	b, _ := jsontext.AppendQuote(nil, valid(string(v))) // the error is of UTF-8, which holds
	return b
}

// seconds reads a time given as seconds since 1970 with a fraction; zero when
// it is none.
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

// stamp reads a time as text or as seconds; zero when it is none.
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

// base64Bytes decodes any of the usual kinds of base64.
func base64Bytes(s string) ([]byte, bool) {
	s = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "").Replace(s)
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return b, err == nil && len(b) > 0
}

// media adds a picture or a file that is there.
func (s *sayer) media(mimeType, name string, data []byte) {
	c := s.common()
	if strings.HasPrefix(mimeType, "image/") {
		s.blocks = append(s.blocks, &message.Image{Common: c, MIME: valid(mimeType), Data: data})
		return
	}
	s.blocks = append(s.blocks, &message.File{Common: c, MIME: valid(mimeType), Name: valid(name), Data: data})
}

// sniffMIME guesses the media type of data by its first bytes, else by its name.
func sniffMIME(data []byte, name string) string {
	for _, k := range []struct{ sign, mime string }{
		{"\x89PNG\r\n\x1a\n", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF8", "image/gif"}, {"%PDF-", "application/pdf"},
	} {
		if strings.HasPrefix(string(data[:min(len(data), 8)]), k.sign) {
			return k.mime
		}
	}
	if len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}
	return message.MediaType(name, "application/octet-stream")
}
