package importexport

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
)

// Version is the version of the export that Writer writes.
const Version = 2

// Own is a conversation that Steward exported. The members before the messages are already read;
// the messages are read on demand.
type Own struct {
	Version      int
	Conversation record.Conversation
	Branches     []record.Branch
	Interactions []Interaction
	Runs         []Run
	Marks        []record.Mark
	Pins         []record.Pin
	Summaries    []Placed // messages that replace others: in no branch's list

	// Signed reports whether the signature of what was read so far is valid. It is final when
	// Messages has ended.
	Signed bool

	// Messages yields the messages of all branches in the order of their positions. It may be
	// ranged over once. An error ends the sequence.
	Messages iter.Seq2[Placed, error]
}

// Interaction is an interaction with its id.
type Interaction struct {
	ID id.ID `json:"id"`
	record.Interaction
}

// Run is a run with its id and the interaction that it belongs to.
type Run struct {
	ID          id.ID `json:"id"`
	Interaction id.ID `json:"interaction"`
	record.Run
}

// Placed is a message with its place: its interaction, and the branch whose list it is in.
type Placed struct {
	Message     *message.Message
	Interaction id.ID
	Branch      string
	Pos         int64
	Rests       []Rest // what was cut off the results of its calls
}

// Rest is what the size limit of results cut off, in its stored form. It is identified by the index
// of the call in its message.
type Rest struct {
	Block int    `json:"block"`
	Body  []byte `json:"body"`
}

// The lines of an export: the stored records, with the parts of their URIs.
type (
	branchLine struct {
		ID string `json:"id"`
		record.Branch
	}
	markLine struct {
		Message id.ID `json:"message"`
		record.Mark
	}
	pinLine struct {
		Message id.ID `json:"message"`
		record.Pin
	}
	messageLine struct {
		Interaction string          `json:"interaction"`
		Branch      string          `json:"branch"`
		Pos         int64           `json:"pos"`
		Message     json.RawMessage `json:"message"`
		Rests       []Rest          `json:"rests"`
	}
)

// own reads Steward's export from a stream whose opening brace and first member name have been
// read. sum is the MAC of what was read, or nil if the export cannot be verified.
func (r *reader) own(s *stream, sum hash.Hash) error {
	at := s.at()
	v, err := s.value(1 << 10)
	if err != nil {
		return err
	}
	r.noteConversation()
	b := &ownReader{reader: r, s: s, own: &Own{}, total: r.MaxChat, depth: s.StackDepth() - 1}
	if json.Unmarshal(v, &b.own.Version) != nil || b.own.Version < 1 || b.own.Version > Version {
		r.yieldChat(nil, fault.New(fault.Unsupported, "import_version_unknown", "%s is an export of version %.20s, and this Steward reads up to version %d", b.Name, v, Version).
			WithHint("update Steward, and import it again"))
		r.ended = true // the rest has an unknown form
		return nil
	}
	if b.own.Version == Version {
		b.sum = sum
	}
	c, err := b.head()
	if err != nil {
		switch fault.Of(err).Code {
		case "import_not_json", "import_unreadable", "import_too_large":
			return err
		}
		err = r.chatFault(at, b.own.Conversation.Title, err)
	}
	if r.yieldChat(c, err); r.ended || b.failed || s.StackDepth() <= b.depth {
		return nil
	}
	return s.leave(b.depth, b.MaxChat)
}

// ownReader reads the members of an export.
type ownReader struct {
	*reader
	s      *stream
	own    *Own
	depth  int       // of the JSON around the export
	total  int       // size limit of everything before the messages, in bytes
	past   int64     // messages that were read
	failed bool      // nothing more can be read
	sum    hash.Hash // of what was read; nil: it cannot be verified
}

