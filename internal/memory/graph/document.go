package graph

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/strict"
)

// Limits of what a document states. All of it is written in one commit, with the document.
const (
	maxDocument    = 20_000 // triples
	maxFrontFields = 50
	maxFrontItems  = 20   // of a list in the front matter
	maxFrontText   = 1000 // bytes of a text in it
)

// FormatOf returns the format of a file with triples by its name; empty: it is another file.
func FormatOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".ttl":
		return Turtle
	case ".nt":
		return NTriples
	case ".jsonld":
		return JSONLD
	}
	return ""
}

// DocumentChanges returns the changes by which the graph says what a document says, to be committed with it: its
// title, kind and time, the front matter of Markdown, and the content of a file in Turtle, N-Triples or JSON-LD.
// What it said before is erased. Without data, the document is erased, or cannot be read. It sets d.Triples to
// the number of triples that the content states, and d.Notice if these cannot be taken over.
func (e *Engine) DocumentChanges(ctx context.Context, d *record.Document, data []byte) ([]store.Change, error) {
	source := d.URI().String()
	d.Triples, d.Notice = 0, ""
	// If the document is changed by another call meanwhile, the commit is refused: it would not erase what that
	// has stated.
	same := store.Change{Op: store.Check, URI: d.URI(), If: store.If{Absent: true}}
	if old, err := e.opt.Store.Get(ctx, store.ForUser(d.User), d.URI()); err == nil {
		same.If = store.If{Version: old.Version}
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	erased, _, err := e.erasures(ctx, d.User, index(termSource, source), store.MaxLimit)
	changes := append([]store.Change{same}, erased...)
	if err != nil || data == nil {
		return changes, err
	}
	origin := Origin{Source: source, Labels: d.Labels, Call: id.New()}
	content, err := e.contentOf(ctx, d, data)
	if err == nil && len(content) > maxDocument {
		err = fault.New(fault.TooLarge, "graph_document_too_big", "it has %d statements; the limit of a document is %d", len(content), maxDocument).WithHint("add them with: steward graph import")
	}
	if err == nil {
		content, err = e.prepare(d.User, content, origin)
	}
	if err == nil {
		err = e.room(ctx, d.User, len(content))
	}
	var coded *fault.Error
	switch {
	case err == nil:
		d.Triples = len(content)
	case ctx.Err() != nil || !errors.As(err, &coded) || coded.Kind != fault.Invalid && coded.Kind != fault.TooLarge && coded.Kind != fault.Exhausted && coded.Kind != fault.Unsupported:
		return nil, err
	default: // the text is found all the same
		content, d.Notice = nil, e.opt.Mask("its statements are not in the graph: "+coded.Message)
	}
	own, err := e.prepare(d.User, described(d), origin)
	if err != nil {
		return nil, err
	}
	added, err := e.chunks(d.User, append(own, content...), origin)
	return append(changes, added...), err
}

// described returns what is known of a document. Its title is not the name of an entity: the title of a foreign document
// must not stand for the person whose name it is.
func described(d *record.Document) []rdf.Triple {
	node := rdf.NewIRI(d.URI().String())
	out := []rdf.Triple{{S: node, P: rdf.NewIRI(rdf.Type), O: rdf.NewIRI(classDocument)}, {S: node, P: relation("file name"), O: rdf.NewString(d.Name)}, {S: node, P: relation("added"), O: timeOf(d.Added)}}
	if d.Title != "" {
		out = append(out, rdf.Triple{S: node, P: relation("title"), O: rdf.NewString(d.Title)})
	}
	if d.Kind != "" {
		out = append(out, rdf.Triple{S: node, P: relation("kind"), O: rdf.NewString(d.Kind)})
	}
	return out
}

// contentOf returns what the content of a document states.
func (e *Engine) contentOf(ctx context.Context, d *record.Document, data []byte) ([]rdf.Triple, error) {
	if format := FormatOf(d.Name); format != "" {
		return read(rdf.Reader{Base: "urn:steward:document:" + d.ID.String()}, format, string(data))
	}
	if ext := strings.ToLower(path.Ext(d.Name)); ext != ".md" && ext != ".markdown" || !bytes.HasPrefix(strict.Unmarked(data), []byte("---")) {
		return nil, nil
	}
	head, _, _, ok := strict.FrontMatter(data)
	if !ok {
		return nil, nil
	}
	var out []rdf.Triple
	node := rdf.NewIRI(d.URI().String())
	front := strict.ReadFront(head)
	for _, f := range front.Fields[:min(len(front.Fields), maxFrontFields)] {
		values := []*strict.Node{f.Value}
		if f.Value != nil && f.Value.Kind == strict.List {
			values = f.Value.List[:min(len(f.Value.List), maxFrontItems)]
		}
		for _, v := range values {
			if v == nil || v.Text == "" || len(v.Text) > maxFrontText || slug(f.Key, "_") == "" {
				continue
			}
			o := value(v.Text)
			if key := strings.ToLower(f.Key); key == "author" || key == "authors" {
				who, named, err := e.Entity(ctx, d.User, v.Text)
				if err == nil {
					out, o = append(out, named...), who
				} else if !fault.Is(err, fault.Invalid) {
					return nil, err
				}
				f.Key = "author"
			}
			out = append(out, rdf.Triple{S: node, P: relation(f.Key), O: o})
		}
	}
	return out, nil
}
