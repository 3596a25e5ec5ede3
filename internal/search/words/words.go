// Package words finds, among many descriptions, those that share the most
// words with a text.
//
// A text is split into words, and each word is reduced to its stem, so that
// "Schedules", "scheduled" and "scheduling" are equal. Function words ("the",
// "what", "please") say nothing about a subject and are called common. An
// Index holds documents, each made of weighted fields; Rank compares a query
// with all of them at once. Rare words count more than frequent ones. For an Index,
// words that share no stem are unrelated; a Finder knows also what words mean.
//
// All functions take time proportional to their input, and are deterministic.
package words

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Split cuts a text or a name into words in lower case: "calendar.addEvent"
// gives calendar, add, event. A short hyphenated word is one ("e-mail" gives
// email, "to-do" gives todo).
func Split(text string) []string {
	out := make([]string, 0, len(text)/6)
	for text != "" {
		n := next(text)
		if n == 0 {
			_, size := utf8.DecodeRuneInString(text)
			text = text[size:]
			continue
		}
		out = hyphens(out, text[:n])
		text = text[n:]
	}
	return out
}

// next returns the length of the run of letters, digits, apostrophes and hyphens
// that the text begins with; it ends with a letter or a digit.
func next(text string) int {
	end := 0
	for i, r := range text {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			end = i + utf8.RuneLen(r)
		case (r == '\'' || r == '’' || r == '-') && end == i && i > 0:
		default:
			return end
		}
	}
	return end
}

// hyphens appends the words of a hyphenated word: several if all its parts are long.
func hyphens(out []string, word string) []string {
	if !strings.Contains(word, "-") {
		return camel(out, word)
	}
	parts := strings.Split(word, "-")
	for _, p := range parts {
		if len(p) < 3 {
			return camel(out, strings.Join(parts, ""))
		}
	}
	for _, p := range parts {
		out = camel(out, p)
	}
	return out
}

// camel appends "addEvent" as two words, and a word without its possessive "'s".
func camel(out []string, word string) []string {
	for _, s := range []string{"'s", "’s", "'S", "’S"} {
		word = strings.TrimSuffix(word, s)
	}
	start, lower := 0, false
	for i, r := range word {
		if lower && unicode.IsUpper(r) {
			out = append(out, strings.ToLower(word[start:i]))
			start = i
		}
		lower = unicode.IsLower(r)
	}
	return append(out, strings.ToLower(word[start:]))
}

// Stem reduces an English word in lower case to its stem, which need not be a word
// itself.
func Stem(word string) string {
	w := word
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case hasAny(w, "sses", "xes", "ches", "shes"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "s") && len(w) > 3 && !hasAny(w, "ss", "us", "is"):
		w = w[:len(w)-1]
	}
	if len(w) > 5 {
		w = strings.TrimSuffix(w, "ly")
	}
	for _, end := range []string{"ing", "ed"} {
		if base, ok := strings.CutSuffix(w, end); ok && len(base) >= 3 && strings.ContainsAny(base, "aeiouy") {
			if n := len(base); base[n-1] == base[n-2] && !strings.ContainsAny(base[n-1:], "lsz") {
				base = base[:n-1] // running
			}
			w = base
			break
		}
	}
	if len(w) >= 4 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}

func hasAny(w string, ends ...string) bool {
	for _, e := range ends {
		if strings.HasSuffix(w, e) {
			return true
		}
	}
	return false
}

// Common reports whether a word in lower case is a function word.
func Common(word string) bool {
	return len(word) < 2 || commonWords()[word]
}

var commonWords = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(common) {
		out[w] = true
	}
	return out
})

const common = "a about after again ago also am an and any are aren't as at be because been before being between but by can can't could did didn't do does " +
	"doesn't don't down each either else ever every for from get gets got had has have he hello her here hers hey hi him his how i i'd " +
	"i'll i'm i've if in into is isn't it its just kindly let me might mine more most must my no nor not now of off ok okay on once one " +
	"or our ours out over own please really shall she should so some such than thank thanks that that's the their them then there these " +
	"they this those to too under until up upon us very want was wasn't we were what what's when where which while who whom whose why " +
	"will with without won't would yes yet you your yours"
