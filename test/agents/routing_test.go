package agents_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/offline"
	"steward/test/storetest"
)

// leaf is a tool call at the end of a route.
type leaf struct {
	path, tool string
	args       map[string]any
}

func (l leaf) String() string {
	b, err := json.Marshal(l.args)
	if err != nil {
		return err.Error()
	}
	return l.path + ": " + l.tool + string(b)
}

// router routes requests through the levels of agents with the offline model.
type router struct {
	tb    testing.TB
	model llm.Model
	tools map[string]*llm.Toolset
}

func newRouter(tb testing.TB) *router {
	st, clock := storetest.NewModel(), func() time.Time { return now }
	tools := newDesk(tb).tools(tb, tb.TempDir(), jobs.New(jobs.Options{Store: st, Now: clock}), clock)
	c := openCatalog(tb, tb.TempDir(), st, tools.Names)
	p := offline.New(offline.Options{Now: clock})
	return &router{tb, p.Model(offline.ModelName), levels(tb, c.Tree(), tools)}
}

// route returns the tool calls that a text leads to from an agent on, in order,
// and the agent's answer. The called tools do nothing.
func (r *router) route(path, text string) (out []leaf, answer string) {
	r.tb.Helper()
	log := llm.NewTranscript(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: text}}})
	for range 8 {
		reply := r.reply(&llm.Request{System: "You are an agent.\nTime zone: " + zoneName, Tools: r.tools[path], Transcript: log})
		m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: reply.Blocks, Stop: reply.Stop}
		log.Append(m)
		calls := m.Calls()
		if len(calls) == 0 {
			return out, m.Text()
		}
		for _, c := range calls {
			list, result := r.call(path, c)
			out = append(out, list...)
			log.Append(&message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{
				Call: c.Ref, CallID: c.CallID, Name: c.Name, Status: message.OK, Content: []message.Block{&message.Text{Text: result}}}}})
		}
	}
	r.tb.Errorf("%s did not come to an end with %q", path, text)
	return out, ""
}

func (r *router) call(path string, c message.Call) ([]leaf, string) {
	r.tb.Helper()
	args := map[string]any{}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		r.tb.Fatal(err)
	}
	name, ok := strings.CutSuffix(c.Name, ".ask")
	if !ok {
		return []leaf{{path, c.Name, args}}, "Done."
	}
	if path != "" {
		name = path + "/" + name
	}
	request, _ := args["request"].(string)
	list, answer := r.route(name, request)
	return list, answer
}

func (r *router) reply(req *llm.Request) *llm.Reply {
	r.tb.Helper()
	var reply *llm.Reply
	for e, err := range r.model.Stream(context.Background(), req) {
		if err != nil {
			r.tb.Fatal(err)
		}
		if e.Kind == llm.Done {
			reply = e.Reply
		}
	}
	return reply
}

// Sentences are routed from an agent to one tool of an agent below it, with all
// arguments. An uncertain sentence reaches no tool.
func TestSentencesReachTheRightToolBelow(t *testing.T) {
	const pa, re = "personal_assistant", "research"
	r := newRouter(t)
	for _, c := range []struct{ to, say, want string }{
		{pa, `Send an email to ann@example.com with subject "Budget" saying "the report is ready"`,
			pa + `/email: mail.send{"body":"the report is ready","subject":"Budget","to":["ann@example.com"]}`},
		{pa, `Search my mail for the text "Café Molina"`, pa + `/email: mail.search{"text":"Café Molina"}`},
		{pa, `Add the event "yoga class" on Friday at 18:30 for 90 minutes`,
			pa + `/calendar: calendar.add{"duration_minutes":90,"start":"2026-03-06T18:30:00+01:00","title":"yoga class"}`},
		{pa, `Move the event "yoga class" to tomorrow at 7pm`, pa + `/calendar: calendar.move{"event":"yoga class","start":"2026-03-05T19:00:00+01:00"}`},
		{pa, `When am I free on Friday?`, pa + `/calendar: calendar.free{"date":"2026-03-06"}`},
		{pa, `What is in my calendar on March 12?`, pa + `/calendar: calendar.list{"date":"2026-03-12"}`},
		{pa, `Add the task "pay the rent", due April 1`, pa + `/task: todo.add{"due":"2026-04-01","title":"pay the rent"}`},
		{pa, `Complete the task "pay the rent"`, pa + `/task: todo.complete{"task":"pay the rent"}`},
		{pa, `Set a timer for half an hour named "pizza"`, pa + `/timer: timer.set{"name":"pizza","seconds":1800}`},
		{pa, `List my timers`, pa + `/timer: timer.list{}`},
		{pa, `What is the weather in New York?`, pa + `/weather: weather.forecast{"place":"New York"}`},
		{pa, `Cancel the timer "pizza" and add the task "buy flour"`, pa + `/timer: timer.cancel{"which":"pizza"} ` + pa + `/task: todo.add{"title":"buy flour"}`},
		{re, `Search the web for "spring tides"`, re + `/web_search: web.search{"query":"spring tides"}`},
		{re, `Search the files for "spring tides"`, re + `/document_analysis: files.search{"query":"spring tides"}`},
		{"", `What is 15 % of 80 plus 3?`, `: math.evaluate{"expression":"15 % of 80 + 3"}`},
		{pa, `Don't send an email to ann@example.com with subject "x" saying "y"`, ``},
		{pa, `Remind me of what my sister said`, ``},
	} {
		got, answer := r.route(c.to, c.say)
		var leaves []string
		for _, l := range got {
			leaves = append(leaves, l.String())
		}
		if s := strings.Join(leaves, " "); s != c.want {
			t.Errorf("%s\n got  %s\n want %s\n answer %s", c.say, s, c.want, answer)
		}
	}
}
