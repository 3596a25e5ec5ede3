package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"steward/client"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/search/meaning"
	"steward/internal/search/words"
)

// A new fact is compared with the current ones about the same subject, or with those that it is said to
// replace. Without a model, two facts contradict each other if they fill the same slot with other
// values: a person lives in one place, has one employer, and a thing has one colour. "likes tea" and
// "likes coffee" have no slot, and both stay.

const subjectUser = "user"

// Thresholds of similarity.
const (
	sameKind  = 0.3 // of two values of "is": blue and red are alike, blue and fast are not
	knownPart = 0.5 // of the words of the longer fact that a shorter one has, to be part of it
	negated   = 0.6 // of the words that two facts share of which one denies the other
)

// compare decides what becomes of a new fact, and which facts that is about: the one that is merged or
// makes it superfluous, or those that it supersedes.
func (e *Engine) compare(ctx context.Context, f *record.Fact, all, replaced []stored) (how string, old []stored, err error) {
	if f.Foreign() {
		replaced = nil // text of others changes nothing
	}
	for _, s := range replaced {
		if !endsAt(f, s) {
			old = append(old, s)
		}
	}
	own := contentOf(f)
	for _, s := range all {
		if !s.Until.IsZero() || !strings.EqualFold(s.Subject, f.Subject) || s.Type == record.FactInstruction != (f.Type == record.FactInstruction) {
			continue
		}
		foreign := s.Foreign()
		if f.Foreign() && !foreign {
			if sameText(s.Text, f.Text) {
				return client.FactDropped, []stored{s}, nil
			}
			continue
		}
		if slices.ContainsFunc(replaced, func(o stored) bool { return o.ID == s.ID }) {
			continue
		}
		other := e.contents.of(&s.Fact)
		how := relation(own, other)
		if how == unrelated && s.From.After(f.From) && relation(other, own) == contradicts {
			how = contradicts
		}
		switch how {
		case known:
			if foreign && !f.Foreign() || len(replaced) > 0 { // the person says so now: this is no quotation any more
				old = append(old, s)
				continue
			}
			return client.FactDropped, []stored{s}, nil
		case extends:
			if (!foreign || f.Foreign()) && len(replaced) == 0 {
				return client.FactMerged, []stored{s}, nil
			}
			old = append(old, s)
		case contradicts:
			if !endsAt(f, s) {
				old = append(old, s)
			}
		}
	}
	if len(old) > 0 {
		return client.FactSuperseded, old, nil
	}
	return client.FactAdded, nil, nil
}

// endsAt reports whether a fact that contradicts a new one became true later, such as in an import of old
// messages. The new one ends then.
func endsAt(f *record.Fact, later stored) bool {
	if !later.From.After(f.From) {
		return false
	}
	if f.Until.IsZero() || later.From.Before(f.Until) {
		f.Until, f.Successor = later.From, later.ID
	}
	return true
}

// The relations of a new fact to another one.
const (
	unrelated   = iota
	known       // the other one says as much
	extends     // it says what the other one says, and more
	contradicts // both cannot be true at once
)

func relation(own, others content) int {
	if slices.Equal(own.all, others.all) {
		return known
	}
	shared := own.shared(others)
	if own.negative != others.negative {
		if len(own.stems) > 0 && shared >= negated*float64(max(len(own.stems), len(others.stems))) {
			return contradicts
		}
		return unrelated
	}
	if own.slot != "" && own.slot == others.slot && !slices.Equal(own.value, others.value) {
		if within(own.value, others.value) {
			return known
		}
		if within(others.value, own.value) {
			return extends
		}
		if own.exclusive || alike(own.words, others.words) {
			return contradicts
		}
		return unrelated
	}
	if own.replaces(others) {
		return contradicts
	}
	few, many := float64(min(len(own.stems), len(others.stems))), float64(max(len(own.stems), len(others.stems)))
	if few == 0 || shared < few || few < knownPart*many {
		return unrelated
	}
	if len(own.stems) <= len(others.stems) {
		return known
	}
	return extends
}

// replaces reports whether a statement says of itself that it is news ("now", "another"), and otherwise differs
// from an older one in nothing but its names and numbers.
func (c content) replaces(older content) bool {
	if !c.news || c.topic != older.topic || len(c.names) == 0 || len(older.frame) == 0 || within(c.names, older.names) || within(older.names, c.names) {
		return false
	}
	return within(older.frame, c.frame) && len(c.frame) <= len(older.frame)+min(len(older.frame)-1, 1)
}

