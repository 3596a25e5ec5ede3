package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/browser"
	"steward/internal/tools/skills"
)

// TestEveryBuiltInToolSaysWhatItDoes: the chat and the work log show each call in words. These are
// neither the tool's name nor an id.
func TestEveryBuiltInToolSaysWhatItDoes(t *testing.T) {
	set := &settings.Loaded{}
	set.Data, set.Workspace = t.TempDir(), t.TempDir()
	set.Mail = map[string]settings.Mail{"home": {Address: "ann@example.com", IMAP: "imap.example.com:993", SMTP: "smtp.example.com:465"}}
	set.Contacts = map[string]settings.Contacts{"home": {URL: "https://example.com/card/"}}
	set.Notify.Ntfy.Topic = "a-topic"
	set.Home = settings.Home{URL: "http://homeassistant.local:8123", Token: "t"}
	var all []tool.Tool
	for _, g := range (&Local{Log: slog.New(slog.DiscardHandler)}).BuiltIns(set) {
		tools, err := g.tools()
		if err != nil {
			t.Fatalf("%s: %v", g.Name, err)
		}
		all = append(all, tools...)
	}
	pages, err := browser.New(browser.Options{}).Tools() // also where no Chromium is installed
	if err != nil {
		t.Fatal(err)
	}
	if err := SkillStore(set).Approve(&skills.Skill{Name: "forms", Description: "Fills in forms.", Files: map[string]string{"SKILL.md": "Fill them in."}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	reads, err := skills.Tools(SkillStore(set))
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string]bool{}
	for _, x := range slices.Concat(all, pages, reads) {
		s := x.Spec()
		group, verb, _ := strings.Cut(s.Name, ".")
		groups[group] = true
		words := strings.Fields(s.Log.Summary)
		if len(words) < 2 || strings.Contains(s.Log.Summary, s.Name) || strings.EqualFold(s.Log.Summary, group+" "+verb) ||
			strings.Contains(s.Log.Summary, "{id}") || strings.HasSuffix(words[0], "ed") || words[0] != strings.ToUpper(words[0][:1])+words[0][1:] {
			t.Errorf("%s is shown as %q", s.Name, s.Log.Summary)
		}
	}
	for _, group := range strings.Fields("reminder timer calendar todo math files time skills web browser weather notify mail contacts home") {
		if !groups[group] {
			t.Errorf("%s was not looked at", group)
		}
	}
}
