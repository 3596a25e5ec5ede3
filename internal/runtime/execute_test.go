package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/tool"
	"steward/internal/work"
)

// outer is a node whose tools are called from outside.
type outer struct {
	*world
	begun chan struct{} // gets a token when ledger.slow has begun
	goOn  chan struct{} // ledger.slow goes on when it is closed
}

func newOuter(t *testing.T, judge policy.Authorizer) *outer {
	o := &outer{world: made(t, &world{only: true, judge: judge}), begun: make(chan struct{}, 8), goOn: make(chan struct{})}
	o.more = o.tools()
	o.open()
	return o
}

type noted struct {
	What string `json:"what" minlen:"1"`
}

func (o *outer) tools() []tool.Tool {
	made := func(t tool.Tool, err error) tool.Tool {
		ok(o.t, err)
		return t
	}
	note := func(what string) {
		o.ledger.mu.Lock()
		defer o.ledger.mu.Unlock()
		o.ledger.entries = append(o.ledger.entries, what)
	}
	return []tool.Tool{
		made(tool.New(tool.Spec{Name: "math.twice", Description: "Twice a number.", Effect: tool.Query},
			func(_ context.Context, in tool.Invocation, a struct {
				N int `json:"n"`
			}) (string, error) {
				if in.User == "" || !in.Conversation.Zero() {
					return "", errors.New("called for nobody, or in a conversation")
				}
				return fmt.Sprint(2 * a.N), nil
			})),
		made(tool.New(tool.Spec{Name: "text.long", Description: "A long text.", Effect: tool.Query},
			func(context.Context, tool.Invocation, struct{}) (string, error) {
				return strings.Repeat("é", work.MaxExecuted), nil
			})),
		made(tool.New(tool.Spec{Name: "text.wait", Description: "Waits to be stopped.", Effect: tool.Query},
			func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
				o.begun <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			})),
		made(tool.New(tool.Spec{Name: "ledger.add", Description: "Adds to the ledger.", Effect: tool.Action, Async: true},
			func(_ context.Context, _ tool.Invocation, a noted) (string, error) {
				note(a.What)
				return "added " + a.What, nil
			})),
		made(tool.New(tool.Spec{Name: "ledger.slow", Description: "Adds slowly.", Effect: tool.Action},
			func(ctx context.Context, _ tool.Invocation, a noted) (string, error) {
				o.begun <- struct{}{}
				select {
				case <-o.goOn:
				case <-ctx.Done():
					return "", ctx.Err()
				}
				note(a.What)
				return "added " + a.What + " at last", nil
			})),
		made(tool.New(tool.Spec{Name: "ledger.all", Description: "Adds, and tells a lot.", Effect: tool.Action},
			func(context.Context, tool.Invocation, struct{}) (string, error) {
				return strings.Repeat("all ", work.MaxExecuted/4) + "the end", nil
			})),
	}
}

// do calls a tool for anna.
func (o *outer) do(name, args, clientID string) (work.Executed, error) {
	ctx := o.t.Context()
	return o.ExecuteTool(ctx, "anna", work.Execution{Tool: name, Args: []byte(args), ClientID: clientID})
}

// must is do for calls that succeed; it returns "STATUS: TEXT".
func (o *outer) must(name, args, clientID string) string {
	o.t.Helper()
	x, err := o.do(name, args, clientID)
	if err != nil {
		o.t.Fatalf("%s %s: %v", name, args, err)
	}
	how := ""
	if x.Recorded {
		how = "recorded "
	}
	return how + string(x.Result.Status) + ": " + x.Result.Text()
}

