package wire

import (
	"steward/internal/llm"
	"steward/internal/message"
)

// Fold caches a few bytes for each group of a transcript's messages, under a name like that of an
// encoding. They hold what a request needs to know of messages that it does not read again. of
// appends a group's bytes to dst.
func Fold(t *llm.Transcript, name string, of func(dst []byte, group []*message.Message) []byte) (head, tail []byte) {
	// The encoder returns no errors, so Encoded returns none.
	head, tail, _ = t.Encoded(name, func(dst []byte, group []*message.Message) ([]byte, error) {
		return of(dst, group), nil
	})
	return head, tail
}

// Ends reports whether the first message, and whether the last, is the model's.
func Ends(t *llm.Transcript) (first, last bool) {
	head, tail := Fold(t, "ends", func(dst []byte, group []*message.Message) []byte {
		if group[0].Role == message.Assistant {
			return append(dst, 'a')
		}
		return append(dst, 'u')
	})
	if len(head) == 0 {
		head = tail
	}
	return len(head) > 0 && head[0] == 'a', len(tail) > 0 && tail[0] == 'a'
}

// Newest returns the blocks of the messages after the model's last one.
func Newest(t *llm.Transcript) (blocks []message.Block) {
	Fold(t, "newest", func(dst []byte, group []*message.Message) []byte { // the last group comes last, each time
		blocks = nil
		for _, m := range group {
			if m.Role != message.Assistant {
				blocks = append(blocks, m.Blocks...)
			}
		}
		return dst
	})
	return blocks
}
