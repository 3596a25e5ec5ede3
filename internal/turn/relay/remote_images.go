package relay

import (
	"slices"
	"strings"

	"steward/internal/message"
)

// remoteStripper removes images from agents' answers, and everything else that a client fetches on its own
// when it renders Markdown or HTML. Otherwise injected text could name a URL that carries out what the
// model has read. An image becomes a link, which a person has to click, and a tag becomes its text.
type remoteStripper struct{ held string }

// next returns a piece of text without images. It holds back an end that may begin an image or a tag.
func (d *remoteStripper) next(text string) string {
	text = stripRemote(d.held + text)
	keep := len(text) - len(strings.TrimRight(text, "!"))
	for i := range len(text) - keep {
		if text[i] != '<' {
			continue
		}
		if _, _, whole := tag(text[i:]); !whole {
			keep = len(text) - i
			break
		}
	}
	d.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// rest returns what was held back.
func (d *remoteStripper) rest() string {
	text := d.held
	d.held = ""
	return text
}

// stripRemote removes the images from a whole text.
func stripRemote(text string) string {
	for strings.Contains(text, "![") { // "!![" leaves one behind
		text = strings.ReplaceAll(text, "![", "[")
	}
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '<')
		if i < 0 {
			return text
		}
		at += i
		if name, rest, whole := tag(text[at:]); whole && loadsRemote(name, rest) {
			text = text[:at] + "&lt;" + text[at+1:]
		}
		at++
	}
}

// maxTag is how much of a tag is examined and held back, in bytes.
const maxTag = 2 << 10

// tag parses the tag at the beginning of a text: its name, in lower case, and its content. whole is false
// if the tag may continue.
func tag(text string) (name, rest string, whole bool) {
	n := 1
	for n < len(text) && n <= 20 && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z' || n > 1 && (text[n] >= '0' && text[n] <= '9' || text[n] == '-')) {
		n++
	}
	name = strings.ToLower(text[1:n])
	if n == len(text) {
		return name, "", false
	}
	if name == "" || loadsRemote(name, "") {
		return name, "", true
	}
	if end := tagEnd(text[n:]); end >= 0 {
		return name, text[n : n+end], true
	}
	return name, text[n:], len(text)-n > maxTag
}

// tagEnd returns where a tag ends, given its attributes and what follows; -1: the end is not there yet. A
// '>' within a quoted value does not end it.
func tagEnd(text string) int {
	var quote, last byte
	for i := range len(text) {
		c := text[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '>':
			return i
		case last == '=' && (c == '"' || c == '\''):
			quote = c
		}
		if !strings.ContainsRune(" \t\n\f\r", rune(c)) {
			last = c
		}
	}
	return -1
}

// fetching are the elements of HTML and SVG for which a browser fetches something
// (https://html.spec.whatwg.org/#attributes-3).
var fetching = [...]string{"applet", "audio", "base", "bgsound", "body", "embed", "feimage", "fencedframe", "frame", "iframe", "image", "img", "input",
	"link", "meta", "object", "script", "source", "style", "svg", "track", "use", "video"}

// loadsRemote reports whether a browser may fetch something for a tag: because of its element, a style or a
// background. It returns true for a tag that is too long to examine.
func loadsRemote(name, rest string) bool {
	rest = strings.ToLower(rest)
	return slices.Contains(fetching[:], name) || name != "" && (len(rest) > maxTag || strings.Contains(rest, "style") || strings.Contains(rest, "background"))
}

// withoutRemote returns the blocks of an answer without images in their texts.
func withoutRemote(blocks []message.Block) []message.Block {
	out := make([]message.Block, len(blocks))
	for i, b := range blocks {
		if t, ok := b.(*message.Text); ok {
			c := *t
			c.Text = stripRemote(c.Text)
			b = &c
		}
		out[i] = b
	}
	return out
}
