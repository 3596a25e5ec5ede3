package turn

import (
	"context"

	"steward/internal/fault"
	"steward/internal/message"
)

// Bounds of what a message has attached.
const (
	MaxAttached      = 20
	MaxAttachedBytes = 10 << 20 // of one file
)

// ReadAttached replaces files in a message's content that a model cannot read by their text. Error
// codes: too_much_attached, and those of Options.Documents.
func (e *Engine) ReadAttached(ctx context.Context, user, model string, content []message.Block) error {
	files := 0
	for i, b := range content {
		var data []byte
		f, isFile := b.(*message.File)
		if isFile {
			data = f.Data
		} else if p, ok := b.(*message.Image); ok {
			data = p.Data
		} else {
			continue
		}
		if files++; files > MaxAttached || len(data) > MaxAttachedBytes {
			return fault.New(fault.TooLarge, "too_much_attached", "a message has at most %d files of at most %d MB attached", MaxAttached, MaxAttachedBytes>>20).
				WithHint("attach less, or send it in parts")
		}
		if !isFile || len(data) == 0 || e.opt.Documents == nil {
			continue
		}
		read, err := e.opt.Documents(ctx, user, model, f)
		if err != nil {
			return err
		}
		content[i] = read
	}
	return nil
}
