package memory

import (
	"slices"
	"strings"
	"unicode"

	"steward/internal/record"
	"steward/internal/search/words"
)

// Relation is what a fact says of two named things: Ann, lives in, Berlin.
type Relation struct {
	Subject, Words, Object string
}

// maxObject is the most words of the name of an object.
const maxObject = 6

// RelationOf returns the relation that a fact states, if its text has one of a few forms:
//
//	SUBJECT lives in NAME       a verb of relations(), with nothing but the subject before it
//	SUBJECT's boss is NAME      also "my boss is NAME", "mein Chef heißt NAME"
//	NAME is SUBJECT's boss      also "NAME is my boss"
//
// A name begins with a capital letter or a digit. A denial, a wish and a question state nothing, and neither
// does a quotation of others. Whatever has another form is kept as a text only.
func RelationOf(f *record.Fact) (Relation, bool) {
	if f.Foreign() || f.Type == record.FactInstruction || strings.Contains(f.Text, "?") {
		return Relation{}, false
	}
	list := wordsOf(f.Text)
	for _, w := range list {
		if isNegation(w.low) || isWish(w.low) {
			return Relation{}, false
		}
	}
	if r, ok := verbRelation(f.Subject, list); ok {
		return r, true
	}
	return ownRelation(f.Subject, list)
}

// word is a word of a text with the mark behind it.
type word struct {
	text, low string
	end       bool // a mark such as a comma follows
}

func wordsOf(text string) (out []word) {
	for _, s := range strings.Fields(text) {
		bare := strings.Trim(s, ".,;:!()[]\"“”„«»")
		if bare == "" {
			if len(out) > 0 {
				out[len(out)-1].end = true
			}
			continue
		}
		last := s[len(s)-1]
		out = append(out, word{text: bare, low: strings.ToLower(bare), end: strings.IndexByte(".,;:!)]", last) >= 0})
	}
	return out
}

// relations are the verbs with their prepositions, and the relation that they state.
func relations() [][2]string {
	return [][2]string{
		{"lives in", "lives in"}, {"live in", "lives in"}, {"moved to", "lives in"}, {"wohnt in", "lives in"}, {"wohne in", "lives in"}, {"lebt in", "lives in"}, {"lebe in", "lives in"},
		{"works at", "works at"}, {"work at", "works at"}, {"works for", "works at"}, {"work for", "works at"}, {"arbeitet bei", "works at"}, {"arbeite bei", "works at"}, {"arbeitet für", "works at"}, {"arbeite für", "works at"},
		{"works with", "works with"}, {"work with", "works with"},
		{"is married to", "is married to"}, {"am married to", "is married to"}, {"ist verheiratet mit", "is married to"}, {"bin verheiratet mit", "is married to"},
		{"is called", "is called"}, {"am called", "is called"}, {"is named", "is called"}, {"heißt", "is called"}, {"heiße", "is called"},
		{"comes from", "comes from"}, {"come from", "comes from"}, {"is from", "comes from"}, {"am from", "comes from"}, {"kommt aus", "comes from"}, {"komme aus", "comes from"},
		{"was born in", "was born in"}, {"studies at", "studies at"}, {"study at", "studies at"}, {"studiert an", "studies at"},
		{"knows", "knows"}, {"know", "knows"}, {"kennt", "knows"}, {"owns", "owns"}, {"own", "owns"}, {"drives", "drives"}, {"drive", "drives"}, {"speaks", "speaks"}, {"speak", "speaks"},
	}
}

// verbRelation reads SUBJECT VERB NAME.
func verbRelation(subject string, list []word) (Relation, bool) {
	for _, v := range relations() {
		verb := strings.Fields(v[0])
		for at := 1; at+len(verb) < len(list); at++ {
			if !slices.EqualFunc(list[at:at+len(verb)], verb, func(w word, v string) bool { return w.low == v && !w.end || len(verb) == 1 && w.low == v }) {
				continue
			}
			if object := nameIn(list[at+len(verb):]); object != "" && onlySubject(subject, list[:at]) {
				return Relation{subject, v[1], object}, true
			}
		}
	}
	return Relation{}, false
}

