package memory

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"steward/internal/search/meaning"
	"steward/internal/search/words"
)

// Words compares texts by their words and by what these mean, without a model. It implements Similarity. What
// it has found out about texts is kept for the next comparison, since facts are compared again and again. Make
// one with NewWords; it is safe for concurrent use.
type Words struct {
	mu         sync.Mutex
	groups     map[string]int
	texts      map[string][]*weighed
	vocabulary map[string]*weighed
	stems      map[string]int
}

// weighed is a word that Words knows.
type weighed struct {
	stem    int // its number
	group   int // of words that are used for the same thing; 0: none
	meaning meaning.Sum
}

// maxKept bounds the texts that Words keeps: some ten megabytes. Beyond, it starts over.
const maxKept = 20_000

// sameGroup is how alike two words of a group are.
const sameGroup = 0.8

// groups are words by which people speak of the same things in their lives, which the built-in vectors do not
// know: "where is my flat" is answered by "we moved to Graz". One group a line.
const groups = `live lives lived living reside resides home flat apartment moved move wohne wohnt lebe lebt wohnung zuhause umgezogen ziehe
work works worked working job profession occupation career employer employed company arbeite arbeitet beruf arbeitgeber firma
husband wife spouse partner married marry wedding anniversary ehemann ehefrau verheiratet hochzeit hochzeitstag
insured insurance insurer versichert versicherung
doctor physician gp arzt ärztin hausarzt
phone telephone mobile cellphone handy telefon telefonnummer handynummer
car drive drives drove vehicle auto fahre
bicycle bike cycle ride fahrrad rad
play plays practise practice instrument spiele instrument
dog cat pet hund katze haustier
called name named heiße heißt name
born birthday birth geburtstag geboren
like likes love loves prefer prefers favourite favorite enjoy mag liebe lieblings bevorzuge
book novel reading read buch roman lese
laptop notebook computer rechner
learn learning study studying course lerne kurs
eat eats diet food vegetarian vegan esse ernährung
boss manager supervisor chef chefin vorgesetzte
commute travel ride pendle`

func groupsByWord() map[string]int {
	out := map[string]int{}
	for n, line := range strings.Split(groups, "\n") {
		for w := range strings.FieldsSeq(line) {
			out[w] = n + 1
		}
	}
	return out
}

// near is how alike two words are at least that mean nearly the same.
const near = 0.5

// NewWords returns a comparison that knows no texts yet.
func NewWords() *Words {
	w := &Words{groups: groupsByWord()}
	w.reset()
	return w
}

func (w *Words) reset() {
	w.texts, w.vocabulary, w.stems = map[string][]*weighed{}, map[string]*weighed{}, map[string]int{}
}

// read returns the words of texts, each stem once, and how many stems are known.
func (w *Words) read(texts ...string) (out [][]*weighed, stems int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.texts)+len(texts) > maxKept {
		w.reset()
	}
	out = make([][]*weighed, len(texts))
	for i, text := range texts {
		list, ok := w.texts[text]
		if !ok {
			list = w.split(text)
			w.texts[text] = list
		}
		out[i] = list
	}
	return out, len(w.stems)
}

// split returns the words of a text that say something, each stem once.
func (w *Words) split(text string) []*weighed {
	var list []*weighed
	seen := map[int]bool{}
	for _, s := range words.Split(text) {
		if words.Common(s) || isUser(s) {
			continue
		}
		x := w.vocabulary[s]
		if x == nil {
			stem := words.Stem(s)
			number, ok := w.stems[stem]
			if !ok {
				number = len(w.stems)
				w.stems[stem] = number
			}
			x = &weighed{stem: number, group: w.groups[s]}
			x.meaning.Add(s, 1)
			x.meaning.Unit()
			w.vocabulary[s] = x
		}
		if !seen[x.stem] {
			seen[x.stem] = true
			list = append(list, x)
		}
	}
	return list
}

// Similar implements Similarity: the part of the words of the text, rare ones more, that occur in the other
// one, or something like them.
func (w *Words) Similar(ctx context.Context, _, text string, to []string) ([]float64, error) {
	out := make([]float64, len(to))
	lists, stems := w.read(append([]string{text}, to...)...)
	query, docs := lists[0], lists[1:]
	if len(query) == 0 {
		return out, nil
	}
	frequency := make([]int, stems)
	for _, doc := range docs {
		for _, x := range doc {
			frequency[x.stem]++
		}
	}
	weights, all := make([]float64, len(query)), 0.0
	for i, x := range query {
		weights[i] = math.Log(1 + float64(len(to)+1)/float64(frequency[x.stem]+1))
		all += weights[i]
	}
	alike := make([]map[*weighed]float64, len(query)) // the same words occur in many texts
	for i := range alike {
		alike[i] = map[*weighed]float64{}
	}
	for i, doc := range docs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var got, best float64
		for n, q := range query {
			match := 0.0
			for _, x := range doc {
				if x.stem == q.stem {
					match = 1
					break
				}
				d, ok := alike[n][x]
				if !ok {
					d = float64(q.meaning.Dot(&x.meaning))
					if q.group > 0 && q.group == x.group {
						d = max(d, sameGroup)
					}
					alike[n][x] = d
				}
				if d >= near && d > match {
					match = d
				}
			}
			got, best = got+weights[n]*match, max(best, match)
		}
		// One word of a long question is enough to name a short fact: the square root lifts it.
		out[i] = math.Sqrt(best * got / all)
	}
	return out, nil
}

// stemsOf returns the stems of the words of a text that say something.
func stemsOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range words.Split(text) {
		if !words.Common(w) && !isUser(w) {
			out[words.Stem(w)] = true
		}
	}
	return out
}

// wider adds to the words of a query those of their groups.
func wider(query []string, most int) []string {
	known, lines := groupsByWord(), strings.Split(groups, "\n")
	out := slices.Clone(query)
	for _, w := range query {
		if n := known[w]; n > 0 {
			for o := range strings.FieldsSeq(lines[n-1]) {
				if len(out) < most && !slices.Contains(out, o) {
					out = append(out, o)
				}
			}
		}
	}
	return out
}
