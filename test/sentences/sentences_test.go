// Package sentences_test has the sentences that people say, and what each should lead to with Steward's own
// tools and no model.
package sentences_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/internal/tool"
	"steward/internal/tool/sentence"
	"steward/internal/tools/calendar"
	"steward/internal/tools/clock"
	"steward/internal/tools/files"
	"steward/internal/tools/goal"
	"steward/internal/tools/home"
	"steward/internal/tools/job"
	"steward/internal/tools/local"
	"steward/internal/tools/math"
	"steward/internal/tools/reminder"
	"steward/internal/tools/task"
	"steward/internal/tools/weather"
	"steward/internal/tools/web"
)

// now is a Wednesday, eleven o'clock in Vienna.
var now = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// tools are the everyday tools, as the program makes them.
func tools(t testing.TB) *llm.Toolset {
	t.Helper()
	dir := t.TempDir()
	var all []tool.Tool
	add := func(tools []tool.Tool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tools...)
	}
	add(math.Tools())
	add(clock.Tools(local.Options{}))
	add(files.Tools(files.Options{Folders: []files.Folder{{Name: "workspace", Path: dir, Write: true}}, Trash: func(string) string { return dir }, Notes: "workspace/Notes"}))
	for name, fill := range map[string]func(*local.Kit){
		"reminder": func(k *local.Kit) { reminder.AddReminders(k, reminder.Options{}) },
		"job":      func(k *local.Kit) { job.Add(k, job.Service{}) },
		"timer":    func(k *local.Kit) { reminder.AddTimers(k, reminder.Options{}) },
		"goal":     func(k *local.Kit) { goal.AddGoals(k, goal.Options{}) },
		"project":  func(k *local.Kit) { goal.AddProjects(k, goal.Options{}) },
		"todo":     func(k *local.Kit) { task.Add(k, local.Place{}, task.Options{}) },
		"calendar": func(k *local.Kit) { calendar.Add(k, local.Place{}, calendar.Options{}) },
		"weather":  func(k *local.Kit) { weather.AddForecast(k, weather.ForecastOptions{}) },
		"web":      func(k *local.Kit) { web.Add(k, web.Options{}) },
		"home":     func(k *local.Kit) { home.Add(k, home.New(home.Options{})) },
	} {
		k := local.NewKit(tool.Env{Name: name}, "")
		fill(k)
		add(k.Tools())
	}
	var specs []tool.Spec
	for _, t := range all {
		specs = append(specs, t.Spec())
	}
	return llm.NewToolset(specs...)
}

// model is shared, because it prepares a set of tools once.
var model = offline.New(offline.Options{Now: func() time.Time { return now }}).Model("")

// say returns the calls that a message leads to, or the answer.
func say(t testing.TB, set *llm.Toolset, text string) (calls, answer string) {
	t.Helper()
	m := &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: text, Common: message.Common{Origin: "user"}}}}
	var list []string
	for e, err := range model.Stream(context.Background(), &llm.Request{System: "You help.\nTime zone: Europe/Vienna", Tools: set, Transcript: llm.NewTranscript(m)}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != llm.Done {
			continue
		}
		for _, b := range e.Reply.Blocks {
			switch b := b.(type) {
			case *message.ToolCall:
				list = append(list, b.Name+" "+string(b.Args))
			case *message.Text:
				answer += b.Text
			}
		}
	}
	return strings.Join(list, "; "), answer
}

// same reports whether calls are equal. The order of members and white space do not count.
func same(a, b string) bool {
	one, other := strings.Split(a, "; "), strings.Split(b, "; ")
	if len(one) > 1 && len(one) == len(other) {
		return same(one[0], other[0]) && same(strings.Join(one[1:], "; "), strings.Join(other[1:], "; "))
	}
	form := func(call string) string {
		name, args, _ := strings.Cut(call, " ")
		var v map[string]any
		if json.Unmarshal([]byte(args), &v) != nil {
			return call
		}
		out, err := json.Marshal(v)
		if err != nil {
			return call
		}
		return name + " " + string(out)
	}
	return form(a) == form(b)
}

