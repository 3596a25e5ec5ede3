package worklog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/message"
	"steward/internal/secret/mask"
	"steward/internal/tool"
)

func masked(t testing.TB, log tool.LogSpec, args string) *words {
	t.Helper()
	e := New(nil, func(string) (tool.Spec, bool) { return tool.Spec{Log: log}, true }, nil)
	return e.words(message.Call{ToolCall: &message.ToolCall{Name: "a.b", Args: []byte(args)}})
}

func TestArgumentsAreMasked(t *testing.T) {
	for _, c := range []struct {
		log        tool.LogSpec
		args, want string
	}{
		{tool.LogSpec{}, `{"a":1,"password":"x"}`, `{"a":1,"password":"[secret]"}`},
		{tool.LogSpec{Secret: []string{"note"}}, `{"Note":{"a":"deep value"},"b":[{"note":"in a list"}],"c":"it said deep value"}`,
			`{"Note":"[secret]","b":[{"note":"[secret]"}],"c":"it said [secret]"}`},
		{tool.LogSpec{}, `{"headers":[{"name":"Authorization","value":"abc"},{"name":"Accept","value":"abcd"}]}`,
			`{"headers":[{"name":"Authorization","value":"[secret]"},{"name":"Accept","value":"abcd"}]}`},
		{tool.LogSpec{}, `{"env":{"DB_PASSWORD":"hunter2","n":null},"run":"login hunter2","cut":"hunte"}`, `{"cut":"hunte","env":{"DB_PASSWORD":"[secret]","n":null},"run":"login [secret]"}`},
		{tool.LogSpec{}, `{"pin":4711,"code":4711,"n":1.50,"yes":true}`, `{"code":"[secret]","n":1.50,"pin":"[secret]","yes":true}`},
		{tool.LogSpec{}, `{"sk-abcdefghijk":1}`, `{"[secret]":1}`},
		{tool.LogSpec{}, `{"max_tokens":100}`, `{"max_tokens":100}`},
		{tool.LogSpec{}, `{"token":["abcd",{"x":12345}],"a":"abcd 12345"}`, `{"a":"[secret] [secret]","token":"[secret]"}`},
	} {
		w := masked(t, c.log, c.args)
		b, err := json.Marshal(w.args)
		if err != nil || string(b) != c.want {
			t.Errorf("%s\nbecame %s, %v\nwant   %s", c.args, b, err, c.want)
		}
	}
}

// anyArgs draws arguments with secrets under telling names, at any depth, and
// appends the secrets to the list.
func anyArgs(t *rapid.T, depth int, planted *[]string) map[string]any {
	out := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, "members") {
		name := fmt.Sprint(rapid.StringMatching(`[a-z]{1,6}`).Draw(t, "name"), i)
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			out[name] = anyArgs(t, depth-1, planted)
		case kind == 1 && depth > 0:
			out[name] = []any{anyArgs(t, depth-1, planted), rapid.String().Draw(t, "item")}
		case kind < 4:
			secret := rapid.StringMatching(`[A-Z]{3}[a-zA-Z0-9 "\\€/:=+_-]{5,30}[A-Z]{2}`).Draw(t, "secret")
			*planted = append(*planted, secret)
			name = rapid.SampledFrom([]string{"password", "api_key", "X-Auth-Token", "authorization", "clientSecret", "passphrase", "route"}).Draw(t, "secret name")
			var v any = secret
			if rapid.Bool().Draw(t, "inside") {
				v = map[string]any{"x": []any{secret}}
			}
			out[fmt.Sprint(strings.Repeat("my_", i), name)] = v
		default:
			out[name] = rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n })).Draw(t, "value")
		}
	}
	return out
}

