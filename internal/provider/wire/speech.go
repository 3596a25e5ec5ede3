package wire

import (
	"bytes"
	"strings"
	"unicode"

	"steward/internal/llm"
	"steward/internal/message"
)

// speech separates what local models write into one text: reasoning, which stands at its beginning between
// tags, special tokens of the model's chat format, which the server should have read, and the answer. The
// zero value is ready to use, for one answer.
type speech struct {
	mode    mode
	held    []byte // may be the beginning of a tag
	close   string // ends the reasoning
	header  []byte // of a message in the harmony format or in ChatML
	until   string // ends the header
	call    string // the tool that a message in the harmony format calls
	args    []byte // of that call
	spoke   bool   // something of the answer was written, beside white space
	opened  bool   // the answer itself has an opening tag: closing ones belong to it
	strike  bool   // there was an <s>, as HTML has it
	code    code
	last    byte  // of the answer so far
	part    *Part // to which text was added last
	newPart bool  // text that follows is a part of its own
}

type mode int

const (
	undecided mode = iota // nothing but white space has come
	thinking              // up to the tag that closes it
	guessing              // reasoning if a mark ends it, otherwise the answer; all of it is held
	closing               // white space between the reasoning and the answer
	answering
	harmonyReasoning // reasoning of a message in the harmony format, up to the next token
	heading          // the header of a message
	calling          // the arguments of a call
	over             // what the model made up after its answer
)

// thoughtTags are the tags between which models write their reasoning.
var thoughtTags = [][2]string{
	{"<think>", "</think>"}, {"<thinking>", "</thinking>"}, {"<thought>", "</thought>"}, {"<reasoning>", "</reasoning>"},
	{"[THINK]", "[/THINK]"},                        // Mistral
	{"<seed:think>", "</seed:think>"},              // Seed
	{"<|START_THINKING|>", "<|END_THINKING|>"},     // Cohere
	{"<|begin_of_thought|>", "<|end_of_thought|>"}, // Sky, OpenThinker
	{"◁think▷", "◁/think▷"},                        // Kimi
	{"<|channel>thought", "<channel|>"},            // Gemma
	{"<unused94>thought", "<unused95>"},            // MedGemma
}

// gpt-oss writes this if a server has removed its special tokens.
const (
	bareAnalysis = "analysis"
	bareFinal    = "assistantfinal"
)

// maxTag is the most bytes that a tag or token has, and maxHeader a header.
const (
	maxTag    = 64
	maxHeader = 256
)

// AddMixedText adds text of a server that leaves reasoning and special tokens in it.
func (a *Assembly) AddMixedText(piece []byte) {
	if len(piece) > 0 {
		a.speech.take(a, piece)
	}
}

// StartMixedText begins a new part with the text that Say adds next.
func (a *Assembly) StartMixedText() { a.speech.newPart = true }

// Settle adds what Say has held back, after the last piece. Done and Cite do so, too.
func (a *Assembly) Settle() { a.speech.end(a) }

// MixedTextPart returns the part to which Say has added text last, or nil.
func (a *Assembly) MixedTextPart() *Part { return a.speech.part }

// take reads the next piece. It holds back what may be part of a tag until the next piece or the end.
func (s *speech) take(a *Assembly, piece []byte) {
	in := append(s.held, piece...)
	s.held = nil
	for len(in) > 0 && !a.Gone {
		before := s.mode
		rest := s.step(a, in)
		if len(rest) == len(in) && s.mode == before { // more is needed
			s.held = bytes.Clone(rest)
			return
		}
		in = rest
	}
}

// step reads the beginning of in, and returns what it has not read. If that is all, it needs more.
func (s *speech) step(a *Assembly, in []byte) (rest []byte) {
	switch s.mode {
	case undecided:
		return s.begin(in)
	case thinking:
		end := bytes.Index(in, []byte(s.close))
		if end < 0 {
			keep := partial(in, s.close)
			a.think(in[:len(in)-keep])
			return in[len(in)-keep:]
		}
		a.think(in[:end])
		s.mode = closing
		return in[end+len(s.close):]
	case guessing:
		if end := bytes.Index(in, []byte(s.close)); end >= 0 {
			a.think(in[len(bareAnalysis):end])
			s.mode = closing
			return in[end+len(s.close):]
		}
		return in
	case closing:
		if in = bytes.TrimLeft(in, " \t\r\n"); len(in) > 0 {
			s.mode = answering
		}
		return in
	case heading:
		return s.head(in)
	case over:
		return nil
	}
	return s.text(a, in)
}

