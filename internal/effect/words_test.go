package effect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/browser"
	"steward/internal/tools/calendar"
	"steward/internal/tools/clock"
	"steward/internal/tools/contacts"
	"steward/internal/tools/dav"
	"steward/internal/tools/files"
	"steward/internal/tools/home"
	"steward/internal/tools/local"
	"steward/internal/tools/mail"
	"steward/internal/tools/math"
	"steward/internal/tools/notify"
	"steward/internal/tools/reminder"
	"steward/internal/tools/shell"
	"steward/internal/tools/task"
	"steward/internal/tools/web"
	_ "steward/test/seed"
)

// builtIns returns Steward's own tools by name.
func builtIns(t testing.TB) map[string]tool.Tool {
	t.Helper()
	out := map[string]tool.Tool{}
	add := func(list []tool.Tool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			out[x.Spec().Name] = x
		}
	}
	kit := func(name string, fill func(*local.Kit, local.Place)) {
		t.Helper()
		env := tool.Env{Name: name, Data: t.TempDir()}
		place, err := local.NewPlace(env, "notes")
		if err != nil {
			t.Fatal(err)
		}
		k := local.NewKit(env, "domain:"+name)
		fill(k, place)
		add(k.Tools())
	}
	accounts := dav.Accounts{List: []dav.Account{{Name: "home"}}}
	add(math.Tools())
	add(clock.Tools(local.Options{}))
	add(files.Tools(files.Options{Folders: []files.Folder{{Name: "workspace", Path: t.TempDir(), Write: true}}, Notes: "workspace/Notes",
		Trash: func(string) string { return t.TempDir() }}))
	add(shell.Tools(shell.Options{}))
	add(browser.New(browser.Options{}).Tools())
	kit("todo", func(k *local.Kit, p local.Place) { task.Add(k, p, task.Options{}) })
	kit("calendar", func(k *local.Kit, p local.Place) { calendar.Add(k, p, calendar.Options{Accounts: accounts}) })
	kit("contacts", func(k *local.Kit, p local.Place) { contacts.Add(k, p, accounts) })
	kit("mail", func(k *local.Kit, p local.Place) { mail.Add(k, p, mail.Options{}) })
	kit("reminder", func(k *local.Kit, _ local.Place) { reminder.AddReminders(k, reminder.Options{}) })
	kit("timer", func(k *local.Kit, _ local.Place) { reminder.AddTimers(k, reminder.Options{}) })
	kit("notify", func(k *local.Kit, _ local.Place) { notify.Add(k, notify.New(notify.Options{})) })
	kit("web", func(k *local.Kit, _ local.Place) { web.Add(k, web.Options{}) })
	kit("home", func(k *local.Kit, _ local.Place) { home.Add(k, home.New(home.Options{})) })
	return out
}

// questionAbout returns the question about a call, as far as a person reads it first.
func questionAbout(t testing.TB, x tool.Tool, args string, labels message.Labels, read ...string) Question {
	t.Helper()
	canonical, err := tool.Canonical([]byte(args))
	if err != nil {
		t.Fatal(err)
	}
	spec := x.Spec()
	in := &intent.Intent{Tool: spec.Name, Version: spec.Version, Args: string(canonical), Labels: labels, Rule: "default/tools.rego:61", Reason: spec.Name + " changes something"}
	q := Question{Tool: spec.Name, Args: canonical, Labels: labels.Names(), Read: read, Arguments: tool.Arguments(canonical, spec.Input)}
	if err := q.words(in, spec, false, nil); err != nil {
		t.Fatal(err)
	}
	if q.Widths, err = widths(x, canonical, nil); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *Question) offered() string {
	var names []string
	for _, w := range q.Widths {
		names = append(names, w.Name)
	}
	return strings.Join(names, " | ")
}

func (q *Question) beside() string {
	var out []string
	for _, v := range q.Values {
		out = append(out, v.Name+"="+v.Text)
	}
	return strings.Join(out, " ")
}