// head reads everything before the messages.
func (b *ownReader) head() (*Chat, error) {
	o := b.own
	for {
		more, err := b.s.more()
		if err != nil {
			return nil, err
		}
		if !more {
			o.Signed = false // the signed part ends with the messages
			o.Messages = func(func(Placed, error) bool) {}
			break
		}
		name, err := b.s.memberName()
		if err != nil {
			return nil, err
		}
		if name == "messages" {
			if err := b.s.expect('['); err != nil {
				return nil, err
			}
			b.add(`"messages":[`, nil)
			o.Messages = b.messages
			break
		}
		v, err := b.s.value(b.total)
		if errors.Is(err, errOversize) {
			return nil, fault.New(fault.TooLarge, "import_too_large", "%s%s of the conversation are larger than %d bytes", b.s.at(), name, b.MaxChat).
				WithHint("import it with a larger limit")
		}
		if err != nil {
			return nil, err
		}
		b.total -= len(v)
		if name == "signed" {
			o.Signed = fits(v, b.sum)
			continue
		}
		b.add(`"`+name+`":`, v)
		if err := b.member(name, v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if o.Conversation.ID.Zero() {
		return nil, errors.New("it does not say the conversation's id")
	}
	if o.Version == 1 {
		o.Branches = []record.Branch{{ID: record.MainBranch}}
	}
	return &Chat{Title: o.Conversation.Title, Created: o.Conversation.Created, Updated: o.Conversation.Updated,
		Source: Steward, SourceID: o.Conversation.ID.String(), Model: o.Conversation.Model, Current: -1, Own: o}, nil
}

// member reads one member. An unknown member comes from a later version and is left out.
func (b *ownReader) member(name string, v []byte) error {
	o := b.own
	switch name {
	case "id":
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return err
		}
		var ok bool
		if o.Conversation.ID, ok = id.Parse(s); !ok {
			return errors.New("not an id")
		}
	case "conversation":
		x := o.Conversation.ID
		if err := json.Unmarshal(v, &o.Conversation); err != nil {
			return err
		}
		o.Conversation.ID = x
	case "branches":
		return lines(v, func(l branchLine) error {
			l.Branch.ID = l.ID
			o.Branches = append(o.Branches, l.Branch)
			return nil
		})
	case "interactions":
		return lines(v, func(i Interaction) error {
			o.Interactions = append(o.Interactions, i)
			return named(i.ID)
		})
	case "runs":
		return lines(v, func(r Run) error {
			r.Run.ID = r.ID
			o.Runs = append(o.Runs, r)
			return named(r.ID, r.Interaction)
		})
	case "marks":
		return lines(v, func(l markLine) error {
			l.Mark.Message = l.Message
			o.Marks = append(o.Marks, l.Mark)
			return named(l.Message)
		})
	case "summaries":
		var list []json.RawMessage
		if err := json.Unmarshal(v, &list); err != nil {
			return err
		}
		for i, raw := range list {
			p, err := placed(raw, int64(i+1))
			if err != nil {
				return err
			}
			p.Branch, p.Pos = "", 0
			o.Summaries = append(o.Summaries, p)
		}
	case "pins":
		return lines(v, func(l pinLine) error {
			l.Pin.Message = l.Message
			o.Pins = append(o.Pins, l.Pin)
			return named(l.Message)
		})
	}
	return nil
}

// named returns an error if an id is missing.
func named(ids ...id.ID) error {
	if slices.Contains(ids, id.ID{}) {
		return errors.New("it has no id")
	}
	return nil
}

// lines decodes a list, one element at a time.
func lines[T any](v []byte, each func(T) error) error {
	var list []json.RawMessage
	if err := json.Unmarshal(v, &list); err != nil {
		return err
	}
	for i, raw := range list {
		var one T
		err := json.Unmarshal(raw, &one)
		if err == nil {
			err = each(one)
		}
		if err != nil {
			return fmt.Errorf("number %d: %w", i+1, err)
		}
	}
	return nil
}

// messages yields the messages from the stream.
func (b *ownReader) messages(yield func(Placed, error) bool) {
	for {
		more, err := b.s.more()
		if err == nil && !more {
			b.add("\n]", nil)
			if err = b.verify(); err == nil {
				return
			}
		}
		b.past++
		var p Placed
		if err == nil {
			p, err = b.message()
		}
		if err != nil {
			code := fault.Of(err).Code
			b.failed = code == "import_not_json" || code == "import_unreadable"
			yield(Placed{}, err)
			return
		}
		if !yield(p, nil) {
			return
		}
	}
}

// add adds a member or message to the MAC, in the form in which Writer writes it.
func (b *ownReader) add(lead string, v []byte) {
	if b.sum != nil {
		io.WriteString(b.sum, lead) //nolint:errcheck // a hash takes everything
		b.sum.Write(v)              //nolint:errcheck
	}
}

// verify checks the signature after the messages. Nothing may follow it.
func (b *ownReader) verify() error {
	ours := b.own.Signed
	b.own.Signed = false
	if b.s.PeekKind() != '"' || !ours {
		return nil // the rest is skipped
	}
	name, err := b.s.memberName()
	if err != nil {
		return err
	}
	v, err := b.s.value(1 << 10)
	if err != nil && !errors.Is(err, errOversize) {
		return err
	}
	b.own.Signed = b.s.PeekKind() == '}' && name == "mac" && fits(v, b.sum)
	return nil
}

// message reads one message with its place.
func (b *ownReader) message() (Placed, error) {
	at := b.s.at()
	raw, err := b.s.value(2 * b.MaxChat) // it includes what the size limit cut off its results
	if errors.Is(err, errOversize) {
		return Placed{}, fault.New(fault.TooLarge, "import_too_large", "%sa message is larger than %d bytes", at, 2*b.MaxChat).
			WithHint("import it with a larger limit")
	}
	if err != nil {
		return Placed{}, err
	}
	if b.past == 1 {
		b.add("\n", raw)
	} else {
		b.add(",\n", raw)
	}
	p, err := placed(raw, b.past)
	if err != nil {
		return p, b.chatFault(at, b.own.Conversation.Title, err)
	}
	return p, nil
}

// placed decodes the line of a message. nth is its index in the list, which is its position if a
// line of version 1 states none.
func placed(raw []byte, nth int64) (Placed, error) {
	var l messageLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return Placed{}, fmt.Errorf("message %d: %w", nth, err)
	}
	p := Placed{Branch: l.Branch, Pos: l.Pos, Rests: l.Rests}
	var err error
	ok := false
	if p.Interaction, ok = id.Parse(l.Interaction); !ok {
		return p, fmt.Errorf("message %d: interaction: %.40q is not an id", nth, l.Interaction)
	}
	if p.Message, err = message.Decode(l.Message); err == nil {
		err = message.Validate(p.Message)
	}
	if err != nil {
		return p, fmt.Errorf("message %d: %s", nth, fault.Of(err).Message)
	}
	if p.Branch == "" {
		p.Branch = record.MainBranch
	}
	if p.Pos == 0 {
		p.Pos = nth
	}
	return p, nil
}
