package offline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tkWord tokenKind = iota
	tkNumber
	tkQuoted
	tkEmail
	tkLink
	tkPath
	tkCode  // letters and digits mixed, or a number sign: an identifier
	tkDate  // a date, or a date with a time, in digits
	tkClock // a time of day in digits
	tkOp    // + - * / and their like
	tkPunct
)

// token is a piece of the request. Start and end are byte offsets.
type token struct {
	kind       tokenKind
	text       string // as written; of a quotation, its inside
	low        string // text in lower case
	stem       string
	start, end int
	capital    bool
	glued      bool // nothing stands between it and the token before
	num        float64
	when       when // of tkDate and tkClock
}

// maxRequest bounds how much of a request is read, in bytes; what comes after
// it is not looked at.
const maxRequest = 32 << 10

// tokenize splits text into tokens. It never fails: what it does not know is
// punctuation.
func tokenize(text string) []token {
	if len(text) > maxRequest {
		text = text[:maxRequest]
	}
	s := scanner{text: text}
	for s.pos < len(text) {
		r, n := utf8.DecodeRuneInString(text[s.pos:])
		if unicode.IsSpace(r) {
			s.pos += n
			continue
		}
		if s.quoted(r, n) || s.chunk() || s.number() || s.word(r) {
			continue
		}
		kind := tkPunct
		if strings.ContainsRune("+-*/×÷^=−·", r) && !(letterBefore(text, s.pos) && wordAfter(text[s.pos+n:])) {
			kind = tkOp
		}
		s.emit(kind, n)
	}
	return s.out
}

type scanner struct {
	text string
	pos  int
	out  []token
}

// emit adds the next n bytes as a token.
func (s *scanner) emit(kind tokenKind, n int) *token {
	t := token{kind: kind, text: s.text[s.pos : s.pos+n], start: s.pos, end: s.pos + n}
	t.low = strings.ToLower(t.text)
	if len(s.out) > 0 {
		t.glued = s.out[len(s.out)-1].end == s.pos
	}
	if kind == tkWord {
		t.stem = stem(t.low)
		r, _ := utf8.DecodeRuneInString(t.text)
		t.capital = unicode.IsUpper(r)
	}
	s.pos += n
	s.out = append(s.out, t)
	return &s.out[len(s.out)-1]
}

var quotes = map[rune]string{'"': `"`, '“': "”", '„': "“”", '«': "»", '»': "«", '‹': "›", '`': "`", '\'': "'", '‘': "’", '「': "」"}

// quoted reads a quotation, if one opens here and is closed.
func (s *scanner) quoted(r rune, n int) bool {
	closers, ok := quotes[r]
	if !ok || (s.pos > 0 && (r == '\'' || r == '‘') && wordBefore(s.text, s.pos)) {
		return false
	}
	rest := s.text[s.pos+n:]
	for i, c := range rest {
		if !strings.ContainsRune(closers, c) {
			continue
		}
		size := utf8.RuneLen(c)
		if (c == '\'' || c == '’') && wordAfter(rest[i+size:]) {
			continue // an apostrophe
		}
		if strings.TrimSpace(rest[:i]) == "" {
			return false
		}
		t := s.emit(tkQuoted, n+i+size)
		t.text = rest[:i]
		t.low = strings.ToLower(t.text)
		return true
	}
	return false
}

func wordBefore(text string, pos int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[:pos])
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func letterBefore(text string, pos int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[:pos])
	return unicode.IsLetter(r)
}

func wordAfter(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// chunk reads what is recognised as a whole up to the next space: links,
// addresses, paths, identifiers.
func (s *scanner) chunk() bool {
	if s.pos > 0 && wordBefore(s.text, s.pos) {
		return false
	}
	rest := s.text[s.pos:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`"“”„«»<>|`, r)
	})
	if end < 0 {
		end = len(rest)
	}
	c := strings.TrimRight(rest[:end], ".,;:!?)]}'’")
	if len(c) < 2 || len(c) > 2048 {
		return false
	}
	switch {
	case strings.Contains(c, "://") && wordAfter(c), strings.HasPrefix(c, "www.") && len(c) > 6:
		s.emit(tkLink, len(c))
	case isEmail(c):
		s.emit(tkEmail, len(c))
	case isZone(c):
		s.emit(tkWord, len(c)).capital = true
	case isPath(c):
		s.emit(tkPath, len(c))
	case isDomain(c):
		s.emit(tkLink, len(c))
	case isPhone(c) && s.phone(len(c)) >= 7:
		s.emit(tkCode, s.phone(len(c)))
	case isCode(c):
		s.emit(tkCode, len(c))
	default:
		return false
	}
	return true
}

