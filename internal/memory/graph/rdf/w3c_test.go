//go:build long

package rdf_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/memory/graph/rdf"
)

// TestTheSuitesOfW3C runs the tests of the W3C for Turtle and N-Triples. They are not part of this
// repository: scripts/rdf-tests gets them.
func TestTheSuitesOfW3C(t *testing.T) {
	const root = "../../../../bin/rdf-tests"
	if _, err := os.Stat(filepath.Join(root, "rdf/rdf11")); err != nil {
		t.Fatalf("the W3C's tests are not here: run scripts/rdf-tests, as make test-long does (%v)", err)
	}
	all, failed := 0, 0
	for _, suite := range []string{"rdf-turtle", "rdf-n-triples"} {
		dir := filepath.Join(root, "rdf/rdf11", suite)
		text, err := os.ReadFile(filepath.Join(dir, "manifest.ttl"))
		if err != nil {
			t.Fatal(err)
		}
		const mf = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
		manifest, err := rdf.Reader{Base: "file:///"}.Turtle(string(text))
		if err != nil {
			t.Fatal(err)
		}
		of := func(s rdf.Term, p string) string {
			for _, tr := range manifest {
				if tr.S == s && tr.P.Value == p {
					return tr.O.Value[strings.LastIndexAny(tr.O.Value, "/#")+1:]
				}
			}
			return ""
		}
		for _, tr := range manifest {
			if tr.P.Value != mf+"action" {
				continue
			}
			all++
			kind, action := of(tr.S, rdf.Type), of(tr.S, mf+"action")
			if !t.Run(suite+"/"+action, func(t *testing.T) {
				b, err := os.ReadFile(filepath.Join(dir, action))
				if err != nil {
					t.Fatal(err)
				}
				r := rdf.Reader{Base: "https://w3c.github.io/rdf-tests/rdf/rdf11/" + suite + "/" + action}
				read := r.Turtle
				if suite == "rdf-n-triples" {
					read = rdf.Reader{}.NTriples
				}
				got, err := read(string(b))
				for i := range got {
					if err == nil {
						err = got[i].Check()
					}
				}
				if strings.Contains(kind, "Negative") {
					if err == nil {
						t.Errorf("accepted: %s", b)
					}
					return
				}
				if err != nil {
					t.Fatalf("%v: %s", err, b)
				}
				if result := of(tr.S, mf+"result"); result != "" {
					b, err := os.ReadFile(filepath.Join(dir, result))
					if err != nil {
						t.Fatal(err)
					}
					want, err := rdf.Reader{}.NTriples(string(b))
					if err != nil {
						t.Fatal(err)
					}
					if g, w := shape(got), shape(want); g != w {
						t.Errorf("got\n%s\nwant\n%s", g, w)
					}
				}
			}) {
				failed++
			}
		}
	}
	t.Logf("%d tests: %d fail", all, failed)
	if all < 300 {
		t.Errorf("only %d tests were run", all)
	}
}

// shape writes triples so that graphs that differ in the labels of blank nodes only are the same: a node is
// named by what is said of it, for as many rounds as these small graphs need.
func shape(triples []rdf.Triple) string {
	names := map[string]string{}
	name := func(t rdf.Term) string {
		if t.Kind == rdf.Blank {
			return "_:[" + names[t.Value] + "]"
		}
		return t.String()
	}
	for range 4 {
		next := map[string][]string{}
		for _, t := range triples {
			if t.S.Kind == rdf.Blank {
				next[t.S.Value] = append(next[t.S.Value], "> "+t.P.String()+name(t.O))
			}
			if t.O.Kind == rdf.Blank {
				next[t.O.Value] = append(next[t.O.Value], "< "+t.P.String()+name(t.S))
			}
		}
		for k, v := range next {
			slices.Sort(v)
			names[k] = strings.Join(v, ",")
			if len(names[k]) > 4000 {
				names[k] = names[k][:4000]
			}
		}
	}
	lines := map[string]bool{}
	for _, t := range triples {
		lines[name(t.S)+" "+t.P.String()+" "+name(t.O)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}
