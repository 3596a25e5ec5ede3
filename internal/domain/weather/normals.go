package weather

import (
	_ "embed"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// climate has a line for each city: its name, its country, other names, and
// for each month the mean daily high and low (°C) and the mean precipitation
// (mm). The figures are rounded from the climate normals that the national
// weather services publish, of the period from about 1991 to 2020; they are
// meant for packing a suitcase.
//
//go:embed climate.txt
var climate string

// normals holds the climate normals.
type normals struct {
	list   []city
	byName map[string]int
}

type city struct {
	name   string
	months [12][3]int // high, low, rain
}

// readNormals returns the climate normals of some cities of the world.
func readNormals() *normals {
	n, err := parse(climate)
	if err != nil {
		panic(err) // part of the program, and tested
	}
	return n
}

// parse reads lines of "Name|Country|other,names|high/low/rain …".
func parse(table string) (*normals, error) {
	n := &normals{byName: map[string]int{}}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		bad := fault.New(fault.Invalid, "climate_invalid", "the line %.60q is none of the table", line)
		f := strings.Split(line, "|")
		if len(f) != 4 {
			return nil, bad
		}
		c := city{name: f[0] + ", " + f[1]}
		months := strings.Fields(f[3])
		if len(months) != 12 {
			return nil, bad
		}
		for i, m := range months {
			values := strings.Split(m, "/")
			if len(values) != 3 {
				return nil, bad
			}
			for j, v := range values {
				x, err := strconv.Atoi(v)
				if err != nil {
					return nil, bad
				}
				c.months[i][j] = x
			}
		}
		for _, name := range append(strings.Split(f[2], ","), f[0], f[0]+" "+f[1]) {
			if name = plain(name); name != "" {
				n.byName[name] = len(n.list)
			}
		}
		n.list = append(n.list, c)
	}
	return n, nil
}

// plain returns a name in the form in which names are compared: lower case, without accents and commas.
func plain(name string) string {
	return strings.Join(strings.Fields(unaccent.Replace(strings.ToLower(name))), " ")
}

var unaccent = strings.NewReplacer(",", " ", ".", " ", "-", " ", "ä", "a", "á", "a", "ã", "a", "â", "a", "é", "e", "è", "e", "í", "i", "ó", "o", "ö", "o", "ø", "o", "ü", "u", "ú", "u", "ç", "c", "ñ", "n")

// at returns the city of a place. Error code: place_unknown.
func (n *normals) at(place string) (city, error) {
	i, ok := n.byName[plain(place)]
	if !ok { // "Vienna (Austria)", "the city of Vienna"
		for name, k := range n.byName {
			if words := " " + plain(strings.NewReplacer("(", " ", ")", " ").Replace(place)) + " "; strings.Contains(words, " "+name+" ") && (!ok || len(name) > len(plain(n.list[i].name))) {
				i, ok = k, true
			}
		}
	}
	if !ok {
		var names []string
		for _, c := range n.list {
			name, _, _ := strings.Cut(c.name, ",")
			names = append(names, name)
		}
		return city{}, fault.New(fault.NotFound, "place_unknown", "the usual weather in %.80q is not known here", place).
			WithHint("only these are known: %s", strings.Join(names, ", "))
	}
	return n.list[i], nil
}
