package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/search"
	"steward/internal/server/api"
	"steward/internal/server/auth"
)

const (
	some = "00000000-0000-7000-8000-000000000001" // an id that names nothing
	zero = "00000000-0000-0000-0000-000000000000"
)

func TestConversations(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/conversations", "", 200, `{"conversations":[]}`)
	first, second := w.say("ana", "", "hello"), w.say("ana", "", "test.get b")
	conv := "/conversations/" + first.Conversation
	told := w.want("ana", "GET", conv, "", 200, `{"id":"`+first.Conversation+`","title":"hello","created":"`)
	if !strings.HasSuffix(told, `"messages":2,"tool_calls":0,"tokens":{"input":9,"output":3}}`) {
		t.Error(told)
	}
	page := get[struct {
		Conversations []client.Conversation
		Next          string
	}](w, "GET", "/conversations?limit=1", "")
	if len(page.Conversations) != 1 || page.Conversations[0].ID != second.Conversation || page.Conversations[0].ToolCalls != 1 {
		t.Errorf("%+v", page)
	}
	w.want("ana", "GET", "/conversations?after="+url.QueryEscape(page.Next), "", 200, `{"conversations":[`+told+`]}`)
	w.want("eve", "GET", "/conversations", "", 200, `{"conversations":[]}`)
	w.want("ana", "PATCH", conv, `{"title":" Höhere Sums "}`, 200, `"title":"Höhere Sums"`)

	w.want("ana", "PATCH", conv, `{"pinned":true,"archived":true}`, 200, `"pinned":true,"archived":true`)
	w.want("ana", "PATCH", conv, `{"pinned":false,"archived":false}`, 200, `"title":"Höhere Sums"`)
	w.want("ana", "PATCH", conv, `{}`, 400, "change_empty")
	share := get[client.Share](w, "POST", conv+"/shares", `{"within":"24h"}`)
	w.want("eve", "GET", conv+"/shares", "", 404, "conversation_not_found")
	w.want("eve", "DELETE", "/shares/"+share.ID, "", 404, "share_not_found")
	w.want("ana", "POST", conv+"/shares", `{"within":"9000h"}`, 400, "share_expiry_invalid")
	w.want("ana", "GET", conv+"/shares", "", 200, `"id":"`+share.ID+`"`)
	w.want("ana", "DELETE", "/shares/"+share.ID, "", 204, "")
	w.want("ana", "GET", conv+"/shares", "", 200, `{"shares":[]}`)

	messages := w.want("ana", "GET", conv+"/messages?limit=1", "", 200, `{"messages":[{"interaction_id":"`+first.Interaction+`","branch":"main","id":"`+first.Message+`","role":"user",`)
	var next struct{ Next string }
	if err := json.Unmarshal([]byte(messages), &next); err != nil {
		t.Fatal(err)
	}
	w.want("ana", "GET", conv+"/messages?after="+url.QueryEscape(next.Next), "", 200, `"text":"you said: hello"`)
	w.want("ana", "GET", conv+"/messages?reverse=true&limit=1", "", 200, `"text":"you said: hello"`)
	w.want("ana", "GET", "/messages?call=call_1", "", 200, `{"messages":[{"conversation_id":"`+second.Conversation+`","interaction_id":"`+second.Interaction)
	w.want("bob", "GET", "/messages?call=call_1", "", 200, `{"messages":[]}`)

	for query, mime := range map[string]string{"": "application/json", "?format=markdown&mask_private=true": "text/markdown; charset=utf-8"} {
		status, text, h := w.as("ana", "GET", conv+"/export"+query, "")
		if status != 200 || h.Get("Content-Type") != mime || !strings.Contains(text, "you said: hello") {
			t.Errorf("%s: %d %s %s", query, status, h.Get("Content-Type"), text)
		}
	}
	w.want("ana", "GET", "/models", "", 200, `{"aliases":["default"],"models":[{"name":"test/one","provider":"test","window":100000}]}`)
	w.want("ana", "DELETE", conv, "", 204, "")
	w.want("ana", "GET", conv, "", 404, "conversation_not_found")
	w.want("ana", "POST", conv+"/undelete", `{}`, 204, "")
	w.want("ana", "DELETE", conv+"?erase=true", "", 204, "")
	w.want("ana", "POST", conv+"/undelete", `{}`, 404, "conversation_not_found")
}

