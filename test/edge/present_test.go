package edge_test

import (
	"database/sql"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // SQL driver

	"steward/test/edge"
)

// marmalade is the conversation in present.tar.gz that was deleted.
const marmalade = "01a22446-5ce7-7ee9-b1f1-3fbc3859fb07"

// testdata/present.tar.gz is a data folder with as many kinds of things as Steward
// stores. It was written by commit ee0bce66, except that this Steward accepted a
// longer timeouts.approval, so that its questions can be answered until 2126. It
// was killed twice. The folder holds
//
//   - conversations of two users, with branches, with obsolete, archived, superseded,
//     deleted, pinned and trusted messages, with a summary, and a deleted one, whose
//     deletion can be undone until 2036;
//   - turns that were routed by their words and by a model, one that a person has
//     corrected, and what is learned of that;
//   - actions that are done, deferred and done, denied, failed and retried, done and
//     undone, of unknown outcome, and two that wait for approval, one of them by a
//     group; and a standing approval;
//   - a plan that is done, and one that was interrupted by the second kill when one of
//     its two tasks was done;
//   - an agent that was asked, a background call that is done and one that was
//     interrupted, and a turn that ran at both kills;
//   - reminders for 2126, a cancelled one, and a timer that went off;
//   - a user with a key (in ada.key), a group, a secret, a skill, agents that are
//     approved, denied and revoked, and the approval of an MCP server;
//   - an agent's state and database, a result that was cut, a to-do list;
//   - resources of a user, of a group and of an agent, and a published event.
func TestADataFolderWithEverything(t *testing.T) {
	t.Parallel()
	f := &folder{script: map[string][]edge.Call{}}
	f.Node = edge.New(t, edge.Options{Model: edge.ScriptRouting(t, edge.Chooses("conversation", 0.97, ""), f.reply), SQLite: true})
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", "testdata/present.tar.gz", "-C", f.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.Write("keep: {deleted: 87600h}\nmodels: {default: openai/gpt-test, fast: openai/gpt-test, strong: openai/gpt-test}\n"+
		"folders: [{name: notes, path: "+f.Dir+"/notes, write: true}]\n", ".config", "steward", "steward.yaml")
	const whole = "The log is intact: "
	f.check("audit verify", whole)
	before := f.words()
	f.conversations()
	f.records()
	f.Serve()
	f.goesOn()
	f.reads()
	f.usesAll()
	f.Stop()
	f.check("audit verify", whole)

	// What is stored now is stored under the names of then. A name that is new was renamed, unless
	// what is stored is new as well.
	for _, name := range f.words() {
		if !slices.Contains(before, name) && !slices.Contains(rare, name) {
			t.Errorf("the store has the new name %s: what was stored under an older one may not be found any more", name)
		}
	}
}

// rare are names that the folder lacks: of work that a Steward that ends has let go, of work that
// takes long, and of what is learned of models.
var rare = []string{"lease.waiting", "lease.Beat", "llm.Calibration"}

// folder is a node on the data folder, with a model that makes the calls of a script.
type folder struct {
	*edge.Node
	mu     sync.Mutex
	script map[string][]edge.Call // by what the user says
}

func (f *folder) reply(in edge.Asked) edge.Reply {
	system, user := in.Messages[0].Text(), in.User()
	first, _, _ := strings.Cut(user, "\n")
	name, isTask := strings.CutPrefix(first, "Set the timer ")
	switch {
	case strings.Contains(system, "You plan for a person") && in.Rounds() == 0:
		leaf := func(name string, after ...string) object {
			return object{"name": name, "purpose": "Set the timer " + name, "after": append([]string{}, after...), "selected_tools": []string{"reminder.set"}}
		}
		return edge.Reply{Input: 900, Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "timers", "plan": "one after the other", "confidence": 1,
			"subtasks": []object{leaf("tea"), leaf("cake", "tea")}}}}}
	case strings.Contains(system, "You plan for a person"):
		return edge.Reply{Input: 900, Text: "The timers are set."}
	case isTask && in.Rounds() == 0:
		return edge.Reply{Input: 500, Calls: []edge.Call{{Name: "reminder.set", Args: object{"text": name, "at": "2126-02-03T09:00"}}}}
	case isTask:
		return edge.Reply{Input: 500, Text: "set " + name}
	}
	f.mu.Lock()
	calls := f.script[user]
	f.mu.Unlock()
	if in.Rounds() < len(calls) {
		return edge.Reply{Input: 700, Calls: calls[in.Rounds() : in.Rounds()+1]}
	}
	return edge.Reply{Input: 700, Text: "You said " + user + "\n" + strings.Join(in.Results(), "\n")}
}

