package offline

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/search/words"
)

// maxWish is the maximum length of a user's text, in bytes. A longer one is refused.
const maxWish = 8 << 10

// maxRun is the maximum length of a token, in bytes, unless it is a quotation.
const maxRun = 256

// kind is the kind of a value in a sentence. The constants are in the order of the pattern's groups, except
// for quotations, which are found first.
type kind uint8

const (
	plain   kind = iota // an ordinary word or sign
	link                // a URL
	address             // an e-mail address
	moment              // a day with a time of day
	date                // a day
	length              // a length of time, in seconds
	clock               // a time of day
	file                // the name or path of a file
	numeral             // 12, 1,250.5, twelve
	name                // words with capital letters within a sentence
	quoted              // a text in quotation marks
)

// token is a word, a sign or a value of a sentence.
type token struct {
	kind   kind
	text   string // as written; of a quotation without the marks
	word   string // a plain word in lower case; a sign itself
	value  string // of a value: in the form of an argument; "" if that is not certain
	begins string // of a day: the moment
	lo, hi int    // bytes of the sentence
}

const (
	numberPattern = `\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|` +
		`(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty)\b`
	monthPattern = `(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:tember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)`
	datePattern  = `(?:\d{4}-\d\d-\d\d|today|tomorrow|(?:(?:this|next|the)\s)?weekend|(?:(?:next|last)\s)?(?:mon|tues|wednes|thurs|fri|satur|sun)day|` +
		monthPattern + `\s\d{1,2}(?:st|nd|rd|th)?(?:,?\s\d{4})?|\d{1,2}(?:st|nd|rd|th)?\s` + monthPattern + `(?:\s\d{4})?)\b(?:['’]s)?`
	clockPattern  = `(?:(?:[01]?\d|2[0-3]):[0-5]\d\b(?:\s?[ap]\.?m\b\.?)?|(?:1[0-2]|[1-9])\s?[ap]m\b|noon\b)`
	unitPattern   = `\s(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?)\b`
	lengthPattern = `half an?` + unitPattern + `|(?:an?|` + numberPattern + `)` + unitPattern + `(?:\sand\sa\shalf\b|(?:\sand)?\s(?:` + numberPattern + `)` + unitPattern + `)?`
	wordPattern   = `[\p{L}\p{M}]*(?:['’-][\p{L}\p{M}\d]+)*\d*`
)

// pattern compiles a regular expression when it is first used, because most commands of Steward never use
// the offline model.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	patterns = pattern(`^(?:` +
		`(https?://[^\s<>"“”]+)|` +
		`([\w.+-]+@[\w-]+(?:\.[\w-]+)+)|` +
		`(?i:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d|` + datePattern + `(?:,?\sat|,)?\s` + clockPattern + `|` + clockPattern + `(?:\son|,)?\s` + datePattern + `)|` +
		`(` + datePattern + `)|(` + lengthPattern + `)|(` + clockPattern + `))|` +
		`((?:[\w.-]*/)?[A-Za-z][\w-]*\.[a-z][a-z0-9]{1,4}\b(?:/[\w.-]*)*|[\w.-]+/(?:[\w.-]+/?)*)|` +
		`(?i:(\d+(?:[.,]\d+)+|` + numberPattern + `))|` +
		`(\p{Lu}` + wordPattern + `(?:\s(?:(?:de|del|of|am|upon|da|la)\s)?\p{Lu}` + wordPattern + `)*)|` +
		`([\p{L}\p{M}]` + wordPattern + `)|(\S))`)
	dates   = pattern(`(?i)` + datePattern)
	clocks  = pattern(`(?i)` + clockPattern)
	closers = map[rune]string{'"': `"`, '“': "”", '„': "“", '«': "»", '`': "`", '\'': "'", '‘': "’"}
)

// scan splits a text into tokens. The time is proportional to the text, because no pattern looks further
// than maxRun bytes.
func scan(ctx context.Context, text string, now time.Time) (out []token) {
	de := german(text) || sums().MatchString(text)
	for at, begins := 0, true; at < len(text); {
		if ctx.Err() != nil {
			return nil
		}
		t, ok := quotation(text, at)
		if !ok {
			rest := text[at:min(len(text), at+maxRun)]
			m := patterns().FindStringSubmatchIndex(rest)
			if m == nil { // a space
				at++
				continue
			}
			group := 1
			for m[2*group] < 0 {
				group++
			}
			t = tokenOf(kind(group), rest[:m[1]], begins, now)
			if t.kind == numeral && t.text[0] <= '9' {
				t.value = figures(t.text, de)
			}
			t.lo, t.hi = at, at+len(t.text)
		}
		begins = t.kind == plain && strings.ContainsAny(t.text, ".!?;")
		out, at = append(out, t), t.hi
	}
	return out
}

