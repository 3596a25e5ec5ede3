// Package api is the HTTP server for Steward's own command line and other programs: plain JSON
// under /api/v1. docs/reference/api.md describes it.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/goals"
	"steward/internal/heartbeat"
	"steward/internal/identity"
	"steward/internal/memory"
	"steward/internal/memory/documents"
	"steward/internal/memory/graph"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/server/auth"
	"steward/internal/store"
	"steward/internal/store/audit"
	"steward/internal/tools/home"
	"steward/internal/tools/job"
	"steward/internal/tree"
)

// Options configure the server. Node and People are required. A node that consists only of its
// Records, without being opened, serves what can be answered from the database.
type Options struct {
	Node       *runtime.Node
	People     *identity.Registry // users, their keys and groups
	Agents     catalog.Approver   // nil: there are no agents
	Authorizer policy.Authorizer  // who may decide about agents; nil: administrators
	Logger     *slog.Logger

	Resources *tree.Service     // nil: resources are not served
	Audit     *audit.Log        // nil: the log is not audited
	Jobs      job.Service       // without Jobs in it, jobs are not served
	Channels  Channels          // nil: there are none
	Heartbeat heartbeat.Service // without Jobs in it, the heartbeat is not served
	Goals     *goals.Engine     // nil: goals and projects are not served
	Memory    *memory.Engine    // nil: facts are not served
	Documents *documents.Engine // nil: documents are not served
	Graph     *graph.Engine     // nil: the graph is not served
	Home      *home.Home        // nil: none is set up
	Setup     Setup             // nil: settings are not served
	Levels    LogLevels         // nil: levels of the log are not served
	Backups   Backups           // nil: no backups are made

	Cluster func(context.Context) (client.Cluster, error) // nil: this node is not part of one

	Own identity.Profile // what the settings say about the machine's own user

	Inside bool // only the owner of this process calls: internal errors are returned in full and not logged
}

// maxBody is the default size limit of a request body, in bytes.
const maxBody = 64 << 10

// Prefix is the path under which the server is mounted.
const Prefix = "/api/v1"

type server struct {
	Options
	mux *http.ServeMux
}

// Handler returns the server, which serves the paths below Prefix. Mount it behind a
// auth.Guard.
func Handler(o Options) http.Handler {
	f := &server{o, http.NewServeMux()}
	for _, r := range f.routes() {
		f.mux.Handle(r.method+" "+Prefix+r.path, f.handle(r))
	}
	f.mux.HandleFunc("/", f.absent)
	return f.mux
}

// Routes returns the patterns of all routes, such as "GET /api/v1/conversations/{id}", sorted. It
// reads Handler's own table, so that the documentation can be checked against it.
func Routes() []string {
	var all []string
	for _, r := range (&server{}).routes() {
		all = append(all, r.method+" "+Prefix+r.path)
	}
	slices.Sort(all)
	return all
}