// check runs a command and looks for texts in what it prints.
func (f *folder) check(args string, want ...string) {
	f.T.Helper()
	got := f.Must(strings.Fields(args)...)
	for _, w := range want {
		if !strings.Contains(got, w) {
			f.T.Errorf("steward %s: no %q in\n%s", args, w, got)
		}
	}
}

// says makes a turn in which the model makes calls, approves everything, and looks for texts in
// the answer, which has the results of the last call.
func (f *folder) says(agent, text string, want []string, calls ...edge.Call) edge.Answer {
	f.T.Helper()
	return f.saysIn("", agent, text, want, calls...)
}

// saysIn is says in a conversation, if one is given.
func (f *folder) saysIn(conversation, agent, text string, want []string, calls ...edge.Call) edge.Answer {
	f.T.Helper()
	f.mu.Lock()
	f.script[text] = calls
	f.mu.Unlock()
	m := object{"content": text}
	if agent != "" {
		m["agent"] = agent
	}
	if conversation != "" {
		m["conversation_id"] = conversation
	}
	c := f.Dial()
	defer c.Close()
	a := c.Turn(m, func(edge.Approval) string { return "approve" })
	for _, w := range want {
		if !strings.Contains(a.Text, w) {
			f.T.Errorf("%s: no %q in %s %s", text, w, a.Code, a.Text)
		}
	}
	return a
}

// titled returns the id of a conversation by its title.
func (f *folder) titled(title string) string {
	f.T.Helper()
	var list []struct{ ID, Title string }
	f.JSON(&list, "conversations", "list")
	for _, c := range list {
		if c.Title == title {
			return c.ID
		}
	}
	f.T.Fatalf("no conversation %q in %+v", title, list)
	return ""
}

// conversations looks at conversations without a server.
func (f *folder) conversations() {
	f.T.Helper()
	sums := " --conversation " + f.titled("What is 17 * 23?")
	f.check("branch list"+sums, "main         14 messages", "again: Once more on the branch")
	f.check("messages list"+sums, "437", "You said Once more on the branch")
	f.check("messages changes"+sums, "obsolete  you", "archived  you", "deleted   you")
	f.check("branch switch main" + sums)
	f.check("messages list"+sums, "obsolete", "archived", "pinned", "This is to be kept.")
	f.check("messages changes --conversation "+f.titled("Tell me of the sea"), "superseded  you")
	f.check("conversations show "+f.titled("What is this mail?"), "Ring the bell.")
	f.check("conversations undelete "+marmalade, "")
	f.check("conversations show "+marmalade, "You said Forget the marmalade")
	f.check("search marmalade", "Forget the marmalade")
	f.check("search orchid", "You said How often should I water my orchid?")
	f.check("conversations show "+f.titled("Tea"), "Reminder, ", `The timer "tea" is over.`)
	f.check("conversations show "+f.titled("Ask the desk"), "You said What do you keep?")
	f.check("route stats", "3 messages were routed", "local       66.7 %", "model       33.3 %", "corrected: 1")
	f.check("route Has Hildegard been drinking enough?", "weather")
}

