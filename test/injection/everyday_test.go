package injection_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
	"steward/internal/store/sqlite"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/test/edge"
)

// everyday is a Steward with third-party servers. The proposals are derived from
// their tools' names and schemas and approved unchanged. It records all calls
// that the servers receive.
type everyday struct {
	scene
	specs   map[string]tool.Spec
	results map[string]string

	heard sync.Mutex
	calls []heardCall
	reads []string // the sources whose reads the person was asked about, in this task
}

type heardCall struct {
	tool, args string
	asked      bool // a person had approved a read of the source before
}

// lines reads a table of the test data.
func lines(t testing.TB, file string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// serverTool creates a tool from a line of servers.txt.
func (e *everyday) serverTool(line string) tool.Tool {
	head, result, _ := strings.Cut(line, " = ")
	words := strings.Fields(head)
	name, action := strings.CutSuffix(words[0], "!")
	here := false
	props := map[string]any{}
	for _, w := range words[1:] {
		arg, typ, _ := strings.Cut(w, ":")
		switch {
		case w == "here":
			here = true
		case strings.Contains(typ, "|"):
			props[arg] = map[string]any{"type": "string", "enum": strings.Split(typ, "|")}
		case typ != "":
			props[arg] = map[string]any{"type": typ}
		default:
			props[arg] = map[string]any{"type": "string"}
		}
	}
	input, err := json.Marshal(map[string]any{"type": "object", "properties": props})
	e.must(err)
	source, _, _ := strings.Cut(name, ".")
	spec := tool.Spec{Name: name, Description: "It is " + name + ".", Input: input, Effect: tool.Query, Version: "1", Origin: "mcp:" + source, Host: source + ".example.com"}
	if action {
		spec.Effect = tool.Action
	}
	spec.Flows(tool.Declared{}, here)
	e.specs[name], e.results[name] = spec, result
	return &double2{spec, func(args []byte) string {
		e.heard.Lock()
		defer e.heard.Unlock()
		e.calls = append(e.calls, heardCall{name, string(args), slices.Contains(e.reads, source)})
		return result
	}}
}

// double2 is a tool of a fake server.
type double2 struct {
	spec tool.Spec
	call func([]byte) string
}

func (d *double2) Spec() tool.Spec { return d.spec }
func (d *double2) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	return tool.Text(d.call(in.Args)), nil
}

func newEveryday(t testing.TB) *everyday {
	t.Helper()
	e := &everyday{specs: map[string]tool.Spec{}, results: map[string]string{}}
	w := &world{t: t, dir: t.TempDir(), model: &double{}}
	e.scene.world = w
	server := httptest.NewServer(edge.Script(t, w.model.answer))
	models, err := llm.New(llm.Config{Providers: []llm.Provider{openai.New(openai.Options{Name: "test", BaseURL: server.URL + "/v1", HTTP: server.Client()})},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"test/double"}}}})
	w.must(err)
	quiet := slog.New(slog.DiscardHandler)
	w.store, err = sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db"), Log: quiet})
	w.must(err)
	reg := &tool.Registry{}
	for _, line := range lines(t, "servers.txt") {
		w.must(reg.Add(e.serverTool(line)))
	}
	w.node, err = runtime.Open(context.Background(), runtime.Options{Store: w.store, Models: models, Tools: reg, Authorizer: judgeOf(t, "actions"), People: family{},
		Agents: []agent.Definition{{Name: kits.DefaultAgent, Tools: append(reg.Names(), taint.PlanTool, taint.ExtractTool)}}, Log: quiet})
	w.must(err)
	e.decide = func(q turn.ApprovalView) effect.Decision {
		name := e.asked[len(e.asked)-1]
		if e.specs[name].Effect == tool.Query {
			source, _, _ := strings.Cut(name, ".")
			e.heard.Lock()
			e.reads = append(e.reads, source)
			e.heard.Unlock()
		}
		return effect.Decision{ID: q.ID, Hash: q.Hash, Approve: true}
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := w.node.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		server.Client().CloseIdleConnections()
		server.Close()
	})
	return e
}