// begin decides how an answer begins.
func (s *speech) begin(in []byte) (rest []byte) {
	start := bytes.TrimLeft(in, " \t\r\n")
	wait := len(start) == 0
	for _, t := range thoughtTags {
		if bytes.HasPrefix(start, []byte(t[0])) {
			s.mode, s.close = thinking, t[1]
			return start[len(t[0]):]
		}
		if after, ok := bytes.CutPrefix(start, []byte(t[1])); ok { // the server has read the reasoning itself
			s.mode = closing
			return after
		}
		wait = wait || bytes.HasPrefix([]byte(t[0]), start) || bytes.HasPrefix([]byte(t[1]), start)
	}
	if after, ok := bytes.CutPrefix(start, []byte(bareAnalysis)); ok && len(after) > 0 && after[0] >= 'A' && after[0] <= 'Z' {
		s.mode, s.close = guessing, bareFinal
		return start
	} else if wait || ok && len(after) == 0 || bytes.HasPrefix([]byte(bareAnalysis), start) {
		return in
	}
	s.mode = answering
	return in
}

// text reads plain text up to the next tag or token, or that.
func (s *speech) text(a *Assembly, in []byte) (rest []byte) {
	at := bytes.IndexAny(in, "<[◁")
	if at < 0 {
		s.plain(a, in)
		return nil
	}
	if at > 0 {
		s.plain(a, in[:at])
		return in[at:]
	}
	tag, whole := s.tagOf(in)
	switch {
	case tag == "" && !whole && len(in) < maxTag:
		return in
	case tag == "" || s.quoted():
		n := max(len(tag), 1)
		for n < len(in) && in[n]&0xC0 == 0x80 { // the rest of a character
			n++
		}
		s.plain(a, in[:n])
		return in[n:]
	}
	s.token(a, tag)
	return in[len(tag):]
}

// tagOf returns the tag or special token with which in begins. If there is none, no reports whether there
// cannot be one, whatever follows.
func (s *speech) tagOf(in []byte) (tag string, no bool) {
	possible := false
	known := func(t string) bool {
		if bytes.HasPrefix(in, []byte(t)) {
			tag = t
			return true
		}
		possible = possible || bytes.HasPrefix([]byte(t), in)
		return false
	}
	for _, t := range thoughtTags {
		if known(t[1]) || known(t[0]) {
			return tag, true
		}
	}
	for _, t := range []string{"<end_of_turn>", "<start_of_turn>", "<eos>", "</s>", "<s>"} {
		if known(t) {
			return tag, true
		}
	}
	for _, bar := range []string{"|", "｜"} {
		name, ok := bytes.CutPrefix(in, []byte("<"+bar))
		if !ok {
			possible = possible || bytes.HasPrefix([]byte("<"+bar), in)
			continue
		}
		for i, r := range string(name) {
			after := name[i:]
			switch {
			case bytes.HasPrefix(after, []byte(bar+">")) && i > 0:
				token := string(in[:len(in)-len(after)+len(bar)+1])
				if toolMark(token) {
					return "", true
				}
				return token, true
			case bytes.HasPrefix([]byte(bar+">"), after):
				return "", false
			case !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '▁' && r != '-' && r != unicode.ReplacementChar || i > maxTag:
				return "", true
			}
		}
		possible = true
	}
	return "", !possible
}

// toolMark reports whether a special token belongs to a call. Those stay in the text: a call that is written as
// text is read from there.
func toolMark(token string) bool {
	name := strings.ToLower(token)
	return strings.Contains(name, "tool") || strings.Contains(name, "python_tag") || strings.Contains(name, "function") || strings.Contains(name, "action")
}

// token acts on a tag or special token.
func (s *speech) token(a *Assembly, tag string) {
	for _, t := range thoughtTags {
		switch {
		case tag == t[0]:
			s.opened = true
			s.plain(a, []byte(tag))
			return
		case tag == t[1] && s.opened:
			s.plain(a, []byte(tag))
			return
		case tag == t[1]: // the opening tag was part of the prompt
			if s.spoke {
				a.reclassifyAsReasoning()
			}
			s.mode, s.spoke, s.code, s.last = closing, false, code{}, 0
			return
		}
	}
	switch strings.Trim(tag, "<|｜>") {
	case "/s", "end_of_turn", "eos", "im_end", "endoftext", "end_of_text", "eot_id", "eom_id", "return", "end▁of▁sentence":
		if tag == "</s>" && s.strike {
			s.plain(a, []byte(tag))
			return
		}
		s.finish(a)
		s.mode = closing
	case "s":
		s.strike = true
		s.plain(a, []byte(tag))
	case "end", "call":
		s.finish(a)
		s.mode = closing
	case "channel", "start":
		s.finish(a)
		s.mode, s.until = heading, "<|message|>"
		s.header = append(s.header[:0], tag...)
	case "im_start", "start_of_turn":
		s.finish(a)
		s.mode, s.until, s.header = heading, "\n", s.header[:0]
	case "start_header_id":
		s.finish(a)
		s.mode, s.until, s.header = heading, "<|end_header_id|>", s.header[:0]
	}
}

