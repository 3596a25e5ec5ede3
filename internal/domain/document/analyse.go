package document

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/domain/local"
	"steward/internal/search/words"
)

// section is a heading with the text up to the next one.
type section struct {
	level int
	title string
	words int
}

var (
	atxHeading = regexp.MustCompile(`^(#{1,6})\s+(.+?)\s*#*$`)
	underline  = regexp.MustCompile(`^(=+|-+)\s*$`)
)

// sections returns the sections of a Markdown text. Code blocks have no headings. The text before the first
// heading is a section without a title.
func sections(body string) []section {
	out := []section{{}}
	lines := strings.Split(body, "\n")
	code := false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if isFence(line) {
			code = !code
		}
		switch m := atxHeading.FindStringSubmatch(line); {
		case code:
		case m != nil:
			out = append(out, section{level: len(m[1]), title: m[2]})
			continue
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "-") && i+1 < len(lines) && len(lines[i+1]) > 2 && underline.MatchString(lines[i+1]):
			level := 2
			if lines[i+1][0] == '=' {
				level = 1
			}
			out = append(out, section{level: level, title: strings.TrimSpace(line)})
			i++
			continue
		}
		out[len(out)-1].words += len(strings.Fields(line))
	}
	return out
}

// isFence reports whether a line begins or ends a code block.
func isFence(line string) bool {
	t := strings.TrimSpace(line)
	return strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")
}

// Outline returns the structure of a text: its headings, indented by level, with the number of words in each
// section. If there are none, it returns the beginnings of the paragraphs.
func Outline(body string) string {
	var out []string
	list := sections(body)
	for _, s := range list[1:] {
		out = append(out, fmt.Sprintf("%s- %s (%d words)", strings.Repeat("  ", s.level-1), s.title, s.words))
	}
	if len(out) == 0 {
		for _, p := range paragraphs(body) {
			out = append(out, "- "+local.Clip(p, 80))
		}
	}
	if len(out) == 0 {
		return "- (it is empty)"
	}
	const most = 200
	if len(out) > most {
		out = append(out[:most], "- …")
	}
	return strings.Join(out, "\n")
}

// paragraphs returns the paragraphs of a text, each as one line, without headings and code.
func paragraphs(body string) []string {
	var out []string
	var cur []string
	flush := func() {
		if len(cur) > 0 {
			out = append(out, strings.Join(strings.Fields(strings.Join(cur, " ")), " "))
			cur = nil
		}
	}
	code := false
	for line := range strings.SplitSeq(body, "\n") {
		fence := isFence(line)
		if fence {
			code = !code
		}
		if fence || code || strings.TrimSpace(line) == "" || atxHeading.MatchString(line) {
			flush()
			continue
		}
		cur = append(cur, line)
	}
	flush()
	return out
}

// sentences counts the ends of sentences: a mark, followed by a space and something other than a lower-case
// letter, or by the end of the paragraph.
func sentences(body string) int {
	n := 0
	for _, p := range paragraphs(body) {
		runes := []rune(p)
		for i, r := range runes {
			if r != '.' && r != '!' && r != '?' && r != '。' {
				continue
			}
			j := i + 1
			for j < len(runes) && strings.ContainsRune(`"')]”’»`, runes[j]) {
				j++
			}
			switch {
			case j >= len(runes) || r == '。':
				n++
			case unicode.IsSpace(runes[j]) && j+1 < len(runes) && !unicode.IsLower(runes[j+1]) && !(r == '.' && abbreviated(runes[:i])):
				n++
			}
		}
		if last := runes[len(runes)-1]; !strings.ContainsRune(`.!?。"')]”’»`, last) {
			n++
		}
	}
	return n
}

// abbreviated reports whether a text ends in an initial or an abbreviation, whose dot does not end a
// sentence.
func abbreviated(before []rune) bool {
	start := len(before)
	for start > 0 && unicode.IsLetter(before[start-1]) {
		start--
	}
	switch word := string(before[start:]); word {
	case "Mr", "Mrs", "Ms", "Dr", "Prof", "St", "No", "vs", "etc", "ca", "approx":
		return true
	default:
		return len(before)-start == 1 && unicode.IsUpper(before[start]) && word != "I"
	}
}

// wordsPerMinute is the average speed of silent reading in English (Brysbaert 2019).
const wordsPerMinute = 238

func minutes(words int) string {
	if n := int(math.Round(float64(words) / wordsPerMinute)); n > 1 {
		return fmt.Sprintf("%d minutes", n)
	}
	return "a minute"
}

