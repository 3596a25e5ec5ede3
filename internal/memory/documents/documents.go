// Package documents keeps the files that people add for searches: PDF, Word, HTML, Markdown, text, source code
// and mail, one by one or from folders that are watched.
//
// # A document
//
// A document (record.Document) is a resource in its owner's space. Its text is a resource below it, cut by
// structure into passages of at most 2,000 bytes (Cut). Each passage keeps where it stands: the page of a PDF,
// the line of a text, the message of a mailbox, the headings above it. So every hit can be cited: "report.pdf
// p. 3", "notes.md:120".
//
// The identity of a document derives from its owner and its path. Adding the same path again replaces its text;
// adding the same content again reads nothing, because the hash of the content is compared first. A file is
// read by package extract in a process with limits. A file that cannot be read is refused by itself: it is
// listed with the reason and has no text.
//
// # The index
//
// The words of the passages are in an index (index.go), a file beside the database. It is a projection: it has a
// table for each owner, remembers the version of each document that it holds, and compares them with the store
// whenever the log has grown. So a crash between the two repairs itself, and the file may be deleted.
// A search reads the table of one owner only, and then the texts from the store in the owner's scope.
//
// # Trust
//
// A document is private. It is also untrusted, unless the person says that it is their own text, because what a
// file says may come from anyone. Both labels go with each passage to the model.
//
// # Forgetting
//
// Removing a document erases it and its text with all earlier versions from the store, what is about it, such as
// triples of which it is the source, and its words from the index, before Remove returns. A file that is no longer in a watched folder is removed in the same way; a folder
// that is absent as a whole, such as a disk that is not connected, is left as it is.
package documents

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"steward/client"
	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tools/local"
)

// Limits.
const (
	MaxDocuments = 5000 // of a user
	MaxBytes     = extract.MaxBytes
	maxName      = 200  // characters of a name
	maxPath      = 4096 // bytes of a path
	minPrefix    = 8    // characters of an id
)

// Options configure an engine. Store, Path and Reader are required.
type Options struct {
	Store   store.Store
	Path    string         // of the file of the index, which is created if missing
	Reader  extract.Reader // reads files in a process of its own
	Folders []Folder       // that Watch watches
	Private []string       // places of Steward's own, which are not read

	// With returns changes to commit with a document that is added or replaced, whose content is data, or that is
	// erased or refused; data is nil then. It may set Triples and Notice of the document. nil: no changes.
	With func(ctx context.Context, d *record.Document, data []byte) ([]store.Change, error)

	Mask func(string) string // hides secrets in a text; nil: nothing is hidden
	Now  func() time.Time    // nil: time.Now
	Log  *slog.Logger        // nil: nothing is logged
}

// Engine keeps documents. Safe for concurrent use. Close must be called after the last use.
type Engine struct {
	opt   Options
	index index

	mu      sync.Mutex
	folders []client.DocumentFolder // what has become of those of Options.Folders
}

