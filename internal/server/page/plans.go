package page

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
)

// Limits of what the screens of plans show.
const (
	plansShown   = 100
	openShown    = 20  // requests that are open, with their trees
	treeNodes    = 500 // of one tree
	messageShown = 100 // of one task
)

// How often the screens of plans look for changes while something is open.
const (
	treeEvery  = time.Second
	plansEvery = 3 * time.Second
)

// plansScreen lists plans that are carried out, other work that goes on, and plans that are over.
func (v *visit) plansScreen() (content, error) {
	running, _, err := v.openWork(v.ctx())
	if err != nil {
		return content{}, err
	}
	limit := v.limit(plansShown)
	over, err := v.api().Plans(v.ctx(), limit)
	if err != nil {
		return content{}, err
	}
	list := P(Class("quiet"), g.Text(v.t("No plan has been carried out yet. Ask for something big, such as a trip or a report, and choose Plan below the message.")))
	if len(over) > 0 {
		list = Ul(Class("list"), g.Map(over, func(p client.Plan) g.Node { return v.planItem(&p) }))
	}
	return content{title: v.t("Plans"), nav: "plans", live: "of=plans", main: Div(head(v.t("Plans")), H2(g.Text(v.t("In progress"))), running, H2(Class("part"), g.Text(v.t("Over"))), list, v.more(len(over), limit))}, nil
}

// openWork shows the requests that are open, with how far their plans are.
func (v *visit) openWork(ctx context.Context) (n g.Node, some bool, err error) {
	open, err := v.api().Requests(ctx, false, false, openShown)
	if err != nil {
		return nil, false, err
	}
	var items []g.Node
	for i := range open {
		r := &open[i]
		if r.Kind != record.RequestTurn && r.Kind != record.RequestTask { // others are below these
			continue
		}
		if tree, err := v.api().Request(ctx, r.ID); err == nil && tree.ID == r.ID {
			r = &tree
		}
		done, all := tasksOf(r)
		icon, class, word := v.stateOf(r)
		items = append(items, Li(ID("open-"+r.ID), Div(Class("row"), v.icon(icon), A(Href("/plans/"+r.ID), ownText(v.requestTitle(r))), Span(Class("space")), Span(Class("state "+class), g.Text(word))),
			g.If(all > 0, g.Group{P(Class("quiet"), g.Text(v.t("{done} of {all} tasks", strconv.Itoa(done), strconv.Itoa(all)))), progressBar(float64(done) / float64(max(all, 1)))}),
			P(Class("quiet"), g.Text(v.t("since")+" "), when(r.Started))))
	}
	if len(items) == 0 {
		return Div(ID("open"), P(Class("quiet"), g.Text(v.t("Nothing is being worked on.")))), false, nil
	}
	return Div(ID("open"), Ul(Class("list"), g.Group(items))), true, nil
}

// tasksOf counts the tasks of plans in a tree.
func tasksOf(r *client.Request) (done, all int) {
	if r.Kind == taskKind {
		all++
		if r.State == requests.Closed {
			done++
		}
	}
	for i := range r.Below {
		d, a := tasksOf(&r.Below[i])
		done, all = done+d, all+a
	}
	return done, all
}

// taskKind is the kind of a request that is a task of a plan.
const taskKind = "plan_task"

func (v *visit) planItem(p *client.Plan) g.Node {
	return Li(Div(Class("row"), A(Href("/plans/"+p.ID), ownText(oneLine(p.Request))), Span(Class("space")), v.outcome(p.Outcome)),
		P(Class("quiet"), when(p.Ended), g.Text(" · "+duration(p.Ended.Sub(p.Started))+" · "+v.t("{n} tokens", count(p.Tokens))),
			g.If(p.Cost > 0, g.Text(" · "+dollars(p.Cost))), g.If(p.Corrections > 0, g.Text(" · "+v.t("rounds of corrections: {n}", strconv.Itoa(p.Corrections))))))
}

