package crossing

import (
	"fmt"

	"steward/internal/tools/browser"
)

// frameTypes returns the frames of the chat.
func frameTypes() []entry {
	about := func(typ, conv string) string { return `{"type":"` + typ + `","conversation_id":"` + conv + `"}` }
	return []entry{
		{route: "resume", want: notFound, calls: func(x things) []step {
			return []step{frames(about("resume", x.Conv)), frames(about("resume", x.Deleted)),
				frames(`{"type":"resume","conversation_id":"` + x.Conv + `","cursor":"1"}`)}
		}},
		{route: "observe", want: own, live: true, calls: func(x things) []step {
			return []step{frames(`{"type":"observe","conversation_ids":["`+x.Conv+`"]}`, `{"type":"observe"}`), frames(`{"type":"observe","cursor":"now"}`)}
		}},
		{route: "unobserve", want: []string{"observation_not_found"}, calls: to(frames(`{"type":"unobserve","re":"f0"}`)), open: "it ends what this connection began"},
		{route: "subscribe", want: own, live: true, calls: func(x things) []step {
			return []step{frames(`{"type":"subscribe","bodies":true,"prefixes":["cld:common.Conversation.`+x.Conv+`","cld:identity.User.ann","`+x.Note+`"]}`,
				`{"type":"subscribe","bodies":true,"sources":["user:ann"]}`, `{"type":"subscribe","bodies":true}`), frames(`{"type":"subscribe","bodies":true,"cursor":"now"}`)}
		}},
		{route: "unsubscribe", want: []string{"subscription_not_found"}, calls: to(frames(`{"type":"unsubscribe","re":"f0"}`)), open: "it ends what this connection began"},
		{route: "requests", want: []string{"", "request_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"requests","all":true,"limit":1000}`), frames(`{"type":"requests","request_id":"` + x.Task + `"}`), frames(`{"type":"requests","request_id":"` + x.Turn + `"}`)}
		}},
		{route: "approvals", want: own, calls: to(frames(`{"type":"approvals"}`), frames(`{"type":"approvals","follow":true}`)), shared: to(frames(`{"type":"approvals"}`))},
		{route: "reminders", want: own, calls: to(frames(`{"type":"reminders"}`)), open: "no alarm goes off meanwhile; they are followed by user, as runtime's tests show"},
		{route: "approval", want: []string{"approval_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"approval","approval_id":"` + x.Question + `"}`), frames(`{"type":"approval","approval_id":"` + x.Intent + `"}`)}
		}, shared: func(x things) []step { return []step{frames(`{"type":"approval","approval_id":"` + x.Families + `"}`)} }},
		{route: "agents", want: own, calls: to(frames(`{"type":"agents"}`)), open: "the agents are the node's"},
		{route: "inspect_agent", want: admin, admin: true, calls: to(frames(`{"type":"inspect_agent","path":"desk"}`)), open: "the agents are the node's"},
		{route: "ping", want: own, calls: to(frames(`{"type":"ping"}`)), open: "it is answered with pong"},
		{route: "message", want: []string{"conversation_not_found", "message_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"message","conversation_id":"` + x.Conv + `","content":"go on"}`),
				frames(`{"type":"message","conversation_id":"` + x.Conv + `","content":"go on","steer":true}`),
				frames(`{"type":"message","conversation_id":"` + x.Conv + `","content":"go on","replace":"` + x.Asked + `"}`),
				frames(`{"type":"message","conversation_id":"` + x.Conv + `","regenerate":"` + x.Said + `"}`)}
		}},
		{route: "deny", turn: late, want: []string{"approval_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"deny","approval_id":"` + x.Question + `",` + x.Seen + `,"reason":"no"}`)}
		}},
		{route: "approve", want: []string{"approval_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"approve","approval_id":"` + x.Question + `",` + x.Seen + `}`)}
		}},
		{route: "resume_turn", want: []string{"request_not_found"}, calls: func(x things) []step {
			return []step{frames(`{"type":"resume_turn","request_id":"` + x.Task + `"}`), frames(`{"type":"resume_turn","request_id":"` + x.Turn + `"}`)}
		}},
		{route: "cancel", want: []string{"request_not_found"}, turn: late, calls: func(x things) []step {
			return []step{frames(`{"type":"cancel","request_id":"` + x.Task + `"}`), frames(`{"type":"cancel","request_id":"` + x.Turn + `"}`)}
		}},
		{route: "stop", want: notFound, turn: late, calls: func(x things) []step { return []step{frames(about("stop", x.Waiting))} }},
		{route: "approve_agent", want: admin, admin: true, calls: to(frames(`{"type":"approve_agent","path":"desk","hash":"x"}`)), open: "refused for its hash, also to the admin"},
		{route: "deny_agent", want: admin, admin: true, turn: late, calls: to(frames(`{"type":"deny_agent","path":"desk"}`))},
		{route: "revoke_agent", want: admin, admin: true, turn: late, calls: to(frames(`{"type":"revoke_agent","path":"desk"}`))},
	}
}