// New returns an engine. It opens nothing.
func New(opt Options) *Engine {
	if opt.Mask == nil {
		opt.Mask = func(s string) string { return s }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.With == nil {
		opt.With = func(context.Context, *record.Document, []byte) ([]store.Change, error) { return nil, nil }
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opt: opt, index: newIndex(opt.Path, opt.Store)}
	for _, f := range opt.Folders {
		e.folders = append(e.folders, client.DocumentFolder{Path: f.Path})
	}
	return e
}

// Close closes the index.
func (e *Engine) Close() error { return e.index.close() }

// File is a file to add.
type File struct {
	Name string // of the file; empty: the last element of Path
	Path string // where it was read; empty: Name
	Data []byte
	Own  bool // it is the person's own text, which is trusted

	folder, stamp string
}

// Add adds a file, or replaces the one with the same path. What cannot be read is kept as refused, without an
// error. Error codes: document_invalid, documents_too_many, and the store's.
func (e *Engine) Add(ctx context.Context, user string, f File) (record.Document, error) {
	f.Path = strings.TrimSpace(cmp.Or(f.Path, f.Name))
	f.Name = local.Line(cmp.Or(f.Name, path.Base(filepath.ToSlash(f.Path))), maxName)
	if f.Name == "" || f.Name == "." || f.Name == "/" || len(f.Path) > maxPath || !utf8.ValidString(f.Path) {
		return record.Document{}, fault.New(fault.Invalid, "document_invalid", "a document needs a name and a path of at most %d bytes", maxPath)
	}
	own := id.Derive("document", user, f.Path)
	old, err := e.read(ctx, user, own)
	known := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return old, err
	}
	sum := sha256.Sum256(f.Data)
	now := e.opt.Now().UTC().Truncate(time.Millisecond)
	d := record.Document{ID: own, User: user, Name: f.Name, Path: f.Path, Folder: f.folder, Stamp: f.stamp, Hash: hex.EncodeToString(sum[:]), Size: len(f.Data), Own: f.Own, Added: now, Changed: now}
	d.Labels = message.Private | message.Untrusted
	if f.Own {
		d.Labels = message.Private
	}
	if known {
		d.Added = old.Added
		if old.Hash == d.Hash && old.Status == record.DocumentReady {
			d.Kind, d.Title, d.Pages, d.Parts, d.Cut, d.Status, d.Changed = old.Kind, old.Title, old.Pages, old.Parts, old.Cut, old.Status, old.Changed
			d.Triples, d.Notice = old.Triples, old.Notice
			if d == old {
				return d, nil
			}
			changes, err := e.opt.With(ctx, &d, f.Data) // the labels may be others
			if err != nil {
				return d, err
			}
			return d, e.commit(ctx, user, append(changes, put(d.URI(), &d))...)
		}
	} else if err := e.room(ctx, user); err != nil {
		return d, err
	}
	parts, err := e.extract(ctx, &d, f.Data)
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	changes := []store.Change{}
	if known && old.Status == record.DocumentReady { // the earlier text is not kept
		changes = append(changes, store.Change{Op: store.Erase, URI: record.DocumentTextURI(own)})
	}
	if err != nil {
		why := fault.Of(err)
		d.Status, d.Reason, d.Code, d.Parts = record.DocumentRefused, local.Line(e.opt.Mask(why.Error()), 300), why.Code, 0
		with, err := e.opt.With(ctx, &d, nil)
		if err != nil {
			return d, err
		}
		return d, e.commit(ctx, user, append(append(changes, with...), put(d.URI(), &d))...)
	}
	d.Status, d.Parts = record.DocumentReady, len(parts)
	with, err := e.opt.With(ctx, &d, f.Data)
	if err != nil {
		return d, err
	}
	changes = append(changes, with...)
	return d, e.commit(ctx, user, append(changes, put(d.URI(), &d), put(record.DocumentTextURI(own), record.DocumentText{Parts: parts}))...)
}

// room returns an error if a user has as many documents as are allowed.
func (e *Engine) room(ctx context.Context, user string) error {
	page, err := e.opt.Store.Query(ctx, store.ForUser(user), store.Query{Type: record.TypeDocument, NoBody: true, Limit: MaxDocuments})
	if err == nil && len(page.Items) >= MaxDocuments {
		err = fault.New(fault.Exhausted, "documents_too_many", "there are already %d documents; the limit is %d", MaxDocuments, MaxDocuments).
			WithHint("remove some: steward documents remove")
	}
	return err
}

// extract reads a file and cuts it. Secrets in it are masked.
func (e *Engine) extract(ctx context.Context, d *record.Document, data []byte) ([]record.DocumentPart, error) {
	if len(data) > MaxBytes {
		return nil, fault.New(fault.TooLarge, "extract_too_large", "the file has more than %d MB", MaxBytes>>20)
	}
	in := extract.Input{Data: data, MediaType: mediaType(d.Name), Whole: true}
	if strings.HasPrefix(in.MediaType, "text/") && bytes.IndexByte(data, 0) >= 0 && !bytes.HasPrefix(data, []byte("\xff\xfe")) && !bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, fault.New(fault.Invalid, "extract_unsupported", "it is not a text")
	}
	reader := e.opt.Reader
	if strings.HasPrefix(in.MediaType, "text/") && utf8.Valid(data) {
		if in.MediaType == textType && !hasForm("application/pdf", data) && !bytes.HasPrefix(data, []byte("PK")) {
			reader.Command = nil // there is nothing to parse, and a process takes longer than all the rest
		}
		in.MediaType += "; charset=utf-8"
	}
	doc, err := reader.Read(ctx, in)
	if fault.HasCode(err, "extract_unsupported") && in.MediaType != "" && !strings.HasPrefix(in.MediaType, "text/") && !hasForm(in.MediaType, data) {
		return nil, fault.New(fault.Invalid, "extract_unsupported", "its content is not that of a %s file", strings.ToLower(path.Ext(d.Name)))
	}
	if err != nil {
		return nil, err
	}
	parts, cut := Cut(d.Name, &doc)
	if len(parts) == 0 {
		return nil, fault.New(fault.Invalid, "document_empty", "it has no text")
	}
	for i := range parts {
		parts[i].Text, parts[i].Heading = e.opt.Mask(parts[i].Text), local.Line(e.opt.Mask(parts[i].Heading), 300)
	}
	d.Kind, d.Title, d.Pages, d.Cut = string(doc.Kind), e.opt.Mask(doc.Title), doc.Pages, cut
	return parts, nil
}