func (v *visit) outcome(s string) g.Node {
	_, class, word := v.stateOf(&client.Request{State: requests.Closed, Outcome: s})
	return Span(Class("state "+class), g.Text(word))
}

// planScreen shows a plan, or any other request, with everything that it led to.
func (v *visit) planScreen() (content, error) {
	x, err := v.planView(v.ctx(), v.r.PathValue("id"))
	if err != nil {
		return content{}, err
	}
	c := content{title: x.title, nav: "plans", main: Div(
		head(x.title, A(Class("button"), Href("/activity/requests/"+x.root.ID), g.Text(v.t("What happened"))), A(Class("button"), Href("/chat/"+x.root.Conversation), g.Text(v.t("Conversation")))),
		x.summary, x.questions, H2(g.Text(v.t("Tasks"))), x.tree)}
	if x.open {
		c.live = "of=plan&request=" + x.root.ID
	}
	return c, nil
}

// planView is what the screen of a request shows.
type planView struct {
	root                     client.Request
	plan                     *client.Plan // nil: it is not over, or there is none
	title                    string
	open                     bool
	summary, questions, tree g.Node
	shape                    string            // of the tree: it changes when nodes come or go
	parts                    map[string]string // the HTML of what changes within a shape, by its id
}

// planView asks for a request by its id, or that of a plan.
func (v *visit) planView(ctx context.Context, which string) (*planView, error) {
	x := &planView{parts: map[string]string{}}
	if p, err := v.api().Plan(ctx, which); err == nil {
		x.plan, which = &p, p.Interaction
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	var err error
	if x.root, err = v.api().Request(ctx, which); err != nil {
		return nil, err
	}
	x.open, x.title = x.root.State != requests.Closed, v.requestTitle(&x.root)
	if x.plan == nil && !x.open {
		if over, err := v.api().Plans(ctx, plansShown); err == nil {
			if i := slices.IndexFunc(over, func(p client.Plan) bool { return p.Interaction == x.root.Interaction }); i >= 0 {
				x.plan = &over[i]
			}
		}
	}
	if x.plan != nil {
		x.title = oneLine(x.plan.Request)
	}
	x.summary = v.planSummary(x)
	x.parts["plan-summary"] = text(x.summary)
	list, err := v.Node.Effects.Questions(ctx, v.caller.User)
	if err != nil {
		return nil, err
	}
	convs := conversationsOf(&x.root)
	list = slices.DeleteFunc(list, func(q effect.Question) bool {
		return !slices.ContainsFunc(convs, func(c string) bool { return strings.HasSuffix(q.Conversation, "."+c) })
	})
	x.questions = Div(ID("questions"), g.Map(list, func(q effect.Question) g.Node { return v.question(&q) }))
	x.parts["questions"] = text(x.questions)
	drawing := &treeDrawing{visit: v, view: x, live: x.open}
	x.tree = Ul(ID("tree"), Class("tree"), drawing.item(&x.root, x.root.Conversation), g.If(drawing.nodes > treeNodes, Li(Class("quiet"), g.Text(v.t("The rest is not shown here.")))))
	return x, nil
}

func (v *visit) planSummary(x *planView) g.Node {
	_, class, word := v.stateOf(&x.root)
	fact := func(name string, value g.Node) g.Node { return g.Group{Dt(g.Text(name)), Dd(value)} }
	r := &x.root
	var buttons []g.Node
	if x.open {
		if r.Status == "parked" {
			buttons = append(buttons, v.button("task-order", v.t("Resume"), "primary", "id", r.ID, "order", "resume"))
		}
		buttons = append(buttons, v.button("task-cancel-ask", v.t("Cancel all"), "danger", "id", r.ID, "title", x.title))
	}
	rows := g.Group{fact(v.t("State"), Span(Class("state "+class), g.Text(word))), fact(v.t("Started"), when(r.Started)),
		g.If(!r.Ended.IsZero(), fact(v.t("Ended"), when(r.Ended)))}
	if n := r.Usage.Input + r.Usage.Output; n > 0 {
		used := v.t("{n} tokens", count(n))
		if r.Cost > 0 {
			used += " · " + dollars(r.Cost)
		}
		rows = append(rows, fact(v.t("Used"), g.Text(used)))
	}
	if p := x.plan; p != nil {
		rows = append(rows, fact(v.t("Model calls"), g.Text(strconv.Itoa(p.Iterations))), fact(v.t("Rounds of corrections"), g.Text(strconv.Itoa(p.Corrections))),
			g.If(p.Edited, fact(v.t("Edited"), g.Text(v.t("by a person")))), g.If(p.Fallback, fact(v.t("Planning"), g.Text(v.t("failed: the agent in reserve got the request")))),
			g.If(p.Error != "", fact(v.t("Error"), Code(g.Text(p.Error)))))
	}
	return Div(ID("plan-summary"), Dl(rows), g.If(len(buttons) > 0, Div(Class("row"), g.Group(buttons))))
}

// conversationsOf returns the conversations of a tree.
func conversationsOf(r *client.Request) (out []string) {
	for _, c := range []string{r.Conversation, r.WorkedIn} {
		if c != "" && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for i := range r.Below {
		for _, c := range conversationsOf(&r.Below[i]) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// treeDrawing makes the list of a tree.
type treeDrawing struct {
	*visit
	view  *planView
	live  bool
	nodes int
}

// item shows a request with what is below it. conv is the conversation in which it was made.
func (d *treeDrawing) item(r *client.Request, conv string) g.Node {
	d.nodes++
	conv = cmp.Or(r.Conversation, conv)
	at := nodeID(r)
	node, took := d.taskNode(r, d.taskButtons(r, conv)), d.taskTook(r)
	d.view.parts[at], d.view.parts[at+"-t"] = text(node), text(took)
	d.view.shape += "(" + at
	var below []g.Node
	for i := range r.Below {
		if d.nodes > treeNodes {
			break
		}
		below = append(below, d.item(&r.Below[i], conv))
	}
	d.view.shape += ")"
	return Li(Div(Class("node"), node, took), g.If(len(below) > 0, Ul(g.Group(below))))
}

// taskButtons are what can be done with a request of a tree.
func (d *treeDrawing) taskButtons(r *client.Request, conv string) g.Node {
	var out g.Group
	order := func(name, icon, label string) {
		out = append(out, d.iconButton("task-order", icon, label, "id", r.ID, "order", name))
	}
	if d.live && r.Kind == taskKind {
		switch state := plan.State(r.Status); {
		case state == plan.Paused:
			order("resume", "play", d.t("Resume"))
		case !state.Over():
			order("pause", "pause", d.t("Pause"))
		case state != plan.Done:
			order("retry", "again", d.t("Try again"))
		}
		if s := plan.State(r.Status); s == plan.Pending || s == plan.Paused {
			out = append(out, d.iconButton("task-edit-ask", "edit", d.t("Edit"), "id", r.ID, "conversation", conv))
		}
	}
	if d.live && r.State != requests.Closed && r.ID != "" && r.ID != d.view.root.ID && (r.Kind == taskKind || r.Kind == record.RequestTask) {
		out = append(out, d.iconButton("task-cancel-ask", "no", d.t("Cancel"), "id", r.ID, "title", d.requestTitle(r)))
	}
	if r.WorkedIn != "" {
		out = append(out, d.iconButton("task-messages", "chat", d.t("Messages"), "conversation", r.WorkedIn, "title", d.requestTitle(r)))
	}
	return out
}

// nodeID is the id of the element of a request: in a tree, and in the chat while a plan is carried out.
func nodeID(r *client.Request) string {
	return "plan-" + strings.ReplaceAll(cmp.Or(r.ID, r.Call), "/", "-")
}

// taskNode shows a request on one line. The chat shows the tasks of a running plan with it, too.
func (v *visit) taskNode(r *client.Request, buttons g.Node) g.Node {
	icon, class, word := v.stateOf(r)
	var notes []string
	if r.Agent != "" && r.Agent != "designed" && r.Kind != record.RequestTurn { // most tasks have an agent that was made for them
		notes = append(notes, v.t("Agent")+": "+r.Agent)
	}
	if r.Round > 0 {
		notes = append(notes, v.t("added as a correction"))
	}
	if r.Rounds > 0 {
		notes = append(notes, v.t("rounds of corrections: {n}", strconv.Itoa(r.Rounds)))
	}
	if n := r.Usage.Input + r.Usage.Output; n > 0 {
		s := v.t("{n} tokens", count(n))
		if r.Cost > 0 {
			s += " · " + dollars(r.Cost)
		}
		notes = append(notes, s)
	}
	verdict := r.Verdict
	if r.Message != r.Verdict {
		verdict = strings.TrimSpace(verdict + " " + r.Message)
	}
	return Div(ID(nodeID(r)), Class("planned "+r.Status), Data("state", cmp.Or(r.Status, r.Outcome, r.State)),
		Span(Class("state "+class), v.icon(icon)),
		Div(Class("about"), Span(Class("name"), ownText(v.requestTitle(r))), g.Text(" "), Span(Class("state "+class), g.Text(word)),
			g.If(len(notes) > 0, P(Class("quiet"), g.Text(visible(strings.Join(notes, " · "))))),
			g.If(verdict != "", P(Class("quiet verdict"), ownText(verdict))),
			g.If(r.Error != "", P(Class("quiet"), Code(g.Text(r.Error))))),
		buttons)
}

// taskTook shows how long a request has taken. It changes every second, so it is not a part of its node.
func (v *visit) taskTook(r *client.Request) g.Node {
	s := ""
	if d := r.Took(time.Now()); d >= time.Second {
		s = duration(d)
	}
	return Span(ID(nodeID(r)+"-t"), Class("state took"), g.Text(s))
}

// requestTitle says what a request is.
func (v *visit) requestTitle(r *client.Request) string {
	switch {
	case r.Kind == requestTool && r.Tool == requests.StartTool:
		return v.t("Carry out the plan")
	case r.Title != "":
		return oneLine(r.Title)
	case r.Tool != "":
		return r.Tool
	case r.Agent != "":
		return r.Agent
	}
	return v.t("A request")
}

// requestTool is the kind of a call that was answered directly.
const requestTool = "tool"

// stateOf returns the state of a request: an icon, a class for its colour, and a word.
func (v *visit) stateOf(r *client.Request) (icon, class, word string) {
	s := cmp.Or(r.Status, r.Outcome, r.State)
	if r.Kind != taskKind && r.State == requests.Closed && r.Outcome != "" {
		s = r.Outcome
	}
	if r.Intent == "awaiting_approval" {
		s = r.Intent
	}
	switch s {
	case "pending":
		return "clock", "", v.t("waits")
	case "open", "running", "acknowledged", "accepted", "writing":
		return "spin", "", v.t("running")
	case "judging":
		return "spin", "", v.t("is being checked")
	case "answered":
		if r.State == record.RequestAnswered { // what it led to goes on
			return "spin", "", v.t("running")
		}
		return "done", "good", v.t("done")
	case "done", "ok", "completed", "closed", "success":
		return "done", "good", v.t("done")
	case "paused":
		return "pause", "warn", v.t("paused")
	case "parked":
		return "pause", "warn", v.t("stopped after crashes")
	case "waiting for its model":
		return "clock", "warn", v.t("waits for its model")
	case "skipped":
		return "no", "", v.t("left out")
	case "cancelled", "stopped":
		return "no", "", v.t("cancelled")
	case "awaiting_approval":
		return "hand", "warn", v.t("waits for you")
	case "denied":
		return "no", "bad", v.t("denied")
	case "bound":
		return "warn", "warn", v.t("reached a limit")
	}
	return "fail", "bad", v.t("failed")
}

// plannedTask shows a task of a plan in the chat, while the plan is carried out.
func (v *visit) plannedTask(p *client.Request) g.Node { return v.taskNode(p, nil) }

// livePlans follows the requests that are open, and what they do.
func (v *visit) livePlans() subject {
	return subject{name: "plans", pause: plansEvery, types: anything, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		n, some, err := v.openWork(ctx)
		if err != nil {
			return nil, 0, err
		}
		var again time.Duration
		if some {
			again = plansEvery
		}
		return []patch{put("open", "", n)}, again, nil
	}}
}

// livePlan follows a request until it is closed.
func (v *visit) livePlan() subject {
	which := v.r.URL.Query().Get("request")
	return subject{name: "plan " + which, pause: treeEvery, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		x, err := v.planView(ctx, which)
		if err != nil {
			return nil, 0, err
		}
		tree := put("tree", "", x.tree)
		tree.shape = x.shape
		list := []patch{tree}
		for _, at := range slices.Sorted(maps.Keys(x.parts)) {
			list = append(list, patch{ID: at, HTML: x.parts[at], within: strings.HasPrefix(at, "plan-") && at != "plan-summary"})
		}
		if !x.open {
			return list, 0, nil
		}
		return list, treeEvery, nil
	}}
}

// taskOrder pauses, resumes, retries or cancels.
func (v *visit) taskOrder(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Order string }](in)
	if err != nil {
		return nil, err
	}
	do := map[string]func(context.Context, string, string) error{"pause": v.api().PauseTask, "resume": v.api().ResumeRequest, "retry": v.api().RetryTask, "cancel": v.api().CancelRequest}[x.Order]
	if do == nil {
		return nil, fault.New(fault.Invalid, "fields_invalid", "there is no order %.40q", x.Order)
	}
	return &reply{Patches: []patch{v.closed()}}, do(v.ctx(), x.ID, "")
}