func TestExternalQuery(t *testing.T) {
	o := newOuter(t, policy.Fixed{})
	for _, name := range []string{"math.twice", "math__twice"} {
		x, err := o.do(name, `{"n": 21}`, "mine")
		ok(t, err)
		if x.Tool != "math.twice" || x.Result.Text() != "42" || x.Result.Status != message.OK || x.ClientID != "mine" || x.Recorded || x.Cut || x.Request.Zero() {
			t.Errorf("%s: %+v", name, x)
		}
	}
	if x, err := o.do("text.long", "", ""); err != nil || !x.Cut || x.ClientID == "" || x.Result.Rest != "" ||
		len(x.Result.Text()) > work.MaxExecuted+100 || !strings.HasSuffix(x.Result.Text(), "é\n[Cut after 1048576 of 2097152 bytes: ask for less.]") {
		t.Errorf("a long text: %v, cut: %v, %d bytes", err, x.Cut, len(x.Result.Text()))
	}
	if got := o.requests(); len(got) != 0 {
		t.Errorf("queries are recorded: %+v", got)
	}
}

func TestInvalidExternalCalls(t *testing.T) {
	o := newOuter(t, policy.Fixed{})
	for _, c := range []struct {
		e      work.Execution
		code   string
		remedy string
	}{
		{work.Execution{Tool: "math.twise"}, "tool_unknown", "did you mean math.twice?"},
		{work.Execution{Tool: "nothing.like.it"}, "tool_unknown", "ListTools lists what there is"},
		{work.Execution{Tool: ""}, "tool_unknown", "ListTools lists what there is"},
		{work.Execution{Tool: "math.twice", Agent: "nobody/here"}, "agent_not_found", ""},
		{work.Execution{Tool: "math.twice", Args: []byte(`{"n":"x"}`)}, "args_invalid", "fix these and call the tool again"},
		{work.Execution{Tool: "math.twice", Args: []byte(`{"n":1`)}, "args_invalid", ""},
		{work.Execution{Tool: "ledger.add", Args: []byte(`{"what":""}`), ClientID: "x"}, "args_invalid", ""},
		{work.Execution{Tool: "math.twice", ClientID: strings.Repeat("x", 257)}, "call_id_invalid", "use a shorter one, for example a UUID"},
	} {
		_, err := o.ExecuteTool(t.Context(), "anna", c.e)
		if !fault.HasCode(err, c.code) || c.remedy != "" && fault.Of(err).Remedy != c.remedy {
			t.Errorf("%+v: %v", c.e, err)
		}
	}
	if got := o.requests(); len(got) != 0 {
		t.Errorf("what was no call is recorded: %+v", got)
	}
}

func TestExternalActionsThatNeedAPersonAreDenied(t *testing.T) {
	for name, judge := range map[string]policy.Authorizer{"fixed": policy.Fixed{}, "asks": allows{"": policy.Ask}} {
		t.Run(name, func(t *testing.T) {
			o := newOuter(t, judge)
			for _, again := range []string{"", "recorded "} {
				if got := o.must("ledger.add", `{"what":"one"}`, "a"); !strings.HasPrefix(got, again+"denied: ") || !strings.Contains(got, "steward chat") {
					t.Error(got)
				}
			}
			if got := o.requests(); o.ledger.list() != "" || len(got) != 1 || got[0].Outcome != "denied" || got[0].Closed.IsZero() {
				t.Errorf("%q was done; %+v", o.ledger.list(), got)
			}
		})
	}
	o := newOuter(t, allows{"": policy.Ask})
	if got := o.must("math.twice", `{"n":1}`, ""); !strings.HasPrefix(got, "denied: ") || len(o.requests()) != 0 {
		t.Errorf("a query that is asked about: %s", got)
	}
}

// results.read reads the part of an action's result that was cut off.
func TestRestOfAnExternalResult(t *testing.T) {
	o := newOuter(t, allows{})
	x, err := o.do("ledger.all", "", "a")
	if err != nil || !x.Cut || x.Result.Rest == "" {
		t.Fatalf("%v; cut: %v, rest: %q", err, x.Cut, x.Result.Rest)
	}
	args := fmt.Sprintf(`{"uri":%q,"offset":%d}`, x.Result.Rest, work.MaxExecuted)
	if got := o.must("results.read", args, ""); !strings.HasPrefix(got, "ok: the end\n") {
		t.Error(got)
	}
	other, err := o.ExecuteTool(t.Context(), "bert", work.Execution{Tool: "results.read", Args: []byte(args)})
	if err != nil || other.Result.Status != message.Failed {
		t.Errorf("somebody else reads it: %+v, %v", other.Result, err)
	}
	below := record.ConversationURI(id.New()).ChildID(record.TypeRequest, x.Request).Child("tool.Overflow", "0")
	for _, uri := range []resource.URI{record.ConversationURI(id.New()), below, resource.Root("tool.Overflow", "0")} {
		if got := o.must("results.read", fmt.Sprintf(`{"uri":%q}`, uri), ""); !strings.Contains(got, "result_not_found") && !strings.Contains(got, "there is no result") {
			t.Error(got)
		}
	}
}