// unsure reports whether an answer is a refusal.
func unsure(answer string) bool {
	return strings.HasPrefix(answer, "I am not sure") || strings.HasPrefix(answer, "Ich weiß nicht sicher")
}

// score counts how many sentences of a file lead to what they should, and how many to anything else than a
// refusal.
func score(t *testing.T, file string) (right, wrong, all int) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	set := tools(t)
	for line := range strings.Lines(string(b)) {
		said, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			t.Fatalf("%s: %q", file, line)
		}
		all++
		calls, answer := say(t, set, said)
		switch {
		case want == "answer" && calls == "" && !unsure(answer), calls != "" && same(calls, want):
			right++
		case calls == "" && unsure(answer):
			t.Logf("%s: refused: %s", file, said)
		default:
			wrong++
			t.Errorf("%s: %s: %s, want %s", file, said, calls+answer, want)
		}
	}
	return right, wrong, all
}

// TestEverydaySentences: the sentences were written before the patterns. Every other one was held out.
func TestEverydaySentences(t *testing.T) {
	for _, file := range []string{"tuned.txt", "held.txt", "home.txt"} {
		right, wrong, all := score(t, file)
		t.Logf("%s: %d of %d right, %d wrong", file, right, all, wrong)
		if wrong > 0 || right*5 < all*4 {
			t.Errorf("%s: %d of %d right, %d wrong", file, right, all, wrong)
		}
	}
}

