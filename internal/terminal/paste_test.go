package terminal

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	tea "charm.land/bubbletea/v2"
)

// enterSends presses Enter and returns what is sent.
func (d *drive) enterSends() string {
	d.t.Helper()
	d.sending = ""
	d.update(press("enter"))
	out := plainText(d.sending)
	d.sending = ""
	return out
}

// What was pasted is sent as it is, whatever it contains.
func TestAPasteIsSentAsItIs(t *testing.T) {
	long := strings.Repeat("\tif x {\n", 500)
	for name, c := range map[string]struct{ paste, label, want string }{
		"short":      {"one\ntwo", "one\ntwo", "one\ntwo"},
		"lines":      {long, "[pasted 500 lines, 4.0 KB: if x {]", long},
		"tabs":       {"a\tb\n", "[pasted 1 line, 4 bytes: a b]", "a\tb\n"},
		"line ends":  {"a\rb", "a\nb", "a\nb"},
		"windows":    {"a\r\nb\r\n", "[pasted 2 lines, 6 bytes: a␍]", "a\r\nb\r\n"},
		"escapes":    {"\x1b[31mred\x1b[0m", "[pasted 1 line, 12 bytes: ␛(31mred␛(0m]", "\x1b[31mred\x1b[0m"},
		"no text":    {"\xff\x00", "[pasted 1 line, 4 bytes: ?␀]", "�\x00"},
		"one line":   {strings.Repeat("x", 70_000), "[pasted 1 line, 70.0 KB: " + strings.Repeat("x", 29) + "…]", strings.Repeat("x", 70_000)},
		"like paths": {"\t@/etc/hostname\n", "[pasted 1 line, 16 bytes: @/etc/hostname]", "\t@/etc/hostname\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, &down{})
			d.do(tea.PasteMsg{Content: c.paste})
			if got := d.input.Value(); got != c.label {
				t.Errorf("the input is %q, want %q", got, c.label)
			}
			if n := d.size(); n != len(c.want) {
				t.Errorf("its size is %d, want %d", n, len(c.want))
			}
			if got := d.enterSends(); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
			d.do(press("up")) // and once more
			if got := d.input.Value(); got != c.label {
				t.Errorf("recalled %q", got)
			}
			if got := d.enterSends(); got != c.want {
				t.Errorf("sent %q after it was recalled", got)
			}
		})
	}
}

// A person sees what is sent, and how much it is, before it is sent with one Enter.
func TestALongPasteIsShownBefore(t *testing.T) {
	d := newDrive(t, &down{})
	text := strings.Repeat("0123456789 abcdefgh\n", 3500)
	d.do(tea.PasteMsg{Content: text})
	if got := stripped(d.screen()); !strings.Contains(got, "That is 70.0 KB of text, about 17 thousand tokens · Enter sends it") {
		t.Errorf("%q", got)
	}
	d.do(tea.KeyPressMsg{Code: 'o', Mod: tea.ModCtrl})
	if got := d.look(); strings.Count(got, "abcdefgh") != maxPasteShown+1 || !strings.Contains(got, "… 1500 more lines") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	if d.enterSends() != text {
		t.Error("the first Enter does not send it")
	}
	d.do(tea.PasteMsg{Content: "a\tb"})
	if got := stripped(d.screen()); !strings.Contains(got, "Ctrl-O shows it") {
		t.Errorf("%q", got)
	}
}

// Text around pastes can be edited, and a label only as a whole.
func TestEditingAroundPastes(t *testing.T) {
	d := newDrive(t, &down{})
	d.do(tea.WindowSizeMsg{Width: 40, Height: 24})
	kind := func(s string) {
		for _, r := range s {
			d.do(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	key := func(code rune, n int, mod tea.KeyMod) {
		for range n {
			d.do(tea.KeyPressMsg{Code: code, Mod: mod})
		}
	}
	kind("see ")
	d.do(tea.PasteMsg{Content: "a\tb"})
	d.do(tea.PasteMsg{Content: "a\tc\n"})
	d.do(tea.PasteMsg{Content: "a\tb"})
	d.do(tea.PasteMsg{Content: "a b\t"}) // it looks like the first one
	kind(" please")
	label := "[pasted 1 line, 3 bytes: a b]"
	if got, want := d.input.Value(), "see "+label+"[pasted 1 line, 4 bytes: a c]"+label+"[pasted 1 line, 4 bytes: a b] please"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	key(tea.KeyLeft, len(" please"), 0)
	key(tea.KeyLeft, 1, 0) // jumps over the last label
	kind(" and ")
	key(tea.KeyBackspace, len(" and "), 0)
	key(tea.KeyBackspace, 1, 0) // deletes the third
	kind("!")
	if got, want := d.unlabelled(), "see a\tba\tc\n!a b\t please"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	key(tea.KeyHome, 1, 0)
	key(tea.KeyRight, len("see "), 0)
	key(tea.KeyDelete, 1, 0) // deletes the first
	if got, want := d.unlabelled(), "see a\tc\n!a b\t please"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	key('c', 1, tea.ModAlt) // would change the letters of a label
	if got, want := d.unlabelled(), "see a\tc\n!a b\t please"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	key('e', 1, tea.ModCtrl)
	key(tea.KeyBackspace, len(" please"), 0)
	key('w', 1, tea.ModCtrl) // deletes a word: the last label
	if got, want := d.unlabelled(), "see a\tc\n!"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	d.do(tea.KeyPressMsg{Code: tea.KeyEnter, Mod: tea.ModAlt})
	kind("next")
	key(tea.KeyBackspace, len("next")+1, 0)
	if got, want := d.enterSends(), "see a\tc\n!"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

// A message that could not be sent, a draft that waits for a reply, and a message that is edited keep
// their pastes.
func TestPastesAreNotLost(t *testing.T) {
	d := newDrive(t, &down{})
	d.do(tea.PasteMsg{Content: "a\tb"})
	d.do(press("enter")) // it is down
	if got := d.unlabelled(); got != "a\tb" {
		t.Errorf("not sent, and lost: %q", got)
	}
	d.input.Reset()
	d.setInput("func main() {\n\treturn\n}")
	if got := d.enterSends(); got != "func main() {\n\treturn\n}" {
		t.Errorf("an edited message became %q", got)
	}
}

// The bytes between the marks of a paste reach the chat, however they are cut, and keys as before.
func TestPastesComeThroughTheReader(t *testing.T) {
	paste := "\ttab\r\n\x1b[31mred\x1b[0m \x1b[A\x1b\x1b[200~ é\xff\x00\x1b[20" + strings.Repeat("long ", 20_000)
	in := "k\x1b[Ae\x1b[20x" + pasteStart + paste + pasteEnd + "\r" + pasteStart + pasteEnd + "z"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)), "halves": iotest.HalfReader(strings.NewReader(in))} {
		got, err := io.ReadAll(keepPastes(r))
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := bytes.Cut(got, []byte(pasteStart))
		coded, tail, _ := bytes.Cut(rest, []byte(pasteEnd))
		if string(head) != "k\x1b[Ae\x1b[20x" || string(tail) != "\r"+pasteStart+pasteEnd+"z" {
			t.Errorf("%s: before %q, after %q", name, head, tail)
		}
		if msg := rawPaste(nil, tea.PasteMsg{Content: string(coded)}); msg != (tea.PasteMsg{Content: paste}) {
			t.Errorf("%s: %.80q", name, msg)
		}
	}
}
