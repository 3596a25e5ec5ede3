// Package rdf has the data model of RDF 1.1 and reads and writes it as N-Triples, Turtle and JSON-LD.
//
// A triple is a statement: a subject, a predicate and an object. Each is a Term: an IRI, a blank node (a
// thing without a name, known within one document only), or a literal (a text with a language or a
// datatype). Only the object can be a literal, and the predicate is always an IRI. Terms and triples are
// comparable values: equal terms are the same term in the sense of RDF.
//
// The readers are for text of strangers. They are bounded in the bytes that they read and in the triples
// that they yield, and fetch nothing: a JSON-LD document that names a remote context is refused.
// Scanner splits Turtle and SPARQL, which share their words, into tokens.
package rdf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
)

// Names that the languages themselves use.
const (
	NS         = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
	Type       = NS + "type"
	First      = NS + "first"
	Rest       = NS + "rest"
	Nil        = NS + "nil"
	LangString = NS + "langString"
	XSD        = "http://www.w3.org/2001/XMLSchema#"
	String     = XSD + "string"
	Boolean    = XSD + "boolean"
	Integer    = XSD + "integer"
	Decimal    = XSD + "decimal"
	Double     = XSD + "double"
	Float      = XSD + "float"
	DateTime   = XSD + "dateTime"
	Date       = XSD + "date"
	Label      = "http://www.w3.org/2000/01/rdf-schema#label"
)

// Kind is what a term is.
type Kind uint8

// The kinds. The zero Term is no term: a place without a value.
const (
	None Kind = iota
	IRI
	Blank
	Literal
)

// Term is an IRI, a blank node or a literal.
type Term struct {
	Kind     Kind
	Value    string // an IRI, the label of a blank node, or the text of a literal
	Lang     string // of a literal with a language, in lower case
	Datatype string // of any other literal; empty: xsd:string
}

// Triple is a statement.
type Triple struct{ S, P, O Term }

// NewIRI returns an IRI.
func NewIRI(s string) Term { return Term{Kind: IRI, Value: s} }

// NewBlank returns a blank node.
func NewBlank(label string) Term { return Term{Kind: Blank, Value: label} }

// NewString returns a literal that is a plain text.
func NewString(s string) Term { return Term{Kind: Literal, Value: s} }

// NewTyped returns a literal of a datatype.
func NewTyped(s, datatype string) Term {
	if datatype == String {
		datatype = ""
	}
	return Term{Kind: Literal, Value: s, Datatype: datatype}
}

// NewLang returns a literal with a language.
func NewLang(s, lang string) Term {
	return Term{Kind: Literal, Value: s, Lang: strings.ToLower(lang)}
}

// IsText reports whether the term is a plain text, without a language.
func (t Term) IsText() bool { return t.Kind == Literal && t.Lang == "" && t.Datatype == "" }

// Type returns the datatype of a literal.
func (t Term) Type() string {
	switch {
	case t.Lang != "":
		return LangString
	case t.Datatype == "":
		return String
	}
	return t.Datatype
}

// String writes the term as N-Triples does.
func (t Term) String() string {
	switch t.Kind {
	case IRI:
		return "<" + escapeIRI(t.Value) + ">"
	case Blank:
		return "_:" + t.Value
	case Literal:
		s := `"` + escape(t.Value) + `"`
		switch {
		case t.Lang != "":
			return s + "@" + t.Lang
		case t.Datatype != "":
			return s + "^^<" + escapeIRI(t.Datatype) + ">"
		}
		return s
	}
	return ""
}

// String writes the triple as a line of N-Triples, without its end.
func (t Triple) String() string { return t.S.String() + " " + t.P.String() + " " + t.O.String() + " ." }

// Size is about how many bytes the triple takes.
func (t Triple) Size() int {
	return len(t.S.Value) + len(t.P.Value) + len(t.O.Value) + len(t.O.Lang) + len(t.O.Datatype)
}