// routes returns the route table. Agents' paths and URIs contain slashes, so they are passed in
// queries and bodies.
func (f *server) routes() []route {
	const conv = "/conversations/{id}"
	return slices.Concat([]route{
		on("GET /conversations", f.conversations),
		on("GET "+conv, f.conversation),
		on("PATCH "+conv, f.changeConversation),
		on("DELETE "+conv, f.deleteConversation),
		on("POST "+conv+"/undelete", f.undelete),
		on("GET "+conv+"/export", f.export),
		on("GET "+conv+"/shares", f.shares),
		created(on("POST "+conv+"/shares", f.newShare)),
		on("DELETE /shares/{id}", f.endShare),
		on("GET "+conv+"/context", f.modelContext),
		on("POST /import", f.importFile),
		on("POST /convert", f.convert),
		on("GET /search", f.search),

		on("GET "+conv+"/branches", f.branches),
		created(on("POST "+conv+"/branches", f.fork)),
		on("PATCH "+conv+"/branches/{branch}", f.changeBranch),
		on("DELETE "+conv+"/branches/{branch}", f.deleteBranch),
		created(on("POST "+conv+"/branches/{branch}/copy", f.copyBranch)),
		created(on("POST "+conv+"/rewind", f.rewind)),
		on("POST "+conv+"/tidy", f.tidy),

		on("GET "+conv+"/messages", f.messages),
		on("GET /messages", f.messagesOfCall),
		on("GET "+conv+"/messages/{message}/siblings", f.siblings),
		on("GET "+conv+"/messages/{message}/model-call", f.modelCall),
		created(on("POST "+conv+"/messages/remove", f.remove)),
		created(on("POST "+conv+"/messages/insert", f.insert)),
		on("POST "+conv+"/messages/mark", f.mark),
		on("POST "+conv+"/messages/pin", f.pin),
		on("POST "+conv+"/messages/trust", f.trust),
		on("GET "+conv+"/changes", f.changes),
		on("GET "+conv+"/interactions/{interaction}", f.interaction),
		on("POST "+conv+"/interactions/{interaction}/merge", f.merge),
		on("POST "+conv+"/interactions/{interaction}/rollback", f.rollback),

		on("GET /log", f.workLog),
		on("GET /log/{message}/{block}", f.workLogEntry),
		on("GET /usage", f.usage),
		on("GET /requests", f.requests),
		on("GET /requests/{id}", f.request),
		on("DELETE /requests/{id}", f.cancelRequest),
		on("POST /requests/{id}/resume", f.resumeRequest),
		on("POST /requests/{id}/pause", f.pauseTask),
		on("POST /requests/{id}/retry", f.retryTask),
		on("PATCH /requests/{id}", f.editTask),
		on("GET /plans", f.plans),
		on("GET /plans/{id}", f.plan),
		on("GET /intents", f.intents),
		on("GET /intents/{id}", f.intent),
		on("POST /intents/{id}/approve", f.approveIntent),
		on("POST /intents/{id}/deny", f.denyIntent),
		on("POST /intents/{id}/cancel", f.cancelIntent),
		on("POST /intents/{id}/retry", f.retryIntent),
		on("POST /intents/{id}/undo", f.undoIntent),
		on("POST /intents/{id}/resolve", f.resolveIntent),
		on("GET /approvals", f.approvals),
		on("GET /approvals/{id}", f.approval),
		on("POST /approvals/{id}", f.answer),
		on("GET /grants", f.grants),
		on("GET /grants/{id}", f.grant),
		on("POST /grants/{id}/preview", f.previewGrant),
		on("PATCH /grants/{id}", f.editGrant),
		on("DELETE /grants/{id}", f.revokeGrant),

		on("GET /jobs", f.jobs),
		created(on("POST /jobs", f.addJob)),
		on("POST /jobs/preview", f.previewJob),
		on("GET /jobs/{name}", f.job),
		on("PUT /jobs/{name}", f.editJob),
		on("DELETE /jobs/{name}", f.removeJob),
		on("POST /jobs/{name}/run", f.runJob),
		on("POST /jobs/{name}/pause", f.pauseJob),
		on("POST /jobs/{name}/resume", f.resumeJob),
		on("GET /jobs/{name}/history", f.jobHistory),

		on("GET /heartbeat", f.heartbeat),
		on("PUT /heartbeat", f.heartbeatOn),
		on("DELETE /heartbeat", f.heartbeatOff),
		on("POST /heartbeat/run", f.runHeartbeat),

		on("GET /home", f.home),
		on("POST /home/control", f.controlHome),

		on("GET /agents", f.listAgents),
		on("POST /agents/inspect", f.inspectAgent),
		on("POST /agents/approve", f.approveAgent),
		on("POST /agents/deny", f.denyAgent),
		on("POST /agents/revoke", f.revokeAgent),
		on("GET /models", f.models),
		on("POST /models/test", f.testModel),
		on("POST /models/find", f.findModels),
		on("PUT /models/default", f.useModel),
		on("GET /settings", f.settings),
		on("PUT /settings/{key}", f.setSetting),
		on("DELETE /settings/{key}", f.unsetSetting),
		on("GET /budgets", f.budgets),
		on("GET /log-level", f.logLevel),
		on("PUT /log-level", f.setLogLevel),
		on("GET /providers", f.providers),
		created(on("POST /providers", f.connectProvider)),
		on("DELETE /providers/{name}", f.disconnectProvider),
		on("GET /route", f.routeStats),
		on("POST /route", f.explainRoute),
		on("GET /policy", f.policy),
		on("POST /policy/explain", f.explainPolicy),
		on("POST /policy/try", f.tryPolicy),
		on("PUT /policy/file", f.writePolicy),
		on("GET /audit/head", f.auditHead),
		on("GET /audit/verify", f.auditVerify),
		on("GET /audit/export", f.auditExport),

		on("GET /profile", f.profile),
		on("PUT /profile", f.setProfile),
		on("GET /personas", f.personas),
		on("PUT /persona", f.choosePersona),
		on("GET /keys", f.keys),
		created(on("POST /keys", f.createKey)),
		on("DELETE /keys/{id}", f.revokeKey),
		created(on("POST /links", f.createLink)),
		on("GET /sessions", f.sessions),
		on("DELETE /sessions/{id}", f.endSession),
		on("GET /users", f.users),
		created(on("POST /users", f.addUser)),
		on("GET /users/{user}", f.user),
		on("PATCH /users/{user}", f.setUser),
		on("DELETE /users/{user}", f.deleteUser),
		created(on("POST /events", f.publish)),
		on("DELETE /events/{id}", f.eraseEvent),
		on("GET /cluster", f.cluster),
		on("GET /backups", f.listBackups),
		created(on("POST /backups", f.makeBackup)),
		on("GET /channels", f.channels),
		created(on("POST /channels", f.addChannel)),
		on("POST /channels/{name}/test", f.testChannel),
		on("DELETE /channels/{name}", f.removeChannel),
		on("GET /mcp/servers", f.servers),
		on("POST /mcp/servers", f.addServer),
		on("DELETE /mcp/servers/{name}", f.removeServer),
		on("POST /mcp/servers/{name}/signin", f.beginSignIn),
		on("GET /mcp/servers/{name}/signin", f.signInState),
		on("PUT /mcp/servers/{name}/signin", f.answerSignIn),
		on("GET /skills", f.skills),
		on("POST /skills", f.approveSkill),
		on("POST /skills/find", f.findSkills),
		on("GET /skills/{name}", f.skill),
		on("DELETE /skills/{name}", f.removeSkill),
		on("GET /channels/people", f.channelPeople),
		created(on("POST /channels/people", f.pair)),
		on("DELETE /channels/people/{id}", f.unpair),
		on("GET /channels/inbox", f.channelInbox),
		on("GET /channels/outbox", f.channelOutbox),
		on("GET /groups", f.groups),
		created(on("POST /groups", f.addGroup)),
		on("GET /groups/{group}", f.group),
		on("DELETE /groups/{group}", f.removeGroup),
		on("PUT /groups/{group}/members/{user}", f.join),
		on("DELETE /groups/{group}/members/{user}", f.leave),
		on("GET /resources", f.listResources),
		on("GET /resources/item", f.getResource),
		on("PUT /resources/item", f.putResource),
		on("DELETE /resources/item", f.deleteResource),
		on("GET /resources/parents", f.resourceParents),
		on("GET /resources/history", f.resourceHistory),

		on("GET /documents", f.documents),
		created(on("POST /documents", f.addDocument)),
		on("GET /documents/search", f.searchDocuments),
		on("GET /documents/{id}", f.document),
		on("DELETE /documents/{id}", f.removeDocument),

		on("GET /goals/changes", f.goalChanges),

		on("GET /memory/facts", f.facts),
		created(on("POST /memory/facts", f.saveFact)),
		on("GET /memory/facts/{id}", f.fact),
		on("PATCH /memory/facts/{id}", f.changeFact),
		on("DELETE /memory/facts/{id}", f.forgetFact),
		on("POST /memory/facts/{id}/undo", f.undoFact),
		on("GET /conversations/{id}/memory", f.conversationMemory),
		on("GET /memory/profile", f.memoryProfile),
		on("PUT /memory/profile", f.setMemoryProfile),

		on("POST /graph/query", f.queryGraph),
		on("GET /graph/neighbours", f.graphNeighbours),
		on("POST /graph/triples", f.assertTriple),
		on("DELETE /graph/triples", f.forgetGraph),
		on("POST /graph/documents", f.importGraph),
		on("GET /graph/documents", f.exportGraph),
	}, f.effortRoutes(record.KindGoal, "/goals"), f.effortRoutes(record.KindProject, "/projects"))
}