// tokenOf reads a token. A capital letter at the beginning of a sentence does not make a name.
func tokenOf(k kind, text string, begins bool, now time.Time) token {
	t := token{kind: k, text: text, value: text}
	lower := strings.ReplaceAll(strings.ToLower(text), "’", "'")
	switch first, _, _ := strings.Cut(lower, " "); {
	case k == link:
		t.text = strings.TrimRight(text, ".,;:!?)")
		t.value = t.text
	case k == moment:
		t.value = momentOf(dateOf(dates().FindString(text), now), clocks().FindString(lower), now)
	case k == date:
		t.value = dateOf(text, now)
		t.begins = momentOf(t.value, "00:00", now)
	case k == length:
		t.value = secondsOf(lower)
	case k == clock:
		t.value = strings.Replace(text, "noon", "12:00", 1)
	case k == file:
		t.value = strings.TrimRight(text, ".")
	case k == numeral && text[0] <= '9': // its value depends on the language
	case k == numeral && lower != "one":
		t.value = strconv.Itoa(slices.Index(small, lower))
	case k == name && !begins && first != "i" && !strings.HasPrefix(first, "i'"):
		t.value = strings.TrimSuffix(strings.TrimSuffix(text, "'s"), "’s")
	case k == numeral || k == name || k > name:
		t.kind, t.text, t.word, t.value = plain, text[:max(strings.IndexFunc(text+" ", unicode.IsSpace), 1)], "", ""
		t.word = strings.ReplaceAll(strings.ToLower(t.text), "’", "'")
	}
	return t
}

// quotation reads a quotation that begins at a position of the text.
func quotation(text string, at int) (t token, ok bool) {
	r, size := utf8.DecodeRuneInString(text[at:])
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	closer, ok := closers[r]
	n := strings.Index(text[at+size:], closer)
	if !ok || n < 0 || at > 0 && !unicode.IsSpace(before) && !unicode.IsPunct(before) { // the end of "the dogs' food", or inches
		return t, false
	}
	t = token{kind: quoted, text: text[at+size : at+size+n], lo: at, hi: at + size + n + len(closer)}
	t.value = t.text
	next, _ := utf8.DecodeRuneInString(text[t.hi:])
	return t, !unicode.IsLetter(next) // an apostrophe within a word closes nothing
}

var (
	sums          = pattern(`(?i)\d\s*(?:mal|geteilt durch|prozent|hoch)\b`)
	englishFigure = pattern(`^(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?$`)
	germanFigure  = pattern(`^(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?$`)
	decimal       = pattern(`^\d+\.\d+$`)
)

// figures returns the value of a number in digits, or "" if it is not certain: 1,250.5 is written 1.250,5 in German.
func figures(text string, de bool) string {
	switch {
	case de && germanFigure().MatchString(text):
		return strings.ReplaceAll(strings.ReplaceAll(text, ".", ""), ",", ".")
	case de && decimal().MatchString(text), !de && englishFigure().MatchString(text):
		return strings.ReplaceAll(text, ",", "")
	}
	return ""
}

var small = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty")

// numberOf reads a number in digits or words.
func numberOf(word string) float64 {
	if f, err := strconv.ParseFloat(strings.ReplaceAll(word, ",", ""), 64); err == nil {
		return f
	}
	return float64(slices.Index(small, word))
}

// unit returns a unit of time in seconds, or 0 for other words.
func unit(word string) float64 {
	for name, seconds := range map[string]float64{"sec": 1, "min": 60, "hour": 3600, "hr": 3600, "day": 86400, "week": 7 * 86400} {
		if strings.HasPrefix(word, name) {
			return seconds
		}
	}
	return 0
}

// secondsOf reads a length of time: "5 minutes", "half an hour", "an hour and
// a half", "1 hour 30 minutes".
func secondsOf(text string) string {
	total, count, last := 0.0, 1.0, 0.0
	for _, w := range strings.Fields(text) {
		switch u := unit(w); {
		case u > 0:
			total, last = total+count*u, u
		case w == "half" && last > 0:
			total += last / 2
		case w == "half":
			count = 0.5
		case w != "a" && w != "an" && w != "and":
			count = numberOf(w)
		}
	}
	return strconv.FormatFloat(total, 'f', -1, 64)
}

var ordinal = pattern(`(\d)(?:st|nd|rd|th)\b|,|['’]s$`)