// The parts of a request are checked when they are read, on any route, and then by the route.
func TestRefusals(t *testing.T) {
	w := newTown(t)
	const conv = "/conversations/" + some
	for _, c := range []struct {
		user, method, path, body string
		status                   int
		code                     string
	}{
		{"-", "GET", "/conversations", "", 401, "unauthenticated"},
		{"ana", "GET", "/conversations?limit=0", "", 400, "limit_invalid"},
		{"ana", "GET", "/conversations?limit=1001", "", 400, "limit_invalid"},
		{"ana", "GET", "/conversations?limit=x", "", 400, "limit_invalid"},
		{"ana", "GET", "/search?q=4&limit=101", "", 400, "limit_invalid"},
		{"ana", "GET", "/search?q=4&around=6", "", 400, "around_invalid"},
		{"ana", "GET", "/search?q=4&since=yesterday", "", 400, "time_invalid"},
		{"ana", "GET", "/search?q=4&role=system", "", 400, "role_unknown"},
		{"ana", "GET", "/search?q=a&q=b", "", 400, "parameter_repeated"},
		{"ana", "GET", conv + "/messages?reverse=perhaps", "", 400, "reverse_invalid"},
		{"ana", "GET", "/conversations/x", "", 404, "conversation_not_found"},
		{"ana", "GET", "/conversations/" + zero, "", 404, "conversation_not_found"},
		{"ana", "GET", conv, "", 404, "conversation_not_found"},
		{"ana", "GET", "/log?conversation=x", "", 404, "conversation_not_found"},
		{"ana", "GET", "/log?branches=some", "", 400, "branches_invalid"},
		{"ana", "GET", "/log?outcome=done", "", 400, "outcome_unknown"},
		{"ana", "GET", conv + "/messages/x/siblings", "", 404, "message_not_found"},
		{"ana", "GET", conv + "/changes?interaction=x", "", 404, "interaction_not_found"},
		{"ana", "GET", conv + "/changes?interaction=" + zero, "", 404, "interaction_not_found"},
		{"ana", "PATCH", conv, `{`, 400, "invalid_json"},
		{"ana", "PATCH", conv, "", 400, "invalid_json"},
		{"ana", "PATCH", conv, `{"Title":"x"}`, 400, "unknown_member"},
		{"ana", "PATCH", conv, `[]`, 400, "member_invalid"},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 70000) + `"}`, 413, "too_large"},
		{"ana", "PATCH", conv, `{"title":" "}`, 400, "title_invalid"},
		{"ana", "PATCH", conv, `{"title":"a\nb"}`, 400, "title_invalid"},
		{"ana", "PATCH", conv, `{"title":"` + strings.Repeat("x", 201) + `"}`, 400, "title_invalid"},
		{"ana", "GET", conv + "/export?format=pdf", "", 400, "format_unknown"},
		{"ana", "GET", "/messages", "", 400, "call_missing"},
		{"ana", "GET", "/nothing", "", 404, "unknown_url"},
		{"ana", "GET", "", "", 404, "unknown_url"},
		{"ana", "PUT", conv, "", 405, "method_not_allowed"},
		{"ana", "POST", conv + "/branches", `{"message":"x"}`, 400, "member_invalid"},
		{"ana", "POST", conv + "/branches", `{"title":"a\nb"}`, 400, "title_invalid"},
		{"ana", "PATCH", conv + "/branches/main", `{}`, 400, "change_missing"},
		{"ana", "PATCH", conv + "/branches/main", `{"title":"` + strings.Repeat("x", 201) + `"}`, 400, "title_invalid"},
		{"ana", "PATCH", conv + "/branches/none", `{"title":"x"}`, 404, "branch_not_found"},
		{"ana", "PATCH", conv + "/branches/" + zero, `{"title":"x"}`, 404, "branch_not_found"},
		{"ana", "PATCH", conv + "/branches/..%2F..", `{"title":"x"}`, 404, "branch_not_found"},
		{"ana", "DELETE", conv + "/branches/%00", "", 404, "branch_not_found"},
		{"ana", "POST", conv + "/branches/x/copy", "", 404, "branch_not_found"},
		{"ana", "POST", conv + "/undelete", `{"branch":"a/b"}`, 404, "branch_not_found"},
		{"ana", "POST", conv + "/rewind", `{}`, 400, "message_missing"},
		{"ana", "POST", conv + "/rewind", `{"message":7}`, 400, "member_invalid"},
		{"ana", "POST", conv + "/messages/remove", `{}`, 400, "messages_missing"},
		{"ana", "POST", conv + "/messages/remove", `[]`, 400, "member_invalid"},
		{"ana", "POST", conv + "/messages/insert", `{"text":" "}`, 400, "message_empty"},
		{"ana", "POST", conv + "/messages/insert", `{"text":"x","role":"system"}`, 400, "role_unknown"},
		{"ana", "POST", conv + "/messages/insert", `{"text":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "too_large"},
		{"ana", "POST", conv + "/messages/mark", `{"state":"archived"}`, 400, "messages_missing"},
		{"ana", "POST", conv + "/messages/mark", `{"messages":null,"state":"archived"}`, 400, "messages_missing"},
		{"ana", "POST", conv + "/messages/mark", `{"messages":["` + some + `"],"state":"archived","erase":true}`, 400, "erase_not_deleted"},
		{"ana", "POST", conv + "/messages/pin", `{"messages":[]}`, 400, "messages_missing"},
		{"ana", "POST", conv + "/messages/trust", `{}`, 400, "messages_missing"},
		{"ana", "POST", conv + "/messages/trust", `{"messages":["` + some + `"],"labels":["odd"]}`, 400, "message_label_unknown"},
		{"ana", "GET", conv + "/interactions/x", "", 404, "interaction_not_found"},
		{"ana", "GET", conv + "/interactions/" + zero, "", 404, "interaction_not_found"},
		{"ana", "POST", conv + "/interactions/x/merge", `{"from":"` + some + `"}`, 404, "interaction_not_found"},
		{"ana", "POST", conv + "/interactions/" + some + "/merge", `{}`, 400, "interaction_missing"},
		{"ana", "POST", conv + "/interactions/" + some + "/merge", `{"from":"` + zero + `"}`, 400, "interaction_missing"},
		{"ana", "POST", conv + "/interactions/x/rollback", `{}`, 404, "interaction_not_found"},
		{"ana", "GET", "/requests/" + some, "", 404, "request_not_found"},
		{"ana", "GET", "/requests?all_users=true", "", 403, "admin_only"},
		{"ana", "POST", "/requests/x/resume?user=bo", "", 403, "admin_only"},
		{"ana", "DELETE", "/events/" + some + "?user=bo", "", 403, "admin_only"},
		{"ana", "DELETE", "/events/x", "", 400, "id_invalid"},
		{"ana", "GET", "/intents/" + some, "", 404, "intent_not_found"},
		{"ana", "POST", "/intents/" + some + "/resolve", `{}`, 400, "done_missing"},
		{"ana", "POST", "/intents/" + some + "/resolve", `{"done":false}`, 404, "intent_not_found"},
		{"ana", "GET", "/grants/x", "", 404, "grant_not_found"},
		{"ana", "PATCH", "/grants/" + some, `{"until":"soon"}`, 400, "member_invalid"},
		{"ana", "PATCH", "/grants/" + some, `{"labels":["odd"]}`, 400, "message_label_unknown"},
		{"ana", "PUT", "/profile", `{"time_zone":"X/Y"}`, 400, "time_zone_unknown"},
		{"ana", "GET", "/keys", "", 403, "admin_only"},
		{"ana", "POST", "/keys", `{"user":"ana"}`, 403, "admin_only"},
		{"ana", "DELETE", "/keys/" + some, "", 403, "admin_only"},
		{"local+admin", "POST", "/keys", `{"user":"A B"}`, 400, "user_invalid"},
		{"local+admin", "POST", "/keys", `{"user":"ana","expires":"tomorrow"}`, 400, "member_invalid"},
		{"local+admin", "DELETE", "/keys/x", "", 404, "key_not_found"},
		{"ana", "POST", "/agents/inspect", `{"path":"email"}`, 403, "admin_only"},
		{"ana", "POST", "/agents/approve", `{"path":"email","hash":"x"}`, 403, "admin_only"},
		{"ana", "POST", "/agents/deny", `{"path":"email"}`, 403, "admin_only"},
		{"ana", "POST", "/agents/revoke", `{"path":"email"}`, 403, "admin_only"},
		{"local+admin", "POST", "/agents/inspect", `{"path":"emial"}`, 404, "agent_not_found"},
		{"local+admin", "POST", "/agents/approve", `{"path":"email","hash":"x"}`, 409, "agent_changed"},
		{"local+admin", "POST", "/agents/approve", `{"path":"email","hsh":"x"}`, 400, "unknown_member"},
		{"local+admin", "POST", "/agents/revoke", `{"path":"email"}`, 409, "agent_not_approved"},
		{"local+admin", "PUT", "/agents", "", 405, "method_not_allowed"},
		{"ana", "POST", "/policy/explain", `{"tool":"test.get","user":"bob"}`, 403, "admin_only"},
		{"ana", "POST", "/policy/explain", `{"tol":"test.get"}`, 400, "unknown_member"},
		{"ana", "GET", "/audit/verify?anchor=x", "", 400, "head_invalid"},
		{"ana", "GET", "/audit/export?under=x", "", 400, "uri_invalid"},
		{"ana", "GET", "/audit/export?bodies=x", "", 400, "bodies_invalid"},
		{"ana", "POST", "/import", `{"x":1}`, 400, "import_format_unknown"},
		{"ana", "POST", "/import", ``, 400, "import_format_unknown"},
		{"ana", "POST", "/import", `[{"role":"user","content":"cut`, 400, "import_not_json"},
		{"ana", "POST", "/import", `[{"title":"B","messages":[]}]`, 400, "import_chat_empty"},
		{"ana", "POST", "/convert?from=anthropic", `{}`, 400, "format_unknown"},
		{"ana", "POST", "/convert?from=x&to=openai", `{}`, 400, "format_unknown"},
	} {
		if status, code, _ := w.as(c.user, c.method, c.path, c.body); status != c.status || code != c.code {
			t.Errorf("%s %s %.60s: %d %s, want %d %s", c.method, c.path, c.body, status, code, c.status, c.code)
		}
	}
	if _, _, h := w.as("ana", "PUT", conv, ""); h.Get("Allow") != "GET, PATCH, DELETE" {
		t.Error(h.Get("Allow"))
	}
	w.o = api.Options{Logger: w.o.Logger} // a server without optional parts
	for path, code := range map[string]string{"GET /audit/verify": "audit_unsupported", "GET /resources": "resources_unsupported",
		"POST /agents/inspect": "agents_unsupported", "GET /policy": "policy_unsupported"} {
		method, path, _ := strings.Cut(path, " ")
		w.want("ana", method, path, `{"path":"x"}`, 422, code)
	}
	w.want("ana", "GET", "/agents", "", 200, `{"agents":[],"decides":false}`)
}

// Every route of the table refuses parameters and members that it would otherwise ignore.
func TestEveryRouteRefusesUnknownParameters(t *testing.T) {
	w := newTown(t)
	routes := api.Routes()
	if len(routes) < 60 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(strings.Replace(route, api.Prefix, "", 1), " ")
		for _, name := range []string{"id", "branch", "message", "interaction", "block", "user", "group"} {
			path = strings.ReplaceAll(path, "{"+name+"}", some)
		}
		for query, code := range map[string]string{"stat=done": "parameter_unknown", "Limit=1": "parameter_unknown", "%zz": "query_invalid"} {
			w.want("ana+admin", method, path+"?"+query, "{}", 400, code)
		}
	}
}