// An entry shows no secret of its call: neither in the summary, the parameters or the
// impact, nor in an error that repeats the secret, whole or cut.
func TestNoSecretIsEverTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var planted []string
		args := anyArgs(t, 3, &planted)
		if len(planted) > 0 { // repeat a known secret at any place
			args["path"] = "before " + planted[0] + " after"
		}
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		log := tool.LogSpec{Secret: []string{"route", "my_route", "my_my_route", "my_my_my_route"}}
		if rapid.Bool().Draw(t, "template") {
			log.Summary, log.Impact = "Did {path} {password} {x|y}", []string{"path", "password"}
		}
		w := masked(&testing.T{}, log, string(b))
		var en Entry
		w.describe(&en)
		failed := &message.ToolResult{Content: []message.Block{&message.Text{Text: "It failed with " + strings.Join(planted, ", ") + "."}}}
		if len(planted) > 0 {
			failed.Content = append(failed.Content, &message.Text{Text: fmt.Sprintf(" Cut: %.12s…, quoted: %q.", planted[0], planted)})
		}
		en.Error = w.why(failed)
		told, err := json.Marshal(en)
		if err != nil {
			t.Fatal(err)
		}
		show, err := json.Marshal([]any{w.args, w.Text(failed.Text())})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range planted {
			quoted, _ := json.Marshal(secret)
			for _, s := range []string{secret, strings.Trim(string(quoted), `"`), secret[:10]} {
				if strings.Contains(string(told), s) || strings.Contains(string(show), s) {
					t.Fatalf("%q is told:\n%s\n%s\nof %s", s, told, show, b)
				}
			}
		}
	})
}

// A value that looks like a secret is masked at any place.
func TestWhatLooksLikeASecretIsNeverTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.OneOf(
			rapid.StringMatching(`sk-[A-Za-z0-9]{16,40}`),
			rapid.StringMatching(`ghp_[A-Za-z0-9]{36}`),
			rapid.StringMatching(`eyJ[A-Za-z0-9_-]{20,40}\.[A-Za-z0-9_-]{20,40}\.[A-Za-z0-9_-]{20}`),
			rapid.StringMatching(`-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64}\n){2}-----END PRIVATE KEY-----`),
			rapid.StringMatching(`[a-f]{4}([0-9][a-f]){20}`),
		).Draw(t, "secret")
		before := rapid.SampledFrom([]string{"", "The key is ", "x\n", "(", "Ключ: "}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", " and so on", ".", "\n", ")"}).Draw(t, "after")
		b, err := json.Marshal(map[string]any{"text": before + secret + after, "list": []any{map[string]any{"deep": secret}}})
		if err != nil {
			t.Fatal(err)
		}
		w := masked(&testing.T{}, tool.LogSpec{Summary: "Did {text} {list}"}, string(b))
		var en Entry
		w.describe(&en)
		told, err := json.Marshal(en)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+12 <= len(secret); i++ {
			part := secret[i : i+12]
			if !strings.ContainsAny(part, "\n- ") && strings.Contains(string(told), part) {
				t.Fatalf("%q of %q is told: %s", part, secret, told)
			}
		}
	})
}

func TestSecretBlocks(t *testing.T) {
	e := New(nil, func(string) (tool.Spec, bool) {
		return tool.Spec{Log: tool.LogSpec{Summary: "Read {path}", Impact: []string{"path"}}}, true
	}, nil)
	w := e.words(message.Call{ToolCall: &message.ToolCall{Common: message.Common{Labels: message.Secret}, Name: "files.read", Args: []byte(`{"path":"plain"}`)}})
	var en Entry
	w.describe(&en)
	if en.Summary != "Read [secret]" || en.Parameters != nil || en.Impact != nil {
		t.Errorf("%+v", en)
	}
	if got := w.why(&message.ToolResult{Content: []message.Block{&message.Text{Text: "x"}}}); got != mask.Secret {
		t.Error(got)
	}
	open := e.words(message.Call{ToolCall: &message.ToolCall{Name: "files.read", Args: []byte(`{}`)}})
	if got := open.why(&message.ToolResult{Content: []message.Block{&message.Text{Common: message.Common{Labels: message.Secret}, Text: "x"}}}); got != mask.Secret {
		t.Error(got)
	}
	hidden := message.Common{Labels: message.Secret, Meta: message.Meta{Provider: "p", Fields: []byte(`{}`)}}
	r := &reader{Engine: e}
	m := r.masked(&message.Message{Blocks: []message.Block{
		&message.Text{Common: hidden, Text: "hide me"}, &message.Reasoning{Common: hidden, Text: "hide me"}, &message.Image{Common: hidden, URL: "hide me"},
		&message.File{Common: hidden, Name: "hide me"}, &message.ToolCall{Common: hidden, Name: "x", Args: []byte(`{"hide me":"hide me"}`)},
		&message.ToolCall{Common: hidden, Name: "x", Args: []byte(`hide me`)},
		&message.ToolResult{Common: hidden, Content: []message.Block{&message.Text{Text: "hide me"}}},
		&message.Reasoning{Text: "shown"}, &message.Image{URL: "shown"}, &message.File{Name: "shown"}, &message.ToolCall{Name: "x", Args: []byte(`shown sk-abcdefghijk`)},
	}}, open)
	got := string(message.Append(nil, m))
	if strings.Contains(strings.ReplaceAll(got, `\"hide me\":`, ""), "hide me") || strings.Count(got, "shown") != 4 || strings.Contains(got, "meta") || strings.Contains(got, "sk-abc") {
		t.Error(got)
	}
}