func (v *visit) taskCancelAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Title string }](in)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Cancel?"), Form(Data("do", "task-order"), hiddenFields("id", x.ID, "order", "cancel"),
		P(ownText(x.Title)), P(g.Text(v.t("It and everything below it ends. What has been done stays done."))),
		Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Go on"))), Button(Type("submit"), Class("danger"), g.Text(v.t("Cancel it")))))), nil
}

// taskDraft returns what a task is about.
func (v *visit) taskDraft(which, conv string) (plan.Draft, error) {
	var d plan.Draft
	missing := fault.New(fault.NotFound, "task_not_found", "there is no task %.80q", which).WithHint("load the page again")
	c, ok := id.Parse(conv)
	if !ok {
		return d, missing
	}
	list, err := v.api().Resources(v.ctx(), client.ResourceQuery{Under: record.ConversationURI(c).String(), Type: requests.TypeTask, Bodies: true}, 1000)
	if err != nil {
		return d, err
	}
	at := slices.IndexFunc(list.Resources, func(r client.Resource) bool { return strings.HasSuffix(r.URI, "."+which) })
	if at < 0 {
		return d, missing
	}
	var t plan.Task
	if err := json.Unmarshal(list.Resources[at].Body, &t); err != nil {
		return d, err
	}
	t.Draft.After, t.Draft.Subtasks = nil, nil
	return t.Draft, nil
}

