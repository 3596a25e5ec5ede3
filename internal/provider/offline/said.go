package offline

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/search/words"
)

// This file knows what has a fixed answer, and which sentences are named as examples.

// fixed are messages that need no tool, in lower case and without signs, and which answer each has.
var fixed = map[string]answerTo{}

type answerTo int

const (
	aGreeting answerTo = iota + 1
	aThanks
	aFarewell
	aQuestionForHelp
	aQuestionWhoItIs
)

func init() {
	for to, list := range map[answerTo]string{
		aGreeting: "hello; hi; hey; hello there; hi there; hey there; good morning; good afternoon; good evening; hallo; servus; moin; grüß gott; guten morgen; guten tag; guten abend; how are you; wie geht es dir; wie geht's",
		aThanks:   "thanks; thank you; thanks a lot; thank you very much; many thanks; thx; great thanks; ok thanks; okay thanks; perfect thanks; danke; danke schön; dankeschön; vielen dank; danke dir; danke sehr",
		aFarewell: "bye; goodbye; good bye; bye bye; good night; see you; see you later; tschüss; auf wiedersehen; gute nacht; bis später; bis bald",
		aQuestionForHelp: "help; help me; help please; i need help; what can you do; what can you do for me; what can i say; what can i ask; what can i ask you; how does this work; how do i use this; what do you do; " +
			"hilfe; hilf mir; was kannst du; was kannst du alles; was kannst du tun; was kannst du machen; was kann ich sagen; was kann ich fragen; wie funktioniert das",
		aQuestionWhoItIs: "who are you; what are you; are you a language model; are you an ai; wer bist du; was bist du",
	} {
		for text := range strings.SplitSeq(list, ";") {
			fixed[strings.TrimSpace(text)] = to
		}
	}
}

// germanWords and englishWords are frequent words that tell the languages apart.
const (
	germanWords  = " ich mich mir dir du bitte der das ist und wie den dem ein einen eine nicht auf auch welche welcher zeig danke dank hilfe hallo kannst was wer bist guten gute morgen erinnere erinner stell stelle setz setze mein meine meinen wird gibt es von für zu nach tschüss servus moin dankeschön wieviel wetter heute "
	englishWords = " i me my you the a an is are of what how and for please who to at on with will can do does it this that there thanks hello hi hey good "
)

// german reports whether a text is German rather than English.
func german(text string) bool {
	n := 0
	if strings.ContainsAny(text, "äöüßÄÖÜ") {
		n = 2
	}
	for w := range strings.FieldsSeq(strings.ToLower(text)) {
		w = " " + strings.Trim(w, `.,;:!?"'„“`) + " "
		if strings.Contains(germanWords, w) {
			n++
		}
		if strings.Contains(englishWords, w) {
			n--
		}
	}
	return n > 0
}

// greeted returns the answer to what needs no tool, or "".
func (s *speech) greeted(text string) string {
	if len(text) > 80 {
		return ""
	}
	bare := strings.Join(strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(text, "’", "'")), func(r rune) bool { return strings.ContainsRune(" \t\n,.;:!?-–—", r) }), " ")
	de := german(text)
	to, ok := fixed[strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(bare, "steward"), " "))]
	if !ok {
		return ""
	}
	say := func(en, inGerman string) string {
		if de {
			return inGerman
		}
		return en
	}
	switch to {
	case aGreeting:
		return say("Hello! ", "Hallo! ") + s.could(de, s.examples(de, nil, text, 3))
	case aThanks:
		return say("You are welcome.", "Gern geschehen.")
	case aFarewell:
		return say("Goodbye!", "Auf Wiedersehen!")
	case aQuestionWhoItIs:
		return selfDescription + " " + remedy
	}
	list := s.examples(de, nil, text, 6)
	if len(list) == 0 {
		return selfDescription + " There are no tools here that I could use. " + remedy
	}
	return say("For example, you can say:", "Du kannst zum Beispiel sagen:") + "\n- " + strings.Join(list, "\n- ") + "\n\n" + remedy
}

// could names sentences that would be understood.
func (s *speech) could(de bool, list []string) string {
	or, say := " or ", "You could say: "
	if de {
		or, say = " oder ", "Du könntest sagen: "
	}
	if len(list) == 0 {
		return ""
	}
	quoted := make([]string, len(list))
	open, closes := "“", "”"
	if de {
		open, closes = "„", "“"
	}
	for i, l := range list {
		quoted[i] = open + l + closes
	}
	last := len(quoted) - 1
	if last == 0 {
		return say + quoted[0]
	}
	return say + strings.Join(quoted[:last], ", ") + or + quoted[last]
}

// usual are the tools whose sentences are shown first where none is nearer.
var usual = []string{"reminder.set", "todo.add", "weather.forecast", "calendar.list", "web.search", "time.now", "timer.set", "notes.append", "files.list"}

// examples returns sentences that would be understood, at most n and one for each tool: of the tools that are
// near first, then of those whose sentences share words with the text, then of the usual ones.
func (s *speech) examples(de bool, near []*entry, text string, n int) (out []string) {
	list := slices.Clone(near)
	said := map[string]bool{}
	for w := range strings.FieldsSeq(strings.ToLower(text)) {
		said[strings.Trim(w, signs)] = true
	}
	list = append(list, s.sharing(said, de)...)
	for _, name := range usual {
		if e := s.x.byName[name]; e != nil {
			list = append(list, e)
		}
	}
	list = append(list, s.x.entries...)
	seen := map[*entry]bool{}
	for _, e := range list {
		if len(out) == n {
			break
		}
		if !seen[e] && !e.broken && s.may(e) {
			if say := e.example(de); say != "" && !slices.Contains(out, say) {
				out = append(out, say)
			}
		}
		seen[e] = true
	}
	return out
}

// signs stand around words.
const signs = `.,;:!?"'“”„`

// sharing returns the tools whose examples share words with a text, those that share most first.
func (s *speech) sharing(said map[string]bool, de bool) (out []*entry) {
	shares := map[*entry]int{}
	for _, e := range s.x.entries {
		for w := range strings.FieldsSeq(strings.ToLower(e.example(de))) {
			if w = strings.Trim(w, signs); said[w] && !words.Common(w) && !strings.Contains(germanWords, " "+w+" ") {
				shares[e]++
			}
		}
		if shares[e] > 0 {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *entry) int { return cmp.Compare(shares[b], shares[a]) })
	return out
}

// example returns a sentence for the tool in a language, or "".
func (e *entry) example(de bool) string {
	for _, p := range e.patterns {
		if p.German == de {
			return p.Example()
		}
	}
	return ""
}

// pattern returns the call that a text has the form of. sure is false if it has the form of two calls.
func (s *speech) pattern(text string) (st *step, sure bool) {
	for _, r := range s.x.set.Read(text, s.now) {
		e := s.x.speakers[r.Tool]
		if e.broken || !s.may(e) || !e.accepts(r.Args) {
			continue
		}
		if st != nil && (st.tool != e || string(encode(st.args)) != string(encode(r.Args))) {
			return nil, false
		}
		st = &step{tool: e, args: r.Args, each: r.Each, items: r.Items}
	}
	return st, st != nil
}
