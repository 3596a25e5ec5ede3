package crossing

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"steward/internal/id"
)

// bait is a word in everything that ann says, so that a search can find it.
const bait = "lighthousekeeper"

// things are the ids of one user's things, or ids that belong to nobody. All
// fields are strings, so that nobodys can replace each of them.
type things struct {
	Conv, Asked, Said, Turn string // a conversation, the first message in it, its answer, their interaction
	Second                  string // the interaction after it
	Wrote                   string // the interaction that wrote a file which had been read
	Branch, Next            string // its second branch; the cursor of a page of its messages
	LogMessage              string // the message of a call, which is entry LogMessage/0 of the work log
	CallID                  string // the provider's id of that call
	Pages                   string // the cursor of a page of conversations
	Waiting, Question       string // a conversation whose turn waits for an approval; the question
	Seen                    string // the hash of the question as shown: the member of an answer that repeats it
	Task                    string // the request of a task
	Plan                    string // the record of a plan
	Rest                    string // the resource that holds the part cut off a result
	Victim, VictimBranch    string // a conversation to delete, and a branch of it
	Deleted                 string // a deleted conversation
	Key                     string
	Intent, Done            string // the ids of a waiting action and of a completed one
	Grant                   string // a standing approval
	Families, FamilySeen    string // a question that the family answers, and its hash as shown
	StateKey                string
	Job                     string // the name of a job
	Goal, Project           string // ids
	Fact                    string // id
	Share                   string // id
	Session                 string // the id of a session of a browser
	FileMessage             string // a message of Conv with an attached file, which is its second block
	Document                string // id
	Entity                  string // the IRI of one in the graph, and its source
	Event                   string // a published event
	Note, Shared, Spare     string // URIs of resources: one of ann's, and the family's
}