// taskEditAsk lets the person change what a task is about that has not begun.
func (v *visit) taskEditAsk(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Conversation string }](in)
	if err != nil {
		return nil, err
	}
	d, err := v.taskDraft(x.ID, x.Conversation)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Edit the task"), Form(Data("do", "task-edit"), hiddenFields("id", x.ID, "conversation", x.Conversation),
		P(Class("quiet"), ownText(d.Name)),
		Label(g.Text(v.t("What it is for")), Textarea(Name("purpose"), Rows("3"), Required(), AutoFocus(), g.Text(d.Purpose))),
		Label(g.Text(v.t("Instructions")), Textarea(Name("instructions"), Rows("5"), g.Text(d.Instructions))),
		Label(g.Text(v.t("It is done well when")), Textarea(Name("evaluation"), Rows("3"), g.Text(d.Evaluation))),
		Label(g.Text(v.t("Tools (one line each)")), Textarea(Name("tools"), Rows("3"), Class("code"), g.Text(strings.Join(d.Tools, "\n")))),
		v.dialogButtons(v.t("Save")))), nil
}

func (v *visit) taskEdit(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Conversation, Purpose, Instructions, Evaluation, Tools string }](in)
	if err != nil {
		return nil, err
	}
	d, err := v.taskDraft(x.ID, x.Conversation)
	if err != nil {
		return nil, err
	}
	d.Purpose, d.Instructions, d.Evaluation, d.Tools = x.Purpose, x.Instructions, x.Evaluation, strings.Fields(x.Tools)
	return &reply{Patches: []patch{v.closed()}, Toast: v.t("Saved")}, v.api().Call(v.ctx(), "PATCH /requests/{id}", client.Params{"id": x.ID}, d, nil)
}

