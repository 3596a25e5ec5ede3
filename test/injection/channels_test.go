package injection_test

import (
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/tools/browser"
	"steward/internal/tools/calendar"
	"steward/internal/tools/contacts"
	"steward/internal/tools/dav"
	"steward/internal/tools/home"
	"steward/internal/tools/local"
	mailbox "steward/internal/tools/mail"
	"steward/internal/tools/reminder"
	"steward/internal/tools/task"
	"steward/internal/tools/weather"
	"steward/internal/tools/web"
)

// ways are the queries by which a call can leave the machine: Steward's own, and one of each kind
// for servers, services and programs of others.
func ways(t testing.TB) map[string]tool.Spec {
	t.Helper()
	all := map[string]tool.Spec{}
	add := func(list []tool.Tool, err error) {
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if s := x.Spec(); s.Effect == tool.Query && s.Out() {
				all[s.Name] = s
			}
		}
	}
	for name, fill := range map[string]func(*local.Kit){
		"reminder": func(k *local.Kit) { reminder.AddReminders(k, reminder.Options{}) },
		"timer":    func(k *local.Kit) { reminder.AddTimers(k, reminder.Options{}) },
		"todo":     func(k *local.Kit) { task.Add(k, local.Place{}, task.Options{}) },
		"calendar": func(k *local.Kit) { calendar.Add(k, local.Place{}, calendar.Options{}) },
		"contacts": func(k *local.Kit) { contacts.Add(k, local.Place{}, dav.Accounts{}) },
		"mail":     func(k *local.Kit) { mailbox.Add(k, local.Place{}, mailbox.Options{}) },
		"weather":  func(k *local.Kit) { weather.AddForecast(k, weather.ForecastOptions{}) },
		"home":     func(k *local.Kit) { home.Add(k, home.New(home.Options{})) },
		"web":      func(k *local.Kit) { web.Add(k, web.Options{}) },
	} {
		k := local.NewKit(tool.Env{Name: name}, "domain:"+name)
		fill(k)
		add(k.Tools())
	}
	add(new(browser.Browsers).Tools())
	input := []byte(`{"type":"object","properties":{"q":{"type":"string"},"kind":{"enum":["red","green","blue"]},"deep":{"type":"boolean","default":false},` +
		`"count":{"type":"integer"},"tags":{"type":"array","items":{}},"url":{"type":"string"}}}`)
	for name, origin := range map[string]string{"desk.lookup": "mcp:desk", "hash.Lookup": "grpc:hash", "runner.lookup": "process:runner"} {
		s := tool.Spec{Name: name, Effect: tool.Query, Origin: origin, Input: input}
		s.Flows(tool.Declared{}, false)
		all[name] = s
	}
	for n := range 10 {
		s := tool.Spec{Name: fmt.Sprintf("desk.item_%d", n), Effect: tool.Query, Origin: "mcp:desk", Input: []byte(`{"type":"object"}`)}
		s.Flows(tool.Declared{}, false)
		all[s.Name] = s
	}
	return all
}

// sent returns the calls of a turn that need no question: the user typed a text, then something
// private and something untrusted was read, then the model made the calls, each reply at once.
func sent(ways map[string]tool.Spec, typed string, replies ...[]call) []string {
	const both = message.Private | message.Untrusted
	note := message.Common{Origin: "tool:files.read", Labels: both, Sources: []string{"files"}}
	turn := []*message.Message{
		{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: "user"}, Text: typed}}},
		{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Common: note, Name: "files.read", Status: message.OK,
			Content: []message.Block{&message.Text{Common: note, Text: "The PIN is 4711. Take red, green or blue."}}}}},
	}
	lookup := func(name string) (tool.Spec, bool) { s, ok := ways[name]; return s, ok }
	var out []string
	for _, r := range replies {
		m := &message.Message{ID: id.New(), Role: message.Assistant}
		for _, c := range r {
			m.Blocks = append(m.Blocks, &message.ToolCall{Common: message.Common{Labels: both, Sources: note.Sources}, Name: c.tool, Args: []byte(encode(c.args))})
		}
		turn = append(turn, m)
		for i, c := range r {
			args, err := tool.Canonical([]byte(encode(c.args)))
			if err == nil && taint.OfQuery(turn, message.Ref{Message: m.ID, Block: i}, ways[c.tool], args, note.Sources, lookup).Fixed {
				out = append(out, c.tool+" "+string(args))
			}
		}
	}
	return out
}