// hasForm reports whether a file begins as files of a type do.
func hasForm(mediaType string, data []byte) bool {
	switch mediaType {
	case "application/pdf":
		return bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-"))
	case "application/vnd.openxmlformats-officedocument.wordprocessingml.document":
		return bytes.HasPrefix(data, []byte("PK\x03\x04"))
	}
	return true
}

// List returns a user's documents by name.
func (e *Engine) List(ctx context.Context, user string) (out []record.Document, err error) {
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), store.Query{Type: record.TypeDocument, Limit: 500}) {
		if err != nil {
			return nil, err
		}
		var d record.Document
		if err := record.Decode(it.URI, it.Body, &d); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b record.Document) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
}

// Get returns a document by its id, at least the first 8 characters of that, its path, its name, or words of
// it. Error codes: document_not_found, document_ambiguous.
func (e *Engine) Get(ctx context.Context, user, which string) (record.Document, error) {
	which = strings.TrimSpace(which)
	list, err := e.List(ctx, user)
	if err != nil {
		return record.Document{}, err
	}
	found := local.FirstMatches(list, func(record.Document) bool { return true },
		func(d record.Document) bool { return d.ID.String() == which || d.URI().String() == which },
		func(d record.Document) bool {
			return len(which) >= minPrefix && strings.HasPrefix(d.ID.String(), which)
		},
		func(d record.Document) bool { return d.Path == which },
		func(d record.Document) bool { return strings.EqualFold(d.Name, which) },
		func(d record.Document) bool { return local.HasWords(d.Name+" "+d.Title, which) })
	return local.ExactlyOne("document", which, found, func(d record.Document) string { return d.Path })
}

// Text returns the passages of a document; none if it was refused.
func (e *Engine) Text(ctx context.Context, user string, doc id.ID) (t record.DocumentText, err error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), record.DocumentTextURI(doc))
	if fault.Is(err, fault.NotFound) {
		return t, nil
	}
	if err == nil {
		err = record.Decode(r.URI, r.Body, &t)
	}
	return t, err
}

// Remove erases a document, its text, and its words in the index. Error codes: those of Get, document_watched.
func (e *Engine) Remove(ctx context.Context, user, which string) (record.Document, error) {
	d, err := e.Get(ctx, user, which)
	if err != nil {
		return d, err
	}
	if slices.ContainsFunc(e.opt.Folders, func(f Folder) bool { return f.User == user && f.Path == d.Folder }) {
		return d, fault.New(fault.Conflict, "document_watched", "%s is in the watched folder %s", d.Name, d.Folder).
			WithHint("move the file out of it, or take the folder out of documents.folders")
	}
	return d, e.forget(ctx, &d)
}

func (e *Engine) forget(ctx context.Context, d *record.Document) error {
	changes, err := e.opt.With(ctx, d, nil)
	if err != nil {
		return err
	}
	changes = append(changes, store.Change{Op: store.Erase, URI: d.URI()})
	if d.Status == record.DocumentReady {
		changes = append([]store.Change{{Op: store.Erase, URI: record.DocumentTextURI(d.ID)}}, changes...)
	}
	// What is about the document, such as the triples that come from it, goes first.
	if err := store.EraseAbout(ctx, e.opt.Store, d.User, resource.UserSpace(d.User), d.URI()); err != nil {
		return err
	}
	if err := e.commit(ctx, d.User, changes...); err != nil {
		return err
	}
	return e.index.sync(ctx, d.User)
}

// Forgotten removes from the index what was erased from the store by others, such as with a user.
func (e *Engine) Forgotten(ctx context.Context) error { return e.index.syncAll(ctx) }

func (e *Engine) read(ctx context.Context, user string, doc id.ID) (d record.Document, err error) {
	r, err := e.opt.Store.Get(ctx, store.ForUser(user), record.DocumentURI(doc))
	if err == nil {
		err = record.Decode(r.URI, r.Body, &d)
	}
	return d, err
}

func put(u resource.URI, v any) store.Change { return store.Change{URI: u, Body: record.Encode(v)} }

func (e *Engine) commit(ctx context.Context, user string, changes ...store.Change) error {
	_, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes})
	return err
}

// View shows a document to a person.
func View(d *record.Document) client.Document {
	return client.Document{ID: d.ID.String(), URI: d.URI().String(), Name: d.Name, Path: d.Path, Folder: d.Folder, Kind: d.Kind, Title: d.Title, Size: d.Size, Pages: d.Pages,
		Passages: d.Parts, Own: d.Own, Cut: d.Cut, Status: d.Status, Reason: d.Reason, Code: d.Code, Labels: d.Labels.Names(), Triples: d.Triples, Notice: d.Notice, Hash: d.Hash, Added: d.Added, Changed: d.Changed}
}
