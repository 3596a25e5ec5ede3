package sparql

import (
	"cmp"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/memory/graph/rdf"
)

// number is a number: exact if rat is set.
type number struct {
	rat  *big.Rat
	f    float64
	rank int // 0 integer, 1 decimal, 2 float, 3 double
}

func (n number) zero() bool {
	if n.rat != nil {
		return n.rat.Sign() == 0
	}
	return n.f == 0 || math.IsNaN(n.f)
}

func (n number) float() float64 {
	if n.rat != nil {
		f, _ := n.rat.Float64()
		return f
	}
	return n.f
}

// integers are the datatypes that are derived from xsd:integer.
func isInteger(datatype string) bool {
	kind, ok := strings.CutPrefix(datatype, rdf.XSD)
	return ok && slices.Contains(strings.Fields(`integer nonPositiveInteger negativeInteger long int short byte nonNegativeInteger
		unsignedLong unsignedInt unsignedShort unsignedByte positiveInteger`), kind)
}

func isNumeric(datatype string) bool {
	return datatype == rdf.Decimal || datatype == rdf.Double || datatype == rdf.Float || isInteger(datatype)
}

// maxDigits is how long an exact number may be.
const maxDigits = 400

func numberOf(t rdf.Term) (number, error) {
	if t.Kind != rdf.Literal || !isNumeric(t.Datatype) {
		return number{}, errType
	}
	s := strings.TrimSpace(t.Value)
	if t.Datatype == rdf.Double || t.Datatype == rdf.Float {
		rank := 3
		if t.Datatype == rdf.Float {
			rank = 2
		}
		switch s {
		case "INF", "+INF":
			return number{f: math.Inf(1), rank: rank}, nil
		case "-INF":
			return number{f: math.Inf(-1), rank: rank}, nil
		case "NaN":
			return number{f: math.NaN(), rank: rank}, nil
		}
		f, err := strconv.ParseFloat(s, 64)
		if strings.ContainsAny(s, "xXpP_nNiI") || err != nil && !math.IsInf(f, 0) {
			return number{}, errType
		}
		return number{f: f, rank: rank}, nil
	}
	rank := 0
	if t.Datatype == rdf.Decimal {
		rank = 1
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(digits) > maxDigits || strings.Trim(digits, "0123456789"+map[int]string{1: "."}[rank]) != "" || strings.Count(digits, ".") > 1 || strings.Trim(digits, ".") == "" {
		return number{}, errType
	}
	rat, ok := new(big.Rat).SetString(s)
	if !ok {
		return number{}, errType
	}
	return number{rat: rat, rank: rank}, nil
}

// term writes a number as a literal.
func (n number) term() rdf.Term {
	switch n.rank {
	case 0:
		return rdf.NewTyped(new(big.Int).Quo(n.rat.Num(), n.rat.Denom()).String(), rdf.Integer)
	case 1:
		s := n.rat.FloatString(18)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(s, "0")
			if strings.HasSuffix(s, ".") {
				s += "0"
			}
		}
		return rdf.NewTyped(s, rdf.Decimal)
	}
	datatype, bits := rdf.Double, 64
	if n.rank == 2 {
		datatype, bits = rdf.Float, 32
	}
	f := n.float()
	switch {
	case math.IsInf(f, 1):
		return rdf.NewTyped("INF", datatype)
	case math.IsInf(f, -1):
		return rdf.NewTyped("-INF", datatype)
	case math.IsNaN(f):
		return rdf.NewTyped("NaN", datatype)
	}
	s := strconv.FormatFloat(f, 'E', -1, bits)
	mantissa, exponent, _ := strings.Cut(s, "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e, _ := strconv.Atoi(exponent)
	return rdf.NewTyped(mantissa+"E"+strconv.Itoa(e), datatype)
}

// text writes a number as a cast to xsd:string does: without an exponent where it is not very big or small.
func (n number) text() string {
	if n.rat != nil {
		return strings.TrimSuffix(n.term().Value, ".0")
	}
	if size := math.Abs(n.f); n.f == 0 || size >= 1e-6 && size < 1e6 {
		return strconv.FormatFloat(n.f, 'f', -1, 64)
	}
	return n.term().Value
}

func calculate(op string, a, b rdf.Term) (rdf.Term, error) {
	x, err := numberOf(a)
	if err != nil {
		return rdf.Term{}, err
	}
	y, err := numberOf(b)
	if err != nil {
		return rdf.Term{}, err
	}
	out := number{rank: max(x.rank, y.rank)}
	if x.rat != nil && y.rat != nil {
		out.rat = new(big.Rat)
		switch op {
		case "+":
			out.rat.Add(x.rat, y.rat)
		case "-":
			out.rat.Sub(x.rat, y.rat)
		case "*":
			out.rat.Mul(x.rat, y.rat)
		case "/":
			if y.zero() {
				return rdf.Term{}, errType
			}
			out.rat.Quo(x.rat, y.rat)
			out.rank = 1
		}
		if out.rat.Num().BitLen() > maxDigits*8 {
			return rdf.Term{}, errType
		}
		return out.term(), nil
	}
	f, g := x.float(), y.float()
	out.f = map[string]float64{"+": f + g, "-": f - g, "*": f * g, "/": f / g}[op]
	return out.term(), nil
}

func timeOf(t rdf.Term) (time.Time, bool) {
	layouts := map[string][]string{rdf.DateTime: {"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999"}, rdf.Date: {"2006-01-02Z07:00", "2006-01-02"}}
	value, midnight := t.Value, strings.Contains(t.Value, "T24:00:00")
	if midnight { // the end of a day is the beginning of the next
		value = strings.Replace(value, "T24", "T00", 1)
	}
	for _, l := range layouts[t.Datatype] {
		if at, err := time.Parse(l, value); err == nil {
			if midnight {
				at = at.AddDate(0, 0, 1)
			}
			return at, true
		}
	}
	return time.Time{}, false
}

// compare orders two values that have an order. ordered is false for NaN.
func compare(a, b rdf.Term) (c int, ordered bool, err error) {
	if a.Kind != rdf.Literal || b.Kind != rdf.Literal {
		return 0, false, errType
	}
	switch {
	case isNumeric(a.Datatype) && isNumeric(b.Datatype):
		x, err := numberOf(a)
		if err != nil {
			return 0, false, err
		}
		y, err := numberOf(b)
		if err != nil {
			return 0, false, err
		}
		if x.rat != nil && y.rat != nil {
			return x.rat.Cmp(y.rat), true, nil
		}
		f, g := x.float(), y.float()
		return cmp.Compare(f, g), !math.IsNaN(f) && !math.IsNaN(g), nil
	case a.IsText() && b.IsText():
		return strings.Compare(a.Value, b.Value), true, nil
	case a.Datatype == rdf.Boolean && b.Datatype == rdf.Boolean:
		x, errX := booleanOf(a)
		y, errY := booleanOf(b)
		if errX != nil || errY != nil {
			return 0, false, errType
		}
		return cmp.Compare(x, y), true, nil
	case a.Datatype == b.Datatype && a.Lang == "" && b.Lang == "":
		x, okX := timeOf(a)
		y, okY := timeOf(b)
		if okX && okY {
			if zoned(a.Value) != zoned(b.Value) {
				// Without a zone, a time is somewhere within 14 hours.
				if d := x.Sub(y); d <= 14*time.Hour && d >= -14*time.Hour {
					return 0, false, errType
				}
			}
			return x.Compare(y), true, nil
		}
	}
	return 0, false, errType
}

func zoned(s string) bool {
	return len(s) > len(time.DateOnly) && strings.ContainsAny(s[len(time.DateOnly):], "Z+-")
}

func booleanOf(t rdf.Term) (int, error) {
	switch t.Value {
	case "true", "1":
		return 1, nil
	case "false", "0":
		return 0, nil
	}
	return 0, errType
}

// equal is the operator =. Two literals that are not the same may still mean the same if their datatype is
// not known: that is an error.
func equal(a, b rdf.Term) (bool, error) {
	if a.Kind != rdf.Literal || b.Kind != rdf.Literal {
		return a == b, nil
	}
	if c, ordered, err := compare(a, b); err == nil {
		return ordered && c == 0, nil
	}
	if a == b {
		return true, nil
	}
	known := func(t rdf.Term) bool {
		_, isTime := timeOf(t)
		_, notNumber := numberOf(t)
		_, notBool := booleanOf(t)
		return t.Lang != "" || t.Datatype == "" || isTime || notNumber == nil || t.Datatype == rdf.Boolean && notBool == nil
	}
	if a.Lang != "" || b.Lang != "" {
		return false, nil
	}
	if known(a) && known(b) && a.Datatype != b.Datatype {
		return false, nil
	}
	return false, errType
}

// compareForOrder orders any terms, as ORDER BY does.
func compareForOrder(a, b rdf.Term) int {
	rank := []int{rdf.None: 0, rdf.Blank: 1, rdf.IRI: 2, rdf.Literal: 3}
	if c := cmp.Compare(rank[a.Kind], rank[b.Kind]); c != 0 {
		return c
	}
	if c, ordered, err := compare(a, b); err == nil && ordered {
		return c
	}
	return cmp.Or(strings.Compare(a.Value, b.Value), strings.Compare(a.Lang, b.Lang), strings.Compare(a.Datatype, b.Datatype))
}

// cast implements the constructor functions of XML Schema.
func cast(t rdf.Term, to string) (rdf.Term, error) {
	if to == rdf.String {
		if t.Kind == rdf.Blank {
			return rdf.Term{}, errType
		}
		if b, err := booleanOf(t); err == nil && t.Datatype == rdf.Boolean {
			return rdf.NewString(strconv.FormatBool(b == 1)), nil
		}
		if n, err := numberOf(t); err == nil {
			return rdf.NewString(n.text()), nil
		}
		return rdf.NewString(t.Value), nil
	}
	if t.Kind != rdf.Literal || t.Lang != "" {
		return rdf.Term{}, errType
	}
	text := t.Datatype == ""
	n, numErr := numberOf(t)
	if t.Datatype == rdf.Boolean {
		b, err := booleanOf(t)
		if err != nil {
			return rdf.Term{}, err
		}
		n, numErr = number{rat: big.NewRat(int64(b), 1)}, nil
	}
	switch to {
	case rdf.Boolean:
		if text {
			b, err := booleanOf(rdf.Term{Value: strings.TrimSpace(t.Value)})
			return boolean(b == 1), err // text that means neither is an error
		}
		return boolean(!n.zero()), numErr
	case rdf.DateTime:
		out := rdf.NewTyped(t.Value, rdf.DateTime)
		if _, ok := timeOf(out); !ok || !text && t.Datatype != rdf.DateTime {
			return rdf.Term{}, errType
		}
		return out, nil
	}
	if text {
		out := rdf.NewTyped(strings.TrimSpace(t.Value), to)
		_, err := numberOf(out)
		return out, err
	}
	if numErr != nil {
		return rdf.Term{}, numErr
	}
	if to == rdf.Double || to == rdf.Float {
		return number{f: n.float(), rank: map[string]int{rdf.Float: 2, rdf.Double: 3}[to]}.term(), nil
	}
	if n.rat == nil {
		if n.rat = new(big.Rat).SetFloat64(n.f); n.rat == nil {
			return rdf.Term{}, errType
		}
	}
	n.rank = map[string]int{rdf.Integer: 0, rdf.Decimal: 1}[to]
	return n.term(), nil
}

// builtin is a function of SPARQL. do is set for each; those that do not evaluate all of their arguments are
// in value.
type builtin struct {
	least, most int // arguments; most -1: any number
	do          func([]rdf.Term) (rdf.Term, error)
}

// builtins returns the functions, by their names in capitals.
func builtins() map[string]builtin {
	return map[string]builtin{
		"BOUND": {1, 1, special}, "IF": {3, 3, special}, "COALESCE": {0, -1, special},
		"STR": {1, 1, func(a []rdf.Term) (rdf.Term, error) {
			if a[0].Kind == rdf.Blank {
				return rdf.Term{}, errType
			}
			return rdf.NewString(a[0].Value), nil
		}},
		"LANG":     {1, 1, literal(func(t rdf.Term) rdf.Term { return rdf.NewString(t.Lang) })},
		"DATATYPE": {1, 1, literal(func(t rdf.Term) rdf.Term { return rdf.NewIRI(t.Type()) })},
		"LANGMATCHES": {2, 2, func(a []rdf.Term) (rdf.Term, error) {
			if !a[0].IsText() || !a[1].IsText() {
				return rdf.Term{}, errType
			}
			tag, want := strings.ToLower(a[0].Value), strings.ToLower(a[1].Value)
			return boolean(tag != "" && (want == "*" || tag == want || strings.HasPrefix(tag, want+"-"))), nil
		}},
		"IRI": {1, 1, special}, "URI": {1, 1, special},
		"ISIRI": {1, 1, is(rdf.IRI)}, "ISURI": {1, 1, is(rdf.IRI)}, "ISBLANK": {1, 1, is(rdf.Blank)}, "ISLITERAL": {1, 1, is(rdf.Literal)},
		"ISNUMERIC": {1, 1, func(a []rdf.Term) (rdf.Term, error) {
			_, err := numberOf(a[0])
			return boolean(err == nil), nil
		}},
		"SAMETERM": {2, 2, func(a []rdf.Term) (rdf.Term, error) { return boolean(a[0] == a[1]), nil }},
		"REGEX": {2, 3, func(a []rdf.Term) (rdf.Term, error) {
			re, err := pattern3(a, 2)
			if err != nil || !isString(a[0]) {
				return rdf.Term{}, errType
			}
			return boolean(re.MatchString(a[0].Value)), nil
		}},
		"REPLACE": {3, 4, func(a []rdf.Term) (rdf.Term, error) {
			re, err := pattern3(a, 3)
			if err != nil || !isString(a[0]) || re.MatchString("") {
				return rdf.Term{}, errType
			}
			with := regexp.MustCompile(`\$(\d)`).ReplaceAllString(a[2].Value, `$${$1}`)
			return bounded(like(a[0], re.ReplaceAllString(a[0].Value, with)))
		}},
		"STRLEN": {1, 1, text(func(t rdf.Term) rdf.Term {
			return rdf.NewTyped(strconv.Itoa(utf8.RuneCountInString(t.Value)), rdf.Integer)
		})},
		"UCASE": {1, 1, text(func(t rdf.Term) rdf.Term { return like(t, strings.ToUpper(t.Value)) })},
		"LCASE": {1, 1, text(func(t rdf.Term) rdf.Term { return like(t, strings.ToLower(t.Value)) })},
		"SUBSTR": {2, 3, func(a []rdf.Term) (rdf.Term, error) {
			from, err := numberOf(a[1])
			if err != nil || !isString(a[0]) {
				return rdf.Term{}, errType
			}
			runes := []rune(a[0].Value)
			start, end := math.Round(from.float()), math.Inf(1)
			if len(a) == 3 {
				n, err := numberOf(a[2])
				if err != nil {
					return rdf.Term{}, err
				}
				end = start + math.Round(n.float())
			}
			var b strings.Builder
			for i, r := range runes {
				if at := float64(i + 1); at >= start && at < end {
					b.WriteRune(r)
				}
			}
			return like(a[0], b.String()), nil
		}},
		"STRSTARTS": {2, 2, both(func(s, t rdf.Term) rdf.Term { return boolean(strings.HasPrefix(s.Value, t.Value)) })},
		"STRENDS":   {2, 2, both(func(s, t rdf.Term) rdf.Term { return boolean(strings.HasSuffix(s.Value, t.Value)) })},
		"CONTAINS":  {2, 2, both(func(s, t rdf.Term) rdf.Term { return boolean(strings.Contains(s.Value, t.Value)) })},
		"STRBEFORE": {2, 2, both(func(s, t rdf.Term) rdf.Term {
			before, _, ok := strings.Cut(s.Value, t.Value)
			if !ok {
				return rdf.NewString("")
			}
			return like(s, before)
		})},
		"STRAFTER": {2, 2, both(func(s, t rdf.Term) rdf.Term {
			_, after, ok := strings.Cut(s.Value, t.Value)
			if !ok {
				return rdf.NewString("")
			}
			return like(s, after)
		})},
		"CONCAT": {0, -1, func(a []rdf.Term) (rdf.Term, error) {
			var b strings.Builder
			same := len(a) > 0
			for _, t := range a {
				if !isString(t) {
					return rdf.Term{}, errType
				}
				b.WriteString(t.Value)
				same = same && t.Lang == a[0].Lang && t.Datatype == a[0].Datatype
			}
			if same {
				return bounded(like(a[0], b.String()))
			}
			return bounded(rdf.NewString(b.String()))
		}},
		"ABS":     {1, 1, rounded(func(r *big.Rat) *big.Rat { return new(big.Rat).Abs(r) }, math.Abs)},
		"CEIL":    {1, 1, rounded(func(r *big.Rat) *big.Rat { return new(big.Rat).Neg(floor(new(big.Rat).Neg(r))) }, math.Ceil)},
		"FLOOR":   {1, 1, rounded(floor, math.Floor)},
		"ROUND":   {1, 1, rounded(func(r *big.Rat) *big.Rat { return floor(new(big.Rat).Add(r, big.NewRat(1, 2))) }, func(f float64) float64 { return math.Floor(f + 0.5) })},
		"YEAR":    {1, 1, moment(func(t time.Time) int { return t.Year() })},
		"MONTH":   {1, 1, moment(func(t time.Time) int { return int(t.Month()) })},
		"DAY":     {1, 1, moment(time.Time.Day)},
		"HOURS":   {1, 1, moment(time.Time.Hour)},
		"MINUTES": {1, 1, moment(time.Time.Minute)},
		"SECONDS": {1, 1, func(a []rdf.Term) (rdf.Term, error) {
			at, ok := timeOf(a[0])
			if !ok {
				return rdf.Term{}, errType
			}
			n := number{rat: big.NewRat(int64(at.Second())*1e9+int64(at.Nanosecond()), 1e9), rank: 1}.term()
			n.Value = strings.TrimSuffix(n.Value, ".0")
			return n, nil
		}},
	}
}

func special([]rdf.Term) (rdf.Term, error) { return rdf.Term{}, errType }

func isString(t rdf.Term) bool { return t.IsText() || t.Kind == rdf.Literal && t.Lang != "" }

// like returns a text with the language of another.
func like(t rdf.Term, s string) rdf.Term {
	return rdf.Term{Kind: rdf.Literal, Value: s, Lang: t.Lang, Datatype: t.Datatype}
}

func bounded(t rdf.Term) (rdf.Term, error) {
	if len(t.Value) > rdf.MaxTerm {
		return rdf.Term{}, errType
	}
	return t, nil
}

func literal(f func(rdf.Term) rdf.Term) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) {
		if a[0].Kind != rdf.Literal {
			return rdf.Term{}, errType
		}
		return f(a[0]), nil
	}
}

