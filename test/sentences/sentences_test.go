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

	"steward/internal/domain/calendar"
	"steward/internal/domain/local"
	"steward/internal/domain/reminder"
	"steward/internal/domain/task"
	"steward/internal/domain/weather"
	"steward/internal/domain/web"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/internal/tool"
	"steward/internal/tool/sentence"
	"steward/internal/toolkit/builtin"
)

// now is a Wednesday, eleven o'clock in Vienna.
var now = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

// tools are the everyday tools, as the program makes them.
func tools(t testing.TB) *llm.Toolset {
	t.Helper()
	dir := t.TempDir()
	all, err := builtin.Tools(builtin.Options{Folders: []builtin.Folder{{Name: "workspace", Path: dir, Write: true}}, Trash: func(string) string { return dir }, Notes: "workspace/Notes"})
	if err != nil {
		t.Fatal(err)
	}
	for name, add := range map[string]func(*local.Kit){
		"reminder": func(k *local.Kit) { reminder.AddReminders(k, reminder.Options{}) },
		"timer":    func(k *local.Kit) { reminder.AddTimers(k, reminder.Options{}) },
		"todo":     func(k *local.Kit) { task.Add(k, local.Place{}, task.Options{}) },
		"calendar": func(k *local.Kit) { calendar.Add(k, local.Place{}, calendar.Options{}) },
		"weather":  func(k *local.Kit) { weather.AddForecast(k, weather.ForecastOptions{}) },
		"web":      func(k *local.Kit) { web.Add(k, web.Options{}) },
	} {
		k := local.NewKit(tool.Env{Name: name}, "")
		add(k)
		more, err := k.Tools()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
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

// same reports whether two calls are equal. The order of members and white space do not count.
func same(a, b string) bool {
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
	for _, file := range []string{"tuned.txt", "held.txt"} {
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