// head reads the header of a message: who writes it, in which channel, and for whom.
func (s *speech) head(in []byte) (rest []byte) {
	end := bytes.Index(in, []byte(s.until))
	if end < 0 && len(in) < maxHeader {
		return in
	}
	if end < 0 { // it is none
		s.mode = answering
		return in
	}
	header := string(s.header) + string(in[:end])
	role, _, _ := strings.Cut(strings.TrimPrefix(header, "<|start|>"), "<")
	role = strings.ToLower(strings.TrimSpace(role))
	_, channel, _ := strings.Cut(header, "<|channel|>")
	_, to, addressed := strings.Cut(header, "to=functions.")
	s.mode = closing
	switch {
	case role == "user" || role == "system" || role == "developer" || role == "tool" || strings.HasPrefix(role, "functions."):
		s.mode = over
	case addressed:
		s.call, _, _ = strings.Cut(to, "<")
		s.call, _, _ = strings.Cut(s.call, " ")
		s.args, s.mode = nil, calling
	case strings.HasPrefix(strings.TrimSpace(channel), "analysis"):
		s.mode = harmonyReasoning
	}
	return in[end+len(s.until):]
}

// plain adds text without tags.
func (s *speech) plain(a *Assembly, text []byte) {
	switch s.mode {
	case harmonyReasoning:
		a.think(text)
	case calling:
		if a.Keep(len(text)) {
			s.args = append(s.args, text...)
		}
	default:
		if len(text) == 0 {
			return
		}
		s.spoke = s.spoke || len(bytes.TrimSpace(text)) > 0
		s.last = text[len(text)-1]
		s.code.read(text)
		p := a.Last(llm.TextDelta)
		if p.Len() > 0 && (s.newPart || p.Meta.Fields != nil) {
			p = a.Open(llm.TextDelta)
		}
		s.part, s.newPart = p, false
		p.Add(text)
	}
}

// finish ends a call: it goes on as text in the form in which other models write calls.
func (s *speech) finish(a *Assembly) {
	if s.mode != calling {
		return
	}
	args := bytes.TrimSpace(s.args)
	if len(args) == 0 {
		args = []byte("{}")
	}
	s.mode = answering
	s.plain(a, Append(nil, `<tool_call>{"name":$,"arguments":$}</tool_call>`, s.call, args))
}

// pause adds what was held back before something that is no text: a tag does not go on after that.
func (s *speech) pause(a *Assembly) {
	if len(s.held) == 0 || s.mode == undecided && len(bytes.TrimSpace(s.held)) == 0 || s.mode != undecided && s.mode != answering {
		return
	}
	held := s.held
	s.held, s.mode = nil, answering
	s.plain(a, held)
}

// end adds what was held back, after the answer has ended.
func (s *speech) end(a *Assembly) {
	held := s.held
	s.held = nil
	switch s.mode {
	case thinking:
		a.think(held)
	case calling:
		s.args = append(s.args, held...)
		s.finish(a)
	case closing, heading, over:
	case undecided, guessing:
		s.mode = answering
		s.plain(a, held)
	default:
		s.plain(a, held)
	}
}

// quoted reports whether a tag that comes now is only named, in code or in quotation marks.
func (s *speech) quoted() bool {
	return s.mode != harmonyReasoning && s.mode != calling && (s.code.inside() || s.last != 0 && strings.IndexByte("`\"'", s.last) >= 0)
}

// code tells what of a text is code in Markdown.
type code struct {
	run            int // backticks at the end so far
	inline, fenced bool
}

func (c *code) read(text []byte) {
	if c.run == 0 && !c.inline && bytes.IndexByte(text, '`') < 0 {
		return
	}
	for _, b := range text {
		if b == '`' {
			c.run++
			continue
		}
		c.turn()
		if b == '\n' {
			c.inline = false
		}
	}
}

// turn ends a run of backticks.
func (c *code) turn() {
	switch {
	case c.run >= 3:
		c.fenced = !c.fenced
	case c.run > 0 && !c.fenced:
		c.inline = !c.inline
	}
	c.run = 0
}

func (c code) inside() bool {
	c.turn()
	return c.fenced || c.inline
}

// think adds reasoning.
func (a *Assembly) think(text []byte) {
	if len(text) > 0 {
		a.Last(llm.ReasoningDelta).Add(text)
	}
}

// reclassifyAsReasoning makes reasoning of what was text so far: a model whose opening tag is part of its prompt writes only
// the closing one. It does nothing once there is something beside text.
func (a *Assembly) reclassifyAsReasoning() {
	for _, p := range a.parts {
		if p.kind != llm.TextDelta {
			return
		}
	}
	a.send(llm.Event{Kind: llm.Reset})
	for _, p := range a.parts {
		p.kind, p.Meta, p.Cites = llm.ReasoningDelta, message.Meta{}, nil
		a.send(llm.Event{Kind: p.kind, Block: p.place, Text: p.Text()})
	}
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