// phone extends a number that opens with + over groups of digits.
func (s *scanner) phone(n int) int {
	rest := s.text[s.pos:]
	for n < len(rest)-1 && rest[n] == ' ' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		n++
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '-') {
			n++
		}
	}
	return n
}

func isPhone(c string) bool {
	digits := 0
	for _, r := range c[1:] {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case !strings.ContainsRune("-()/", r):
			return false
		}
	}
	return c[0] == '+' && digits >= 2 && len(c) >= 3 || c[0] == '0' && digits >= 6 && !strings.ContainsAny(c, "/.")
}

func isEmail(c string) bool {
	at := strings.IndexByte(c, '@')
	return at > 0 && strings.Count(c, "@") == 1 && strings.LastIndexByte(c, '.') > at+1 &&
		!strings.ContainsAny(c, "/,;()")
}

func isZone(c string) bool {
	area, rest, ok := strings.Cut(c, "/")
	switch area {
	case "Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific", "Etc":
		return ok && len(rest) > 1 && !strings.ContainsAny(rest, ".,")
	}
	return false
}

var extensions = words(`txt md pdf doc docx xls xlsx ppt pptx csv tsv json jsonl yaml yml toml xml html htm css js ts go py rb rs c h cpp java kt
 sh bash sql db sqlite log ini cfg conf env png jpg jpeg gif svg webp bmp tiff mp3 mp4 wav flac ogg mov avi mkv webm zip tar gz tgz bz2 xz 7z rar iso
 bin exe dll so key pem crt odt ods odp rtf tex bib epub ics vcf eml parquet proto lock sum mod bak tmp old dat`)

func isPath(c string) bool {
	slashes := strings.Count(c, "/")
	base := c[strings.LastIndexByte(c, '/')+1:]
	dot := strings.LastIndexByte(base, '.')
	ext := dot >= 0 && dot < len(base)-1 && extensions[strings.ToLower(base[dot+1:])] && (dot > 0 || slashes > 0)
	if ext && !isDigits(strings.ReplaceAll(base, ".", "")) {
		return true
	}
	for _, p := range []string{"/", "./", "../", "~/"} {
		if strings.HasPrefix(c, p) && hasLetter(c) {
			return true
		}
	}
	if len(c) > 3 && c[1] == ':' && c[2] == '\\' {
		return true
	}
	return hasLetter(c) && (slashes >= 2 || slashes == 1 && strings.HasSuffix(c, "/")) && !strings.ContainsAny(c, ",;()=")
}

func isDomain(c string) bool {
	host, _, _ := strings.Cut(c, "/")
	dot := strings.LastIndexByte(host, '.')
	if dot < 2 || !hasLetter(host[:dot]) {
		return false
	}
	switch strings.ToLower(host[dot+1:]) {
	case "com", "org", "net", "io", "dev", "app", "edu", "gov", "co", "de", "fr", "es", "uk", "eu", "ch", "at", "it", "nl", "info", "example", "test":
		return !strings.ContainsAny(host, "@,;:()'")
	}
	return false
}

// isCode reports an identifier: letters and digits mixed, "#12", dotted digits.
func isCode(c string) bool {
	if c[0] == '#' && isWordy(c[1:]) {
		return true
	}
	if dots := strings.Count(c, "."); dots >= 2 && isDigits(strings.ReplaceAll(c, ".", "")) {
		return !looksDate(c) && (dots == 3 || countPattern.FindString(c) != c)
	}
	if countPattern.FindString(c) == c {
		return false
	}
	letters, digits, dashes := 0, 0, 0
	for _, r := range c {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.IsDigit(r):
			digits++
		case r == '-' || r == '_':
			dashes++
		default:
			return false
		}
	}
	if letters == 0 || digits == 0 {
		return letters > 0 && strings.Contains(c, "_") && c[0] != '_'
	}
	first, _ := utf8.DecodeRuneInString(c)
	if unicode.IsDigit(first) {
		// "5kg", "7pm", "2h30m", "3rd" are quantities.
		tail := strings.TrimLeft(c, "0123456789")
		return dashes > 0 && letters > 0 && !isUnitTail(strings.TrimLeft(tail, "-")) || dashes == 0 && !isUnitTail(tail)
	}
	return true
}

