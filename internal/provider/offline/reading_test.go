package offline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/tool"
)

// wednesday is the time to which the tests' words relate.
var wednesday = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func TestNumbers(t *testing.T) {
	for said, want := range map[string]string{
		"12": "12", "1,234.5": "1234.5", "1.234,5": "1234.5", "1.234.567": "1234567", "3,5": "3.5", "1,234": "1234", ".5": "0.5", "-3": "-3", "−4.25": "-4.25",
		"1e3": "1000", "5k": "5000", "2.5 million": "2500000", "twelve": "12", "twenty-one": "21", "one hundred and five": "105",
		"three thousand two hundred": "3200", "two million five hundred thousand": "2500000", "three and a half": "3.5", "two and three quarters": "2.75", "six and a quarter": "6.25",
		"two point five": "2.5", "minus seven": "-7", "negative 3": "-3", "a dozen": "12", "half a dozen": "6", "a couple of": "2", "a hundred": "100", "ninety nine": "99",
		"einundzwanzig": "21", "zwölf": "12", "vingt-deux": "22", "treinta y cinco": "35", "fünfhundert": "", "nineteen hundred": "1900",
		"the": "", "point": "", "minus": "",
	} {
		toks := tokenize(said)
		v, n := numberAt(toks, 0)
		got := ""
		if n > 0 {
			got = shown(v)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestNumbersKeepTheirUnits(t *testing.T) {
	for said, want := range map[string]string{
		"5 kg": "5 kg", "5kg": "5 kg", "20 percent": "20 percent", "20%": "20 %", "$12.50": "12.5 $", "€ 7": "7 €", "7 euros": "7 euros", "21 degrees celsius": "21 celsius",
		"21°C": "21 c", "3 m": "3 m", "the third": "3 ", "2nd": "2 ", "10 gigabytes": "10 gigabytes", "5 real": "5 ", "one": "1 ", "this one": "",
	} {
		r := read(said, wednesday)
		got := ""
		for _, m := range r.strong {
			if m.kind == mnNumber {
				got = shown(m.num) + " " + m.unitWord
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestPointsInTime(t *testing.T) {
	for said, want := range map[string]string{
		"today": "2026-03-04 d", "tomorrow": "2026-03-05 d", "yesterday": "2026-03-03 d", "the day after tomorrow": "2026-03-06 d",
		"on Friday": "2026-03-06 d", "next Monday": "2026-03-09 d", "last Monday": "2026-03-02 d", "Wednesday": "2026-03-11 d",
		"March 3": "2027-03-03 d", "March 5th": "2026-03-05 d", "the 3rd of April 2027": "2027-04-03 d", "3 May": "2026-05-03 d", "December 24, 2026": "2026-12-24 d", "twenty-first of June": "2026-06-21 d",
		"February 29": "2028-02-29 d", "2026-03-01": "2026-03-01 d", "01.03.2026": "2026-03-01 d", "3/14/2026": "2026-03-14 d", "14/3/26": "2026-03-14 d",
		"in 3 days": "2026-03-07 d", "2 weeks ago": "2026-02-18 d", "next week": "2026-03-11 d", "next month": "2026-04-04 d", "last year": "2025-03-04 d", "in 2 months": "2026-05-04 d", "3 days from now": "2026-03-07 d",
		"in 20 minutes": "2026-03-04 10:20 dc", "in half an hour": "2026-03-04 10:30 dc", "an hour ago": "2026-03-04 09:00 dc", "2 hours later": "2026-03-04 12:00 dc",
		"7pm": "2026-03-04 19:00 c", "7 p.m.": "2026-03-04 19:00 c", "at 7:30": "2026-03-05 07:30 c", "12am": "2026-03-05 00:00 c", "12 pm": "2026-03-04 12:00 c", "noon": "2026-03-04 12:00 c", "midnight": "2026-03-05 00:00 c",
		"half past 7": "2026-03-05 07:30 c", "quarter to eight": "2026-03-05 07:45 c", "a quarter past 9": "2026-03-05 09:15 c", "at 11 o'clock": "2026-03-04 11:00 c", "7 in the evening": "2026-03-04 19:00 c", "at 5": "2026-03-05 05:00 c",
		"tomorrow at 7pm": "2026-03-05 19:00 dc", "at 7pm tomorrow": "2026-03-05 19:00 dc", "Friday, 14:30": "2026-03-06 14:30 dc", "7pm on 3 May": "2026-05-03 19:00 dc", "tonight at 8": "2026-03-04 20:00 dc", "tomorrow evening": "2026-03-05 18:00 dc", "this morning": "2026-03-04 09:00 dc",
		"2026-03-01T10:00:00Z": "2026-03-01 10:00 dc", "2026-03-01T10:00+02:00": "2026-03-01 10:00 dc",
		"morgen um 19 Uhr": "2026-03-05 19:00 dc", "übermorgen": "2026-03-06 d", "demain à 19 heures": "2026-03-05 19:00 dc", "mañana": "2026-03-05 d",
		"2026-13-01": "", "30.02.2026": "", "at 25:00": "", "13pm": "", "February 30": "", "march": "", "may": "",
	} {
		r := read(said, wednesday)
		var best *mention
		for i := range r.strong {
			if m := &r.strong[i]; m.kind == mnWhen && (best == nil || m.last-m.first > best.last-best.first) {
				best = m
			}
		}
		got := ""
		if best != nil {
			form, kind := "2006-01-02", " "
			if best.when.clock {
				form += " 15:04"
			}
			if best.when.date {
				kind += "d"
			}
			if best.when.clock {
				kind += "c"
			}
			got = best.when.time(wednesday).Format(form) + kind
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestLengthsOfTime(t *testing.T) {
	for said, want := range map[string]string{
		"for 20 minutes": "PT20M 20m", "2 hours": "PT2H 2h", "an hour and a half of": "PT1H30M 1h30m", "for an hour": "PT1H 1h", "2h30m": "PT2H30M 2h30m", "1 hour and 30 minutes": "PT1H30M 1h30m",
		"half an hour": "PT30M 30m", "a quarter of an hour": "PT15M 15m", "90 seconds": "PT1M30S 1m30s", "3 days": "P3D 72h", "2 weeks": "P14D 336h", "3 months": "P3M 2160h", "14 months": "P1Y2M 10080h", "one year": "P1Y 8640h",
		"a 20-minute": "PT20M 20m", "1.5 seconds": "PT1.5S 1.5s", "0 seconds": "PT0S 0s", "a day trip": "",
	} {
		r := read(said, wednesday)
		got := ""
		for _, m := range r.strong {
			if m.kind == mnSpan {
				got = isoSpan(m.span) + " " + goSpan(m.span)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for said, want := range map[string]string{
		`say "hello world" to 'Bob's' dog`:                            `word:say quoted:hello world word:to quoted:Bob's word:dog`,
		`don't "" 'unclosed`:                                          `word:don punct:" punct:" punct:' word:unclosed`,
		`mail anna@example.com, see https://x.org/a?b=1.`:             `word:mail email:anna@example.com punct:, word:see link:https://x.org/a?b=1 punct:.`,
		`notes/todo.txt ~/x ./a C:\tmp\x www.example.org example.com`: `path:notes/todo.txt path:~/x path:./a path:C:\tmp\x link:www.example.org link:example.com`,
		`Europe/Berlin and/or 1/2`:                                    `word:Europe/Berlin word:and punct:/ word:or number:1 op:/ number:2`,
		`INV-2041 #4512 B12 LX123 192.168.1.1 +49 170 1234567`:        `code:INV-2041 code:#4512 code:B12 code:LX123 code:192.168.1.1 code:+49 170 1234567`,
		`Dr. Lang's e-mail`:                                           `word:Dr. word:Lang word:'s word:e-mail`,
		`6*7 3-4 -5`:                                                  `number:6 op:* number:7 number:3 op:- number:4 number:-5`,
		"日本 «ça va» „ja“":                                             `word:日本 quoted:ça va quoted:ja`,
	} {
		names := []string{"word", "number", "quoted", "email", "link", "path", "code", "date", "clock", "op", "punct"}
		var got []string
		for _, tok := range tokenize(said) {
			got = append(got, names[tok.kind]+":"+tok.text)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q:\n %s\n want %s", said, s, want)
		}
	}
	if n := len(tokenize(strings.Repeat("word ", 100000))); n > maxRequest {
		t.Errorf("%d tokens of a request without end", n)
	}
}

func TestStems(t *testing.T) {
	for _, family := range []string{
		"schedule schedules scheduled scheduling", "multiply multiplies multiplied multiplication", "calculate calculation calculates calculating", "translate translation translated",
		"delete deleted deletes deletion", "city cities", "box boxes", "stop stopped stopping", "pay paid payment", "send sent sending", "create creation created", "reserve reservation reserved",
	} {
		list := strings.Fields(family)
		for _, w := range list {
			if stem(w) != stem(list[0]) {
				t.Errorf("%s → %s, %s → %s", list[0], stem(list[0]), w, stem(w))
			}
		}
	}
	for a, b := range map[string]string{"temprature": "temperature", "wether": "weather", "calender": "calendar", "photograph": "photo"} {
		if same(stem(a), stem(b)) < 0.6 {
			t.Errorf("%s is nothing like %s", a, b)
		}
	}
	if same("lamp", "play") != 0 || oneEdit("abcd", "axyd") {
		t.Error("what is different is alike")
	}
}

func TestArithmeticInWords(t *testing.T) {
	for said, want := range map[string]string{
		"what is (3+4)*5?": "(3 + 4) * 5", "12 times 12 minus 4": "12 * 12 - 4", "3 plus 4 divided by 2": "3 + 4 / 2", "two multiplied by -3": "2 * -3",
		"6 mal 7 plus 1": "6 * 7 + 1", "10 % of 5": "", "compute 2 ^ 10": "2 ^ 10", "7": "", "3 + ": "", "12 geteilt durch 4": "12 / 4", "100% - 5": "100% - 5",
	} {
		r := read(said, wednesday)
		c := newClause(r, 0, len(r.toks), func(string) bool { return false })
		if _, _, got := c.arithmetics(); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestFormsOfTime(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string","format":"date"}`: "2026-03-05", `{"type":"string","format":"time"}`: "19:00:00Z", `{"type":"string","format":"date-time"}`: "2026-03-05T19:00:00Z",
		`{"type":"string","description":"Time of day, HH:MM"}`: "19:00", `{"type":"string","description":"Day as YYYY-MM-DD"}`: "2026-03-05", `{"type":"string","description":"RFC 3339"}`: "2026-03-05T19:00:00Z",
		`{"type":"integer","description":"Unix timestamp in seconds"}`: "1772737200", `{"type":"integer","description":"Unix timestamp in milliseconds"}`: "1772737200000",
		`{"type":"string","description":"natural language is fine"}`: "tomorrow at 7pm",
	} {
		x := newIndex([]tool.Spec{{Name: "gate.open", Description: "Opens the gate at a time.", Input: []byte(fmt.Sprintf(`{"type":"object","properties":{"time":%s},"required":["time"]}`, schema))}})
		pl := &planner{x: x}
		p := pl.make(read("open the gate tomorrow at 7pm", wednesday), nil, nil)
		if len(p.steps) != 1 || shown(p.steps[0].args["time"]) != want {
			t.Errorf("%s: %v, want %s", schema, p.steps[0].args, want)
		}
	}
}
