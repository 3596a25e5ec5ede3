package tokens

// The weights of characters, in sixteenths of a token.
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

	// A longer run of letters and digits is not a word in any vocabulary, so each further letter weighs
	// more.
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

// makeWeights returns the weight of each character after one of each kind.
func makeWeights() (table [kinds][128]uint8) {
	own := [kinds]uint8{between: weightSign, lower: weightLetter, upper: weightCapital, digit: weightDigit}
	for last := range table {
		for c, kind := range makeKinds() {
			w := own[kind]
			switch {
			case c == ' ':
				w = weightSpace
			case c < ' ':
				w = weightLine
			case kind != between && kind != uint8(last) && !(kind == lower && uint8(last) == upper):
				w += weightStart
			}
			table[last][c] = w
		}
	}
	return table
}

// makeBlocks returns the weights of the characters up to U+FFFF, in blocks of sixteen.
func makeBlocks() (table [1 << 12]uint8) {
	set := func(from, to int, weight uint8) {
		for i := from >> 4; i < to>>4; i++ {
			table[i] = weight
		}
	}
	set(0, 0x10000, weightOther)
	set(0x0080, 0x0370, weightAccent)
	set(0x0370, 0x0400, weightAbjad) // Greek
	set(0x0400, 0x0450, weightAlpha) // Cyrillic
	set(0x0450, 0x0460, weightAlpha2)
	set(0x0460, 0x0530, weightAlpha3)
	set(0x0530, 0x0590, weightIndic2) // Armenian
	set(0x0590, 0x0700, weightAbjad)  // Hebrew, Arabic
	set(0x0700, 0x0750, weightIndic2)
	set(0x0750, 0x0780, weightAbjad)
	set(0x0780, 0x0860, weightIndic2)
	set(0x0860, 0x0900, weightAbjad)
	set(0x0900, 0x0A00, weightIndic)  // Devanagari, Bengali
	set(0x0A00, 0x0B80, weightIndic2) // Gurmukhi, Gujarati, Oriya
	set(0x0B80, 0x0C00, weightIndic)  // Tamil
	set(0x0C00, 0x0E00, weightIndic2) // Telugu to Sinhala
	set(0x0E00, 0x0E80, weightIndic)  // Thai
	set(0x0E80, 0x10A0, weightIndic2) // Lao, Tibetan, Burmese
	set(0x1100, 0x1200, weightCJK)
	set(0x1780, 0x1800, weightIndic2) // Khmer
	set(0x1E00, 0x1F00, weightIndic)  // Vietnamese
	set(0x2000, 0x2070, weightIndic)
	set(0x2E80, 0xE000, weightCJK)
	set(0xF900, 0xFB00, weightCJK)
	set(0xFE30, 0xFFF0, weightCJK)
	return table
}

// Of returns the estimate of a text.
func Of[T string | []byte](text T) Parts {
	s := sum(text)
	n := s.signs + s.accents + s.others + s.words
	if s.foreign(len(text)) {
		n += s.words * 3 / 10 // the weights are those of English
	}
	return Parts{text: n}
}

// sums holds the weights of a text's characters by category.
type sums struct {
	words   int64 // Latin letters without accents
	accents int64 // with accents
	signs   int64 // digits, signs, white space
	others  int64 // other scripts
	common  int64 // number of words that are frequent only in English
}

// The most frequent words of English that other languages do not have.
const (
	wordThe = 't'<<16 | 'h'<<8 | 'e'
	wordAnd = 'a'<<16 | 'n'<<8 | 'd'
	wordYou = 'y'<<16 | 'o'<<8 | 'u'
)

// sum weighs the characters of a text.
func sum[T string | []byte](text T) (s sums) {
	words, signs, others, last, run := int64(0), int64(0), int64(0), between, 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x80 {
			weight, size, accent := weigh(text, i)
			if accent {
				s.accents += weight
			} else {
				others += weight
			}
			i += size
			last = lower
			continue
		}
		weight := int64(asciiWeights[last&(kinds-1)][c])
		last = asciiKinds[c]
		i++
		switch last {
		case between:
			signs += weight
			run = 0
			continue
		case digit:
			signs += weight
			run++
			continue
		case upper:
			words += weight
			if run++; run > longRun {
				words += weightLong
			}
			continue
		}
		from := i - 1
		for i < len(text) && text[i]-'a' < 26 {
			i++
		}
		n := i - from
		words += weight + int64(n-1)*weightLetter
		if run += n; run > longRun {
			words += int64(min(run-longRun, n)) * weightLong
		}
		if n == 3 {
			switch uint32(c)<<16 | uint32(text[from+1])<<8 | uint32(text[from+2]) {
			case wordThe, wordAnd, wordYou:
				s.common++
			}
		}
	}
	s.words, s.signs, s.others = words, signs, others
	return s
}

// weigh returns the weight and the size of the non-ASCII character at i, and whether it is a Latin letter
// with an accent.
func weigh[T string | []byte](text T, i int) (weight int64, size int, accent bool) {
	next := func(n int) int { return int(text[i+n] & 0x3F) }
	goesOn := func(n int) bool {
		ok := i+n < len(text)
		for j := i + 1; ok && j <= i+n; j++ {
			ok = text[j]&0xC0 == 0x80
		}
		return ok
	}
	switch c := text[i]; {
	case c >= 0xC2 && c < 0xE0 && goesOn(1):
		b := int(c&0x1F)<<2 | next(1)>>4
		return int64(blocks16[b]), 2, b < 0x37
	case c >= 0xE0 && c < 0xF0 && goesOn(2):
		b := int(c&0x0F)<<8 | next(1)<<2 | next(2)>>4
		return int64(blocks16[b]), 3, b>>4 == 0x1E
	case c == 0xF0 && goesOn(3) && text[i+1] == 0x9F: // emoji
		return weightOther, 4, false
	case c >= 0xF0 && c < 0xF5 && goesOn(3):
		return weightRarest, 4, false
	}
	return weightOther, 1, false // invalid UTF-8
}

// foreign reports whether a text in Latin letters is in another language than English, for which
// vocabularies need more tokens: it has accents, or it is prose (few signs) without the most frequent
// English words. A short text without accents counts as English.
func (s *sums) foreign(size int) bool {
	switch {
	case s.accents*40 > s.words: // about one accent in 200 letters
		return true
	case size < 100 || s.signs > s.words/4:
		return false
	}
	return s.common*300 < int64(size)
}
