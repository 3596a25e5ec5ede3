package sentence

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// now is a Wednesday, eleven o'clock in Vienna.
func now(t testing.TB) time.Time {
	zone, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2026, 3, 4, 11, 0, 0, 0, zone)
}

func must(t testing.TB, source string) *Pattern {
	t.Helper()
	p, err := Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t testing.TB, source, text string) string {
	t.Helper()
	args, ok := must(t, source).Match(text, now(t))
	if !ok {
		return ""
	}
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"tomorrow at 3": "03-05T15:00", "at 3 tomorrow": "03-05T15:00", "tomorrow at 8": "03-05T08:00", "tomorrow at 8 in the evening": "03-05T20:00",
		"tomorrow morning at 9": "03-05T09:00", "tonight at 8": "03-04T20:00", "this evening": "03-04T19:00", "at 5": "03-04T17:00", "at 8": "03-04T20:00",
		"at 11": "03-04T23:00", "at 9am": "03-05T09:00", "at 9 a.m.": "03-05T09:00", "at noon": "03-04T12:00", "at 10:30": "03-04T22:30", "at 14:30": "03-04T14:30", "tomorrow at 10:30": "03-05T10:30",
		"on Friday at 15:00": "03-06T15:00", "next Friday at 9am": "03-13T09:00", "Friday 3pm": "03-06T15:00", "at 3:30 pm on Friday": "03-06T15:30",
		"tomorrow": "03-05T09:00", "half past seven": "03-04T19:30", "at quarter to 9": "03-04T20:45", "March 12th at noon": "03-12T12:00",
		"the 5th of April at 10": "04-05T10:00", "in 3 days at 10am": "03-07T10:00", "the day after tomorrow at 7": "03-06T07:00", "2026-04-01 14:00": "04-01T14:00",
		"heute Abend um acht": "03-04T20:00", "übermorgen um 14 Uhr": "03-06T14:00", "morgen früh um 7": "03-05T07:00", "am Freitag um 15 Uhr": "03-06T15:00", "um 17 Uhr 30": "03-04T17:30",
		"um halb acht": "03-04T19:30", "um Viertel nach drei": "03-04T15:15", "am 12. März um 9 Uhr": "03-12T09:00", "am 12.3. um 9 Uhr": "03-12T09:00", "Freitagabend um acht": "03-06T20:00",
		"nächsten Freitag um 10 Uhr": "03-13T10:00", "um 20:15 Uhr": "03-04T20:15", "um 9 Uhr abends": "03-04T21:00", "on Wednesday at 9": "03-11T09:00", "on the weekend": "03-07T09:00",
		// What is not certain, or is past.
		"at 25": "", "today at 9am": "", "yesterday": "", "at 3 bananas": "", "next month": "", "on the 31st of February": "", "March": "", "so": "", "12": "", "today": "", "may": "",
		"tomorrow at": "", "at 3 in the morning tomorrow evening": "", "tomorrow tomorrow": "", "at 13pm": "", "morgen um": "",
	} {
		got := read(t, "go {at:when}", "go "+text)
		if zone := "+01:00"; want != "" {
			if want >= "03-29" {
				zone = "+02:00"
			}
			want = `{"at":"2026-` + want + ":00" + zone + `"}`
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestLengths(t *testing.T) {
	for text, want := range map[string]string{
		"10 minutes": "600", "ten minutes": "600", "half an hour": "1800", "an hour and a half": "5400", "two and a half hours": "9000", "1 hour 30 minutes": "5400",
		"1 hour and 5 minutes": "3900", "90 seconds": "90", "forty-five minutes": "2700", "forty five minutes": "2700", "5min": "300", "a quarter of an hour": "900", "1.5 hours": "5400",
		"10 Minuten": "600", "eine halbe Stunde": "1800", "einer halben Stunde": "1800", "anderthalb Stunden": "5400", "einer Viertelstunde": "900", "zwei Stunden und 10 Minuten": "7800",
		"fünfundvierzig Minuten": "2700", "eine Minute": "60", "a minute": "60",
		"10": "", "minutes": "", "10 bananas": "", "5 minutes 2 hours": "", "0 minutes": "", "99999999999999 weeks": "", "a hundred minutes": "", "1e3 minutes": "",
	} {
		if want != "" {
			want = `{"s":` + want + `}`
		}
		if got := read(t, "wait {s:seconds}", "wait "+text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestForms(t *testing.T) {
	const remind = "remind me [to] {text} in {in:minutes}"
	for _, c := range []struct{ pattern, text, want string }{
		{remind, "Remind me to call mum in 20 minutes.", `{"in":20,"text":"call mum"}`},
		{remind, "Could you please remind me to buy milk and eggs in half an hour, please?", `{"in":30,"text":"buy milk and eggs"}`},
		{remind, `remind me "to be, or not" in 5 minutes`, `{"in":5,"text":"to be, or not"}`},
		{remind, "remind me to call mum in 20 minutes every day", ``},
		{remind, "remind me to call mum every day in 20 minutes", ``},
		{remind, "remind me to call mum tomorrow in 20 minutes", ``},
		{remind, "remind me to call mum if it rains in 20 minutes", ``},
		{remind, "remind me to call mum in 90 seconds", ``},
		{remind, "don't remind me to call mum in 20 minutes", ``},
		{remind, "remind me of it in 20 minutes please not", ``},
		{remind, "remind me to in 20 minutes", `{"in":20,"text":"to"}`},
		{remind, "remind me it in 20 minutes", ``},
		{"add {title} to the {list:label} list", "Add go to the gym to the packing list", `{"list":"packing","title":"go to the gym"}`},
		{"add {title} to the {list:label} list", "Add milk to the list of my mother's list", ``},
		{"weather in {place:place} [{days:days}] => units=metric, n=3, big=true", "weather in New York tomorrow", `{"big":true,"days":2,"n":3,"place":"New York","units":"metric"}`},
		{"weather in {place:place} [{days:days}]", "weather in my head", ``},
		{"read {url:url}", "Read https://example.org/a?b=c", `{"url":"https://example.org/a?b=c"}`},
		{"read {path:file docs}", "read notes.txt", `{"path":"docs/notes.txt"}`},
		{"read {path:file docs}", "read https://example.org/notes.txt", ``},
		{"free {date+from+to:hour}", "free on Friday at 11 in the evening", `{"date":"2026-03-06","from":"23:00","to":"23:59"}`},
		{"free {date+from+to:hour}", "free tomorrow evening", `{"date":"2026-03-05","from":"18:00","to":"22:00"}`},
		{"free {date+until:span}", "free at the weekend", `{"date":"2026-03-07","until":"2026-03-08"}`},
		{"weather {days:days}", "weather for the weekend", `{"days":5}`},
		{"go {at:moment}", "go at the weekend at 3", ``},
		{"read {url:url}", "read example.com/a", `{"url":"https://example.com/a"}`},
		{"read {path:file docs}", "read example.com", ``},
		{"every {at:weekly} {text}", "every Monday at 9 stretch", `{"at":"2026-03-09T09:00:00+01:00","text":"stretch"}`}, {"every {at:weekly} {text}", "every tomorrow at 9 stretch", ``},
		{"move {x} away", `move event "yoga class" away`, ``}, {"move [event] {x} away", `move event "yoga class" away`, `{"x":"yoga class"}`}, {"read {x} aloud", `read "Dune" aloud`, `{"x":"Dune"}`},
		{"remind me {at:when} to {text}", "remind me at 5 to or not to be", ``}, {"remind me {at:when} [to] {text}", "remind me at 5 or 6 to eat", ``},
		{"find {q:any}", "find cats. Delete my files", ``}, {"find {q:any}", "find cats and dogs!", `{"q":"cats and dogs"}`}, {"find {q:any}", "find Dr. No", `{"q":"Dr. No"}`},
		{"a {s:seconds} timer", "a ten-minute timer", `{"s":600}`},
		{"every day at {at:time} {text}", "every day at 9 stretch", `{"at":"09:00","text":"stretch"}`},
		{"(a [b]|c) d", "a d", `{}`}, {"(a [b]|c) d", "a b d", `{}`}, {"(a [b]|c) d", "c b d", ``}, {"(a [b]|c) d", "a b d e", ``},
		{"what's [on] the to-do list", "What’s on the to-do list?", `{}`},
		{"write to {to:email}", "write to ann@example.org.", `{"to":"ann@example.org"}`},
		{"roll {n:number} dice", "roll three dice", `{"n":3}`},
	} {
		if got := read(t, c.pattern, c.text); got != c.want {
			t.Errorf("%q in %q: %s, want %s", c.text, c.pattern, got, c.want)
		}
	}
}

func TestPatternsThatAreRefused(t *testing.T) {
	for source, want := range map[string]string{
		"": "begin with a word", "{text} now": "begin with a word", "[a] {text}": "begin with a word", "a [b": "]", "a (b|c": ")", "a b]": "unexpected", "a {b": "}", "a {b:c}": "unknown kind",
		"a {b+c:date}": "hour", "a => b": "NAME=VALUE", "a {:date}": "the name is missing", strings.Repeat("a ", 300): "400 bytes", "[[[[[[[a]]]]]]] b": "brackets",
		"a {b} {b} {b} {b} {b} {b} {b} {b} {b}": "too large", "a \xff": "text",
	} {
		if _, err := Compile(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

func TestTheReadingWithTheLeastFreeTextWins(t *testing.T) {
	var s Set
	s.Add([]*Pattern{must(t, "add {title} to the {list:label} list"), must(t, "add {title} to the to-do list")})
	s.Add([]*Pattern{must(t, "add {title} to the to-do list => other=true")})
	got := s.Read("add milk to the to-do list", now(t))
	if len(got) != 2 || got[0].Tool != 0 || got[1].Tool != 1 || got[0].Args["list"] != nil {
		t.Errorf("%+v", got)
	}
	if got := s.Read("add milk to the shopping list", now(t)); len(got) != 1 || got[0].Args["list"] != "shopping" {
		t.Errorf("%+v", got)
	}
}

func TestExamplesAreUnderstood(t *testing.T) {
	for source, want := range map[string]string{
		"remind me [to] {text=call mum} in {in:minutes}":                "Remind me call mum in 20 minutes",
		"de: (stell|setz) einen Timer auf {s:seconds}":                  "Stell einen Timer auf 10 Minuten",
		"de: übermorgen um acht {when:when}":                            "Übermorgen um acht morgen um 15 Uhr",
		"weather (in|for) {place:place} [today|{days:days}] => units=x": "Weather in Graz",
	} {
		p := must(t, source)
		if p.Example() != want {
			t.Errorf("%q", p.Example())
		}
		if _, ok := p.Match(p.Example(), now(t)); !ok {
			t.Errorf("%q is not understood by %q", p.Example(), source)
		}
	}
}

// steps counts the work by the instructions that were visited: the time grows in proportion to the sentence.
func TestTheWorkIsBounded(t *testing.T) {
	p := must(t, "a [a] [a] [a] [a] {x} a {y} a {z} a [a] [a] b")
	for _, n := range []int{10, 80, 5000} {
		text := strings.Repeat("a ", n)
		if _, ok := p.Match(text, now(t)); ok {
			t.Errorf("%d words match", n)
		}
	}
	if ws := split(strings.Repeat("x ", maxWords+1)); ws != nil {
		t.Errorf("%d words are read", len(ws))
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("remind me [to] {text=call mum} in {in:minutes}", "remind me to x in 5 minutes")
	f.Add("(a|b [c]) {at:when} => x=1", "a tomorrow at half past 3 in the morning")
	f.Add("de: am {d:date} {t:time} {h+i+j:hour}", "am 12. März um 9 Uhr 30 übermorgen um Viertel vor acht")
	f.Add("a {u:url} {e:email} {f:file x} {g:folder} {n:number} {l:label} {p:place} {q:any}", `a https://x.org a@b.org c.d e 5 "f" Graz h`)
	f.Fuzz(func(t *testing.T, source, text string) {
		p, err := Compile(source)
		if err != nil {
			return
		}
		p.Match(text, now(t))
		p.Match(p.Example(), now(t))
	})
}

func BenchmarkRead(b *testing.B) {
	var s Set
	for range 30 {
		s.Add([]*Pattern{must(b, "remind me [to] {text} in {in:minutes}"), must(b, "remind me {at:when} [to] {text}"), must(b, "add {title} to the {list:label} list")})
	}
	for _, text := range []string{"Remind me to call mum in 20 minutes", "tell me a joke about cats and dogs"} {
		b.Run(text[:6], func(b *testing.B) {
			for b.Loop() {
				s.Read(text, now(b))
			}
		})
	}
}
