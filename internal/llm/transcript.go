package llm

import (
	"sync"

	"steward/internal/fault"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/tool"
)

// Transcript is the active view of a branch as a model is shown it: a list of
// messages that only grows, with its encodings for the providers that have
// seen it. Each message is encoded once per provider; a further call costs
// what is new. Safe for concurrent use.
type Transcript struct {
	mu       sync.Mutex
	messages []*message.Message // those that are held
	gone     int                // messages before them that were let go
	again    func() ([]*message.Message, error)
	encoded  map[string]*encoding
	size     int // bytes held by encodings
	parts    tokens.Parts
	counted  int // messages in parts
	sum      sum // of the last Count
}

type encoding struct {
	buf []byte // the closed groups, separated by commas
	n   int    // messages in buf
}

// NewTranscript returns a transcript of the messages.
func NewTranscript(msgs ...*message.Message) *Transcript {
	return &Transcript{messages: msgs[:len(msgs):len(msgs)]}
}

// Append adds messages at the end.
func (t *Transcript) Append(msgs ...*message.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(t.messages, msgs...)
}

// Again lets the transcript let go of messages that are encoded, and tells
// how they can be had anew: all messages that it began with and that were
// appended and are durable, in order. It is called under the transcript's lock.
func (t *Transcript) Again(again func() ([]*message.Message, error)) { t.again = again }

// Messages returns the messages that are held: all, or, once others are
// encoded and let go (see Again), those since a person spoke last at least.
// The slice is never written to again; do not write to it either.
func (t *Transcript) Messages() []*message.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messages[:len(t.messages):len(t.messages)]
}

// All returns all messages, as Messages does; those that were let go are had
// anew and held from now on.
func (t *Transcript) All() ([]*message.Message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refill(0); err != nil {
		return nil, err
	}
	return t.messages[:len(t.messages):len(t.messages)], nil
}

// refill sees to it that the messages from the nth on are held.
func (t *Transcript) refill(n int) error {
	if n >= t.gone {
		return nil
	}
	all, err := t.again()
	if err != nil {
		return err
	}
	if len(all) < t.gone {
		return fault.New(fault.Internal, "transcript_broken", "of %d messages %d can be read again", t.gone, len(all))
	}
	t.messages = append(all[:t.gone:t.gone], t.messages...)
	t.gone = 0
	return nil
}

// letGo lets go of what every codec has encoded, but for the running turn.
func (t *Transcript) letGo() {
	if t.again == nil {
		return
	}
	n := t.gone + len(t.messages)
	for _, e := range t.encoded {
		n = min(n, e.n)
	}
	for i := n - t.gone; i >= leastGone; i-- {
		if i == len(t.messages) || !spoken(t.messages[i]) {
			continue
		}
		t.count()
		t.messages = append(make([]*message.Message, 0, len(t.messages)-i+leastGone), t.messages[i:]...)
		t.gone += i
		return
	}
}

// leastGone is how many messages are let go at once, at least.
const leastGone = 16

// spoken reports whether a person wrote the message.
func spoken(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == "user"
}

// Size estimates the bytes that the encodings and the messages held take.
func (t *Transcript) Size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.messages) == 0 {
		return t.size
	}
	t.count()
	text := 4 * int(t.parts.Tokens()) * len(t.messages) / (t.gone + len(t.messages))
	return t.size + text + len(t.messages)*sizeofMessage
}

// sizeofMessage is about what a message takes in memory beside its text.
const sizeofMessage = 600

// Parts returns the estimate of the messages' tokens. Each message
// is looked at once.
func (t *Transcript) Parts() tokens.Parts {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count()
	return t.parts
}

// count brings parts up to date. What is let go has been counted.
func (t *Transcript) count() {
	for _, m := range t.messages[t.counted-t.gone:] {
		t.parts = t.parts.Add(tokens.OfMessage(m))
	}
	t.counted = t.gone + len(t.messages)
}

// Tokens returns about how many tokens the messages make, on the safe side.
func (t *Transcript) Tokens() int64 { return t.Parts().Tokens() }

// Count returns the messages' tokens as count counts them, which key stands
// for. Each message is counted once, as long as the key stays the same.
func (t *Transcript) Count(key string, count func(*message.Message) int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum.key != key {
		t.sum = sum{key: key}
	}
	if err := t.refill(t.sum.n); err != nil { // the estimate is on the safe side
		t.count()
		return t.parts.Tokens()
	}
	for _, m := range t.messages[t.sum.n-t.gone:] {
		t.sum.tokens += count(m)
	}
	t.sum.n = t.gone + len(t.messages)
	return t.sum.tokens
}

