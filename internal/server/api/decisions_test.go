package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/policy/rego"
	"steward/internal/store"
	"steward/internal/store/audit"
)

func TestApprovals(t *testing.T) {
	w := newTown(t)
	w.say("ana", "", "test.put milk")
	w.want("eve", "GET", "/approvals", "", 200, `{"approvals":[]}`)
	questions := get[struct{ Approvals []effect.Question }](w, "GET", "/approvals", "").Approvals
	if len(questions) != 1 || questions[0].Tool != "test.put" {
		t.Fatalf("%+v", questions)
	}
	one, hash := "/approvals/"+url.PathEscape(questions[0].ID), questions[0].Hash
	for _, c := range []struct{ body, code string }{
		{`{"hash":"h"}`, "member_missing"}, {`{"approve":true}`, "member_missing"}, {`{"approve":true,"hash":"h","odd":1}`, "unknown_member"},
		{`{"approve":true,"hash":"h","until":"soon"}`, "member_invalid"}, {`{"approve":false,"hash":"h","standing":"always"}`, "approval_invalid"},
	} {
		w.want("ana", "POST", one, c.body, 400, c.code)
	}
	w.want("ana", "GET", one+"?pattern=x", "", 400, "invalid_json")
	w.want("eve", "GET", one, "", 404, "approval_not_found")
	w.want("ana", "GET", one, "", 200, `"hash":"`+hash+`"`)
	pattern := `{"what":{"like":"m*"}}`
	shown := get[effect.Question](w, "GET", one+"?pattern="+url.QueryEscape(pattern), "")
	if shown.Hash == hash || shown.Pattern.String() == questions[0].Pattern.String() {
		t.Errorf("%+v", shown)
	}
	w.want("ana", "POST", one, `{"approve":true,"hash":"`+hash+`","standing":"always","pattern":`+pattern+`}`, 409, "approval_")
	w.want("ana", "POST", one, `{"approve":true,"hash":"`+shown.Hash+`","standing":"always","pattern":`+pattern+`,"until":"2999-01-02T03:04:05Z"}`, 204, "")

	grants := get[struct{ Grants []effect.GrantView }](w, "GET", "/grants?all=true", "").Grants
	if len(grants) != 1 || grants[0].Standing != effect.Always || grants[0].State != "active" || grants[0].Expires.Year() != 2999 {
		t.Fatalf("%+v", grants)
	}
	grant := "/grants/" + grants[0].ID.String()
	w.want("eve", "GET", "/grants", "", 200, `{"grants":[]}`)
	for _, c := range [][2]string{{"GET", grant}, {"PATCH", grant}, {"POST", grant + "/preview"}, {"DELETE", grant}} {
		w.want("eve", c[0], c[1], "{}", 404, "grant_not_found")
	}
	w.want("ana", "GET", grant, "", 200, `"pattern":`+pattern)
	wider := get[effect.EditedView](w, "POST", grant+"/preview", `{"until":"never"}`)
	if !wider.Wider || wider.Hash == "" {
		t.Errorf("%+v", wider)
	}
	w.want("ana", "PATCH", grant, `{"until":"never","hash":"`+wider.Hash+`"}`, 200, `"state":"active"`)
	w.want("ana", "PATCH", grant, `{"standing":"conversation"}`, 200, `"standing":"conversation"`)
	w.want("ana", "DELETE", grant, "", 204, "")
	w.want("ana", "GET", "/grants", "", 200, `{"grants":[]}`)
}

