package window_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fake is a tool that has only a spec.
type fake struct{ spec tool.Spec }

func (f fake) Spec() tool.Spec { return f.spec }
func (f fake) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, errors.New("not called")
}

// optimizing is a tool with its own optimizer.
type optimizing struct {
	fake
	say func(ctx context.Context, call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error)
}

func (o optimizing) Obsolete(ctx context.Context, call tool.PastCall, earlier []tool.PastCall) ([]tool.Obsolete, error) {
	return o.say(ctx, call, earlier)
}

type tools map[string]tool.Tool

func (ts tools) get(name string) (tool.Tool, bool) { t, ok := ts[name]; return t, ok }

func (ts tools) names() []string {
	var out []string
	for n := range ts {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func tracking(ts tools) *window.Tracker { return window.NewTracker(ts.get, ts.names()...) }

func with(name string, ss ...tool.Strategy) fake { return fake{tool.Spec{Name: name, Tidy: ss}} }

// files are realistic tools: reading, writing, which makes readings obsolete,
// listing, which cascades, and an answer that expires.
func files() tools {
	return tools{
		"files.read": with("files.read", tool.Strategy{Kind: tool.ByParameters, Parameters: []string{"path"}}),
		"files.write": with("files.write",
			tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.read"}, Parameters: []string{"path"}, Cascade: []string{"files.list"}}),
		"files.list":  with("files.list"),
		"files.clear": with("files.clear", tool.Strategy{Kind: tool.ByTool, Tools: []string{"files.read", "files.list", "files.read"}}),
		"weather.now": with("weather.now", tool.Strategy{Kind: tool.ByAge, MaxAge: time.Hour, Cascade: []string{"weather.map"}}),
		"weather.map": with("weather.map"),
		"math.add":    with("math.add"),
	}
}

// branch passes messages to a tracker as a conversation does.
type branch struct {
	*window.Tracker
	n    int64
	at   time.Time
	refs map[message.Ref]string // the test's names of calls
}

func newBranch(t *window.Tracker) *branch {
	return &branch{Tracker: t, at: time.Unix(1_700_000_000, 0).UTC(), refs: map[message.Ref]string{}}
}

type call struct{ name, tool, args string }

// asks adds an assistant message with calls.
func (b *branch) asks(calls ...call) []message.Call {
	b.n++
	m := &message.Message{ID: id.Derive("m", fmt.Sprint(b.n)), Role: message.Assistant, At: b.at, Blocks: []message.Block{&message.Text{Text: "Let me see."}}}
	for _, c := range calls {
		m.Blocks = append(m.Blocks, &message.ToolCall{Name: c.tool, Args: []byte(c.args)})
	}
	out := m.Calls()
	for i, c := range out {
		b.refs[c.Ref] = calls[i].name
	}
	b.Observe(context.Background(), m, b.n)
	return out
}

// gets adds the result of a call and returns the names of the obsolete results.
func (b *branch) gets(c message.Call, status message.Status) string {
	b.n++
	m := &message.Message{ID: id.Derive("m", fmt.Sprint(b.n)), Role: message.Tool, At: b.at, Blocks: []message.Block{
		&message.ToolResult{Call: c.Ref, Name: c.Name, Status: status, Content: []message.Block{&message.Text{Text: "content"}}}}}
	return b.told(b.Observe(context.Background(), m, b.n))
}

func (b *branch) told(os []window.Obsolete) string {
	var out []string
	for _, o := range os {
		out = append(out, b.refs[o.Ref])
	}
	return strings.Join(out, " ")
}

// does adds a call of a tool and its result.
func (b *branch) does(name, tool, args string) string {
	return b.gets(b.asks(call{name, tool, args})[0], message.OK)
}

func (b *branch) ref(name string) message.Ref {
	for r, n := range b.refs {
		if n == name {
			return r
		}
	}
	panic("no call " + name)
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s made obsolete %q, not %q", what, got, want)
	}
}

func TestByParameters(t *testing.T) {
	for _, c := range []struct {
		first, second string
		same          bool
	}{
		{`{"path":"a"}`, `{"path":"a"}`, true},
		{`{"path":"a"}`, `{"path":"b"}`, false},
		{`{"path":"a"}`, ` { "path" : "\u0061" } `, true},
		{`{"path":"a","limit":1}`, `{"limit":2,"path":"a"}`, true}, // limit is not compared
		{`{"path":1}`, `{"path":1.0}`, true},
		{`{"path":100}`, `{"path":1e2}`, true},
		{`{"path":-0}`, `{"path":0}`, true},
		{`{"path":1}`, `{"path":"1"}`, false},
		{`{"path":9007199254740993}`, `{"path":9007199254740992}`, false},
		{`{"path":{"x":1,"y":[1,2.0]}}`, `{"path":{"y":[1.0,2],"x":1}}`, true},
		{`{"path":[1,2]}`, `{"path":[2,1]}`, false},
		{`{}`, `{}`, true},
		{``, `{}`, true},
		{`{}`, `{"limit":3}`, true},
		{`{}`, `{"path":null}`, false},
		{`{}`, `{"path":""}`, false},
		{`{"path":"` + strings.Repeat("x", 100) + `"}`, `{"path":"` + strings.Repeat("x", 100) + `"}`, true},
		{`{"path":"` + strings.Repeat("x", 100) + `"}`, `{"path":"` + strings.Repeat("x", 101) + `"}`, false},
		{`{"path":"a"`, `{"path":"a"`, false}, // malformed arguments match nothing
		{`{"path":"a"}`, `{"path":"a"}x`, false},
		{`{"path":"a"}{}`, `{"path":"a"}{}`, false},
		{`{"path":"a","path":"a"}`, `{"path":"a"}`, false},
		{`["a"]`, `["a"]`, false},
		{`"a"`, `"a"`, false},
		{`{"path":1e999}`, `{"path":1e999}`, false},
		{"{\"path\":\"\xff\"}", "{\"path\":\"\xff\"}", false},
		{`{"path":}`, `{"path":}`, false},
		{`{1:2}`, `{1:2}`, false},
	} {
		b := newBranch(tracking(files()))
		b.does("first", "files.read", c.first)
		if got := b.does("second", "files.read", c.second) == "first"; got != c.same {
			t.Errorf("%.60s and %.60s: the same is %v", c.first, c.second, got)
		}
	}
}

// TestOnlyWhatSucceeded: failed calls neither become obsolete nor make others
// obsolete. The same holds for calls and results that do not match.
func TestOnlyWhatSucceeded(t *testing.T) {
	for _, status := range []message.Status{message.Failed, message.DeniedCall, message.Queued, message.Unavailable, message.UnknownEnd, message.Interrupted} {
		b := newBranch(tracking(files()))
		b.does("good", "files.read", `{"path":"a"}`)
		c := b.asks(call{"bad", "files.read", `{"path":"a"}`})
		want(t, string(status), b.gets(c[0], status), "")
		want(t, "reading after it", b.does("again", "files.read", `{"path":"a"}`), "good")
	}
	b := newBranch(tracking(files()))
	b.does("good", "files.read", `{"path":"a"}`)
	c := b.asks(call{"second", "files.read", `{"path":"a"}`})[0]
	strange := c
	strange.ToolCall = &message.ToolCall{Name: "files.write"}
	want(t, "a result of another name", b.gets(strange, message.OK), "")
	want(t, "the result after it", b.gets(c, message.OK), "")
	c = b.asks(call{"third", "files.read", `{"path":"a"}`})[0]
	want(t, "a result", b.gets(c, message.OK), "good")
	want(t, "the same result again", b.gets(c, message.OK), "")
	open := b.asks(call{"open", "files.read", `{"path":"a"}`})[0]
	b.asks(call{"next", "files.read", `{"path":"b"}`})
	want(t, "a result that comes after the next calls", b.gets(open, message.OK), "")
	b.Observe(t.Context(), &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "x"}}}, 99)
}

