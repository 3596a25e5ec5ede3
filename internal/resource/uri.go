// Package resource defines the resource, the unit of everything that Steward
// stores: it has a URI, an owner, metadata, a body and a version. It also
// defines the log entry that every change of a resource appends.
package resource

import (
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
)

// Scheme begins every URI's text.
const Scheme = "cld:"

// Element is one step of a path: a type such as "common.Message" and an id.
type Element struct {
	Type string // two or more dotted words: letters, digits, '_'
	ID   string // without '/', and not empty
}

// URI names a resource: a path of elements below the root. It is an immutable
// value, comparable, and usable as a map key; the zero URI is the root.
type URI struct {
	key string // the binary form; see Key
}

// Root returns the URI of a top-level resource.
func Root(typ, id string) URI { return URI{}.Child(typ, id) }

// Child returns the URI of a resource below u. It panics on a type or id that Parse
// would refuse. Use Parse for input from outside.
func (u URI) Child(typ, id string) URI {
	if _, known := typeCode[typ]; !known {
		if err := checkType(typ); err != nil {
			panic(err)
		}
	}
	if err := checkID(id); err != nil {
		panic(err)
	}
	return URI{string(appendElement([]byte(u.key), typ, id))}
}

// ChildID is like Child, for an ID of package id, which must not be zero.
func (u URI) ChildID(typ string, x id.ID) URI {
	c, known := typeCode[typ]
	if !known || x.Zero() {
		return u.Child(typ, x.String())
	}
	key := make([]byte, 0, len(u.key)+2+len(x))
	key = append(append(append(key, u.key...), c, tagUUID), x[:]...)
	return URI{string(key)}
}

// Zero reports whether u is the root.
func (u URI) Zero() bool { return u.key == "" }

// Elements returns the steps of the path from the root.
func (u URI) Elements() []Element {
	var out []Element
	for rest := u.key; rest != ""; {
		var e Element
		e, rest = cutElement(rest)
		out = append(out, e)
	}
	return out
}

// Last returns the last step; its Type and ID are the resource's own.
func (u URI) Last() Element {
	if u.Zero() {
		return Element{}
	}
	e, _ := cutElement(u.key[len(u.Parent().key):])
	return e
}

// Type returns the resource's own type.
func (u URI) Type() string { return u.Last().Type }

// ID returns the resource's own id.
func (u URI) ID() string { return u.Last().ID }

// Parent returns the URI one step up; the parent of a top-level resource is the root.
func (u URI) Parent() URI {
	end := 0
	for rest := u.key; rest != ""; {
		_, next, _ := cutRaw(rest)
		if next == "" {
			break
		}
		end += len(rest) - len(next)
		rest = next
	}
	return URI{u.key[:end]}
}

// Under reports whether u is p or lies below it.
func (u URI) Under(p URI) bool { return strings.HasPrefix(u.key, p.key) }

// Find returns the nearest resource of the type among u and its ancestors.
func (u URI) Find(typ string) (URI, bool) {
	at, found := 0, -1
	for rest := u.key; rest != ""; {
		e, next, _ := cutRaw(rest)
		at += len(rest) - len(next)
		if e.typ == typ {
			found = at
		}
		rest = next
	}
	if found < 0 {
		return URI{}, false
	}
	return URI{u.key[:found]}, true
}

// String returns the text form, "cld:type.id/type.id".
func (u URI) String() string {
	var room [128]byte
	return string(u.appendTo(room[:0]))
}

// AppendText implements encoding.TextAppender. It never returns an error.
func (u URI) AppendText(b []byte) ([]byte, error) { return u.appendTo(b), nil }

func (u URI) appendTo(b []byte) []byte {
	b = append(b, Scheme...)
	for rest := u.key; rest != ""; {
		e, next, _ := cutRaw(rest)
		b = append(append(b, e.typ...), '.')
		if e.uuid {
			b = id.ID([]byte(e.id)).AppendText(b)
		} else {
			b = append(b, e.id...)
		}
		if rest = next; rest != "" {
			b = append(b, '/')
		}
	}
	return b
}

// MarshalText implements encoding.TextMarshaler.
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URI) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	if err == nil {
		*u = v
	}
	return err
}

// Parse parses the text form. The type of an element consists of its leading words,
// up to and including the first that begins with an upper-case letter (as in
// "common.Message"). The id follows the next dot. Error code: uri_invalid;
// Details["position"] is the byte offset of the error.
func Parse(s string) (URI, error) {
	if !strings.HasPrefix(s, Scheme) {
		return URI{}, bad(s, 0, "it must begin with %q", Scheme)
	}
	rest, at := s[len(Scheme):], len(Scheme)
	if rest == "" {
		return URI{}, nil
	}
	var key []byte
	for {
		elem, more, again := strings.Cut(rest, "/")
		typ, id, off, err := splitElement(elem)
		if err != nil {
			return URI{}, bad(s, at+off, "%w", err)
		}
		key = appendElement(key, typ, id)
		if !again {
			return URI{string(key)}, nil
		}
		at += len(elem) + 1
		rest = more
	}
}

func bad(s string, at int, format string, args ...any) error {
	const show = 200
	if len(s) > show {
		s = s[:show] + "…"
	}
	why := fault.New(fault.Invalid, "", format, args...)
	return fault.New(fault.Invalid, "uri_invalid", "invalid URI %q: at byte %d: %s", s, at, why.Message).
		Detail("position", at).WithHint("use the form cld:Type.id/Type.id, for example cld:common.Conversation.42")
}
