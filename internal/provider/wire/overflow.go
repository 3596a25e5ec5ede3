package wire

import (
	"regexp"
	"strconv"
	"strings"
)

// Servers say in many words that a request is too long. tooLong recognises it by what they have in common: words
// for length, tokens or context, with what is allowed and what was sent.
var (
	// lengthWords match refusals that say so without numbers.
	lengthWords = regexp.MustCompile(`context[ _-]?(?:length|window|size|limit|overflow)|maximum context|` +
		`(?:prompt|input|request|messages?|conversation|history|content|payload|entity)(?: \S+){0,3} too (?:long|large|big)|` +
		`too many (?:input |prompt |total )?tokens|(?:token|input|prompt) limit|token count\S* (?:\S+ ){0,3}exceed|` +
		`exceed\S*(?: \S+){0,7} (?:context|tokens?|input length|prompt length|maximum length|sequence length)\b|` +
		`(?:context|tokens?|prompt|input(?: length)?|conversation|sequence(?: length)?)(?: \S+){0,4} (?:exceeds?|exceeded|is over|is larger|is longer)\b|` +
		`(?:length|tokens?)(?: \S+){0,4} must be (?:less|fewer|smaller|at most|<=?)(?: than)?(?: or equal to)? \d{3,}|` +
		`(?:request|payload|body)(?: \S+){0,3} exceeds? (?:the |its )?(?:maximum|limit|allowed)|context ?shift|` +
		`max_model_len|max_seq_len|max_input_(?:tokens|length)|n_ctx|(?:maximum|max) (?:prompt|input|sequence) length|range of input length|` +
		`(?:reduce|shorten) (?:the |your )?(?:length|size|prompt|input|messages?|conversation|context)|` +
		`超长|过长|太长|(?:长度|上下文|输入|tokens?)\S{0,12}(?:超过|超出|超限)|(?:超过|超出)\S{0,12}(?:长度|上下文|限制|tokens?)`)
	// aboutLength are words beside which two numbers are what was sent and what is allowed.
	aboutLength = regexp.MustCompile(`token|length|context|prompt|input|window|sequence|max_seq`)
	// aboutAnswer matches refusals of a setting that bounds the answer, and aboutRequest what makes them one of the
	// request's length all the same.
	aboutAnswer  = regexp.MustCompile("max_(?:completion_|output_)?tokens|max_new_tokens|maxoutputtokens|(?:completion|output) tokens|num_predict")
	aboutRequest = regexp.MustCompile(`prompt|input|context|messages|total`)
	// nothingLeft matches refusals of what the server itself computed to be left for the answer.
	nothingLeft = regexp.MustCompile(`max_(?:completion_|output_|new_)?tokens\S* must be (?:\S+ ){1,5}(?:got|given|is):? -\d{2,}`)
	// aboutCharacters matches refusals that count characters.
	aboutCharacters = regexp.MustCompile(`characters?\b|maxlength|string too long`)
	// aboutOther matches refusals of something else that is counted.
	aboutOther = regexp.MustCompile(`tools?[\[.]|tool_choice|functions?[\[. ]|temperature|top_[pk]|top_logprobs|budget|stop|image|pixel|audio|file|` +
		`pdf|dimension|per (?:second|min|hour|day)|rate limit|quota|credit|schema|propert|memory|\bgib\b`)
	// rateOfOne matches the refusal of a request that is larger than what is allowed in a minute: it never fits.
	rateOfOne = regexp.MustCompile(`limit:? (\d+), requested:? (\d+)`)

	thousands = regexp.MustCompile(`(\d)[,_' ](\d{3})\b`)
	digits    = regexp.MustCompile(`\d+`)
	unitAfter = regexp.MustCompile(`^ ?(?:characters?|chars?|bytes?|kb|mb|gb|kib|mib|gib|%|requests?|messages?|images?|seconds?|ms)\b`)
	allowed   = regexp.MustCompile(`max|limit|allow|at most|up to|window|context|only|support|<|than|exceed|\bover\b|should be|between|accept|can handle|限`)
)

// minNumber is the smallest number that is taken for a count of tokens.
const minNumber = 256

// plainWords returns the beginning of a refusal in a form that is easy to match.
func plainWords(message string) string {
	if len(message) > maxWords {
		message = message[:maxWords]
	}
	message = strings.ToLower(message)
	for {
		shorter := thousands.ReplaceAllString(message, "$1$2")
		if shorter == message {
			return message
		}
		message = shorter
	}
}

// tooLong reports whether a refusal says that the request is too long.
func tooLong(message string) bool {
	m := plainWords(message)
	if aboutAnswer.MatchString(m) && !nothingLeft.MatchString(m) && !aboutRequest.MatchString(aboutAnswer.ReplaceAllString(m, "")) {
		return false
	}
	if nothingLeft.MatchString(m) {
		return true
	}
	if lengthWords.MatchString(m) {
		return !aboutOther.MatchString(m) || strings.Contains(m, "token") || strings.Contains(m, "context") || strings.Contains(m, "prompt")
	}
	return !aboutOther.MatchString(m) && len(counts(m)) > 0 && len(digits.FindAllString(m, 3)) > 1
}

// neverFits reports whether a request is larger than what a server accepts in a minute.
func neverFits(message string) bool {
	m := plainWords(message)
	found := rateOfOne.FindStringSubmatch(m)
	if found == nil || !strings.Contains(m, "token") {
		return false
	}
	limit, requested := atoi(found[1]), atoi(found[2])
	return limit >= minNumber && requested > limit
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > maxWindow {
		return 0
	}
	return n
}

// count is a number in a refusal that may be one of tokens.
type count struct {
	n       int
	allowed bool // what is allowed, as the words before it say
}

// contextDistance is how far from a number the words about it stand, in bytes.
const contextDistance = 48

// counts returns the numbers that stand near a word for length and can be counts of tokens.
func counts(m string) (list []count) {
	before := 0
	for _, at := range digits.FindAllStringIndex(m, 32) {
		n := atoi(m[at[0]:at[1]])
		from, to := max(before, at[0]-contextDistance), min(len(m), at[1]+contextDistance)
		lead := m[from:at[0]]
		before = at[1]
		if n < minNumber || unitAfter.MatchString(m[at[1]:]) || strings.HasSuffix(lead, " by ") || !aboutLength.MatchString(m[max(0, at[0]-contextDistance):to]) {
			continue
		}
		list = append(list, count{n, allowed.MatchString(lead)})
	}
	return list
}

// allowedCount returns how many tokens a refusal says are allowed, by the structure of its sentence, or 0.
func allowedCount(m string) int {
	if aboutCharacters.MatchString(m) && !strings.Contains(m, "token") || nothingLeft.MatchString(m) {
		return 0
	}
	list := counts(m)
	least, marked := 0, false
	for _, c := range list {
		if c.allowed && !marked {
			least, marked = 0, true
		}
		if c.allowed == marked && (least == 0 || c.n < least) {
			least = c.n
		}
	}
	if !marked && len(digits.FindAllString(m, 3)) < 2 {
		return 0
	}
	return least
}