// TestParallel: of two reads of the same file in one message, the one whose result
// is recorded later remains valid, in either order.
func TestParallel(t *testing.T) {
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		b := newBranch(tracking(files()))
		cs := b.asks(call{"0", "files.read", `{"path":"a"}`}, call{"1", "files.read", `{"path":"a"}`}, call{"2", "files.read", `{"path":"b"}`})
		want(t, "the first", b.gets(cs[order[0]], message.OK), "")
		want(t, "another file", b.gets(cs[2], message.OK), "")
		want(t, "the second", b.gets(cs[order[1]], message.OK), fmt.Sprint(order[0]))
		want(t, "the next read", b.does("n", "files.read", `{"path":"a"}`), fmt.Sprint(order[1]))
	}
	// A read remains valid if its result is recorded after that of a write.
	b := newBranch(tracking(files()))
	cs := b.asks(call{"r", "files.read", `{"path":"a"}`}, call{"w", "files.write", `{"path":"a"}`})
	want(t, "the write", b.gets(cs[1], message.OK), "")
	want(t, "the read", b.gets(cs[0], message.OK), "")
}

func TestAge(t *testing.T) {
	b := newBranch(tracking(files()))
	b.does("map", "weather.map", `{}`)
	b.does("old", "weather.now", `{"city":"Berlin"}`)
	start := b.at
	want(t, "an hour", b.told(b.Aged(start.Add(time.Hour))), "")
	b.at = start.Add(30 * time.Minute)
	b.does("new", "weather.now", `{"city":"Berlin"}`)
	b.does("map2", "weather.map", `{}`)
	got := b.Aged(start.Add(time.Hour + 1))
	want(t, "more than an hour", b.told(got), "map old") // map2 came after it
	for _, o := range got {
		if o.Call != (message.Ref{}) || o.By != "weather.now" || o.Strategy != "age" {
			t.Errorf("%+v", o)
		}
	}
	want(t, "the same time", b.told(b.Aged(start.Add(time.Hour+1))), "")
	b.Keep(b.ref("old"))
	b.Keep(b.ref("new"))
	want(t, "what a person kept", b.told(b.Aged(start.Add(48*time.Hour))), "")
	b.Keep(b.ref("map"))
	b.at = start.Add(48 * time.Hour)
	b.does("newest", "weather.now", `{}`)
	want(t, "another that is old", b.told(b.Aged(start.Add(50*time.Hour))), "map map2 newest")
	want(t, "nothing to be old", b.told(newBranch(tracking(files())).Aged(start)), "")
}

