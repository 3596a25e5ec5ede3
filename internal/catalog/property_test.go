package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/test/must"
	_ "steward/test/seed"
)

// TestAnyByteThatMattersIsAskedForAgain changes, adds or removes a random byte. If the file is part of the
// agent, the approval ends; otherwise nothing changes.
func TestAnyByteThatMattersIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{
		"agent.yaml":             "name: all\ndescription: Has everything.\nprocess: {box: {files: [tools/box.sh]}}\nmcp: {lib: {files: [lib/run.py]}}\nhooks: {before_tool: {files: [hooks/h.sh]}}\n",
		"PROMPT.md":              "Be good.\n",
		"AGENTS.md":              "Notes.\n",
		"skills/one/SKILL.md":    "---\nname: one\ndescription: One.\n---\nDo it.\n",
		"skills/one/more.md":     "More.\n",
		"tools/box.sh":           "#!/bin/sh\necho\n",
		"tools/own.yaml":         "name: own\nfiles: [tools/box.sh]\n",
		"tools/things.proto":     "syntax = \"proto3\";\n",
		"tools/deep/data.bin":    "\x00\xff\x01",
		"hooks/h.sh":             "#!/bin/sh\n",
		"lib/run.py":             "import helper\n",
		"lib/helper.py":          "print(1)\n",
		"lib/tests/loaded_too.p": "x",
	}
	unrelated := []string{"README.md", "LICENSE", ".env", "tests/test_all.py", "docs/x.md", "logs/a.log", "notes.txt", "tools/.cache", "agents/.keep"}
	restore := func() {
		w.remove("all")
		for name, text := range files {
			w.write(filepath.Join("all", name), text)
		}
	}
	restore()
	w.edge.offer("box", spec("box.add", "Adds."))
	c := w.approved("all")
	if !usable(c, "all") {
		t.Fatal("not usable")
	}
	hash := listing(t, c, "all").Hash
	names := sortedKeys(files)
	rapid.Check(t, func(rt *rapid.T) {
		restore()
		if rapid.Bool().Draw(rt, "unrelated") {
			w.write(filepath.Join("all", rapid.SampledFrom(unrelated).Draw(rt, "file")), rapid.String().Draw(rt, "text"))
			rescan(t, c)
			if !usable(c, "all") || listing(t, c, "all").Hash != hash {
				rt.Fatalf("what does not matter has put it back to pending: %+v", listing(t, c, "all"))
			}
			return
		}
		name := rapid.SampledFrom(names).Draw(rt, "file")
		path := filepath.Join(w.dir, "all", name)
		text := []byte(files[name])
		i := rapid.IntRange(0, len(text)-1).Draw(rt, "at")
		switch rapid.SampledFrom([]string{"change", "add", "cut", "remove", "beside"}).Draw(rt, "how") {
		case "change":
			text[i] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		case "add":
			text = append(text[:i:i], append([]byte{rapid.SampledFrom([]byte(" \n\tx")).Draw(rt, "byte")}, text[i:]...)...)
		case "cut":
			text = append(text[:i:i], text[i+1:]...)
		case "remove":
			text = nil
			must.Do(rt, os.Remove(path))
		case "beside":
			path = filepath.Join(w.dir, "all", rapid.SampledFrom([]string{"tools", "hooks", "lib", "skills/one"}).Draw(rt, "in"), "new.py")
		}
		if text != nil {
			must.Do(rt, os.WriteFile(path, text, 0o755))
		}
		rescan(t, c)
		if usable(c, "all") {
			rt.Fatalf("%s has changed, and it is still used", path)
		}
		if l := c.Listings()[0]; l.Status != Invalid && (l.Status != Pending || !l.Changed || inspect(t, c, l.Path).Diff == "") {
			rt.Fatalf("%+v", l)
		}
	})
	restore()
	rescan(t, c)
	if !usable(c, "all") || listing(t, c, "all").Hash != hash {
		t.Fatal("as it was approved, it is not used")
	}
}

func TestVisibleKeepsTextsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("ab‹›U+202E\u202e\u200b\U000e0041\x00\x7f\ufeff"))),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		if a != b && visible(a) == visible(b) {
			t.Fatalf("%q and %q are both shown as %q", a, b, visible(a))
		}
		for _, r := range visible(a) {
			if hidden(r) || r == utf8.RuneError && !strings.ContainsRune(a, r) {
				t.Fatalf("%q shows %U", visible(a), r)
			}
		}
	})
}

func TestSourceNames(t *testing.T) {
	for in, want := range map[string]string{"Brave Search": "brave_search", "BraveSearch": "brave_search", "files": "files", "server-filesystem": "server_filesystem",
		"a--b__c": "a_b_c", "@scope/pkg": "scope_pkg", "GitHub": "git_hub", "URL": "url", "HTTPServer": "http_server", "x2Y": "x2_y",
		"ñ": "", "w\u0456ki": "", "wi\u200bki": "", "1st": "", "…": "", strings.Repeat("long", 11): ""} {
		if got, err := sourceName(in); got != want || (err == nil) != (want != "") {
			t.Errorf("sourceName(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if got, err := sourceName(rapid.String().Draw(t, "name")); err == nil && badName(got) != "" {
			t.Fatalf("%q: %s", got, badName(got))
		}
	})
}

// FuzzDefinition checks that any definition is either read or refused with problems at positions in the
// file, and that reading it twice gives the same result.
func FuzzDefinition(f *testing.F) {
	for _, seed := range []string{
		"name: x\ndescription: y\n",
		"name: [x\n",
		"a: &a [*a]\n",
		"name: x\nname: y\n",
		"- - - - -\n",
		"{a: {b: {c: {d: 1}}}}",
		"mcp: {box: {command: [x], env: {A: b}}}\nhooks: {before_tool: [{}, {}]}\nservices: {llm: {source: remote}}\n",
		"metadata: {purpose: 1, purpse: x}\nlimits: {time: 1}\nparameters: {type: object, properties: {x: {$ref: '#/$defs/x'}}}\n",
		"name: !!binary eA==\n? [a]\n: b\n<<: {a: b}\n",
		"examples:\n  - say: |\n      hello\n    tools: [a.b]\n---\nname: y\n",
		"config: {a: .inf, b: 0x1F, c: 1_000, d: ~, e: 2024-05-01, f: 1e400}\n",
		"\xff\xfe\x00", "name: \u202ex\n", "%YAML 1.1\n---\nname: on\n", strings.Repeat("[", 200), "a:\n\t- b\n", "\r\r\r\ri",
	} {
		f.Add([]byte(seed))
	}
	names := []string{"math.evaluate"}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := parseDefinition("agent.yaml", text, names, nil)
		lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + 2 // a carriage return alone breaks a line too (YAML 1.2, 5.4)
		for _, p := range d.problems {
			if p.File != "agent.yaml" || p.Line < 1 || p.Line > lines || p.Column < 1 || p.Code == "" || p.Message == "" || p.Remedy == "" || strings.ContainsFunc(p.Message, hidden) {
				t.Fatalf("%+v of %d lines", p, lines)
			}
		}
		if len(d.problems) == 0 && (badName(d.Name) != "" || d.Description == "") {
			t.Fatalf("accepted: %+v", d.definition)
		}
		if d.Config != nil && !json.Valid(d.Config) {
			t.Fatalf("config is no JSON: %s", d.Config)
		}
		for _, s := range d.sources {
			var into decl0
			var problems []Problem
			if err := s.decode(&problems)(&into); (err != nil) != (len(problems) > 0) {
				t.Fatalf("%v %v", err, problems)
			}
		}
		again := parseDefinition("agent.yaml", text, names, nil)
		if fmt.Sprint(again.problems) != fmt.Sprint(d.problems) {
			t.Fatalf("%v\n%v", d.problems, again.problems)
		}
	})
}
