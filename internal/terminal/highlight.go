package terminal

import (
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
)

// language is what the highlighter knows of a programming language. It marks words, texts and
// comments, and knows no grammar: libraries that do cost megabytes.
type language struct {
	words      string   // keywords, separated by blanks
	comments   []string // what begins a comment to the end of the line
	block      bool     // it has /* */
	texts      string   // what texts stand in
	ignoreCase bool     // keywords may be in capitals
}

const cWords = "if else for while do switch case default break continue return goto const static struct enum union void int char long short float double unsigned signed sizeof typedef extern "

// languageOf returns a language by the name behind a fence.
func languageOf(name string) (language, bool) {
	switch strings.ToLower(name) {
	case "go", "golang":
		return language{"break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false", []string{"//"}, true, "\"'`", false}, true
	case "python", "py":
		return language{"and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield match", []string{"#"}, false, "\"'", false}, true
	case "javascript", "js", "jsx", "typescript", "ts", "tsx":
		return language{"async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield", []string{"//"}, true, "\"'`", false}, true
	case "sh", "bash", "shell", "zsh", "console":
		return language{"if then else elif fi for while until do done case esac in function return local export set unset exit cd echo sudo", []string{"#"}, false, "\"'", false}, true
	case "c", "h", "cpp", "c++", "cc", "hpp":
		return language{cWords + "class namespace template public private protected virtual new delete this try catch throw using auto bool true false nullptr include define", []string{"//"}, true, "\"'", false}, true
	case "java", "kotlin", "csharp", "cs", "c#", "swift":
		return language{cWords + "class interface extends implements import package namespace using public private protected final new this super try catch finally throw throws boolean true false null var val let func fun guard override", []string{"//"}, true, "\"'", false}, true
	case "rust", "rs":
		return language{"as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while", []string{"//"}, true, "\"", false}, true
	case "sql":
		return language{"select from where and or not in is null insert into values update set delete create table index view drop alter join left right inner outer on group by order having limit union all distinct as case when then else end primary key references default", []string{"--"}, true, "'\"", true}, true
	case "json":
		return language{"true false null", nil, false, "\"", false}, true
	case "yaml", "yml", "toml", "ini":
		return language{"true false null yes no on off", []string{"#"}, false, "\"'", false}, true
	}
	return language{}, false
}

// highlighter colours the lines of one block of code.
type highlighter struct {
	language
	keywords            map[string]bool
	word, text, comment lipgloss.Style
	plain               lipgloss.Style
	inside              bool // a comment that continues from the line before
}

func (r *renderer) highlighter(name string) *highlighter {
	lang, ok := languageOf(name)
	if !ok || !r.colour {
		return nil
	}
	h := &highlighter{language: lang, keywords: map[string]bool{}, word: r.keyword, text: r.quoted, comment: r.dim}
	for _, w := range strings.Fields(lang.words) {
		h.keywords[w] = true
	}
	return h
}

// maxColoured is the longest line in bytes that is coloured.
const maxColoured = 2000

// line colours one line. It takes time in proportion to the line's length.
func (h *highlighter) line(s string) string {
	if len(s) > maxColoured {
		return s
	}
	var b strings.Builder
	for s != "" {
		n, style := h.next(s)
		b.WriteString(style.Render(s[:n]))
		s = s[n:]
	}
	return b.String()
}

// next returns the length and the style of what a line begins with.
func (h *highlighter) next(s string) (int, lipgloss.Style) {
	if h.inside || h.block && strings.HasPrefix(s, "/*") {
		from := 2
		if h.inside {
			from = 0
		}
		h.inside = true
		if i := strings.Index(s[min(from, len(s)):], "*/"); i >= 0 {
			h.inside = false
			return from + i + 2, h.comment
		}
		return len(s), h.comment
	}
	for _, c := range h.comments {
		if strings.HasPrefix(s, c) {
			return len(s), h.comment
		}
	}
	if strings.IndexByte(h.texts, s[0]) >= 0 {
		return textEnd(s), h.text
	}
	if i := strings.IndexFunc(s, func(r rune) bool { return !isWordRune(r) }); i != 0 {
		if i < 0 {
			i = len(s)
		}
		w := s[:i]
		if h.ignoreCase {
			w = strings.ToLower(w)
		}
		if h.keywords[w] {
			return i, h.word
		}
		return i, h.plain
	}
	// Everything up to what may begin a word, a text or a comment. The first character is taken anyway.
	i := strings.IndexFunc(s[1:], func(r rune) bool { return isWordRune(r) || strings.ContainsRune(h.texts+"#/-", r) })
	if i < 0 {
		return len(s), h.plain
	}
	return i + 1, h.plain
}

func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// textEnd returns where a text that s begins with ends; an open one ends with the line.
func textEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}