// absent answers requests that no pattern matches, by their path or by their method.
func (f *server) absent(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := *r
		probe.Method = m
		if _, pattern := f.mux.Handler(&probe); pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		auth.WriteError(w, r, f.Logger, fault.New(fault.NotFound, "unknown_url", "there is no path %.200s", r.URL.Path).
			WithHint("docs/reference/api.md lists the paths"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	e := fault.New(fault.Invalid, "method_not_allowed", "%.200s does not support %.20s", r.URL.Path, r.Method).WithHint("use %s", strings.Join(allowed, " or "))
	auth.Reply(w, http.StatusMethodNotAllowed, auth.ErrorBody(e))
}

// page is the start and the size of a page of a list.
type page struct {
	After store.Cursor `query:"after"`
	Limit int          `query:"limit" range:"1,1000"`
}

func (p page) limit() int { return cmp.Or(p.Limit, store.DefaultLimit) }

// all makes a nil list an empty one, so that JSON never has null for a list.
func all[T any](list []T) []T { return append([]T{}, list...) }

// the returns a JSON object with one member.
func the[T any](member string, v T) map[string]T { return map[string]T{member: v} }

// admins refuses callers who are not administrators.
func admins(c *call, what, hint string) error {
	if c.Admin {
		return nil
	}
	return fault.New(fault.Denied, "admin_only", "%s", what).WithHint("%s", hint)
}

func unsupported(what, format string) *fault.Error {
	return fault.New(fault.Unsupported, what+"_unsupported", "%s", format)
}

// Health returns the handler of /healthz (the process is alive) and /readyz (ready returns no
// error, so the server can serve; of a joined error, each is a reason). They reveal no secrets and need no key.
func Health(ready func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		auth.Reply(w, http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		err := ready(ctx)
		if err == nil {
			auth.Reply(w, http.StatusOK, []byte("{\"status\":\"ready\"}\n"))
			return
		}
		all := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = joined.Unwrap()
		}
		out := notReady{Status: "unavailable"}
		for _, err := range all { // only what has no paths and no names of people
			e := fault.Of(err)
			out.Reasons = append(out.Reasons, reason{e.Code, e.Details})
		}
		out.Code = out.Reasons[0].Code
		b, _ := json.Marshal(out)
		auth.Reply(w, http.StatusServiceUnavailable, append(b, '\n'))
	})
	return mux
}

// notReady is the answer of /readyz if Steward cannot serve.
type notReady struct {
	Code    string   `json:"code"` // of the first reason
	Reasons []reason `json:"reasons"`
	Status  string   `json:"status"`
}

type reason struct {
	Code    string         `json:"code"`
	Details map[string]any `json:"details,omitzero"`
}

const readyTimeout = 5 * time.Second
