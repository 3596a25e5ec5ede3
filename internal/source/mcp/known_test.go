package mcp

import (
	"regexp"
	"strings"
	"testing"

	"steward/internal/tool"
)

// Each known server has a valid declaration, and every secret that the declaration uses is
// explained.
func TestKnownServers(t *testing.T) {
	used := regexp.MustCompile(`\$\{(\w+)\}`)
	for _, k := range KnownServers() {
		d := k.In("/home/ann/Steward")
		if err := d.check(""); err != nil && !strings.Contains(d.URL, "${") {
			t.Errorf("%s: %v", k.Name, err)
		}
		word, err := tool.Word(k.Name)
		if err != nil || word != k.Name || k.Title == "" || !strings.HasPrefix(k.Source, "https://") || len(k.Date) != 10 {
			t.Errorf("%+v %v", k, err)
		}
		text := d.URL + strings.Join(d.Args, " ")
		for _, v := range d.Headers {
			text += v
		}
		for _, v := range d.Env {
			text += v
		}
		names := map[string]bool{}
		for _, m := range used.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		for name := range names {
			if k.Secrets[name] == "" {
				t.Errorf("%s: nobody says what %s is", k.Name, name)
			}
		}
		if len(names) != len(k.Secrets) || k.Folder != strings.Contains(strings.Join(d.Args, " "), "/home/ann/Steward") {
			t.Errorf("%s: %v, %v", k.Name, names, d.Args)
		}
	}
	if k, ok := KnownServer("home-assistant"); !ok || k.Name != "home_assistant" {
		t.Error(k, ok)
	}
	if _, ok := KnownServer("nothing"); ok {
		t.Error("it is known")
	}
}
