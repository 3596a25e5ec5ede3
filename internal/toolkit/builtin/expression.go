package builtin

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"text/scanner"
	"unicode"
	"unicode/utf8"

	"steward/internal/fault"
)

// Limits of an expression.
const (
	maxExpression = 4096
	maxDepth      = 200
)

// evaluate computes an expression. The grammar, from the weakest to the strongest binding:
//
//	sum     = product { ("+" | "-") product }
//	product = signed { ("*" | "/" | "%" | "mod" | "of") signed }
//	signed  = { "-" | "+" | "√" } power
//	power   = postfix [ ("^" | "**") signed ]        -2^2 is -4, 2^3^2 is 2^9
//	postfix = primary { "!" | "%" }                  50% is 0.5
//	primary = number | constant | function "(" sum { "," sum } ")" | "(" sum ")"
//
// A "%" before an operand is the remainder, and otherwise percent.
func evaluate(text string) (number, error) {
	if len(text) > maxExpression {
		return number{}, fault.New(fault.TooLarge, "expression_invalid", "the expression has more than %d bytes", maxExpression)
	}
	tokens, err := scan(text)
	if err != nil {
		return number{}, err
	}
	p := &parser{tokens: tokens}
	n, err := p.sum()
	if err == nil && p.peek().text != "" {
		err = p.unexpected("an operator")
	}
	return n, err
}

type token struct {
	text string // "" at the end
	at   int    // in characters, from 1
	num  *big.Rat
	word bool
}

// same maps Unicode spellings of an operator to ASCII.
func same(r rune) rune {
	switch r {
	case '×', '·', '⋅', '∙':
		return '*'
	case '÷', '∕':
		return '/'
	case '−', '–':
		return '-'
	}
	return r
}

// numerals are decimal. The digits of an exponent are limited, so that no number fills the memory.
var numerals = regexp.MustCompile(`^[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,4})?$`)

func exactly(text string) (*big.Rat, bool) {
	if !numerals.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

func scan(text string) ([]token, error) {
	var out []token
	var s scanner.Scanner
	s.Init(strings.NewReader(text)).Mode = scanner.ScanIdents | scanner.ScanFloats
	s.Error = func(*scanner.Scanner, string) {} // what it does not understand is refused below
	for r := s.Scan(); r != scanner.EOF; r = s.Scan() {
		t := token{text: s.TokenText(), at: 1 + utf8.RuneCountInString(text[:s.Position.Offset])}
		switch {
		case unicode.IsSpace(r):
			continue
		case r == scanner.Int || r == scanner.Float:
			var ok bool
			if t.num, ok = exactly(t.text); !ok {
				return nil, invalid(t.at, "%.40q is not a number", t.text)
			}
		case r == scanner.Ident:
			t.text, t.word = strings.ToLower(t.text), true
		case r == '*' && s.Peek() == '*':
			s.Next()
			t.text = "**"
		case strings.ContainsRune("+-*/^%!(),√", same(r)):
			t.text = string(same(r))
		default:
			return nil, invalid(t.at, "%q has no meaning here", r)
		}
		out = append(out, t)
	}
	return append(out, token{at: 1 + utf8.RuneCountInString(text)}), nil
}

func invalid(at int, format string, args ...any) error {
	return fault.New(fault.Invalid, "expression_invalid", "at character %d: %s", at, fmt.Sprintf(format, args...)).
		Detail("position", at).
		WithHint("write a formula such as (2 + 3) * sqrt(16) / 4; the operators are + - * / %% ^ !, the functions %s", functionNames)
}

type parser struct {
	tokens []token
	i      int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.i] }

// take consumes the next token if it is one of texts.
func (p *parser) take(texts ...string) (string, bool) {
	for _, t := range texts {
		if p.peek().text == t {
			p.i++
			return t, true
		}
	}
	return "", false
}

func (p *parser) unexpected(wanted string) error {
	t := p.peek()
	if t.text == "" {
		return invalid(t.at, "%s is missing at the end", wanted)
	}
	return invalid(t.at, "expected %s, got %q", wanted, t.text)
}

