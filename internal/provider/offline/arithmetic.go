package offline

import "strings"

// operators are the words and signs of arithmetic, with the sign for each and
// the word by which tools go that do it.
var operators = map[string]struct{ sign, word string }{
	"+": {"+", "add"}, "plus": {"+", "add"},
	"-": {"-", "subtract"}, "−": {"-", "subtract"}, "minus": {"-", "subtract"}, "menos": {"-", "subtract"}, "moins": {"-", "subtract"},
	"*": {"*", "multiply"}, "×": {"*", "multiply"}, "·": {"*", "multiply"}, "x": {"*", "multiply"}, "times": {"*", "multiply"}, "mal": {"*", "multiply"}, "fois": {"*", "multiply"},
	"/": {"/", "divide"}, "÷": {"/", "divide"}, "over": {"/", "divide"}, "durch": {"/", "divide"},
	"^": {"^", "power"},
}

// operator returns the operator at token i, if it stands beside a number, and
// how many tokens it takes.
func (r *reading) operator(i int) (sign, word string, n int) {
	t := &r.toks[i]
	op, ok := operators[t.low]
	switch {
	case t.kind == tkOp && ok:
		if isNumeric(r.toks, i+1) || i > 0 && isNumeric(r.toks, i-1) || i+1 < len(r.toks) && r.toks[i+1].low == "(" {
			return op.sign, op.word, 1
		}
	case t.kind != tkWord:
	case ok && isNumeric(r.toks, i+1) && (i > 0 && isNumeric(r.toks, i-1) || t.low == "plus" || t.low == "minus" || t.low == "times"):
		return op.sign, op.word, 1
	case (t.low == "divided" || t.low == "multiplied" || t.low == "geteilt") && i+1 < len(r.toks) && isNumeric(r.toks, i+2) && r.preposition(i+1) == "by" || t.low == "geteilt" && wordAt(r.toks, i+1) == "durch":
		if t.low == "multiplied" {
			return "*", "multiply", 2
		}
		return "/", "divide", 2
	}
	return "", "", 0
}

// arithmetics returns the longest piece of arithmetic of at least one
// operator and two operands, in signs; last is 0 if there is none.
func (c *clause) arithmetics() (first, last int, text string) {
	for i := c.lo; i < c.hi; {
		n, s, ops := c.formula(i)
		if ops > 0 && n > last-first {
			first, last, text = i, i+n, s
		}
		i += max(n, 1)
	}
	return first, last, text
}

// formula reads arithmetic that begins at token i: how many tokens, in signs,
// and how many operators.
func (c *clause) formula(i int) (n int, text string, ops int) {
	var b strings.Builder
	end := 0
	operand := true // wanted next
	open := 0
	for k := i; k < c.hi; {
		t := &c.toks[k]
		switch sign, _, m := c.operator(k); {
		case t.low == "(" && operand:
			b.WriteByte('(')
			open++
			k++
			continue
		case t.low == ")" && !operand && open > 0:
			b.WriteByte(')')
			open--
			k++
		case operand && t.kind == tkOp && (t.low == "-" || t.low == "−") && isNumeric(c.toks, k+1):
			b.WriteByte('-')
			k++
			continue
		case operand && isNumeric(c.toks, k):
			v, m := numberAt(c.toks, k)
			b.WriteString(shown(v))
			operand = false
			k += m
		case !operand && m > 0:
			b.WriteString(" " + sign + " ")
			operand = true
			ops++
			k += m
			continue
		case !operand && t.low == "%":
			b.WriteByte('%')
			k++
		default:
			k = c.hi
			continue
		}
		if open == 0 && !operand { // it may end here
			n, end = k-i, ops
			text = b.String()
		}
	}
	return n, text, end
}
