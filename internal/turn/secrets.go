package turn

import (
	"slices"

	"steward/internal/message"
)

// Secrets masks secrets. Safe for concurrent use.
type Secrets interface {
	// Mask returns the text with its secrets masked.
	Mask(text string) string
	// MaskBytes is Mask for bytes; JSON stays JSON.
	MaskBytes(b []byte) []byte
	// Found returns the names of the secrets in a text.
	Found(text string) []string
}

// HideSecrets masks the secrets in a user's turn before any of it is recorded,
// and returns their names.
func (e *Engine) HideSecrets(t *Input) (names []string) {
	if e.opt.Secrets == nil {
		return nil
	}
	copied := false
	for i, b := range t.Content {
		text, put := blockText(b)
		found := e.opt.Secrets.Found(text)
		if len(found) == 0 {
			continue
		}
		if !copied {
			t.Content, copied = slices.Clone(t.Content), true
		}
		t.Content[i] = put(e.opt.Secrets.Mask(text))
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// blockText returns a block's text, and a function that makes the same block with
// another text.
func blockText(b message.Block) (string, func(string) message.Block) {
	switch v := b.(type) {
	case *message.Text:
		return v.Text, func(s string) message.Block { c := *v; c.Text = s; return &c }
	case *message.File:
		return string(v.Data), func(s string) message.Block { c := *v; c.Data = []byte(s); return &c }
	}
	return "", nil
}
