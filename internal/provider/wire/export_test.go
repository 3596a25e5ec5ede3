package wire

// Document is a document that is read strictly.
func Document(b []byte) Value { return document(b, false) }
