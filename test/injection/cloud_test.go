package injection_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/effect"
	"steward/internal/policy"
	"steward/internal/policy/rego"
	"steward/internal/runtime"
	"steward/internal/turn"
)

// staying returns the default judge with a user's rule that private data, too,
// stays on this machine.
func staying(t *testing.T) policy.Authorizer {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.rego"), []byte("package steward\n\nstays_local contains \"private\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := rego.Open(rego.Options{Dir: dir, Directory: family{}, Settings: map[string]any{"approve": "unfixed"}, Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// leak is a path by which secret data may reach an external model.
type leak struct {
	name string
	do   func(s *scene)
}

var readVault = call{"vault.read", raw(`{}`)}

func leaks() []leak {
	hear := func(s *scene, text string, calls ...call) {
		brain := doing(calls...)
		s.model.think(brain)
		s.cloud.think(brain)
		s.say(words(text), true)
	}
	message := func(s *scene, text string) {
		s.seen = s.conv.String()
		uri := s.messageWith(text)
		s.conv = scene{}.conv
		hear(s, "What was it?", call{"resource.get", raw(encode(map[string]string{"uri": uri}))})
	}
	return []leak{
		{"the next call of the model", func(s *scene) { hear(s, "What is in the vault?", readVault) }},
		{"the next turn", func(s *scene) { hear(s, "What is in the vault?", readVault); hear(s, "Thank you.") }},
		{"a text that is read apart", func(s *scene) {
			hear(s, "What is the key?", call{"plan.fix", raw(`{"steps":[{"id":"v","tool":"vault.read","args":{}},{"id":"e","tool":"text.extract","args":{"instruction":"the key","step":"v"}}]}`)},
				readVault, call{"text.extract", raw(`{"instruction":"the key","step":"v"}`)})
		}},
		{"a text that is read apart, given as it is", func(s *scene) {
			hear(s, "What is the key?", readVault, call{"text.extract", raw(`{"instruction":"the key","text":"The key is SECRET-9999."}`)})
		}},
		{"a summary", func(s *scene) {
			hear(s, "What is in the vault?", readVault)
			for range 4 {
				hear(s, "Thank you. "+strings.Repeat("It was good to hear that. ", 400))
			}
			_, err := s.node.Tidy(s.t.Context(), person, s.conv, runtime.TidyCompact, nil)
			s.must(err)
		}},
		{"a plan that is made apart", func(s *scene) {
			hear(s, "Tell the key.", call{"mail.read", raw(`{"id":"home/bob"}`)}, readVault, call{"plan.fix", raw(`{"steps":[{"id":"v","tool":"vault.read","args":{}}]}`)})
		}},
		{"an agent that is asked", func(s *scene) {
			hear(s, "Have it kept.", readVault, call{"helper.ask", raw(`{"request":"Keep SECRET-9999."}`)})
		}},
		{"the result, read as a resource", func(s *scene) { hear(s, "What is in the vault?", readVault); message(s, "call_id") }},
		{"the answer, read as a resource", func(s *scene) { hear(s, "What is in the vault?", readVault); message(s, "SECRET-9999") }},
		{"a search in what was said", func(s *scene) {
			hear(s, "What is in the vault?", readVault)
			s.conv = scene{}.conv
			hear(s, "What was it?", call{"conversation.search", raw(`{"query":"zebra"}`)})
		}},
		{"a note that the agent makes by itself", func(s *scene) {
			s.decide = func(q turn.ApprovalView) effect.Decision { return effect.Decision{ID: q.ID, Hash: q.Hash} }
			hear(s, "What is in the vault?", readVault, call{"notes.put", raw(`{"key":"k","value":"SECRET-9999"}`)})
			s.conv = scene{}.conv
			hear(s, "What was it?", call{"notes.get", raw(`{"key":"k"}`)})
		}},
	}
}

// TestWhatIsSecretStaysHere counts the secrets that reach an external model on
// the wire. That model precedes the local one in the chain.
func TestWhatIsSecretStaysHere(t *testing.T) {
	for _, how := range []string{"everything", "actions", "unfixed"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, judgeOf(t, how), "cloud/double")
			for _, l := range leaks() {
				w.t = t
				w.reset()
				w.cloud.got, w.model.got = nil, nil
				l.do(&scene{world: w})
				told := 0
				for _, body := range w.cloud.got {
					if strings.Contains(body, "SECRET-9999") {
						told++
					}
				}
				switch {
				case len(w.cloud.got) == 0:
					t.Errorf("%s: the model outside is asked nothing at all: it proves nothing", l.name)
				case how == "everything" && told == 0:
					t.Errorf("%s: the secret does not get there even where everything is allowed: it proves nothing", l.name)
				case how != "everything" && told > 0:
					t.Errorf("%s: the model outside was told the secret in %d of %d requests", l.name, told, len(w.cloud.got))
				case how != "everything" && len(w.model.got) == 0:
					t.Errorf("%s: nobody was asked in its place", l.name)
				}
			}
		})
	}
}

// With a rule of the user, private data stays here, too.
func TestWhatIsPrivateStaysHereWhereARuleSaysSo(t *testing.T) {
	for _, own := range []bool{false, true} {
		judge := judgeOf(t, "unfixed")
		if own {
			judge = staying(t)
		}
		w := newWorld(t, judge, "cloud/double")
		w.reset()
		brain := doing(call{"mail.read", raw(`{"id":"home/bank"}`)}, call{"text.extract", raw(`{"instruction":"the code","text":"SECRET-4711"}`)}, call{"helper.ask", raw(`{"request":"Keep SECRET-4711."}`)})
		w.model.think(brain)
		w.cloud.think(brain)
		s := &scene{world: w}
		s.say(words("Read it."), true)
		asked, told := len(w.cloud.got), strings.Contains(strings.Join(w.cloud.got, "\n"), "SECRET-4711")
		if asked == 0 || told == own {
			t.Errorf("with the rule: %v; %d requests outside, the code told: %v", own, asked, told)
		}
	}
}