func text(f func(rdf.Term) rdf.Term) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) {
		if !isString(a[0]) {
			return rdf.Term{}, errType
		}
		return f(a[0]), nil
	}
}

// both is a function of two texts of compatible languages.
func both(f func(s, t rdf.Term) rdf.Term) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) {
		if !isString(a[0]) || !isString(a[1]) || a[1].Lang != "" && a[1].Lang != a[0].Lang {
			return rdf.Term{}, errType
		}
		return f(a[0], a[1]), nil
	}
}

func is(k rdf.Kind) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) { return boolean(a[0].Kind == k), nil }
}

// iri turns a text into an IRI, relative to the base of the query.
func iri(base string, t rdf.Term) (rdf.Term, error) {
	if t.Kind == rdf.IRI {
		return t, nil
	}
	if !t.IsText() {
		return rdf.Term{}, errType
	}
	return rdf.NewIRI(rdf.Resolve(base, t.Value)), nil
}

func floor(r *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Div(r.Num(), r.Denom()))
}

func rounded(exact func(*big.Rat) *big.Rat, float func(float64) float64) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) {
		n, err := numberOf(a[0])
		if err != nil {
			return rdf.Term{}, err
		}
		if n.rat != nil {
			n.rat = exact(n.rat)
			t := n.term()
			t.Value = strings.TrimSuffix(t.Value, ".0")
			return t, nil
		}
		n.f = float(n.f)
		return n.term(), nil
	}
}

