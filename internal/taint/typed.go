package taint

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tool/sentence"
)

// typed is the text that the user typed in a turn, and where its words begin and end. A word is
// what stands between spaces, without the punctuation around it; "Ann's" also ends after "Ann".
type typed struct {
	text         string
	starts, ends map[int]bool
}

// typedBefore returns what the user typed in a turn before a call: text of his own that is neither
// private nor untrusted.
func typedBefore(turn []*message.Message, call message.Ref) typed {
	var lines []string
	for _, m := range turn {
		if m.ID == call.Message {
			break
		}
		if m.Role != message.User {
			continue
		}
		for _, b := range m.Blocks {
			if t, ok := b.(*message.Text); ok && t.Origin == record.OriginUser && t.Labels&(message.Private|message.Untrusted) == 0 {
				lines = append(lines, t.Text)
			}
		}
	}
	t := typed{text: strings.Join(lines, "\n"), starts: map[int]bool{}, ends: map[int]bool{}}
	at := 0
	for word := range strings.FieldsFuncSeq(t.text, unicode.IsSpace) {
		at += strings.Index(t.text[at:], word)
		t.mark(at, word)
		at += len(word)
	}
	return t
}

// The punctuation that may stand around a word.
const (
	opening = "\"'`“”„‘’‚«»([{<¿¡*_"
	closing = "\"'`“”‘’«»)]}>.,;:!?…*_"
)

// mark records where a word begins and ends.
func (t *typed) mark(at int, word string) {
	core := strings.TrimLeft(word, opening)
	at += len(word) - len(core)
	for core != "" {
		c, size := utf8.DecodeLastRuneInString(core)
		if !strings.ContainsRune(closing, c) || c == ')' && strings.Count(core, "(") == strings.Count(core, ")") {
			break // also the parenthesis of an address: /wiki/Graz_(town)
		}
		core = core[:len(core)-size]
	}
	if core == "" {
		return
	}
	t.starts[at], t.ends[at+len(core)] = true, true
	for _, s := range []string{"'s", "’s"} {
		if owner, ok := strings.CutSuffix(core, s); ok && owner != "" {
			t.ends[at+len(owner)] = true
		}
	}
}

// value reports whether an argument is a whole value that the user typed after a position, and
// where it ends: a text or a number that is, byte for byte, one stretch of whole words of one line,
// with a letter or a digit in it. An address may have been typed without its scheme; https is then
// its scheme.
func (t *typed) value(raw json.RawMessage, from int, address bool) (end int, ok bool) {
	v, err := decode(raw)
	if err != nil {
		return 0, false
	}
	switch v := v.(type) {
	case json.Number:
		return t.find(v.String(), from)
	case string:
		if strings.Contains(v, "://") && strings.ContainsFunc(v, unicode.IsSpace) {
			return 0, false // an address is one word
		}
		if end, ok = t.find(v, from); ok || !address {
			return end, ok
		}
		if host, cut := strings.CutPrefix(v, "https://"); cut && !strings.Contains(host, "://") && hostOf(host) != "" {
			return t.find(host, from)
		}
	}
	return 0, false
}

// find finds a stretch of the text, and returns where it ends.
func (t *typed) find(s string, from int) (end int, ok bool) {
	if strings.ContainsAny(s, "\r\n") || !strings.ContainsFunc(s, wordy) || len(strings.Fields(s)) > MaxWords {
		return 0, false
	}
	for {
		i := strings.Index(t.text[from:], s)
		if i < 0 {
			return 0, false
		}
		from += i
		if t.starts[from] && t.ends[from+len(s)] {
			return from + len(s), true
		}
		from++
	}
}

func wordy(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }

func wordsOf(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return !wordy(c) && c != '@' && c != '\'' })
}

// verbs are words in names of tools that say nothing about whose tool it is.
var verbs = strings.Fields("get list search find read show look query fetch open view check tell ask")

// named reports whether the user named a tool: by the name of its server or its own, the host that
// it reaches, or one of the sentences by which people ask for it.
func (q *queries) named(spec tool.Spec) bool {
	have := wordsOf(q.text.text)
	for i := range have {
		have[i] = strings.TrimSuffix(have[i], "s")
	}
	said := func(name string) bool {
		words := wordsOf(strings.ReplaceAll(name, "_", " "))
		return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, strings.TrimSuffix(w, "s")) })
	}
	server, own, _ := strings.Cut(spec.Name, ".")
	if said(server) || !slices.Contains(verbs, own) && said(own) || spec.Host != "" && strings.Contains(strings.ToLower(q.text.text), strings.ToLower(spec.Host)) {
		return true
	}
	for _, source := range spec.Sentences {
		p, err := sentence.Compile(source)
		if err != nil {
			continue // a name that cannot be read names nothing
		}
		for _, clause := range clauses(q.text.text) {
			if _, ok := p.Match(clause, time.Time{}); ok {
				return true
			}
		}
	}
	return false
}

// clauses returns the parts of a text that may each ask for something.
func clauses(text string) []string {
	text = strings.NewReplacer(" and ", "\n", " then ", "\n", " und ", "\n", " dann ", "\n").Replace(text)
	parts := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(".,;:?!\n", c) })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
