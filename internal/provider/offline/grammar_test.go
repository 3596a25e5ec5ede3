package offline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/llm"
	"steward/internal/tool"
)

// The grammar makes sentences and the toolsets that they are said to. A domain
// has tools; a tool has parameters and templates; a template names parameters
// in braces, each replaced by a way to say a random value. What is in square
// brackets is there or not.

type domain struct {
	name  string
	tools []toolDef
}

type toolDef struct {
	name, desc string
	params     []paramDef
	templates  []string
}

// paramDef is a parameter: its schema's members and how its values are made.
type paramDef struct {
	name     string
	schema   string // members of the JSON Schema
	gen      string // generator, with arguments after ':'
	optional bool
}

func req(name, schema, gen string) paramDef { return paramDef{name, schema, gen, false} }
func opt(name, schema, gen string) paramDef { return paramDef{name, schema, gen, true} }

// wish is a sentence with what it asks for.
type wish struct {
	text string
	tool string // "" for none
	args map[string]any
}

// grammarNow is a Wednesday.
var grammarNow = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

type generator struct {
	*rand.Rand
}

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func list(s string) []string { return strings.Split(s, "|") }

var people = list("Anna|Ben|Carla|David|Eva Klein|Frank Miller|Grace|Hiro Tanaka|Ines|Jonas Weber|Kemal|Lucy Brown|Marta|Nina|Omar Haddad|Priya|Quentin|Rosa|Sven|Tara Singh")
var cities = list("Berlin|Tokyo|Lisbon|Oslo|Chicago|New York|Madrid|Cairo|Sydney|Toronto|Prague|Helsinki|São Paulo|Vienna|Seoul")
var rooms = list("kitchen|bedroom|living room|garage|hallway|office|attic|nursery")
var smallWords = list("zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty")
var zonesOf = map[string]string{"Berlin": "Europe/Berlin", "Tokyo": "Asia/Tokyo", "Lisbon": "Europe/Lisbon", "Oslo": "Europe/Oslo", "Chicago": "America/Chicago", "New York": "America/New_York", "Madrid": "Europe/Madrid", "Cairo": "Africa/Cairo", "Sydney": "Australia/Sydney", "Toronto": "America/Toronto", "Prague": "Europe/Prague", "Helsinki": "Europe/Helsinki", "São Paulo": "America/Sao_Paulo", "Vienna": "Europe/Vienna", "Seoul": "Asia/Seoul"}

