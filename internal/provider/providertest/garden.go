package providertest

import (
	"encoding/json"
	"slices"
	"strings"

	"steward/internal/provider/wire"
)

// garden are JSON documents of which others are made by edits: the way to
// documents that a blind change of bytes hardly finds.
type garden struct {
	seeds []*tree
	all   []*tree  // every value in them
	names []string // every member's name
}

// tree is a JSON value: an object if it has names, an array if it has kids
// without, else a leaf.
type tree struct {
	leaf  string
	open  byte // '{', '[', or 0 for a leaf
	names []string
	kids  []*tree
}

func plant(documents []string) *garden {
	g := &garden{}
	for _, s := range documents {
		t := parse(wire.Decode([]byte(s)))
		g.seeds = append(g.seeds, t)
		t.walk(func(t *tree) {
			g.all = append(g.all, t)
			for _, n := range t.names {
				if !slices.Contains(g.names, n) {
					g.names = append(g.names, n)
				}
			}
		})
	}
	return g
}

func parse(d *wire.Decoder) *tree {
	t := &tree{}
	switch {
	case d.IsObject():
		t.open = '{'
		d.Object(func(key []byte) {
			t.names = append(t.names, string(key))
			t.kids = append(t.kids, parse(d))
		})
	case d.IsArray():
		t.open = '['
		d.Array(func(int) { t.kids = append(t.kids, parse(d)) })
	default:
		t.leaf = string(d.Raw())
	}
	return t
}

func (t *tree) walk(f func(*tree)) {
	f(t)
	for _, k := range t.kids {
		k.walk(f)
	}
}

func (t *tree) clone() *tree {
	c := &tree{leaf: t.leaf, open: t.open, names: slices.Clone(t.names)}
	for _, k := range t.kids {
		c.kids = append(c.kids, k.clone())
	}
	return c
}

// text writes the tree. Of members with one name the first holds.
func (t *tree) text(b *strings.Builder) {
	if t.open == 0 {
		b.WriteString(t.leaf)
		return
	}
	b.WriteByte(t.open)
	first := true
	for i, k := range t.kids {
		if t.open == '{' && slices.Contains(t.names[:i], t.names[i]) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if t.open == '{' {
			name, _ := json.Marshal(t.names[i]) // a string always marshals
			b.Write(append(name, ':'))
		}
		k.text(b)
	}
	b.WriteByte(t.open + 2) // the closing one, in ASCII
}

// maxGrown bounds a document, which could double with every edit.
const maxGrown = 1 << 12

// grow reads b as a seed and edits to it, four bytes each: what is done, where
// (two), and with what.
func (g *garden) grow(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	t := g.seeds[int(b[0])%len(g.seeds)].clone()
	for edit := range slices.Chunk(b[1:], 4) {
		if len(edit) < 4 {
			break
		}
		var places []*tree
		t.walk(func(t *tree) { places = append(places, t) })
		if len(places) > maxGrown {
			break
		}
		at := places[(int(edit[1])<<8|int(edit[2]))%len(places)]
		with := int(edit[3]) * len(g.all) / 256
		switch edit[0] % 6 {
		case 0: // another value
			*at = *g.all[with].clone()
		case 1: // one more
			at.insert(g.names[with%len(g.names)], g.all[with].clone())
		case 2: // the same once more
			if n := len(at.kids); n > 0 {
				at.insert(g.names[with%len(g.names)], at.kids[with%n].clone())
			}
		case 3: // one less
			if n := len(at.kids); n > 0 {
				at.remove(with % n)
			}
		case 4: // another name
			if n := len(at.names); n > 0 {
				at.names[with%n] = g.names[with%len(g.names)]
			}
		case 5: // a text that is odd
			*at = tree{leaf: odd[with%len(odd)]}
		}
	}
	var out strings.Builder
	t.text(&out)
	return []byte(out.String())
}

// odd are leaves that trip readers up.
var odd = [...]string{`""`, `" "`, `null`, `true`, `0`, `-1.5e9`, `"[error] x"`, `"[denied]"`, `"(empty)"`, `"(attached)"`, `"\u0000\ud83d\ude00"`,
	`"data:image/png;base64,AA=="`, `"data:image/png;x=y;base64,AA"`, `"http://example.com/%zz"`, `"a.b__c d"`, `"__"`, `"{"`, `"{\"a\":1}"`, `"application/pdf; x"`}

func (t *tree) insert(name string, kid *tree) {
	switch t.open {
	case '{':
		t.names = append(t.names, name)
	case 0:
		return
	}
	t.kids = append(t.kids, kid)
}

func (t *tree) remove(i int) {
	t.kids = slices.Delete(t.kids, i, i+1)
	if t.open == '{' {
		t.names = slices.Delete(t.names, i, i+1)
	}
}