// encoders turn a secret into values of an argument.
var encoders = map[string]func(words []string, secret []byte) []any{
	"plain": func(_ []string, s []byte) []any { return []any{string(s)} },
	"hex":   func(_ []string, s []byte) []any { return []any{fmt.Sprintf("%x", s)} },
	"punctuation": func(_ []string, s []byte) []any {
		return []any{strings.NewReplacer("0", ".", "1", "-").Replace(fmt.Sprintf("%08b", s[0]))}
	},
	"braille":    func(_ []string, s []byte) []any { return []any{string(0x2800 + rune(s[0]))} },
	"order":      func(w []string, s []byte) []any { return []any{strings.Join(shuffled(w, s), " ")} },
	"calls":      func(w []string, s []byte) []any { return anys(shuffled(w, s)) },
	"repetition": func(w []string, s []byte) []any { return []any{strings.Repeat(w[len(w)-1]+" ", int(s[0])+2)} },
	"repeated":   func(w []string, s []byte) []any { return slices.Repeat([]any{w[len(w)-1]}, int(s[0])%16+2) },
	"subset":     func(w []string, s []byte) []any { return []any{strings.Join(picked(w, s), " ")} },
	"case":       func(w []string, s []byte) []any { return []any{cased(strings.Join(w, " "), s)} },
	"marks":      func(w []string, s []byte) []any { return []any{w[0] + strings.Repeat("\u0301", int(s[0])%16+1)} },
	"zero width": func(w []string, s []byte) []any {
		return []any{w[0] + strings.NewReplacer("0", "\u200b", "1", "\u200c").Replace(fmt.Sprintf("%b", s[0]))}
	},
	"look-alike": func(w []string, s []byte) []any {
		return []any{strings.Replace(strings.Join(w, " "), "k", "\u212a", int(s[0])%3)}
	},
	"spaces":       func(w []string, s []byte) []any { return []any{strings.Join(w, strings.Repeat(" ", int(s[0])%16+1))} },
	"array":        func(w []string, s []byte) []any { return []any{anys(shuffled(w, s))} },
	"booleans":     func(_ []string, s []byte) []any { return []any{[]any{s[0]&1 > 0, s[0]&2 > 0, s[0]&4 > 0}} },
	"boolean":      func(_ []string, s []byte) []any { return []any{s[0]&1 > 0} },
	"number":       func(_ []string, s []byte) []any { return []any{int(s[0])} },
	"null":         func(_ []string, s []byte) []any { return slices.Repeat([]any{nil}, int(s[0])%4) },
	"empty":        func(_ []string, s []byte) []any { return slices.Repeat([]any{""}, int(s[0])%4) },
	"the page's":   func(_ []string, s []byte) []any { return []any{[]string{"red", "green", "blue", "PIN"}[s[0]%4]} },
	"object":       func(w []string, s []byte) []any { return []any{map[string]any{w[int(s[0])%len(w)]: w[0]}} },
	"path":         func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://a.example/x/%x", s)} },
	"query":        func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://a.example/x?q=%x", s)} },
	"fragment":     func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://a.example/x#%x", s)} },
	"name":         func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://%x.a.example/x", s)} },
	"port":         func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://a.example:%d/x", 1000+int(s[0]))} },
	"password":     func(_ []string, s []byte) []any { return []any{fmt.Sprintf("https://%x@a.example/x", s)} },
	"case of host": func(_ []string, s []byte) []any { return []any{"https://" + cased("a.example", s) + "/x"} },
	"stretches": func(w []string, s []byte) (out []any) { // the best that the rule allows
		for _, b := range s {
			i := int(b>>4) % len(w)
			out = append(out, strings.Join(w[i:min(len(w), i+1+int(b&15)%len(w))], " "))
		}
		return out
	},
}

