package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is a word of a sentence, or a whole quotation.
type word struct {
	text   string // without signs around it; of a quotation without the marks
	low    string // in lower case; empty for a quotation
	lo, hi int    // its place in the sentence
	ends   bool   // a comma or the like follows
	stops  bool   // a sentence ends with it
	quoted bool
}

var closers = map[rune]string{'"': `"`, '“': "”", '„': "“", '«': "»", '»': "«", '`': "`", '\'': "'", '‘': "’"}

// split divides a sentence into words. It returns nil if there are too many.
func split(text string) (out []word) {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if unicode.IsSpace(r) {
			at += size
			continue
		}
		if len(out) == maxWords {
			return nil
		}
		w, next, ok := quotation(text, at)
		if !ok {
			next = at + strings.IndexFunc(text[at:]+" ", unicode.IsSpace)
			w = plainWord(text, at, next)
		}
		at = next
		if w.text == "" { // a sign that stands alone
			if len(out) > 0 {
				out[len(out)-1].ends = true
			}
			continue
		}
		out = append(out, w)
	}
	return out
}

// plainWord reads a word without the signs after it.
func plainWord(text string, lo, hi int) word {
	w := word{text: text[lo:hi], lo: lo}
	w.text = strings.TrimRight(w.text, ",;:!?")
	if strings.HasSuffix(w.text, ".") && strings.TrimSpace(text[hi:]) == "" && !numeric(strings.TrimRight(w.text, ".")) {
		w.text = strings.TrimRight(w.text, ".")
	}
	if bare := strings.TrimSuffix(w.text, "."); strings.Contains(bare, ":") && numeric(strings.Replace(bare, ":", "", 1)) { // a time ends the sentence
		w.text = bare
	}
	if strings.Trim(w.text, "-–—.…") == "" { // a dash
		w.text = ""
	}
	w.stops = strings.ContainsAny(text[hi-1:hi], "!?;") || text[hi-1] == '.' && len(w.text) > 3 && !numeric(strings.TrimRight(w.text, "."))
	w.hi, w.ends = lo+len(w.text), lo+len(w.text) < hi
	w.low = strings.ReplaceAll(strings.ToLower(w.text), "’", "'")
	return w
}

// quotation reads a quotation and the signs after it.
func quotation(text string, at int) (w word, next int, ok bool) {
	r, size := utf8.DecodeRuneInString(text[at:])
	closer, ok := closers[r]
	if !ok {
		return w, 0, false
	}
	n := strings.Index(text[at+size:], closer)
	if n < 0 {
		return w, 0, false
	}
	next = at + size + n + len(closer)
	after := strings.IndexFunc(text[next:]+" ", unicode.IsSpace)
	if strings.Trim(text[next:next+after], ",;:.!?") != "" { // an apostrophe in a word closes nothing
		return w, 0, false
	}
	return word{text: text[at+size : at+size+n], lo: at, hi: next, ends: after > 0, quoted: true}, next + after, true
}

func numeric(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// before are courtesies at the beginning of a sentence, after those at its end, and within those anywhere.
var (
	before = phrases("hey steward; hi steward; hello steward; steward; hey; hi; hello; ok; okay; so; well; now; hallo; also; can you; could you; would you; will you; i want you to; " +
		"i would like you to; i'd like you to; just; kindly; and; then; kannst du; könntest du; würdest du; und; dann; quick question; tell me; thanks; danke")
	after  = phrases("thanks; thank you; for me; danke; vielen dank; thx; right now; now")
	within = " please bitte mal "
)

func phrases(list string) (out [][]string) {
	for p := range strings.SplitSeq(list, ";") {
		out = append(out, strings.Fields(p))
	}
	return out
}

// stripCourtesies removes courtesies.
func stripCourtesies(ws []word) []word {
	kept := make([]word, 0, len(ws))
	for _, w := range ws {
		if w.quoted || !strings.Contains(within, " "+w.low+" ") {
			kept = append(kept, w)
		}
	}
	ws = kept
	begins := func(ws []word, phrase []string) bool {
		if len(ws) <= len(phrase) {
			return false
		}
		for i, p := range phrase {
			if ws[i].low != p {
				return false
			}
		}
		return true
	}
	for again := true; again; {
		again = false
		for _, p := range before {
			if begins(ws, p) {
				ws, again = ws[len(p):], true
			}
		}
	}
	for _, p := range after {
		if n := len(ws) - len(p); n > 0 && begins(append(ws[n:len(ws):len(ws)], word{}), p) {
			ws = ws[:n]
		}
	}
	return ws
}
