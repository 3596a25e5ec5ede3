package wire

import "bytes"

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// Thoughts separates the reasoning that local models write at the beginning of an answer, between
// <think> and </think>, from the answer itself. The zero value is ready to use, for one answer.
type Thoughts struct {
	state thoughts
	held  []byte // may be the beginning of a tag
}

type thoughts int

const (
	undecided thoughts = iota // nothing but white space has come
	thinking
	closing   // white space between the reasoning and the answer
	answering // for good: a later tag is text
)

// Split takes the next piece and splits it into reasoning and answer. It holds back what may be
// part of a tag until the next piece or Rest. The results are valid until the next call.
func (t *Thoughts) Split(piece []byte) (think, text []byte) {
	if t.state == answering {
		return nil, piece
	}
	t.held = append(t.held, piece...)
	in := t.held
	if t.state == undecided {
		start := bytes.TrimLeft(in, " \t\r\n")
		switch {
		case bytes.HasPrefix(start, []byte(thinkOpen)):
			t.state, in = thinking, start[len(thinkOpen):]
		case bytes.HasPrefix([]byte(thinkOpen), start):
			return nil, nil
		default:
			t.state, t.held = answering, nil
			return nil, in
		}
	}
	if t.state == thinking {
		end := bytes.Index(in, []byte(thinkClose))
		if end < 0 {
			keep := partial(in, thinkClose)
			think = in[:len(in)-keep]
			t.held = bytes.Clone(in[len(in)-keep:])
			return think, nil
		}
		think, in = in[:end], in[end+len(thinkClose):]
		t.state = closing
	}
	if text = bytes.TrimLeft(in, " \t\r\n"); len(text) > 0 {
		t.state = answering
	}
	t.held = nil
	return think, text
}

// Rest returns what was held back, after the answer has ended.
func (t *Thoughts) Rest() (think, text []byte) {
	held := t.held
	t.held = nil
	if t.state == thinking {
		return held, nil
	}
	return nil, held
}

// partial returns how many bytes at the end of b may be the beginning of a tag.
func partial(b []byte, tag string) int {
	for n := min(len(b), len(tag)-1); n > 0; n-- {
		if bytes.HasSuffix(b, []byte(tag[:n])) {
			return n
		}
	}
	return 0
}