// records looks at the other records without a server.
func (f *folder) records() {
	f.T.Helper()
	f.check("agents list", "desk     approved", "plants   approved", "fired    revoked", "refused  denied")
	f.check("skills list", "How letters are written.")
	f.check("users list", "ada    member  enabled  family  Ada L.")
	f.check("groups list", "family  ada, local*  The family")
	f.check("keys list", "good ", "laptop")
	f.check("secrets list", "DOOR")
	f.check("grants list", `files.write: content = "x", path = "workspace/a.txt"`)
	f.check("approvals list", "Nov 2126", "you     Write notes/b.txt", "family  Write notes/ours.txt")
	f.check("intents list --limit 100", "✓ done, undone ", "✗ failed, retried ", "✗ denied ", "? unknown ", "Take back: Write notes/plan.txt", "Try again: Desk: fail", "desk.post")
	f.check("log --limit 100", "✓  desk.ask", "✓  desk.big", "✓  desk.slow", "✗  desk.ring", "?  desk.stuck", "…  desk.late", "Multiply 17 by 23 (obsolete)")
	f.check("plans list", "done", "Set the timers for rice and beans")
	f.check("plans show last", "rice   done     designed  reminder.set", "- beans: Set the timer beans", "after: rice")
	f.check("requests list", "task desk.late (running)", "Be late (answered", "Set the timers for soup and bread", "Set the timer bread")
	f.check("resources get cld:home.Note.shopping", "version  2", "state    open", `"eggs"`)
	f.check("resources history cld:home.Note.shopping", "1        -")
	f.check("resources get cld:home.Note.desk", "by agent:desk")
	f.check("resources get cld:identity.Group.family/home.Note.rules", "group:family", "The rules")
	f.check("resources list --type tool.Source", "tool.Source.mcp:raw")
	f.check("resources list --type llm.Usage", "llm.Usage.")
	f.check("resources list --type jobs.Alarm --state due", "user:local")
	f.check("events watch -q --prefix cld:home.Lamp.kitchen --from start --limit 1 --bodies --json", `"published":true`, `"on":true`)
}

// goesOn looks at what the second kill interrupted, and answers what waits for a person.
func (f *folder) goesOn() {
	f.T.Helper()
	var list []struct{ ID, Tool, State, Summary string }
	f.JSON(&list, "intents", "list", "--limit", "100")
	for _, in := range list {
		switch {
		case in.Tool == "desk.stuck":
			f.check("intents resolve --done " + in.ID)
		case strings.Contains(in.Summary, "b.txt"):
			f.check("approvals approve --yes " + in.ID)
		case strings.Contains(in.Summary, "ours.txt"):
			f.check("approvals deny " + in.ID)
		}
	}
	hung := f.titled("Hang in there")
	var parked []string
	for _, r := range requests(f.Node) {
		if r.Status == "parked" {
			parked = append(parked, r.Conversation)
			f.check("requests resume " + r.ID)
		}
	}
	if !slices.Equal(parked, []string{hung}) {
		f.T.Errorf("parked %v, want %s", parked, hung)
	}
	f.Until("nothing is open", func() bool { return len(requests(f.Node)) == 0 })
	for title, want := range map[string]string{"Hang in there": "You said Hang in there", "Set the timers for soup and bread": "The timers are set.",
		"Write b": "Wrote notes/b.txt", "Write ours": "[denied]", "Be late": "late", "Get stuck": "desk.stuck"} {
		f.check("conversations show "+f.titled(title), want)
	}
	if b, err := os.ReadFile(f.Dir + "/notes/b.txt"); err != nil || string(b) != "new" {
		f.T.Errorf("%s %v", b, err)
	}
	if _, err := os.Stat(f.Dir + "/notes/ours.txt"); err == nil {
		f.T.Error("what was denied was done")
	}
	f.check("plans show last", "Set the timers for soup and bread", "outcome      done", "actions      2")
	f.check("intents list --limit 100", "✓ done           ")
}