// Internal errors are not shown to the caller, and an interrupted answer does not look
// complete.
func TestFailures(t *testing.T) {
	w := newTown(t)
	long := strings.Repeat(`{"role":"user","content":"`+strings.Repeat("x", 500)+`"},`, 300) + `{"role":"user","content":"x"}`
	conv := "/conversations/" + get[api.ImportReport](w, "POST", "/import", "["+long+"]").Imported[0].ID.String()
	w.store.left.Store(1)
	w.want("ana", "GET", conv+"/branches", "", 500, "internal")
	cut := 0
	for n := range 20 {
		func() {
			defer func() {
				if broke := recover(); broke == http.ErrAbortHandler {
					cut++
				} else if broke != nil {
					panic(broke)
				}
			}()
			w.store.left.Store(int64(n) + 1)
			if status, text, _ := w.as("ana", "GET", conv+"/export", ""); status != 500 && !json.Valid([]byte(text)) {
				t.Errorf("after %d reads: %d %s", n, status, text)
			}
		}()
	}
	if cut == 0 {
		t.Error("no export broke off")
	}
	w.o.Inside = true // the owner of the process sees internal errors
	w.store.left.Store(1)
	r := httptest.NewRequest("GET", api.Prefix+conv+"/branches", nil)
	out := httptest.NewRecorder()
	api.Handler(w.o).ServeHTTP(out, r.WithContext(auth.With(r.Context(), auth.Caller{User: "ana"})))
	if out.Code != 500 || !strings.Contains(out.Body.String(), "/secret/path") {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	w.store.left.Store(0)
}

func TestKeys(t *testing.T) {
	w := newTown(t)
	answer := w.want("local+admin", "POST", "/keys", `{"user":"ana","name":"laptop","expires":"2040-01-01T00:00:00Z"}`, 201, `"user":"ana"`)
	var k client.Key
	if err := json.Unmarshal([]byte(answer), &k); err != nil || !k.Usable || !identity.WellFormed(k.Secret) || k.Name != "laptop" || k.Expires.Year() != 2040 {
		t.Errorf("%s, %v", answer, err)
	}
	w.want("local+admin", "DELETE", "/keys/"+k.ID, "", 204, "")
	if answer := w.want("local+admin", "GET", "/keys?user=ana", "", 200, `"revoked":`); !strings.Contains(answer, `"usable":false`) || strings.Contains(answer, k.Secret) {
		t.Error(answer)
	}
	w.want("local+admin", "GET", "/keys?user=bo", "", 200, `{"keys":[]}`)
	w.want("ana", "GET", "/profile", "", 200, "{}")
	w.want("ana", "PUT", "/profile", `{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-at","units":"metric"}`, 200,
		`{"time_zone":"Europe/Vienna","location":"Graz","locale":"de-AT","units":"metric"}`)
	w.want("ana", "PUT", "/persona", `{"persona":"brief"}`, 200, `"chosen":{"*":"brief"}`)
	w.want("ana", "PUT", "/persona", `{"agent":"desk","persona":"off"}`, 200, `"chosen":{"*":"brief","desk":"off"}`)
	w.want("ana", "PUT", "/persona", `{"persona":"rude"}`, 400, "persona_unknown")
	w.want("ana", "GET", "/profile", "", 200, `"location":"Graz"`)
	w.want("bo", "GET", "/personas", "", 200, `"chosen":{}`)
}

func TestHealth(t *testing.T) {
	var ready error
	h := api.Health(func(ctx context.Context) error {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("no deadline")
		}
		return ready
	})
	check := func(method, path string, status int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if got := strings.TrimSpace(w.Body.String()); w.Code != status || body != "" && got != body {
			t.Errorf("%s %s: got %d %s", method, path, w.Code, got)
		}
	}
	check("GET", "/healthz", 200, `{"status":"ok"}`)
	check("GET", "/readyz", 200, `{"status":"ready"}`)
	ready = fault.New(fault.Unavailable, "disk_full", "/secret/path is full")
	check("GET", "/healthz", 200, `{"status":"ok"}`)
	check("GET", "/readyz", 503, `{"code":"disk_full","reasons":[{"code":"disk_full"}],"status":"unavailable"}`)
	check("POST", "/healthz", 405, "")
}

