package tokens

// Script is a class of text. Within a class vocabularies need about the same
// share of the estimate, between classes not: one learns a model's ratio for
// each.
type Script uint8

// The scripts, and what else a request is made of.
const (
	Latin      Script = iota // words of English and of code
	OtherLatin               // words of other languages in Latin letters
	Symbols                  // digits, signs, white space
	Cyrillic
	Greek
	Hebrew
	Arabic
	Indic
	SEAsian // Thai, Lao, Tibetan, Burmese, Khmer
	Han
	Kana
	Hangul
	Rare    // Georgian, Ethiopic, emoji, mathematics, …
	Framing // what surrounds messages, calls and tools on the wire
	Media   // pictures, documents, signatures
	scripts
)

// Names of the scripts, as the state of a Calibrator has them.
func scriptNames() [scripts]string {
	return [scripts]string{"latin", "other latin", "symbols", "cyrillic", "greek", "hebrew", "arabic", "indic",
		"southeast asian", "han", "kana", "hangul", "rare", "framing", "media"}
}

// String returns the script's name.
func (s Script) String() string {
	if s >= scripts {
		return "unknown"
	}
	return scriptNames()[s]
}

// What characters weigh, in sixteenths of a token.
const (
	weightStart   = 9 // where a word or number begins, or a capital or digit inside a word
	weightSpace   = 1
	weightLetter  = 5 // a–z
	weightCapital = 8
	weightDigit   = 10 // some vocabularies have single digits only
	weightSign    = 14 // punctuation
	weightLine    = 8  // line breaks and tabs
	weightAccent  = 22 // Latin with accents, phonetic letters
	weightAlpha   = 12 // Cyrillic
	weightAlpha2  = 18 // its letters that Russian does not have
	weightAlpha3  = 34 // its letters beyond those of Europe
	weightAbjad   = 20 // Greek, Hebrew, Arabic
	weightIndic   = 24 // the larger scripts of South and Southeast Asia; typographic signs
	weightIndic2  = 36 // the smaller ones, Armenian, Syriac
	weightCJK     = 24 // Chinese, Japanese, Korean
	weightOther   = 50 // Georgian, Ethiopic, emoji, mathematics, rare scripts
	weightRarest  = 64 // four bytes, and no emoji

	// A run of so many letters and digits is no word. Vocabularies do not have
	// it, so each of its letters weighs more.
	longRun    = 20
	weightLong = 5
)

// Kinds of ASCII characters. Where the kind changes, a token ends.
const (
	between uint8 = iota // space, signs
	lower
	upper
	digit
	kinds
)

// packed holds two sums in one number, so that each character takes one
// addition: of the words below, of the symbols above.
const packed = 32

// chunk bounds how many bytes are summed up before the sums could run over.
const chunk = 1 << 20

var (
	asciiKinds   = makeKinds()
	asciiWeights = makeWeights()
	blocks16     = makeBlocks()
)

func makeKinds() (table [128]uint8) {
	for c := range table {
		switch {
		case 'a' <= c && c <= 'z':
			table[c] = lower
		case 'A' <= c && c <= 'Z':
			table[c] = upper
		case '0' <= c && c <= '9':
			table[c] = digit
		}
	}
	return table
}

// makeWeights returns what a character weighs after one of the given kind.
func makeWeights() (table [kinds][128]uint64) {
	own := [kinds]uint64{lower: weightLetter, upper: weightCapital, digit: weightDigit << packed}
	for last := range table {
		for c, kind := range makeKinds() {
			w := own[kind]
			switch {
			case c == ' ':
				w = weightSpace << packed
			case c < ' ':
				w = weightLine << packed
			case kind == between:
				w = weightSign << packed
			case kind == uint8(last), kind == lower && uint8(last) == upper:
			case kind == digit:
				w += weightStart << packed
			default:
				w += weightStart
			}
			table[last][c] = w
		}
	}
	return table
}

// block16 is a block of sixteen characters of one script and weight.
type block16 struct {
	script Script
	weight uint8
}

