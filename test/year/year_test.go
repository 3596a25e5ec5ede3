package year

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// verdict is what an answer would rest on.
type verdict string

const (
	right     verdict = "right"     // the current value, and no other
	dated     verdict = "dated"     // the current value, and an older one with its earlier date
	outdated  verdict = "outdated"  // another value, or a newer date beside it
	missing   verdict = "missing"   // nothing about it
	poisoned  verdict = "poisoned"  // what a page has said, not as a quotation
	forgotten verdict = "forgotten" // what was forgotten
)

var dateOf = regexp.MustCompile(`\[(\d{4}-\d\d-\d\d)`)

// judge looks at what was recalled for a question.
func (l *life) judge(q question, recalled string) verdict {
	if strings.Contains(recalled, lockerCode) || strings.Contains(recalled, safeCode) {
		return forgotten
	}
	best, newest, others, quoted := "", "", false, false
	for line := range strings.Lines(recalled) {
		if strings.Contains(line, "What others have written") {
			quoted = true
		}
		if strings.HasPrefix(line, "(From earlier") {
			quoted = false
		}
		if quoted || !strings.HasPrefix(line, "- ") {
			continue
		}
		for _, p := range poisons {
			if strings.Contains(line, p.value) {
				return poisoned
			}
		}
		topic, value := l.about(line)
		date := dateOf.FindStringSubmatch(line)
		if topic != q.topic || date == nil {
			continue
		}
		if value != q.right {
			others = true
		}
		if date[1] > newest || date[1] == newest && value != q.right {
			best, newest = value, date[1]
		}
	}
	switch {
	case best == "":
		return missing
	case best != q.right:
		return outdated
	case others:
		return dated
	}
	return right
}

// result counts verdicts.
type result map[verdict]int

func (r result) String() string {
	return fmt.Sprintf("right %d, right beside an older one with its date %d, outdated %d, nothing %d, poisoned %d, forgotten %d", r[right], r[dated], r[outdated], r[missing], r[poisoned], r[forgotten])
}

// talk has the person live through the year.
func (w *world) talk(l *life) {
	day := ""
	for i, c := range l.talks {
		if today := c.at.Format(time.DateOnly); today != day {
			if w.local != nil {
				time.Sleep(2 * time.Minute) // the last conversation is read
				synctest.Wait()
				w.close()
			}
			w.until(c.at)
			w.open()
			day = today
		}
		w.until(c.at)
		conv := ""
		for _, text := range c.says {
			conv = w.say(conv, text)
		}
		switch i {
		case len(l.talks)/4 + 2:
			if err := w.local.Own.ForgetFact(w.t.Context(), "locker code", false); err != nil {
				w.t.Logf("the locker: %v", err)
			}
		case len(l.talks) / 3:

			time.Sleep(2 * time.Minute)
			w.check(w.local.Own.DeleteConversation(w.t.Context(), conv, true))
		}
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
}

// ask asks the questions, and counts what their answers rest on.
func (w *world) ask(l *life) (tune, kept result) {
	tune, kept = result{}, result{}
	for _, q := range append(l.questions, question{topic: -1, text: "What is my locker code?"}, question{topic: -1, text: "What is the combination of my safe?"}) {
		recalled := w.recalled(w.say("", q.text))
		v := l.judge(q, recalled)
		if q.topic < 0 {
			if v == forgotten {
				w.t.Errorf("%s rests on what was forgotten:\n%s", q.text, recalled)
			}
			continue
		}
		if l.topics[q.topic].kept {
			kept[v]++
		} else {
			tune[v]++
		}
		if v != right && (v != missing || testing.Verbose()) && (!l.topics[q.topic].kept || os.Getenv("YEAR_SHOW") == "kept") {
			w.t.Logf("%s: %s (now: %s)\n%s%s", v, q.text, q.right, recalled, l.history(q.topic))
		}
	}
	return tune, kept
}

// history returns what was told about a topic, in the order of time.
func (l *life) history(topic int) string {
	var b strings.Builder
	for _, c := range l.talks {
		for _, s := range c.told {
			if s.topic == topic {
				fmt.Fprintf(&b, "told %s: %s\n", c.at.Format(time.DateOnly), s.text)
			}
		}
	}
	return b.String()
}

// year measures a life.
func year(t *testing.T, seed uint64, conversations, about int, withModel bool) (all result) {
	synctest.Test(t, func(t *testing.T) {
		l := live(t, seed, conversations, about)
		w := newWorld(t, l, withModel)
		w.talk(l)
		all = w.measure(l, fmt.Sprintf("seed %d, model %t", seed, withModel))
	})
	return all
}

// measure asks the questions, and tells the figures.
func (w *world) measure(l *life, what string) result {
	tune, kept := w.ask(l)
	facts, err := w.memory().List(w.t.Context(), w.local.User, true)
	w.check(err)
	current := 0
	for i := range facts {
		if facts[i].Until.IsZero() {
			current++
		}
	}
	w.t.Logf("%s, %d conversations, %d facts, %d of them current\ntune: %s\nkept: %s", what, len(l.talks), len(facts), current, tune, kept)
	all := result{}
	for _, r := range []result{tune, kept} {
		for v, n := range r {
			all[v] += n
		}
	}
	return all
}

// TestAMonth lives a short life: with a model that reads conversations, and without one.
func TestAMonth(t *testing.T) {
	for _, reads := range []bool{true, false} {
		got := year(t, 1, 40, 5, reads)
		if got[right]+got[dated] < 7 || got[outdated]+got[poisoned]+got[forgotten] > 0 {
			t.Errorf("reads %t: %s", reads, got)
		}
	}
}