// onlySubject reports whether words name the subject and say nothing else but when.
func onlySubject(subject string, list []word) bool {
	own := strings.Fields(strings.ToLower(subject))
	for _, w := range list {
		if w.end || !slices.Contains(own, w.low) && !isUser(w.low) && !filler(w.low) && !isPronoun(w.low) {
			return false
		}
	}
	return true
}

// ownRelation reads SUBJECT's RELATION is NAME, and NAME is SUBJECT's RELATION.
func ownRelation(subject string, list []word) (Relation, bool) {
	is := slices.IndexFunc(list, func(w word) bool { return w.low == "is" || w.low == "ist" || w.low == "heißt" })
	if is < 1 || is+1 >= len(list) {
		return Relation{}, false
	}
	before, after := list[:is], list[is+1:]
	if n := len(before); n >= 2 && n <= 4 && owner(subject, before[0].low) {
		if len(after) > 1 && (after[0].low == "called" || after[0].low == "named") {
			after = after[1:]
		}
		if object := nameIn(after); object != "" && object == plain(after) {
			return Relation{subject, joined(before[1:]), object}, true
		}
	}
	if n := len(after); n >= 2 && n <= 3 && owner(subject, after[0].low) {
		if object := nameIn(before); object != "" && object == plain(before) {
			return Relation{subject, joined(after[1:]), object}, true
		}
		if !strings.EqualFold(subject, subjectUser) {
			return Relation{}, false
		}
	}
	// "Ann is my sister" is kept as a fact about Ann.
	if n := len(after); n >= 2 && n <= 3 && isUser(after[0].low) && plain(before) == subject && nameIn(before) != "" {
		return Relation{subjectUser, joined(after[1:]), subject}, true
	}
	return Relation{}, false
}

// owner reports whether a word says that what follows belongs to the subject.
func owner(subject, w string) bool {
	if strings.EqualFold(subject, subjectUser) && isUser(w) {
		return true
	}
	w = strings.ReplaceAll(w, "’", "'")
	return w == strings.ToLower(subject)+"'s" || w == strings.ToLower(subject)+"'"
}

func joined(list []word) string {
	var out []string
	for _, w := range list {
		out = append(out, w.low)
	}
	return strings.Join(out, " ")
}

// plain returns words as they are written, without articles at their beginning.
func plain(list []word) string {
	for len(list) > 1 && isArticle(list[0].low) {
		list = list[1:]
	}
	var out []string
	for _, w := range list {
		out = append(out, w.text)
	}
	return strings.Join(out, " ")
}

// nameIn returns the name with which words begin: up to a mark, or to a word that begins another thought.
func nameIn(list []word) string {
	for len(list) > 1 && isArticle(list[0].low) {
		list = list[1:]
	}
	var out []string
	for _, w := range list {
		if len(out) == maxObject || isBreak(w.low) {
			break
		}
		out = append(out, w.text)
		if w.end {
			break
		}
	}
	if len(out) == 0 {
		return ""
	}
	first := []rune(out[0])[0]
	if !unicode.IsUpper(first) && !unicode.IsDigit(first) || isUser(out[0]) || words.Common(strings.ToLower(out[0])) {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.Join(out, " "), "'s"), "’s")
}

func isArticle(w string) bool {
	switch w {
	case "the", "a", "an", "der", "die", "das", "dem", "den", "ein", "eine", "einem", "einer":
		return true
	}
	return false
}

func isPronoun(w string) bool {
	switch w {
	case "he", "she", "they", "it", "er", "sie", "es", "has", "have", "also", "auch", "the":
		return true
	}
	return false
}

// isBreak reports whether a word begins another thought after a name.
func isBreak(w string) bool {
	switch w {
	case "since", "and", "but", "because", "as", "with", "for", "until", "from", "now", "again", "who", "which", "where", "that", "in", "at", "on", "is", "seit", "und", "aber", "weil", "als", "mit", "bis", "jetzt", "bei", "ist":
		return true
	}
	return false
}

// isWish reports whether a word says that something is not so yet.
func isWish(w string) bool {
	switch w {
	case "wants", "want", "would", "might", "may", "maybe", "perhaps", "wishes", "plans", "will", "used", "if", "möchte", "würde", "vielleicht", "wenn", "wollte", "früher", "formerly":
		return true
	}
	return false
}