// content is what matters of a fact's text for a comparison.
type content struct {
	all       []string // its words
	stems     []string // of its words, without function words and the subject
	negative  bool
	slot      string   // what can have only one value at a time; empty: unknown
	value     []string // the stems of the value
	words     []string // the words of the value
	exclusive bool     // any other value contradicts, not only one of the same kind
	topic     string   // the word of slots or nouns that it is about, also without a value
	whose     string   // of a topic: "sister" in "my sister lives"; empty: the user's
	news      bool     // it says that something has changed
	names     []string // the stems of its names and numbers
	frame     []string // the stems of everything else
	corrects  bool     // it says that something was wrong
	terms     []string // the words of names and frame
}

func (c content) shared(o content) (n float64) {
	for _, s := range c.stems {
		if slices.Contains(o.stems, s) {
			n++
		}
	}
	return n
}

// slots are the words that say what can have one value at a time, by stem: verbs, and nouns that are followed
// by a name.
func slots() map[string]string {
	return map[string]string{
		"live": "home", "liv": "home", "mov": "home", "move": "home", "resid": "home", "wohn": "home", "wohnt": "home", "wohne": "home", "lebt": "home", "leb": "home", "lebe": "home", "zieh": "home", "zieht": "home", "umgezogen": "home",
		"work": "work", "employ": "work", "arbeit": "work", "arbeitet": "work", "arbeite": "work",
		"nam": "name", "call": "name", "heisst": "name", "heißt": "name", "heiß": "name", "heiss": "name",
		"driv": "drives", "drive": "drives", "driven": "drives", "fährt": "drives", "fahr": "drives",
		"marri": "partner", "marry": "partner", "verheiratet": "partner",
		"weigh": "weight", "wiegt": "weight", "insur": "insurance", "versichert": "insurance",
	}
}

// nouns are those of slots, by stem. Only a name or a number is a value of theirs: "our flat is in Graz" says
// where the home is, "our flat is too warm" does not.
func nouns() map[string]string {
	return map[string]string{"flat": "home", "apartment": "home", "wohnung": "home", "employer": "work", "arbeitgeber": "work", "profession": "role", "occupation": "role", "beruf": "role",
		"car": "drives", "auto": "drives", "husband": "partner", "wife": "partner", "spous": "partner", "ehemann": "partner", "ehefrau": "partner",
		"insuranc": "insurance", "insurer": "insurance", "versicherung": "insurance"}
}

// word of a fact, in lower case.
type factWord struct {
	word  string
	named bool // a name or a number
	aside bool // after a comma: it says nothing about the value before
}

