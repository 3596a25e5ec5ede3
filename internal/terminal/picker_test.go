package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

func TestPicker(t *testing.T) {
	d := newDrive(t, &down{})
	var items []string
	for i := range 30 {
		items = append(items, fmt.Sprintf("vendor/model-%d", i))
	}
	chosen := ""
	open := func() {
		d.pick("model:", "", items, func(item string) tea.Cmd { chosen = item; return nil })
	}
	open()
	for _, key := range []string{"L", "-", "2", "down", "down"} {
		d.do(press(key))
	}
	if s := stripped(d.screen()); !strings.Contains(s, "model: L-2▏") || !strings.Contains(s, "› vendor/model-21") || strings.Contains(s, "model-3\n") {
		t.Errorf("%s", s)
	}
	d.do(press("enter"))
	if chosen != "vendor/model-21" || d.picking != nil {
		t.Errorf("%q", chosen)
	}
	open()
	for _, key := range []string{"x", "y", "enter"} { // no matches: nothing is chosen
		d.do(press(key))
	}
	if s := stripped(d.screen()); d.picking == nil || !strings.Contains(s, "no matches") {
		t.Errorf("%s", s)
	}
	for range 3 {
		d.do(press("backspace"))
	}
	for range 40 {
		d.do(press("down"))
	}
	if s := stripped(d.screen()); !strings.Contains(s, "› vendor/model-29") {
		t.Errorf("%s", s)
	}
	d.do(press("esc"))
	if d.picking != nil || chosen != "vendor/model-21" {
		t.Errorf("%q", chosen)
	}
}

func TestEarlierInputIsFound(t *testing.T) {
	d := newDrive(t, &down{})
	d.do(press("ctrl+r"))
	if d.picking != nil || !strings.Contains(d.look(), "no earlier input") {
		t.Error("there is nothing to find")
	}
	for _, text := range []string{"buy milk", "write to ann\nabout milk", "buy milk", "sleep"} {
		d.past.keep(text)
	}
	d.input.SetValue("milk")
	d.do(press("ctrl+r"))
	if left := d.picking.left(); len(left) != 2 || left[0] != "buy milk" {
		t.Errorf("%q", left)
	}
	d.do(press("ctrl+r")) // the next older one
	d.do(press("enter"))
	if d.input.Value() != "write to ann\nabout milk" {
		t.Errorf("%q", d.input.Value())
	}
}

// Tab completes what is certain, and lists the rest with what it does.
func TestTabLists(t *testing.T) {
	d := newDrive(t, &down{})
	d.setInput("/qu")
	d.do(press("tab"))
	if d.input.Value() != "/quit " || d.picking != nil {
		t.Errorf("%q", d.input.Value())
	}
	d.setInput("/")
	d.do(press("tab"))
	if s := stripped(d.screen()); !strings.Contains(s, "› /help show this list") {
		t.Fatal(s)
	}
	for _, key := range strings.Split("context", "") { // only /pin speaks of it
		d.do(press(key))
	}
	d.do(press("enter"))
	if d.input.Value() != "/pin " {
		t.Errorf("%q", d.input.Value())
	}
	dir := t.TempDir()
	for _, name := range []string{"a1.txt", "a2.txt", "b c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.setInput("look at @" + dir + "/a")
	d.do(press("tab"))
	d.do(press("down"))
	d.do(press("enter"))
	if want := "look at @" + dir + "/a2.txt "; d.input.Value() != want || d.picking != nil {
		t.Errorf("%q", d.input.Value())
	}
	d.setInput("look at @" + dir + "/")
	d.do(press("tab"))
	for _, key := range strings.Split("c.txt", "") {
		d.do(press(key))
	}
	d.do(press("enter"))
	if want := `look at @"` + dir + `/b c.txt" `; d.input.Value() != want {
		t.Errorf("%q", d.input.Value())
	}
}