func TestForgetAndKeep(t *testing.T) {
	b := newBranch(tracking(files()))
	b.does("1", "files.read", `{"path":"a"}`)
	want(t, "2", b.does("2", "files.read", `{"path":"a"}`), "1")
	b.Keep(b.ref("1")) // rolled back: both are valid
	b.Keep(b.ref("2")) // valid anyway
	want(t, "3", b.does("3", "files.read", `{"path":"a"}`), "1 2")
	b.Keep(b.ref("2"))
	b.Forget(b.ref("2"))
	b.Forget(b.ref("3"))
	want(t, "4", b.does("4", "files.read", `{"path":"a"}`), "")
	b.Keep(b.ref("3")) // Keep also restores forgotten results
	want(t, "5", b.does("5", "files.write", `{"path":"a"}`), "3 4")
	c := b.asks(call{"6", "files.read", `{"path":"a"}`})[0]
	b.Forget(c.Ref)
	want(t, "6, forgotten before its result", b.gets(c, message.OK), "")
	want(t, "7", b.does("7", "files.read", `{"path":"a"}`), "")
	b.Keep(message.Ref{})
	b.Forget(message.Ref{})
}

// TestMetLater: the rules of a tool apply after Meet has loaded them. A tool that is
// registered after its first call is loaded at its next call.
func TestMetLater(t *testing.T) {
	ts := tools{"files.read": with("files.read")}
	b := newBranch(tracking(ts))
	b.does("before", "files.read", `{"path":"a"}`)
	want(t, "a tool that is not there", b.does("w", "files.write", `{"path":"a"}`), "")
	ts["files.write"] = files()["files.write"]
	want(t, "the same tool", b.does("w", "files.write", `{"path":"a"}`), "")
	b.does("r", "files.read", `{"path":"a"}`)
	want(t, "the next write", b.does("w", "files.write", `{"path":"a"}`), "r")
}