// TestQuestionsAboutBuiltInTools has what a person reads about each built-in action: the sentence, why it is
// asked, the values beside it, and the offered widths.
func TestQuestionsAboutBuiltInTools(t *testing.T) {
	tools := builtIns(t)
	cases := []struct{ name, args, summary, why, beside, widths string }{
		{"files.write", `{"path":"workspace/a/notes.txt","content":"one\ntwo\n"}`, "Write workspace/a/notes.txt, 2 lines", "It changes a file.", "content=one\ntwo\n",
			"write workspace/a/notes.txt, whatever is in it | write files in workspace/a | exactly this"},
		{"files.write", `{"path":"workspace/my notes.txt","content":"","overwrite":true}`, `Write "workspace/my notes.txt", empty`, "It changes a file.", "content= overwrite=true",
			`write "workspace/my notes.txt", whatever is in it | exactly this`},
		{"files.edit", `{"path":"workspace/a.txt","old":"x","new":"y"}`, "Edit workspace/a.txt", "It changes a file.", "new=y old=x", "edit workspace/a.txt | edit files in workspace | exactly this"},
		{"files.move", `{"from":"workspace/in/a.txt","to":"workspace/out/b.txt"}`, "Move workspace/in/a.txt to workspace/out/b.txt", "It moves or renames a file.", "",
			"move files from workspace/in to workspace/out | exactly this"},
		{"files.delete", `{"path":"workspace/old/a.txt"}`, "Delete workspace/old/a.txt", "It moves a file or folder to the trash.", "", "delete anything in workspace/old | exactly this"},
		{"notes.write", `{"title":"Shopping","text":"milk"}`, "Write the note Shopping, 1 line", "It changes a note.", "text=milk", "write the note Shopping, whatever is in it | exactly this"},
		{"notes.append", `{"title":"Shopping","text":"milk"}`, "Add 1 line to the note Shopping", "It changes a note.", "text=milk", "add anything to the note Shopping | exactly this"},
		{"todo.add", `{"title":"three"}`, "Add the task three", "It changes your to-do list.", "", "add any task | exactly this"},
		{"todo.add", `{"title":"buy milk","due":"2026-12-01","list":"home"}`, `Add the task "buy milk", due Tue 1 Dec 2026, to the list home`, "It changes your to-do list.", "",
			"add any task to the list home | exactly this"},
		{"todo.complete", `{"task":"buy milk"}`, `Complete the task "buy milk"`, "It changes your to-do list.", "", "complete any task | exactly this"},
		{"todo.delete", `{"task":"2"}`, "Delete the task 2", "It changes your to-do list.", "", "delete any task | exactly this"},
		{"reminder.set", `{"text":"tea","in_minutes":10}`, "Remind you in 10 min: tea", "It sets a reminder.", "", "set any reminder | exactly this"},
		{"reminder.cancel", `{}`, "Cancel the reminder that is set", "It cancels a reminder.", "", "cancel any reminder | exactly this"},
		{"timer.set", `{"seconds":600,"name":"tea"}`, "Set a timer for 10 minutes: tea", "It sets a timer.", "", "set any timer | exactly this"},
		{"timer.cancel", `{"which":"tea"}`, "Cancel the timer tea", "It cancels a timer.", "", "cancel any timer | exactly this"},
		{"calendar.add", `{"title":"Lunch","start":"2026-12-01T12:00","attendees":["bob@example.com"]}`, "Add Lunch to the calendar, Tue 1 Dec 2026 12:00, inviting bob@example.com",
			"It changes your calendar.", "", "add any event, inviting bob@example.com | exactly this"},
		{"calendar.add", `{"title":"Lunch","start":"2026-12-01T12:00","calendar":"home","location":"Graz"}`, "Add Lunch to the calendar home, Tue 1 Dec 2026 12:00",
			"It changes your calendar.", "location=Graz", "add any event to the calendar home | exactly this"},
		{"calendar.move", `{"event":"Lunch","start":"2026-12-01T13:00"}`, "Move Lunch to Tue 1 Dec 2026 13:00", "It changes your calendar.", "", "move any event | exactly this"},
		{"calendar.remove", `{"event":"Lunch","series":true}`, "Remove Lunch from the calendar", "It changes your calendar.", "series=true", "remove any event | exactly this"},
		{"calendar.respond", `{"event":"Lunch","answer":"accept","organizer":"bob@example.com"}`, "Answer the invitation to Lunch: accept, to bob@example.com",
			"It sends an answer to the organizer.", "", "answer accept to any invitation of bob@example.com | exactly this"},
		{"contacts.add", `{"name":"Bob","emails":["bob@example.com"]}`, "Add Bob to the contacts", "It changes your address book.", "emails=bob@example.com", "add any person | exactly this"},
		{"contacts.edit", `{"contact":"Bob","phones":["1"]}`, "Change the contact Bob", "It changes your address book.", "phones=1", "change anything about Bob | exactly this"},
		{"home.control", `{"device":"kitchen light","action":"set","brightness":30}`, `Control "kitchen light": set, brightness 30 %`, "It changes a device of your home.", "",
			`control "kitchen light" in any way | control any device that needs no question each time | exactly this`},
		{"home.access", `{"device":"front door","action":"unlock"}`, `Operate "front door": unlock`, "It moves or disarms something that protects your home.", "", "exactly this"},
		{"notify.send", `{"title":"Tea","text":"is ready"}`, `Notify you: Tea: "is ready"`, "It sends a notification to your own devices.", "", "send you any notification | exactly this"},
		{"mail.send", `{"to":["bob@example.com"],"bcc":["eve@example.com"],"subject":"Hello","body":"Hi\nBob"}`,
			"Send an e-mail to bob@example.com, hidden copies to eve@example.com: Hello", "It sends an e-mail.", "body=Hi\nBob",
			"send any e-mail to bob@example.com, hidden copies to eve@example.com | exactly this"},
		{"mail.reply", `{"id":"12345","to":["bob@example.com"],"body":"Yes."}`, "Send an answer to bob@example.com", "It sends an e-mail.", "body=Yes. id=12345",
			"send any answer to bob@example.com | exactly this"},
		{"mail.draft", `{"to":["bob@example.com"],"subject":"Hello","body":"Hi"}`, "Draft an e-mail to bob@example.com: Hello", "It changes your mailbox.", "body=Hi", "draft any e-mail | exactly this"},
		{"mail.flag", `{"id":"12345","add":["read"]}`, "Change the marks of an e-mail: add read, remove none", "It changes your mailbox.", "id=12345", "change the marks of any e-mail like this | exactly this"},
		{"mail.archive", `{"id":"12345"}`, "Archive an e-mail", "It changes your mailbox.", "id=12345", "archive any e-mail | exactly this"},
		{"mail.move", `{"id":"12345","folder":"Bills"}`, "Move an e-mail to the folder Bills", "It changes your mailbox.", "id=12345", "move any e-mail to the folder Bills | exactly this"},
		{"mail.delete", `{"id":"12345"}`, "Move an e-mail to the trash", "It changes your mailbox.", "id=12345", "move any e-mail to the trash | exactly this"},
		{"browser.click", `{"site":"shop.example","element":"e12","name":"Buy now"}`, `Click "Buy now" on shop.example`, "It clicks on a page, which may send something.", "element=e12",
			`click "Buy now" on shop.example, wherever it stands | click anything on shop.example | exactly this`},
		{"browser.fill", `{"site":"shop.example","fields":[{"element":"e1","name":"Name","text":"Ann"}]}`, "Fill in a form on shop.example", "It types into a page, which may send it.",
			`fields={"element":"e1","name":"Name","text":"Ann"}`, "fill in any form on shop.example | exactly this"},
		{"shell.run", `{"command":"ls -la notes"}`, `Run "ls -la notes"`, "It runs a command in the sandbox.", "", "run ls with any arguments | exactly this"},
		{"shell.run", `{"command":"sort -r names.txt"}`, `Run "sort -r names.txt"`, "It runs a command in the sandbox.", "", "run sort in any way that only reads | exactly this"},
		{"shell.run", `{"command":"mkdir plans"}`, `Run "mkdir plans"`, "It runs a command in the sandbox.", "", "exactly this"},
		{"code.run", `{"language":"python","code":"print(1)\nprint(2)"}`, "Run python code, 2 lines", "It runs a program in the sandbox.", "code=print(1)\nprint(2)", "exactly this"},
		// Queries are asked about when they could carry something out.
		{"web.fetch", `{"url":"https://example.org/a?b=c"}`, "Read https://example.org/a?b=c", "It sends out what it is given.", "", "read any page of example.org | exactly this"},
		{"web.search", `{"query":"mountain huts"}`, `Search the web for "mountain huts"`, "", "", "exactly this"},
		{"browser.open", `{"url":"https://example.org/a"}`, "Open https://example.org/a in a browser", "It sends out what it is given.", "", "open any page of example.org | exactly this"},
	}
	for _, c := range cases {
		x := tools[c.name]
		if x == nil {
			t.Errorf("there is no tool %s", c.name)
			continue
		}
		q := questionAbout(t, x, c.args, 0)
		if q.Summary != c.summary || c.why != "" && q.Why != c.why || q.beside() != c.beside || q.offered() != c.widths || q.More != 0 {
			t.Errorf("%s %s\n  %q\n  %q\n  %q\n  %q, and %d more", c.name, c.args, q.Summary, q.Why, q.beside(), q.offered(), q.More)
		}
	}
	for name, x := range tools {
		if x.Spec().Effect == tool.Action && !slices.ContainsFunc(cases, func(c struct{ name, args, summary, why, beside, widths string }) bool { return c.name == name }) {
			t.Errorf("%s has no case here", name)
		}
	}
}

