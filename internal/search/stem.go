package search

import (
	"slices"
	"strings"
	"sync"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/spanish"
)

// Language is a language whose words have stems here. Words of all other languages are
// compared as they are, after the folding that Tokens does.
type Language uint8

// The languages with stems. English is the default for texts without function words.
const (
	English Language = iota
	German
	French
	Spanish
	languages
)

// maxSample is how many words of a text LanguageOf looks at.
const maxSample = 200

// LanguageOf returns the language of a text, by its function words ("the", "und").
func LanguageOf(text string) Language {
	var seen [languages]int
	n := 0
	for t := range Tokens(text) {
		if n++; n > maxSample {
			break
		}
		for l := range languages {
			if functionWords()[l][t.Text] {
				seen[l]++
			}
		}
	}
	best := English
	for l := range languages {
		if seen[l] > seen[best] {
			best = l
		}
	}
	return best
}

// Stem returns the stem of a word as in Token.Text: "cars" and "car" have the same. It
// need not be a word itself.
func Stem(l Language, word string) string {
	if len(word) < 3 || len(word) > 40 || !latin(word) {
		return word
	}
	env := snowballstem.NewEnv(word)
	switch l {
	case German:
		german.Stem(env)
	case French:
		french.Stem(env)
	case Spanish:
		spanish.Stem(env)
	default:
		english.Stem(env)
	}
	if s := env.Current(); s != "" {
		return s
	}
	return word
}

// latin reports whether a folded word can be of one of the languages, and has a letter.
func latin(word string) bool {
	letter := false
	for i := range len(word) {
		switch b := word[i]; {
		case 'a' <= b && b <= 'z':
			letter = true
		case b < '0' || b > '9':
			return false
		}
	}
	return letter
}

// StemWords returns the stems of a text's words in order, without the function words of
// its language. Scripts without spaces have no stems.
func StemWords(text string, yield func(string)) {
	l := LanguageOf(text)
	common, stems := functionWords()[l], newStemmer(l)
	for t := range Tokens(text) {
		if !t.Dense && !common[t.Text] {
			yield(stems.stem(t.Text))
		}
	}
}

// stemmer remembers the stems of a text's words, most of which occur several times.
type stemmer struct {
	language Language
	known    map[string]string
}

// maxStems bounds what a stemmer remembers.
const maxStems = 4096

func newStemmer(l Language) *stemmer { return &stemmer{l, map[string]string{}} }

func (s *stemmer) stem(word string) string {
	if stem, ok := s.known[word]; ok {
		return stem
	}
	stem := Stem(s.language, word)
	if len(s.known) < maxStems {
		s.known[word] = stem
	}
	return stem
}

// Stemmed returns the terms for a question in plain words: each word also matches in its
// other forms, and function words are left out unless there is nothing else. A name such
// as files.read matches by its words, too.
func (t Terms) Stemmed() Terms {
	common := functionWords()[t.language()]
	out := Terms{None: t.None}
	var dropped [][]Phrase
	for _, group := range t.All {
		var all []Phrase
		function := true
		for _, p := range group {
			all = append(all, p.loose()...)
			function = function && !p.Quoted && !p.Prefix && len(p.Words) == 1 && common[p.Words[0]]
		}
		if function {
			dropped = append(dropped, group)
			continue
		}
		out.All = append(out.All, all)
	}
	if len(out.All) == 0 {
		out.All = dropped
	}
	return out
}

func (t Terms) language() Language {
	var words []string
	for _, group := range t.All {
		for _, p := range group {
			words = append(words, p.Words...)
		}
	}
	return LanguageOf(strings.Join(words, " "))
}

// loose returns a phrase with its stems, and the words of an unquoted one by themselves.
func (p Phrase) loose() []Phrase {
	if p.Quoted || p.Prefix {
		return []Phrase{p}
	}
	if len(p.Words) == 1 {
		p.Stems = stemsOf(p.Words[0])
		return []Phrase{p}
	}
	out := []Phrase{p}
	for _, w := range p.Words {
		if len(w) > 2 && latin(w) {
			out = append(out, Phrase{Words: []string{w}, Stems: stemsOf(w)})
		}
	}
	return out
}

