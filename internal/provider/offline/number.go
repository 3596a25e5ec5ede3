package offline

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	isoPattern   = regexp.MustCompile(`^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?(Z|[+-]\d{2}:?\d{2})?)?`)
	datePattern  = regexp.MustCompile(`^(\d{1,2})([./])(\d{1,2})[./](\d{4}|\d{2})(?:\D|$)`)
	clockPattern = regexp.MustCompile(`^(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s*([aApP])(?:\.[mM]\.|[mM]\b))?`)
	halfPattern  = regexp.MustCompile(`^(\d{1,2})\s*([aApP])(?:\.[mM]\.|[mM]\b)`)
	countPattern = regexp.MustCompile(`^(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|\d+,\d{1,2}|\d*\.\d+|\d+)(?:[eE][+-]?\d+)?`)
)

// number reads a number, a date or a time of day written in digits.
func (s *scanner) number() bool {
	rest := s.text[s.pos:]
	sign := 0
	if rest[0] == '-' && !(s.pos > 0 && (wordBefore(s.text, s.pos) || s.text[s.pos-1] == ')')) {
		sign = 1
	}
	if strings.HasPrefix(rest, "−") && !(s.pos > 0 && wordBefore(s.text, s.pos)) {
		sign = len("−")
	}
	body := rest[sign:]
	if body == "" || !isDigit(body[0]) && !(body[0] == '.' && len(body) > 1 && isDigit(body[1])) {
		return false
	}
	if sign == 0 && s.stamp(body) {
		return true
	}
	m := countPattern.FindString(body)
	if m == "" {
		return false
	}
	v, err := strconv.ParseFloat(plainNumber(m), 64)
	if err != nil || math.IsInf(v, 0) {
		s.emit(tkCode, sign+len(m)) // too big to be counted with
		return true
	}
	if sign > 0 {
		v = -v
	}
	n := sign + len(m)
	if tail := rest[n:]; len(tail) > 0 && strings.ContainsRune("kK", rune(tail[0])) && !wordAfter(tail[1:]) {
		v, n = v*1000, n+1
	}
	s.emit(tkNumber, n).num = v
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// plainNumber turns grouped and decimal-comma writing into Go's.
func plainNumber(m string) string {
	comma, dot := strings.LastIndexByte(m, ','), strings.LastIndexByte(m, '.')
	switch {
	case comma > dot && dot >= 0: // 1.234,5
		return strings.Replace(strings.ReplaceAll(m, ".", ""), ",", ".", 1)
	case strings.Count(m, ".") > 1: // 1.234.567
		return strings.ReplaceAll(m, ".", "")
	case comma >= 0 && dot < 0 && len(m)-comma-1 != 3: // 3,5
		return strings.Replace(m, ",", ".", 1)
	}
	return strings.ReplaceAll(m, ",", "")
}

// stamp reads a date or a time of day.
func (s *scanner) stamp(body string) bool {
	if m := isoPattern.FindStringSubmatch(body); m != nil {
		w, ok := isoWhen(m)
		if ok {
			s.emit(tkDate, len(m[0])).when = w
		}
		return ok
	}
	if m := datePattern.FindStringSubmatch(body); m != nil {
		day, month, year := atoi(m[1]), atoi(m[3]), atoi(m[4])
		if m[2] == "/" && month <= 31 && day <= 12 { // month first, as most English writing has it
			day, month = month, day
		}
		if len(m[4]) == 2 {
			year += 2000
		}
		if !validDate(year, month, day) {
			return false
		}
		n := len(m[1]) + 1 + len(m[3]) + 1 + len(m[4])
		s.emit(tkDate, n).when = when{year: year, month: month, day: day, date: true}
		return true
	}
	if m := clockPattern.FindStringSubmatch(body); m != nil {
		w := when{hour: atoi(m[1]), minute: atoi(m[2]), second: atoi(m[3]), clock: true}
		if w.halfDay(m[4]) {
			w.exactHalf = m[4] != "" || w.hour > 12
			s.emit(tkClock, len(m[0])).when = w
			return true
		}
		return false
	}
	if m := halfPattern.FindStringSubmatch(body); m != nil {
		w := when{hour: atoi(m[1]), clock: true, exactHalf: true}
		if w.halfDay(m[2]) {
			s.emit(tkClock, len(m[0])).when = w
			return true
		}
	}
	return false
}

func isoWhen(m []string) (when, bool) {
	w := when{year: atoi(m[1]), month: atoi(m[2]), day: atoi(m[3]), date: true, hour: atoi(m[4]), minute: atoi(m[5]), second: atoi(m[6]), clock: m[4] != "", exactHalf: true}
	if zone := m[7]; zone != "" {
		w.fixed = true
		if zone != "Z" {
			w.offset = atoi(zone[1:3])*3600 + atoi(zone[len(zone)-2:])*60
			if zone[0] == '-' {
				w.offset = -w.offset
			}
		}
	}
	return w, validDate(w.year, w.month, w.day) && w.hour < 24 && w.minute < 60 && w.second < 60 && w.offset > -86400 && w.offset < 86400
}

func validDate(year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 || year < 1 || year > 9999 {
		return false
	}
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // digits by the patterns; empty is 0
	return n
}

type dimension uint8

const (
	dimNone   dimension = iota
	dimTime             // seconds
	dimMass             // grams
	dimLength           // metres
	dimVolume           // litres
	dimTemperature
	dimPercent
	dimMoney
	dimData // bytes
)

// unit is what a number may be followed by.
type unit struct {
	dim    dimension
	factor float64 // of the dimension's base
	months int     // of calendar units
	code   string  // of currencies
}

var units = parseUnits(map[dimension]string{
	dimTime: `s sec secs second seconds sekunde sekunden seconde secondes segundo segundos=1
 min mins minute minutes minuten minuto minutos=60
 h hr hrs hour hours stunde stunden heure heures hora horas=3600
 day days tag tage tagen jour jours día días=86400
 week weeks woche wochen semaine semaines semana semanas=604800
 ms millisecond milliseconds=0.001`,
	dimMass:        `mg milligram milligrams=0.001 g gram grams gramm gramme grammes gramo gramos=1 kg kilo kilos kilogram kilograms kilogramm=1000 t ton tons tonne tonnes=1000000 lb lbs pound-weight=453.59237 oz ounce ounces=28.349523125`,
	dimLength:      `mm millimetre millimetres millimeter millimeters=0.001 cm centimetre centimetres centimeter centimeters zentimeter=0.01 m metre metres meter meters mètre mètres=1 km kilometre kilometres kilometer kilometers kilomètres=1000 mi mile miles=1609.344 ft foot feet=0.3048 inch inches=0.0254 yd yard yards=0.9144`,
	dimVolume:      `ml millilitre millilitres milliliter milliliters=0.001 cl=0.01 dl=0.1 l litre litres liter liters=1 gallon gallons=3.785411784`,
	dimTemperature: `° degree degrees celsius fahrenheit kelvin grad degrés grados=1`,
	dimPercent:     `% percent prozent pourcent pct percentage=1`,
	dimData:        `byte bytes=1 kb=1000 kib=1024 mb megabyte megabytes=1000000 mib=1048576 gb gigabyte gigabytes=1000000000 gib=1073741824`,
})

func parseUnits(tables map[dimension]string) map[string]unit {
	out := map[string]unit{
		"month": {dim: dimTime, factor: 30 * 86400, months: 1}, "months": {dim: dimTime, factor: 30 * 86400, months: 1},
		"monat": {dim: dimTime, factor: 30 * 86400, months: 1}, "monate": {dim: dimTime, factor: 30 * 86400, months: 1}, "monaten": {dim: dimTime, factor: 30 * 86400, months: 1},
		"mois": {dim: dimTime, factor: 30 * 86400, months: 1}, "mes": {dim: dimTime, factor: 30 * 86400, months: 1}, "meses": {dim: dimTime, factor: 30 * 86400, months: 1},
		"year": {dim: dimTime, factor: 365 * 86400, months: 12}, "years": {dim: dimTime, factor: 365 * 86400, months: 12},
		"jahr": {dim: dimTime, factor: 365 * 86400, months: 12}, "jahre": {dim: dimTime, factor: 365 * 86400, months: 12}, "jahren": {dim: dimTime, factor: 365 * 86400, months: 12},
	}
	for dim, table := range tables {
		var names []string
		for _, f := range strings.Fields(table) {
			name, factor, last := strings.Cut(f, "=")
			names = append(names, name)
			if last {
				v, _ := strconv.ParseFloat(factor, 64) // of the tables above
				for _, n := range names {
					out[n] = unit{dim: dim, factor: v}
				}
				names = nil
			}
		}
	}
	for word, code := range currencies {
		out[word] = unit{dim: dimMoney, factor: 1, code: code}
	}
	return out
}

var currencies = map[string]string{
	"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "dollar": "USD", "dollars": "USD", "bucks": "USD", "usd": "USD",
	"euro": "EUR", "euros": "EUR", "eur": "EUR", "pound": "GBP", "pounds": "GBP", "gbp": "GBP", "yen": "JPY", "jpy": "JPY",
	"franc": "CHF", "francs": "CHF", "chf": "CHF", "rupee": "INR", "rupees": "INR", "inr": "INR", "yuan": "CNY", "cny": "CNY",
	"zloty": "PLN", "pln": "PLN", "krona": "SEK", "kronor": "SEK", "sek": "SEK", "krone": "DKK", "dkk": "DKK", "nok": "NOK",
	"cad": "CAD", "aud": "AUD", "brl": "BRL", "real": "BRL", "peso": "MXN", "pesos": "MXN", "mxn": "MXN", "btc": "BTC", "bitcoin": "BTC",
}

var numberWords = numberTable()

var tens = map[string]float64{"twenty": 20, "thirty": 30, "forty": 40, "fourty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
	"treinta": 30, "cuarenta": 40, "cincuenta": 50, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90}

var scales = map[string]float64{"hundred": 100, "thousand": 1000, "million": 1e6, "billion": 1e9, "dozen": 12, "hundert": 100, "tausend": 1000,
	"cent": 100, "mille": 1000, "cien": 100, "mil": 1000}

// numberTable holds the numbers that are one word.
func numberTable() map[string]float64 {
	out := map[string]float64{}
	for _, list := range []string{
		"zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
		"null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
		"zéro . deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
		"cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte",
	} {
		for i, w := range strings.Fields(list) {
			if _, ok := out[w]; !ok && w != "." {
				out[w] = float64(i)
			}
		}
	}
	germanUnits := strings.Fields("ein zwei drei vier fünf sechs sieben acht neun")
	for i, t := range strings.Fields("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig") {
		out[t] = float64(20 + 10*i)
		for j, u := range germanUnits {
			out[u+"und"+t] = float64(20 + 10*i + j + 1)
		}
	}
	return out
}

var ordinals = map[string]float64{"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
	"tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17,
	"eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30}

// numberAt reads a number at token i, in digits or words, and returns its
// value and how many tokens it takes; none if there is no number.
func numberAt(toks []token, i int) (v float64, n int) {
	if i >= len(toks) {
		return 0, 0
	}
	switch t := toks[i]; {
	case t.kind == tkNumber:
		v, n = t.num, 1
		if w := wordAt(toks, i+1); scales[w] > 0 {
			v, n = v*scales[w], 2
		}
	case (t.low == "minus" || t.low == "negative") && (i == 0 || !isNumeric(toks, i-1)):
		if v, n = numberAt(toks, i+1); n > 0 {
			return -v, n + 1
		}
		return 0, 0
	case t.low == "half" && (wordAt(toks, i+1) == "a" || wordAt(toks, i+1) == "of") && scales[wordAt(toks, i+2)] > 0:
		return scales[wordAt(toks, i+2)] / 2, 3
	case t.low == "a" || t.low == "an":
		switch w := wordAt(toks, i+1); {
		case w == "couple":
			return 2, 2
		case w == "pair":
			return 2, 2
		case scales[w] > 0:
			v, n = scales[w], 2
		default:
			return 0, 0
		}
	default:
		v, n = spelled(toks, i)
	}
	if n == 0 {
		return 0, 0
	}
	f, m := fractionAt(toks, i+n)
	return v + f, n + m
}

func isNumeric(toks []token, i int) bool {
	_, n := numberAt(toks, i)
	return n > 0
}

// wordAt returns the lower-case word at i, or "".
func wordAt(toks []token, i int) string {
	if i < 0 || i >= len(toks) || toks[i].kind != tkWord {
		return ""
	}
	return toks[i].low
}

// spelled reads a number in words.
func spelled(toks []token, i int) (float64, int) {
	total, current, n, some := 0.0, 0.0, 0, false
	lastTens := false
	for j := i; j < len(toks); {
		if some && (toks[j].text == "-" && toks[j].glued || (toks[j].low == "and" || toks[j].low == "y" || toks[j].low == "et") && (current >= 100 || total > 0 || lastTens && toks[j].low != "and")) {
			if !isSpelled(wordAt(toks, j+1)) {
				break
			}
			j++
			continue
		}
		w := wordAt(toks, j)
		switch {
		case tens[w] > 0 && (!some || math.Mod(current, 100) == 0):
			current, lastTens = current+tens[w], true
		case hasKey(numberWords, w) && (!some || lastTens && numberWords[w] < 20 || current > 0 && math.Mod(current, 100) == 0 || total > 0 && current == 0):
			current, lastTens = current+numberWords[w], false
		case scales[w] > 0 && some:
			if w == "hundred" || w == "hundert" || w == "cent" || w == "dozen" {
				current *= scales[w]
			} else {
				total, current = total+current*scales[w], 0
			}
			lastTens = false
		default:
			return total + current, n
		}
		some = true
		j++
		n = j - i
	}
	return total + current, n
}

func isSpelled(w string) bool { return tens[w] > 0 || hasKey(numberWords, w) || scales[w] > 0 }

func hasKey[V any](m map[string]V, k string) bool { _, ok := m[k]; return ok }

// fractionAt reads "and a half", "and three quarters", "point five".
func fractionAt(toks []token, i int) (float64, int) {
	switch wordAt(toks, i) {
	case "and":
		switch a, b := wordAt(toks, i+1), wordAt(toks, i+2); {
		case (a == "a" || a == "one") && b == "half":
			return 0.5, 3
		case (a == "a" || a == "one") && b == "quarter":
			return 0.25, 3
		case a == "three" && (b == "quarters" || b == "quarter"):
			return 0.75, 3
		}
	case "point":
		f, scale, n := 0.0, 0.1, 1
		for ; hasKey(numberWords, wordAt(toks, i+n)) && numberWords[wordAt(toks, i+n)] < 10; n++ {
			f += numberWords[wordAt(toks, i+n)] * scale
			scale /= 10
		}
		if n > 1 {
			return math.Round(f*1e9) / 1e9, n
		}
	}
	return 0, 0
}
