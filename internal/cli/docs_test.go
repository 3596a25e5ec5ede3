package cli

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"steward/internal/app"
	"steward/internal/llm"
	"steward/internal/settings"
)

var update = flag.Bool("update", false, "write the generated parts of the docs anew")

const repo = "../.."

// chatCommand begins the lines of documents that open a chat.
const chatCommand = "$ steward chat"

// TestConsole runs the console blocks of the README and the docs as a new
// user would: each document in a fresh home and with free ports, its commands in order. A line of
// output that is "…" stands for any lines, a "…" in a line for any text, and two
// or more blanks for any such number. TestConsoleWithAChat runs the documents
// that open a chat.
func TestConsole(t *testing.T) { consoles(t, nil) }

// chatting runs a chat of a document: the command, and the lines below it.
type chatting func(t *testing.T, env []string, command string, lines []string)

// consoles runs the documents that open a chat with chat, or if that is nil,
// the others.
func consoles(t *testing.T, chat chatting) {
	t.Helper()
	files, err := filepath.Glob(repo + "/docs/*/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	ran := 0
	for _, file := range append(files, repo+"/README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := fenced(string(text), "console")
		block := strings.Join(blocks, "\n")
		if len(blocks) == 0 || strings.Contains(block, chatCommand) != (chat != nil) {
			continue
		}
		ran += len(blocks)
		t.Run(strings.TrimPrefix(file, repo+"/"), func(t *testing.T) {
			t.Parallel()
			console(t, atFreePorts(t, block), chat)
		})
	}
	if ran == 0 {
		t.Error("no block was run")
	}
}

// fenced returns the code blocks of a language.
func fenced(text, language string) []string {
	var out []string
	for _, part := range strings.Split(text, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		out = append(out, block)
	}
	return out
}

// port is one of this machine in a document, for a program or in bash's /dev/tcp.
var port = regexp.MustCompile(`\b127\.0\.0\.1[:/]([1-9]\d*)\b`)

// atFreePorts returns a block with free ports for those of the programs that it starts in the background.
func atFreePorts(t *testing.T, block string) string {
	t.Helper()
	free := map[string]string{}
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "$ ") || !strings.HasSuffix(line, " &") {
			continue
		}
		for _, named := range port.FindAllStringSubmatch(line, -1) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close() // once all are found, so that they differ
			free[named[1]] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		}
	}
	return port.ReplaceAllStringFunc(block, func(at string) string {
		const host = len("127.0.0.1:")
		return at[:host] + cmp.Or(free[at[host:]], at[host:])
	})
}

// console runs commands, which begin with "$ " (and continue in lines that begin
// with "> "), and compares their output.
func console(t *testing.T, block string, chat chatting) {
	env, dir := append(user(t), databases(t, block)...), t.TempDir()
	examples, err := filepath.Abs(repo + "/examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil { // the same layout as in the repository
		t.Fatal(err)
	}
	var cmd string
	var want []string
	finish := func() {
		if strings.HasPrefix("$ "+cmd, chatCommand) {
			chat(t, env, cmd, want)
		} else if name, _, ok := strings.Cut(cmd, "=$("); ok && !strings.Contains(name, " ") { // a variable for the commands that follow
			set := exec.Command("bash", "-c", cmd+"; printf %s \"$"+name+"\"")
			set.Env, set.Dir = env, dir
			value, err := set.Output()
			if err != nil || len(value) == 0 {
				t.Errorf("$ %s\n%v", cmd, err)
			}
			env = append(env, name+"="+string(value))
		} else if cmd != "" {
			runConsole(t, env, dir, cmd, strings.Join(want, "\n"))
		}
		cmd, want = "", nil
	}
	for line := range strings.SplitSeq(block, "\n") {
		switch {
		case strings.HasPrefix(line, "$ "):
			finish()
			cmd = line[2:]
		case (line == ">" || strings.HasPrefix(line, "> ")) && want == nil:
			cmd += "\n" + strings.TrimPrefix(line[1:], " ")
		default:
			want = append(want, line)
		}
	}
	finish()
}

func runConsole(t *testing.T, env []string, dir, line, want string) {
	t.Helper()
	background := strings.HasSuffix(line, " &")
	cmd := exec.Command("bash", "-c", strings.TrimSuffix(line, " &"))
	cmd.Env, cmd.Dir = env, dir
	if background {
		serving(t, cmd)
		return
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(line, "||") {
		t.Errorf("$ %s\n%v\n%s", line, err, out)
		return
	}
	if !matches(string(out), want) {
		t.Errorf("$ %s\nprinted\n%s\nbut the document says\n%s", line, out, want)
	}
}

// serving starts a server and waits until it serves.
func serving(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[2] = "exec " + cmd.Args[2]
	cmd.Stdout, cmd.Stderr = pw, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pw.Close()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		pr.Close()
	})
	if _, err := pr.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
}