// deeper counts a level of nesting, until the returned function is called.
func (p *parser) deeper() (func(), error) {
	p.depth++
	if p.depth > maxDepth {
		return nil, invalid(p.peek().at, "the expression is nested too deeply")
	}
	return func() { p.depth-- }, nil
}

func (p *parser) sum() (number, error) {
	up, err := p.deeper()
	if err != nil {
		return number{}, err
	}
	defer up()
	n, err := p.product()
	for err == nil {
		op, ok := p.take("+", "-")
		if !ok {
			break
		}
		var m number
		if m, err = p.product(); err != nil {
			break
		}
		if op == "+" {
			n, err = add(n, m)
		} else {
			n, err = sub(n, m)
		}
	}
	return n, err
}

func (p *parser) product() (number, error) {
	n, err := p.signed()
	for err == nil {
		op, ok := p.take("*", "/", "%", "mod", "of")
		if !ok {
			break
		}
		var m number
		if m, err = p.signed(); err != nil {
			break
		}
		switch op {
		case "/":
			n, err = div(n, m)
		case "%", "mod":
			n, err = mod(n, m)
		default:
			n, err = mul(n, m)
		}
	}
	return n, err
}

func (p *parser) signed() (number, error) {
	up, err := p.deeper()
	if err != nil {
		return number{}, err
	}
	defer up()
	op, ok := p.take("-", "+", "√")
	if !ok {
		return p.power()
	}
	n, err := p.signed()
	switch {
	case err != nil:
		return n, err
	case op == "-":
		return negate(n), nil
	case op == "√":
		return root(n, integer(2))
	}
	return n, nil
}

func (p *parser) power() (number, error) {
	n, err := p.postfix()
	if err != nil {
		return n, err
	}
	if _, ok := p.take("^", "**"); !ok {
		return n, nil
	}
	m, err := p.signed()
	if err != nil {
		return m, err
	}
	return pow(n, m)
}

func (p *parser) postfix() (number, error) {
	n, err := p.primary()
	for err == nil {
		if _, ok := p.take("!"); ok {
			n, err = factorial(n)
		} else if p.peek().text == "%" && !p.operandAfter() {
			p.i++
			n, err = div(n, integer(100))
		} else {
			break
		}
	}
	return n, err
}

// operandAfter reports whether an operand follows the next token.
func (p *parser) operandAfter() bool {
	t := p.tokens[p.i+1]
	return t.num != nil || t.text == "(" || t.text == "√" || t.word && t.text != "of" && t.text != "mod"
}

func (p *parser) primary() (number, error) {
	t := p.peek()
	switch {
	case t.num != nil:
		p.i++
		return checked(t.num, false)
	case t.text == "(":
		p.i++
		n, err := p.sum()
		if err != nil {
			return n, err
		}
		if _, ok := p.take(")"); !ok {
			return n, p.unexpected(`")"`)
		}
		return n, nil
	case t.word:
		return p.named(t)
	}
	return number{}, p.unexpected("a number")
}

// named parses a constant or the call of a function.
func (p *parser) named(t token) (number, error) {
	if c, ok := constants[t.text]; ok {
		p.i++
		return c, nil
	}
	fn, ok := functions[t.text]
	if !ok {
		return number{}, invalid(t.at, "there is no function or constant %q", t.text)
	}
	p.i++
	if _, ok := p.take("("); !ok {
		return number{}, p.unexpected(`"(" after ` + t.text)
	}
	var args []number
	for {
		n, err := p.sum()
		if err != nil {
			return n, err
		}
		args = append(args, n)
		if _, ok := p.take(","); !ok {
			break
		}
	}
	if _, ok := p.take(")"); !ok {
		return number{}, p.unexpected(`")"`)
	}
	if len(args) < fn.least || len(args) > fn.most {
		return number{}, invalid(t.at, "%s takes %s, got %d", t.text, fn.takes(), len(args))
	}
	return fn.call(args)
}