// Statistics returns numbers about a text.
func Statistics(d *local.Text) string {
	words, sents, paras := d.Words(), sentences(d.Body), len(paragraphs(d.Body))
	var b strings.Builder
	fmt.Fprintf(&b, "Statistics of %q (%s):\n", d.Title, d.Name)
	fmt.Fprintf(&b, "- %d words, %d different\n- %d sentences", words, len(d.Terms()), sents)
	if sents > 0 {
		fmt.Fprintf(&b, ", %.1f words each", float64(words)/float64(sents))
	}
	fmt.Fprintf(&b, "\n- %d paragraphs, %d headings\n- %d characters\n- about %s to read\n", paras, len(sections(d.Body))-1,
		utf8.RuneCountInString(d.Body), minutes(words))
	var top []string
	for _, w := range frequent(d, 8) {
		top = append(top, fmt.Sprintf("%s (%d)", w, d.Terms()[w]))
	}
	fmt.Fprintf(&b, "- most frequent words: %s", strings.Join(top, ", "))
	if d.Cut {
		b.WriteString("\n- only the beginning of the document was looked at")
	}
	return b.String()
}

// frequent returns the most frequent words of a text, without common words.
func frequent(d *local.Text, n int) []string {
	var out []string
	for w := range d.Terms() {
		if utf8.RuneCountInString(w) > 3 && !words.Common(w) {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(d.Terms()[b], d.Terms()[a]), cmp.Compare(a, b)) })
	return out[:min(n, len(out))]
}

// similarity returns the cosine similarity of two texts as vectors of their words, without common words, each
// weighted by 1 + the logarithm of its count.
func similarity(a, b *local.Text) float64 {
	weight := func(n int) float64 { return 1 + math.Log(float64(n)) }
	dot, na, nb := 0.0, 0.0, 0.0
	for w, n := range a.Terms() {
		if words.Common(w) {
			continue
		}
		na += weight(n) * weight(n)
		if m := b.Terms()[w]; m > 0 {
			dot += weight(n) * weight(m)
		}
	}
	for w, n := range b.Terms() {
		if !words.Common(w) {
			nb += weight(n) * weight(n)
		}
	}
	if na == 0 || nb == 0 {
		return 0
	}
	return dot / math.Sqrt(na*nb)
}

// Compare returns what two texts have in common and what only one of them has.
func Compare(a, b *local.Text) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%q (%s, %d words) and %q (%s, %d words):\n", a.Title, a.Name, a.Words(), b.Title, b.Name, b.Words())
	if a.Body == b.Body {
		out.WriteString("- they are the same, to the letter")
		return out.String()
	}
	fmt.Fprintf(&out, "- similarity of their words: %.0f %%\n", 100*similarity(a, b))
	line := func(what string, words []string) {
		if len(words) > 0 {
			fmt.Fprintf(&out, "- %s: %s\n", what, strings.Join(words, ", "))
		}
	}
	line("both speak of", shared(a, b, 10))
	line(fmt.Sprintf("only %q speaks of", a.Title), own(a, b, 8))
	line(fmt.Sprintf("only %q speaks of", b.Title), own(b, a, 8))
	ha, hb := headings(a), headings(b)
	line("headings of both", slices.DeleteFunc(slices.Clone(ha), func(h string) bool { return !slices.Contains(hb, h) }))
	line(fmt.Sprintf("headings of %q alone", a.Title), slices.DeleteFunc(slices.Clone(ha), func(h string) bool { return slices.Contains(hb, h) }))
	line(fmt.Sprintf("headings of %q alone", b.Title), slices.DeleteFunc(slices.Clone(hb), func(h string) bool { return slices.Contains(ha, h) }))
	return strings.TrimSuffix(out.String(), "\n")
}

func headings(d *local.Text) []string {
	var out []string
	for _, s := range sections(d.Body)[1:] {
		if s.level > 1 {
			out = append(out, s.title)
		}
	}
	return out
}

// shared returns the frequent words of both texts.
func shared(a, b *local.Text, n int) []string {
	var out []string
	for _, w := range frequent(a, len(a.Terms())) {
		if b.Terms()[w] > 0 {
			out = append(out, w)
		}
	}
	least := func(w string) int { return min(a.Terms()[w], b.Terms()[w]) }
	slices.SortStableFunc(out, func(x, y string) int { return cmp.Compare(least(y), least(x)) })
	return out[:min(n, len(out))]
}

// own returns the frequent words of a that b does not have.
func own(a, b *local.Text, n int) []string {
	out := slices.DeleteFunc(frequent(a, len(a.Terms())), func(w string) bool { return b.Terms()[w] > 0 })
	return out[:min(n, len(out))]
}
