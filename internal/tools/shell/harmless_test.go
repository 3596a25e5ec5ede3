package shell

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/intent"
	"steward/internal/tool"
	"steward/test/must"
)

// covered reports whether the widest standing approvals that somebody can write cover a line: as
// effect.coversCall does.
func covered(line string) bool {
	_, parts, ok := (&runner{}).Parts(must.Get(json.Marshal(map[string]string{"command": line})))
	p := must.Get(intent.Pattern{"command": {Any: true}}.Checked())
	return ok && len(parts) > 0 && !slices.ContainsFunc(parts, func(part tool.Part) bool {
		_, ok := p.Covers(part.Args)
		return part.Whole || !ok
	})
}

// standing reports whether any standing approval of a line can be given, be it of exactly that line.
func standing(line string) bool {
	_, _, ok := (&runner{}).Parts(must.Get(json.Marshal(map[string]string{"command": line})))
	return ok
}

// What only reads is covered by a pattern.
func TestAPatternCoversWhatOnlyReads(t *testing.T) {
	for _, line := range []string{
		"ls -la", "ls -- *", "cat *.go | head -5", "grep -rn 'x y' .", `grep -e "$X" a`, "wc -l *", "cd src && ls", "echo $HOME", "ls 2>/dev/null",
		"sort -rn names.txt", "sort -k2,2 -t, a.csv", "sort -k 2 src/*.txt", "sort --unique --key=2 a", "uniq -c", "uniq -f 1 in", "diff -u a b", "diff -r --brief a b",
		"find . -name '*.go' -type f", `find src/* -newer x -printf '%p\n'`, `find . \( -name a -o -name b \) -print`, "find . -maxdepth 2 ! -name x -prune",
		"date", "date +%F", "date -u -d tomorrow +%F", "date --date=tomorrow", "file -b --mime-type a", "tree -L 2", "sed -n 1,5p a.txt", "sed -n '$p' a",
		"rg -n TODO src", "rg --files -g '*.go'", "rg -e x -A3", `printf '%s\n' a b`, "[ -f a ] && cat a", "test -d src", `test -n "$X"`, "true", "ls $(echo a)", "find ./x*",
	} {
		if !covered(line) {
			t.Errorf("%s is not covered", line)
		}
	}
}

// What takes code or a file to write always asks: no pattern covers it, and none of exactly the line either.
func TestWhatRunsOrWritesAlwaysAsks(t *testing.T) {
	for _, line := range []string{
		`printf -v 'a[$(touch x)0]' x`, `printf '%n' PATH`, `printf %s%n a PATH`, `printf "$X"`, `test -v 'a[$(touch x)0]'`, `[ -v 'a[$(touch x)]' ]`, `test a -o -v 'x[$(y)]'`, `read 'a[$(touch x)]'`, `compgen -W '$(touch x)'`, `mapfile -C 'touch x' a`,
		`find . -exec touch x \;`, "find . -execdir touch x +", "find . -ok touch x ;", "find . -delete", "find . -fprint x", "find . -fprintf x y", "find . -fls x", "find . -name a -exec touch x {} +", `find . "$X"`, "find . -name *", "find *", "find [-]exec", "find {.,-delete}", "find $X", `find \-delete`, "find . -files0-from x",
		"git -c alias.x='!touch x' x", "git --exec-path=. status", "git -p log", `git "$X" status`, "git --config-env=a=b status",
		`awk 'BEGIN { system("touch x") }'`, "gawk 1", "tar --checkpoint-action=exec=touch cf a b", "tar -xf a", "sed 1e a", "sed -n '1w x' a", "sed -i 1d a", "sed -f x a", "sed 's/a/touch x/e' a", "sed -n 1p -i a", "sed --in-place 1p a", "sed --expression=1e a", "sed $X a", "sed p --in-pl a",
		"python3 -c 1", "python3.12 x.py", "perl -e 1", "node x", "make", "go test ./...", "cargo test", "npm test", "./run.sh", "bin/run", "/bin/ls", "../x",
		"sort -o x a", "sort a -o x", "sort -no x a", "sort --output=x a", "sort --out x a", "sort --outp=x a", "sort --compress-program=./x a", "sort --compress-prog ./x a", "sort -- -o x", "sort *", "sort *.txt", "sort -k 1 -o x", `sort "$X"`, "sort a $X", "sort -uox a", "sort -T x a",
		"uniq a b", "uniq -c a b", "uniq a*", "uniq -c -f 1 a b", "uniq --skip-fields=1 a b", "date -s tomorrow", "date 01010000", "date -us x", "date --s=x", "date -I 01010000", "file -C -m x", "file -z a", "tree -o x", "tree -Lo 2 x", "tree -R -H . -L 1", "diff -l a b", "diff --paginate a b", "rg --pre ./x a", "rg --pre=./x a", "rg -z a", "rg --hostname-bin=x a", "rg *",
		"env touch x", "xargs touch", "timeout 5 touch x", "nice touch x", "sudo ls", "ssh a b", "tee x", "dd of=x", "less a", "man a", "vim a", "time ls", "kill 1",
		"LD_PRELOAD=./x ls", "PAGER=./x ls", "GIT_PAGER=x git log", "ls > x", "ls >> x", "ls < x", "cat <(touch x)", "ls() { touch x; }; ls", "alias ls=touch; ls", "cat <<< x",
		"ls; sort -o x a", "ls $(sort -o x a)", "ls `find . -delete`", `echo "$(awk 1)"`, "if ls; then sed -i p a; fi",
	} {
		if covered(line) || standing(line) {
			t.Errorf("%s: a pattern covers it: %v, exactly: %v", line, covered(line), standing(line))
		}
	}
	for _, line := range []string{"git status", "git log | head", "mkdir x", "rm -r x", "touch x; ls", "ls $(mkdir x)"} {
		if covered(line) || !standing(line) {
			t.Errorf("%s: a pattern covers it: %v, exactly: %v", line, covered(line), standing(line))
		}
	}
}

