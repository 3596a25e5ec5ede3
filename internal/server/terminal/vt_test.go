package terminal_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// vt is what a terminal makes of what is written to it: its screen and what
// has scrolled out at the top. It knows what the chat's library writes, and
// tells of anything else.
type vt struct {
	rows, cols  int
	x, y        int
	top, bottom int // the region that scrolls
	grid        [][]rune
	above       []string
	rest        string // of a sequence that is not complete
	unknown     []string
}

func newVT(rows, cols int) *vt {
	v := &vt{rows: rows, cols: cols, bottom: rows - 1}
	for range rows {
		v.grid = append(v.grid, v.blank())
	}
	return v
}

func (v *vt) blank() []rune { return slices.Repeat([]rune{' '}, v.cols) }

// text is all that stands there, the scrollback first.
func (v *vt) text() string { return strings.Join(append(slices.Clone(v.above), v.screen()...), "\n") }

func (v *vt) screen() []string {
	var out []string
	for _, row := range v.grid {
		out = append(out, strings.TrimRight(string(row), " "))
	}
	return out
}

func (v *vt) Write(p []byte) (int, error) {
	v.rest += string(p)
	for v.rest != "" {
		n := v.step(v.rest)
		if n == 0 {
			break
		}
		v.rest = v.rest[n:]
	}
	return len(p), nil
}

// step does what stands at the beginning of s, and returns its length; 0
// where it is not complete.
func (v *vt) step(s string) int {
	switch s[0] {
	case '\x1b':
		return v.escape(s)
	case '\r':
		v.x = 0
	case '\n':
		v.down()
	case '\b':
		v.x = max(v.x-1, 0)
	case '\t':
		v.x = min((v.x/8+1)*8, v.cols-1)
	case '\a', 0x0f:
	default:
		if !utf8.FullRuneInString(s) {
			return 0
		}
		r, n := utf8.DecodeRuneInString(s)
		v.put(r)
		return n
	}
	return 1
}

func (v *vt) put(r rune) {
	if v.x == v.cols {
		v.x = 0
		v.down()
	}
	v.grid[v.y][v.x] = r
	v.x++
}

func (v *vt) down() {
	if v.y < v.bottom {
		v.y++
		return
	}
	if v.top == 0 {
		v.above = append(v.above, strings.TrimRight(string(v.grid[0]), " "))
	}
	v.remove(v.top, 1)
}

// remove takes lines out at a row; those below move up, blank ones come.
func (v *vt) remove(at, n int) {
	for range n {
		v.grid = slices.Insert(slices.Delete(v.grid, at, at+1), v.bottom, v.blank())
	}
}

// insert puts blank lines in at a row; those at the bottom are lost.
func (v *vt) insert(at, n int) {
	for range n {
		v.grid = slices.Insert(slices.Delete(v.grid, v.bottom, v.bottom+1), at, v.blank())
	}
}

func (v *vt) escape(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '[':
		end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
		if end < 0 {
			return 0
		}
		v.control(s[2:2+end], s[2+end])
		return end + 3
	case ']', 'P', '_':
		end := strings.IndexByte(s, '\a')
		if st := strings.Index(s, "\x1b\\"); st >= 0 && (end < 0 || st < end) {
			return st + 2
		}
		return end + 1
	case 'M':
		if v.y > v.top {
			v.y--
		} else {
			v.insert(v.top, 1)
		}
	case '7', '8', '=', '>':
	default:
		v.unknown = append(v.unknown, s[:2])
	}
	return 2
}

func (v *vt) control(args string, what byte) {
	if strings.HasPrefix(args, "?") || strings.HasPrefix(args, ">") || strings.HasPrefix(args, "=") || strings.HasSuffix(args, " ") || strings.HasSuffix(args, "$") {
		return // modes and questions
	}
	arg := func(i, otherwise int) int {
		parts := strings.Split(args, ";")
		if i >= len(parts) || parts[i] == "" {
			return otherwise
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			v.unknown = append(v.unknown, args+string(what))
		}
		return n
	}
	n := arg(0, 1)
	row := v.grid[v.y]
	switch what {
	case 'A':
		v.y = max(v.y-n, 0)
	case 'B':
		v.y = min(v.y+n, v.rows-1)
	case 'C':
		v.x = min(v.x+n, v.cols-1)
	case 'D':
		v.x = max(min(v.x, v.cols-1)-n, 0)
	case 'Z':
		for range n {
			v.x = max(v.x-1, 0) / 8 * 8
		}
	case 'G':
		v.x = n - 1
	case 'H':
		v.y, v.x = min(n, v.rows)-1, arg(1, 1)-1
	case 'd':
		v.y = min(n, v.rows) - 1
	case 'J':
		v.erase(arg(0, 0))
	case 'K':
		v.eraseLine(arg(0, 0))
	case 'L':
		v.insert(v.y, n)
	case 'M':
		v.remove(v.y, n)
	case '@':
		copy(row[min(v.x+n, v.cols):], slices.Clone(row[v.x:]))
		fillRow(row[v.x:min(v.x+n, v.cols)], ' ')
	case 'P':
		copy(row[v.x:], row[min(v.x+n, v.cols):])
		fillRow(row[v.cols-n:], ' ')
	case 'X':
		fillRow(row[v.x:min(v.x+n, v.cols)], ' ')
	case 'b':
		for range n {
			v.put(row[v.x-1])
		}
	case 'r':
		v.top, v.bottom = n-1, arg(1, v.rows)-1
		v.x, v.y = 0, 0
	case 'm', 'h', 'l', 'c', 'n', 'u', 't', 'q':
	default:
		v.unknown = append(v.unknown, fmt.Sprintf("%s%c", args, what))
	}
}

func (v *vt) erase(how int) {
	switch how {
	case 0:
		v.eraseLine(0)
		for y := v.y + 1; y < v.rows; y++ {
			fillRow(v.grid[y], ' ')
		}
	case 2:
		for _, row := range v.grid {
			fillRow(row, ' ')
		}
	default:
		v.unknown = append(v.unknown, fmt.Sprintf("%dJ", how))
	}
}

func (v *vt) eraseLine(how int) {
	row := v.grid[v.y]
	x := min(v.x, v.cols)
	switch how {
	case 0:
		fillRow(row[x:], ' ')
	case 1:
		fillRow(row[:min(x+1, v.cols)], ' ')
	case 2:
		fillRow(row, ' ')
	}
}

func fillRow(row []rune, r rune) {
	for i := range row {
		row[i] = r
	}
}