// foreign is an action of somebody else's.
func foreign(name, origin, schema string, targets ...string) tool.Tool {
	return &fake{spec: tool.Spec{Name: name, Origin: origin, Effect: tool.Action, Version: "1", Input: []byte(schema), Targets: targets}}
}

func TestQuestionsAboutForeignTools(t *testing.T) {
	text := func(names ...string) string {
		return `{"type":"object","properties":{"` + strings.Join(names, `":{"type":"string"},"`) + `":{"type":"string"}}}`
	}
	for _, c := range []struct {
		t                             tool.Tool
		args, summary, why, wantWidth string
	}{
		{foreign("github.create_issue", "mcp:github", text("repo", "title", "body"), "repo"), `{"repo":"a/b","title":"It fails","body":"x"}`, `Github: create issue "It fails"`,
			"It changes something at the MCP server github.", "any body and title | exactly this"},
		{foreign("fs.write_file", "mcp:fs", text("path", "content")), `{"path":"/home/ann/a.txt","content":"x"}`, "Fs: write file /home/ann/a.txt",
			"It changes something at the MCP server fs.", "any content | any file in /home/ann | exactly this"},
		{foreign("db.run", "mcp:db", text("sql", "comment")), `{"sql":"delete","comment":"x"}`, "Db: run", "", "exactly this"},
		{foreign("hook.send", "grpc:hook", text("url", "text"), "url"), `{"url":"https://a.example/x","text":"hi"}`, "Hook: send https://a.example/x",
			"It changes something at the service hook.", "any text | any page of a.example | exactly this"},
		{foreign("light.on", "process:light", `{"type":"object"}`), `{}`, "Light: on", "It runs the program light.", "exactly this"},
		{foreign("state.put", "", text("title"), "title"), `{"title":"x"}`, "State: put x", "It changes something outside of Steward.", "exactly this"},
	} {
		q := questionAbout(t, c.t, c.args, 0)
		if q.Summary != c.summary || c.why != "" && q.Why != c.why || q.offered() != c.wantWidth {
			t.Errorf("%s: %q, %q, %q", c.args, q.Summary, q.Why, q.offered())
		}
	}
}