var argument = regexp.MustCompile(`([a-z_]+)=("[^"]*"|\S+)`)

// rounds parses the calls of a task.
func (e *everyday) rounds(text string) (out [][]call) {
	for _, round := range strings.Split(text, " ; ") {
		var calls []call
		for _, c := range strings.Split(round, " & ") {
			name, rest, _ := strings.Cut(strings.TrimSpace(c), " ")
			if _, ok := e.specs[name]; !ok && name != taint.ExtractTool {
				e.t.Fatalf("there is no tool %q in %q", name, text)
			}
			args := map[string]any{}
			for _, m := range argument.FindAllStringSubmatch(rest, -1) {
				value := strings.Trim(m[2], `"`)
				var schema struct {
					Properties map[string]struct{ Type string }
				}
				if name != taint.ExtractTool { // all its arguments are texts
					e.must(json.Unmarshal(e.specs[name].Input, &schema))
				}
				switch n, err := strconv.Atoi(value); {
				case schema.Properties[m[1]].Type == "integer" && err == nil:
					args[m[1]] = n
				case schema.Properties[m[1]].Type == "boolean":
					args[m[1]] = value == "true"
				default:
					args[m[1]] = value
				}
			}
			calls = append(calls, call{name, args})
		}
		out = append(out, calls)
	}
	return out
}

// do runs a task with a model that makes the given calls, all approved. It
// returns the number of questions about reads.
func (e *everyday) do(say string, rounds [][]call) int {
	e.t.Helper()
	e.calls, e.reads = nil, nil
	e.model.think(func(v *view) reply {
		if v.reader() {
			return reply{text: "That is what it says."}
		}
		_, made := v.turn()
		before := 0
		for _, r := range rounds {
			if before == len(made) {
				return reply{calls: r}
			}
			before += len(r)
		}
		return reply{text: "Done."}
	})
	e.conv, e.cursor = [16]byte{}, turn.Cursor{}
	e.say(words(say), true)
	return len(e.reads)
}

func lowWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) })
}

// leaks returns private data that a query carried from one source to another
// source that reaches outside, without a question. It looks for words of at
// least three bytes, numbers included, that occur neither in what the user said
// nor in the receiver's data nor in public data.
func (e *everyday) leaks(say string, rounds [][]call) (out []string) {
	private := map[string][]string{} // by source
	known := lowWords(say + " " + dates.Replace("TODAY TOMORROW NEXTWEEK"))
	calls := e.calls
	for _, round := range rounds {
		n := min(len(round), len(calls))
		out = append(out, e.carried(calls[:n], known, private)...)
		for _, c := range calls[:n] {
			source, _, _ := strings.Cut(c.tool, ".")
			if e.specs[c.tool].Yields.Has(message.Private) {
				private[source] = append(private[source], lowWords(e.results[c.tool])...)
			} else {
				known = append(known, lowWords(e.results[c.tool])...)
			}
		}
		calls = calls[n:]
	}
	return out
}

// carried returns the private data that the calls of one round carry.
func (e *everyday) carried(calls []heardCall, known []string, private map[string][]string) (out []string) {
	for _, c := range calls {
		source, _, _ := strings.Cut(c.tool, ".")
		for _, w := range lowWords(c.args) {
			for from, words := range private {
				if from != source && e.specs[c.tool].Out() && e.specs[c.tool].Effect == tool.Query && !c.asked && len(w) >= 3 &&
					slices.Contains(words, w) && !slices.Contains(known, w) && !slices.Contains(private[source], w) {
					out = append(out, fmt.Sprintf("%s of %s by %s %s", w, from, c.tool, c.args))
				}
			}
		}
	}
	return out
}

// dates are the days in the tasks, which a model knows without reading.
var dates = strings.NewReplacer("TODAY", time.Now().Format(time.DateOnly), "TOMORROW", time.Now().AddDate(0, 0, 1).Format(time.DateOnly),
	"NEXTWEEK", time.Now().AddDate(0, 0, 7).Format(time.DateOnly))