// TestEverySentenceThatIsNamedIsUnderstood: a refusal and the help name examples of patterns. Each pattern can be
// read, and each example leads to its own tool.
func TestEverySentenceThatIsNamedIsUnderstood(t *testing.T) {
	set := tools(t)
	n := 0
	for _, s := range set.Specs() {
		for _, source := range s.Sentences {
			p, err := sentence.Compile(source)
			if err != nil {
				t.Errorf("%s: %v", s.Name, err)
				continue
			}
			n++
			if calls, answer := say(t, set, p.Example()); !strings.HasPrefix(calls, s.Name+" {") || strings.Contains(calls, ";") {
				t.Errorf("%s: %q leads to %s%s (%s)", s.Name, p.Example(), calls, answer, source)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d patterns", n)
	}
}

// TestWhatPeopleSayIsNotMistaken has what once led to something else, and its like.
func TestWhatPeopleSayIsNotMistaken(t *testing.T) {
	set := tools(t)
	const notes = `files.read {"path":"workspace/notes.txt"}`
	for text, want := range map[string]string{
		"Show me what's in notes.txt": notes, "What is in notes.txt?": notes, "what's inside notes.txt": notes, "What does notes.txt say?": notes, "Show me the contents of notes.txt": notes,
		"show me what notes.txt says": notes, "Zeig mir, was in notes.txt steht": notes, "Was steht in notes.txt?": notes, "Lies mir notes.txt vor": notes,
		"show the folder notes.txt": notes, "list notes.txt": "",
		"What's in the folder documents?": `files.list {"path":"documents"}`, "Find the invoice in my files": `files.search {"query":"invoice"}`,
		"Save \"hello\" as notes.txt": `files.write {"path":"workspace/notes.txt","content":"hello"}`,

		"What's 3,5 mal 4?": `math.multiply {"a":3.5,"b":4}`, "Was ist 1.000 plus 5?": `math.add {"a":1000,"b":5}`, "Was ist 2 plus 3,5 mal 4?": `math.evaluate {"expression":"2 + 3.5 * 4"}`,
		"Was sind 19 Prozent von 1.250,50?": `math.evaluate {"expression":"19 % of 1250.50"}`, "What is 1,250 plus 5?": `math.add {"a":1250,"b":5}`, "What is 3,5 times 4?": "",

		"wake me at 7": `reminder.set {"text":"Wake up","at":"2026-03-05T07:00:00+01:00"}`, "Weck mich um 7": `reminder.set {"text":"Aufwachen","at":"2026-03-05T07:00:00+01:00"}`,
		"wake me tomorrow at 5": `reminder.set {"text":"Wake up","at":"2026-03-05T05:00:00+01:00"}`, "set an alarm for 7": `reminder.set {"text":"Alarm","at":"2026-03-05T07:00:00+01:00"}`,
		"set an alarm for 11:30": `reminder.set {"text":"Alarm","at":"2026-03-04T11:30:00+01:00"}`, "wake me at 3": `reminder.set {"text":"Wake up","at":"2026-03-04T15:00:00+01:00"}`,
		"Remind me tomorrow to call the bank": `reminder.set {"text":"call the bank","at":"2026-03-05T09:00:00+01:00"}`, "reminder: call the bank tomorrow at 9": `reminder.set {"text":"call the bank","at":"2026-03-05T09:00:00+01:00"}`,
		"I need a reminder to call the bank at 5": `reminder.set {"text":"call the bank","at":"2026-03-04T17:00:00+01:00"}`, "Remind me to buy milk": "",
		"Delete the reminder about mum": `reminder.cancel {"which":"mum"}`,
		"5 min timer":                   `timer.set {"seconds":300}`, "A 10 minute timer for the pasta, please": `timer.set {"seconds":600,"name":"pasta"}`, `Set a timer for 10 minutes named "tea"`: `timer.set {"seconds":600,"name":"tea"}`, "Cancel the timer tea": `timer.cancel {"which":"tea"}`, "set a timer for 10 minutes from now": "",
		"5 Minuten Timer": `timer.set {"seconds":300}`, "5 minutes": "",

		"Add milk, eggs and bread to the shopping list":             `todo.add {"title":"milk","list":"shopping"}; todo.add {"title":"eggs","list":"shopping"}; todo.add {"title":"bread","list":"shopping"}`,
		"Setz Milch und Eier auf die Einkaufsliste":                 `todo.add {"title":"Milch","list":"Einkaufsliste"}; todo.add {"title":"Eier","list":"Einkaufsliste"}`,
		"Add sausages with mustard and ketchup to my shopping list": `todo.add {"title":"sausages with mustard and ketchup","list":"shopping"}`,
		"Add call mum and dad to my to do list":                     `todo.add {"title":"call mum and dad"}`,
		"what's left on the shopping list?":                         `todo.list {"list":"shopping"}`, "add milk, eggs to the shopping list and bread to the to-do list": "", "cancel the timer now": `timer.cancel {}`,
		"tick off milk": `todo.complete {"task":"milk"}`,

		"I have a dentist appointment on Tuesday at 10:30, please add it to the calendar": `calendar.add {"title":"dentist appointment","start":"2026-03-10T10:30:00+01:00"}`,
		"I have a dentist appointment on Tuesday at 10:30. Please add it to my calendar":  `calendar.add {"title":"dentist appointment","start":"2026-03-10T10:30:00+01:00"}`,
		"Welche Termine habe ich morgen?":                                                 `calendar.list {"date":"2026-03-05"}`,
		"What do I have this week?":                                                       `calendar.list {}`, "When is my next appointment?": `calendar.list {}`, "When is my next reminder?": `reminder.list {}`, "delete my note Ideas": "",
		"100/7": `math.divide {"a":100,"b":7}`, "Was ist 20% von 80?": `math.evaluate {"expression":"20 % of 80"}`, "what is 5 plus": "",
		"meeting with Anna tomorrow at 3pm": "", "How many days until Christmas?": "", "delete everything": "", "delete all my files": "",
		"note: the wifi password is x": `notes.append {"title":"Notes","text":"the wifi password is x"}`,
	} {
		calls, answer := say(t, set, text)
		if !same(calls, want) || want == "" && !unsure(answer) {
			t.Errorf("%q leads to %s%s, want %s", text, calls, answer, want)
		}
	}
}

// BenchmarkMessage is what a message costs that has the form of a sentence, and one that has not.
func BenchmarkMessage(b *testing.B) {
	set := tools(b)
	for name, text := range map[string]string{"known": "Remind me to call mum in 20 minutes", "compared": "Multiply 6 by 7", "unknown": "Tell me a long story about cats and their dogs"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				say(b, set, text)
			}
		})
	}
	b.Run("new tools", func(b *testing.B) {
		for b.Loop() {
			say(b, llm.NewToolset(set.Specs()...), "Multiply 6 by 7")
		}
	})
}
