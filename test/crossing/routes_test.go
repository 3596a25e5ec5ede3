package crossing

import "net/url"

// ownBeat is why no leak can be found where the heartbeat is concerned.
const ownBeat = "the heartbeat is the caller's own, and no request can name another's"

// noHome is why no leak can be found where the home is concerned.
const noHome = "no home is set up here: the home belongs to the machine's own user, and the tests of the API ask who else may see it"

// theNodes is why no leak can be found where settings are concerned.
const theNodes = "the settings are the node's, and secrets in them are masked"

// entry describes the calls to a route for somebody's things and the answers
// that a foreigner must get.
type entry struct {
	route string
	calls func(x things) []step
	// want are the codes with which a foreigner is refused; "" stands for an
	// answer with only the foreigner's own data.
	want []string
	// shared are calls about the family's things. Members get an answer, others
	// are refused like foreigners.
	shared func(x things) []step
	// managed: within the family, only its manager (ann) may make the shared
	// calls.
	managed bool
	// ruled: admins may do it, whoever owns the things.
	ruled bool
	// admin: only admins may do it. Everybody else is refused (want:
	// admin_only), and the admin is not a foreigner.
	admin bool
	// open says why the caller does not matter: the answer contains no user's
	// data.
	open string
	// live: events are reported as they happen.
	live bool
	// turn is when ann makes the calls: those that remove what other calls need
	// come late, those that remove people last.
	turn turn
	// apart: asking changes the foreigner's own data, so the same request again
	// has another answer.
	apart bool
}

// turn is a position in an order.
type turn int

const (
	first turn = iota
	late
	last
)

var (
	notFound = []string{"conversation_not_found"}
	own      = []string{""}
	admin    = []string{"admin_only"}
)

// to returns calls that are the same for everybody's things.
func to(s ...step) func(things) []step { return func(things) []step { return s } }