// TestBounded: the tracker does not store calls that no rule concerns.
func TestBounded(t *testing.T) {
	b := newBranch(tracking(files()))
	for i := range 5000 {
		b.does("r", "files.read", fmt.Sprintf(`{"path":"%d"}`, i%10))
		b.does("m", "math.add", `{"a":1}`)
		b.does("u", "no.such", `{}`)
	}
	if n := b.Len(); n > 10+256+256 {
		t.Errorf("%d calls are remembered", n)
	}
}

func TestReasons(t *testing.T) {
	secret := tool.LogSpec{Secret: []string{"code"}, Impact: []string{"to"}}
	ts := files()
	ts["door.open"] = fake{tool.Spec{Name: "door.open", Log: secret, Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"code", "door", "floor"}}}}}
	for _, c := range []struct{ first, args, second, args2, want string }{
		{"files.read", `{"path":"notes/a.txt"}`, "files.read", `{"path":"notes/a.txt"}`,
			"files.read of notes/a.txt was made obsolete by a later files.read with the same path"},
		{"files.read", `{"path":"notes/a.txt"}`, "files.write", `{"path":"notes/a.txt","content":"secret"}`,
			"files.read of notes/a.txt was made obsolete by a later files.write with the same path"},
		{"files.list", `{}`, "files.clear", `{}`, "files.list was made obsolete by a later files.clear"},
		{"door.open", `{"code":"1234","door":"front"}`, "door.open", `{"code":"1234","door":"front"}`,
			"door.open of front was made obsolete by a later door.open with the same code, door and floor"},
		{"door.open", `{"floor":3,"door":["x"]}`, "door.open", `{"floor":3,"door":["x"]}`,
			"door.open of 3 was made obsolete by a later door.open with the same code, door and floor"},
		{"door.open", `{"to":"Anna","floor":3}`, "door.open", `{"floor":3}`,
			"door.open of Anna was made obsolete by a later door.open with the same code, door and floor"},
		{"files.read", `{"path":"a\nb\u0000\u202ec"}`, "files.read", `{"path":"a\nb\u0000\u202ec"}`,
			"files.read of a b c was made obsolete by a later files.read with the same path"},
		{"files.read", `{"path":"` + strings.Repeat("ä", 90) + `"}`, "files.read", `{"path":"` + strings.Repeat("ä", 90) + `"}`,
			"files.read of " + strings.Repeat("ä", 38) + "… was made obsolete by a later files.read with the same path"},
		{"files.read", `{"path":"` + strings.Repeat("x", 999) + `"}`, "files.read", `{"path":"` + strings.Repeat("x", 999) + `"}`,
			"files.read was made obsolete by a later files.read with the same path"},
		{"files.read", `{"path":"https://me:pw@example.org/x"}`, "files.read", `{"path":"https://me:pw@example.org/x"}`,
			"files.read was made obsolete by a later files.read with the same path"},
	} {
		b := newBranch(tracking(ts))
		b.does("1", c.first, c.args)
		x := b.asks(call{"2", c.second, c.args2})[0]
		m := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: x.Ref, Name: x.Name, Status: message.OK}}}
		got := b.Observe(t.Context(), m, 4)
		if len(got) != 1 || got[0].Reason != c.want {
			t.Errorf("%s %.40s: %+v\nwant %s", c.second, c.args2, got, c.want)
			continue
		}
		o := got[0]
		if o.Tool != c.first || o.By != c.second || o.Call != x.Ref || o.Pos != 2 || o.Message != id.Derive("m", "2") || o.Ref != b.ref("1") {
			t.Errorf("%+v", o)
		}
	}
	// Reasons do not contain arguments labelled secret.
	b := newBranch(tracking(ts))
	m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{
		&message.ToolCall{Common: message.Common{Labels: message.Secret}, Name: "files.read", Args: []byte(`{"path":"a"}`)}}}
	b.Observe(t.Context(), m, 1)
	b.gets(m.Calls()[0], message.OK)
	c := b.asks(call{"2", "files.read", `{"path":"a"}`})[0]
	got := b.Observe(t.Context(), &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 4)
	if len(got) != 1 || !strings.HasPrefix(got[0].Reason, "files.read was made") {
		t.Errorf("%+v", got)
	}
	// The reason of a cascading result names the cause.
	b = newBranch(tracking(ts))
	b.does("l", "files.list", `{}`)
	b.does("r", "files.read", `{"path":"a"}`)
	b.does("m", "weather.map", `{}`)
	b.does("w", "weather.now", `{}`)
	for _, o := range b.Aged(b.at.Add(61 * time.Minute)) {
		if want := map[string]string{"weather.now": "weather.now is older than 1h0m0s",
			"weather.map": "weather.map is no longer valid because weather.now is too old"}[o.Tool]; o.Reason != want {
			t.Errorf("%+v", o)
		}
	}
	c = b.asks(call{"2", "files.write", `{"path":"a"}`})[0]
	got = b.Observe(t.Context(), &message.Message{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Call: c.Ref, Name: c.Name, Status: message.OK}}}, 4)
	if len(got) != 2 || got[0].Reason != "files.list was made obsolete by a later files.write, together with files.read of a" {
		t.Errorf("%+v", got)
	}
}

