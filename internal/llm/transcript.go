package llm

import (
	"sync"

	"steward/internal/fault"
	"steward/internal/llm/tokens"
	"steward/internal/message"
	"steward/internal/tool"
)

// Transcript is the list of a branch's messages as a model sees them. It only grows, and caches its
// encodings for the providers that have seen it: each message is encoded once per provider, so a
// further call costs only what is new. It is safe for concurrent use.
type Transcript struct {
	mu       sync.Mutex
	messages []*message.Message // those in memory
	gone     int                // how many messages before them were released
	again    func() ([]*message.Message, error)
	encoded  map[string]*encoding
	size     int // bytes of the encodings
	parts    tokens.Parts
	counted  int // messages in parts
	users    int // of these, messages of the role user

	base *Transcript // of a view; it does everything
	name string
	see  func(*message.Message) *message.Message
}

// As returns a view of the transcript in which see has changed the messages. A message keeps its
// side: the model's stays the model's. Encodings are cached in t, under the view's name.
func (t *Transcript) As(name string, see func(*message.Message) *message.Message) *Transcript {
	return &Transcript{base: t, name: name, see: see}
}

func (t *Transcript) seen(msgs []*message.Message) []*message.Message {
	out := make([]*message.Message, len(msgs))
	for i, m := range msgs {
		out[i] = t.see(m)
	}
	return out
}

type encoding struct {
	buf []byte // the finished groups, separated by commas
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

// Again allows the transcript to release messages that are encoded. again reloads them: it returns
// all messages that the transcript began with, and those appended that are durable, in order. It is
// called under the transcript's lock.
func (t *Transcript) Again(again func() ([]*message.Message, error)) { t.again = again }

// Messages returns the messages in memory: all of them or, after others were encoded and released
// (see Again), at least those since a person's last message. The slice is never modified; callers
// must not modify it either.
func (t *Transcript) Messages() []*message.Message {
	if t.base != nil {
		return t.seen(t.base.Messages())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messages[:len(t.messages):len(t.messages)]
}

// All returns all messages, as Messages does. Messages that were released are reloaded and kept
// from then on.
func (t *Transcript) All() ([]*message.Message, error) {
	if t.base != nil {
		all, err := t.base.All()
		return t.seen(all), err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.refill(0); err != nil {
		return nil, err
	}
	return t.messages[:len(t.messages):len(t.messages)], nil
}

// Len returns how many messages there are, also those that were released. It is not for views.
func (t *Transcript) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone + len(t.messages)
}

// refill reloads messages if necessary, so that those from the nth on are in memory.
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

// release releases the messages that every codec has encoded, except those of the running turn.
func (t *Transcript) release() {
	if t.again == nil {
		return
	}
	n := t.gone + len(t.messages)
	for _, e := range t.encoded {
		n = min(n, e.n)
	}
	for i := n - t.gone; i >= minGone; i-- {
		if i == len(t.messages) || !fromPerson(t.messages[i]) {
			continue
		}
		t.count()
		t.messages = append(make([]*message.Message, 0, len(t.messages)-i+minGone), t.messages[i:]...)
		t.gone += i
		return
	}
}

// minGone is the smallest number of messages that are released at once.
const minGone = 16

// fromPerson reports whether a person wrote the message.
func fromPerson(m *message.Message) bool {
	return m.Role == message.User && len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == "user"
}

// Size estimates the memory of the encodings and of the messages held, in bytes.
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

// sizeofMessage is the approximate memory of a message beside its text, in bytes.
const sizeofMessage = 600

// Parts returns the token estimate of the messages. Each message is estimated once.
func (t *Transcript) Parts() tokens.Parts {
	if t.base != nil {
		return t.base.Parts()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count()
	return t.parts
}

// Users returns how many messages of the role user there are.
func (t *Transcript) Users() int {
	if t.base != nil {
		return t.base.Users()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count()
	return t.users
}

// count brings parts up to date. Messages are counted before they are released.
func (t *Transcript) count() {
	for _, m := range t.messages[t.counted-t.gone:] {
		t.parts = t.parts.Add(tokens.OfMessage(m))
		if m.Role == message.User {
			t.users++
		}
	}
	t.counted = t.gone + len(t.messages)
}

// Tokens returns an estimate of the messages' tokens that is rather too high than too low.
func (t *Transcript) Tokens() int64 { return t.Parts().Tokens() }

// GroupEncoder appends the wire form of one group of messages to dst, as zero or more JSON values
// separated by commas. A group is a longest run of assistant messages, or of other messages (tool
// results and the user's messages after them), because some providers require each such run to be
// one turn.
type GroupEncoder func(dst []byte, group []*message.Message) ([]byte, error)

// Encoded returns the transcript's wire form in two parts, to be joined by a comma if neither is
// empty. head covers all groups but the last; it is cached under the codec's name and must not be
// modified. tail is newly allocated. The codec's name must identify everything that encode's output
// depends on.
func (t *Transcript) Encoded(codec string, encode GroupEncoder) (head, tail []byte, err error) {
	if t.base != nil {
		return t.base.Encoded(codec+" "+t.name, func(dst []byte, group []*message.Message) ([]byte, error) {
			return encode(dst, t.seen(group))
		})
	}
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
		if e.n+len(group) == t.gone+len(t.messages) { // the last group may still grow
			if len(group) > 0 {
				tail, err = encode(nil, group)
			}
			t.release()
			return e.buf[:len(e.buf):len(e.buf)], tail, err
		}
		if err := t.keep(e, group, encode); err != nil {
			return nil, nil, err
		}
	}
}

// keep adds a finished group to an encoding.
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
	if len(buf) == start { // the group is empty for this provider
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

// Toolset is the set of tools that a model sees, with their cached encodings. Make a new one when a
// tool changes. It is safe for concurrent use.
type Toolset struct {
	specs   []tool.Spec
	wire    map[string]string // wire name → name
	mu      sync.Mutex
	encoded map[string][]byte
	parts   tokens.Parts // of all
	tokens  []int64      // of each
}

// NewToolset returns a set of the specs, in their order.
func NewToolset(specs ...tool.Spec) *Toolset {
	s := &Toolset{specs: specs, wire: make(map[string]string, len(specs)), encoded: map[string][]byte{}, tokens: make([]int64, len(specs))}
	for i := range specs {
		sp := &specs[i]
		s.wire[tool.WireName(sp.Name)] = sp.Name
		parts := tokens.OfTool(sp)
		s.parts, s.tokens[i] = s.parts.Add(parts), parts.Tokens()
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

// Parts returns the token estimate of the tools' descriptions.
func (s *Toolset) Parts() tokens.Parts {
	if s == nil {
		return tokens.Parts{}
	}
	return s.parts
}

// Tokens returns an estimate of the tokens of the tools' descriptions that is rather too high than
// too low.
func (s *Toolset) Tokens() int64 { return s.Parts().Tokens() }

// TokensOf returns such an estimate of one of the tools, by its index.
func (s *Toolset) TokensOf(i int) int64 { return s.tokens[i] }

// Name returns the name of the tool that a model called by its wire name, which may be unknown to
// the set.
func (s *Toolset) Name(wire string) string {
	if s != nil {
		if n, ok := s.wire[wire]; ok {
			return n
		}
	}
	return tool.FromWire(wire)
}

// Encoded returns the set's wire form, which encode makes once per codec.
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
