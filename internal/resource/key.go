package resource

import (
	"errors"
	"fmt"
	"strings"

	"steward/internal/id"
)

// Keys are the binary form of URIs: what the store sorts by. An element is a
// type (one byte for the well-known ones) and an id (16 bytes for a UUID).
// The key of a resource begins with the key of its parent, and no key begins
// with another that is not an ancestor's; so a prefix scan finds exactly what
// lies below a place. Every byte that can begin an element is below 0xff.
const (
	tagNamedType = 0x7f // type as text, ended by 0x00
	tagUUID      = 0x01 // id as 16 bytes
	tagText      = 0x02 // id as text, ended by 0x00
)

// wellKnown are the types with a code of one byte, their place in this list
// plus one. Only ever append: the codes are in people's databases.
var wellKnown = []string{
	"common.Conversation", "common.Interaction", "common.Message", "common.Branch",
	"agent.Run", "agent.Agent", "effect.Intent", "effect.Approval",
	"tool.Tool", "tool.Overflow", "plan.Plan", "plan.Task",
	"identity.User", "identity.Key", "identity.Group", "common.Request",
	"llm.Usage",
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

// FromKey reads the binary form.
func FromKey(key []byte) (URI, error) {
	for rest := string(key); rest != ""; {
		var ok bool
		if _, rest, ok = cutElement(rest); !ok {
			return URI{}, fmt.Errorf("resource: broken key %x", key)
		}
	}
	return URI{string(key)}, nil
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

// cutElement reads one element off a key; ok is false where the key is broken.
func cutElement(key string) (e Element, rest string, ok bool) {
	if key == "" {
		return e, "", false
	}
	tag := key[0]
	key = key[1:]
	switch {
	case tag == tagNamedType:
		if e.Type, key, ok = strings.Cut(key, "\x00"); !ok || checkType(e.Type) != nil {
			return e, "", false
		}
	case tag >= 1 && int(tag) <= len(wellKnown):
		e.Type = wellKnown[tag-1]
	default:
		return e, "", false
	}
	if key == "" {
		return e, "", false
	}
	tag, key = key[0], key[1:]
	switch {
	case tag == tagUUID && len(key) >= 16:
		e.ID = string(id.ID([]byte(key[:16])).AppendText(nil))
		return e, key[16:], true
	case tag == tagText:
		e.ID, key, ok = strings.Cut(key, "\x00")
		return e, key, ok && checkID(e.ID) == nil
	}
	return e, "", false
}

// splitElement cuts "pkg.Type.id"; off is where the fault is.
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

// checkType wants lower-case package words and one last word that begins with
// an upper-case letter.
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
	}
	return nil
}
