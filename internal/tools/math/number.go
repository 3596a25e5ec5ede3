package math

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// number is a value of the calculator. It is exact if possible, and marked once a result was rounded.
type number struct {
	*big.Rat
	rounded bool
}

// JSONSchema returns the schema of a number argument.
func (number) JSONSchema() string { return `{"type":"number"}` }

// UnmarshalJSON keeps every digit of a JSON number.
func (n *number) UnmarshalJSON(b []byte) error {
	r, ok := new(big.Rat).SetString(string(b))
	if !ok {
		return fault.New(fault.Invalid, "args_invalid", "%.40s is not a number", b)
	}
	n.Rat = r
	return nil
}

// Limits of the calculator: the size of a result, and the digits that are shown of a rounded one.
const (
	maxBits     = 1 << 16 // about 19,700 decimal digits
	roundDigits = 15
)

func exact(r *big.Rat) number     { return number{Rat: r} }
func whole(i *big.Int) number     { return number{Rat: new(big.Rat).SetInt(i)} }
func integer(i int) number        { return number{Rat: big.NewRat(int64(i), 1)} }
func negate(n number) number      { return number{new(big.Rat).Neg(n.Rat), n.rounded} }
func (n number) size() int        { return max(n.Num().BitLen(), n.Denom().BitLen()) }
func (n number) by(m number) bool { return n.rounded || m.rounded }

var (
	errDivision = fault.New(fault.Invalid, "division_by_zero", "division by zero")
	errTooBig   = fault.New(fault.TooLarge, "number_too_large", "the result is too large to write down").WithHint("use smaller numbers")
)

// checked refuses a result that is too large.
func checked(r *big.Rat, rounded bool) (number, error) {
	n := number{r, rounded}
	if n.size() > maxBits {
		return number{}, errTooBig
	}
	return n, nil
}

func add(a, b number) (number, error) { return checked(new(big.Rat).Add(a.Rat, b.Rat), a.by(b)) }
func sub(a, b number) (number, error) { return checked(new(big.Rat).Sub(a.Rat, b.Rat), a.by(b)) }
func mul(a, b number) (number, error) { return checked(new(big.Rat).Mul(a.Rat, b.Rat), a.by(b)) }

func div(a, b number) (number, error) {
	if b.Sign() == 0 {
		return number{}, errDivision
	}
	return checked(new(big.Rat).Quo(a.Rat, b.Rat), a.by(b))
}

// mod returns the remainder with the divisor's sign: a - b*floor(a/b).
func mod(a, b number) (number, error) {
	q, err := div(a, b)
	if err != nil {
		return number{}, err
	}
	return checked(new(big.Rat).Sub(a.Rat, new(big.Rat).Mul(b.Rat, floor(q).Rat)), a.by(b))
}

func floor(a number) number {
	// Div rounds down for a positive divisor, which a denominator is.
	return number{new(big.Rat).SetInt(new(big.Int).Div(a.Num(), a.Denom())), a.rounded}
}

func pow(a, b number) (number, error) {
	switch {
	case b.IsInt():
		return powInt(a, b)
	case a.Sign() < 0 && b.Denom().Bit(0) == 0:
		return number{}, fault.New(fault.Invalid, "no_real_result", "an even root of a negative number is not a real number")
	case b.Denom().IsInt64() && b.Denom().Int64() <= 64:
		r, err := root(a, whole(b.Denom()))
		if err != nil {
			return number{}, err
		}
		return powInt(r, number{new(big.Rat).SetInt(b.Num()), r.by(b)})
	case a.Sign() < 0:
		return number{}, fault.New(fault.Invalid, "no_real_result", "a negative number to such a power is not a real number")
	}
	x, _ := a.Float64()
	y, _ := b.Float64()
	return approximate(math.Pow(x, y))
}