// stemsOf returns the stems of a word in all languages, since the query's language says
// little about that of the messages. It returns none if the word has no stems.
func stemsOf(word string) (out []string) {
	for _, r := range word {
		if isDense(r) {
			return nil
		}
	}
	for l := range languages {
		if s := Stem(l, word); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// QueryStems returns the words of a question, each once, as their stems in all languages.
// Function words are left out unless there is nothing else.
func QueryStems(question string) [][]string {
	common := functionWords()[LanguageOf(question)]
	seen := map[string]bool{}
	var all, rare [][]string
	for t := range Tokens(question) {
		if seen[t.Text] {
			continue
		}
		seen[t.Text] = true
		stems := stemsOf(t.Text)
		if stems == nil { // of a script without spaces
			stems = []string{t.Text}
		}
		if all = append(all, stems); !common[t.Text] {
			rare = append(rare, stems)
		}
	}
	if len(rare) > 0 {
		return rare
	}
	return all
}

// functionWords are the words that say nothing about a subject, by language, in the form
// of Token.Text.
var functionWords = sync.OnceValue(func() (out [languages]map[string]bool) {
	for l, list := range [languages]string{English: englishWords, German: germanWords, French: frenchWords, Spanish: spanishWords} {
		out[l] = map[string]bool{}
		for t := range Tokens(list) {
			out[l][t.Text] = true
		}
	}
	return out
})

const (
	englishWords = "a about after again ago all also am an and any are aren as at be because been before being both but by can cannot could couldn " +
		"d did didn do does doesn doing don down during each either else ever every few for from further get gets getting got had hadn has hasn have haven having he " +
		"her here hers herself hi him himself his how i if in into is isn it its itself just let ll m ma me might mine more most much must my myself " +
		"no nor not now of off ok okay on once only or other our ours out over own please re really s same shall she should shouldn so some such t than " +
		"that the their theirs them themselves then there these they this those though through to too under until up upon us ve very was wasn we were " +
		"weren what when where which while who whom whose why will with within without won would wouldn yes yet you your yours yourself tell said say told"
	germanWords = "aber als also am an ander andere anderem anderen auch auf aus bei beim bin bis bist da dabei damit dann das dass dazu dein deine dem den denn " +
		"der des dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer eure für " +
		"gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren im in indem ins ist ja jede jeder jedes jetzt kann " +
		"kein keine können könnte machen man manche mehr mein meine meinem meinen meiner mich mir mit muss musste nach nicht nichts noch nun nur ob oder ohne " +
		"sehr sein seine seinem seinen seiner seit sich sie sind so soll sollte sondern sonst über um und uns unser unsere unter viel vom von vor wann war waren " +
		"warst warum was weil welche welchem welchen welcher welches wenn wer wem wen werde werden wie wieder will wir wird wirst wo wollen wurde würde zu zum zur zwar zwischen"
	frenchWords = "à ai aie ainsi après as au aussi autre aux avaient avait avant avec avez avoir avons c ça car ce cela ces cet cette ceux chez comme comment d dans de des du " +
		"elle elles en entre es est et étaient était été êtes être eu eux fait faire ici il ils j je jusqu l la là le les leur leurs lui m ma mais me même mes moi mon n ne nos " +
		"notre nous on ont ou où par parce pas peu peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi sa sans se sera ses si soit sommes son sont sous " +
		"suis sur t ta te tes toi ton tous tout toute très tu un une va vers voici vos votre vous y"
	spanishWords = "a al algo algún alguna ante antes aquí así aún aunque bien cada casi como cómo con contra cual cuál cuáles cuando cuándo cuánto cuya de del desde donde dónde dos " +
		"e el él ella ellas ellos en entre era eran eres es esa ese eso esta está están estar estas este esto estos estoy fue fueron ha había habían han has hasta hay he hemos " +
		"la las le les lo los más me mi mí mientras mis mucho muy nada ni no nos nosotros nuestra nuestro o os otra otro para pero poco por porque pues que qué quien quién se sea " +
		"según ser si sí sido sin sobre sois solo somos son soy su sus también tan tanto te tengo tiene tienen tu tú tus un una unas uno unos usted y ya yo"
)