// apiRoutes returns the routes in an order in which ann can call all of them.
func apiRoutes() []entry {
	const api = "/api/v1"
	conv := func(x things) string { return api + "/conversations/" + x.Conv }
	return []entry{
		{route: "GET /api/v1/conversations", want: own, calls: func(x things) []step {
			return []step{get(api + "/conversations"), get(api + "/conversations?limit=1000"), get(api + "/conversations?after=" + x.Pages)}
		}},
		{route: "GET /api/v1/conversations/{id}", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x)), get(api + "/conversations/" + x.Deleted)}
		}},
		{route: "GET /api/v1/conversations/{id}/messages", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/messages"), get(conv(x) + "/messages?branch=" + x.Branch), get(conv(x) + "/messages?deleted=true&reverse=true"),
				get(conv(x) + "/messages?after=" + x.Next), get(api + "/conversations/" + x.Deleted + "/messages?deleted=true")}
		}},
		{route: "GET /api/v1/conversations/{id}/context", want: notFound, calls: func(x things) []step { return []step{get(conv(x) + "/context")} }},
		{route: "GET /api/v1/conversations/{id}/memory", want: notFound, calls: func(x things) []step { return []step{get(conv(x) + "/memory")} }},
		{route: "GET /api/v1/conversations/{id}/export", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/export"), get(conv(x) + "/export?format=markdown&mask_private=true"), get(conv(x) + "/export?format=anthropic")}
		}},
		{route: "GET /api/v1/conversations/{id}/branches", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/branches"), get(conv(x) + "/branches?deleted=true")}
		}},
		{route: "GET /api/v1/conversations/{id}/messages/{message}/siblings", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/messages/" + x.Said + "/siblings")}
		}},
		{route: "GET /api/v1/conversations/{id}/messages/{message}/model-call", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/messages/" + x.Said + "/model-call")}
		}},
		{route: "GET /api/v1/conversations/{id}/interactions/{interaction}", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/interactions/" + x.Turn)}
		}},
		{route: "GET /api/v1/conversations/{id}/changes", want: notFound, calls: func(x things) []step {
			return []step{get(conv(x) + "/changes"), get(conv(x) + "/changes?interaction=" + x.Turn)}
		}},
		{route: "GET /api/v1/messages", want: own, calls: func(x things) []step {
			return []step{get(api + "/messages?call=" + x.CallID)}
		}},
		{route: "GET /api/v1/search", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/search?q=" + bait + "&around=5&limit=100"), get(api + "/search?q=" + bait + "&conversation=" + x.Conv),
				get(api + "/search?q=" + bait + "+OR+you&role=assistant")}
		}},
		{route: "GET /api/v1/log", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/log"), get(api + "/log?branches=all&tool=*"), get(api + "/log?conversation=" + x.Conv), get(api + "/log?interaction=" + x.Turn)}
		}},
		{route: "GET /api/v1/log/{message}/{block}", want: []string{"call_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/log/" + x.LogMessage + "/0")}
		}},
		{route: "GET /api/v1/usage", want: own, open: "it has sums alone; package api tests that they are those of the caller's model calls", calls: to(get(api+"/usage"), get(api+"/usage?by=agent"), get(api+"/usage?by=model"), get(api+"/usage?by=user"))},
		{route: "GET /api/v1/requests", want: own, calls: to(get(api+"/requests"), get(api+"/requests?all=true&limit=1000"))},
		{route: "GET /api/v1/requests/{id}", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/requests/" + x.Task), get(api + "/requests/" + x.Turn), get(api + "/requests/" + x.Task[:13])}
		}},
		{route: "GET /api/v1/plans", want: own, calls: to(get(api + "/plans"))},
		{route: "GET /api/v1/plans/{id}", want: []string{"plan_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/plans/" + x.Plan), get(api + "/plans/" + x.Plan[:13])}
		}},
		{route: "GET /api/v1/jobs", want: own, calls: to(get(api + "/jobs"))},
		{route: "GET /api/v1/jobs/{name}", want: []string{"not_found"}, calls: func(x things) []step { return []step{get(api + "/jobs/" + x.Job)} }},
		{route: "GET /api/v1/jobs/{name}/history", want: []string{"not_found"}, calls: func(x things) []step { return []step{get(api + "/jobs/" + x.Job + "/history")} }},
		{route: "POST /api/v1/jobs/preview", want: own, calls: to(post(api+"/jobs/preview", `{"text":"hello","once":"2037-01-02T10:00:00Z"}`)), open: "what is described is the body alone, and nothing of it is kept"},
		{route: "GET /api/v1/heartbeat", want: own, calls: to(get(api + "/heartbeat")), open: ownBeat},
		{route: "GET /api/v1/home", want: []string{"home_off"}, calls: to(get(api + "/home")), open: noHome},
		{route: "POST /api/v1/home/control", want: []string{"home_off"}, calls: to(post(api+"/home/control", `{"device":"light.hall","action":"turn_on"}`)), open: noHome},
		{route: "GET /api/v1/documents", want: own, calls: to(get(api + "/documents"))},
		{route: "GET /api/v1/documents/search", want: own, calls: to(get(api + "/documents/search?limit=50&q=" + bait))},
		{route: "GET /api/v1/documents/{id}", want: []string{"document_not_found"}, calls: func(x things) []step { return []step{get(api + "/documents/" + x.Document)} }},
		{route: "GET /api/v1/goals", want: own, calls: to(get(api + "/goals"))},
		{route: "GET /api/v1/goals/changes", want: own, calls: to(get(api + "/goals/changes"))},
		{route: "GET /api/v1/goals/{id}", want: []string{"goal_not_found"}, calls: func(x things) []step { return []step{get(api + "/goals/" + x.Goal)} }},
		{route: "GET /api/v1/memory/facts", want: own, calls: to(get(api+"/memory/facts"), get(api+"/memory/facts?all=true&query="+bait))},
		{route: "GET /api/v1/memory/facts/{id}", want: []string{"fact_not_found"}, calls: func(x things) []step { return []step{get(api + "/memory/facts/" + x.Fact)} }},
		{route: "GET /api/v1/memory/profile", want: own, calls: to(get(api + "/memory/profile"))},
		{route: "GET /api/v1/graph/neighbours", want: []string{"graph_entity_not_found"}, calls: func(x things) []step { return []step{get(api + "/graph/neighbours?of=" + x.Entity)} }},
		{route: "GET /api/v1/graph/documents", want: own, calls: func(x things) []step {
			return []step{get(api + "/graph/documents"), get(api + "/graph/documents?source=" + x.Entity)}
		}},
		{route: "POST /api/v1/graph/query", want: own, calls: to(post(api+"/graph/query", `{"query":"SELECT * { ?s ?p ?o }"}`))},
		{route: "POST /api/v1/graph/triples", want: own, calls: func(x things) []step {
			return []step{post(api+"/graph/triples", `{"subject":"hello","predicate":"knows","object":"world","source":"`+x.Entity+`"}`)}
		}},
		{route: "POST /api/v1/graph/documents", want: own, calls: func(x things) []step {
			return []step{post(api+"/graph/documents", `{"format":"ntriples","source":"`+x.Entity+`","text":"<http://a.example/> <http://b.example/> \"c\" ."}`)}
		}},
		{route: "DELETE /api/v1/graph/triples", want: own, turn: last, calls: func(x things) []step { return []step{del(api + "/graph/triples?source=" + x.Entity)} }},
		{route: "GET /api/v1/projects", want: own, calls: to(get(api + "/projects"))},
		{route: "GET /api/v1/projects/{id}", want: []string{"project_not_found"}, calls: func(x things) []step { return []step{get(api + "/projects/" + x.Project)} }},
		{route: "GET /api/v1/profile", want: own, calls: to(get(api + "/profile"))},
		{route: "GET /api/v1/personas", want: own, calls: to(get(api + "/personas"))},
		{route: "GET /api/v1/models", want: own, calls: to(get(api + "/models")), open: "the models are the node's"},
		{route: "GET /api/v1/agents", want: own, calls: to(get(api + "/agents")), open: "the agents are the node's"},
		{route: "GET /api/v1/resources", want: []string{"", "space_denied", "not_found"}, calls: func(x things) []step {
			return []step{get(api + "/resources?bodies=true&limit=1000"), get(api + "/resources?bodies=true&space=user:" + ann), get(api + "/resources?bodies=true&under=cld:identity.User." + ann),
				get(api + "/resources?type=common.Conversation&bodies=true"), get(api + "/resources?type=home.Note"), get(api + "/resources?under=cld:common.Conversation." + x.Conv + "&bodies=true"),
				get(api + "/resources?type=identity.Key&bodies=true"), get(api + "/resources?space=system&bodies=true&limit=1000"), get(api + "/resources?state=awaiting_approval&bodies=true")}
		}, shared: func(x things) []step {
			return []step{get(api + "/resources?bodies=true&space=group:" + family), get(api + "/resources?bodies=true&under=cld:identity.Group." + family)}
		}},
		{route: "GET /api/v1/resources/item", want: []string{"not_found"}, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, get(api+"/resources/item?uri="+u), get(api+"/resources/item?version=1&uri="+u))
			}
			return list
		}, shared: func(x things) []step { return []step{get(api + "/resources/item?uri=" + x.Shared)} }},
		{route: "GET /api/v1/resources/history", want: []string{"not_found", ""}, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, get(api+"/resources/history?uri="+u))
			}
			return list
		}, shared: func(x things) []step { return []step{get(api + "/resources/history?uri=" + x.Shared)} }},
		{route: "GET /api/v1/resources/parents", want: []string{"not_found", ""}, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, get(api+"/resources/parents?uri="+u+"/home.Note.below"))
			}
			return list
		}, shared: func(x things) []step {
			return []step{get(api + "/resources/parents?uri=" + x.Shared + "/home.Note.below")}
		}},
		{route: "GET /api/v1/groups", want: own, ruled: true, calls: to(), shared: func(things) []step { return []step{get(api + "/groups")} }},
		{route: "GET /api/v1/groups/{group}", want: []string{"group_not_found"}, ruled: true, calls: to(), shared: func(things) []step { return []step{get(api + "/groups/" + family)} }},
		{route: "GET /api/v1/approvals", want: own, calls: to(get(api + "/approvals")), shared: to(get(api + "/approvals"))},
		{route: "GET /api/v1/approvals/{id}", want: []string{"approval_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/approvals/" + x.Intent), get(api + "/approvals/" + url.PathEscape(x.Question))}
		}, shared: func(x things) []step { return []step{get(api + "/approvals/" + url.PathEscape(x.Families))} }},
		{route: "GET /api/v1/grants", want: own, calls: to(get(api+"/grants"), get(api+"/grants?all=true"))},
		{route: "GET /api/v1/grants/{id}", want: []string{"grant_not_found"}, calls: func(x things) []step { return []step{get(api + "/grants/" + x.Grant)} }},
		{route: "POST /api/v1/grants/{id}/preview", want: []string{"grant_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/grants/"+x.Grant+"/preview", `{"until":"never"}`)}
		}},
		{route: "GET /api/v1/intents", want: own, calls: func(x things) []step {
			return []step{get(api + "/intents"), get(api + "/intents?state=awaiting_approval"), get(api + "/intents?dead=true"), get(api + "/intents?conversation=" + x.Conv)}
		}},
		{route: "GET /api/v1/intents/{id}", want: []string{"intent_not_found"}, calls: func(x things) []step {
			return []step{get(api + "/intents/" + x.Intent), get(api + "/intents/" + url.PathEscape(x.Question)), get(api + "/intents/" + x.Done)}
		}},
		{route: "GET /api/v1/audit/head", want: own, calls: to(get(api + "/audit/head")), open: "a hash of everything tells of nothing"},
		{route: "GET /api/v1/audit/verify", want: own, calls: to(get(api + "/audit/verify")), open: "it says whether the log is whole"},
		{route: "GET /api/v1/audit/export", want: own, ruled: true, calls: to(get(api + "/audit/export"))},
		{route: "GET /api/v1/route", want: own, open: figures, calls: to(get(api + "/route"))},
		{route: "POST /api/v1/route", want: own, open: figures, calls: to(post(api+"/route", `{"text":"`+bait+`"}`))},
		{route: "GET /api/v1/policy", want: own, calls: to(get(api + "/policy")), open: "the policies are the node's"},
		{route: "POST /api/v1/policy/explain", ruled: true, want: []string{"intent_not_found", "admin_only"}, calls: func(x things) []step {
			return []step{post(api+"/policy/explain", `{"request":"`+x.Intent+`"}`), post(api+"/policy/explain", `{"request":"`+x.Done+`"}`), post(api+"/policy/explain", `{"request":"`+x.Turn+`"}`),
				post(api+"/policy/explain", `{"user":"`+ann+`","tool":"math.add","args":{"a":1,"b":1}}`)}
		}},
		{route: "GET /api/v1/channels", want: admin, admin: true, calls: to(get(api + "/channels"))},
		{route: "GET /api/v1/channels/people", want: admin, admin: true, calls: to(get(api + "/channels/people"))},
		{route: "POST /api/v1/channels/people", want: admin, admin: true, calls: to(post(api+"/channels/people", `{"code":"AAAABBBB","user":"ann"}`)), open: "nobody has a code"},
		{route: "DELETE /api/v1/channels/people/{id}", want: admin, admin: true, calls: to(del(api + "/channels/people/01234567")), open: "nobody is paired"},
		{route: "GET /api/v1/channels/inbox", want: own, calls: to(get(api+"/channels/inbox"), get(api+"/channels/inbox?all=true")), open: "no messenger is set up in this world; package messaging tests that everybody is told of their own messages alone"},
		{route: "GET /api/v1/channels/outbox", want: own, calls: to(get(api+"/channels/outbox"), get(api+"/channels/outbox?all=true")), open: "as for the inbox"},
		{route: "GET /api/v1/settings", want: admin, admin: true, calls: to(get(api + "/settings")), open: theNodes},
		{route: "PUT /api/v1/settings/{key}", want: admin, admin: true, calls: to(put(api+"/settings/limits.calls", `{"value":"64"}`)), open: theNodes},
		{route: "DELETE /api/v1/settings/{key}", want: admin, admin: true, calls: to(del(api + "/settings/limits.calls")), open: theNodes},
		{route: "GET /api/v1/budgets", want: own, open: "it has sums alone; package app tests that they are the caller's unless an admin asks", calls: to(get(api + "/budgets"))},
		{route: "GET /api/v1/log-level", want: admin, admin: true, calls: to(get(api + "/log-level")), open: theNodes},
		{route: "PUT /api/v1/log-level", want: admin, admin: true, calls: to(put(api+"/log-level", `{"level":"info"}`)), open: theNodes},
		{route: "POST /api/v1/channels", want: admin, admin: true, calls: to(post(api+"/channels", `{"kind":"telegram","token":"0123456789:abcdef"}`)), open: theNodes},
		{route: "POST /api/v1/channels/{name}/test", want: admin, admin: true, calls: to(post(api+"/channels/telegram/test", "")), open: theNodes},
		{route: "DELETE /api/v1/channels/{name}", want: admin, admin: true, calls: to(del(api + "/channels/telegram")), open: theNodes},
		{route: "GET /api/v1/mcp/servers", want: admin, admin: true, calls: to(get(api + "/mcp/servers")), open: theNodes},
		{route: "POST /api/v1/mcp/servers/{name}/signin", want: admin, admin: true, calls: to(post(api+"/mcp/servers/wiki/signin", `{}`)), open: theNodes},
		{route: "GET /api/v1/mcp/servers/{name}/signin", want: admin, admin: true, calls: to(get(api + "/mcp/servers/wiki/signin")), open: theNodes},
		{route: "PUT /api/v1/mcp/servers/{name}/signin", want: admin, admin: true, calls: to(put(api+"/mcp/servers/wiki/signin", `{"address":"http://127.0.0.1/?state=x&code=y"}`)), open: theNodes},
		{route: "GET /api/v1/skills", want: admin, admin: true, calls: to(get(api + "/skills")), open: theNodes},
		{route: "POST /api/v1/skills", want: admin, admin: true, calls: to(post(api+"/skills", `{"source":"/nowhere","name":"x","hash":"x"}`)), open: theNodes},
		{route: "POST /api/v1/skills/find", want: admin, admin: true, calls: to(post(api+"/skills/find", `{"source":"/nowhere"}`)), open: theNodes},
		{route: "GET /api/v1/skills/{name}", want: admin, admin: true, calls: to(get(api + "/skills/x")), open: theNodes},
		{route: "DELETE /api/v1/skills/{name}", want: admin, admin: true, calls: to(del(api + "/skills/x")), open: theNodes},
		{route: "POST /api/v1/mcp/servers", want: admin, admin: true, calls: to(post(api+"/mcp/servers", `{"name":"wiki","url":"https://wiki.example/mcp"}`)), open: theNodes},
		{route: "DELETE /api/v1/mcp/servers/{name}", want: admin, admin: true, calls: to(del(api + "/mcp/servers/wiki")), open: theNodes},
		{route: "POST /api/v1/policy/try", want: admin, admin: true, calls: to(post(api+"/policy/try", `{"name":"house.rego","text":"package steward"}`)), open: "the recorded actions are the caller's own"},
		{route: "PUT /api/v1/policy/file", want: admin, admin: true, calls: to(put(api+"/policy/file", `{"name":"house.rego","text":"package steward"}`)), open: theNodes},
		{route: "GET /api/v1/providers", want: admin, admin: true, calls: to(get(api + "/providers")), open: theNodes},
		{route: "POST /api/v1/providers", want: admin, admin: true, calls: to(post(api+"/providers", `{"provider":"openai","key":"sk-0123456789abcdef"}`)), open: theNodes},
		{route: "DELETE /api/v1/providers/{name}", want: admin, admin: true, calls: to(del(api + "/providers/offline")), open: theNodes},
		{route: "POST /api/v1/models/test", want: admin, admin: true, calls: to(post(api+"/models/test", `{"model":"offline/steward"}`)), open: theNodes},
		{route: "POST /api/v1/models/find", want: admin, admin: true, calls: to(post(api+"/models/find", "")), open: theNodes},
		{route: "PUT /api/v1/models/default", want: admin, admin: true, calls: to(put(api+"/models/default", `{"model":"offline/steward"}`)), open: theNodes},
		{route: "GET /api/v1/cluster", want: admin, admin: true, calls: to(get(api + "/cluster")), open: theNodes},
		{route: "GET /api/v1/backups", want: admin, admin: true, calls: to(get(api + "/backups")), open: theNodes},
		{route: "POST /api/v1/backups", want: admin, admin: true, calls: to(post(api+"/backups", "{}")), open: theNodes},
		{route: "GET /api/v1/users", want: admin, admin: true, calls: to(get(api + "/users"))},
		{route: "GET /api/v1/users/{user}", want: admin, admin: true, calls: to(get(api + "/users/" + ann))},
		{route: "GET /api/v1/sessions", want: []string{"", "admin_only"}, calls: to(get(api+"/sessions"), get(api+"/sessions?user="+ann)), open: "it has the names of browsers"},
		{route: "GET /api/v1/keys", want: admin, admin: true, calls: to(get(api+"/keys"), get(api+"/keys?user="+ann))},
		{route: "POST /api/v1/agents/inspect", want: admin, admin: true, calls: to(post(api+"/agents/inspect", `{"path":"desk"}`)), open: "the agents are the node's"},

		{route: "PATCH /api/v1/conversations/{id}", want: notFound, calls: func(x things) []step {
			return []step{patch(conv(x), `{"title":"taken"}`)}
		}},
		{route: "GET /api/v1/conversations/{id}/shares", want: notFound, calls: func(x things) []step { return []step{get(conv(x) + "/shares")} }},
		{route: "POST /api/v1/conversations/{id}/shares", want: notFound, calls: func(x things) []step { return []step{post(conv(x)+"/shares", `{"within":"24h"}`)} }},
		{route: "DELETE /api/v1/shares/{id}", want: []string{"share_not_found"}, turn: late, calls: func(x things) []step { return []step{del(api + "/shares/" + x.Share)} }},
		{route: "POST /api/v1/conversations/{id}/branches", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/branches", `{"message":"`+x.Asked+`","title":"taken"}`)}
		}},
		{route: "PATCH /api/v1/conversations/{id}/branches/{branch}", want: notFound, calls: func(x things) []step {
			return []step{patch(conv(x)+"/branches/"+x.Branch, `{"title":"taken"}`), patch(conv(x)+"/branches/main", `{"preferred":true,"title":"taken"}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/branches/{branch}/copy", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/branches/main/copy", ""), post(conv(x)+"/branches/"+x.Branch+"/copy", "")}
		}},
		{route: "POST /api/v1/conversations/{id}/messages/insert", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/messages/insert", `{"after":"`+x.Asked+`","text":"slipped in"}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/messages/mark", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/messages/mark", `{"messages":["`+x.Asked+`"],"state":"invalidated","reason":"because"}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/messages/trust", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/messages/trust", `{"messages":["`+x.Asked+`"]}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/messages/pin", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/messages/pin", `{"messages":["`+x.Asked+`"]}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/messages/remove", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/messages/remove", `{"messages":["`+x.Asked+`"]}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/interactions/{interaction}/merge", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/interactions/"+x.Turn+"/merge", `{"from":"`+x.Second+`"}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/interactions/{interaction}/rollback", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/interactions/"+x.Wrote+"/rollback", `{}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/tidy", want: notFound, calls: func(x things) []step {
			return []step{post(conv(x)+"/tidy", `{"how":"optimize"}`), post(conv(x)+"/tidy", `{"how":"compact"}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/rewind", want: []string{"conversation_not_found", "message_not_found"}, calls: func(x things) []step {
			return []step{post(conv(x)+"/rewind", `{"message":"`+x.Asked+`"}`), post(conv(x)+"/rewind", `{"message":"`+x.Asked+`","withdraw":true}`)}
		}},
		{route: "POST /api/v1/conversations/{id}/undelete", want: notFound, calls: func(x things) []step {
			return []step{post(api+"/conversations/"+x.Deleted+"/undelete", `{}`), post(conv(x)+"/undelete", `{"branch":"`+x.Branch+`"}`)}
		}},
		{route: "POST /api/v1/import", want: own, calls: to(post(api+"/import?name=x.json", `[{"role":"user","content":"hello"},{"role":"assistant","content":"hm"}]`)), // only into the caller's own space
			open: "what is imported becomes the caller's own, and names no other's"},
		{route: "POST /api/v1/convert", want: own, calls: to(post(api+"/convert?from=openai&to=anthropic", `[{"role":"user","content":"hello"}]`)),
			open: "what is converted is the body alone, and nothing of it is kept"},
		{route: "POST /api/v1/jobs", want: []string{"name_taken", ""}, apart: true, calls: to(post(api+"/jobs", `{"text":"hello","name":"mine","once":"2037-01-02T10:00:00Z"}`)),
			open: "the job becomes the caller's own, and its name is the caller's"},
		{route: "POST /api/v1/jobs/{name}/pause", want: []string{"not_found"}, calls: func(x things) []step { return []step{post(api+"/jobs/"+x.Job+"/pause", "")} }},
		{route: "POST /api/v1/jobs/{name}/resume", want: []string{"not_found"}, turn: late, calls: func(x things) []step { return []step{post(api+"/jobs/"+x.Job+"/resume", "")} }},
		{route: "POST /api/v1/jobs/{name}/run", want: []string{"not_found"}, calls: func(x things) []step { return []step{post(api+"/jobs/"+x.Job+"/run", "")} }},
		{route: "PUT /api/v1/jobs/{name}", want: []string{"not_found"}, calls: func(x things) []step { return []step{put(api+"/jobs/"+x.Job, `{"retries":1}`)} }},
		{route: "DELETE /api/v1/jobs/{name}", want: []string{"not_found"}, turn: last, calls: func(x things) []step { return []step{del(api + "/jobs/" + x.Job)} }},
		{route: "PUT /api/v1/heartbeat", want: own, calls: to(put(api+"/heartbeat", `{"reviews":["none"]}`)), open: ownBeat},
		{route: "POST /api/v1/heartbeat/run", want: []string{"heartbeat_off", "job_busy", ""}, turn: late, calls: to(post(api+"/heartbeat/run", `{"kind":"daily"}`)), open: ownBeat},
		{route: "DELETE /api/v1/heartbeat", want: own, turn: last, calls: to(del(api + "/heartbeat")), open: ownBeat},
		{route: "POST /api/v1/documents", want: own, calls: to(post(api+"/documents?path=/x.md", "hello"))}, // only into the caller's own space
		{route: "DELETE /api/v1/documents/{id}", want: []string{"document_not_found"}, turn: last, calls: func(x things) []step { return []step{del(api + "/documents/" + x.Document)} }},
		{route: "POST /api/v1/goals", want: []string{"task_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/goals", `{"title":"with a plan","tasks":["`+x.Plan+`"]}`)}
		}},
		{route: "PATCH /api/v1/goals/{id}", want: []string{"goal_not_found"}, calls: func(x things) []step {
			return []step{patch(api+"/goals/"+x.Goal, `{"progress":{"summary":"hello"}}`)}
		}},
		{route: "DELETE /api/v1/goals/{id}", want: []string{"goal_not_found"}, turn: last, calls: func(x things) []step { return []step{del(api + "/goals/" + x.Goal)} }},
		{route: "PATCH /api/v1/memory/facts/{id}", want: []string{"fact_not_found"}, calls: func(x things) []step {
			return []step{patch(api+"/memory/facts/"+x.Fact, `{"importance":1}`)}
		}},
		{route: "POST /api/v1/memory/facts/{id}/undo", want: []string{"fact_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/memory/facts/"+x.Fact+"/undo", `{"change":"`+x.Fact+`"}`)} // she has no such change
		}},
		{route: "DELETE /api/v1/memory/facts/{id}", want: []string{"fact_not_found"}, turn: last, calls: func(x things) []step { return []step{del(api + "/memory/facts/" + x.Fact)} }},
		{route: "PUT /api/v1/memory/profile", want: []string{"profile_invalid"}, turn: late, calls: func(x things) []step {
			return []step{put(api+"/memory/profile", `{"text":"# Who I am\n- mine now [`+x.Fact+`]\n"}`)}
		}},
		{route: "POST /api/v1/memory/facts", want: []string{"fact_not_found"}, turn: late, calls: func(x things) []step {
			return []step{post(api+"/memory/facts", `{"text":"instead of another one","replaces":["`+x.Fact+`"]}`)}
		}},
		{route: "POST /api/v1/projects", want: []string{"goal_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/projects", `{"title":"of a goal","goal_id":"`+x.Goal+`"}`)}
		}},
		{route: "PATCH /api/v1/projects/{id}", want: []string{"project_not_found"}, calls: func(x things) []step {
			return []step{patch(api+"/projects/"+x.Project, `{"progress":{"summary":"hello"}}`)}
		}},
		{route: "DELETE /api/v1/projects/{id}", want: []string{"project_not_found"}, turn: last, calls: func(x things) []step { return []step{del(api + "/projects/" + x.Project)} }},
		{route: "PUT /api/v1/profile", want: own, turn: late, calls: to(put(api+"/profile", `{"location":"elsewhere"}`))},
		{route: "PUT /api/v1/persona", want: own, turn: late, calls: to(put(api+"/persona", `{"persona":"brief"}`))},
		{route: "POST /api/v1/requests/{id}/resume", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/requests/"+x.Task+"/resume", ""), post(api+"/requests/"+x.Turn+"/resume", "")}
		}},
		{route: "POST /api/v1/requests/{id}/pause", want: []string{"task_not_found"}, open: noTree, calls: func(x things) []step {
			return []step{post(api+"/requests/"+x.Task+"/pause", "")}
		}},
		{route: "POST /api/v1/requests/{id}/retry", want: []string{"task_not_found"}, open: noTree, calls: func(x things) []step {
			return []step{post(api+"/requests/"+x.Task+"/retry", "")}
		}},
		{route: "PATCH /api/v1/requests/{id}", want: []string{"task_not_found"}, open: noTree, calls: func(x things) []step {
			return []step{patch(api+"/requests/"+x.Task, `{"purpose":"mine"}`)}
		}},
		{route: "DELETE /api/v1/requests/{id}", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{del(api + "/requests/" + x.Task), del(api + "/requests/" + x.Task[:13])}
		}},
		{route: "DELETE /api/v1/conversations/{id}/branches/{branch}", want: notFound, calls: func(x things) []step {
			return []step{del(api + "/conversations/" + x.Victim + "/branches/" + x.VictimBranch)}
		}},
		{route: "DELETE /api/v1/conversations/{id}", want: notFound, calls: func(x things) []step {
			return []step{del(api + "/conversations/" + x.Victim)}
		}},
		{route: "PUT /api/v1/resources/item", turn: late, want: []string{"not_found", "conflict", "space_denied", "access_denied", "resource_owned", "resource_exists"}, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, put(api+"/resources/item?uri="+u, `{"text":"taken"}`))
			}
			return append(list, put(api+"/resources/item?space=user:"+ann+"&uri="+x.Note, `{"text":"taken"}`))
		}, shared: func(x things) []step {
			return []step{put(api+"/resources/item?space=group:"+family+"&uri="+x.Shared, `{"text":"taken"}`), put(api+"/resources/item?uri="+x.Shared, `{"text":"taken"}`)}
		}},
		{route: "DELETE /api/v1/resources/item", turn: late, want: []string{"not_found", "access_denied", "resource_owned", "space_denied"}, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, del(api+"/resources/item?uri="+u), del(api+"/resources/item?erase=true&uri="+u))
			}
			return list
		}, shared: func(x things) []step { return []step{del(api + "/resources/item?uri=" + x.Shared)} }},
		{route: "PATCH /api/v1/grants/{id}", want: []string{"grant_not_found"}, calls: func(x things) []step {
			return []step{patch(api+"/grants/"+x.Grant, `{"until":"2040-01-01T00:00:00Z"}`)}
		}},
		{route: "DELETE /api/v1/grants/{id}", want: []string{"grant_not_found"}, turn: late, calls: func(x things) []step { return []step{del(api + "/grants/" + x.Grant)} }},
		{route: "POST /api/v1/approvals/{id}", turn: late, want: []string{"approval_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/approvals/"+x.Intent, `{"approve":true,`+x.Seen+`}`), post(api+"/approvals/"+url.PathEscape(x.Question), `{"approve":false,`+x.Seen+`}`),
				post(api+"/approvals/"+x.Intent, `{"approve":true,"standing":"always",`+x.Seen+`}`)}
		}, shared: func(x things) []step {
			return []step{post(api+"/approvals/"+url.PathEscape(x.Families), `{"approve":true,`+x.FamilySeen+`}`)}
		}},
		{route: "POST /api/v1/intents/{id}/approve", want: []string{"intent_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Intent+"/approve", `{`+x.Seen+`}`)}
		}},
		{route: "POST /api/v1/intents/{id}/deny", want: []string{"intent_not_found"}, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Intent+"/deny", `{`+x.Seen+`}`)}
		}},
		{route: "POST /api/v1/intents/{id}/cancel", want: []string{"intent_not_found"}, turn: late, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Intent+"/cancel", ``), post(api+"/intents/"+x.Done+"/cancel", ``)}
		}},
		{route: "POST /api/v1/intents/{id}/retry", want: []string{"intent_not_found"}, turn: late, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Intent+"/retry", ``), post(api+"/intents/"+x.Done+"/retry", ``)}
		}},
		{route: "POST /api/v1/intents/{id}/undo", want: []string{"intent_not_found"}, turn: late, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Intent+"/undo", ``), post(api+"/intents/"+x.Done+"/undo", ``)}
		}},
		{route: "POST /api/v1/intents/{id}/resolve", want: []string{"intent_not_found"}, turn: late, calls: func(x things) []step {
			return []step{post(api+"/intents/"+x.Done+"/resolve", `{"done":true,"note":"taken"}`)}
		}},
		{route: "PUT /api/v1/groups/{group}/members/{user}", want: []string{"group_not_found", "admin_only", "group_denied"}, ruled: true, managed: true, calls: to(), shared: func(things) []step {
			return []step{put(api+"/groups/"+family+"/members/"+eve, `{}`), put(api+"/groups/"+family+"/members/"+eve, `{"manages":true}`)}
		}},
		{route: "DELETE /api/v1/groups/{group}/members/{user}", want: []string{"group_not_found", "admin_only", "group_denied"}, ruled: true, managed: true, turn: last, calls: to(), shared: func(things) []step {
			return []step{del(api + "/groups/" + family + "/members/" + ann)}
		}},
		{route: "DELETE /api/v1/groups/{group}", want: []string{"admin_only", "group_not_found"}, admin: true, turn: last, calls: to(del(api + "/groups/" + family))},
		{route: "POST /api/v1/groups", want: admin, admin: true, calls: to(post(api+"/groups", `{"name":"mine","members":["ann"]}`))},
		{route: "POST /api/v1/users", want: admin, admin: true, calls: to(post(api+"/users", `{"user":"mallory","roles":["admin"]}`))},
		{route: "PATCH /api/v1/users/{user}", want: admin, admin: true, turn: last, calls: to(patch(api+"/users/"+bob, `{"display":"taken"}`), patch(api+"/users/"+bob, `{"roles":["admin"]}`),
			patch(api+"/users/"+ann, `{"disabled":true}`))},
		{route: "DELETE /api/v1/users/{user}", want: admin, admin: true, turn: last, calls: to(del(api+"/users/"+ann), del(api+"/users/"+bob))},
		{route: "POST /api/v1/events", want: []string{"event_source_foreign", "event_space_foreign"}, calls: func(x things) []step {
			return []step{post(api+"/events", `{"source":"user:ann","resources":[{"uri":"`+x.Note+`"}]}`), post(api+"/events", `{"space":"user:ann","resources":[{"uri":"`+x.Note+`"}]}`)}
		}, shared: func(x things) []step {
			return []step{post(api+"/events", `{"space":"group:family","resources":[{"uri":"`+x.Shared+`"}]}`)}
		}},
		{route: "DELETE /api/v1/events/{id}", want: []string{"event_not_found", "admin_only"}, ruled: true, turn: late, calls: func(x things) []step {
			return []step{del(api + "/events/" + x.Event), del(api + "/events/" + x.Event + "?user=" + ann)}
		}},
		{route: "POST /api/v1/links", want: admin, admin: true, calls: to(post(api+"/links", `{"user":"ann"}`)), open: "a link of one's own is nobody else's"},
		{route: "DELETE /api/v1/sessions/{id}", want: []string{"session_not_found", "admin_only"}, ruled: true, calls: func(x things) []step {
			return []step{del(api + "/sessions/" + x.Session), del(api + "/sessions/" + x.Session + "?user=" + ann)}
		}, turn: last},
		{route: "POST /api/v1/keys", want: admin, admin: true, calls: to(post(api+"/keys", `{"user":"ann","name":"mine"}`))},
		{route: "DELETE /api/v1/keys/{id}", want: admin, admin: true, calls: func(x things) []step { return []step{del(api + "/keys/" + x.Key)} }},
		{route: "POST /api/v1/agents/approve", want: admin, admin: true, calls: to(post(api+"/agents/approve", `{"path":"desk","hash":"x"}`)), open: "refused for its hash, also to the admin"},
		{route: "POST /api/v1/agents/deny", want: admin, admin: true, calls: to(post(api+"/agents/deny", `{"path":"desk"}`))},
		{route: "POST /api/v1/agents/revoke", want: admin, admin: true, calls: to(post(api+"/agents/revoke", `{"path":"desk"}`))},
	}
}

// openaiRoutes returns the routes of OpenAI's API.
func openaiRoutes() []entry {
	return []entry{
		{route: "POST /v1/chat/completions", want: notFound, calls: func(x things) []step {
			return []step{post("/v1/chat/completions", `{"model":"default","messages":[{"role":"user","content":"go on"}],"metadata":{"conversation_id":"`+x.Conv+`"}}`)}
		}},
		{route: "POST /v1/responses", want: notFound, calls: func(x things) []step {
			return []step{post("/v1/responses", `{"model":"default","input":"go on","metadata":{"conversation_id":"`+x.Conv+`"}}`)}
		}},
		{route: "POST /v1/embeddings", want: own,
			calls: to(post("/v1/embeddings", `{"model":"default","input":"`+bait+`"}`)), open: "it takes nothing but the text that is sent"},
		{route: "GET /v1/models", want: own, calls: to(get("/v1/models")), open: "the models are the node's"},
		{route: "GET /v1/models/{id...}", want: own, calls: to(get("/v1/models/default")), open: "the models are the node's"},
	}
}

// serviceRoutes returns the agents' services.
func serviceRoutes() []entry {
	const at = "/services/v1"
	return []entry{
		{route: "GET /services/v1/state", want: own, calls: to(get(at+"/state").as("desk"), get(at+"/state?prefix=h").as("desk"))},
		{route: "GET /services/v1/state/{key...}", want: []string{"not_found", "unknown_url"}, calls: func(x things) []step {
			return []step{get(at + "/state/" + x.StateKey).as("desk"), get(at + "/state/../" + ann + "/" + x.StateKey).as("desk")}
		}},
		{route: "POST /services/v1/db/query", want: []string{"sql_invalid"}, calls: to(post(at+"/db/query", `{"sql":"select * from of_ann"}`).as("desk"),
			post(at+"/db/query", `{"sql":"select * from ann.of_ann"}`).as("desk"))},
		{route: "GET /services/v1/user", want: own, calls: to(get(at + "/user").as("desk"))},
		{route: "POST /services/v1/log", want: own, calls: to(post(at+"/log", `{"message":"hello"}`).as("desk")), open: "a line in the node's own log; nothing is read"},
		{route: "POST /services/v1/llm/chat/completions", want: own, calls: func(x things) []step {
			return []step{post(at+"/llm/chat/completions", `{"messages":[{"role":"user","content":"go on"}],"metadata":{"conversation_id":"`+x.Conv+`"}}`).as("desk")}
		}},
		{route: "PUT /services/v1/state/{key...}", want: own, turn: late, calls: func(x things) []step {
			return []step{put(at+"/state/"+x.StateKey, `"taken"`).as("desk")}
		}},
		{route: "POST /services/v1/db/exec", want: []string{"sql_invalid"}, calls: to(post(at+"/db/exec", `{"statements":[{"sql":"update of_ann set x='taken'"}]}`).as("desk"))},
		{route: "DELETE /services/v1/state/{key...}", want: []string{"", "not_found"}, apart: true, turn: late, calls: func(x things) []step {
			return []step{del(at + "/state/" + x.StateKey).as("desk")}
		}},
	}
}

// methods returns the methods of the gRPC services, called with Connect's JSON.
func methods() []entry {
	return []entry{
		{route: "search.Search.QueryMessages", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{post("/search.Search/QueryMessages", `{"query":"`+bait+`","around":5,"limit":100}`),
				post("/search.Search/QueryMessages", `{"query":"`+bait+`","conversation":"`+x.Conv+`"}`)}
		}},
		{route: "memory.Memory.GetWindow", want: notFound, calls: func(x things) []step {
			return []step{post("/memory.Memory/GetWindow", `{"for":"`+x.Conv+`"}`), post("/memory.Memory/GetWindow", `{"for":"cld:common.Conversation.`+x.Conv+`"}`)}
		}},
		{route: "vector.Vector.QueryItems", want: []string{"", "conversation_not_found"}, calls: func(x things) []step {
			return []step{post("/vector.Vector/QueryItems", `{"text":"`+bait+`","filter":{"limit":100}}`),
				post("/vector.Vector/QueryItems", `{"text":"`+bait+`","filter":{"conversation":"`+x.Conv+`"}}`)}
		}},
		{route: "tool.Tool.ListTools", want: own, calls: to(post("/tool.Tool/ListTools", `{}`), post("/tool.Tool/ListTools", `{"agent":"desk"}`)), open: "the tools are the node's"},
		{route: "tool.Tool.ExecuteTool", want: own, calls: func(x things) []step { return []step{execute("", "conversation.search", `{"query":"`+bait+`"}`)} }},
		{route: "event.Event.Publish", want: []string{"event_source_foreign", "event_space_foreign"}, calls: func(x things) []step {
			return []step{post("/event.Event/Publish", `{"source":"user:ann","resources":[{"uri":"`+x.Note+`"}]}`),
				post("/event.Event/Publish", `{"space":"user:ann","resources":[{"uri":"`+x.Note+`"}]}`),
				post("/event.Event/Publish", `{"source":"system","resources":[{"uri":"`+x.Note+`"}]}`)}
		}, shared: func(x things) []step {
			return []step{post("/event.Event/Publish", `{"space":"group:family","resources":[{"uri":"`+x.Shared+`"}]}`)}
		}},
		{route: "event.Event.Subscribe", live: true, want: own, calls: func(x things) []step {
			return []step{stream("/event.Event/Subscribe", `{"bodies":true}`), stream("/event.Event/Subscribe", `{"bodies":true,"cursor":"now"}`)}
		}},
		{route: "grpc.health.v1.Health.Check", want: own, calls: to(post("/grpc.health.v1.Health/Check", `{}`)), open: "it tells whether Steward can serve"},
		{route: "grpc.health.v1.Health.List", want: own, calls: to(post("/grpc.health.v1.Health/List", `{}`)), open: "it tells whether Steward can serve"},
		{route: "grpc.health.v1.Health.Watch", want: own, calls: to(stream("/grpc.health.v1.Health/Watch", `{}`)), open: "it tells whether Steward can serve"},
		{route: "plan.Plan.ListTasks", want: own, calls: func(x things) []step {
			return []step{post("/plan.Plan/ListTasks", `{"uri":"cld:common.Conversation.`+x.Conv+`"}`)}
		}, open: "there are no tasks in this world: TestPlansOverRPC has a stranger ask for some"},
		{route: "assistant.Assistant.ListAssistants", want: own, calls: to(post("/assistant.Assistant/ListAssistants", `{}`)), open: "the agents are the node's"},
		{route: "plan.Plan.Process", want: []string{"not_found"}, calls: func(x things) []step {
			return []step{stream("/plan.Plan/Process", `{"content":"go on","conversation":"`+x.Conv+`"}`)}
		}},
		{route: "assistant.Assistant.Process", want: []string{"not_found"}, calls: func(x things) []step {
			return []step{stream("/assistant.Assistant/Process", `{"content":"go on","conversation":"`+x.Conv+`"}`)}
		}},
	}
}

// noTree says why the entries about tasks of plans find no leak in this world: nobody works on a plan in it.
const noTree = "the caller's own live trees alone are searched: TestAPersonOrdersTasks has a stranger order the tasks of one"

const figures = "it has figures and names of agents, and those of another user teach nothing: TestWhoCorrectsRoutingTeachesIt"