// taskMessages shows the messages of the conversation in which a task is worked on.
func (v *visit) taskMessages(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Conversation, Title string }](in)
	if err != nil {
		return nil, err
	}
	conv, ok := id.Parse(x.Conversation)
	if !ok {
		return nil, fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %.80q", x.Conversation)
	}
	list, next, err := v.Node.Conversations.Read(v.ctx(), store.ForUser(v.caller.User), conv, conversation.Reading{Limit: messageShown, Reverse: true})
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	return v.dialog(x.Title, Div(Class("wide"), g.If(next != "", P(Class("quiet"), g.Text(v.t("Earlier messages are not shown here.")))), g.Group(v.readOnly(list)), v.closeButton())), nil
}

func (v *visit) closeButton() g.Node {
	return Div(Class("row end"), Button(Type("button"), Data("js", "close"), AutoFocus(), g.Text(v.t("Close"))))
}

// readOnly shows messages without what can be done with them.
func (v *visit) readOnly(list []conversation.Entry) (out []g.Node) {
	results := map[message.Ref]*message.Message{}
	for _, e := range list {
		if r := e.Result(); e.Role == message.Tool && r != nil {
			results[r.Call] = e.Message
		}
	}
	for i := range list {
		if n := v.article(list[i].Message, results, nil); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// taskQuestion is the card of a question that a task of a plan asks.
func (v *visit) taskQuestion(q *effect.Question) g.Node {
	var args struct{ Question, Answer string }
	if err := json.Unmarshal(q.Args, &args); err != nil {
		args.Question = string(q.Args)
	}
	return Div(ID("q-"+q.Short), Class("question"), Role("group"), Aria("label", v.t("Question")),
		P(Class("asks"), v.icon("hand"), ownText(args.Question)),
		P(Class("quiet"), g.Text(v.t("A task of the plan needs your answer.")+" "), g.Text(v.t("Expires")+" "), when(q.Expires)),
		Form(Data("do", "task-answer"), hiddenFields("id", q.ID, "hash", q.Hash, "question", args.Question),
			Label(g.Text(v.t("Your answer")), Textarea(Name("answer"), Rows("2"), MaxLength("4000"), Required(), g.Text(args.Answer))),
			Div(Class("row"), Button(Type("submit"), Class("primary"), g.Text(v.t("Answer"))),
				v.button("deny-ask", v.t("Go on without an answer …"), "", "id", q.ID, "hash", q.Hash))))
}

func (v *visit) taskAnswer(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ ID, Hash, Question, Answer string }](in)
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(map[string]string{"question": x.Question, "answer": x.Answer})
	if err != nil {
		return nil, err
	}
	answer, err := json.Marshal(map[string]string{"id": x.ID, "hash": x.Hash, "verdict": "allow", "args": string(args)})
	if err != nil {
		return nil, err
	}
	out, err := v.answerQuestion(answer)
	if err == nil {
		out.Toast = v.t("Answered")
	}
	return out, err
}

// oneLine is the beginning of a text.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return s
}

// duration shows how long something took.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
