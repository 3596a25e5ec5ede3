package contacts

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/tools/dav"
	"steward/internal/tools/local"
)

// A vCard (RFC 6350, RFC 2426) is kept as its lines: a change replaces only its own, and what other programs
// have written stays.

// unescape returns a value as people read it: the parts of a structured one are joined by spaces.
func unescape(value string) string {
	value = strings.NewReplacer(`\\`, `\`, `\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";", ";", " ").Replace(value)
	return strings.Join(strings.Fields(strings.ToValidUTF8(dav.Plain(value), "�")), " ")
}

func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, ",", `\,`, ";", `\;`).Replace(dav.Plain(strings.ReplaceAll(value, "\r", "")))
}

// contact is what is shown of a vCard.
type contact struct {
	name, nick, birthday, company, note string
	emails, phones                      []string
	book                                string
	object                              dav.Object
}

func read(text string) (c contact) {
	const most = 20
	named := ""
	for _, l := range dav.Lines(text) {
		v := local.Line(unescape(l.Value), 300)
		switch l.Name {
		case "FN":
			c.name = cmp.Or(c.name, v)
		case "N":
			named = v
		case "NICKNAME":
			c.nick = v
		case "EMAIL":
			if len(c.emails) < most {
				c.emails = append(c.emails, v+kind(l.Params))
			}
		case "TEL":
			if len(c.phones) < most {
				c.phones = append(c.phones, strings.TrimPrefix(v, "tel:")+kind(l.Params))
			}
		case "BDAY":
			c.birthday = v
		case "ORG":
			c.company = v
		case "NOTE":
			c.note = v
		}
	}
	c.name = cmp.Or(c.name, named, "(no name)")
	return c
}

// kind returns what an address or a number is for.
func kind(params string) string {
	params = strings.ToLower(params)
	for _, k := range []string{"cell", "home", "work", "fax"} {
		if strings.Contains(params, k) {
			return " (" + strings.Replace(k, "cell", "mobile", 1) + ")"
		}
	}
	return ""
}

// words is what is searched.
func (c contact) words() string {
	return strings.Join(slices.Concat([]string{c.name, c.nick, c.company}, c.emails, c.phones), "\n")
}

// shown returns a contact as one line.
func (c contact) shown() string {
	parts := slices.Concat([]string{c.name}, c.emails, c.phones)
	for _, f := range []struct{ label, value string }{{"born ", c.birthday}, {"", c.company}, {"note: ", c.note}} {
		if f.value != "" {
			parts = append(parts, f.label+f.value)
		}
	}
	return strings.Join(parts, ", ") + " in " + c.book
}

// changed returns a vCard with what is given in the place of what was there.
func changed(text, name string, f facts) string {
	want := map[string][]string{}
	if name != "" {
		given, family := name, ""
		if i := strings.LastIndexByte(name, ' '); i > 0 {
			given, family = name[:i], name[i+1:]
		}
		want["FN"], want["N"] = []string{escape(name)}, []string{escape(family) + ";" + escape(given) + ";;;"}
	}
	for _, e := range f.Emails {
		want["EMAIL"] = append(want["EMAIL"], escape(string(e)))
	}
	for _, p := range f.Phones {
		want["TEL"] = append(want["TEL"], escape(p))
	}
	for key, v := range map[string]string{"BDAY": f.Birthday, "ORG": f.Company, "NOTE": f.Note} {
		if v != "" {
			want[key] = []string{escape(v)}
		}
	}
	var b strings.Builder
	for _, l := range dav.Lines(text) {
		values, given := want[l.Name]
		if given {
			i := slices.Index(values, l.Value)
			if i < 0 {
				continue // replaced
			}
			want[l.Name] = slices.Delete(slices.Clone(values), i, i+1)
		}
		if l.Name == "END" {
			for _, key := range []string{"FN", "N", "EMAIL", "TEL", "BDAY", "ORG", "NOTE"} {
				for _, v := range want[key] {
					b.WriteString(dav.Folded(key + ":" + v))
				}
			}
		}
		b.WriteString(dav.Folded(l.Raw))
	}
	return b.String()
}
