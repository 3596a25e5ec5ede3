package crossing

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/server/page"
)

// Requests of the page are made as a browser that is signed in makes them: with the cookie of a session, and from
// the page itself.

func screen(path string) step { return step{method: http.MethodGet, path: path, page: true} }

func act(name, fields string) step { return pagePost("/do/"+name, fields) }

func pagePost(path, body string) step {
	return step{method: http.MethodPost, path: path, body: body, page: true}
}

// follow is the event stream of a page. It is read until something is refused or tells a person's own, or until an
// event contains till.
func follow(query, till string) step {
	return step{method: http.MethodGet, path: "/live?of=" + query, page: true, till: till}
}

// signIn returns the cookie of a new session of a user.
func (w *world) signIn(user string) *http.Cookie {
	w.T.Helper()
	_, secret, _ := strings.Cut(strings.TrimSpace(w.Must("link", "--user", user)), "#")
	res := w.browse(nil, pagePost("/in", `{"link":"`+secret+`"}`))
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
		w.T.Fatalf("%s cannot sign in: %s", user, res.Status)
	}
	return res.Cookies()[0]
}

// browse makes a request as the page does, in a browser with a session or without one.
func (w *world) browse(session *http.Cookie, s step) *http.Response {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), s.method, w.URL+s.path, strings.NewReader(s.body))
	if err != nil {
		w.T.Fatal(err)
	}
	if session != nil {
		r.AddCookie(session)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if s.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", w.URL)
	}
	if s.header[0] != "" {
		r.Header.Set(s.header[0], s.header[1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.T.Fatalf("%s: %v", s, err)
	}
	return res
}

// screened makes a step of the page.
func (w *world) screened(user string, s step, meanwhile func()) (a answer) {
	w.T.Helper()
	res := w.browse(w.sessions[user], s)
	defer res.Body.Close()
	if s.till != "" && res.StatusCode == http.StatusOK {
		return answer{body: w.followed(res.Body, s, meanwhile)}
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	a.body = string(b)
	if res.StatusCode >= 400 {
		a.code = codeOf(a.body, fmt.Sprint("status ", res.StatusCode))
	}
	return a
}

// followed reads a stream.
func (w *world) followed(body io.ReadCloser, s step, meanwhile func()) string {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { body.Close() })()
	var all bytes.Buffer
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		all.Write(append(lines.Bytes(), '\n'))
		so := all.String()
		if lines.Text() != "" { // within an event
			continue
		}
		if strings.Contains(so, "event: failed") || meanwhile == nil && (strings.Contains(so, s.till) || strings.Contains(so, w.canary[ann]) || strings.Contains(so, w.canary[local])) {
			return so
		}
		if meanwhile != nil && strings.Contains(so, s.till) {
			if w.marker == "" || !strings.Contains(so, w.marker) {
				meanwhile()
			}
			meanwhile, s.till = nil, w.marker
		}
	}
	if ctx.Err() != nil {
		w.T.Fatalf("%s: nothing more came after %s", s, cut(all.String()))
	}
	return all.String()
}

// echo is why no leak can be found where a dialog is shown that has nothing but what the request says.
const echo = "the dialog has nothing but what the request says"

