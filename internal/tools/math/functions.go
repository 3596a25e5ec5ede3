package math

import (
	"fmt"
	"math"
	"math/big"

	"steward/internal/fault"
)

// function is a function of expressions.
type function struct {
	least, most int // arguments
	call        func([]number) (number, error)
}

func (f function) takes() string {
	switch f.most {
	case f.least:
		return fmt.Sprint(f.least)
	case many:
		return fmt.Sprintf("%d or more", f.least)
	}
	return fmt.Sprintf("%d to %d", f.least, f.most)
}

const many = 1000

// functionNames is the list for errors and the description.
const functionNames = "abs, sqrt, cbrt, root(x, n), floor, ceil, round(x, places), min, max, sum, avg, mod, pow, " +
	"exp, ln, log(x, base), log10, sin, cos, tan, asin, acos, atan (in radians)"

// constants are read only.
var constants = map[string]number{
	"pi": decimal("3.14159265358979323846264338327950288"), "π": decimal("3.14159265358979323846264338327950288"),
	"e": decimal("2.71828182845904523536028747135266250"),
}

// decimal returns an irrational number by its first digits.
func decimal(digits string) number {
	r, _ := new(big.Rat).SetString(digits)
	return number{r, true}
}

// functions are read only.
var functions = map[string]function{
	"abs":   {1, 1, func(a []number) (number, error) { return number{new(big.Rat).Abs(a[0].Rat), a[0].rounded}, nil }},
	"sqrt":  {1, 1, func(a []number) (number, error) { return root(a[0], integer(2)) }},
	"cbrt":  {1, 1, func(a []number) (number, error) { return root(a[0], integer(3)) }},
	"root":  {2, 2, func(a []number) (number, error) { return root(a[0], a[1]) }},
	"pow":   {2, 2, func(a []number) (number, error) { return pow(a[0], a[1]) }},
	"mod":   {2, 2, func(a []number) (number, error) { return mod(a[0], a[1]) }},
	"floor": {1, 1, func(a []number) (number, error) { return floor(a[0]), nil }},
	"ceil":  {1, 1, func(a []number) (number, error) { return negate(floor(negate(a[0]))), nil }},
	"round": {1, 2, round},
	"min":   fold(func(a, b number) (number, error) { return pick(a, b, -1), nil }),
	"max":   fold(func(a, b number) (number, error) { return pick(a, b, 1), nil }),
	"sum":   fold(add),
	"avg": {1, many, func(a []number) (number, error) {
		n, err := fold(add).call(a)
		if err != nil {
			return n, err
		}
		return div(n, integer(len(a)))
	}},
	"exp":   floating(math.Exp),
	"ln":    floating(math.Log),
	"log10": floating(math.Log10),
	"log": {1, 2, func(a []number) (number, error) {
		x, _ := a[0].Float64()
		base := 10.0
		if len(a) == 2 {
			base, _ = a[1].Float64()
		}
		if base == 10 {
			return approximate(math.Log10(x))
		}
		return approximate(math.Log(x) / math.Log(base))
	}},
	"sin":  floating(roundNearZero(math.Sin)),
	"cos":  floating(roundNearZero(math.Cos)),
	"tan":  floating(roundNearZero(math.Tan)),
	"asin": floating(math.Asin),
	"acos": floating(math.Acos),
	"atan": floating(math.Atan),
}

// fold makes a function of any number of arguments from one of two.
func fold(call func(a, b number) (number, error)) function {
	return function{1, many, func(args []number) (number, error) {
		n := args[0]
		for _, m := range args[1:] {
			var err error
			if n, err = call(n, m); err != nil {
				return n, err
			}
		}
		return n, nil
	}}
}

func floating(fn func(float64) float64) function {
	return function{1, 1, func(a []number) (number, error) {
		x, _ := a[0].Float64()
		return approximate(fn(x))
	}}
}

// roundNearZero returns 0 for results that differ from it only because pi is rounded.
func roundNearZero(fn func(float64) float64) func(float64) float64 {
	return func(x float64) float64 {
		if y := fn(x); math.Abs(y) > 1e-15 {
			return y
		}
		return 0
	}
}

func pick(a, b number, sign int) number {
	if b.Cmp(a.Rat) == sign {
		return number{b.Rat, a.by(b)}
	}
	return number{a.Rat, a.by(b)}
}

// round rounds half away from zero.
func round(args []number) (number, error) {
	places := int64(0)
	if len(args) == 2 {
		if !args[1].IsInt() || !args[1].Num().IsInt64() || math.Abs(float64(args[1].Num().Int64())) > 1000 {
			return number{}, fault.New(fault.Invalid, "places_invalid", "round takes a whole number of places from -1000 to 1000")
		}
		places = args[1].Num().Int64()
	}
	scale := integer(10).power(places)
	scaled := new(big.Rat).Mul(args[0].Rat, scale)
	scaled.Abs(scaled).Add(scaled, big.NewRat(1, 2))
	n := signed(floor(exact(scaled)).Rat, args[0].Sign())
	return exact(n.Quo(n, scale)), nil
}
