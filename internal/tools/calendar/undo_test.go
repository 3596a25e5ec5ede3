package calendar

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/tool"
)

// events is what a calendar holds, without the times of changes.
func events(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "LAST-MODIFIED") && !strings.HasPrefix(line, "DTSTAMP") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// Each change is taken back, once, and what others wrote stays.
func TestChangesAreTakenBack(t *testing.T) {
	s, path := open(t, foreign)
	s.Call("0", "calendar.add", `{"title":"Tea with Zoe","start":"2026-03-05T15:00:00+01:00","notes":"a long note that has to be folded because it does not fit in seventy-five bytes"}`)
	for call, args := range map[string]string{
		"calendar.add":    `{"title":"Coffee","start":"2026-03-06T15:00:00+01:00"}`,
		"calendar.move":   `{"event":"tea zoe","start":"2026-03-08T09:00:00+01:00"}`,
		"calendar.remove": `{"event":"tea zoe"}`,
	} {
		before := events(file2(t, path))
		s.Call(call, call, args)
		if events(file2(t, path)) == before {
			t.Fatalf("%s has changed nothing", call)
		}
		in := s.Invocation(call, call, args)
		reply, err := s.Undo(in, call)
		if err != nil || !strings.Contains(reply, "restored") {
			t.Fatalf("%s: %q, %v", call, reply, err)
		}
		if got := events(file2(t, path)); got != before {
			t.Errorf("%s taken back:\n%s\nwas\n%s", call, got, before)
		}
		whole := file2(t, path)
		if again, err := s.Undo(in, call); err != nil || again != reply || file2(t, path) != whole {
			t.Errorf("%s taken back twice: %q, %v", call, again, err)
		}
		if got := s.Call(call, call, args); got == "" || events(file2(t, path)) != before {
			t.Errorf("the same call did it again: %s", got)
		}
	}
}

func TestWhatWasChangedSinceStays(t *testing.T) {
	s, path := open(t, "")
	in := s.Invocation("a", "calendar.add", `{"title":"Tea","start":"2026-03-05T15:00:00+01:00"}`)
	if _, err := s.Undo(in, "calendar.add"); !fault.HasCode(err, "undo_unknown") || !tool.CertainlyNotDone(err) {
		t.Errorf("what was not done: %v", err)
	}
	s.Call("a", "calendar.add", `{"title":"Tea","start":"2026-03-05T15:00:00+01:00"}`)
	s.Call("b", "calendar.move", `{"event":"tea","start":"2026-03-08T09:00:00+01:00"}`)
	before := file2(t, path)
	if _, err := s.Undo(in, "calendar.add"); !fault.HasCode(err, "changed_since") || !tool.CertainlyNotDone(err) || file2(t, path) != before {
		t.Errorf("what was moved since: %v", err)
	}
}

// However changes and their undoing follow each other, in the end all that was
// there is there.
func TestUndoneInReverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, path := open(t, foreign)
		if err := os.WriteFile(path, []byte(foreign), 0o644); err != nil {
			t.Fatal(err)
		}
		before := events(file2(t, path))
		type done struct {
			name string
			in   tool.Invocation
		}
		var all []done
		for i := range rapid.IntRange(1, 6).Draw(rt, "changes") {
			name, args := "calendar.add", `{"title":"Thing `+string(rune('a'+i))+`","start":"2026-03-06T15:00:00+01:00"}`
			if i > 0 {
				switch rapid.IntRange(0, 2).Draw(rt, "kind") {
				case 0:
					name, args = "calendar.move", `{"event":"Thing a","start":"2026-03-0`+string(rune('1'+i))+`T09:00:00+01:00"}`
				case 1:
					name, args = "calendar.remove", `{"event":"Thing a"}`
				}
			}
			tl, _ := s.Registry.Get(name)
			in := s.Invocation(string(rune('a'+i))+name, name, args)
			if _, err := tl.Call(t.Context(), in); err == nil {
				all = append(all, done{name, in})
			}
		}
		for _, d := range slices.Backward(all) {
			if _, err := s.Undo(d.in, d.name); err != nil {
				rt.Fatalf("%s: %v", d.name, err)
			}
		}
		if got := events(file2(t, path)); got != before {
			rt.Fatalf("\n%s\nwas\n%s", got, before)
		}
	})
}