func TestWhyAQuestionIsAsked(t *testing.T) {
	tools := builtIns(t)
	untrusted, private := message.Untrusted, message.Private
	page := `web.fetch {"url":"https://example.com/a"}`
	for _, c := range []struct {
		name, rule, reason string
		labels             message.Labels
		read               []string
		want               string
	}{
		{"files.write", "default/tools.rego:61", "", untrusted | private, []string{page, "mail.read {\"id\":\"1\"}"}, "It changes a file after reading example.com and mail.read."},
		{"mail.send", "default/tools.rego:61", "", untrusted | private, []string{page}, "It sends an e-mail after reading example.com, with private data in view."},
		{"mail.send", "default/tools.rego:61", "", untrusted, nil, "It sends an e-mail after reading content that others may have written."},
		{"todo.add", "default/tools.rego:61", "", untrusted | private, nil, "It changes your to-do list."},
		{"mail.send", "house.rego:3", "nobody writes to Bob.", 0, nil, "It sends an e-mail. The policy house.rego asks about it: nobody writes to Bob."},
		{"mail.send", "default/tools.rego:61, b.rego:3, a.rego:4", "x; y", 0, nil, "It sends an e-mail. The policies b.rego, a.rego ask about it: x; y."},
		{"files.write", "tool.asks", "files.write always asks first", message.Secret, nil, "It changes a file, with secrets in view."},
		{"web.fetch", "default/tools.rego:80", "web.fetch could send out what is private, after something was read that others wrote; the answer counts for all reads of example.com in this turn",
			untrusted | private, []string{page}, "It sends out what it is given after reading example.com, with private data in view. Your answer counts for all reads of example.com in this turn."},
	} {
		in := &intent.Intent{Tool: c.name, Rule: c.rule, Reason: c.reason, Labels: c.labels}
		if got := askReason(&Question{Read: c.read}, in, tools[c.name].Spec()); got != c.want {
			t.Errorf("%s\n  %q\n  %q", c.name, got, c.want)
		}
	}
	if got := askReason(&Question{Undoes: "cld:x"}, &intent.Intent{}, tools["files.write"].Spec()); got != "It undoes what was done." {
		t.Error(got)
	}
}

