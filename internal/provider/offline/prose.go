package offline

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
)

// What the names of members ask for.
var (
	sureWords   = stems("confidence score probability certainty relevance similarity likelihood rating match quality")
	toolWords   = stems("tools tool agents agent capabilities candidates names choices selected route")
	partWords   = stems("subtasks subtask tasks task steps step plan actions parts wishes items requests subgoals")
	reasonWords = stems("reason reasoning explanation analysis why rationale justification thoughts thought feedback comment")
	planWords   = stems("plan approach strategy guidance instructions instruction next how method")
	promptWords = stems("prompt system")
	askWords    = stems("request query goal objective input description purpose message question summary text content task instruction")
	titleWords  = stems("title label heading subject")
	passWords   = stems("passed pass success successful ok done complete completed satisfied fulfilled valid achieved approved accepted met finished")
	splitWords  = stems("complex plan planning multiple several split decompose nested needs")
	countWords  = stems("iterations iteration rounds turns limit max")
	whoWords    = stems("agent tool name id target route category intent choice assignee assigned handler skill")
	judgedWords = stems("confidence score probability certainty relevance similarity likelihood rating reason reasoning explanation analysis rationale plan guidance prompt passed success")
)

func about(name string, set map[string]bool) bool {
	for _, w := range splitName(name) {
		if set[stem(w)] {
			return true
		}
	}
	return false
}

// judges reports a member that the model decides, whatever the request says.
func (f *form) judges(name string) bool {
	return about(name, judgedWords) || about(name, countWords) || f.best != nil && f.sure >= 0.2 && (about(name, whoWords) || about(name, toolWords))
}

// prose writes a text for a member by its name.
func (f *form) prose(name string) string {
	switch {
	case about(name, promptWords):
		return "Carry out this request and nothing else: " + clip(f.request, 1000) + f.uses(" Use only these tools: %s.") + " Say plainly what could not be done."
	case about(name, reasonWords):
		return f.reason()
	case about(name, planWords) && !about(name, toolWords):
		return f.steps()
	case about(name, whoWords) && f.best != nil && f.sure >= 0.2:
		return f.best.tool.spec.Name
	case about(name, titleWords):
		return clip(f.clauseText(), 60)
	case about(name, askWords):
		return clip(f.request, 1000)
	case about(name, whoWords):
		return clip(f.clauseText(), 60)
	}
	if s := f.section[strings.ToLower(name)]; s != "" {
		return clip(s, 1000)
	}
	return clip(f.clauseText(), 200)
}

func (f *form) clauseText() string {
	if len(f.clauses) > 0 {
		c := f.clauses[0]
		return c.source(c.lo, c.hi)
	}
	return strings.TrimSpace(f.request)
}

func (f *form) uses(format string) string {
	if len(f.chosen) == 0 {
		return ""
	}
	return fmt.Sprintf(format, strings.Join(f.chosen, ", "))
}

// reason says which words decided.
func (f *form) reason() string {
	if f.evaluates() {
		if f.met() {
			return "The result speaks of what was asked for and reports no failure."
		}
		return "The result is missing, reports a failure, or does not speak of what was asked for."
	}
	if f.best == nil || f.sure < 0.2 {
		return "No listed choice shares enough words with the request."
	}
	var shared []string
	i := 0
	for _, c := range f.clauses {
		for _, q := range c.words {
			if i < len(f.best.hits) && f.best.hits[i].weight >= 0.4 && q.at >= 0 && len(shared) < 5 && !c.covered[q.at] {
				shared = append(shared, "“"+c.toks[q.at].text+"”")
			}
			i++
		}
	}
	if len(shared) == 0 {
		return fmt.Sprintf("%s is nearest to the request.", f.best.tool.spec.Name)
	}
	return fmt.Sprintf("The request shares %s with %s.", strings.Join(shared, ", "), f.best.tool.spec.Name)
}