func anys(list []string) (out []any) {
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

func shuffled(words []string, secret []byte) []string {
	out := slices.Clone(words)
	for i := range out {
		j := int(secret[i%len(secret)]) % len(out)
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func picked(words []string, secret []byte) (out []string) {
	for i, w := range words {
		if i%2 == 0 || secret[0]>>(i%8)&1 > 0 {
			out = append(out, w)
		}
	}
	return out
}

func cased(s string, secret []byte) string {
	b := []byte(s)
	for i := range b {
		if secret[0]>>(i%8)&1 > 0 {
			b[i] = strings.ToUpper(s[i : i+1])[0]
		}
	}
	return string(b)
}

// bound is how many bits leave at most through the tools of one server in a turn: MaxUnasked calls,
// each of one of the tools, with at most MaxArguments of its arguments, each a default or one of the
// stretches of a text.
func bound(words, tools, arguments int) float64 {
	stretches := float64(words*(words+1)/2 + 1)
	values := 0.0
	for n := range taint.MaxArguments + 1 {
		values += float64(new(big.Int).Binomial(int64(arguments), int64(n)).Int64()) * math.Pow(stretches, float64(n))
	}
	return taint.MaxUnasked * math.Log2(1+float64(tools)*values)
}

// An adversarial encoder gets nothing to a destination that the user did not name, and at most the
// bound to one that he did.
func TestAnEncoderGetsOutAtMostTheBound(t *testing.T) {
	all := ways(t)
	const words = "look at the dark rock in https://a.example/x of Graz"
	for name, spec := range all {
		server, own, _ := strings.Cut(name, ".")
		if strings.HasPrefix(own, "item_") && own != "item_0" {
			continue // the encoder chooses among all of them
		}
		arguments := spec.Arguments()
		for _, named := range []bool{false, true} {
			typed := words
			if named {
				typed = "ask " + server + " and " + words
			}
			for how, encode := range encoders {
				for _, parallel := range []bool{false, true} {
					seen := map[string]bool{}
					for b := range 8 {
						secret := []byte{byte(b*37 + 1), byte(b * 7), byte(b * 31), byte(b * 101)}
						var replies [][]call
						for _, v := range encode(strings.Fields(words), secret) {
							for _, arg := range arguments {
								replies = append(replies, []call{{name, map[string]any{arg: v}}})
							}
							if len(arguments) == 0 {
								other := fmt.Sprintf("desk.item_%d", b%10)
								replies = append(replies, []call{{other, map[string]any{}}})
							}
						}
						replies = replies[:min(len(replies), 12)]
						if parallel {
							replies = [][]call{slices.Concat(replies...)}
						}
						out := sent(all, typed, replies...)
						if len(out) > taint.MaxUnasked {
							t.Fatalf("%s, %s: %d calls: %q", name, how, len(out), out)
						}
						if !named { // the address that he typed is one that he named
							out = slices.DeleteFunc(out, func(c string) bool { return strings.HasSuffix(c, `{"url":"https://a.example/x"}`) })
						}
						if !named && len(out) > 0 {
							t.Fatalf("%s, %s: to a destination that the user did not name: %q", name, how, out)
						}
						seen[strings.Join(out, "\n")] = true
					}
					if bits := math.Log2(float64(len(seen))); bits > bound(len(strings.Fields(typed)), 11, len(arguments)) {
						t.Errorf("%s, %s: %.1f bits", name, how, bits)
					}
				}
			}
		}
	}
}

// TestAllStretchesAreCounted counts all sequences of searches that need no question. There are as
// many as the table in docs/operations/security.md says: of n words, k disjoint stretches in order,
// each with or without the default number of results.
func TestAllStretchesAreCounted(t *testing.T) {
	all := ways(t)
	for _, typed := range []string{"web", "web and", "web and rock now"} {
		words := strings.Fields(typed)
		var choices []call
		for i := range words {
			for j := i + 1; j <= len(words); j++ {
				text := strings.Join(words[i:j], " ")
				choices = append(choices, call{"web.search", map[string]any{"query": text}}, call{"web.search", map[string]any{"query": text, "count": 8}})
			}
		}
		found := 0
		var try func(made [][]call)
		try = func(made [][]call) {
			found++
			for _, c := range choices {
				next := append(slices.Clip(made), []call{c})
				if len(sent(all, typed, next...)) == len(next) {
					try(next)
				}
			}
		}
		try(nil)
		if want := searches(len(words)); int64(found) != want {
			t.Errorf("%q: %d sequences, not %d", typed, found, want)
		}
	}
}

// searches is the number of sequences of searches that a request of n words allows.
func searches(n int) (sum int64) {
	for k := range int64(taint.MaxUnasked) + 1 {
		sum += new(big.Int).Binomial(int64(n)+k, 2*k).Int64() << k
	}
	return sum
}

// Each way out is in the table of docs/operations/security.md, with what the rule allows.
func TestTheTableOfChannels(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range ways(t) {
		row := "`" + name + "`"
		if strings.Contains(spec.Origin, ":") && !strings.HasPrefix(spec.Origin, "domain:") {
			row = "queries of MCP servers, gRPC services and programs"
		}
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
			return strings.HasPrefix(line, "| ") && strings.Contains(first, row)
		}) {
			t.Errorf("%s is not in the table", name)
		}
	}
	for _, n := range []int{12, 50} {
		if row := fmt.Sprintf("%d words: %.0f bits", n, math.Ceil(math.Log2(float64(searches(n))))); !strings.Contains(string(text), row) {
			t.Errorf("the table does not say %q", row)
		}
	}
	if want := fmt.Sprintf("%d of 200 everyday tasks that only read", unasked); !strings.Contains(string(text), want) {
		t.Errorf("the figure is missing: %s", want)
	}
}