func TestHistory(t *testing.T) {
	w := newTown(t)
	said := w.say("ana", "", "hello")
	conv, first := "/conversations/"+said.Conversation, said.Message
	w.say("ana", said.Conversation, "more")
	page := get[struct{ Messages []struct{ ID string } }](w, "GET", conv+"/messages", "")
	answer, last := page.Messages[1].ID, page.Messages[3].ID

	w.want("ana", "GET", conv+"/branches", "", 200, `{"branches":[{"id":"main","preferred":true,"revision":0,"messages":4,"own":4,"begins":"hello"}]}`)
	made := get[client.NewBranch](w, "POST", conv+"/branches", `{"message":"`+answer+`","title":" B "}`)
	if made.Title != "B" || made.Parent != "main" || !made.Preferred {
		t.Errorf("%+v", made)
	}
	branch := conv + "/branches/" + made.ID
	w.want("ana", "GET", conv+"/branches", "", 200, `"preferred":true,"revision":0,"stem":"main","messages":2,"own":0`)
	w.want("ana", "POST", conv+"/branches", `{"message":"`+first+`","before":true}`, 201, `"parent":"`+made.ID+`"`)
	w.want("ana", "PATCH", branch, `{"title":"x","preferred":true}`, 204, "")
	w.want("ana", "PATCH", branch, `{"title":""}`, 204, "")
	w.want("ana", "PATCH", conv+"/branches/main", `{"preferred":true}`, 204, "")
	w.want("ana", "GET", conv+"/messages?limit=3&branch="+made.ID, "", 200, `"you said: hello"`)
	w.want("ana", "DELETE", branch, "", 204, "")
	w.want("ana", "GET", conv+"/branches?deleted=true", "", 200, `{"branches":[{"id":"`+made.ID)
	w.want("ana", "POST", conv+"/undelete", `{"branch":"`+made.ID+`"}`, 204, "")
	w.want("ana", "DELETE", branch+"?erase=true", "", 204, "")
	w.want("ana", "POST", conv+"/branches/main/copy", "", 201, `{"conversation_id":"`)
	w.want("ana", "POST", conv+"/rewind", `{"message":"`+answer+`","withdraw":true}`, 201, `"withdrawn":0}`)
	w.want("ana", "PATCH", conv+"/branches/main", `{"preferred":true}`, 204, "")
	w.want("ana", "POST", conv+"/messages/insert", `{"after":"`+answer+`","text":"by the way"}`, 201, `"message_id":"`)
	w.want("ana", "POST", conv+"/messages/insert", `{"role":"assistant","text":"ok"}`, 201, `"message_id":"`)
	w.want("ana", "POST", conv+"/messages/remove", `{"messages":["`+answer+`"]}`, 201, `"preferred":true`)
	w.want("ana", "PATCH", conv+"/branches/main", `{"preferred":true}`, 204, "")
	w.want("ana", "GET", conv+"/messages/"+first+"/siblings", "", 200, `{"siblings":[{"branch":"main","message_id":"`+first+`","preferred":true}`)

	w.want("ana", "POST", conv+"/messages/pin", `{"messages":["`+first+`"]}`, 204, "")
	w.want("ana", "GET", conv+"/messages?limit=1", "", 200, `"branch":"main","pinned":true,"id":"`+first)
	w.want("ana", "POST", conv+"/messages/pin", `{"messages":["`+first+`"],"pinned":false}`, 204, "")
	w.want("ana", "POST", conv+"/messages/trust", `{"messages":["`+first+`"],"labels":["private","untrusted"]}`, 204, "")
	w.want("ana", "POST", conv+"/messages/trust", `{"messages":["`+first+`"]}`, 204, "")
	w.want("ana", "POST", conv+"/messages/mark", `{"messages":["`+answer+`"],"state":"superseded","reason":"newer","by":"`+last+`"}`, 200, `{"changed":1}`)
	w.want("ana", "GET", conv+"/messages", "", 200, `"state":"superseded","reason":"newer","by":"ana","changed":"`)
	w.want("ana", "GET", conv+"/messages", "", 200, `"superseded_by":"`+last+`","id":"`+answer)
	w.want("ana", "GET", conv+"/changes", "", 200, `{"changes":[{"message_id":"`+answer+`","state":"superseded","at":"`)
	w.want("ana", "GET", conv+"/changes?interaction="+said.Interaction+"&tool=files.write", "", 200, `{"changes":[]}`)
	w.want("ana", "POST", conv+"/messages/mark", `{"messages":["`+last+`"],"state":"deleted"}`, 200, `{"changed":1}`)
	w.want("ana", "GET", conv+"/messages?deleted=true", "", 200, `"state":"deleted"`)
	w.want("ana", "POST", conv+"/messages/mark", `{"messages":["`+last+`"],"state":"deleted","erase":true}`, 200, `{"changed":0}`)
	w.want("ana", "GET", conv+"/interactions/"+said.Interaction, "", 200, `{"id":"`+said.Interaction+`","origin":"user","started":"`)
	w.want("ana", "GET", conv+"/interactions/"+said.Interaction, "", 200, `"messages":[{"message_id":"`+first+`","role":"user","state":"active"}`)
	w.want("ana", "POST", conv+"/interactions/"+said.Interaction+"/rollback", `{}`, 200, `{"restored":0}`)
	w.want("ana", "POST", conv+"/interactions/"+said.Interaction+"/merge", `{"from":"`+said.Interaction+`"}`, 400, "merge")
	w.want("ana", "POST", conv+"/tidy", `{"how":"optimize","tools":["test.get"]}`, 200, `{"changed":0}`)
}

