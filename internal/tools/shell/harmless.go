package shell

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// word is an argument of a command as it is written.
type word struct {
	text    string // what it says, if it is literal
	literal bool   // it is exactly one word, which says text
	one     bool   // it is exactly one word, whatever it says
	plain   bool   // it may be several words, as a glob is, but none of them can be an option
}

// wordOf describes a word. A glob is plain only if it begins with something else: "*" also stands for a file
// that is called -exec.
func wordOf(w *syntax.Word) word {
	text, literal := value(w)
	if literal {
		return word{text: text, literal: true, one: true}
	}
	out := word{plain: len(w.Parts) > 0 && begins(w.Parts[0])}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted: // "$@" stands for several words
			out.plain = out.plain && !slices.ContainsFunc(p.Parts, spreads)
			out.one = len(w.Parts) == 1 && !slices.ContainsFunc(p.Parts, spreads)
		default: // without quotes the value of a variable is split into words
			out.plain = false
		}
	}
	return out
}

// begins reports whether a word that begins with this part is neither an option nor an operator.
func begins(p syntax.WordPart) bool {
	switch p := p.(type) {
	case *syntax.Lit:
		return beginsText(p.Value)
	case *syntax.SglQuoted:
		return !p.Dollar && beginsText(p.Value)
	case *syntax.DblQuoted:
		return !p.Dollar && len(p.Parts) > 0 && begins(p.Parts[0])
	}
	return false
}

func beginsText(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r != utf8.RuneError && strings.ContainsRune("_./~:@", r)
}

func spreads(p syntax.WordPart) bool {
	e, ok := p.(*syntax.ParamExp)
	return ok && e.Param != nil && (e.Param.Value == "@" || e.Param.Value == "*")
}

// readers are commands that only read and print, whatever their arguments are: in no form do they run another
// program, take code, write a file, or change what later commands mean.
var readers = strings.Fields(`
	ls cat head tail tac nl wc cut tr rev fold paste join expand unexpand fmt od base64 grep egrep fgrep cmp comm
	du df stat basename dirname realpath readlink md5sum sha1sum sha256sum sha512sum cksum
	uname whoami id uptime free nproc ps seq which echo pwd cd true false`)

// limited are commands that only read and print with some of their options. Every word that begins with "-"
// must be known, also where it would be the argument of an option before it; so it does not matter which
// options take one. Only exact names of options count, not their beginnings.
var limited = map[string]options{
	"sort": {flags: "bcCdfghiMmnRrsuVz", takes: "kSt", long: strings.Fields(`
		--ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort
		--human-numeric-sort --numeric-sort --random-sort --reverse --sort --version-sort --check --merge --stable --unique
		--zero-terminated --key --field-separator --buffer-size --parallel --debug`)},
	"uniq": {flags: "cdDiuz", takes: "fsw", most: 1, long: strings.Fields(`
		--count --repeated --all-repeated --unique --group --ignore-case --zero-terminated --skip-fields --skip-chars --check-chars`)},
	"diff": {flags: "abBcdEiNnpqrstTuwyZ0123456789", takes: "CUWLxI", long: strings.Fields(`
		--brief --unified --context --side-by-side --recursive --ignore-case --ignore-all-space --ignore-space-change
		--ignore-blank-lines --ignore-trailing-space --ignore-matching-lines --text --color --report-identical-files --minimal
		--width --exclude --new-file --normal --label --no-dereference --strip-trailing-cr --suppress-common-lines`)},
	"file": {flags: "bhikLNpr0", long: strings.Fields("--brief --mime --mime-type --mime-encoding --dereference --no-dereference --keep-going")},
	"tree": {flags: "adfilpsughDFNtcUrvJXxnAC", long: strings.Fields(`-L -I -P --noreport --dirsfirst --filesfirst --prune --du --si --inodes --gitignore`)},
	"date": {flags: "uR", attached: "I", takes: "dr", most: 1, long: strings.Fields("--utc --universal --iso-8601 --rfc-3339 --rfc-email --date --reference"),
		other: func(_ int, w word) bool { return strings.HasPrefix(w.text, "+") }},
	"sed": {flags: "nErsz", long: strings.Fields("--quiet --silent --regexp-extended --separate --null-data"),
		other: func(n int, w word) bool { return n > 0 || linesOnly.MatchString(w.text) }},
	"rg": {flags: "abcFHIiLlNnoPpSsUuvwx0.", takes: "ABCEefgjMmrtTd", long: strings.Fields(`
		--files --files-with-matches --files-without-match --count --count-matches --ignore-case --smart-case --case-sensitive
		--fixed-strings --word-regexp --line-regexp --line-number --no-line-number --hidden --no-ignore --heading --no-heading
		--glob --iglob --type --type-not --type-list --max-count --max-depth --max-columns --after-context --before-context
		--context --multiline --only-matching --replace --invert-match --pcre2 --json --stats --sort --sortr --trim --vimgrep
		--column --color --no-messages --follow --with-filename --no-filename --null --regexp --text --no-config`)},
}

// linesOnly matches scripts of sed that only choose lines.
var linesOnly = regexp.MustCompile(`^(([0-9]+|\$)(,([0-9]+|\$))?[pdq=]?;?)+$`)