func TestRelated(t *testing.T) {
	ts := files()
	for _, c := range []struct {
		tools, names []string
		want         string
	}{
		{nil, ts.names(), ""},
		{[]string{"math.add"}, ts.names(), "math.add"},
		{[]string{"files.write"}, ts.names(), "files.list files.read files.write"},
		{[]string{"files.read"}, ts.names(), "files.clear files.read files.write"},
		{[]string{"files.read"}, nil, "files.read"},
		{[]string{"no.such"}, []string{"no.such", "nor.this"}, "no.such"},
	} {
		var got []string
		for n := range window.Related(ts.get, c.tools, c.names...) {
			got = append(got, n)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v", c.tools, got)
		}
	}
}

// TestAgainstModel: for random calls, the tracker finds the same results as a plain
// search of the whole history.
func TestAgainstModel(t *testing.T) {
	type past struct {
		name, path string
		ref        message.Ref
		gone       bool
	}
	rapid.Check(t, func(t *rapid.T) {
		ts := files()
		b := newBranch(tracking(ts))
		var all []*past
		for i := range rapid.IntRange(0, 80).Draw(t, "calls") {
			name := rapid.SampledFrom([]string{"files.read", "files.write", "files.list", "files.clear", "math.add"}).Draw(t, "tool")
			path := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "path")
			if rapid.IntRange(0, 5).Draw(t, "meddle") == 0 && len(all) > 0 {
				p := all[rapid.IntRange(0, len(all)-1).Draw(t, "with")]
				if p.gone = !p.gone; p.gone {
					b.Forget(p.ref)
				} else {
					b.Keep(p.ref)
				}
			}
			var want []string
			fall := func(p *past) { p.gone = true; want = append(want, b.refs[p.ref]) }
			hit := false
			for _, p := range all {
				if !p.gone && (p.name == "files.read" && p.path == path && (name == "files.read" || name == "files.write") ||
					name == "files.clear" && (p.name == "files.read" || p.name == "files.list")) {
					hit = true
				}
			}
			for _, p := range all {
				switch {
				case p.gone:
				case p.name == "files.read" && p.path == path && (name == "files.read" || name == "files.write"),
					name == "files.clear" && (p.name == "files.read" || p.name == "files.list"),
					name == "files.write" && p.name == "files.list" && hit:
					fall(p)
				}
			}
			if got := b.does(fmt.Sprint(i), name, fmt.Sprintf(`{"path":%q}`, path)); got != strings.Join(want, " ") {
				t.Fatalf("call %d of %s made obsolete %q, not %q", i, name, got, want)
			}
			if name == "files.read" || name == "files.list" {
				all = append(all, &past{name: name, path: path, ref: b.ref(fmt.Sprint(i))})
			}
		}
	})
}
