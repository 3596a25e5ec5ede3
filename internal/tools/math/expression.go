package math

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

// infix are the operators between two operands. An operator takes what is at its left if its level is high
// enough, and at its right what has at least the level right. The signs and √ before an operand have level 3,
// so that -2^2 is -4 and 2^3^2 is 2^9; "%" after an operand binds most tightly.
var infix = map[string]struct {
	level, right int
	do           func(a, b number) (number, error)
}{
	"+": {1, 2, add}, "-": {1, 2, sub},
	"*": {2, 3, mul}, "of": {2, 3, mul}, "/": {2, 3, div}, "%": {2, 3, mod}, "mod": {2, 3, mod},
	"^": {4, 3, pow}, "**": {4, 3, pow},
}

// evaluate computes an expression of numbers, constants, calls of functions, operators and parentheses. A "%"
// before an operand is the remainder, and otherwise percent.
func evaluate(text string) (number, error) {
	if len(text) > maxExpression {
		return number{}, fault.New(fault.TooLarge, "expression_invalid", "the expression has more than %d bytes", maxExpression)
	}
	tokens, err := scan(text)
	if err != nil {
		return number{}, err
	}
	p := &parser{tokens: tokens}
	n, err := p.expression(0)
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
		case strings.ContainsRune("+-*/^%(),√", same(r)):
			t.text = string(same(r))
		default:
			return nil, invalid(t.at, "unexpected %q", r)
		}
		out = append(out, t)
	}
	return append(out, token{at: 1 + utf8.RuneCountInString(text)}), nil
}

func invalid(at int, format string, args ...any) error {
	return fault.New(fault.Invalid, "expression_invalid", "at character %d: %s", at, fmt.Sprintf(format, args...)).
		Detail("position", at).
		WithHint("write a formula such as (2 + 3) * sqrt(16) / 4; the operators are + - * / %% ^, the functions %s", functionNames)
}

type parser struct {
	tokens []token
	i      int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.i] }

// take consumes the next token if it has a text.
func (p *parser) take(text string) bool {
	if p.peek().text != text {
		return false
	}
	p.i++
	return true
}

func (p *parser) unexpected(wanted string) error {
	t := p.peek()
	if t.text == "" {
		return invalid(t.at, "%s is missing at the end", wanted)
	}
	return invalid(t.at, "expected %s, got %q", wanted, t.text)
}

// expression parses operands and operators of at least a level.
func (p *parser) expression(least int) (number, error) {
	if p.depth++; p.depth > maxDepth {
		return number{}, invalid(p.peek().at, "the expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	n, err := p.operand()
	for err == nil {
		text := p.peek().text
		op, ok := infix[text]
		switch {
		case text == "%" && !p.operandAfter():
			p.i++
			n, err = div(n, integer(100))
		case !ok || op.level < least:
			return n, nil
		default:
			p.i++
			var m number
			if m, err = p.expression(op.right); err == nil {
				n, err = op.do(n, m)
			}
		}
	}
	return n, err
}

// operandAfter reports whether an operand follows the next token.
func (p *parser) operandAfter() bool {
	t := p.tokens[p.i+1]
	return t.num != nil || t.text == "(" || t.text == "√" || t.word && t.text != "of" && t.text != "mod"
}

func (p *parser) operand() (number, error) {
	t := p.peek()
	switch {
	case t.num != nil:
		p.i++
		return checked(t.num, false)
	case t.word:
		return p.named(t)
	case p.take("("):
		n, err := p.expression(0)
		if err == nil && !p.take(")") {
			err = p.unexpected(`")"`)
		}
		return n, err
	case p.take("-"):
		n, err := p.expression(3)
		if err != nil {
			return n, err
		}
		return negate(n), nil
	case p.take("+"):
		return p.expression(3)
	case p.take("√"):
		n, err := p.expression(3)
		if err != nil {
			return n, err
		}
		return root(n, integer(2))
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
	if !p.take("(") {
		return number{}, p.unexpected(`"(" after ` + t.text)
	}
	var args []number
	for more := true; more; more = p.take(",") {
		n, err := p.expression(0)
		if err != nil {
			return n, err
		}
		args = append(args, n)
	}
	if !p.take(")") {
		return number{}, p.unexpected(`")"`)
	}
	if len(args) < fn.least || len(args) > fn.most {
		return number{}, invalid(t.at, "%s takes %s arguments, got %d", t.text, fn.takes(), len(args))
	}
	return fn.call(args)
}