// outerHook is a hook that is a function.
type outerHook func(tool.HookEvent) tool.HookAnswer

func (f outerHook) Fire(_ context.Context, ev tool.HookEvent) (tool.HookAnswer, error) {
	return f(ev), nil
}

// The hooks of an agent refuse, narrow and withhold calls from outside as they
// do in turns.
func TestExternalCallsOfAnAgent(t *testing.T) {
	guard := &catalog.Agent{Path: "guard", Description: "Guards.", Uses: []string{"ledger.*"},
		Hooks: map[string][]tool.Hook{
			tool.BeforeTool: {outerHook(func(ev tool.HookEvent) tool.HookAnswer {
				switch args := string(ev.Args); {
				case ev.Agent != "guard" || ev.User != "anna" || ev.Tool != "ledger.add" || ev.Request == "":
					return tool.HookAnswer{Refuse: fmt.Sprintf("told wrongly: %+v", ev)}
				case strings.Contains(args, "never"):
					return tool.HookAnswer{Refuse: "never is too long"}
				case strings.Contains(args, "much"):
					return tool.HookAnswer{Args: []byte(`{"what":"little"}`)}
				}
				return tool.HookAnswer{}
			})},
			tool.AfterTool: {outerHook(func(ev tool.HookEvent) tool.HookAnswer {
				text := strings.ReplaceAll(ev.Text, "little", "a little")
				return tool.HookAnswer{Text: &text}
			})}}}
	o, g := newOuter(t, allows{}), &grove{}
	g.plant(guard, agentOf("guard/child"))
	o.opt.Catalog = g
	o.reopen()
	specs, err := o.ToolList(t.Context(), "anna", "guard", "")
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
	}
	if err != nil || !slices.Equal(names, []string{"ledger.add", "ledger.all", "ledger.slow", "results.read"}) {
		t.Errorf("%v, %v", names, err)
	}
	call := func(name, args, id string) string {
		t.Helper()
		x, err := o.ExecuteTool(t.Context(), "anna", work.Execution{Agent: "guard", Tool: name, Args: []byte(args), ClientID: id})
		if err != nil {
			return fault.Of(err).Code
		}
		return fmt.Sprintf("%s %v: %s", x.Result.Status, x.Recorded, x.Result.Text())
	}
	for _, c := range []struct{ name, args, id, want string }{
		{"math.twice", `{"n":1}`, "", "tool_unknown"},
		{"child.ask", `{}`, "", "tool_unknown"},
		{"ledger.add", `{"what":"one"}`, "a", "ok false: added one"},
		{"ledger.add", `{"what":"much"}`, "b", "ok false: added a little"},
		{"ledger.add", `{"what":"much"}`, "b", "ok true: added a little"},
		{"ledger.add", `{"what":"never"}`, "c", "denied false: Denied, nothing was done: a hook of guard refused this: never is too long\nerror_code: hook_refused"},
		{"ledger.add", `{"what":"never"}`, "c", "denied true: Denied, nothing was done."},
	} {
		if got := call(c.name, c.args, c.id); got != c.want {
			t.Errorf("%s %s: %s", c.name, c.args, got)
		}
	}
	if got := o.ledger.list(); got != "one,little" {
		t.Error(got)
	}
	g.plant()
	if got := call("ledger.add", `{"what":"much"}`, "b"); got != "agent_not_found" {
		t.Errorf("of an agent that may not be used any more: %s", got)
	}
}