func powInt(a, b number) (number, error) {
	exp, rounded := b.Num(), a.by(b)
	switch {
	case a.Sign() == 0 && b.Sign() < 0:
		return number{}, errDivision
	case a.Sign() == 0 && b.Sign() > 0:
		return number{new(big.Rat), rounded}, nil
	case a.size() <= 1: // 1 and -1 (and 0 to the 0) take any power
		return number{a.power(new(big.Int).And(exp, big.NewInt(1)).Int64()), rounded}, nil
	case !exp.IsInt64() || float64(a.size()-1)*math.Abs(float64(exp.Int64())) > maxBits:
		return number{}, errTooBig
	}
	return checked(a.power(exp.Int64()), rounded)
}

// power returns n to the exp. If exp is negative, n must not be zero.
func (n number) power(exp int64) *big.Rat {
	e := new(big.Int).Abs(big.NewInt(exp))
	num, den := new(big.Int).Exp(n.Num(), e, nil), new(big.Int).Exp(n.Denom(), e, nil)
	if exp < 0 {
		num, den = den, num
	}
	return new(big.Rat).SetFrac(num, den)
}

// root returns the n-th root of a, exact if possible.
func root(a, n number) (number, error) {
	if !n.IsInt() || n.Sign() <= 0 || !n.Num().IsInt64() || n.Num().Int64() > 1000 {
		return number{}, fault.New(fault.Invalid, "root_invalid", "the degree of a root is a whole number from 1 to 1000")
	}
	k := int(n.Num().Int64())
	if a.Sign() < 0 && k%2 == 0 {
		return number{}, fault.New(fault.Invalid, "no_real_result", "an even root of a negative number is not a real number")
	}
	num, okNum := rootInt(new(big.Int).Abs(a.Num()), k)
	den, okDen := rootInt(a.Denom(), k)
	if okNum && okDen {
		return number{signed(new(big.Rat).SetFrac(num, den), a.Sign()), a.rounded}, nil
	}
	x, _ := new(big.Rat).Abs(a.Rat).Float64()
	if x == 0 || math.IsInf(x, 0) {
		return number{}, errTooBig
	}
	n, err := approximate(math.Pow(x, 1/float64(k)))
	return number{signed(n.Rat, a.Sign()), true}, err
}

func signed(r *big.Rat, sign int) *big.Rat {
	if sign < 0 {
		r.Neg(r)
	}
	return r
}

// rootInt returns the k-th root of x >= 0 if it is whole and, beyond square roots, has up to 15 digits.
func rootInt(x *big.Int, k int) (r *big.Int, isWhole bool) {
	if k == 2 {
		r = new(big.Int).Sqrt(x)
	} else {
		f, _ := new(big.Float).SetInt(x).Float64()
		r, _ = new(big.Float).SetFloat64(math.Round(math.Pow(min(f, math.MaxFloat64), 1/float64(k)))).Int(nil)
	}
	return r, new(big.Int).Exp(r, big.NewInt(int64(k)), nil).Cmp(x) == 0
}

// approximate takes a floating-point result.
func approximate(f float64) (number, error) {
	switch {
	case math.IsNaN(f):
		return number{}, fault.New(fault.Invalid, "no_real_result", "this has no result among the real numbers")
	case math.IsInf(f, 0):
		return number{}, errTooBig
	}
	// A double has 15 reliable digits; with those, what should be 0.5 is 0.5.
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', 14, 64))
	return number{r, true}, nil
}

// String returns the value in decimal: all digits if they end, and otherwise rounded with a remark.
func (n number) String() string {
	if n.IsInt() && !n.rounded {
		return n.Num().String()
	}
	if places, ends := n.FloatPrec(); ends && !n.rounded && places <= 60 {
		return n.FloatString(places)
	}
	s := n.round()
	if r, _ := new(big.Rat).SetString(s); !n.rounded && r.Cmp(n.Rat) == 0 {
		return s
	}
	return s + " (rounded)"
}

// round returns the value with roundDigits significant digits, without trailing zeros.
func (n number) round() string {
	return strings.Replace(new(big.Float).SetPrec(256).SetRat(n.Rat).Text('g', roundDigits), "e+", "e", 1)
}