func TestWords(t *testing.T) {
	long := strings.Repeat("word ", 300)
	for _, c := range []struct {
		name string
		log  tool.LogSpec
		args string
		want string
	}{
		{"home.turn_on", tool.LogSpec{}, `{"entity":"light.kitchen"}`, "Home: turn on light.kitchen"},
		{"lookup", tool.LogSpec{}, `{}`, "Lookup"},
		{"a.b", tool.LogSpec{Impact: []string{"x"}}, `{"path":"p","x":"main"}`, "A: b main"},
		{"a.b", tool.LogSpec{}, `{"n":7}`, "A: b 7"},
		{"a.b", tool.LogSpec{}, `{"n":7,"m":8}`, "A: b"},
		{"a.b", tool.LogSpec{Summary: "Set {n} of {m|all} to {list} {o}"}, `{"n":1.50,"list":[1,"two"],"o":{"k":"v"}}`, `Set 1.50 of all to 1, two {"k":"v"}`},
		{"a.b", tool.LogSpec{Summary: "Wait {s:duration}"}, `{"s":600}`, "Wait 10 minutes"},
		{"a.b", tool.LogSpec{Summary: "Wait {s:duration|a while}: {t}"}, `{"s":90061,"t":1}`, "Wait 1 day 1 hour 1 minute 1 second: 1"},
		{"a.b", tool.LogSpec{Summary: "Wait {s:duration|a while}"}, `{}`, "Wait a while"},
		{"a.b", tool.LogSpec{Summary: "Wait {s:duration}"}, `{"s":"soon"}`, "Wait soon"},
		{"a.b", tool.LogSpec{Summary: "Wait {s:duration}"}, `{"s":0}`, "Wait 0"},
		{"a.b", tool.LogSpec{Summary: "Said {text}."}, `{"text":"one\ntwo\u202e\u0007"}`, "Said one two."},
		{"a.b", tool.LogSpec{Summary: "Said {text}"}, `{"text":"` + long + `"}`, "Said " + message.OneLine(long, maxValue)},
		{"a.b", tool.LogSpec{Summary: "Said {text}"}, `no JSON`, "Said"},
		{"a.b", tool.LogSpec{Summary: "Said {text}"}, `["x"]`, "Said"},
	} {
		e := New(nil, func(string) (tool.Spec, bool) { return tool.Spec{Log: c.log}, true }, nil)
		w := e.words(message.Call{ToolCall: &message.ToolCall{Name: c.name, Args: []byte(c.args)}})
		var en Entry
		w.describe(&en)
		if en.Summary != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.args, en.Summary, c.want)
		}
		shown := c.want
		if w.args == nil {
			shown = ""
		}
		if got := e.Summary(message.Call{ToolCall: &message.ToolCall{Name: c.name, Args: []byte(c.args)}}); got != shown {
			t.Errorf("%s %s is shown as %q, want %q", c.name, c.args, got, shown)
		}
	}
	kept := masked(t, tool.LogSpec{Parameters: []string{"text", "list", "none"}}, `{"text":"`+long+`","other":1,"list":["`+long+`"]}`)
	var en Entry
	kept.describe(&en)
	if len(en.Parameters) != 2 || en.Parameters["text"] != message.OneLine(long, maxKept) || en.Parameters["list"] != message.OneLine(long, maxKept) {
		t.Errorf("%+v", en.Parameters)
	}
	short := masked(t, tool.LogSpec{}, `{"text":"`+long+`","other":1}`)
	short.describe(&en)
	if len(en.Parameters) != 1 || en.Parameters["other"] != json.Number("1") {
		t.Errorf("%+v", en.Parameters)
	}
	if got := short.short(strings.Repeat("x", 5000)); got != strings.Repeat("x", maxWhy)+"…" {
		t.Error(got)
	}
	if got := short.short(strings.Repeat("y ", 2000) + strings.Repeat("a", 90) + " sk-abcdefghijklmnopq"); strings.Contains(got, "sk-a") {
		t.Error(got)
	}
}
