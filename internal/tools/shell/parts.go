package shell

import (
	"slices"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"mvdan.cc/sh/v3/syntax"

	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Commands returns the simple commands that a command line consists of, each in one canonical
// spelling, whether they stand in a pipe, a list, a loop or a substitution. ok is false if the text
// does not determine what will happen: a variable or a substitution names a command, a variable is set, a
// command runs what it is given as text, or the output goes to a file.
func Commands(line string) (list []string, ok bool) {
	a := analyse(line)
	for _, c := range a.list {
		list = append(list, c.text)
	}
	return list, a.ok && len(list) > 0
}

// command is a simple command.
type command struct {
	text  string // in one canonical spelling
	reads bool   // it only reads and prints
}

type analysis struct {
	list []command
	ok   bool // the text tells what will happen
}

func analyse(line string) analysis {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return analysis{}
	}
	a := analysis{ok: true}
	a.statements(file.Stmts)
	return a
}

func (a *analysis) statements(lists ...[]*syntax.Stmt) {
	for _, s := range slices.Concat(lists...) {
		a.statement(s)
	}
}

func (a *analysis) statement(s *syntax.Stmt) {
	if s.Coprocess || s.Disown || slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return !harmless(r) }) {
		a.ok = false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		a.call(c)
	case *syntax.BinaryCmd:
		a.statements([]*syntax.Stmt{c.X, c.Y})
	case *syntax.Subshell:
		a.statements(c.Stmts)
	case *syntax.Block:
		a.statements(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			a.statements(c.Cond, c.Then)
		}
	case *syntax.WhileClause:
		a.statements(c.Cond, c.Do)
	default: // functions, declarations, arithmetic, loops that set a variable
		a.ok = false
	}
}

// harmless reports whether a redirection only joins streams, or leads to or from /dev/null.
func harmless(r *syntax.Redirect) bool {
	if r.N != nil && strings.Trim(r.N.Value, "0123456789") != "" || r.Word == nil {
		return false
	}
	switch to := r.Word.Lit(); r.Op {
	case syntax.DplOut, syntax.DplIn:
		return to != "" && strings.Trim(to, "0123456789-") == ""
	case syntax.RdrOut, syntax.AppOut, syntax.RdrIn, syntax.RdrAll, syntax.AppAll:
		return to == "/dev/null"
	}
	return false
}

func (a *analysis) call(c *syntax.CallExpr) {
	if len(c.Assigns) > 0 || len(c.Args) == 0 {
		a.ok = false
	}
	words, said := make([]string, len(c.Args)), make([]word, len(c.Args))
	for i, w := range c.Args {
		said[i] = wordOf(w)
		if said[i].literal {
			quoted, err := syntax.Quote(said[i].text, syntax.LangBash)
			a.ok = a.ok && err == nil
			words[i] = quoted
			continue
		}
		a.parts(w.Parts)
		var b strings.Builder
		if err := syntax.NewPrinter().Print(&b, w); err != nil {
			a.ok = false
		}
		words[i] = b.String()
	}
	if len(words) == 0 {
		return
	}
	it := command{text: strings.Join(words, " ")}
	known := false
	if it.reads, known = readsOnly(said[0].text, said[1:]); known && !it.reads || !said[0].literal || runsCode(said[0].text, said[1:]) {
		a.ok = false
	}
	if !slices.Contains(a.list, it) {
		a.list = append(a.list, it)
	}
}

// operators are words of find and test that say what they seem to say, although they have special characters.
var operators = map[string]string{"[": "[", "]": "]", "!": "!", `\!`: "!", `\(`: "(", `\)`: ")"}

// value returns what a word says, if that is certain: it has no variables, substitutions, globs,
// braces, escapes or "~".
func value(w *syntax.Word) (string, bool) {
	if text, ok := operators[w.Lit()]; ok {
		return text, true
	}
	var b strings.Builder
	plain := func(parts []syntax.WordPart, special string) bool {
		for _, p := range parts {
			lit, ok := p.(*syntax.Lit)
			if !ok || strings.ContainsAny(lit.Value, special) {
				return false
			}
			b.WriteString(lit.Value)
		}
		return true
	}
	for _, p := range w.Parts {
		ok := false
		switch p := p.(type) {
		case *syntax.Lit:
			ok = plain([]syntax.WordPart{p}, "\\*?[]{}~!$`")
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
			ok = !p.Dollar
		case *syntax.DblQuoted:
			ok = !p.Dollar && plain(p.Parts, "\\")
		}
		if !ok {
			return "", false
		}
	}
	return b.String(), true
}

// parts looks into a word that is not literal.
func (a *analysis) parts(parts []syntax.WordPart) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
		case *syntax.SglQuoted:
			a.ok = a.ok && !p.Dollar
		case *syntax.DblQuoted:
			a.ok = a.ok && !p.Dollar
			a.parts(p.Parts)
		case *syntax.CmdSubst:
			a.ok = a.ok && !p.TempFile && !p.ReplyVar
			a.statements(p.Stmts)
		case *syntax.ParamExp:
			a.ok = a.ok && simple(p)
		default: // arithmetic, which can set variables; <(…); patterns
			a.ok = false
		}
	}
}

// simple reports whether an expansion is just $NAME or ${NAME}.
func simple(p *syntax.ParamExp) bool {
	return !p.Excl && !p.Length && !p.Width && !p.IsSet && p.Flags == nil && p.NestedParam == nil && p.Index == nil &&
		len(p.Modifiers) == 0 && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
}

// Widths implements tool.Widener: a command that only reads can be allowed with any arguments with which it
// only reads, if it is the only one on the line. Each command in a substitution among its arguments still has
// to be allowed by itself.
func (r *runner) Widths(args []byte) []tool.Width {
	_, parts, ok := r.Parts(args)
	var a shellArgs
	if !ok || len(parts) != 1 || parts[0].Whole || json.Unmarshal(parts[0].Args, &a) != nil {
		return nil
	}
	name, rest, _ := strings.Cut(a.Command, " ")
	if rest == "" {
		return nil
	}
	label := "run " + name + " with any arguments[ in {folder}]"
	if !slices.Contains(readers, name) {
		label = "run " + name + " in any way that only reads[ in {folder}]"
	}
	return []tool.Width{{Name: label, Like: map[string]string{"command": name + " **"}}}
}

// Parts implements tool.Divider: a standing approval must cover each simple command, and as a pattern only
// those that only read.
func (r *runner) Parts(args []byte) (argument string, parts []tool.Part, ok bool) {
	var m map[string]jsontext.Value
	var line string
	if json.Unmarshal(args, &m) != nil || json.Unmarshal(m["command"], &line) != nil {
		return "command", nil, false
	}
	a := analyse(line)
	for _, c := range a.list {
		text, err := json.Marshal(c.text)
		if err != nil {
			return "command", nil, false
		}
		m["command"] = text
		part, err := json.Marshal(m, json.Deterministic(true))
		if err != nil {
			return "command", nil, false
		}
		parts = append(parts, tool.Part{Args: part, Whole: !c.reads})
	}
	return "command", parts, a.ok && len(parts) > 0
}

// coder is code.run.
type coder struct{ local.Layer }

// Parts implements tool.Divider: a standing approval covers only exactly the same code.
func (coder) Parts(args []byte) (argument string, parts []tool.Part, ok bool) {
	return "code", []tool.Part{{Args: args, Whole: true}}, true
}