// MaxTerm is the most bytes of one term.
const MaxTerm = 64 << 10

// Check reports what makes a triple impossible. Error code: graph_triple_invalid.
func (t Triple) Check() error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "graph_triple_invalid", format, args...)
	}
	switch {
	case t.S.Kind != IRI && t.S.Kind != Blank:
		return bad("the subject of a triple is an IRI or a blank node, not %.100q", t.S.String())
	case t.P.Kind != IRI:
		return bad("the predicate of a triple is an IRI, not %.100q", t.P.String())
	case t.O.Kind == None:
		return bad("the triple of %.100q has no object", t.S.String())
	}
	for _, x := range []Term{t.S, t.P, t.O} {
		if n := len(x.Value) + len(x.Lang) + len(x.Datatype); n > MaxTerm {
			return bad("a term has %d bytes; the limit is %d", n, MaxTerm)
		}
		if !utf8.ValidString(x.Value) {
			return bad("a term is not valid UTF-8")
		}
		if x.Kind == IRI && !Absolute(x.Value) {
			return bad("%.100q is not an absolute IRI", x.Value).(*fault.Error).WithHint("write it in full, such as http://example.org/ann, or declare the prefix that you use")
		}
	}
	return nil
}

func escape(s string) string {
	if !strings.ContainsAny(s, "\"\\\n\r\t\b\f") {
		return s
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`, "\f", `\f`).Replace(s)
}

// notInIRI are the characters that an IRI must not contain, besides those up to a space.
const notInIRI = "<>\"{}|^`\\"

func escapeIRI(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune(notInIRI, r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r <= ' ' || strings.ContainsRune(notInIRI, r) {
			b.WriteString(`\u` + strings.ToUpper(strconv.FormatInt(int64(r)+0x10000, 16)[1:]))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Absolute reports whether an IRI begins with a scheme.
func Absolute(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || !letter(rune(scheme[0])) {
		return false
	}
	for _, r := range scheme {
		if !letter(r) && !digit(r) && r != '+' && r != '-' && r != '.' {
			return false
		}
	}
	return true
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
func digit(r rune) bool  { return r >= '0' && r <= '9' }

// Resolve returns a reference relative to a base IRI, as RFC 3986 says. Without a base, the reference
// stays as it is.
func Resolve(base, ref string) string {
	if base == "" || Absolute(ref) {
		return ref
	}
	scheme, rest, _ := strings.Cut(base, ":")
	rest, _, _ = strings.Cut(rest, "#")
	if ref == "" || ref[0] == '#' {
		return scheme + ":" + rest + ref
	}
	rest, _, _ = strings.Cut(rest, "?")
	if ref[0] == '?' {
		return scheme + ":" + rest + ref
	}
	if strings.HasPrefix(ref, "//") {
		return scheme + ":" + ref
	}
	authority, path := "", rest
	if strings.HasPrefix(rest, "//") {
		end := strings.IndexByte(rest[2:], '/')
		if end < 0 {
			end = len(rest) - 2
		}
		authority, path = rest[:end+2], rest[end+2:]
	}
	cut := strings.IndexAny(ref, "?#")
	if cut < 0 {
		cut = len(ref)
	}
	own, tail := ref[:cut], ref[cut:]
	if own[0] != '/' {
		own = path[:strings.LastIndexByte(path, '/')+1] + own
		if authority != "" && path == "" {
			own = "/" + own
		}
	}
	return scheme + ":" + authority + removeDots(own) + tail
}

func removeDots(path string) string {
	var out []string
	parts := strings.Split(path, "/")
	for i, p := range parts {
		last := i == len(parts)-1
		switch p {
		case ".", "..":
			if n := len(out); p == ".." && n > 0 && (n > 1 || out[0] != "") {
				out = out[:n-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, p)
		}
	}
	return strings.Join(out, "/")
}