// make returns how a value is said and the value itself.
func (g generator) value(gen string) (string, any) {
	kind, arg, _ := strings.Cut(gen, ":")
	switch kind {
	case "int": // int:1:100, in digits or, when small, words
		lo, hi := bounds(arg)
		n := lo + g.IntN(hi-lo+1)
		s := strconv.Itoa(n)
		switch {
		case n >= 2 && n <= 20 && g.IntN(3) == 0:
			s = smallWords[n]
		case n >= 1000 && g.IntN(2) == 0:
			s = fmt.Sprintf("%d,%03d", n/1000, n%1000)
		}
		return s, float64(n)
	case "dec":
		lo, hi := bounds(arg)
		n := float64(lo*10+g.IntN((hi-lo)*10)) / 10
		return strconv.FormatFloat(n, 'f', -1, 64), n
	case "signed":
		n := g.IntN(41) - 20
		if n < 0 && g.IntN(2) == 0 {
			return "minus " + strconv.Itoa(-n), float64(n)
		}
		return strconv.Itoa(n), float64(n)
	case "words": // words:a|b|c, said as they are
		s := g.pick(list(arg)...)
		return s, s
	case "map": // map:said=value|…
		said, v, _ := strings.Cut(g.pick(list(arg)...), "=")
		if n, err := strconv.Atoi(v); err == nil {
			return said, float64(n)
		}
		return said, v
	case "flag": // flag:said=true|said=false
		said, v, _ := strings.Cut(g.pick(list(arg)...), "=")
		return said, v == "true"
	case "person":
		s := g.pick(people...)
		return s, s
	case "city":
		s := g.pick(cities...)
		return s, s
	case "zone":
		s := g.pick(cities...)
		return s, zonesOf[s]
	case "room":
		s := g.pick(rooms...)
		return s, s
	case "quoted":
		s := g.pick(list(arg)...)
		q := g.pick(`""`, "“”", "''", "«»")
		r := []rune(q)
		return string(r[0]) + s + string(r[1]), s
	case "email":
		s := strings.ToLower(strings.Fields(g.pick(people...))[0]) + "@" + g.pick("example.com", "mail.test", "firm.example.org")
		return s, s
	case "url":
		s := "https://" + g.pick("example.com", "docs.example.org", "shop.test") + "/" + g.pick("start", "a/b?c=1", "page-"+strconv.Itoa(g.IntN(90)))
		return s, s
	case "path":
		s := g.pick("notes", "report", "docs/plan", "/tmp/data", "photos/summer", "budget_2026") + g.pick(".txt", ".pdf", ".csv", ".md", ".json")
		return s, s
	case "code": // code:PREFIX
		s := arg + strconv.Itoa(1000+g.IntN(9000))
		return s, s
	case "date":
		return g.date()
	case "datetime":
		return g.datetime()
	case "clock":
		return g.clock()
	case "span": // span:SECONDS, the unit in which the value counts
		return g.span(arg)
	case "people":
		return g.several(people)
	case "items": // items:a|b|c
		return g.several(list(arg))
	case "words2": // a decimal factor
		n := g.pick("1.5", "2", "1.25")
		v, _ := strconv.ParseFloat(n, 64)
		return n, v
	case "days":
		all := list("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
		from := g.Perm(7)[:1+g.IntN(3)]
		var said []string
		var vals []any
		slices.Sort(from)
		for _, i := range from {
			said, vals = append(said, all[i]), append(vals, strings.ToLower(all[i]))
		}
		return join(said), vals
	case "ints":
		n := 2 + g.IntN(3)
		var said []string
		var vals []any
		for range n {
			v := 1 + g.IntN(99)
			said, vals = append(said, strconv.Itoa(v)), append(vals, float64(v))
		}
		return join(said), vals
	}
	panic("no generator " + gen)
}

func bounds(arg string) (int, int) {
	a, b, _ := strings.Cut(arg, ":")
	lo, _ := strconv.Atoi(a)
	hi, _ := strconv.Atoi(b)
	return lo, hi
}

func join(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func (g generator) several(from []string) (string, any) {
	n := 1 + g.IntN(3)
	var said []string
	var vals []any
	for _, i := range g.Perm(len(from))[:n] {
		said, vals = append(said, from[i]), append(vals, from[i])
	}
	return join(said), vals
}

// date says a day, preposition included.
func (g generator) date() (string, any) {
	day := func(n int) string { return grammarNow.AddDate(0, 0, n).Format("2006-01-02") }
	switch g.IntN(7) {
	case 0:
		return "tomorrow", day(1)
	case 1:
		return "today", day(0)
	case 2:
		n := 1 + g.IntN(6)
		return "on " + grammarNow.AddDate(0, 0, n).Weekday().String(), day(n)
	case 3:
		n := 2 + g.IntN(9)
		return fmt.Sprintf("in %d days", n), day(n)
	case 4:
		n := 1 + g.IntN(300)
		return "on " + day(n), day(n)
	case 5:
		t := grammarNow.AddDate(0, 0, 1+g.IntN(300))
		return t.Format("on January 2"), t.Format("2006-01-02")
	}
	t := grammarNow.AddDate(0, 0, 1+g.IntN(700))
	return t.Format("on 2 January 2006"), t.Format("2006-01-02")
}

func (g generator) datetime() (string, any) {
	h, m := 1+g.IntN(11), g.IntN(4)*15
	said := fmt.Sprintf("%dpm", h)
	if m > 0 {
		said = fmt.Sprintf("%d:%02d", h+12, m)
	}
	at := func(days int) string {
		d := grammarNow.AddDate(0, 0, days)
		return time.Date(d.Year(), d.Month(), d.Day(), h+12, m, 0, 0, time.UTC).Format(time.RFC3339)
	}
	switch g.IntN(5) {
	case 0:
		return "tomorrow at " + said, at(1)
	case 1:
		return "at " + said + " tomorrow", at(1)
	case 2:
		n := 1 + g.IntN(6)
		return "on " + grammarNow.AddDate(0, 0, n).Weekday().String() + " at " + said, at(n)
	case 3:
		n := 5 * (1 + g.IntN(20))
		return fmt.Sprintf("in %d minutes", n), grammarNow.Add(time.Duration(n) * time.Minute).Format(time.RFC3339)
	}
	d := grammarNow.AddDate(0, 0, 5)
	return "on " + d.Format("2006-01-02") + " at " + said, at(5)
}

func (g generator) clock() (string, any) {
	h := g.IntN(24)
	m := g.IntN(2) * 30
	v := fmt.Sprintf("%02d:%02d", h, m)
	switch {
	case m == 0 && h > 12 && g.IntN(2) == 0:
		return fmt.Sprintf("%d pm", h-12), v
	case m == 0 && h > 0 && h < 12 && g.IntN(2) == 0:
		return fmt.Sprintf("%d am", h), v
	case h == 12 && m == 0:
		return "noon", v
	}
	return v, v
}

func (g generator) span(arg string) (string, any) {
	unit, _ := strconv.Atoi(arg)
	switch g.IntN(5) {
	case 0:
		n := 2 + g.IntN(5)
		return smallWords[n] + " hours", float64(n * 3600 / unit)
	case 1:
		return "half an hour", float64(1800) / float64(unit)
	case 2:
		return "an hour and a half", float64(5400) / float64(unit)
	}
	n := 5 * (1 + g.IntN(11))
	return fmt.Sprintf("%d minutes", n), float64(n*60) / float64(unit)
}

// spec makes the tool's spec.
func (d toolDef) spec() tool.Spec {
	type object struct {
		props    []string
		required []string
	}
	root, nested := &object{}, map[string]*object{}
	var order []string
	for _, p := range d.params {
		parent, leaf, isNested := strings.Cut(p.name, "/")
		if !isNested {
			root.props = append(root.props, fmt.Sprintf("%q:{%s}", p.name, p.schema))
			if !p.optional {
				root.required = append(root.required, strconv.Quote(p.name))
			}
			continue
		}
		o := nested[parent]
		if o == nil {
			o = &object{}
			nested[parent] = o
			order = append(order, parent)
		}
		o.props = append(o.props, fmt.Sprintf("%q:{%s}", leaf, p.schema))
		if !p.optional {
			o.required = append(o.required, strconv.Quote(leaf))
		}
	}
	text := func(o *object) string {
		return fmt.Sprintf(`"type":"object","properties":{%s},"required":[%s],"additionalProperties":false`, strings.Join(o.props, ","), strings.Join(o.required, ","))
	}
	for _, name := range order {
		root.props = append(root.props, fmt.Sprintf("%q:{%s}", name, text(nested[name])))
		if len(nested[name].required) > 0 {
			root.required = append(root.required, strconv.Quote(name))
		}
	}
	return tool.Spec{Name: d.name, Description: d.desc, Input: []byte("{" + text(root) + "}"), Effect: d.effect()}
}

// effect goes by the words with which reading tools are named.
func (d toolDef) effect() tool.Effect {
	category, action, _ := strings.Cut(d.name, ".")
	if category == "math" || category == "text" {
		return tool.Query
	}
	for _, w := range list("get|list|find|search|show|read|current|forecast|now|track|convert|count|check|lookup|status") {
		if strings.HasPrefix(action, w) {
			return tool.Query
		}
	}
	return tool.Action
}

// say makes a wish from one of the tool's templates.
func (g generator) say(d toolDef) wish {
	text := g.pick(d.templates...)
	for { // optional parts
		open := strings.IndexByte(text, '[')
		if open < 0 {
			break
		}
		end := open + strings.IndexByte(text[open:], ']')
		part := text[open+1 : end]
		if g.IntN(2) == 0 {
			part = ""
		}
		text = text[:open] + part + text[end+1:]
	}
	w := wish{tool: d.name, args: map[string]any{}}
	for _, p := range d.params {
		slot := "{" + p.name + "}"
		if !strings.Contains(text, slot) {
			if !p.optional {
				panic(d.name + ": template without " + p.name + ": " + text)
			}
			continue
		}
		said, v := g.value(p.gen)
		text = strings.Replace(text, slot, said, 1)
		parent, leaf, isNested := strings.Cut(p.name, "/")
		if !isNested {
			w.args[p.name] = v
			continue
		}
		sub, _ := w.args[parent].(map[string]any)
		if sub == nil {
			sub = map[string]any{}
			w.args[parent] = sub
		}
		sub[leaf] = v
	}
	w.text = text
	return w
}

// phrase dresses a wish as people do.
func (g generator) dress(text string) string {
	if told, ok := strings.CutPrefix(text, "="); ok { // a statement stands alone
		return strings.ToUpper(told[:1]) + told[1:] + "."
	}
	question := strings.HasSuffix(text, "?")
	if question {
		return g.pick("", "", "Hi, ", "Hey, ") + text
	}
	switch g.IntN(7) {
	case 0:
		return "Please " + text + "."
	case 1:
		return "Can you " + text + "?"
	case 2:
		return "Could you please " + text + "?"
	case 3:
		return strings.ToUpper(text[:1]) + text[1:] + "!"
	case 4:
		return "I'd like you to " + text + "."
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

var smallTalk = list(`Hello!|How are you today?|Tell me a joke.|Who wrote Faust?|What is the capital of Mongolia?|Why is the sky blue?|Thank you so much!|What is the meaning of life?|Write a poem about autumn.|Do you like chess?|Explain quantum entanglement to me.|Are you a human?|I had a rough day.|Who won the world cup in 1998?|What can you do?|Good morning!|How do vaccines work?|My cat is called Minka.|Give me some advice about my career.|What is the difference between a crocodile and an alligator?|Is there life on Mars?|Sing me a lullaby.|How tall is Mount Everest?|That was very funny.|Which philosopher said that?`)

// testCase is one request with its tools and what should come of it.
type testCase struct {
	kind   string // single, several, chained, none, missing
	text   string
	tools  *llm.Toolset
	wishes []wish
}

// makeCase makes a case from the domains.
func (g generator) makeCase(domains []domain) testCase {
	n := min(len(domains), 3+g.IntN(4))
	var present, absent []domain
	for i, k := range g.Perm(len(domains)) {
		if i < n {
			present = append(present, domains[k])
		} else {
			absent = append(absent, domains[k])
		}
	}
	var specs []tool.Spec
	for _, d := range present {
		for _, t := range d.tools {
			specs = append(specs, t.spec())
		}
	}
	g.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	c := testCase{tools: llm.NewToolset(specs...)}
	draw := func(from []domain) wish {
		d := from[g.IntN(len(from))]
		return g.say(d.tools[g.IntN(len(d.tools))])
	}
	switch r := g.IntN(100); {
	case r < 64 || r >= 85 && len(absent) == 0:
		c.kind = "single"
		w := draw(present)
		c.text, c.wishes = g.dress(w.text), []wish{w}
	case r < 85:
		c.kind = "several"
		a, b := draw(present), draw(present)
		for a.tool == b.tool {
			b = draw(present)
		}
		glue := g.pick(" and ", ", and ", " and also ")
		if !strings.HasSuffix(b.text, "?") && g.IntN(3) == 0 {
			glue = " and please "
		}
		first, ask := strings.CutSuffix(a.text, "?")
		c.text = first + glue + b.text
		if ask {
			c.text = strings.TrimSuffix(c.text, "?") + "?"
		}
		c.text = g.dress(c.text)
		if g.IntN(4) == 0 || strings.ContainsAny(a.text[:1]+b.text[:1], "=") {
			c.text = g.dress(a.text) + " " + g.dress(b.text)
		}
		c.wishes = []wish{a, b}
	case r < 92:
		c.kind = "none"
		c.text = g.pick(smallTalk...)
	default:
		c.kind = "foreign" // a wish for a tool that is not there
		c.text = g.dress(draw(absent).text)
	}
	return c
}

// canonical makes values comparable.
func canonical(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
