// Package math provides the tools that compute: a calculator, exact where it can be, and the hashes of texts.
package math

import (
	"context"
	"strings"

	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Tools returns the tools.
func Tools() ([]tool.Tool, error) {
	calculator, text := local.NewKit(tool.Env{Name: "math"}, ""), local.NewKit(tool.Env{Name: "text"}, "")
	addMath(calculator)
	addHash(text)
	tools, err := calculator.Tools()
	if err != nil {
		return nil, err
	}
	hash, err := text.Tools()
	return append(tools, hash...), err
}

// query adds a query from a function that needs only its arguments.
func query[In, Out any](to *local.Kit, name, description string, log tool.LogSpec, fn func(In) (Out, error)) {
	local.Query(to, tool.Spec{Name: name, Description: description, Log: log},
		func(_ context.Context, _ tool.Invocation, in In) (Out, error) { return fn(in) })
}

// addMath adds the calculator.
func addMath(to *local.Kit) {
	type pair struct {
		A number `json:"a" jsonschema:"the first number"`
		B number `json:"b" jsonschema:"the second number"`
	}
	two := func(name, description, summary string, fn func(a, b number) (number, error)) {
		query(to, name, description, tool.LogSpec{Summary: summary}, func(in pair) (string, error) { return shown(fn(in.A, in.B)) })
	}
	two("add", "Adds two numbers: the sum a + b, a plus b. Exact.", "Add {a} and {b}", add)
	two("subtract", "Subtracts b from a: the difference a - b, a minus b. Exact.", "Subtract {b} from {a}", sub)
	two("multiply", "Multiplies two numbers: the product a * b, a times b. Exact.", "Multiply {a} by {b}", mul)
	two("divide", "Divides a by b: the quotient a / b, a divided by b, a over b.", "Divide {a} by {b}", div)
	type evaluateArgs struct {
		Expression string `json:"expression" jsonschema:"the formula, for example (2 + 3) * sqrt(16) / 4" minlen:"1" maxlen:"4096"`
	}
	query(to, "evaluate", "Evaluates a formula, an arithmetic expression with several operations, parentheses, percentages or functions: + - * / ^, % (remainder, or percent after a number), "+functionNames+", pi, e. Exact where it can be.",
		tool.LogSpec{Summary: "Compute {expression}"},
		func(in evaluateArgs) (string, error) { return shown(evaluate(strings.TrimSpace(in.Expression))) })
}

func shown(n number, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return n.String(), nil
}
