package tool

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
)

// Canonical returns the canonical form of a JSON value, which is what policies judge and people are
// shown, and what is hashed and executed: RFC 8785 (members in order, shortest strings and numbers,
// no white space), except that a number with more digits than a double can hold keeps them. So
// canonicalising never changes a value.
//
// It refuses (Invalid, code args_invalid) anything other than exactly one JSON value, duplicate
// member names, invalid UTF-8, and numbers beyond a double's range. The input is not modified.
func Canonical(args []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(args))
	err := v.Format(jsontext.ReorderRawObjects(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return nil, badJSON(args, err)
	}
	return canonicalNumbers(v)
}

// badJSON returns the error for invalid JSON, with the position.
func badJSON(args []byte, err error) error {
	const remedy = "send the arguments as one JSON object"
	if len(bytes.TrimSpace(args)) == 0 {
		return fault.New(fault.Invalid, "args_invalid", "the arguments are empty").WithHint(remedy)
	}
	why, at := err.Error(), int64(-1)
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		at = syn.ByteOffset
		why = "invalid JSON"
		if syn.Err != nil {
			why = syn.Err.Error()
		}
		if errors.Is(syn, jsontext.ErrDuplicateName) {
			why = "the member " + strconv.Quote(syn.JSONPointer.LastToken()) + " occurs twice"
		}
	}
	e := fault.New(fault.Invalid, "args_invalid", "the arguments are not valid JSON: %s", why)
	if at >= 0 {
		e = fault.New(fault.Invalid, "args_invalid", "the arguments are not valid JSON: at byte %d: %s", at, why).
			Detail("position", at)
	}
	return e.WithHint(remedy)
}

// canonicalNumbers rewrites the numbers of a formatted value if nothing is lost.
func canonicalNumbers(v []byte) ([]byte, error) {
	var out []byte // nil while nothing has changed
	last := 0
	for i := 0; i < len(v); {
		switch c := v[i]; {
		case c == '"':
			i = endOfString(v, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i
			for end < len(v) && strings.IndexByte("+-.0123456789Ee", v[end]) >= 0 {
				end++
			}
			n, err := canonicalNumber(v[i:end])
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(n, v[i:end]) {
				out = append(append(out, v[last:i]...), n...)
				last = end
			}
			i = end
		default:
			i++
		}
	}
	if out == nil {
		return v, nil
	}
	return append(out, v[last:]...), nil
}

// endOfString returns the index after the string that begins at i.
func endOfString(v []byte, i int) int {
	for i++; v[i] != '"'; i++ {
		if v[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func canonicalNumber(lit []byte) ([]byte, error) {
	if plainInt(lit) {
		return lit, nil
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fault.New(fault.Invalid, "args_invalid", "the number %s is out of range", Clip(string(lit), 40)).
			WithHint("send it as a string if the tool takes one")
	}
	short := jsontext.AppendFloat(nil, f+0, 64) // +0 turns a negative zero into 0
	if parseDecimal(string(short)) == parseDecimal(string(lit)) {
		return short, nil
	}
	return lit, nil
}

// plainInt reports whether a literal is a small integer, which is already canonical.
func plainInt(lit []byte) bool {
	if len(lit) > 15 || lit[0] == '-' && lit[len(lit)-1] == '0' && len(lit) == 2 {
		return false
	}
	for _, c := range lit {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

// decimal is the value of a number literal: digits without zeros at the ends, times ten to the
// exponent. Literals of the same value have the same decimal.
type decimal struct {
	neg    bool
	digits string
	exp    int
}

func parseDecimal(lit string) decimal {
	var d decimal
	lit, d.neg = strings.CutPrefix(lit, "-")
	mantissa, exp := lit, ""
	if i := strings.IndexAny(lit, "eE"); i >= 0 {
		mantissa, exp = lit[:i], lit[i+1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.exp, _ = strconv.Atoi(exp) // saturates, far from any number a double holds
	d.exp += len(digits) - len(d.digits) - len(frac)
	return d
}

// Clip shortens a text for a message, at a rune boundary.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