// hostile are parts that run a command or write a file somewhere.
var hostile = []string{"-exec touch canary ;", `-exec touch canary \;`, "-execdir touch canary +", "-delete", "-fprint canary", "-o canary", "-ocanary", "-no canary", "--output=canary", "--out canary",
	"--compress-prog=./touch-canary", "-v 'a[$(touch canary)0]'", "-W '$(touch canary)'", "-c alias.x='!touch canary' x", "--checkpoint-action=exec=touch", "1e", "'1w canary'", "-i", "--in-place", "-s canary", "--pre ./touch-canary",
	"%n", "-C 'touch canary'", "$X", "$(touch canary)", "`touch canary`", "<(touch canary)", "> canary", ">> canary", "*", "-*", "{-delete,x}", `\-delete`, "; touch canary", "&& touch canary", "| tee canary", "& touch canary", "\ntouch canary", `"$(touch canary)"`, "$((a[$(touch canary)]))", "${X:=$(touch canary)}", "$'\\055delete'"}

// A line in which something hostile stands runs nothing and writes nothing if a standing approval covers it.
// Most such lines are not covered. Bash tells whether the others are harmless, in a folder with hostile names.
func TestWhatIsCoveredChangesNothing(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	dir := t.TempDir()
	names := []string{"a", "b.txt", "-o", "-ocanary", "-delete", "-exec", "-i", "--output=canary", "touch-canary"}
	for _, name := range names {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch canary\n"), 0o755))
	}
	state := func() string {
		var b strings.Builder
		for _, e := range must.Get(os.ReadDir(dir)) {
			b.WriteString(e.Name() + "\n" + string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))))
		}
		return b.String()
	}
	was := state()
	commands := slices.Concat([]string{"ls", "cat", "grep x", "wc", "echo", "cut -c1", "cd", "find", "find .", "printf", "printf %s", "test", "[", "sed", "sed -n 1p", "sed -n", "git", "awk", "sort", "sort a", "uniq", "uniq a", "diff a", "date", "file", "tree", "rg x", "read", "compgen", "tar", "python3"})
	plain := []string{"a", "b.txt", "-n", "-r", "-k", "1", "-k1", "-", "--", "-f1", "-name", "x*", "'*'", "-t", "-e", "]", "!", "(", "-u", "./*", "./a", `"$X"`, "--key", "-print", "-newer", "a b"}
	part := rapid.OneOf(rapid.SampledFrom(hostile), rapid.SampledFrom(plain), rapid.SampledFrom(plain))
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(append([]string{rapid.SampledFrom(commands).Draw(t, "command")}, rapid.SliceOfN(part, 1, 5).Draw(t, "parts")...), " ")
		if !covered(line) {
			return
		}
		runs++
		c := exec.Command(bash, "--noprofile", "--norc", "-c", `eval "$1"`, "shell", line)
		c.Dir, c.Env = dir, []string{"PATH=/usr/bin:/bin"}
		_ = c.Run() // many of them fail, which is harmless
		if state() != was {
			t.Fatalf("%q is covered, and changed something", line)
		}
	})
	t.Logf("%d lines were covered", runs)
}

// Whatever is joined to a harmless command is judged by itself.
func TestNoApprovalCoversMoreThanItsCommand(t *testing.T) {
	if !covered("ls") || !covered("ls | wc && cat a") {
		t.Error("what only reads is not covered")
	}
	harm := rapid.SampledFrom([]string{"rm -rf x", `r"m" x`, "'rm' x", "/bin/rm x", "eval git", "sh -c 'git status'", "$X", "X=1", "GIT_PAGER=rm git log", "git status", "find . -delete", "sort -o x"})
	wrap := rapid.SampledFrom([]string{"$; @", "@; $", "$ && @", "$ || @", "$ | @", "@ | $", "$ & @", "$\n@", "$ $(@)", "$ `@`", "$ \"$(@)\"", "$ <(@)", "($; @)", "{ $; @; }",
		"if $; then @; fi", "while @; do $; done", "$; f() { @; }; f", "! @", "$ |& @", "@ >/dev/null; $", "$ \"a$(@)b\" 'c'"})
	rapid.Check(t, func(t *rapid.T) {
		line := "ls"
		for range rapid.IntRange(1, 3).Draw(t, "depth") {
			line = strings.NewReplacer("$(@)", "$("+harm.Draw(t, "harm")+")", "$", line, "@", harm.Draw(t, "harm")).Replace(wrap.Draw(t, "wrap"))
		}
		if covered(line) {
			t.Fatalf("%q is covered", line)
		}
	})
}

// A command that may write where an option says is not covered with that option, whatever else stands there.
func FuzzOptions(f *testing.F) {
	f.Add("-r a")
	f.Add("--key=1 -t,")
	f.Fuzz(func(t *testing.T, rest string) {
		for _, c := range []string{"sort -o x ", "find . -delete ", "sed -i p ", "rg --pre x ", "printf -v x ", "test -v x ", "date -s x ", "uniq a b ", "git -c a=b ", "awk ", "python3 "} {
			if covered(c + rest) {
				t.Fatalf("%q is covered", c+rest)
			}
		}
	})
}