// What is shown first cannot be mistaken for Steward's words, hides no character, and says what it leaves out.
func TestTheSentenceDoesNotMislead(t *testing.T) {
	add := builtIns(t)["todo.add"]
	long := strings.Repeat("word ", 40)
	for _, c := range []struct{ args, summary, beside string }{
		{`{"title":"x, due 2030-01-01"}`, `Add the task "x, due 2030-01-01"`, ""},
		{`{"title":"say \"hi\", due never"}`, `Add the task “say "hi", due never”`, ""},
		{`{"title":"“a” \"b\" c"}`, `Add the task "“a” \"b\" c"`, ""},
		{`{"title":"one\ntwo"}`, "Add the task one…", "title=one\ntwo"},
		{`{"title":"` + long + `"}`, `Add the task "` + strings.TrimSpace(long[:60]) + `…"`, "title=" + long},
		{"{\"title\":\"a\u202eb\"}", "Add the task \"a<U+202E>b\"", "title=a<U+202E>b"},
		{`{"title":"p\u0430ypal"}`, "Add the task pаypal", "title=pаypal"},
		{`{"title":" x"}`, "Add the task x", "title= x"},
		{`{"title":"x","priority":"high"}`, "Add the task x", "priority=high"},
	} {
		q := questionAbout(t, add, c.args, 0)
		if got := strings.Replace(q.Summary, " …", "…", 1); got != c.summary || q.beside() != c.beside {
			t.Errorf("%s\n  %q, want %q\n  %q, want %q", c.args, q.Summary, c.summary, q.beside(), c.beside)
		}
	}
	for args, mark := range map[string]string{"{\"title\":\"a\u202eb\"}": tool.MarkInvisible, `{"title":"p\u0430ypal"}`: tool.MarkLookAlike, `{"title":"x","priority":"high"}`: tool.MarkUndeclared} {
		if q := questionAbout(t, add, args, 0); len(q.Values) != 1 || !slices.Contains(q.Values[0].Marks, mark) {
			t.Errorf("%s: %+v, want the mark %q", args, q.Values, mark)
		}
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`"a%d":%d`, i, i)
	}
	q := questionAbout(t, builtIns(t)["mail.send"], `{"to":["bob@example.com","eve@b\u0430nk.example"],"body":"`+strings.Repeat(`line\n`, 50)+`","subject":"x",`+strings.Join(many, ",")+`}`, 0)
	if q.Values[0].Name != "to" || len(q.Values) != maxValues || q.More != 302-maxValues {
		t.Errorf("%+v, and %d more", q.Values, q.More)
	}
	if q = questionAbout(t, builtIns(t)["mail.send"], `{"to":["b@example.com"],"subject":"x","body":"`+strings.Repeat(`line\n`, 50)+`"}`, 0); !q.Values[0].Cut || strings.Count(q.Values[0].Text, "\n") >= maxLines || q.Values[0].Size < 250 {
		t.Errorf("%+v", q.Values)
	}
}

