package terminal

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"pgregory.net/rapid"

	"steward/internal/catalog"
	_ "steward/test/seed"
)

func inspection() catalog.Inspection {
	i := catalog.Inspection{Hash: "abc", Diff: "--- approved PROMPT.md\n+++ now PROMPT.md\n@@ -1 +1 @@\n-Be good.\n+Be ‹U+202E›evil.\n same\n",
		Warnings: []string{"PROMPT.md contains invisible characters: U+202E on line 1"},
		Items:    []catalog.Item{{Name: "agent.yaml", Text: "name: desk\n\ndomains:\n\tnotes: {}\n"}, {Name: "file big", Hash: "def"}}}
	i.Listing = catalog.Listing{Path: "desk", Kind: catalog.KindAgent, Status: catalog.Pending, Changed: true, By: "ada", At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local),
		Description: "Does desk.\nAnd more.", Dir: "/home/ada/desk", Reason: "it was\x1b[2J changed", Tools: []string{"notes.add", "notes.drop"},
		Problems: []catalog.Problem{{File: "agent.yaml", Line: 3, Code: "x", Message: "a tab"}}}
	return i
}

func TestInspected(t *testing.T) {
	head := `desk  changed by ada, 2030-01-02 03:04
  what     Does desk.
  reason   it was␛[2J changed
  where    /home/ada/desk
  tools    notes.add, notes.drop
  hash     abc
  ✗ agent.yaml:3: a tab (x)

Review this:
  ! PROMPT.md contains invisible characters: U+202E on line 1
`
	diff := `
Changed since you approved it:
   --- approved PROMPT.md
   +++ now PROMPT.md
   @@ -1 +1 @@
   -Be good.
   +Be ‹U+202E›evil.
    same
`
	items := `
── agent.yaml
   name: desk

   domains:
       notes: {}

── file big
`
	i := inspection()
	head = strings.Replace(head, "agent.yaml:3: a tab (x)", i.Problems[0].String(), 1)
	if got := Inspected(i, false); got != head+diff {
		t.Errorf("got\n%s\nwant\n%s", got, head+diff)
	}
	if got := Inspected(i, true); got != head+items+diff {
		t.Errorf("got\n%s\nwant\n%s", got, head+items+diff)
	}
	i.Diff = ""
	if got := Inspected(i, false); got != head+items {
		t.Errorf("got\n%s\nwant\n%s", got, head+items)
	}
}

func TestInspectedInColoursAndColumns(t *testing.T) {
	d := newStyle()
	got := inspected(d, 30, inspection(), true)
	for _, want := range []string{d.warn.Render("  ! ") + d.warn.Render("PROMPT.md contains"), d.bad.Render("-Be good."), d.good.Render("+Be ‹U+202E›evil."), d.dim.Render("@@ -1 +1 @@"), d.strong.Render("agent.yaml")} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// Whatever an agent's files contain stays within the columns, and reaches the terminal
// neither as a control sequence nor invisibly.
func TestInspectedIsHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`( |\t|[a-z\x1b\x{202e}]|[-+]|\n){0,200}`))
		i := catalog.Inspection{Diff: text.Draw(t, "diff"), Warnings: []string{text.Draw(t, "warning")}, Hash: text.Draw(t, "hash"),
			Items: []catalog.Item{{Name: text.Draw(t, "name"), Text: text.Draw(t, "text")}}}
		i.Path, i.Description, i.By, i.Tools = "desk", text.Draw(t, "what"), text.Draw(t, "by"), []string{text.Draw(t, "tool")}
		width := rapid.IntRange(30, 120).Draw(t, "width")
		for _, line := range strings.Split(inspected(style{}, width, i, true), "\n") {
			if lipgloss.Width(line) > width {
				t.Fatalf("too wide: %q", line)
			}
			for _, r := range line {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("%q reaches the terminal in %q", r, line)
				}
			}
		}
	})
}

func TestStatusWords(t *testing.T) {
	for want, l := range map[string]catalog.Listing{
		"changed":                         {Status: catalog.Pending, Changed: true},
		"pending":                         {Status: catalog.Pending},
		"approved":                        {Status: catalog.Approved, Usable: true},
		"approved, but its parent is not": {Status: catalog.Approved},
		"invalid":                         {Status: catalog.Invalid},
	} {
		if got := StatusWords(l); got != want {
			t.Errorf("%+v: %s", l, got)
		}
	}
}

func TestGroups(t *testing.T) {
	var list []catalog.Listing
	for _, p := range []string{"desk", "desk/mail", "desk/mail/filter", "desk_two", "grpc:hash", "other/mail", "other/mail/filter", "other/task"} {
		list = append(list, catalog.Listing{Path: p, Kind: catalog.KindAgent})
	}
	list[4].Kind = catalog.KindSource
	var got []string
	for _, g := range groups(list) {
		got = append(got, describe(g))
	}
	want := "desk (an agent with 2 below it)|desk_two (an agent)|grpc:hash (a gRPC endpoint)|other/mail (an agent with 1 below it)|other/task (an agent)"
	if strings.Join(got, "|") != want {
		t.Errorf("got %s", strings.Join(got, "|"))
	}
}
