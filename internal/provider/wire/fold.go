package wire

import (
	"steward/internal/llm"
	"steward/internal/message"
)

// Fold keeps a few bytes of each group of a transcript's messages, under a
// name as its encodings are kept: what a request needs to know of messages
// that it need not read again. of appends to dst what it keeps of a group.
func Fold(t *llm.Transcript, name string, of func(dst []byte, group []*message.Message) []byte) (head, tail []byte) {
	// The encoder has no errors, so Encoded has none.
	head, tail, _ = t.Encoded(name, func(dst []byte, group []*message.Message) ([]byte, error) {
		return of(dst, group), nil
	})
	return head, tail
}

// Ends reports whether the first and the last message are the model's.
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

// Newest returns the messages after the model's last one; none if that is the
// last.
func Newest(t *llm.Transcript) []*message.Message {
	var newest []*message.Message
	Fold(t, "newest", func(dst []byte, group []*message.Message) []byte { // the last group comes last, each time
		newest = group
		return dst
	})
	if len(newest) > 0 && newest[0].Role == message.Assistant {
		return nil
	}
	return newest
}
