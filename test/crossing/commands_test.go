package crossing

import (
	"slices"
	"strings"
)

// pages returns the commands that do something: those without subcommands,
// "steward log" and "steward route".
func (w *world) pages() (all []string) {
	commands := w.Commands()
	for _, name := range commands {
		if name == "log" || name == "route" || !slices.ContainsFunc(commands, func(other string) bool { return strings.HasPrefix(other, name+" ") }) {
			all = append(all, "steward "+name)
		}
	}
	return all
}

// commandLines returns the commands. They run as whoever can read the data
// folder: the local user, who is the admin. The conversations and similar data
// that they print are his own. Commands that manage the node or its people are
// open to him as admin.
func commandLines() []entry {
	const node = "it looks after the node, and he is its admin"
	const people = "it looks after people, and he is the admin"
	const text = "it has nothing of anybody's"
	at := func(path string, want []string, calls func(x things) [][]string) entry {
		return entry{route: "steward " + path, want: want, calls: func(x things) (list []step) {
			for _, args := range calls(x) {
				list = append(list, command(append(strings.Fields(path), args...)...))
			}
			return list
		}}
	}
	bare := func(path, open string) entry { return entry{route: "steward " + path, calls: to(), open: open} }
	// in is a command about a conversation.
	in := func(path string, args func(x things) []string) entry {
		return at(path, notFound, func(x things) [][]string { return [][]string{append(args(x), "--conversation", x.Conv)} })
	}
	open := func(e entry, why string) entry { e.open = why; return e }
	later := func(e entry) entry { e.turn = late; return e }
	own := own
	return []entry{
		at("conversations list", own, func(things) [][]string { return [][]string{{}} }),
		at("conversations show", notFound, func(x things) [][]string { return [][]string{{x.Conv}, {x.Deleted}} }),
		at("context", notFound, func(x things) [][]string { return [][]string{{x.Conv}, {x.Conv, "--all"}} }),
		at("conversations export", notFound, func(x things) [][]string { return [][]string{{x.Conv}, {x.Conv, "--format", "markdown"}} }),
		in("branch list", func(x things) []string { return []string{"--deleted"} }),
		in("branch siblings", func(x things) []string { return []string{x.Said} }),
		in("messages list", func(x things) []string { return []string{"--all"} }),
		in("messages show", func(x things) []string { return []string{x.Said} }),
		in("messages changes", func(x things) []string { return []string{"--interaction", x.Wrote} }),
		at("search", []string{"", "conversation_not_found"}, func(x things) [][]string { return [][]string{{bait}, {bait, "--conversation", x.Conv}} }),
		at("log", []string{"", "conversation_not_found"}, func(x things) [][]string {
			return [][]string{{}, {"--conversation", x.Conv, "--all-branches"}, {"--interaction", x.Turn}}
		}),
		bare("log level", node),
		at("log show", []string{"call_not_found"}, func(x things) [][]string { return [][]string{{x.LogMessage + "/0"}} }),
		at("requests list", own, func(things) [][]string { return [][]string{{"--all"}} }),
		at("requests show", []string{"request_not_found"}, func(x things) [][]string { return [][]string{{x.Task}, {x.Turn}} }),
		at("requests watch", []string{"request_not_found"}, func(x things) [][]string { return [][]string{{x.Task}, {x.Turn}} }),
		at("jobs list", own, func(things) [][]string { return [][]string{{}} }),
		at("jobs show", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} }),
		at("jobs history", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} }),
		at("jobs run", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} }),
		at("jobs edit", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job, "--retries", "1"}} }),
		at("jobs pause", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} }),
		later(at("jobs resume", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} })),
		later(at("jobs remove", []string{"not_found"}, func(x things) [][]string { return [][]string{{x.Job}} })),
		open(at("heartbeat status", own, func(things) [][]string { return [][]string{{}} }), ownBeat),
		open(at("heartbeat on", own, func(things) [][]string { return [][]string{{"--reviews", "none"}} }), ownBeat),
		open(later(at("heartbeat now", []string{"heartbeat_off"}, func(things) [][]string { return [][]string{{"daily"}} })), ownBeat),
		open(later(at("heartbeat off", own, func(things) [][]string { return [][]string{{}} })), ownBeat),
		at("documents list", own, func(things) [][]string { return [][]string{{}} }),
		at("documents search", own, func(things) [][]string { return [][]string{{bait}} }),
		at("documents show", []string{"document_not_found"}, func(x things) [][]string { return [][]string{{x.Document}} }),
		later(at("documents remove", []string{"document_not_found"}, func(x things) [][]string { return [][]string{{x.Document, "--yes"}} })),
		at("goals list", own, func(things) [][]string { return [][]string{{}} }),
		at("goals show", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal}} }),
		at("goals edit", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, "--due", "2030-01-31"}} }),
		at("goals progress", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, "hello"}} }),
		at("goals milestone", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, "hello"}} }),
		at("goals next", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, "hello"}} }),
		at("goals done", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal}} }),
		at("goals drop", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal}} }),
		at("goals pause", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal}} }),
		at("goals resume", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal}} }),
		at("goals link", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, x.Plan}} }),
		later(at("goals remove", []string{"goal_not_found"}, func(x things) [][]string { return [][]string{{x.Goal, "--yes"}} })),
		at("memory list", own, func(things) [][]string { return [][]string{{}, {"--all"}} }),
		at("memory profile", own, func(things) [][]string { return [][]string{{}} }),
		at("memory export", own, func(things) [][]string { return [][]string{{}} }),
		at("memory why", []string{"fact_not_found"}, func(x things) [][]string { return [][]string{{x.Fact}} }),
		at("memory edit", []string{"fact_not_found"}, func(x things) [][]string { return [][]string{{x.Fact, "--importance", "1"}} }),
		later(at("memory forget", []string{"fact_not_found"}, func(x things) [][]string { return [][]string{{x.Fact, "--yes"}} })),
		at("projects list", own, func(things) [][]string { return [][]string{{}} }),
		at("projects show", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects edit", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, "--due", "2030-01-31"}} }),
		at("projects progress", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, "hello"}} }),
		at("projects milestone", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, "hello"}} }),
		at("projects next", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, "hello"}} }),
		at("projects done", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects drop", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects pause", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects resume", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects archive", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project}} }),
		at("projects link", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, x.Plan}} }),
		later(at("projects remove", []string{"project_not_found"}, func(x things) [][]string { return [][]string{{x.Project, "--yes"}} })),
		at("goals changes", own, func(things) [][]string { return [][]string{{}} }),
		at("graph neighbours", []string{"graph_entity_not_found"}, func(x things) [][]string { return [][]string{{x.Entity}} }),
		at("graph query", own, func(things) [][]string { return [][]string{{"SELECT * { ?s ?p ?o }"}} }),
		at("graph export", own, func(things) [][]string { return [][]string{{}} }),
		later(at("graph forget", own, func(x things) [][]string { return [][]string{{x.Entity}} })),
		at("plans list", own, func(things) [][]string { return [][]string{{}} }),
		at("plans show", []string{"plan_not_found"}, func(x things) [][]string { return [][]string{{x.Plan}, {x.Plan[:13]}} }),
		at("resources list", []string{"", "space_denied", "not_found"}, func(x things) [][]string {
			return [][]string{{"--bodies", "--limit", "1000"}, {"--bodies", "--space", "user:ann"}, {"--bodies", "--space", "group:family"}, {"--bodies", "--under", "cld:common.Conversation." + x.Conv}}
		}),
		at("resources get", []string{"not_found"}, func(x things) [][]string {
			return [][]string{{x.Note}, {x.Question}, {"cld:common.Conversation." + x.Conv}}
		}),
		at("resources history", []string{"not_found", ""}, func(x things) [][]string { return [][]string{{x.Note}} }),
		at("resources parents", []string{"not_found", ""}, func(x things) [][]string { return [][]string{{x.Note + "/home.Note.below"}} }),
		at("events watch", own, func(x things) [][]string {
			return [][]string{{"--from", "start", "--bodies"}}
		}),

		in("branch new", func(x things) []string { return []string{"--at", x.Asked} }),
		in("branch rename", func(x things) []string { return []string{x.Branch, "taken"} }),
		in("branch switch", func(x things) []string { return []string{x.Branch} }),
		in("branch copy", func(x things) []string { return []string{"main"} }),
		later(in("branch restore", func(x things) []string { return []string{x.Branch} })),
		in("messages pin", func(x things) []string { return []string{x.Asked} }),
		in("messages unpin", func(x things) []string { return []string{x.Asked} }),
		in("messages insert", func(x things) []string { return []string{"slipped in", "--first"} }),
		in("messages invalidate", func(x things) []string { return []string{x.Asked} }),
		in("messages archive", func(x things) []string { return []string{x.Asked} }),
		in("messages restore", func(x things) []string { return []string{x.Asked} }),
		later(in("messages remove", func(x things) []string { return []string{x.Said} })),
		later(in("messages delete", func(x things) []string { return []string{x.Asked} })),
		in("messages rollback", func(x things) []string { return []string{x.Wrote} }),
		at("conversations optimize", notFound, func(x things) [][]string { return [][]string{{x.Conv, "--undo"}} }),
		at("conversations compact", notFound, func(x things) [][]string { return [][]string{{x.Conv}} }),
		at("conversations refresh", notFound, func(x things) [][]string { return [][]string{{x.Conv}} }),
		at("conversations whole", notFound, func(x things) [][]string { return [][]string{{x.Conv}} }),
		at("conversations rewind", []string{"conversation_not_found", "message_not_found"}, func(x things) [][]string { return [][]string{{x.Conv, x.Asked}} }),
		at("conversations undelete", notFound, func(x things) [][]string { return [][]string{{x.Deleted}} }),
		at("ask", notFound, func(x things) [][]string { return [][]string{{"--conversation", x.Conv, "go on"}} }),
		at("plan", notFound, func(x things) [][]string { return [][]string{{"--conversation", x.Conv, "go on"}} }),
		at("chat", notFound, func(x things) [][]string { return [][]string{{"--conversation", x.Conv}} }),
		at("resources put", []string{"not_found", "space_denied", "access_denied", "resource_owned"}, func(x things) [][]string {
			return [][]string{{x.Note, "--body", `{"text":"taken"}`}, {x.Note, "--space", "user:ann", "--body", `{"text":"taken"}`}}
		}),
		open(at("events publish", []string{"event_space_foreign", "event_source_foreign"}, func(x things) [][]string {
			return [][]string{{"cld:home.Lamp.1", "--space", "group:family"}, {"cld:home.Lamp.1", "--space", "user:ann"}}
		}), "what is one's own is published below one's own source"),
		at("approvals list", own, func(things) [][]string { return [][]string{{}} }),
		at("approvals show", []string{"approval_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}} }),
		at("intents list", own, func(things) [][]string { return [][]string{{}} }),
		at("intents show", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}, {x.Done}} }),
		at("policy explain", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}, {x.Done}} }),
		at("grants list", own, func(things) [][]string { return [][]string{{}} }),
		at("grants show", []string{"grant_not_found"}, func(x things) [][]string { return [][]string{{x.Grant}} }),
		later(at("approvals approve", []string{"approval_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}} })),
		later(at("intents approve", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}} })),
		later(at("approvals deny", []string{"approval_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}} })),
		later(at("intents deny", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Intent}} })),
		later(at("intents cancel", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Done}} })),
		later(at("intents retry", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Done}} })),
		later(at("intents undo", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Done}} })),
		later(at("intents resolve", []string{"intent_not_found"}, func(x things) [][]string { return [][]string{{x.Done, "--done"}} })),
		at("grants edit", []string{"grant_not_found"}, func(x things) [][]string { return [][]string{{x.Grant, "--forever"}} }),
		later(at("grants revoke", []string{"grant_not_found"}, func(x things) [][]string { return [][]string{{x.Grant}} })),
		later(in("messages trust", func(x things) []string { return []string{x.Said} })),
		open(at("route", own, func(things) [][]string { return [][]string{{bait}} }), figures),
		open(at("route stats", own, func(things) [][]string { return [][]string{{}} }), figures),
		at("requests resume", []string{"request_not_found"}, func(x things) [][]string { return [][]string{{x.Task}, {x.Turn}} }),
		open(at("requests pause", []string{"task_not_found"}, func(x things) [][]string { return [][]string{{x.Task}} }), noTree),
		open(at("requests retry", []string{"task_not_found"}, func(x things) [][]string { return [][]string{{x.Task}} }), noTree),
		later(at("requests cancel", []string{"request_not_found"}, func(x things) [][]string { return [][]string{{x.Task}} })),
		later(at("resources delete", []string{"not_found", "space_denied"}, func(x things) [][]string { return [][]string{{x.Note}} })),
		later(at("events erase", []string{"event_not_found", "admin_only"}, func(x things) [][]string { return [][]string{{x.Event}} })),
		later(at("branch delete", notFound, func(x things) [][]string { return [][]string{{x.VictimBranch, "--conversation", x.Victim}} })),
		later(at("conversations delete", notFound, func(x things) [][]string { return [][]string{{x.Victim, "--yes"}} })),

		bare("agents approve", node), bare("agents deny", node), bare("agents list", node), bare("agents keep", node), bare("agents new", node), bare("agents revoke", node),
		bare("agents show", node), bare("agents test", node), bare("config show", node), bare("doctor", node), bare("migrate", node), bare("models test", node), bare("models update", node), bare("serve", node), bare("service install", node), bare("service status", node), bare("service uninstall", node), bare("setup", node),
		bare("audit head", node), bare("audit verify", node), bare("audit export", node),
		bare("policy check", node), bare("policy show", node), bare("policy test", node), bare("policy use", node),
		bare("accounts add", node), bare("accounts connect", node), bare("home connect", node), bare("secrets list", node), bare("secrets remove", node), bare("secrets set", node),
		bare("skills add", node), bare("skills list", node), bare("skills remove", node), bare("skills show", node), bare("skills update", node),
		bare("mcp add", node), bare("mcp connect", node), bare("mcp list", node), bare("mcp remove", node), bare("mcp serve", "it passes on what a client sends to /mcp, whose table is mcpMethods"), bare("mcp test", node), bare("import", "it makes conversations of his own"), bare("jobs add", "it makes jobs of his own"), bare("documents add", "it makes documents of his own"), bare("goals add", "it makes goals of his own"), bare("memory add", "it makes facts of his own"), bare("projects add", "it makes projects of his own"), bare("graph assert", "it adds statements to his own graph"), bare("graph import", "it adds statements to his own graph"),
		bare("groups add", people), bare("groups join", people), bare("groups leave", people), bare("groups list", people), bare("groups remove", people), bare("groups show", people),
		bare("cluster", node), bare("worker", node), bare("backup list", node), bare("backup verify", node), bare("restore", node), bare("upgrade check", node), bare("users export", people),
		bare("users add", people), bare("users delete", people), bare("users disable", people), bare("users enable", people), bare("users list", people), bare("users set", people), bare("users show", people),
		bare("channels add", node), bare("channels list", node), bare("channels test", node), bare("channels remove", node), bare("channels people", people), bare("pair", people), bare("unpair", people),
		bare("channels inbox", "no messenger is set up in this world; package messaging tests that everybody is told of their own messages alone"), bare("channels outbox", "as for the inbox"),
		bare("keys create", people), bare("keys list", people), bare("keys revoke", people), bare("token", people), bare("link", "it makes a link of his own"),
		bare("version", text), bare("man", text), bare("completion bash", text), bare("completion fish", text), bare("completion powershell", text), bare("completion zsh", text),
	}
}