// reads has tools read what was kept for them, and uses what was approved.
func (f *folder) reads() {
	f.T.Helper()
	f.says("assistant", "List them", []string{"the year 2126", "rice", "beans", "soup", "bread"}, edge.Call{Name: "reminder.list", Args: object{}})
	f.says("desk", "Get it", []string{"Graz"}, edge.Call{Name: "state.get", Args: object{"key": "city"}})
	f.says("desk", "Query it", []string{"kept in the database"}, edge.Call{Name: "db.query", Args: object{"sql": "SELECT x FROM t"}})
	f.says("desk", "List the tasks", []string{"buy milk"}, edge.Call{Name: "todo.list", Args: object{}})
	f.says("assistant", "Read the skill", []string{"Begin with Dear."}, edge.Call{Name: "skills.read", Args: object{"name": "letters"}})
	var rest struct{ Resources []struct{ URI string } }
	f.JSON(&rest, "resources", "list", "--type", "tool.Overflow")
	if len(rest.Resources) != 1 {
		f.T.Fatalf("%+v", rest)
	}
	f.saysIn(f.titled("Say much"), "assistant", "Read on", []string{"play makes 1200."}, edge.Call{Name: "results.read", Args: object{"uri": rest.Resources[0].URI, "offset": 35_000}})
	if a := f.says("assistant", "Write it again", []string{"workspace/a.txt"}, edge.Call{Name: "files.write", Args: object{"path": "workspace/a.txt", "content": "x"}}); len(a.Asked) != 0 {
		f.T.Errorf("the standing approval does not count: %+v", a)
	}
	key, err := os.ReadFile(f.Dir + "/ada.key")
	if err != nil {
		f.T.Fatal(err)
	}
	status, b := f.HTTP("GET", "/api/v1/conversations", nil, "Authorization", "Bearer "+string(key))
	if status != 200 || !strings.Contains(string(b), `"title":"I am Ada"`) || strings.Contains(string(b), "orchid") {
		f.T.Errorf("%d %s", status, b)
	}
}

// usesAll stores things of many kinds once more.
func (f *folder) usesAll() {
	f.T.Helper()
	first := f.says("", "How often should I water my orchid?", []string{"You said How often"})
	c := f.Dial()
	defer c.Close()
	again := c.Turn(object{"conversation_id": first.Conversation, "regenerate": first.Frames[len(first.Frames)-1].MessageID, "agent": "weather"}, nil)
	if again.Code != "" {
		f.T.Errorf("%s %s", again.Code, again.Text)
	}
	list := messages(f.Node, first.Conversation)
	conv := " --conversation " + first.Conversation + " "
	f.check("messages pin" + conv + list[0].ID)
	if status, b := f.HTTP("POST", "/api/v1/conversations/"+first.Conversation+"/messages/mark",
		object{"messages": []string{list[0].ID}, "state": "superseded", "by": list[1].ID}); status != 200 {
		f.T.Errorf("%d %s", status, b)
	}
	f.check("branch new --title other" + conv)
	f.check("conversations compact " + first.Conversation)
	f.check("conversations delete --yes " + first.Conversation)
	f.says("planner", "Set the timers for tea and cake", []string{"The timers are set."})
	f.says("assistant", "Cancel tea", []string{"was cancelled"}, edge.Call{Name: "reminder.cancel", Args: object{"which": "tea"}})
	f.says("assistant", "Ask the desk again", []string{"You said And now?"}, edge.Call{Name: "desk.ask", Args: object{"request": "And now?"}})
	for _, tool := range []string{"ring", "fail", "big", "slow", "post"} {
		f.says("desk", "Use "+tool, nil, edge.Call{Name: "desk." + tool, Args: object{}})
	}
	f.says("desk", "Keep two", []string{"Kept as "}, edge.Call{Name: "state.put", Args: object{"key": "town", "value": "Linz"}},
		edge.Call{Name: "resource.put", Args: object{"uri": "cld:home.Note.two", "body": object{"purpose": "Two"}}})
	f.Until("nothing is open any more", func() bool {
		var questions []struct{ ID string }
		f.JSON(&questions, "approvals", "list")
		for _, q := range questions { // of deferred actions
			f.Run("approvals", "approve", "--yes", q.ID)
		}
		return len(requests(f.Node)) == 0
	})
	f.check("users add bob")
	f.check("groups add work --member bob")
	f.check("keys create --user bob")
	f.check("resources put cld:home.Note.shopping --state open --body {}")
	f.check("events publish cld:home.Lamp.kitchen --body {}")
}

// words returns the names in the store: of states, terms and types.
func (f *folder) words() (list []string) {
	f.T.Helper()
	db, err := sql.Open("sqlite", "file:"+f.Data("steward.db"))
	if err != nil {
		f.T.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT CAST(text AS TEXT) FROM name WHERE kind IN (3, 4, 5)")
	if err != nil {
		f.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			f.T.Fatal(err)
		}
		list = append(list, name)
	}
	if err := rows.Err(); err != nil || len(list) == 0 {
		f.T.Fatal(list, err)
	}
	return list
}