// sum is what messages were counted to.
type sum struct {
	key    string
	n      int // messages counted
	tokens int64
}

// GroupEncoder appends the wire form of one group of messages to dst as zero
// or more JSON values separated by commas. A group is a longest run of
// assistant messages, or of others (tool results and what the user said after
// them): what some providers want as one turn.
type GroupEncoder func(dst []byte, group []*message.Message) ([]byte, error)

// Encoded returns the transcript's wire form in two parts, to be joined by a
// comma where neither is empty: head, of all groups but the last, is kept
// under the codec's name and must not be written to; tail is fresh. The
// codec's name stands for everything that encode's output depends on.
func (t *Transcript) Encoded(codec string, encode GroupEncoder) (head, tail []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.encoded[codec]
	if e == nil {
		e = &encoding{}
		if t.encoded == nil {
			t.encoded = map[string]*encoding{}
		}
		t.encoded[codec] = e
	}
	if err := t.refill(e.n); err != nil {
		return nil, nil, err
	}
	for {
		group := nextGroup(t.messages[e.n-t.gone:])
		if e.n+len(group) == t.gone+len(t.messages) { // the last one may still grow
			if len(group) > 0 {
				tail, err = encode(nil, group)
			}
			t.letGo()
			return e.buf[:len(e.buf):len(e.buf)], tail, err
		}
		if err := t.keep(e, group, encode); err != nil {
			return nil, nil, err
		}
	}
}

// keep adds a closed group to an encoding.
func (t *Transcript) keep(e *encoding, group []*message.Message, encode GroupEncoder) error {
	before, buf := len(e.buf), e.buf
	if before > 0 {
		buf = append(buf, ',')
	}
	start := len(buf)
	buf, err := encode(buf, group)
	if err != nil {
		return err
	}
	if len(buf) == start { // the group has nothing for this provider
		buf = buf[:before]
	}
	e.buf, e.n = buf, e.n+len(group)
	t.size += len(e.buf) - before
	return nil
}

func nextGroup(msgs []*message.Message) []*message.Message {
	for i := range msgs {
		if (msgs[i].Role == message.Assistant) != (msgs[0].Role == message.Assistant) {
			return msgs[:i]
		}
	}
	return msgs
}

// Toolset are the tools that a model is shown, with their encodings. Make a
// new one when a tool changes. Safe for concurrent use.
type Toolset struct {
	specs   []tool.Spec
	wire    map[string]string // wire name → name
	mu      sync.Mutex
	encoded map[string][]byte
	parts   tokens.Parts
}

// NewToolset returns the set of the specs, in their order.
func NewToolset(specs ...tool.Spec) *Toolset {
	s := &Toolset{specs: specs, wire: make(map[string]string, len(specs)), encoded: map[string][]byte{}}
	for i := range specs {
		sp := &specs[i]
		s.wire[tool.WireName(sp.Name)] = sp.Name
		s.parts = s.parts.Add(tokens.OfTool(sp))
	}
	return s
}

// Specs returns the tools. Do not modify the slice.
func (s *Toolset) Specs() []tool.Spec {
	if s == nil {
		return nil
	}
	return s.specs
}

// Parts returns the estimate of the tools' descriptions.
func (s *Toolset) Parts() tokens.Parts {
	if s == nil {
		return tokens.Parts{}
	}
	return s.parts
}

// Tokens returns about how many tokens the tools' descriptions make, on the
// safe side.
func (s *Toolset) Tokens() int64 { return s.Parts().Tokens() }

// Name returns the tool's name for the name that a model wrote, which may be
// unknown to the set.
func (s *Toolset) Name(wire string) string {
	if s != nil {
		if n, ok := s.wire[wire]; ok {
			return n
		}
	}
	return tool.FromWire(wire)
}

// Encoded returns the set's wire form, made once per codec by encode.
func (s *Toolset) Encoded(codec string, encode func(specs []tool.Spec) ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.encoded[codec]; ok {
		return b, nil
	}
	b, err := encode(s.specs)
	if err == nil {
		s.encoded[codec] = b
	}
	return b, err
}