// options describes the arguments with which a command only reads.
type options struct {
	flags    string                      // short options without an argument
	takes    string                      // short options with an argument: the rest of the word, or the next one
	attached string                      // short options whose argument, if any, is the rest of the word
	long     []string                    // other options, in full; what follows "=" is theirs
	most     int                         // how many other words there may be; 0: any number
	other    func(n int, word word) bool // whether the nth other word is harmless; nil: all are
}

// harmless reports whether the arguments are among those.
func (o options) harmless(args []word) bool {
	others, argument := 0, false
	for _, w := range args {
		ofOption := argument
		argument = false
		option := w.literal && len(w.text) > 1 && w.text[0] == '-'
		switch name, _, _ := strings.Cut(w.text, "="); {
		case !w.literal && !w.plain:
			return false
		case option && slices.Contains(o.long, name):
		case option:
			ok := false
			if ok, argument = o.bundle(w.text[1:]); !ok {
				return false
			}
		case ofOption && w.one:
		default:
			if o.most > 0 && (others == o.most || !w.one) || o.other != nil && !o.other(others, w) {
				return false
			}
			others++
		}
	}
	return true
}

// bundle reads short options that stand in one word. argument says that the last of them takes the next word.
func (o options) bundle(letters string) (ok, argument bool) {
	for i, r := range letters {
		switch {
		case strings.ContainsRune(o.flags, r):
		case strings.ContainsRune(o.attached, r):
			return true, false
		case strings.ContainsRune(o.takes, r):
			return true, i == len(letters)-1
		default:
			return false, false
		}
	}
	return true, false
}

// The expressions of find that only look at files or print, by the number of their arguments.
var (
	findFlags = strings.Fields(`( ) ! , -a -and -o -or -not -H -L -P -empty -readable -writable -executable -true -false -prune -print
		-print0 -ls -quit -depth -mount -xdev -follow -daystart -noleaf -nouser -nogroup`)
	findOptions = strings.Fields(`-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -mmin
		-atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile
		-lname -ilname -printf -fstype`)
)

func findHarmless(args []word) bool {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.literal && slices.Contains(findFlags, w.text), w.plain, w.literal && beginsText(w.text):
		case w.literal && slices.Contains(findOptions, w.text):
			if i++; i == len(args) || !args[i].one {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// printed matches formats of printf that only print: %n, for example, sets a variable.
var printed = regexp.MustCompile(`^([^%]|%%|%[-+ 0#]*[0-9]*(\.[0-9]+)?[sbqcdiuoxX])*$`)

func printfHarmless(args []word) bool {
	return len(args) > 0 && args[0].literal && !strings.HasPrefix(args[0].text, "-") && printed.MatchString(args[0].text)
}

var unaryTests = strings.Fields("-e -f -d -s -r -w -x -L -h -n -z")

// testHarmless knows only tests of one value: others evaluate subscripts, in which commands may stand.
func testHarmless(args []word) bool {
	return len(args) == 2 && args[0].literal && slices.Contains(unaryTests, args[0].text) && args[1].one
}

// readsOnly reports whether a command of that name is one that only reads, with these arguments. known is
// false if Steward does not know the command.
func readsOnly(name string, args []word) (harmless, known bool) {
	switch name {
	case "find":
		return findHarmless(args), true
	case "printf":
		return printfHarmless(args), true
	case "test":
		return testHarmless(args), true
	case "[":
		return len(args) > 0 && args[len(args)-1].text == "]" && testHarmless(args[:len(args)-1]), true
	}
	if o, ok := limited[name]; ok {
		return o.harmless(args), true
	}
	ok := slices.Contains(readers, name)
	return ok, ok
}

// runners are commands that run code: what their arguments or their input say, or what a file of the project
// says; and those that change what later commands mean, or write where their options say. Their text does not
// tell what happens.
var runners = strings.Fields(`
	eval exec source . command builtin trap alias unalias set shopt enable hash export readonly unset read mapfile readarray
	compgen complete compopt bind getopts wait jobs fc history pushd popd dirs kill
	sh bash dash zsh ksh mksh fish csh tcsh busybox toybox env xargs parallel sudo doas su runuser pkexec nohup setsid nice ionice chrt taskset
	timeout stdbuf unbuffer script watch flock chroot unshare nsenter bwrap strace ltrace gdb time at batch crontab entr expect socat ssh scp sftp rsync
	awk gawk mawk nawk node nodejs deno bun php lua tclsh osascript guile emacs vi vim nvim view ex ed nano less more most man info
	make gmake ninja cmake meson bazel go cargo rustc npm npx pnpm yarn pip pip3 pipx uv uvx poetry tox pytest mvn gradle ant rake bundle gem
	dotnet swift ghc gcc cc g++ clang docker podman systemd-run dbus-send jq bc dc m4 gpg openssl sqlite3 psql mysql
	tar bsdtar cpio zip unzip 7z dd tee split csplit install patch curl wget`)

// interpreters are those whose names may end in a version.
var interpreters = regexp.MustCompile(`^(python|pypy|perl|ruby|lua|php|node|gcc|clang)[0-9.-]*$`)

// runsCode reports whether a command may run code, so that no standing approval covers it. A program that is
// named by its path may be one of the workspace.
func runsCode(name string, args []word) bool {
	switch {
	case strings.Contains(name, "/"), interpreters.MatchString(name), slices.Contains(runners, name):
		return true
	case name == "git": // options before the command set anything, such as an alias that runs a program
		return len(args) > 0 && (!args[0].literal || strings.HasPrefix(args[0].text, "-"))
	}
	return false
}