// Whatever the arguments are, each of them is in the sentence, beside it, or counted.
func TestNoArgumentIsForgotten(t *testing.T) {
	tools := builtIns(t)
	names := []string{"todo.add", "mail.send", "files.write", "calendar.add", "shell.run"}
	rapid.Check(t, func(t *rapid.T) {
		x := tools[rapid.SampledFrom(names).Draw(t, "tool")]
		args := map[string]string{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(append(x.Spec().Arguments(), "odd", "x", "y")), 0, 20).Draw(t, "names") {
			args[name] = rapid.String().Draw(t, name)
		}
		var parts []string
		for name, v := range args {
			parts = append(parts, fmt.Sprintf("%s:%s", quoteJSON(name), quoteJSON(v)))
		}
		text := "{" + strings.Join(parts, ",") + "}"
		canonical, err := tool.Canonical([]byte(text))
		if err != nil {
			t.Skip(err)
		}
		spec := x.Spec()
		q := Question{Args: canonical, Arguments: tool.Arguments(canonical, spec.Input)}
		if err := q.words(&intent.Intent{Tool: spec.Name}, spec, false, nil); err != nil {
			t.Fatal(err)
		}
		whole := 0
		for _, a := range q.Arguments {
			if v := args[a.Name]; !slices.ContainsFunc(q.Values, func(x Value) bool { return x.Name == a.Name }) {
				if inserted, _ := written(v); !strings.Contains(q.Summary, inserted) && q.More == 0 {
					t.Fatalf("%s of %s is nowhere: %q", a.Name, canonical, q.Summary)
				}
				whole++
			}
		}
		if whole < q.More {
			t.Fatalf("%d more of %d", q.More, whole)
		}
		for _, s := range append([]string{q.Summary, q.Why}, q.beside()) {
			if strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && tool.Invisible(r) }) {
				t.Fatalf("%q has invisible characters", s)
			}
		}
	})
}

func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always can be written
	}
	return string(b)
}