// uris returns the URIs of ann's things.
func (x things) uris() []string {
	conv := "cld:common.Conversation." + x.Conv
	return []string{x.Note, conv, conv + "/common.Interaction." + x.Turn, conv + "/common.Interaction." + x.Turn + "/common.Message." + x.Said,
		x.Question, x.Rest, "cld:identity.Key." + x.Key}
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var rest = regexp.MustCompile(`"rest":"([^"]+)"`)

var published = regexp.MustCompile(`"id": *"([^"]+)"`)

// group returns the match of the first group, or "".
func group(found []string) string {
	if found == nil {
		return ""
	}
	return found[1]
}

// nobodys returns ids of the same form that belong to nobody.
func (x things) nobodys() things {
	made := map[string]string{}
	v := reflect.ValueOf(&x).Elem()
	for i := range v.NumField() {
		v.Field(i).SetString(uuid.ReplaceAllStringFunc(v.Field(i).String(), func(s string) string {
			if made[s] == "" {
				made[s] = id.New().String()
			}
			return made[s]
		}))
	}
	return x
}

// whole returns an error if ann's things lack a field.
func (x things) whole() error {
	v := reflect.ValueOf(x)
	for i := range v.NumField() {
		if v.Field(i).String() == "" {
			return fmt.Errorf("ann made no %s", v.Type().Field(i).Name)
		}
	}
	return nil
}

// mark returns a text that only this user may get back.
func (w *world) mark(user, of string) string { return bait + " " + of + " " + w.canary[user] }

// maker creates things as a user.
type maker struct {
	*world
	user string
}

// do makes a step that must succeed and records the ids in its answer.
func (w maker) do(s step) string {
	w.T.Helper()
	a := w.world.do(w.user, s, nil)
	if a.code != "" {
		w.T.Fatalf("%s: %s", s, a.body)
	}
	w.learn(w.user, a.body)
	return a.body
}

func (w maker) mark(of string) string { return w.world.mark(w.user, of) }

func (w maker) turn(conv, agent, text string) (accepted, last map[string]any) {
	w.T.Helper()
	return w.world.turn(w.user, conv, agent, text)
}

func (w *world) learn(user, text string) {
	if w.ids[user] == nil {
		return
	}
	for _, x := range uuid.FindAllString(text, -1) {
		if !w.ids[family][x] {
			w.ids[user][x] = true
		}
	}
}

// turn makes a turn of a user and waits until it ends or needs an approval.
func (w *world) turn(user, conv, agent, text string) (accepted, last map[string]any) {
	w.T.Helper()
	s := w.dial(user)
	defer s.Close()
	frame := map[string]any{"type": "message", "id": "1", "content": text}
	if conv != "" {
		frame["conversation_id"] = conv
	}
	if agent != "" {
		frame["agent"] = agent
	}
	s.Send(frame)
	accepted = s.until(func(f map[string]any) bool { return f["re"] == "1" })
	if accepted["type"] != "accepted" {
		w.T.Fatalf("%v", accepted)
	}
	last = s.until(func(f map[string]any) bool {
		return f["type"] == "complete" || f["type"] == "error" || f["status"] == "awaiting_approval"
	})
	if last["type"] == "error" {
		w.T.Fatalf("%s: %v", text, last)
	}
	w.learn(user, s.told.String())
	w.told = s.told.String()
	return accepted, last
}

func text(f map[string]any, key string) string { s, _ := f[key].(string); return s }

// question returns the id of the question that a turn waits for, and the member
// of an answer that repeats the hash shown.
func question(waiting map[string]any) (id, seen string) {
	q, _ := waiting["approval"].(map[string]any)
	return text(q, "id"), fmt.Sprintf(`"hash":%q`, text(q, "hash"))
}

// approved makes a turn, approves it as the user and returns its interaction.
func (w maker) approved(conv, agent, said string) string {
	w.T.Helper()
	acc, end := w.turn(conv, agent, said)
	if end["status"] != "awaiting_approval" { // no approval needed
		return text(acc, "interaction_id")
	}
	s := w.dial(w.user)
	defer s.Close()
	s.Send(map[string]any{"type": "resume", "conversation_id": text(acc, "conversation_id"), "cursor": "now"})
	q := end["approval"].(map[string]any)
	s.Send(map[string]any{"type": "approve", "id": "yes", "approval_id": q["id"], "standing": "always", "hash": q["hash"]})
	s.until(func(f map[string]any) bool { return f["type"] == "complete" || f["type"] == "error" })
	if all := s.told.String(); !strings.Contains(all, `"status":"ok"`) && !strings.Contains(all, `"status":"accepted"`) {
		w.T.Fatalf("%s: %s", said, s.told.String())
	}
	w.learn(w.user, s.told.String())
	return text(acc, "interaction_id")
}

// share records the ids in a text as the family's.
func (w *world) share(text string) {
	for _, x := range uuid.FindAllString(text, -1) {
		delete(w.ids[ann], x)
		w.ids[family][x] = true
	}
}

// intent returns the id of an action in a state: of the one with the URI, or,
// without a URI, of the first todo.add listed.
func (w maker) intent(state, uri string) string {
	w.T.Helper()
	var out struct {
		Intents []struct{ ID, URI, Tool string }
	}
	if err := json.Unmarshal([]byte(w.do(get("/api/v1/intents?state="+state))), &out); err != nil {
		w.T.Fatal(err)
	}
	for _, in := range out.Intents {
		if in.URI == uri || uri == "" && in.Tool == "todo.add" {
			return in.ID
		}
	}
	w.T.Fatalf("no action %s is %s: %+v", uri, state, out)
	return ""
}

// made creates one of everything as a user.
func (w *world) made(user string) things { return maker{w, user}.made() }

func (w maker) made() (x things) {
	w.T.Helper()
	var out struct {
		ID       string
		Next     string
		Messages []struct {
			ID     string
			Role   string
			Blocks []struct {
				Type   string
				CallID string `json:"call_id"`
			}
		}
		Branch string
	}
	read := func(body string) {
		w.T.Helper()
		out.Messages, out.ID, out.Next = nil, "", ""
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			w.T.Fatalf("%v: %s", err, body)
		}
	}
	acc, end := w.turn("", "", w.mark("talk"))
	x.Conv, x.Asked, x.Said, x.Turn = text(acc, "conversation_id"), text(acc, "message_id"), text(end, "message_id"), text(acc, "interaction_id")
	acc, _ = w.turn(x.Conv, "", `CALL math.evaluate {"expression":"6*7"} `+w.mark("log"))
	x.Second = text(acc, "interaction_id")
	for _, text := range []string{"more", "and more"} {
		w.turn(x.Conv, "", w.mark(text))
	}
	conv := "/api/v1/conversations/" + x.Conv
	read(w.do(get(conv + "/messages?limit=1000")))
	for _, m := range out.Messages {
		if m.Role == "assistant" && len(m.Blocks) > 0 && m.Blocks[0].Type == "tool_call" {
			x.LogMessage, x.CallID = m.ID, m.Blocks[0].CallID
		}
	}
	w.do(act("send", fmt.Sprintf(`{"conversation":%q,"text":"see this","files":[{"name":"%s.txt","mime":"text/plain","data":%q}]}`, x.Conv, w.mark("name"), base64.StdEncoding.EncodeToString([]byte(w.mark("attached"))))))
	w.Until("the file is answered", func() bool {
		read(w.do(get(conv + "/messages?limit=2&reverse=true")))
		x.FileMessage = out.Messages[1].ID
		return out.Messages[0].Role == "assistant" && len(out.Messages[1].Blocks) == 2
	})
	w.do(patch(conv, `{"title":"`+w.mark("title")+`"}`))
	w.do(post(conv+"/messages/mark", `{"messages":["`+x.Said+`"],"state":"invalidated","reason":"`+w.mark("reason")+`"}`))
	read(w.do(post(conv+"/branches", `{"message":"`+x.Said+`","title":"`+w.mark("branch")+`"}`)))
	x.Branch = out.ID
	w.do(post(conv+"/messages/insert", `{"after":"`+x.Asked+`","text":"`+w.mark("inserted")+`"}`))
	w.do(patch(conv+"/branches/main", `{"preferred":true}`))
	read(w.do(get(conv + "/messages?limit=1")))
	x.Next = out.Next

	w.turn(x.Conv, "", `CALL reminder.set {"in_minutes":100000,"text":"`+w.mark("reminder")+`"}`)
	w.turn(x.Conv, "", `CALL timer.set {"seconds":2000000,"name":"`+w.mark("countdown")+`"}`)
	w.turn(x.Conv, "", `CALL files.read {"path":"notes/welcome.txt"} `+w.mark("read"))
	x.Wrote = w.approved(x.Conv, "", `CALL files.write {"path":"notes/welcome.txt","overwrite":true,"content":"Welcome all.\n"} `+w.mark("write"))
	acc, end = w.turn("", "", `CALL files.write {"path":"notes/of_`+w.user+`.txt","content":"`+w.mark("file")+`"}`)
	x.Waiting = text(acc, "conversation_id")
	x.Question, x.Seen = question(end)
	if w.user == ann {
		_, end = w.turn("", "", `CALL files.write {"path":"notes/ours.txt","content":"`+w.shared+`"}`)
		x.Families, x.FamilySeen = question(end)
		w.share(w.told)
		w.share(w.do(get("/api/v1/intents/" + url.PathEscape(x.Families))))
	} else {
		x.Families, x.FamilySeen = x.Question, x.Seen
	}
	w.keep()
	var list struct {
		Requests []struct{ ID, Kind string }
	}
	if err := json.Unmarshal([]byte(w.do(get("/api/v1/requests?all=true"))), &list); err != nil {
		w.T.Fatal(err)
	}
	for _, r := range list.Requests {
		if r.Kind == "task" {
			x.Task = r.ID
		}
	}
	x.Intent, x.Done = w.intent("awaiting_approval", x.Question), w.intent("done", "")
	var grants struct{ Grants []struct{ ID string } }
	if err := json.Unmarshal([]byte(w.do(get("/api/v1/grants"))), &grants); err != nil || len(grants.Grants) == 0 {
		w.T.Fatalf("grants: %v", err)
	}
	x.Grant = grants.Grants[0].ID
	w.turn("", "desk", `CALL db.query {"sql":"select '`+w.mark("rest")+`' || hex(zeroblob(100000))"}`)
	x.Rest = group(rest.FindStringSubmatch(w.told))
	w.turn("", "", `CALL desk.ask {"request":"CALL time.now {} `+w.mark("asked")+`"}`)

	w.turn("", "planner", `CALL plan.start {"analysis":"a","plan":"p","confidence":1,"purpose":"`+w.mark("planned")+`"}`)
	var plans struct{ Plans []struct{ ID string } }
	if err := json.Unmarshal([]byte(w.do(get("/api/v1/plans"))), &plans); err != nil || len(plans.Plans) != 1 {
		w.T.Fatalf("plans: %v", err)
	}
	x.Plan = plans.Plans[0].ID

	acc, _ = w.turn("", "", w.mark("victim"))
	x.Victim = text(acc, "conversation_id")
	read(w.do(post("/api/v1/conversations/"+x.Victim+"/branches", `{"message":"`+text(acc, "message_id")+`"}`)))
	x.VictimBranch = out.ID
	acc, _ = w.turn("", "", w.mark("deleted"))
	x.Deleted = text(acc, "conversation_id")
	w.do(del("/api/v1/conversations/" + x.Deleted))
	read(w.do(get("/api/v1/conversations?limit=1")))
	x.Pages = out.Next

	w.do(post("/api/v1/import?name=hers.json", `[{"role":"user","content":"`+w.mark("import")+`"},{"role":"assistant","content":"hm"}]`))
	w.do(put("/api/v1/profile", `{"location":"`+w.mark("place")+`","personas":{"own":{"tone":"`+w.mark("tone")+`"}},"persona":{"*":"own"}}`))
	x.StateKey = "of_" + w.user
	w.do(put("/services/v1/state/noted-"+w.canary[w.user], `1`).as("desk"))
	w.do(put("/services/v1/state/"+x.StateKey, `"`+w.mark("state")+`"`).as("desk"))
	w.do(post("/services/v1/db/exec", `{"statements":[{"sql":"create table of_`+w.user+` (x)"},{"sql":"insert into of_`+w.user+` values (?)","args":["`+w.mark("db")+`"]}]}`).as("desk"))
	x.Job = "of-" + w.user
	w.do(post("/api/v1/jobs", `{"text":"`+w.mark("job")+`","name":"`+x.Job+`","once":"2037-01-02T10:00:00Z","overlap":"queue"}`))
	var effort struct{ ID string }
	for kind, of := range map[string]*string{"goals": &x.Goal, "projects": &x.Project} {
		if err := json.Unmarshal([]byte(w.do(post("/api/v1/"+kind, `{"title":"`+w.mark(kind)+`","next_actions":["`+w.mark("next")+`"]}`))), &effort); err != nil {
			w.T.Fatal(err)
		}
		*of = effort.ID
	}
	var fact struct{ Fact struct{ ID string } }
	if err := json.Unmarshal([]byte(w.do(post("/api/v1/memory/facts", `{"text":"`+w.mark("fact")+`"}`))), &fact); err != nil {
		w.T.Fatal(err)
	}
	x.Fact = fact.Fact.ID
	if err := json.Unmarshal([]byte(w.do(post("/api/v1/documents?path=/home/"+w.user+"/"+w.canary[w.user]+".md", w.mark("document")))), &effort); err != nil {
		w.T.Fatal(err)
	}
	x.Document = effort.ID
	x.Entity = "urn:of:" + w.user
	w.do(post("/api/v1/graph/triples", `{"subject":"`+x.Entity+`","predicate":"says","value":"`+w.mark("triple")+`","source":"`+x.Entity+`"}`))
	var share struct{ ID string }
	if err := json.Unmarshal([]byte(w.do(post("/api/v1/conversations/"+x.Conv+"/shares", `{"within":"24h"}`))), &share); err != nil {
		w.T.Fatal(err)
	}
	x.Share = share.ID
	w.signIn(w.user) // another browser
	var browsers struct{ Sessions []struct{ ID string } }
	if err := json.Unmarshal([]byte(w.world.do(w.user, get("/api/v1/sessions"), nil).body), &browsers); err != nil || len(browsers.Sessions) != 2 {
		w.T.Fatalf("%d sessions: %v", len(browsers.Sessions), err)
	}
	x.Session = browsers.Sessions[0].ID // the newest: the browser that makes requests stays signed in
	x.Key = w.spare[w.user].String()
	x.Note = "cld:identity.User." + w.user + "/home.Note." + id.New().String()
	w.do(put("/api/v1/resources/item?uri="+x.Note, `{"text":"`+w.mark("note")+`"}`))
	x.Event = published.FindStringSubmatch(w.do(post("/event.Event/Publish", `{"resources":[{"uri":"`+x.Note+`"}]}`)))[1]
	for _, of := range []*string{&x.Shared, &x.Spare} {
		*of = "cld:identity.Group.family/home.Note." + id.New().String()
		w.share(*of)
		if w.user != ann { // ann creates the family's things
			continue
		}
		if a := w.world.do(ann, put("/api/v1/resources/item?space=group:family&uri="+*of, `{"text":"`+w.shared+`"}`), nil); a.code != "" {
			w.T.Fatal(a.body)
		}
	}
	if err := x.whole(); err != nil {
		w.T.Fatal(err)
	}
	w.Until("the background call is told", func() bool { return !strings.Contains(w.do(get("/api/v1/requests")), `"kind":"task"`) })
	return x
}

