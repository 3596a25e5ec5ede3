package offline

import (
	"slices"
	"strings"
)

// queryWord is a word that may tell which tool is meant.
type queryWord struct {
	at     int // token; -1 for what the wish says by its form
	stem   string
	weight float64
	kind   wordKind
}

// query lists the words by which tools are compared.
func (c *clause) query() {
	for i := c.lo; i < c.hi; i++ {
		t := &c.toks[i]
		w := queryWord{at: i, stem: t.stem, weight: 1}
		switch {
		case c.pointsAt(i):
			continue
		case c.operates(i, &w):
		case t.kind != tkWord:
			continue
		case c.covered[i]:
			w.weight = 0.25
			if _, n := numberAt(c.toks, i); n > 0 || len(t.stem) < 3 {
				continue
			}
		case particles[t.low] && (c.body > c.lo && i < c.body || c.preposition(i) == "" || c.loneParticle(i)):
			switch t.low {
			case "on", "off":
				w.weight = 0.8
			case "up", "down":
				w.weight = 0.5
			default:
				continue
			}
		case c.question && i == c.lo && (t.low == "where" || t.low == "when" || t.low == "who"):
			w.weight = 0.5
		case measures[t.low]:
			w.weight, w.kind = 0.3, wordMeasure
		case c.stop(t.low) || (c.preposition(i) != "" && !c.toks[i].capital):
			continue
		case weak[t.stem]:
			w.weight = 0.45
		}
		c.words = append(c.words, w)
	}
}

// kindWords are what a recognised kind of thing is called.
var kindWords = map[mentionKind][]string{
	mnEmail: {"email"}, mnLink: {"url", "page"}, mnPath: {"file", "path"}, mnWhen: {"date", "time"}, mnSpan: {"duration"},
}

// tells reports whether the thing recognised at a token is of so special a
// kind that it alone says what a wish is about.
func (c *clause) tells(at int) bool {
	for i := range c.mentions {
		if m := &c.mentions[i]; m.first == at && (m.kind == mnEmail || m.kind == mnLink || m.kind == mnPath || m.kind == mnCode || m.unit.dim == dimMoney || m.unit.dim == dimPercent || m.unit.dim == dimTemperature) {
			return true
		}
	}
	return false
}

func (c *clause) says(s string) bool {
	for _, w := range c.words {
		if w.stem == s {
			return true
		}
	}
	return false
}

// asksWho reports a question after somebody or a cause.
func (c *clause) asksWho() bool {
	switch wordAt(c.toks, c.lo) {
	case "who", "whose", "why", "wer", "warum", "qui", "pourquoi":
		return true
	}
	return false
}

// wordKind tells words of the wish from those that stand for its form.
type wordKind uint8

const (
	wordSaid    wordKind = iota
	wordCalled           // what a recognised thing is called
	wordMeasure          // "much", "many", "long"
)

// weightCalled is light: it shall tip the balance, not decide.
const weightCalled = 0.3

// kinds adds, lightly, what the recognised things are called: who names a
// file speaks of files.
func (c *clause) kinds() {
	for i := range c.mentions {
		m := &c.mentions[i]
		names := kindWords[m.kind]
		if m.kind == mnCode {
			names = splitName(m.text)
		}
		switch m.unit.dim {
		case dimMoney:
			names = []string{"currency", "money"}
		case dimPercent:
			names = []string{"percent"}
		case dimTemperature:
			names = []string{"temperature"}
		}
		for _, w := range names {
			c.words = slices.DeleteFunc(c.words, func(q queryWord) bool { return q.stem == stem(w) && q.at >= 0 && c.covered[q.at] })
			if s := stem(w); !c.says(s) {
				c.words = append(c.words, queryWord{at: m.first, stem: s, weight: weightCalled, kind: wordCalled})
			}
		}
	}
	if _, last, _ := c.arithmetics(); last > 0 {
		c.words = append(c.words, queryWord{at: -1, stem: "express", weight: weightCalled, kind: wordCalled}, queryWord{at: -1, stem: "formula", weight: weightCalled, kind: wordCalled})
	}
	if c.question {
		c.words = append(c.words, queryWord{at: -1, stem: "get", weight: 0.25})
		if first, second := wordAt(c.toks, c.lo), wordAt(c.toks, c.lo+1); (first == "what" || first == "which") && strings.HasSuffix(second, "s") && !c.stop(second) && second != "s" {
			c.words = append(c.words, queryWord{at: -1, stem: "list", weight: weightCalled, kind: wordCalled}) // "which files …"
		}
	}
}

// pointsAt reports whether token i is a reference.
func (c *clause) pointsAt(i int) bool {
	for k := range c.mentions {
		if m := &c.mentions[k]; m.kind == mnRef && m.first == i {
			return true
		}
	}
	return false
}

// operates reports an operator of arithmetic at token i and names it.
func (c *clause) operates(i int, w *queryWord) bool {
	_, word, n := c.operator(i)
	if n > 0 {
		w.stem = stem(word)
	}
	return n > 0
}

// loneParticle reports "the lamp on", "turn it off": a particle with nothing after it.
func (c *clause) loneParticle(i int) bool {
	return i+1 >= c.hi || c.toks[i+1].kind == tkPunct || connectives[c.toks[i+1].low] || c.preposition(i+1) != ""
}