// An offered width covers the call that it was offered for, and no call that leads elsewhere.
func TestWidthsCoverTheirCallAndNothingElsewhere(t *testing.T) {
	tools := builtIns(t)
	word := rapid.StringMatching(`[a-zA-Z0-9 ._*?\\{}%-]{1,8}`)
	host := rapid.StringMatching(`[a-z]{1,6}(\.[a-z]{2,5}){1,2}(:[0-9]{2,4})?`)
	address := rapid.StringMatching(`[a-z.]{1,8}@[a-z]{1,8}\.example`)
	folder := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(append([]string{"workspace"}, rapid.SliceOfN(word, 0, 3).Draw(t, "steps")...), "/")
	})
	kinds := map[string]func(t *rapid.T) (args, elsewhere string){
		"files.write": func(t *rapid.T) (string, string) {
			in, other, name := folder.Draw(t, "folder"), folder.Draw(t, "other"), word.Draw(t, "name")
			if in == other {
				other += "/below"
			}
			call := func(in string) string { return `{"path":` + quoteJSON(in+"/"+name) + `,"content":"x"}` }
			return call(in), call(other)
		},
		"files.move": func(t *rapid.T) (string, string) {
			in, other, name := folder.Draw(t, "folder"), folder.Draw(t, "other"), word.Draw(t, "name")
			if in == other {
				other += "/below"
			}
			call := func(to string) string {
				return `{"from":` + quoteJSON(in+"/"+name) + `,"to":` + quoteJSON(to+"/"+name) + `}`
			}
			return call(in), call(other)
		},
		"web.fetch": func(t *rapid.T) (string, string) {
			at, other, page := host.Draw(t, "host"), host.Draw(t, "other"), word.Draw(t, "page")
			if at == other {
				other = at + ".evil.example"
			}
			call := func(at string) string { return `{"url":` + quoteJSON("https://"+at+"/"+page) + `}` }
			return call(at), call(rapid.SampledFrom([]string{other, at + "@" + other, at + "." + other, other + "/" + at}).Draw(t, "elsewhere"))
		},
		"mail.send": func(t *rapid.T) (string, string) {
			to, other := address.Draw(t, "to"), address.Draw(t, "other")
			if to == other {
				other = "x" + to
			}
			call := func(to, more string) string {
				return `{"to":[` + quoteJSON(to) + `],"subject":` + quoteJSON(word.Draw(t, "subject")) + `,"body":"x"` + more + `}`
			}
			if rapid.Bool().Draw(t, "hidden") {
				return call(to, ""), call(to, `,"bcc":[`+quoteJSON(other)+`]`)
			}
			return call(to, ""), call(other, "")
		},
		"calendar.add": func(t *rapid.T) (string, string) {
			who := address.Draw(t, "who")
			return `{"title":` + quoteJSON(word.Draw(t, "title")) + `,"start":"2026-12-01"}`, `{"title":"x","start":"2026-12-01","attendees":[` + quoteJSON(who) + `]}`
		},
		"shell.run": func(t *rapid.T) (string, string) {
			name := rapid.SampledFrom([]string{"ls", "cat", "grep", "python3", "find", "sh", "git", "awk"}).Draw(t, "command")
			args := rapid.StringMatching(`[a-z -]{1,10}`).Draw(t, "args")
			other := rapid.SampledFrom([]string{"rm -rf x", name + "x y", "./" + name + " x", name + " a; rm b", name + " $(rm b)", name + " a > b", name + " a | sh", "x=1 " + name + " a", name + " <(rm b)"}).Draw(t, "other")
			return `{"command":` + quoteJSON(name+" "+args) + `}`, `{"command":` + quoteJSON(other) + `}`
		},
	}
	names := []string{"calendar.add", "files.move", "files.write", "mail.send", "shell.run", "web.fetch"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "tool")
		args, elsewhere := kinds[name](t)
		own, err := tool.Canonical([]byte(args))
		if err != nil {
			t.Skip(err)
		}
		other, err := tool.Canonical([]byte(elsewhere))
		if err != nil {
			t.Skip(err)
		}
		list, err := widths(tools[name], own, nil)
		if err != nil || list[len(list)-1].Name != exactly {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, w := range list {
			if _, err := w.Pattern.Over(own); err != nil || !coversCall(w.Pattern, tools[name], own) && w.Name != exactly {
				t.Fatalf("%q does not cover %s: %v", w.Pattern, own, err)
			}
			if coversCall(w.Pattern, tools[name], other) {
				t.Fatalf("%q, offered for %s, covers %s", w.Pattern, own, other)
			}
		}
	})
}

func TestAWidthNeverLeavesATargetOpen(t *testing.T) {
	x := &fake{spec: tool.Spec{Name: "x.send", Effect: tool.Action, Version: "1", Input: anyObject, Targets: []string{"to"},
		Widths: []tool.Width{{Name: "to anybody", Any: []string{"to"}}, {Name: "as it is"}, {Name: "any text", Any: []string{"text"}}, {Name: "again", Any: []string{"text"}}}}}
	q := questionAbout(t, x, `{"to":"bob","text":"hi"}`, 0)
	if q.offered() != "any text | exactly this" {
		t.Error(q.offered())
	}
}