// makeBlocks returns the blocks of the characters up to U+FFFF.
func makeBlocks() (table [1 << 12]block16) {
	set := func(from, to int, s Script, weight uint8) {
		for i := from >> 4; i < to>>4; i++ {
			table[i] = block16{s, weight}
		}
	}
	set(0, 0x10000, Rare, weightOther)
	set(0x0080, 0x0370, OtherLatin, weightAccent)
	set(0x0370, 0x0400, Greek, weightAbjad)
	set(0x0400, 0x0450, Cyrillic, weightAlpha)
	set(0x0450, 0x0460, Cyrillic, weightAlpha2)
	set(0x0460, 0x0530, Cyrillic, weightAlpha3)
	set(0x0530, 0x0590, Rare, weightIndic2)
	set(0x0590, 0x0600, Hebrew, weightAbjad)
	set(0x0600, 0x0700, Arabic, weightAbjad)
	set(0x0700, 0x0750, Rare, weightIndic2)
	set(0x0750, 0x0780, Arabic, weightAbjad)
	set(0x0780, 0x0860, Rare, weightIndic2)
	set(0x0860, 0x0900, Arabic, weightAbjad)
	set(0x0900, 0x0A00, Indic, weightIndic)  // Devanagari, Bengali
	set(0x0A00, 0x0B80, Indic, weightIndic2) // Gurmukhi, Gujarati, Oriya
	set(0x0B80, 0x0C00, Indic, weightIndic)  // Tamil
	set(0x0C00, 0x0E00, Indic, weightIndic2) // Telugu to Sinhala
	set(0x0E00, 0x0E80, SEAsian, weightIndic)
	set(0x0E80, 0x10A0, SEAsian, weightIndic2) // Lao, Tibetan, Burmese
	set(0x1100, 0x1200, Hangul, weightCJK)
	set(0x1780, 0x1800, SEAsian, weightIndic2)   // Khmer
	set(0x1E00, 0x1F00, OtherLatin, weightIndic) // Vietnamese
	set(0x1F00, 0x2000, Greek, weightOther)      // with the old accents
	set(0x2000, 0x2070, Symbols, weightIndic)
	set(0x2E80, 0x3040, Han, weightCJK)
	set(0x3040, 0x3100, Kana, weightCJK)
	set(0x3100, 0xA960, Han, weightCJK)
	set(0x3130, 0x3190, Hangul, weightCJK)
	set(0xA960, 0xE000, Hangul, weightCJK)
	set(0xF900, 0xFB00, Han, weightCJK)
	set(0xFE30, 0xFFF0, Han, weightCJK)
	return table
}

// Of returns the estimate of a text by script.
func Of[T string | []byte](text T) (p Parts) {
	var s sums
	for rest := text; len(rest) > 0; {
		n := min(len(rest), chunk)
		add(&s, &p, rest[:n])
		p[Symbols] += int64(s.packed >> packed)
		s.words += int64(s.packed & (1<<packed - 1))
		s.packed, rest = 0, rest[n:]
	}
	if s.foreign(len(text), &p) {
		p[OtherLatin] += s.words * 13 / 10 // the weights are those of English
	} else {
		p[Latin] = s.words
	}
	return p
}

// sums are what is known of a text's ASCII characters.
type sums struct {
	packed uint64
	words  int64
	common int64 // words that are common in English only
}

// The most frequent words of English that other languages have not.
const (
	wordThe = 't'<<16 | 'h'<<8 | 'e'
	wordAnd = 'a'<<16 | 'n'<<8 | 'd'
	wordYou = 'y'<<16 | 'o'<<8 | 'u'
)

// add adds the ASCII characters of a text to s and the others to p. A
// character that a chunk's end cuts counts as bytes that are no text.
func add[T string | []byte](s *sums, p *Parts, text T) {
	weight, last, run := uint64(0), between, 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x80 {
			b, n := blockAt(text, i)
			p[b.script] += int64(b.weight)
			last = lower
			i += n
			continue
		}
		weight += asciiWeights[last&(kinds-1)][c]
		last = asciiKinds[c]
		i++
		if last != lower {
			run++
			if last == between {
				run = 0
			} else if run > longRun && last == upper {
				weight += weightLong
			}
			continue
		}
		from := i - 1
		for i < len(text) && text[i]-'a' < 26 {
			i++
		}
		n := i - from
		weight += uint64(n-1) * weightLetter
		if run += n; run > longRun {
			weight += uint64(min(run-longRun, n)) * weightLong
		}
		if n == 3 {
			switch uint32(c)<<16 | uint32(text[from+1])<<8 | uint32(text[from+2]) {
			case wordThe, wordAnd, wordYou:
				s.common++
			}
		}
	}
	s.packed = weight
}

// blockAt returns the block of the character at i, and the character's bytes.
func blockAt[T string | []byte](s T, i int) (b block16, size int) {
	c := s[i]
	switch {
	case c >= 0xC2 && c < 0xE0 && i+1 < len(s) && s[i+1]&0xC0 == 0x80:
		return blocks16[int(c&0x1F)<<2|int(s[i+1]&0x3F)>>4], 2
	case c >= 0xE0 && c < 0xF0 && i+2 < len(s) && s[i+1]&0xC0 == 0x80 && s[i+2]&0xC0 == 0x80:
		return blocks16[int(c&0x0F)<<8|int(s[i+1]&0x3F)<<2|int(s[i+2]&0x3F)>>4], 3
	case c >= 0xF0 && c < 0xF5 && i+3 < len(s) && s[i+1]&0xC0 == 0x80 && s[i+2]&0xC0 == 0x80 && s[i+3]&0xC0 == 0x80:
		if s[i+1] != 0x9F {
			return block16{Rare, weightRarest}, 4
		}
		return block16{Rare, weightOther}, 4
	}
	return block16{Rare, weightOther}, 1
}

// foreign reports whether a text's words in Latin letters are those of another
// language than English, for which vocabularies need up to twice the share of
// the estimate: it has accents, or it is prose (few signs) without the words
// that English prose has everywhere. Of a short text without accents nothing
// is known: it counts as English.
func (s *sums) foreign(size int, p *Parts) bool {
	switch {
	case p[OtherLatin]*40 > s.words: // about one accent in 200 letters
		return true
	case size < 100 || p[Symbols] > s.words/4:
		return false
	}
	return s.common*300 < int64(size)
}