// pageRoutes returns the routes of the page, in an order in which ann can call all of them.
func pageRoutes() []entry {
	chat := func(x things) string { return "/chat/" + x.Conv }
	of := func(x things, more string) string {
		return `{"conversation":"` + x.Conv + `"` + more + `}`
	}
	named := func(name, value string, more ...string) string {
		fields := map[string]string{name: value}
		for i := 0; i+1 < len(more); i += 2 {
			fields[more[i]] = more[i+1]
		}
		b, err := json.Marshal(fields)
		if err != nil {
			panic(err) // strings: cannot fail
		}
		return string(b)
	}
	// dialog is an action that asks, and is refused nobody.
	dialog := func(name string) entry {
		return entry{route: "POST /do/" + name, want: own, open: echo, calls: func(x things) []step {
			return []step{act(name, named("id", x.Question, "conversation", x.Conv, "name", x.Job, "kind", "goals"))}
		}}
	}
	// nodes are routes about the node's own settings.
	nodes := func(name, fields string) entry {
		return entry{route: "POST /do/" + name, want: admin, admin: true, open: theNodes, calls: to(act(name, fields))}
	}
	return []entry{
		{route: "GET /{$}", want: own, calls: to(screen("/"))},
		{route: "GET /chat/{conversation}", want: notFound, calls: func(x things) []step {
			return []step{screen(chat(x)), screen(chat(x) + "?at=" + x.Said), screen("/chat/" + x.Waiting), screen("/chat/" + x.Deleted)}
		}},
		{route: "GET /chat/{conversation}/context", want: notFound, calls: func(x things) []step { return []step{screen(chat(x) + "/context")} }},
		{route: "GET /chat/{conversation}/export", want: notFound, calls: func(x things) []step {
			return []step{screen(chat(x) + "/export"), screen(chat(x) + "/export?format=markdown")}
		}},
		{route: "GET /chat/{conversation}/file/{message}/{block}", want: notFound, calls: func(x things) []step { return []step{screen(chat(x) + "/file/" + x.FileMessage + "/1")} }},
		{route: "GET /chat/{conversation}/file/{message}/{block}/{part}", want: notFound, calls: func(x things) []step {
			return []step{screen(chat(x) + "/file/" + x.LogMessage + "/0/0")}
		}},
		{route: "GET /search", want: own, calls: to(screen("/search?q=" + bait))},
		{route: "GET /approvals", want: own, calls: to(screen("/approvals")), shared: to(screen("/approvals"))},
		{route: "GET /plans", want: own, calls: to(screen("/plans"))},
		{route: "GET /plans/{id}", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{screen("/plans/" + x.Plan), screen("/plans/" + x.Turn), screen("/plans/" + x.Task)}
		}},
		{route: "GET /activity", want: own, calls: to(screen("/activity"))},
		{route: "GET /activity/requests/{id}", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{screen("/activity/requests/" + x.Turn), screen("/activity/requests/" + x.Task)}
		}},
		{route: "GET /activity/log", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{screen("/activity/log"), screen("/activity/log?conversation=" + x.Conv)}
		}},
		{route: "GET /activity/decisions", want: own, calls: to(screen("/activity/decisions"), screen("/activity/decisions?state=awaiting_approval"))},
		{route: "GET /activity/usage", want: own, open: "it has sums alone, and package api tests that they are the caller's", calls: to(screen("/activity/usage"), screen("/activity/usage?by=user"))},
		{route: "GET /goals", want: own, calls: to(screen("/goals"))},
		{route: "GET /goals/{kind}/{id}", want: []string{"goal_not_found", "project_not_found"}, calls: func(x things) []step {
			return []step{screen("/goals/goals/" + x.Goal), screen("/goals/projects/" + x.Project)}
		}},
		{route: "GET /jobs", want: own, calls: to(screen("/jobs"))},
		{route: "GET /jobs/{name}", want: []string{"not_found"}, calls: func(x things) []step { return []step{screen("/jobs/" + x.Job)} }},
		{route: "GET /home", want: own, open: noHome, calls: to(screen("/home"))},
		{route: "GET /memory", want: own, calls: to(screen("/memory"), screen("/memory?q="+bait))},
		{route: "GET /memory/facts/{fact}", want: []string{"fact_not_found"}, calls: func(x things) []step { return []step{screen("/memory/facts/" + x.Fact)} }},
		{route: "GET /memory/profile", want: own, calls: to(screen("/memory/profile"))},
		{route: "GET /memory/export", want: own, calls: to(screen("/memory/export"), screen("/memory/export?format=json"))},
		{route: "GET /memory/graph", want: []string{"", "graph_entity_not_found"}, calls: func(x things) []step {
			return []step{screen("/memory/graph"), screen("/memory/graph?of=" + url.QueryEscape(x.Entity))}
		}},
		{route: "GET /memory/graph/export", want: own, calls: to(screen("/memory/graph/export"), screen("/memory/graph/export?format=ntriples"))},
		{route: "GET /documents", want: own, calls: to(screen("/documents"), screen("/documents?q="+bait))},
		{route: "GET /documents/{document}", want: []string{"document_not_found"}, calls: func(x things) []step { return []step{screen("/documents/" + x.Document)} }},
		{route: "GET /settings", want: own, calls: to(screen("/settings"))},
		{route: "GET /settings/models", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/models"))},
		{route: "GET /settings/start", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/start"))},
		{route: "GET /settings/budgets", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/budgets"))},
		{route: "GET /settings/skills", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/skills"))},
		{route: "GET /settings/skills/{name}", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/skills/letters"))},
		{route: "GET /settings/people", want: admin, admin: true, calls: to(screen("/settings/people"))},
		{route: "GET /settings/people/{user}", want: admin, admin: true, calls: to(screen("/settings/people/" + ann))},
		{route: "GET /settings/agents", want: own, open: "the agents are the node's", calls: to(screen("/settings/agents"))},
		{route: "GET /settings/agents/inspect", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/agents/inspect?path=desk"))},
		{route: "GET /settings/channels", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/channels"))},
		{route: "GET /settings/policy", want: own, open: "the policies are the node's, and only administrators are shown their text", calls: to(screen("/settings/policy"))},
		{route: "GET /settings/all", want: admin, admin: true, open: theNodes, calls: to(screen("/settings/all"))},
		{route: "GET /shared/{user}/{secret}", want: []string{"share_ended"}, open: "whoever has the secret may read, and nothing else has it: TestASharedConversation of package page", calls: func(x things) []step {
			return []step{screen("/shared/" + ann + "/" + x.Share), screen("/shared/" + ann + "/sk-steward-" + strings.Repeat("A", 43))}
		}},
		{route: "GET /in", want: own, open: "it explains how to sign in", calls: to(screen("/in"))},
		{route: "POST /in", want: []string{"link_unknown"}, open: "a link is known to nobody but whom it was given", calls: func(x things) []step {
			return []step{pagePost("/in", named("link", x.Session)), pagePost("/in", named("link", x.Key))}
		}},
		{route: "GET /assets/{build}/{name}", want: own, open: "a file of Steward's", calls: to(screen("/assets/x/page.js"))},
		{route: "GET /manifest.webmanifest", want: own, open: "a file of Steward's", calls: to(screen("/manifest.webmanifest"))},

		{route: "GET /live?of=", want: own, open: "it tells how many questions wait for the caller", calls: to(follow("", `"id":"waiting"`))},
		{route: "GET /live?of=chat", want: own, calls: func(x things) []step {
			return []step{follow("chat&cursor=0&conversation="+x.Conv, "event: failed"), follow("chat&cursor=0&conversation="+x.Waiting, "event: failed")}
		}},
		{route: "GET /live?of=chats", want: own, live: true, calls: func(x things) []step { return []step{follow("chats&conversation="+x.Conv, `"id":"conversation-list"`)} }},
		{route: "GET /live?of=approvals", want: own, calls: to(follow("approvals", `"id":"questions"`)), shared: to(follow("approvals", `"id":"questions"`))},
		{route: "GET /live?of=plans", want: own, calls: to(follow("plans", `"id":"open"`)), open: "no work is open in this world; the list is that of GET /plans"},
		{route: "GET /live?of=plan", want: own, calls: func(x things) []step {
			return []step{follow("plan&request="+x.Plan, "event: failed"), follow("plan&request="+x.Turn, "event: failed")}
		}},
		{route: "GET /live?of=jobs", want: own, calls: to(follow("jobs", `"id":"jobs"`))},
		{route: "GET /live?of=job", want: own, calls: func(x things) []step { return []step{follow("job&name="+x.Job, `"id":"job-now"`)} }},
		{route: "GET /live?of=home", want: own, open: noHome, calls: to(follow("home", `"id":"home"`))},
		{route: "GET /live?of=documents", want: own, calls: to(follow("documents", `"id":"documents"`))},

		dialog("rename-ask"), dialog("deny-ask"), dialog("plan-change-ask"), dialog("effort-progress-ask"), dialog("effort-remove-ask"), dialog("task-cancel-ask"),
		dialog("grant-revoke-ask"), dialog("job-ask"), dialog("job-remove-ask"), dialog("document-remove-ask"), dialog("graph-import-ask"),
		{route: "POST /do/intent-ask", want: own, open: echo, calls: func(x things) []step { return []step{act("intent-ask", named("id", x.Intent, "what", "undo"))} }},
		{route: "POST /do/help", want: own, open: "it explains commands", calls: to(act("help", `{}`))},
		{route: "POST /do/pick", want: own, open: "agents and models are the node's", calls: to(act("pick", `{"what":"model"}`), act("pick", `{"what":"agent"}`))},
		{route: "POST /do/withdraw", want: own, open: "only the caller's own messages are looked for", calls: to(act("withdraw", `{"id":"x"}`))},
		{route: "POST /do/language", want: own, open: "a cookie of the browser", calls: to(act("language", `{"value":"de"}`))},
		{route: "POST /do/theme", want: own, open: "a cookie of the browser", calls: to(act("theme", `{"value":"dark"}`))},

		{route: "POST /do/older", want: notFound, calls: func(x things) []step {
			return []step{act("older", of(x, "")), act("older", of(x, `,"before":"`+x.Next+`"`))}
		}},
		{route: "POST /do/share", want: notFound, calls: func(x things) []step { return []step{act("share", of(x, ""))} }},
		{route: "POST /do/delete-conversation-ask", want: notFound, calls: func(x things) []step { return []step{act("delete-conversation-ask", of(x, ""))} }},
		{route: "POST /do/task-messages", want: notFound, calls: func(x things) []step { return []step{act("task-messages", of(x, ""))} }},
		{route: "POST /do/task-edit-ask", want: []string{"task_not_found", "not_found"}, open: noTree, calls: func(x things) []step { return []step{act("task-edit-ask", of(x, `,"id":"`+x.Task+`"`))} }},
		{route: "POST /do/task-edit", want: []string{"task_not_found", "not_found"}, open: noTree, calls: func(x things) []step {
			return []step{act("task-edit", of(x, `,"id":"`+x.Task+`","purpose":"mine"`))}
		}},
		{route: "POST /do/model-call", want: []string{"message_not_found"}, calls: func(x things) []step { return []step{act("model-call", of(x, `,"message":"`+x.Said+`"`))} }},
		{route: "POST /do/call-cost", want: []string{"message_not_found"}, calls: func(x things) []step { return []step{act("call-cost", of(x, `,"call":"`+x.LogMessage+`/0"`))} }},
		{route: "POST /do/message-text", want: []string{"message_not_found"}, calls: func(x things) []step { return []step{act("message-text", of(x, `,"message":"`+x.Said+`"`))} }},
		{route: "POST /do/always", want: []string{"approval_not_found"}, calls: func(x things) []step { return []step{act("always", named("id", x.Question))} },
			shared: func(x things) []step { return []step{act("always", named("id", x.Families))} }},
		{route: "POST /do/edit-arguments", want: []string{"approval_not_found"}, calls: func(x things) []step { return []step{act("edit-arguments", named("id", x.Question))} },
			shared: func(x things) []step { return []step{act("edit-arguments", named("id", x.Families))} }},
		{route: "POST /do/effort-ask", want: []string{"goal_not_found", "project_not_found"}, calls: func(x things) []step {
			return []step{act("effort-ask", named("kind", "goals", "id", x.Goal)), act("effort-ask", named("kind", "projects", "id", x.Project))}
		}},
		{route: "POST /do/grant-edit-ask", want: []string{"grant_not_found"}, calls: func(x things) []step { return []step{act("grant-edit-ask", named("id", x.Grant))} }},
		{route: "POST /do/why", want: []string{"intent_not_found", "admin_only", "request_not_found"}, ruled: true, calls: func(x things) []step {
			return []step{act("why", named("id", x.Intent)), act("why", named("id", x.Done)), act("why", named("id", x.Turn))}
		}},
		{route: "POST /do/job-edit-ask", want: []string{"not_found"}, calls: func(x things) []step { return []step{act("job-edit-ask", named("name", x.Job))} }},
		{route: "POST /do/job-preview", want: []string{"", "not_found"}, open: "it tells when a job begins that the request describes", calls: func(x things) []step {
			return []step{act("job-preview", named("text", "hello", "when", "every day at 8:00")), act("job-preview", named("edit", x.Job, "text", "hello", "before", "x", "when", "every day at 8:00"))}
		}},
		{route: "POST /do/fact-ask", want: []string{"fact_not_found"}, calls: func(x things) []step { return []step{act("fact-ask", named("id", x.Fact))} }},
		{route: "POST /do/fact-forget-ask", want: []string{"fact_not_found"}, calls: func(x things) []step { return []step{act("fact-forget-ask", named("id", x.Fact))} }},
		{route: "POST /do/facts-changed", want: own, calls: to(act("facts-changed", `{}`))},
		{route: "POST /do/documents", want: own, calls: to(act("documents", `{}`))},
		{route: "POST /do/graph-query", want: own, calls: to(act("graph-query", `{"query":"SELECT * { ?s ?p ?o }"}`))},
		{route: "POST /do/heartbeat-ask", want: own, open: ownBeat, calls: to(act("heartbeat-ask", `{}`))},
		{route: "POST /do/heartbeat-off-ask", want: own, open: ownBeat, calls: to(act("heartbeat-off-ask", `{}`))},
		{route: "POST /do/home-do", want: []string{"home_off"}, open: noHome, calls: to(act("home-do", `{"device":"light.hall","action":"turn_on"}`))},
		{route: "POST /do/home-set", want: []string{"home_off"}, open: noHome, calls: to(act("home-set", `{"device":"light.hall","name":"brightness","value":"1"}`))},
		{route: "POST /do/home-mode", want: []string{"home_off"}, open: noHome, calls: to(act("home-mode", `{"device":"climate.hall","value":"heat"}`))},

		{route: "POST /do/change-conversation", want: notFound, calls: func(x things) []step {
			return []step{act("change-conversation", of(x, `,"archived":"true"`)), act("change-conversation", of(x, `,"pinned":"true"`))}
		}},
		{route: "GET /archive", want: own, calls: to(screen("/archive"))},
		{route: "POST /do/rename", want: notFound, calls: func(x things) []step { return []step{act("rename", of(x, `,"title":"taken"`))} }},
		{route: "POST /do/share-new", want: notFound, calls: func(x things) []step { return []step{act("share-new", of(x, `,"within":"24h","private":"yes"`))} }},
		{route: "POST /do/share-end", want: []string{"share_not_found"}, turn: late, calls: func(x things) []step { return []step{act("share-end", of(x, `,"share":"`+x.Share+`"`))} }},
		{route: "POST /do/branch", want: notFound, turn: late, calls: func(x things) []step { return []step{act("branch", of(x, `,"branch":"`+x.Branch+`"`))} }},
		{route: "POST /do/stop", want: notFound, turn: late, calls: func(x things) []step { return []step{act("stop", named("conversation", x.Waiting))} }},
		{route: "POST /do/answer", want: []string{"approval_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("answer", `{"id":"`+x.Intent+`","verdict":"allow",`+x.Seen+`}`), act("answer", `{"id":"`+x.Question+`","verdict":"deny",`+x.Seen+`}`),
				act("answer", `{"id":"`+x.Question+`","verdict":"allow","standing":"always",`+x.Seen+`}`)}
		}, shared: func(x things) []step {
			return []step{act("answer", `{"id":"`+x.Families+`","verdict":"allow",`+x.FamilySeen+`}`)}
		}},
		{route: "POST /do/task-answer", want: []string{"approval_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("task-answer", `{"id":"`+x.Question+`","question":"q","answer":"a",`+x.Seen+`}`)}
		}},
		{route: "POST /do/task-order", want: []string{"request_not_found", "task_not_found"}, turn: late, calls: func(x things) []step {
			var list []step
			for _, order := range []string{"pause", "resume", "retry", "cancel"} {
				list = append(list, act("task-order", named("id", x.Task, "order", order)))
			}
			return list
		}},
		{route: "POST /do/intent-do", want: []string{"intent_not_found"}, turn: late, calls: func(x things) (list []step) {
			for _, what := range []string{"undo", "retry", "cancel", "resolve"} {
				list = append(list, act("intent-do", named("id", x.Done, "what", what, "done", "yes")), act("intent-do", named("id", x.Intent, "what", what, "done", "yes")))
			}
			return list
		}},
		{route: "POST /do/grant-edit", want: []string{"grant_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("grant-edit", named("id", x.Grant, "length", "24h"))}
		}},
		{route: "POST /do/grant-revoke", want: []string{"grant_not_found"}, turn: late, calls: func(x things) []step { return []step{act("grant-revoke", named("id", x.Grant))} }},
		{route: "POST /do/effort-save", want: []string{"goal_not_found", "project_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("effort-save", named("kind", "goals", "id", x.Goal, "title", "taken")), act("effort-save", named("kind", "projects", "title", "mine", "goal", x.Goal))}
		}},
		{route: "POST /do/effort-change", want: []string{"goal_not_found", "project_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("effort-change", named("kind", "goals", "id", x.Goal, "summary", "hello")), act("effort-change", named("kind", "projects", "id", x.Project, "summary", "hello"))}
		}},
		{route: "POST /do/effort-remove", want: []string{"goal_not_found", "project_not_found"}, turn: last, calls: func(x things) []step {
			return []step{act("effort-remove", named("kind", "projects", "id", x.Project)), act("effort-remove", named("kind", "goals", "id", x.Goal))}
		}},
		{route: "POST /do/job-save", want: []string{"not_found"}, turn: late, calls: func(x things) []step { return []step{act("job-save", named("edit", x.Job, "job", `{"retries":1}`))} }},
		{route: "POST /do/job-run", want: []string{"not_found"}, turn: late, calls: func(x things) []step { return []step{act("job-run", named("name", x.Job))} }},
		{route: "POST /do/job-pause", want: []string{"not_found"}, turn: late, calls: func(x things) []step { return []step{act("job-pause", named("name", x.Job))} }},
		{route: "POST /do/job-resume", want: []string{"not_found"}, turn: late, calls: func(x things) []step { return []step{act("job-resume", named("name", x.Job))} }},
		{route: "POST /do/job-remove", want: []string{"not_found"}, turn: last, calls: func(x things) []step { return []step{act("job-remove", named("name", x.Job))} }},
		{route: "POST /do/heartbeat-on", want: own, open: ownBeat, calls: to(act("heartbeat-on", `{"reviews":[]}`))},
		{route: "POST /do/heartbeat-run", want: []string{"heartbeat_off", "job_busy", ""}, open: ownBeat, turn: late, calls: to(act("heartbeat-run", `{"kind":"daily"}`))},
		{route: "POST /do/heartbeat-off", want: own, open: ownBeat, turn: last, calls: to(act("heartbeat-off", `{}`))},
		{route: "POST /do/fact-save", want: []string{"fact_not_found"}, turn: late, calls: func(x things) []step {
			return []step{act("fact-save", named("id", x.Fact, "text", "mine", "type", "fact", "importance", "1"))}
		}},
		{route: "POST /do/fact-trust", want: []string{"fact_not_found"}, turn: late, calls: func(x things) []step { return []step{act("fact-trust", named("id", x.Fact))} }},
		{route: "POST /do/fact-undo", want: []string{"fact_not_found"}, turn: late, calls: func(x things) []step { return []step{act("fact-undo", named("id", x.Fact, "change", x.Fact))} }},
		{route: "POST /do/fact-forget", want: []string{"fact_not_found"}, turn: last, calls: func(x things) []step { return []step{act("fact-forget", named("id", x.Fact, "turns", "yes"))} }},
		{route: "POST /do/profile-save", want: own, turn: late, calls: func(x things) []step {
			return []step{act("profile-save", named("text", "# Who I am\n- mine now ["+x.Fact+"]\n"))}
		}},
		{route: "POST /do/document-remove", want: []string{"document_not_found"}, turn: last, calls: func(x things) []step { return []step{act("document-remove", named("id", x.Document))} }},
		{route: "POST /do/graph-import", want: own, open: "into the caller's own graph", calls: to(act("graph-import", `{"format":"ntriples","text":"<http://a.example/> <http://b.example/> \"c\" ."}`))},
		{route: "POST /import", want: own, open: "what is imported becomes the caller's own, and names no other's", calls: to(pagePost("/import?name=x.json", `[{"role":"user","content":"hello"},{"role":"assistant","content":"hm"}]`))},
		{route: "POST /documents", want: own, open: "into the caller's own documents", calls: to(pagePost("/documents?path=/x.md", "hello"))},
		{route: "POST /do/regenerate", want: notFound, turn: last, calls: func(x things) []step { return []step{act("regenerate", of(x, `,"message":"`+x.Said+`"`))} }},
		{route: "POST /do/send", want: []string{"conversation_not_found"}, turn: last, calls: func(x things) []step {
			return []step{act("send", of(x, `,"text":"go on"`)), act("send", of(x, `,"text":"go on","replace":"`+x.Asked+`"`))}
		}},
		{route: "POST /do/command", want: []string{"conversation_not_found", "message_not_found"}, turn: last, calls: func(x things) []step {
			return []step{act("command", of(x, `,"name":"title","args":"taken"`)), act("command", of(x, `,"name":"compact"`)), act("command", of(x, `,"name":"rewind","args":"`+x.Asked+`"`))}
		}},
		{route: "POST /do/delete-conversation", want: notFound, turn: last, calls: func(x things) []step { return []step{act("delete-conversation", named("conversation", x.Victim))} }},

		nodes("provider-ask", `{"name":"offline"}`), nodes("provider-connect", `{"provider":"openai","key":"sk-0123456789abcdef"}`), nodes("provider-remove-ask", `{"name":"offline"}`), nodes("provider-remove", `{"name":"offline"}`),
		nodes("models-again", `{}`), nodes("model-test", `{"model":"offline/steward"}`), nodes("model-ask", `{}`), nodes("model-use", `{"model":"offline/steward"}`),
		nodes("agent-approve", `{"path":"desk","hash":"x"}`), nodes("agent-refuse-ask", `{"path":"desk"}`), nodes("agent-refuse", `{"path":"desk","verb":"deny"}`),
		nodes("pair-ask", `{}`), nodes("pair", `{"code":"AAAABBBB","user":"ann"}`), nodes("unpair-ask", `{"id":"01234567"}`), nodes("unpair", `{"id":"01234567"}`),
		nodes("policy-ask", `{}`), nodes("policy-try", `{"name":"house.rego","text":"package steward"}`), nodes("policy-save", `{"name":"house.rego","text":"package steward"}`),
		nodes("server-ask", `{}`), nodes("server-add", `{"name":"wiki","url":"https://wiki.example/mcp"}`), nodes("server-remove-ask", `{"name":"wiki"}`), nodes("server-remove", `{"name":"wiki"}`),
		nodes("channel-ask", `{}`), nodes("channel-add", `{"kind":"telegram","token":"0123456789:abcdef"}`), nodes("channel-test", `{"name":"telegram"}`), nodes("channel-remove-ask", `{"name":"telegram"}`), nodes("channel-remove", `{"name":"telegram"}`),
		nodes("channel-guide", `{"kind":"telegram"}`), nodes("server-known-ask", `{"name":"github"}`), nodes("server-known-add", `{"name":"fetch"}`),
		nodes("budget-ask", `{"key":"limits.day_cost"}`), nodes("budget-save", `{"key":"limits.day_cost","value":"1"}`),
		nodes("setting-ask", `{"key":"routing"}`), nodes("setting-save", `{"key":"routing","value":"off"}`), nodes("setting-unset", `{"key":"routing"}`),
		nodes("start-model", `{"model":"offline/steward"}`), nodes("start-connect", `{"provider":"openai","key":"sk-0123456789abcdef"}`), nodes("start-folder", `{"folder":"/tmp/x"}`),
		nodes("sign-in-ask", `{"name":"wiki"}`), nodes("sign-in-begin", `{"name":"wiki"}`), nodes("sign-in-wait", `{"name":"wiki"}`), nodes("sign-in-answer", `{"name":"wiki","address":"http://127.0.0.1/?code=x"}`),
		nodes("skill-ask", `{}`), nodes("skill-find", `{"source":"/tmp/letters"}`), nodes("skill-approve", `{"name":"letters","hash":"x"}`), nodes("skill-remove-ask", `{"name":"letters"}`), nodes("skill-remove", `{"name":"letters"}`),
		{route: "POST /do/user-ask", want: admin, admin: true, calls: to(act("user-ask", `{"user":"ann"}`), act("user-ask", `{}`))},
		{route: "POST /do/user-remove-ask", want: admin, admin: true, open: echo, calls: to(act("user-remove-ask", `{"user":"ann"}`))},
		{route: "POST /do/key-ask", want: admin, admin: true, open: echo, calls: to(act("key-ask", `{"user":"ann"}`))},
		{route: "POST /do/key-revoke-ask", want: admin, admin: true, open: echo, calls: to(act("key-revoke-ask", `{"id":"x"}`))},
		{route: "POST /do/group-ask", want: admin, admin: true, open: echo, calls: to(act("group-ask", `{}`))},
		{route: "POST /do/group-remove-ask", want: admin, admin: true, open: echo, calls: to(act("group-remove-ask", `{"group":"family"}`))},
		{route: "POST /do/invite", want: admin, admin: true, calls: to(act("invite", `{"user":"ann"}`))},
		{route: "POST /do/user-add", want: admin, admin: true, turn: last, calls: to(act("user-add", `{"user":"mallory","role":"admin"}`))},
		{route: "POST /do/user-save", want: admin, admin: true, turn: last, calls: to(act("user-save", `{"user":"bob","role":"admin"}`))},
		{route: "POST /do/key-add", want: admin, admin: true, turn: last, calls: to(act("key-add", `{"user":"ann","name":"mine"}`))},
		{route: "POST /do/key-revoke", want: admin, admin: true, turn: last, calls: func(x things) []step { return []step{act("key-revoke", named("id", x.Key))} }},
		{route: "POST /do/group-add", want: admin, admin: true, turn: last, calls: to(act("group-add", `{"name":"mine"}`))},
		{route: "POST /do/group-join", want: []string{"group_not_found", "admin_only", "group_denied"}, ruled: true, managed: true, calls: to(), shared: to(act("group-join", `{"group":"family","user":"eve"}`))},
		{route: "POST /do/group-leave", want: []string{"group_not_found", "admin_only", "group_denied"}, ruled: true, managed: true, turn: last, calls: to(), shared: to(act("group-leave", `{"group":"family","user":"ann"}`))},
		{route: "POST /do/group-remove", want: []string{"admin_only", "group_not_found"}, admin: true, turn: last, calls: to(act("group-remove", `{"group":"family"}`))},
		{route: "POST /do/session-end", want: []string{"session_not_found", "admin_only"}, ruled: true, turn: last, calls: func(x things) []step {
			return []step{act("session-end", named("id", x.Session)), act("session-end", named("id", x.Session, "user", ann))}
		}},
		{route: "POST /do/sign-out", want: own, turn: last, open: "it ends the session of the cookie", calls: to()},
		{route: "POST /do/user-lock", want: admin, admin: true, turn: last, calls: to(act("user-lock", `{"user":"ann","disabled":"true"}`))},
		{route: "POST /do/user-remove", want: admin, admin: true, turn: last, calls: to(act("user-remove", `{"user":"ann","confirm":"ann"}`))},
	}
}

// public are the routes of the page that need no session.
var public = []string{"GET /shared/{user}/{secret}", "GET /in", "POST /in", "GET /assets/{build}/{name}", "GET /manifest.webmanifest"}

// TestNothingCrossesOnThePage is TestNothingCrosses for the page. Before, somebody who is not signed in makes every
// call, with no cookie, with the cookie of a session that does not exist, and with ann's key, which opens the API
// and not the page.
func TestNothingCrossesOnThePage(t *testing.T) {
	w := newWorld(t)
	hers := w.made(ann)
	w.task = hers.Task
	tab := table{"pageRoutes", pageRoutes(), func(*world) []string { return page.Routes() }, false}
	for _, f := range tab.lacks(tab.serves(w)) {
		t.Error(f)
	}
	each := func(name string, do func(t *testing.T, e entry)) {
		for _, e := range tab.entries {
			t.Run(name+" "+e.route, func(t *testing.T) {
				defer func(t testing.TB) { w.T = t }(w.T)
				w.T = t
				do(t, e)
			})
		}
	}
	stranger := *w.sessions[ann]
	stranger.Value = strings.Repeat("x", len(stranger.Value))
	each("nobody", func(t *testing.T, e entry) {
		if slices.Contains(public, e.route) {
			return
		}
		for _, s := range e.calls(hers) {
			for name, session := range map[string]*http.Cookie{"no cookie": nil, "the cookie of no session": &stranger, "a key": nil} {
				s := s
				if name == "a key" {
					s.header = [2]string{"Authorization", "Bearer " + w.secrets[ann]}
				}
				res := w.browse(session, s)
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s with %s: %s %v", s, name, res.Status, err)
				}
				if strings.Contains(string(b), w.canary[ann]) || strings.Contains(string(b), w.known) {
					t.Errorf("%s with %s: it tells something\n%s", s, name, cut(string(b)))
				}
			}
		}
	})
	each("others", func(t *testing.T, e entry) {
		for _, f := range w.crossed(tab, e, hers) {
			t.Error(f)
		}
	})
	for when := first; when <= last; when++ {
		each("hers", func(t *testing.T, e entry) {
			if e.turn != when || e.open != "" {
				return
			}
			if f := w.unfound(tab, e, hers, hers); f != "" {
				t.Error(f)
			}
		})
	}
}