// toolNames returns the tools that a user of the node or of the desk may call.
// A tool's error is in its result; the call itself has no code.
func toolNames() []entry {
	const pure = "it computes with its arguments"
	const shared = "the folders of the settings are everybody's"
	const aims = "it stores a thing of the caller's own"
	const web = "the web belongs to nobody"
	const tabs = "each user has a browser of their own in each conversation" // TestAPageIsReadAsAnOutline, TestBrowsersAreBounded
	const workspace = "it works in the workspace of the machine's own user, who alone may call it"
	call := func(agent, name, args string) func(things) []step { return to(execute(agent, name, args)) }
	one := func(agent, name, args string) entry {
		return entry{route: agent + " " + name, want: own, calls: call(agent, name, args)}
	}
	of := func(e entry, open string) entry { e.open = open; return e }
	later := func(e entry) entry { e.turn = late; return e }
	jobs := func(name string, at turn) entry {
		return entry{route: " " + name, want: own, turn: at, calls: func(x things) []step { return []step{execute("", name, `{"name":"`+x.Job+`"}`)} }}
	}
	efforts := func(name, args string) entry {
		return entry{route: " " + name, want: own, calls: func(x things) []step {
			return []step{execute("", name, fmt.Sprintf(args, x.Goal)), execute("", name, fmt.Sprintf(args, x.Project))}
		}}
	}
	facts := func(name, args string) entry {
		return entry{route: " " + name, want: own, turn: last, calls: func(x things) []step { return []step{execute("", name, fmt.Sprintf(args, x.Fact))} }}
	}
	list := []entry{
		one("", "conversation.similar", `{"text":"`+bait+`","filter":{"limit":20}}`),
		one("", "conversation.search", `{"query":"`+bait+`","match_count":20,"match_threshold":0}`),
		of(one("", "files.list", `{}`), shared), of(one("", "files.read", `{"path":"notes/welcome.txt"}`), shared),
		of(one("", "files.write", `{"path":"notes/x","content":"x"}`), shared), of(one("", "files.search", `{"query":"x"}`), shared),
		of(one("", "files.edit", `{"path":"notes/none","old":"x","new":"y"}`), shared), of(one("", "files.move", `{"from":"notes/none","to":"notes/x"}`), shared),
		of(one("", "notes.list", `{}`), workspace), of(one("", "notes.read", `{"title":"x"}`), workspace), of(one("", "notes.search", `{"query":"x"}`), workspace),
		of(one("", "notes.write", `{"title":"x","text":"x"}`), workspace), of(one("", "notes.append", `{"title":"x","text":"x"}`), workspace),
		of(one("", "shell.run", `{"command":"true"}`), workspace), of(one("", "code.run", `{"language":"python","code":"1"}`), workspace),
		of(one("", "files.delete", `{"path":"notes/none"}`), shared),
		of(one("", "math.add", `{"a":1,"b":1}`), pure), of(one("", "math.divide", `{"a":1,"b":1}`), pure), of(one("", "math.evaluate", `{"expression":"1"}`), pure),
		of(one("", "math.multiply", `{"a":1,"b":1}`), pure), of(one("", "math.subtract", `{"a":1,"b":1}`), pure),
		of(one("", "text.hash", `{"text":"x"}`), pure), of(one("", "time.now", `{}`), pure), of(one("", "time.convert", `{"time":"10:00","from":"UTC","to":"UTC"}`), pure),
		of(one("", "steward.abilities", `{}`), "it tells what the settings lack"),
		of(one("", "skills.read", `{"name":"x"}`), "who administers the machine approves skills for everybody"),
		of(one("", "web.fetch", `{"url":"http://127.0.0.1:1/"}`), web), of(one("", "web.search", `{"query":"x"}`), web),
		one("", "job.list", `{}`), of(one("", "job.create", `{"text":"x","once":"2037-01-02T10:00:00"}`), aims),
		jobs("job.show", first), of(jobs("job.history", first), "it has times and states; that others find no job is seen by job.show"), jobs("job.pause", first), jobs("job.resume", late), jobs("job.run", late), jobs("job.remove", last),
		one("", "documents.search", `{"query":"`+bait+`","limit":20}`),
		one("", "goal.list", `{"status":"all"}`), one("", "goal.changes", `{}`), one("", "project.list", `{"status":"all"}`),
		efforts("goal.show", `{"which":"%s"}`), efforts("goal.progress", `{"project_id":"%s","summary":"x"}`), efforts("goal.update", `{"which":"%s","next_actions":["x"]}`),
		of(one("", "graph.assert", `{"subject":"hello","predicate":"knows","object":"world"}`), aims),
		one("", "graph.query", `{"query":"SELECT * { ?s ?p ?o }"}`),
		{route: " graph.neighbours", want: own, calls: func(x things) []step { return []step{execute("", "graph.neighbours", `{"of":"`+x.Entity+`"}`)} }},
		of(one("", "goal.create", `{"title":"x"}`), aims), of(one("", "project.create", `{"title":"x"}`), aims),
		one("", "memory.search", `{"query":"`+bait+`","match_threshold":0}`), of(one("", "memory.save", `{"content":"x y z"}`), aims), facts("memory.forget", `{"which":"%s"}`),
		one("", "reminder.list", `{}`), one("", "timer.list", `{}`),
		one("", "todo.list", `{}`), one("", "todo.add", `{"title":"`+bait+`"}`), later(one("", "todo.complete", `{"task":"`+bait+`"}`)), later(one("", "todo.delete", `{"task":"`+bait+`"}`)),
		one("", "calendar.list", `{"date":"2030-01-02"}`), one("", "calendar.search", `{"query":"`+bait+`"}`), one("", "calendar.free", `{"date":"2030-01-02"}`),
		one("", "calendar.add", `{"title":"x","start":"2030-01-02T10:00:00"}`), one("", "calendar.move", `{"event":"`+bait+`","start":"2030-01-03T10:00:00"}`),
		later(one("", "calendar.remove", `{"event":"`+bait+`"}`)),
		of(one("", "reminder.set", `{"text":"x","in_minutes":1000}`), aims), of(one("", "timer.set", `{"seconds":100000}`), aims),
		{route: " reminder.cancel", want: own, turn: late, calls: func(x things) []step {
			return []step{execute("", "reminder.cancel", `{}`), execute("", "reminder.cancel", `{"which":"`+x.Conv+`"}`)}
		}},
		{route: " timer.cancel", want: own, turn: late, calls: to(execute("", "timer.cancel", `{}`))},
		of(one("", "weather.forecast", `{"place":"Vienna"}`), web),
		{route: "keeper resource.list", want: own, calls: func(x things) []step {
			return []step{execute("keeper", "resource.list", `{}`), execute("keeper", "resource.list", `{"space":"user:ann"}`), execute("keeper", "resource.list", `{"under":"cld:identity.User.ann"}`)}
		}, shared: to(execute("keeper", "resource.list", `{"space":"group:family"}`))},
		{route: "keeper resource.get", want: own, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, execute("keeper", "resource.get", `{"uri":"`+u+`"}`))
			}
			return list
		}, shared: func(x things) []step { return []step{execute("keeper", "resource.get", `{"uri":"`+x.Shared+`"}`)} }},
		{route: "keeper resource.put", turn: late, want: own, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, execute("keeper", "resource.put", `{"uri":"`+u+`","body":{"text":"taken"}}`))
			}
			return list
		}},
		{route: "keeper resource.share", want: own, calls: to(), shared: func(x things) []step {
			return []step{execute("keeper", "resource.share", `{"uri":"cld:home.Note.given","group":"family","body":{"text":"taken"}}`)}
		}},
		later(entry{route: "keeper resource.delete", want: own, calls: func(x things) (list []step) {
			for _, u := range x.uris() {
				list = append(list, execute("keeper", "resource.delete", `{"uri":"`+u+`"}`))
			}
			return list
		}, shared: func(x things) []step { return []step{execute("keeper", "resource.delete", `{"uri":"`+x.Spare+`"}`)} }}),

		one("desk", "state.get", `{"key":"of_ann"}`), one("desk", "state.list", `{}`), one("desk", "db.query", `{"sql":"select * from of_ann"}`),
		one("desk", "todo.list", `{}`), of(one("desk", "slow.work", `{}`), pure),
		one("desk", "calendar.list", `{"date":"2030-01-02"}`), one("desk", "calendar.search", `{"query":"`+bait+`"}`), one("desk", "calendar.free", `{"date":"2030-01-02"}`),
		one("desk", "calendar.add", `{"title":"x","start":"2030-01-02T10:00:00"}`),
		one("desk", "calendar.move", `{"event":"`+bait+`","start":"2030-01-03T10:00:00"}`),
		later(one("desk", "calendar.remove", `{"event":"`+bait+`"}`)), later(one("desk", "state.put", `{"key":"of_ann","value":"taken"}`)), later(one("desk", "state.delete", `{"key":"of_ann"}`)),
		later(one("desk", "db.exec", `{"sql":"update of_ann set x='taken'"}`)), one("desk", "todo.add", `{"title":"`+bait+`"}`),
		later(one("desk", "todo.complete", `{"task":"`+bait+`"}`)), later(one("desk", "todo.delete", `{"task":"`+bait+`"}`)),
	}
	if _, err := browser.Find(""); err == nil { // the tools are there where Chromium is
		list = append(list, of(one("", "browser.open", `{"url":"http://127.0.0.1:1/"}`), web), of(one("", "browser.read", `{}`), tabs), of(one("", "browser.screenshot", `{}`), tabs),
			of(one("", "browser.close", `{}`), tabs), of(one("", "browser.click", `{"site":"example.org","element":"e1","name":"x"}`), tabs),
			of(one("", "browser.fill", `{"site":"example.org","fields":[{"element":"e1","name":"x","text":"x"}]}`), tabs))
	}
	for _, agent := range []string{"", "desk", "keeper"} {
		list = append(list, entry{route: agent + " results.read", want: own, open: "it reads on in what was cut off in the conversation at hand",
			calls: func(x things) []step {
				return []step{execute(agent, "results.read", `{"uri":"`+x.Rest+`"}`), said(agent, `CALL results.read {"uri":"`+x.Rest+`"}`)}
			}})
	}
	return list
}