func TestIntents(t *testing.T) {
	w := newTown(t)
	w.say("ana", "", "test.put milk")
	list := get[struct{ Intents []client.Intent }](w, "GET", "/intents?state=awaiting_approval&limit=5", "").Intents
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	one := "/intents/" + list[0].ID
	body := `{"hash":"` + get[client.Intent](w, "GET", one, "").Hash + `"}`
	w.want("eve", "GET", "/intents", "", 200, `{"intents":[]}`)
	for _, verb := range []string{"approve", "deny", "cancel", "retry", "undo"} {
		w.want("eve", "POST", one+"/"+verb, body, 404, "intent_not_found")
	}
	w.service = true // a service cannot approve, but may deny
	w.want("ana", "POST", one+"/approve", body, 403, "approval_unattended")
	w.service = false
	w.want("ana", "GET", one[:len("/intents/")+8], "", 200, `"state":"awaiting_approval"`)
	w.want("ana", "POST", one+"/approve", body, 200, `"id":"`+list[0].ID)
	for { // the tool runs in the background
		v := get[client.Intent](w, "GET", one, "")
		if v.State == "done" {
			break
		}
		if v.State != "approved" && v.State != "executing" {
			t.Fatalf("%+v", v)
		}
	}
	undo := get[client.Intent](w, "POST", one+"/undo", "")
	if undo.Undoes != list[0].ID || undo.State != "done" {
		t.Errorf("%+v", undo)
	}
	w.want("ana", "POST", one+"/retry", `{}`, 409, "intent_")
	w.want("ana", "POST", one+"/resolve", `{"done":true}`, 409, "intent_")

	w.say("ana", "", "test.put bread")
	other := "/intents/" + get[struct{ Intents []client.Intent }](w, "GET", "/intents?state=awaiting_approval", "").Intents[0].ID
	w.service = true
	w.want("ana", "POST", other+"/deny", `{"hash":"`+get[client.Intent](w, "GET", other, "").Hash+`","reason":"no"}`, 200, `"state":"denied"`)
	w.service = false

	// An action that waits for another user's approval is accepted, and continues by itself.
	w.say("ana", "", "test.put salt")
	third := "/intents/" + get[struct{ Intents []client.Intent }](w, "GET", "/intents?state=awaiting_approval", "").Intents[0].ID
	w.want("ana", "POST", third+"/cancel", `{}`, 200, `"state":"cancelled"`)
	w.want("local+admin", "POST", "/groups", `{"name":"family","members":["bo"]}`, 201, "")
	if err := os.WriteFile(filepath.Join(w.rules, "house.rego"), []byte("package steward\n\napprovers contains \"family\" if input.tool.name == \"test.put\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.judge.Reload(); err != nil {
		t.Fatal(err)
	}
	w.want("ana", "POST", third+"/retry", "", 202, `"state":"awaiting_approval"`)
}

func TestAgents(t *testing.T) {
	w := newTown(t)
	list := func(user string) map[string]catalog.Listing {
		var out struct{ Agents []catalog.Listing }
		if err := json.Unmarshal([]byte(w.want(user, "GET", "/agents", "", 200, `{"agents":[`)), &out); err != nil {
			t.Fatal(err)
		}
		by := map[string]catalog.Listing{}
		for _, l := range out.Agents {
			by[l.Path] = l
		}
		return by
	}
	inspect := func(path string) (out catalog.Inspection) {
		if err := json.Unmarshal([]byte(w.want("local+admin", "POST", "/agents/inspect", `{"path":"`+path+`"}`, 200, path)), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if l := list("local+admin"); len(l) != 2 || l["email"].Status != catalog.Pending || l["email/filter"].Status != catalog.Pending {
		t.Fatalf("%+v", l)
	}
	if l := list("ana"); len(l) != 0 {
		t.Fatalf("a user sees what may not be used: %+v", l)
	}
	if insp := inspect("email/filter"); insp.Hash == "" || len(insp.Items) != 1 || insp.Items[0].Name != "agent.yaml" {
		t.Fatalf("%+v", insp)
	}
	for _, path := range []string{"email", "email/filter"} {
		w.want("local+admin", "POST", "/agents/approve", `{"path":"`+path+`","hash":"`+inspect(path).Hash+`","tools":{}}`, 200, `"status":"approved"`)
	}
	if l := list("ana"); len(l) != 2 || l["email"].Hash != "" || l["email"].Dir != "" || l["email"].By != "" || l["email"].Description != "Does email." {
		t.Fatalf("what a user is told: %+v", l)
	}
	w.want("local+admin", "POST", "/agents/revoke", `{"path":"email","reason":"enough"}`, 200, `"reason":"enough"`)
	if l := list("ana"); len(l) != 0 {
		t.Fatalf("%+v", l)
	}
	w.want("local+admin", "POST", "/agents/deny", `{"path":"email/filter"}`, 200, `"status":"denied"`)
	if err := os.WriteFile(filepath.Join(w.agents, "email", "PROMPT.md"), []byte("New."), 0o644); err != nil {
		t.Fatal(err)
	}
	if l := list("local+admin"); l["email"].Status != catalog.Pending || !l["email"].Changed || inspect("email").Diff == "" {
		t.Fatalf("%+v", l)
	}
}

func TestPolicy(t *testing.T) {
	w := newTown(t)
	if body := w.want("ana", "GET", "/policy", "", 200, w.judge.Version()); strings.Contains(body, "rego") {
		t.Error(body)
	}
	if err := os.WriteFile(filepath.Join(w.rules, "house.rego"), []byte("package steward\n\nx if y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.judge.Reload() == nil {
		t.Fatal("a faulty policy is in force")
	}
	var got struct {
		Broken string
		Files  []rego.File
	}
	if err := json.Unmarshal([]byte(w.want("boss+admin", "GET", "/policy", "", 200, "")), &got); err != nil || len(got.Files) != 5 || !strings.Contains(got.Broken, "house.rego:3") {
		t.Errorf("%+v %v", got, err)
	}
	if body := w.want("ana", "GET", "/policy", "", 200, ""); strings.Contains(body, "house.rego") {
		t.Error(body)
	}
	w.want("ana", "POST", "/policy/explain", `{"tool":"test.get","args":{"what":"x"}}`, 200, `{"answers":[{"verdict":"allow"`)
	w.want("local+admin", "POST", "/policy/explain", `{"tool":"test.get","user":"bob"}`, 200, `"name":"bob"`)
}

func TestAudit(t *testing.T) {
	w := newTown(t)
	for _, user := range []string{"ana", "bo"} {
		w.want(user, "PUT", "/resources/item?uri=cld:home.Note.of-"+user, `{}`, 201, "")
	}
	head := get[store.Head](w, "GET", "/audit/head", "")
	if answer := w.want("ana", "GET", "/audit/verify?anchor="+audit.FormatHead(head), "", 200, ""); strings.Contains(answer, "flaw") {
		t.Error(answer)
	}
	bad := fmt.Sprintf("/audit/verify?anchor=%d:%s", head.Seq-1, head.Hash)
	w.want("boss+admin", "GET", bad, "", 200, `"uri":"cld:`)
	if answer := w.want("bo", "GET", bad, "", 200, "flaw"); strings.Contains(answer, "cld:") {
		t.Errorf("bo is told %s", answer)
	}
	for caller, want := range map[string][2]bool{"ana": {true, false}, "bo": {false, true}, "eve": {false, false}, "boss+admin": {true, true}} {
		status, body, h := w.as(caller, "GET", "/audit/export?bodies=true", "")
		if status != 200 || h.Get("Content-Type") != "application/x-ndjson" || strings.Contains(body, "of-ana") != want[0] || strings.Contains(body, "of-bo") != want[1] {
			t.Errorf("%s: %d %s", caller, status, body)
		}
		if c, err := audit.VerifyExport(strings.NewReader(body+"\n"), head); err != nil || c.Flaw != nil || c.Head != head {
			t.Errorf("%s: %+v, %v", caller, c, err)
		}
	}
	for query, want := range map[string]string{"user=bo": "of-bo", "under=cld:identity.User.ana": "of-ana", "since=2000-01-01T00:00:00Z&until=2999-01-01T00:00:00Z&bodies=false": "of-bo"} {
		if body := w.want("boss+admin", "GET", "/audit/export?"+query, "", 200, want); strings.Contains(body, `"body"`) {
			t.Errorf("%s: %s", query, body)
		}
	}
}

func TestAPolicyIsTriedBeforeItIsWritten(t *testing.T) {
	w := newTown(t)
	w.say("ana", "", "test.put milk")
	in, err := json.Marshal(client.PolicyFile{Name: "house.rego", Text: "package steward\n\ndeny contains \"nothing is put\" if input.tool.name == \"test.put\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	w.want("ana+admin", "POST", "/policy/try", string(in), 200, `{"tried":1,"changes":[{`)
	w.want("ana+admin", "POST", "/policy/try", string(in), 200, `"now":"ask","then":"deny","reason":"nothing is put"`)
	w.want("local+admin", "POST", "/policy/try", string(in), 200, `{"tried":0,"changes":[]}`)
	if files, err := filepath.Glob(filepath.Join(w.rules, "house.rego")); err != nil || len(files) != 0 {
		t.Error("a trial has written the file")
	}
	w.want("ana", "POST", "/policy/try", string(in), 403, "admin_only")
	w.want("ana", "PUT", "/policy/file", string(in), 403, "admin_only")
	w.want("ana+admin", "PUT", "/policy/file", `{"name":"../x.rego","text":"package steward"}`, 400, "policy_file_invalid")
	w.want("ana+admin", "PUT", "/policy/file", string(in), 204, "")
}