// dateOf reads a day: "tomorrow", "Friday", "March 12", "12 March 2027", "2026-03-12". A weekday means the
// next one. The name of today's weekday is ambiguous. A weekend is the Saturday that comes next.
func dateOf(text string, now time.Time) string {
	text = ordinal().ReplaceAllString(strings.ToLower(text), "$1")
	if strings.HasSuffix(text, "weekend") {
		return now.AddDate(0, 0, 7-(int(now.Weekday())+1)%7).Format(time.DateOnly)
	}
	for ahead := range 7 {
		day := now.AddDate(0, 0, ahead)
		if ahead == 0 && text == "today" || ahead == 1 && text == "tomorrow" || ahead > 0 && text == strings.ToLower(day.Weekday().String()) {
			return day.Format(time.DateOnly)
		}
	}
	for _, layout := range []string{time.DateOnly, "January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006"} {
		if day, err := time.Parse(layout, text); err == nil {
			return day.Format(time.DateOnly)
		}
		for year := now.Year(); year <= now.Year()+1; year++ {
			if day, err := time.Parse(layout, text+" "+strconv.Itoa(year)); err == nil && day.After(now.AddDate(0, 0, -2)) {
				return day.Format(time.DateOnly)
			}
		}
	}
	return ""
}

// momentOf joins a day and a time of day.
func momentOf(day, clock string, now time.Time) string {
	clock = strings.NewReplacer(" ", "", ".", "", "noon", "12:00").Replace(clock)
	for _, layout := range []string{"15:04", "3:04pm", "3pm"} {
		if at, err := time.ParseInLocation(time.DateOnly+" "+layout, day+" "+clock, now.Location()); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return ""
}

// clause is one request: the tokens between the ends of sentences.
type clause struct {
	text     string // as written
	lo, hi   int    // its position in the text
	tokens   []token
	question bool // it is a question, so nothing may be changed
	orders   bool // it begins like an order
	unclear  bool // it has a negation, a condition, or refers to something else
}

var (
	polite = pattern(`^(?:(?:hi|hello|hey|ok|okay|so|and|also|then|now|please|kindly|just|thanks|thank you)\b[ ,!.]*|` +
		`(can|could|will|would) you (?:please )?|i want (?:you )?(?:to )?|i(?:'d| would) like (?:you )?to (?:know )?|` +
		`i need (?:you )?(?:to )?|(?:tell|show|give) me |let me know |do you know )`)
	asks    = pattern(`^(?:what|what's|which|when|when's|where|where's|who|who's|whose|why|how|how's|is|are|am|was|were|do|does|did|has|have|had|will|would|should|shall|may|might|can|could|any|isn't|aren't|don't|doesn't|didn't)\b`)
	unclear = pattern(`\b(?:not|never|no|none|neither|nor|without|unless|if|minus|whether|except|instead|otherwise|until|them|those|these|him|n't|older|newer|than|because|while|every|each|again|after|before)\b|n't\b|[^es] there\b`)
	points  = pattern(`\b(?:it|this|her|one|same)\b|\bthat(?:$| [.!,]| to\b| by\b| from\b| and\b)`)
)

// newClause classifies a request and removes words of politeness.
func newClause(text string, tokens []token) clause {
	c := clause{lo: tokens[0].lo, hi: tokens[len(tokens)-1].hi}
	c.text = text[c.lo:c.hi]
	c.question = strings.HasSuffix(c.text, "?")
	for range 8 {
		said := lower(tokens)
		m := polite().FindStringSubmatchIndex(said)
		if m == nil {
			break
		}
		if m[2] >= 0 {
			c.question = false
		}
		for tokens = tokens[len(words.Split(said[:m[1]])):]; len(tokens) > 0 && (tokens[0].word == "," || tokens[0].word == "!"); {
			tokens = tokens[1:]
		}
	}
	c.tokens = tokens
	said := lower(tokens)
	c.question = c.question || asks().MatchString(said)
	c.orders = !c.question && len(tokens) > 0 && tokens[0].word != "" && !words.Common(tokens[0].word)
	c.unclear = unclear().MatchString(said) || !c.question && points().MatchString(said)
	return c
}

// lower returns the sentence with a placeholder for each value.
func lower(tokens []token) string {
	var out []string
	for _, t := range tokens {
		if t.word == "" {
			t.word = "_"
		}
		out = append(out, t.word)
	}
	return strings.Join(out, " ")
}

// clauses splits a text into requests, at the ends of sentences.
func clauses(text string, tokens []token) []clause {
	var out []clause
	for _, part := range split(tokens, func(t token) bool { return sign(t, ".!?;") }) {
		if c := newClause(text, part); strings.Trim(lower(c.tokens), " .!?;,") != "" {
			out = append(out, c)
		}
	}
	return out
}

// split divides tokens after those that end a part.
func split(tokens []token, ends func(token) bool) (parts [][]token) {
	for len(tokens) > 0 {
		n := 1 + slices.IndexFunc(tokens, ends)
		if n == 0 {
			n = len(tokens)
		}
		parts, tokens = append(parts, tokens[:n]), tokens[n:]
	}
	return parts
}

// sign reports whether a token is one of some signs.
func sign(t token, signs string) bool { return t.word != "" && strings.Contains(signs, t.word) }