func factWords(text string) (out []factWord) {
	aside := false
	for i, field := range strings.Fields(text) {
		first := []rune(strings.TrimLeftFunc(field, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
		named := i > 0 && len(first) > 0 && unicode.IsUpper(first[0]) || strings.ContainsAny(field, "0123456789")
		for _, w := range words.Split(field) {
			out = append(out, factWord{w, named && !isUser(w), aside})
		}
		aside = aside || strings.HasSuffix(field, ",") || strings.HasSuffix(field, ";")
	}
	return out
}

func contentOf(f *record.Fact) (c content) {
	list := factWords(f.Text)
	for _, w := range list {
		c.all = append(c.all, w.word)
	}
	var subject []string
	for _, w := range words.Split(f.Subject) {
		subject = append(subject, words.Stem(w))
	}
	verbs, things := slots(), nouns()
	verb, whose, at := "", "", -1
	supposed := false
	clause := 0 // where the stems of the statement begin: "wrong digits, my number is …"
	for i, x := range list {
		w := x.word
		if x.aside && verb == "" && clause == 0 {
			clause = len(c.stems)
		}
		stem := words.Stem(w)
		c.news, c.corrects, supposed = c.news || isNews(w), c.corrects || isCorrection(w), supposed || isSupposition(w)
		switch {
		case isNegation(w) && x.aside && len(c.value) > 0:
			continue
		case isNegation(w):
			c.negative = c.negative || w != "longer" && w != "no" || !isChange(c.all)
			continue
		case (verb == "" || verb == "is" && len(c.value) == 0) && verbs[stem] != "" && !x.named: // also "am insured"
			verb, at = verbs[stem], i
			c.exclusive = true
			if verb == "name" || verb == "home" || verb == "partner" {
				whose = ownedBefore(c.all[:i])
			}
			continue
		case verb == "" && things[stem] != "" && !x.named && (things[stem] == "role" || slices.ContainsFunc(list[i+1:], func(x factWord) bool { return x.named })):
			verb, at = things[stem], i
			c.exclusive = true
			continue
		case verb == "" && i > 0 && isCopula(w):
			verb, at = "is", i
			continue
		}
		if isUser(w) || words.Common(w) || filler(w) || slices.Contains(subject, stem) {
			continue
		}
		c.stems = append(c.stems, stem)
		if !isNews(w) && !isCorrection(w) {
			c.terms = append(c.terms, w)
		}
		switch {
		case x.named:
			c.names = append(c.names, stem)
		case !isNews(w):
			c.frame = append(c.frame, stem)
		}
		if at >= 0 && !isNews(w) {
			c.value, c.words = append(c.value, stem), append(c.words, w)
		}
	}
	if verb != "is" {
		c.topic, c.whose = verb, whose
	}
	if supposed { // "if I lived in Galway" says nothing about a home
		c.topic, c.whose, c.value, c.exclusive, c.news, c.corrects = "", "", nil, false, false, false
		return c
	}
	switch {
	case verb == "" || len(c.value) == 0:
		c.value, c.exclusive = nil, false
	case verb == "is":
		end := max(len(c.stems)-len(c.value), 0)
		about := c.stems[min(clause, end):end]
		c.slot = "is " + strings.Join(about, " ")
		// A phone number or a birthday has one value of any kind; a person is many things.
		c.exclusive = slices.ContainsFunc(about, unique)
	case verb == "work" && slices.Contains(c.all, "on"):
		c.value, c.exclusive = nil, false // nobody works on one thing only
	case verb == "work" && slices.Contains(c.all, "as"):
		c.slot, c.topic = "role", "role"
	default:
		c.slot = strings.TrimSpace(verb + " " + whose)
	}
	slices.Sort(c.value)
	return c
}

// Of a statement that is about the same as a question: a home, work, a name.
const (
	sameTopic  = 0.2
	otherTopic = -0.3 // somebody else's
)

// nearer corrects how similar a statement is to a question by what both are about.
func (c content) nearer(asked content, similar float64) float64 {
	switch {
	case asked.topic == "" || asked.topic != c.topic || similar == 0:
		return similar
	case asked.whose == c.whose:
		return min(similar+sameTopic, 1)
	}
	return max(similar+otherTopic, 0)
}

// ownedBefore returns whose home or name it is: "sister" before "lives" in "my sister lives".
func ownedBefore(before []string) string {
	whose := ""
	for i, w := range before {
		switch w {
		case "my", "our", "the", "mein", "meine", "unser", "unsere":
			whose = ""
			for _, noun := range before[i+1:] {
				if isCopula(noun) || words.Common(noun) || isUser(noun) {
					break
				}
				whose = words.Stem(noun)
			}
		}
	}
	return whose
}

// isNews reports whether a word says that something has changed.
func isNews(w string) bool {
	switch w {
	case "now", "new", "another", "instead", "changed", "switched", "renamed", "nowadays", "currently", "jetzt", "nun", "neu", "neue", "neuen", "neues", "neuer", "stattdessen", "gewechselt":
		return true
	}
	return false
}

// isCorrection reports whether a word says that something was wrong, or is not so any more.
func isCorrection(w string) bool {
	switch w {
	case "sorry", "wrong", "mistake", "meant", "corrected", "correction", "mixed", "moved", "cancelled", "canceled", "replaced", "sold", "quit", "finished", "retired",
		"falsch", "irrtum", "meinte", "verschoben", "abgesagt", "ersetzt", "verkauft", "gekündigt":
		return true
	}
	return false
}

// isSupposition reports whether a word makes of a statement what could be.
func isSupposition(w string) bool {
	switch w {
	case "if", "would", "could", "might", "maybe", "perhaps", "wenn", "würde", "könnte", "vielleicht":
		return true
	}
	return false
}

// isChange reports whether words before "no longer" say what is true instead.
func isChange(before []string) bool { return slices.ContainsFunc(before, isNews) }

// unique reports whether one has one of these at a time, by the stem.
func unique(stem string) bool {
	switch stem {
	case "phon", "number", "email", "mail", "addres", "address", "birthday", "ag", "age", "nam", "name", "siz", "size", "height", "weight", "colour", "color", "favourit", "favorit", "password", "pin",
		"employer", "boss", "doctor", "dentist", "bank", "telefonnummer", "adress", "geburtstag", "alter", "größe", "farbe", "lieblingsfarb", "lieblingsessen", "arzt", "hausarzt":
		return true
	}
	return strings.HasPrefix(stem, "lieblings")
}

func isNegation(w string) bool {
	switch w {
	case "not", "no", "never", "longer", "don't", "doesn't", "isn't", "dont", "doesnt", "isnt", "cannot", "can't", "stopped", "nicht", "kein", "keine", "keinen", "nie", "niemals", "hasn't", "won't", "don’t", "doesn’t", "isn’t", "can’t":
		return true
	}
	return false
}

func isCopula(w string) bool {
	switch w {
	case "is", "are", "am", "was", "were", "be", "ist", "sind", "bin", "war":
		return true
	}
	return false
}

// filler reports whether a word says only when something became true.
func filler(w string) bool {
	switch w {
	case "now", "currently", "since", "again", "just", "recently", "today", "new", "really", "still", "meanwhile", "jetzt", "seit", "nun", "neu", "neue", "neues", "gerade", "mittlerweile", "in", "im", "der", "die", "das", "ein", "eine", "nach", "bei", "to", "at":
		return true
	}
	return false
}

func isUser(w string) bool {
	switch strings.ToLower(strings.TrimSpace(w)) {
	case "user", "the user", "i", "i'm", "i’m", "i've", "me", "my", "myself", "mine", "ich", "mir", "mich", "mein", "meine", "meinen", "meinem", "meiner", "der benutzer", "benutzer":
		return true
	}
	return false
}

// withoutRequest returns a fact without the words that ask to remember it.
func withoutRequest(text string) string {
	for _, ask := range []string{"please remember that ", "remember that ", "please remember: ", "remember: ", "merk dir, dass ", "merke dir, dass "} {
		if len(text) > len(ask) && strings.EqualFold(text[:len(ask)], ask) {
			first, size := utf8.DecodeRuneInString(text[len(ask):])
			return string(unicode.ToUpper(first)) + text[len(ask)+size:]
		}
	}
	return text
}

// subjectOf returns whom a text is about: the user, unless it begins with the name of somebody else.
func subjectOf(text string) string {
	first, rest, _ := strings.Cut(text, " ")
	first = strings.TrimRight(first, ",:;'’")
	name := strings.TrimSuffix(strings.TrimSuffix(first, "'s"), "’s")
	if r := []rune(name); len(r) < 2 || !unicode.IsUpper(r[0]) || isUser(name) || words.Common(strings.ToLower(name)) || isInstruction(text) {
		return subjectUser
	}
	second, _, _ := strings.Cut(rest, " ")
	if first != name || isCopula(second) || slots()[words.Stem(strings.ToLower(second))] != "" || strings.HasSuffix(second, "s") || strings.HasSuffix(second, "t") {
		return name
	}
	return subjectUser
}

// isInstruction reports whether a text is a standing instruction.
func isInstruction(text string) bool {
	first := words.Split(text)
	if len(first) < 2 {
		return false
	}
	switch first[0] {
	case "always", "never", "immer", "niemals":
		return true
	case "please", "bitte":
		return first[1] == "always" || first[1] == "never" || first[1] == "immer" || first[1] == "nie"
	}
	return false
}

func sameText(a, b string) bool { return slices.Equal(words.Split(a), words.Split(b)) }

// within reports whether all words of a are in b.
func within(a, b []string) bool {
	for _, w := range a {
		if !slices.Contains(b, w) {
			return false
		}
	}
	return len(a) > 0
}

// alike reports whether two values are of the same kind, such as two colours.
func alike(a, b []string) bool {
	x, y := sum(a), sum(b)
	return x.Dot(&y) >= sameKind
}

func sum(list []string) (s meaning.Sum) {
	for _, w := range list {
		s.Add(w, 1)
	}
	s.Unit()
	return s
}

// contents keeps what matters of facts, which are compared again and again. The zero value is empty.
type contents struct {
	mu   sync.Mutex
	kept map[contentKey]content
}

type contentKey struct {
	fact     id.ID
	revision int
	subject  string
}

func (k *contents) of(f *record.Fact) content {
	key := contentKey{f.ID, f.Revision, f.Subject}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.kept[key]
	if !ok {
		if k.kept == nil || len(k.kept) >= maxKept {
			k.kept = map[contentKey]content{}
		}
		c = contentOf(f)
		k.kept[key] = c
	}
	return c
}