func TestWork(t *testing.T) {
	w := newTown(t)
	said := w.say("ana", "", "test.get milk")
	log := "/log?conversation=" + said.Conversation + "&interaction=" + said.Interaction + "&tool=test.*&outcome=success&since=2020-01-01T00:00:00Z&branches=all&limit=5"
	entries := get[struct{ Entries []client.LogEntry }](w, "GET", log, "").Entries
	if len(entries) != 1 || entries[0].Tool != "test.get" || entries[0].Conversation != said.Conversation || entries[0].Outcome != "success" {
		t.Fatalf("%+v", entries)
	}
	call := get[client.LoggedCall](w, "GET", "/log/"+entries[0].ID, "")
	if call.Entry.ID != entries[0].ID || len(call.Messages) != 2 || !strings.Contains(string(call.Messages[1]), `"done"`) {
		t.Errorf("%+v", call)
	}
	w.want("eve", "GET", "/log", "", 200, `{"entries":[]}`)
	w.want("eve", "GET", "/log/"+entries[0].ID, "", 404, "call_not_found")

	if err := w.index.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := get[search.Page](w, "GET", `/search?q=test.get+milk&role=user&conversation=`+said.Conversation+`&since=2020-01-01T00:00:00Z&around=1&limit=5`, "")
	if len(found.Hits) != 1 || found.Hits[0].Message.String() != said.Message || len(found.Hits[0].Spans) == 0 || len(found.Hits[0].After) != 1 {
		t.Errorf("%+v", found)
	}
	w.want("eve", "GET", "/search?q=milk", "", 200, `{"hits":[]}`)

	asked := w.say("ana", "", "test.put milk")
	tree := get[client.Request](w, "GET", "/requests/"+asked.Interaction, "")
	if tree.ID != asked.Interaction || tree.State != "open" || len(tree.Below) != 1 || tree.Below[0].Intent != "awaiting_approval" {
		t.Errorf("%+v", tree)
	}
	w.want("ana", "GET", "/requests?all=true&limit=5", "", 200, `{"requests":[]}`) // the turn led to no further requests, so it is not listed
	w.want("boss+admin", "GET", "/requests?all=true&all_users=true", "", 200, `{"requests":[]}`)
	w.want("eve", "DELETE", "/requests/"+asked.Interaction, "", 404, "request_not_found")
	w.want("ana", "POST", "/requests/"+asked.Interaction+"/resume", "", 409, "request_")
	w.want("ana", "DELETE", "/requests/"+asked.Interaction, "", 204, "")
}