func moment(f func(time.Time) int) func([]rdf.Term) (rdf.Term, error) {
	return func(a []rdf.Term) (rdf.Term, error) {
		at, ok := timeOf(a[0])
		if !ok || a[0].Datatype != rdf.DateTime {
			return rdf.Term{}, errType
		}
		return rdf.NewTyped(strconv.Itoa(f(at)), rdf.Integer), nil
	}
}

// pattern3 compiles the regular expression a[1] with the flags a[flags]. Go's expressions take linear time,
// so that a hostile one does no harm.
func pattern3(a []rdf.Term, flags int) (*regexp.Regexp, error) {
	if !a[1].IsText() || len(a[1].Value) > 1000 {
		return nil, errType
	}
	source := a[1].Value
	if len(a) > flags {
		f := a[flags].Value
		if strings.Trim(f, "ismxq") != "" {
			return nil, errType
		}
		if strings.Contains(f, "q") {
			source = regexp.QuoteMeta(source)
		}
		if strings.Contains(f, "x") {
			source = strings.Join(strings.Fields(source), "")
		}
		if f = strings.Trim(strings.NewReplacer("q", "", "x", "").Replace(f), " "); f != "" {
			source = "(?" + f + ")" + source
		}
	}
	return regexp.Compile(source)
}
