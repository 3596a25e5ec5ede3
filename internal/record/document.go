package record

import (
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// The types of documents. The text of a document is a resource below it, so that a list of documents
// reads none of the texts.
const (
	TypeDocument     = "documents.Document"
	TypeDocumentText = "documents.Text"
)

// What has become of a document.
const (
	DocumentReady   = "ready"   // its text is found by searches
	DocumentRefused = "refused" // it could not be read; Reason says why
)

// Document is a file that a person has added for searches.
type Document struct {
	ID     id.ID  `json:"id"`
	User   string `json:"user"`
	Name   string `json:"name"`             // of the file, as citations show it
	Path   string `json:"path,omitzero"`    // where it was read
	Folder string `json:"folder,omitzero"`  // the watched folder that it belongs to
	Stamp  string `json:"stamp,omitzero"`   // size and time of the file in a watched folder
	Hash   string `json:"hash"`             // SHA-256 of its content, in hexadecimal
	Size   int    `json:"size"`             // bytes
	Kind   string `json:"kind,omitzero"`    // as extract names it
	Title  string `json:"title,omitzero"`   // as the document says
	Pages  int    `json:"pages,omitzero"`   // of a PDF
	Parts  int    `json:"parts,omitzero"`   // passages that are found
	Own    bool   `json:"own,omitzero"`     // the person has said that it is their own text
	Cut    bool   `json:"cut,omitzero"`     // the end of its text is not searched
	Status string `json:"status"`           // DocumentReady or DocumentRefused
	Reason string `json:"reason,omitempty"` // why it was refused
	Code   string `json:"code,omitempty"`   // of that error

	Triples int    `json:"triples,omitzero"` // that its content states in the graph
	Notice  string `json:"notice,omitzero"`  // why what it states is not in the graph

	Labels  message.Labels `json:"labels"`
	Added   time.Time      `json:"added"`
	Changed time.Time      `json:"changed"`
}

// DocumentText is the text of a document, cut into passages.
type DocumentText struct {
	Parts []DocumentPart `json:"parts"`
}

// DocumentPart is a passage of a document, and where it stands.
type DocumentPart struct {
	Text    string `json:"text"`
	Heading string `json:"heading,omitzero"` // headings above it, joined by " > "; of a mail: its subject
	Page    int    `json:"page,omitzero"`    // of a PDF, from 1
	Message int    `json:"message,omitzero"` // of a mailbox, from 1
	Line    int    `json:"line,omitzero"`    // its first line in the file, from 1; 0: the text has other lines than the file
}

// URI returns the URI of a document.
func (d *Document) URI() resource.URI { return DocumentURI(d.ID) }

// DocumentURI returns the URI of the document with an id.
func DocumentURI(doc id.ID) resource.URI { return resource.URI{}.ChildID(TypeDocument, doc) }

// DocumentTextURI returns the URI of the text of a document.
func DocumentTextURI(doc id.ID) resource.URI { return DocumentURI(doc).Child(TypeDocumentText, "all") }
