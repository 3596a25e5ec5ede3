package anthropic

import "strings"

// traits are the capabilities of a model, by its name, as Anthropic documents them.
//
// Sources: https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting
// (thinking), …/about-claude/models/migration-guide (sampling, forced tools),
// …/build-with-claude/structured-outputs, …/about-claude/models/overview (limits).
type traits struct {
	maxTokens int  // sent if the request sets no limit: the API requires one
	thinking  mode // how thinking is requested
	off       off  // how it is turned off
	sampling  bool // temperature may be set
	native    bool // output_config.format is known
	bound     bool // thinking is bound to its conversation
}

type mode int

const (
	budget   mode = iota // {"type":"enabled","budget_tokens":N}
	adaptive             // {"type":"adaptive"} and output_config.effort
	unable               // the model does not think
)

type off int

const (
	offOmit    off = iota // it does not think unless asked to
	offType               // {"type":"disabled"}
	offBetween            // {"type":"between_tools"}, the closest setting to off
	offNever              // it always thinks
)

// The defaults for max_tokens: small enough for every model of the group, large enough for a long
// answer. A reply that reaches the limit is continued.
const (
	tokensClaude3  = 4096
	tokensUnknown  = 8192 // Claude 3.5, and models of compatible servers
	tokensThinking = 32000
)

// traitsOf reads family and version from a name like claude-opus-4-6, claude-3-7-sonnet-20250219 or
// anthropic.claude-sonnet-5-5. For other names it assumes that the server is a compatible one,
// which follows the older rules.
func traitsOf(name string) traits {
	family, v := parse(name)
	switch {
	case family == "":
		return traits{maxTokens: tokensUnknown, sampling: true}
	case v < 305:
		return traits{maxTokens: tokensClaude3, thinking: unable, sampling: true}
	case v < 307:
		return traits{maxTokens: tokensUnknown, thinking: unable, sampling: true}
	case v < 406:
		return traits{maxTokens: tokensThinking, sampling: true, native: v >= 405}
	case v < 500:
		return traits{maxTokens: tokensThinking, thinking: adaptive, sampling: v < 407, native: true}
	}
	t := traits{maxTokens: tokensThinking, thinking: adaptive, off: offNever, native: true, bound: v > 500}
	switch {
	case family == "sonnet" && v == 500, family == "opus" && v == 500, family == "haiku":
		t.off = offType
	case family == "sonnet" && v == 505:
		t.off = offBetween
	}
	return t
}

// parse returns the family, which is empty if the name is not Claude's, and the version as
// major*100+minor. A name without a version is assumed to be a new model.
func parse(name string) (family string, version int) {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude")
	if !ok {
		return "", 0
	}
	var numbers []int
	family = "claude"
	for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("-.@:_/", r) }) {
		switch n, isNumber := smallNumber(word); {
		case isNumber && len(numbers) < 2:
			numbers = append(numbers, n)
		case isNumber || len(numbers) > 0 && family != "claude":
			// a date, a revision
		case word == "opus", word == "sonnet", word == "haiku", word == "fable", word == "mythos":
			family = word
		}
	}
	switch len(numbers) {
	case 0:
		return family, 500
	case 1:
		return family, numbers[0] * 100
	}
	return family, numbers[0]*100 + numbers[1]
}

// smallNumber reads a number of one or two digits.
func smallNumber(word string) (n int, ok bool) {
	if len(word) > 2 {
		return 0, false
	}
	for i := range len(word) {
		if word[i] < '0' || word[i] > '9' {
			return 0, false
		}
		n = 10*n + int(word[i]-'0')
	}
	return n, len(word) > 0
}
