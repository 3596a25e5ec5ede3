package resource

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
)

// Keys are the binary form of URIs, by which the store sorts. An element is a type
// (one byte for a well-known type) and an id (16 bytes for a UUID). The key of a
// resource begins with the key of its parent, and a key is a prefix of another key
// only if it is an ancestor's. So a prefix scan finds exactly a subtree. The first
// byte of an element is always below 0xff.
const (
	tagNamedType = 0x7f // type as text, ended by 0x00
	tagUUID      = 0x01 // id as 16 bytes
	tagText      = 0x02 // id as text, ended by 0x00
)

// wellKnown lists the types with a code of one byte: their index plus one. Only
// append to it, since existing databases contain the codes.
var wellKnown = []string{
	"common.Conversation", "common.Interaction", "common.Message", "common.Branch",
	"agent.Run", "agent.Agent", "effect.Intent", "effect.Approval",
	"tool.Tool", "tool.Overflow", "plan.Plan", "plan.Task",
	"identity.User", "identity.Key", "identity.Group", "common.Request",
	"llm.Usage", "common.Mark", "common.Pin",
}

var typeCode = func() map[string]byte {
	m := make(map[string]byte, len(wellKnown))
	for i, t := range wellKnown {
		m[t] = byte(i + 1)
	}
	return m
}()

// Key returns the binary form. Do not modify it.
func (u URI) Key() []byte { return []byte(u.key) }

// FromKey decodes the binary form; a string is not copied. It returns an
// error (uri_key_broken) for a key that Key would not return, so that equal URIs
// have equal keys.
func FromKey[K []byte | string](key K) (URI, error) {
	u := URI{string(key)}
	for rest := u.key; rest != ""; {
		_, next, ok := cutRaw(rest)
		if !ok {
			return URI{}, fault.New(fault.Internal, "uri_key_broken", "%x is not the key of a resource", key)
		}
		rest = next
	}
	return u, nil
}

func appendElement(b []byte, typ, text string) []byte {
	if c, ok := typeCode[typ]; ok {
		b = append(b, c)
	} else {
		b = append(b, tagNamedType)
		b = append(b, typ...)
		b = append(b, 0)
	}
	if u, ok := id.Parse(text); ok {
		b = append(b, tagUUID)
		return append(b, u[:]...)
	}
	b = append(b, tagText)
	b = append(b, text...)
	return append(b, 0)
}

// cutElement cuts the first element off a valid key.
func cutElement(key string) (e Element, rest string) {
	raw, rest, _ := cutRaw(key)
	if raw.uuid {
		return Element{raw.typ, string(id.ID([]byte(raw.id)).AppendText(nil))}, rest
	}
	return Element{raw.typ, raw.id}, rest
}

// rawElement is an element in its binary form.
type rawElement struct {
	typ, id string
	uuid    bool // id is 16 bytes
}

// cutRaw cuts the first element off a key without copying. ok is false if the key
// is not what appendElement writes.
func cutRaw(key string) (e rawElement, rest string, ok bool) {
	if key == "" {
		return e, "", false
	}
	tag, key := key[0], key[1:]
	switch {
	case tag == tagNamedType:
		e.typ, key, ok = strings.Cut(key, "\x00")
		if _, coded := typeCode[e.typ]; !ok || coded || checkType(e.typ) != nil {
			return e, "", false
		}
	case tag >= 1 && int(tag) <= len(wellKnown):
		e.typ = wellKnown[tag-1]
	default:
		return e, "", false
	}
	switch {
	case len(key) > 16 && key[0] == tagUUID:
		e.id, e.uuid = key[1:17], true
		return e, key[17:], true
	case key != "" && key[0] == tagText:
		e.id, rest, ok = strings.Cut(key[1:], "\x00")
		_, isUUID := id.Parse(e.id)
		return e, rest, ok && !isUUID && checkID(e.id) == nil
	}
	return e, "", false
}

// splitElement splits "pkg.Type.id". off is the position of an error.
func splitElement(s string) (typ, id string, off int, err error) {
	at := 0
	for {
		word, rest, more := strings.Cut(s[at:], ".")
		if !more {
			return "", "", len(s), errors.New("an element is Type.id, with a type such as common.Message")
		}
		at += len(word)
		if word != "" && word[0] >= 'A' && word[0] <= 'Z' {
			typ, id = s[:at], rest
			break
		}
		at++
	}
	if err := checkType(typ); err != nil {
		return "", "", 0, err
	}
	if err := checkID(id); err != nil {
		return "", "", len(typ) + 1, err
	}
	return typ, id, 0, nil
}

// checkType returns an error unless t is one or more lower-case package words and a
// last word that begins with an upper-case letter, separated by dots.
func checkType(t string) error {
	words := strings.Split(t, ".")
	for i, w := range words {
		if w == "" {
			return errors.New("a type has no empty words")
		}
		upper := w[0] >= 'A' && w[0] <= 'Z'
		if last := i == len(words)-1; upper != last {
			return errors.New("a type is package words and one last word that begins with a capital, as common.Message")
		}
		for _, c := range []byte(w) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
				return fmt.Errorf("a type has letters, digits and '_' only, not %q", c)
			}
		}
	}
	if len(words) < 2 {
		return errors.New("a type has a package word, as in common.Message")
	}
	return nil
}

const maxID = 512

func checkID(s string) error {
	switch {
	case s == "":
		return errors.New("the id is missing")
	case len(s) > maxID:
		return fmt.Errorf("an id has at most %d bytes", maxID)
	case strings.ContainsAny(s, "/\x00"):
		return errors.New("an id has no '/' and no zero byte")
	case !utf8.ValidString(s):
		return errors.New("an id is valid UTF-8")
	}
	return nil
}

// Closed reports whether resources of a type are unreadable for everybody, because
// they are credentials or internal to the tree.
func Closed(typ string) bool {
	return typ == "identity.Key" || strings.HasPrefix(typ, "secret.") || strings.HasPrefix(typ, "tree.")
}