// keep stores something with each of the desk's tools.
func (w maker) keep() {
	w.T.Helper()
	for _, c := range []struct{ tool, args string }{
		{"state.put", `{"key":"of_%u","value":"%s"}`},
		{"db.exec", `{"sql":"create table of_%u (x)"}`},
		{"db.exec", `{"sql":"insert into of_%u values ('%s')"}`},
	} {
		args := strings.ReplaceAll(strings.ReplaceAll(c.args, "%s", w.mark(c.tool)), "%u", w.user)
		if body := w.do(execute("desk", c.tool, args)); !strings.Contains(body, "CALL_STATUS_OK") {
			w.T.Fatalf("%s: %s", c.tool, body)
		}
	}
	for _, c := range []struct{ tool, args string }{
		{"todo.add", `{"title":"%s"}`},
		{"calendar.add", `{"title":"%s","start":"2030-01-02T10:00:00"}`},
		{"slow.work", `{}`},
	} {
		w.approved("", "desk", "CALL "+c.tool+" "+strings.ReplaceAll(c.args, "%s", w.mark(c.tool)))
	}
	w.approved("", "", `CALL todo.add {"title":"`+w.mark("todo.add")+`"}`)
	w.approved("", "", `CALL calendar.add {"title":"`+w.mark("calendar.add")+`","start":"2030-01-02T10:00:00"}`)
}

// execute calls a tool.
func execute(agent, name, args string) step {
	b, err := json.Marshal(map[string]any{"agent": agent, "function": map[string]any{"name": name, "arguments": args}})
	if err != nil {
		panic(err)
	}
	return post("/tool.Tool/ExecuteTool", string(b))
}