// steps says in which order the wishes are met.
func (f *form) steps() string {
	if len(f.clauses) <= 1 {
		return "Do what was asked" + f.uses(" with %s") + " and report the result."
	}
	var parts []string
	for i, c := range f.clauses {
		parts = append(parts, fmt.Sprintf("%d. %s", i+1, clip(c.source(c.lo, c.hi), 200)))
	}
	return strings.Join(parts, "\n")
}

// verdict answers a yes or no by its name.
func (f *form) verdict(name string) bool {
	switch {
	case about(name, passWords):
		return f.met()
	case about(name, splitWords):
		return len(f.clauses) > 1
	}
	return false
}

// evaluates reports a prompt that asks to judge a result.
func (f *form) evaluates() bool {
	return f.result() != "" || f.criteria() != "" && f.section["result"] == ""
}

func (f *form) result() string {
	for _, label := range []string{"result", "results", "output", "answer", "outcome"} {
		if s := f.section[label]; s != "" {
			return s
		}
	}
	return ""
}

func (f *form) criteria() string {
	for _, label := range []string{"evaluation", "criteria", "success", "expected"} {
		if s := f.section[label]; s != "" {
			return s
		}
	}
	return ""
}

var failures = words(`failed fail failure error errors unable denied refused impossible missing incomplete timeout couldn cannot unknown aborted`)

// met reports whether a result is good enough.
func (f *form) met() bool { return f.degree() >= 0.5 }

// degree is how far a result speaks of what was wanted and of no failure, in [0, 1].
func (f *form) degree() float64 {
	result := f.result()
	if result == "" {
		return 0
	}
	said := map[string]bool{}
	toks := tokenize(result)
	for i := range toks {
		if failures[toks[i].low] || toks[i].low == "not" && (wordAt(toks, i-1) == "could" || wordAt(toks, i-1) == "did" || wordAt(toks, i+1) == "found") {
			return 0.1
		}
		said[stem(toks[i].low)] = true
	}
	wanted := f.criteria()
	if wanted == "" {
		wanted = f.request
	}
	all, got := 0, 0
	for _, w := range wordStems(wanted) {
		if weak[w] {
			continue
		}
		all++
		if said[w] {
			got++
		}
	}
	if all == 0 {
		return 0.5
	}
	return float64(int(min(1, 0.4+0.9*float64(got)/float64(all))*100+0.5)) / 100 * truth(got > 0)
}

// matching makes a short text that a pattern accepts, of at least so many
// characters if the pattern allows it.
func matching(pattern string, least int) string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	for extra := 0; ; extra++ {
		var b strings.Builder
		write(&b, re, extra, 0)
		if n := len([]rune(b.String())); n >= least || extra > 64 || extra > least {
			return b.String()
		}
	}
}

// write appends what re accepts, its repetitions extra times more than they must be.
func write(b *strings.Builder, re *syntax.Regexp, extra, depth int) {
	if depth > 50 || b.Len() > 1<<16 {
		return
	}
	repeat := func(n, most int) {
		if n += extra; most >= 0 {
			n = min(n, most)
		}
		for range min(n, 4096) {
			write(b, re.Sub[0], extra, depth+1)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(plainRune(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpCapture, syntax.OpConcat:
		for _, s := range re.Sub {
			write(b, s, extra, depth+1)
		}
	case syntax.OpAlternate:
		write(b, re.Sub[0], extra, depth+1)
	case syntax.OpStar:
		repeat(0, -1)
	case syntax.OpPlus:
		repeat(1, -1)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(re.Min, re.Max)
	}
}

// plainRune picks a plain character of a class.
func plainRune(ranges []rune) rune {
	for _, want := range "a0A-_ " {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= want && want <= ranges[i+1] {
				return want
			}
		}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1] && r < ranges[i]+64; r++ {
			if unicode.IsPrint(r) {
				return r
			}
		}
	}
	if len(ranges) > 0 {
		return ranges[0]
	}
	return 'a'
}