func TestImport(t *testing.T) {
	w := newTown(t)
	const two = `[{"title":"A","messages":[{"role":"user","content":"hello"},{"role":"critic","content":"hm"}]},{"title":"B","messages":[]},{"title":"C","messages":[{"role":"user","content":"x"}]}]`
	got := get[api.ImportReport](w, "POST", "/import?name=x.json&format=openai", two)
	if len(got.Imported) != 2 || len(got.Refused) != 1 || got.Refused[0].Code != "import_chat_empty" || got.Refused[0].Remedy == "" ||
		got.Notes == nil || got.Imported[0].Messages != 2 || len(got.Imported[0].Notes) != 1 || got.Imported[1].Title != "C" || got.Imported[1].Notes == nil {
		t.Errorf("%+v", got)
	}
	r := httptest.NewRequest("POST", api.Prefix+"/import", strings.NewReader("{}"))
	r.ContentLength = api.MaxImport + 1
	out := httptest.NewRecorder()
	api.Handler(w.o).ServeHTTP(out, r.WithContext(auth.With(r.Context(), auth.Caller{User: "ana"})))
	if out.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", out.Code, out.Body)
	}
	w.want("ana", "POST", "/convert?from=anthropic&to=openai", `{"system":"S","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"hologram"}]}]}`, 200,
		`{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"[hologram]\n{\"type\":\"hologram\"}"}]}],`+
			`"notes":["content of the type \"hologram\" is kept as text"]}`)
}