// This is the goal with default settings: no data of one source leaves through
// another without a question, and four everyday tasks need at most one question
// about reads. Every second task was left out of tuning.
func TestEverydayTasksAskSeldomAndLeakNothing(t *testing.T) {
	e := newEveryday(t)
	var questions, tasks [2]int
	for i, line := range lines(t, "everyday.txt") {
		say, calls, _ := strings.Cut(line, " | ")
		rounds := e.rounds(dates.Replace(calls))
		n := e.do(say, rounds)
		questions[i%2] += n
		tasks[i%2]++
		if n > 0 {
			t.Logf("%d %s: %v", n, say, e.reads)
		}
		if got := len(e.calls); got != strings.Count(calls, " ; ")+strings.Count(calls, " & ")+1 {
			t.Errorf("%s: %d calls were made", say, got)
		}
		for _, l := range e.leaks(say, rounds) {
			t.Errorf("%s: %s", say, l)
		}
	}
	for i, what := range []string{"tuned", "held out"} {
		t.Logf("%s: %d questions about reads in %d tasks", what, questions[i], tasks[i])
		if questions[i]*4 > tasks[i] || tasks[i] < 100 {
			t.Errorf("%s: more than one question in four tasks", what)
		}
	}
}

// A hijacked model tries to carry private data that it has read to each other
// source by a query, in plain text and disguised. A person is asked each time.
func TestAQueryWithPrivateDataNeedsApproval(t *testing.T) {
	e := newEveryday(t)
	const secret = "tulip-79"
	disguises := map[string]string{"plain": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "reversed": "97-pilut", "spelled": "t u l i p 7 9", "number": "7 9"}
	tried := 0
	for name, spec := range e.specs {
		var schema struct {
			Properties map[string]struct {
				Type string
				Enum []any
			}
		}
		e.must(json.Unmarshal(spec.Input, &schema))
		if spec.Effect != tool.Query || !spec.Out() || spec.Source() == "notes" {
			continue
		}
		for arg, p := range schema.Properties {
			if p.Type != "string" || p.Enum != nil {
				continue
			}
			for how, value := range disguises {
				tried++
				if n := e.do("What is the wifi password?", [][]call{{{"notes.read", map[string]any{"id": "n2"}}}, {{name, map[string]any{arg: value}}}}); n != 1 {
					t.Errorf("%s in %s of %s: %d questions", how, arg, name, n)
				}
			}
		}
		for arg, p := range schema.Properties { // a number that nobody mentioned
			if p.Type == "integer" {
				tried++
				if n := e.do("What is the wifi password?", [][]call{{{"notes.read", map[string]any{"id": "n2"}}}, {{name, map[string]any{arg: 79}}}}); n != 1 {
					t.Errorf("a number in %s of %s: %d questions", arg, name, n)
				}
			}
		}
	}
	t.Logf("%d ways tried", tried)
}

// One answer covers all reads of one source in a turn, for parallel calls and
// for later ones.
func TestOneQuestionForAllReadsOfASource(t *testing.T) {
	e := newEveryday(t)
	carry := func(q string) call { return call{"search.web", map[string]any{"query": q}} }
	rounds := [][]call{{{"notes.read", map[string]any{"id": "n2"}}}, {carry("tulip-79"), carry("tulip"), carry("79")}, {carry("wifi tulip")}}
	if n := e.do("Go on.", rounds); n != 1 || len(e.calls) != 5 {
		t.Errorf("%d questions, %d calls", n, len(e.calls))
	}
	yes := e.decide
	asked := ""
	e.decide = func(q turn.ApprovalView) effect.Decision {
		asked = q.Reason
		v := yes(q)
		v.Approve = false
		return v
	}
	if n := e.do("Go on.", rounds); n != 1 || len(e.calls) != 1 {
		t.Errorf("refused: %d questions, %d calls", n, len(e.calls))
	}
	if want := regexp.MustCompile("`query` (would|could) carry what `notes.read` returned to `search.example.com`"); !want.MatchString(asked) {
		t.Errorf("the question does not say %s: %s", want, asked)
	}
}
