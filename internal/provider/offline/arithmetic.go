package offline

import (
	"regexp"
	"slices"
	"strings"

	"steward/internal/tool"
)

// Arithmetic goes to a calculator as a whole expression, if the clause has nothing but numbers, operators
// and words around them.

// sumRules convert words to an expression, one after the other. N is a number.
var sumRules = rules(
	`^(?:(?:wie ?viel (?:ist|sind|macht|ergibt)|was (?:ist|sind|macht|ergibt)|berechne|what is|what's|what are|how much is|how much are|how many is|calculate|compute|evaluate|work out|find|is|the result of|=) )*`, ``,
	`[ ?.!=]+$`, ``,
	`^(?:subtract|take) (N) (?:away )?from (N)$`, `$2 - $1`,
	`^(?:the )?difference (?:of|between) (N) and (N)$`, `$1 - $2`,
	`^(?:add (N) (?:and|to|plus)|(?:the )?sum of (N) and) (N)$`, `$1$2 + $3`,
	`^(?:multiply (N) (?:by|and|with)|(?:the )?product of (N) and) (N)$`, `$1$2 * $3`,
	`^(?:divide (N) by|(?:the )?quotient of (N) and) (N)$`, `$1$2 / $3`,
	`^(?:the )?remainder of (N) (?:divided by|/) (N)$`, `$1 mod $2`,
	`^half of (N)$`, `$1 / 2`,
	`\b(?:geteilt durch|durch)\b`, `/`, `\bmal\b`, `*`, `\bhoch\b`, `^`, `(?:\bprozent|%) von\b`, `percent of`, `\b(?:der |die )?(?:quadratwurzel|wurzel) (?:aus|von) `, `square root of `,
	`\b(?:plus)\b`, `+`, `\b(?:minus)\b|−`, `-`, `\b(?:times|multiplied by|x)\b|×|·`, `*`, `\b(?:divided by|over)\b|÷`, `/`,
	`\bto the power of\b`, `^`, `\bmodulo\b`, `mod`, ` squared\b`, ` ^2`, ` cubed\b`, ` ^3`,
	`(?:percent|%) of (N)`, `% of $1`,
	`(?:the )?(?:square root of|√) (N)`, `sqrt($1)`, `(?:the )?(?:cube root of|∛) (N)`, `cbrt($1)`,
	`\( `, `(`, ` \)`, `)`,
)

var (
	quotient  = pattern(`^\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)+$`)
	operators = pattern(`^(?:N|%|[-+*/^()]|mod| )+$`)
	functions = pattern(`\d[\d.]*(?: % of \d[\d.]*)?|(?:sqrt|cbrt)\(\d[\d.]*\)`)
	pair      = pattern(`^(\d[\d.]*) ([-+*/^]|mod) (\d[\d.]*)$`)
)

type rule struct {
	form func() *regexp.Regexp
	is   string
}

func rules(list ...string) (out []rule) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, rule{pattern(strings.ReplaceAll(list[i], "N", `\d[\d.]*`)), strings.NewReplacer("$1", "${1}", "$2", "${2}", "$3", "${3}").Replace(list[i+1])})
	}
	return out
}

// arithmetic returns a clause as an expression, or "" if it is none.
func arithmetic(c clause) string {
	var said []string
	for _, t := range c.tokens {
		if t.kind == file && quotient().MatchString(t.value) { // 100/7 has the form of a path, too
			said = append(said, strings.ReplaceAll(t.value, "/", " / "))
			continue
		}
		if t.kind == name { // nouns of German: "15 Prozent"
			t.value = strings.ToLower(t.text)
		} else if t.kind != numeral && t.kind != plain || t.word == "n" || t.word == "" && t.value == "" {
			return ""
		}
		said = append(said, t.word+t.value)
	}
	out := strings.Join(said, " ")
	for _, r := range sumRules {
		out = r.form().ReplaceAllString(out, r.is)
	}
	shape := functions().ReplaceAllString(out, "N")
	if !operators().MatchString(shape) || !strings.Contains(shape, "N") || strings.Contains(shape, "N N") || !strings.ContainsAny(shape[len(shape)-1:], "N)") || strings.Contains(shape, "%") || !strings.ContainsAny(out, " (") {
		return ""
	}
	return out
}

// calculator returns the tool for an expression: one that is named after its only operation, or one that
// accepts an expression.
func (x *toolbox) calculator(expression string) (*entry, map[string]any) {
	if m := pair().FindStringSubmatch(expression); m != nil {
		names := map[string][]string{"+": {"add", "plus", "sum"}, "-": {"subtract", "minus"}, "*": {"multiply", "times"}, "/": {"divide"},
			"mod": {"modulo", "mod"}, "^": {"power", "pow"}}[m[2]]
		for _, e := range x.entries {
			if last := e.spec.Name[strings.LastIndexByte(e.spec.Name, '.')+1:]; !slices.Contains(names, last) || len(e.params) != 2 || e.required != 2 {
				continue
			}
			a, first := e.params[0].number(m[1])
			if b, second := e.params[1].number(m[3]); first && second {
				return e, map[string]any{e.params[0].name: a, e.params[1].name: b}
			}
		}
	}
	for _, e := range x.entries {
		if e.required == 1 && e.spec.Effect == tool.Query && !e.broken {
			if p := e.params[0]; p.shape == "string" && (p.has("expression") || p.has("formula")) {
				return e, map[string]any{p.name: expression}
			}
		}
	}
	return nil, nil
}