func looksDate(c string) bool {
	parts := strings.Split(c, ".")
	return len(parts) == 3 && len(parts[0]) <= 2 && len(parts[1]) <= 2 && len(parts[2]) == 4
}

// isUnitTail reports whether letters after digits read as a unit, an ordinal's
// ending or half of the day.
func isUnitTail(tail string) bool {
	low := strings.ToLower(strings.Trim(tail, "0123456789"))
	switch low {
	case "am", "pm", "st", "nd", "rd", "th", "k", "m", "x", "º", "°", "t":
		return true
	}
	if _, ok := units[low]; ok {
		return true
	}
	// 2h30m, T in a time stamp
	rest := tail
	for rest != "" {
		n := 0
		for n < len(rest) && rest[n] >= 'a' && rest[n] <= 'z' {
			n++
		}
		if u, ok := units[rest[:n]]; rest[:n] != "m" && (!ok || u.dim != dimTime) {
			break
		}
		rest = strings.TrimLeft(rest[n:], "0123456789")
	}
	return rest == "" || len(tail) > 3 && tail[0] == '-'
}

// word reads letters; a hyphen between letters ends it.
func (s *scanner) word(r rune) bool {
	if !unicode.IsLetter(r) && !(r == '\'' || r == '’') {
		return false
	}
	rest := s.text[s.pos:]
	if r == '\'' || r == '’' { // 's, 'll, 're after a word
		n := utf8.RuneLen(r)
		end := n + lettersIn(rest[n:])
		if s.pos == 0 || !wordBefore(s.text, s.pos) || end == n {
			return false
		}
		t := s.emit(tkWord, end)
		t.low = t.low[n:]
		t.stem, t.capital = t.low, false
		return true
	}
	n := lettersIn(rest)
	if n <= 2 && strings.HasPrefix(rest[n:], "-") { // "to-do" is one word
		m := n + 1 + lettersIn(rest[n+1:])
		if low, ok := compounds[strings.ToLower(rest[:m])]; ok {
			t := s.emit(tkWord, m)
			t.low, t.stem = low, stem(low)
			return true
		}
	}
	if strings.HasSuffix(strings.ToLower(rest[:n]), "n") && (strings.HasPrefix(rest[n:], "'t") || strings.HasPrefix(rest[n:], "’t")) {
		t := s.emit(tkWord, n) // don't, isn't
		if strings.HasSuffix(rest[n:], "’t") || strings.HasPrefix(rest[n:], "’t") {
			s.pos += len("’t")
		} else {
			s.pos += len("'t")
		}
		t.end, t.low, t.stem = s.pos, "not", "not"
		return true
	}
	if replies[strings.ToLower(rest[:n])] && strings.HasPrefix(rest[n:], ": ") {
		s.emit(tkWord, n+1)
		return true
	}
	if abbreviations[strings.ToLower(rest[:n])] && strings.HasPrefix(rest[n:], ".") {
		t := s.emit(tkWord, n+1)
		t.low = strings.TrimSuffix(t.low, ".")
		t.stem = t.low
		return true
	}
	s.emit(tkWord, n)
	return true
}

// compounds are words with a hyphen that are also written without.
var compounds = map[string]string{"to-do": "todo", "to-dos": "todos", "e-mail": "email", "e-mails": "emails", "wi-fi": "wifi"}

// replies open the subjects of answers; their colon belongs to them.
var replies = words(`re fwd fw aw wg tr`)

// abbreviations whose full stop ends no sentence.
var abbreviations = words(`dr mr mrs ms prof st mt sr jr inc ltd vs approx dept hr fr str nr bzw ca mme mlle sra`)

func lettersIn(s string) int {
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) {
			return i
		}
	}
	return len(s)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func hasLetter(s string) bool { return strings.IndexFunc(s, unicode.IsLetter) >= 0 }

func isWordy(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	}) < 0
}