func matches(got, want string) bool {
	re := regexp.QuoteMeta(strings.TrimSpace(want))
	re = regexp.MustCompile(` {2,}`).ReplaceAllString(re, " {2,}") // the widths of columns vary
	re = strings.ReplaceAll(re, "\n…", `(?s:.*)`)
	re = strings.ReplaceAll(re, "…", `[^\n]*`)
	return regexp.MustCompile("^" + re + "$").MatchString(strings.TrimSpace(got))
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		got, want string
		good      bool
	}{{"a\n", "a", true}, {"a b c", "a … c", true}, {"a\nb\nc", "a\n…", true}, {"a\nb\nc", "a\n…\nc", true}, {"a", "b", false}, {"a.c", "abc", false}, {"a\nx", "a", false}} {
		if matches(c.got, c.want) != c.good {
			t.Errorf("%+v", c)
		}
	}
}

// TestDocumentsNameWhatExists: the tests and commands that documents name are there. For tools and settings
// see TestEveryGroupOfTools in test/edge.
func TestDocumentsNameWhatExists(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)`)
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(repo + "/docs/*/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*…?`)
	called := regexp.MustCompile("`steward ([a-z][a-z ]*)")
	for _, file := range append(files, repo+"/README.md", repo+"/ARCHITECTURE.md", repo+"/CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if !strings.HasSuffix(name, "…") && !tests[name] { // TestTheOffline… stands for several
				t.Errorf("%s names %s, and there is no such test", file, name)
			}
		}
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(m[1])
			c, rest, err := (&program{}).command().Find(words)
			if err != nil || c.Parent() == nil || c.HasSubCommands() && len(rest) > 0 {
				t.Errorf("%s names steward %s, and there is no such command", file, m[1])
			}
		}
	}
}

// TestGeneratedCLI and TestGeneratedSettings check that the references match the
// code.
func TestGeneratedCLI(t *testing.T) { generated(t, "docs/reference/cli.md", cliReference(t)) }

func TestGeneratedSettings(t *testing.T) {
	generated(t, "docs/reference/settings.md", settingsReference())
}

const begin, end = "<!-- generated: make docs -->", "<!-- end -->"

func generated(t *testing.T, file, want string) {
	t.Helper()
	path := filepath.Join(repo, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks", file)
	}
	now := head + begin + "\n\n" + strings.TrimSpace(want) + "\n\n" + end + tail
	if now == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the code is: run make docs", file)
	}
	if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

func cliReference(t *testing.T) string {
	t.Helper()
	root := (&program{}).command()
	root.InitDefaultCompletionCmd("completion")
	var b bytes.Buffer
	b.WriteString("## Flags of every command\n\n")
	flagTable(&b, root.PersistentFlags())
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() == "help" || sub.Hidden || sub.Name() == "completion" {
				continue
			}
			if sub.Runnable() && !sub.HasSubCommands() {
				section(&b, sub)
			}
			each(sub)
		}
	}
	each(root)
	return b.String()
}

func section(b *bytes.Buffer, c *cobra.Command) {
	use := c.CommandPath() + strings.TrimPrefix(c.Use, c.Name())
	fmt.Fprintf(b, "\n## `%s`\n\n", use)
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n", long)
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	if c.HasLocalFlags() {
		b.WriteString("\n")
		flagTable(b, c.LocalNonPersistentFlags())
	}
}

func flagTable(b *bytes.Buffer, flags *pflag.FlagSet) {
	any := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		if !any {
			b.WriteString("| flag | |\n|---|---|\n")
			any = true
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if !slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, usage)
	})
}

// knownProviders lists the providers that may be in the settings.
func knownProviders() string {
	var names []string
	for v := range app.Vendors().All() {
		if v.Access != llm.BuiltIn {
			names = append(names, v.Name)
		}
	}
	return strings.Join(names, ", ")
}

// knownTools lists the tools that run at vendors.
func knownTools() string {
	var parts []string
	for _, v := range app.Vendors() {
		if n := len(v.Tools); n > 0 {
			parts = append(parts, strings.Join(v.Tools[:n-1], ", ")+" and "+v.Tools[n-1]+" at "+v.Title)
		}
	}
	return strings.Join(parts, "; ")
}

func settingsReference() string {
	var b strings.Builder
	b.WriteString("| key | value | default | variable | in a project's file |\n|---|---|---|---|---|\n")
	known := strings.NewReplacer("{providers}", knownProviders(), "{tools}", knownTools())
	for k := range settings.Keys() {
		k.Doc = known.Replace(k.Doc)
		project := map[string]string{"": "no", "yes": "yes", "less": "only to lower it"}[k.Project]
		if k.Section {
			fmt.Fprintf(&b, "| **`%s`** | %s | | | |\n", k.Path, k.Doc)
			continue
		}
		cell := func(s string) string {
			if s == "" {
				return ""
			}
			return "`" + s + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s<br>%s | %s | %s | %s |\n", k.Path, k.Doc, k.Type, cell(k.Default), cell(k.Env), project)
	}
	return b.String()
}
