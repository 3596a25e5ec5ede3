package steward_test

import data.steward

member := {"name": "ann", "roles": ["member"], "groups": ["family"]}

guest := {"name": "gus", "roles": ["guest"], "groups": []}

admin := {"name": "boss", "roles": ["admin"], "groups": []}

calm := {"private": false, "untrusted": false, "secret": false}

tainted := {"private": true, "untrusted": true, "secret": false}

fixed := {"fixed": true, "open": [], "why": ""}

open := {"fixed": false, "open": ["/to"], "why": "/to was not fixed"}

look := {"name": "time.now", "effect": "query", "origin": "", "out": false, "asks": false}

fetch := {"name": "web.fetch", "effect": "query", "origin": "mcp:web", "out": true, "asks": false}

send := {"name": "email.send", "effect": "action", "origin": "domain:email", "out": true, "asks": false}

note := {"name": "state.put", "effect": "action", "origin": "own", "out": false, "asks": false}

asked(user, tool, labels, flow) := {"point": "tool", "user": user, "tool": tool, "labels": labels, "flow": flow, "attended": true}

test_queries_are_allowed if {
	steward.allow == {"queries change nothing"} with input as asked(member, look, calm, fixed)
	count(steward.ask) == 0 with input as asked(member, look, calm, fixed)
	count(steward.deny) == 0 with input as asked(member, look, calm, fixed)
}

test_own_notes_are_allowed if {
	"it changes nothing but the agent's own notes" in steward.allow with input as asked(member, note, tainted, open)
	count(steward.ask) == 0 with input as asked(member, note, tainted, open)
}

test_actions_are_asked_about if "email.send changes something" in steward.ask with input as asked(member, send, calm, fixed)

test_what_was_fixed_is_trusted_where_the_setting_says_so if {
	steward.trusted with input as asked(member, send, tainted, fixed) with data.settings.approve as "unfixed"
	not steward.trusted with input as asked(member, send, tainted, open) with data.settings.approve as "unfixed"
	not steward.trusted with input as asked(member, send, tainted, fixed) with data.settings.approve as "actions"
	not steward.trusted with input as asked(member, object.union(send, {"asks": true}), calm, fixed) with data.settings.approve as "unfixed"
}

test_the_three_dangerous_things_together_are_asked_about if {
	count(steward.ask) == 1 with input as asked(member, fetch, tainted, open)
	count(steward.ask) == 0 with input as asked(member, fetch, tainted, fixed)
	count(steward.ask) == 0 with input as asked(member, fetch, object.union(tainted, {"private": false}), open)
	count(steward.ask) == 0 with input as asked(member, fetch, object.union(tainted, {"untrusted": false}), open)
	count(steward.ask) == 0 with input as asked(member, look, tainted, open)
}

test_secrets_are_asked_about_also_where_fixed if {
	count(steward.ask) == 1 with input as asked(member, fetch, {"private": false, "untrusted": true, "secret": true}, fixed)
	count(steward.ask) == 1 with input as asked(member, fetch, {"private": false, "untrusted": false, "secret": true}, fixed)
	count(steward.ask) == 0 with input as asked(member, look, {"private": false, "untrusted": true, "secret": true}, fixed)
}

test_a_tool_says_what_it_does if count(steward.deny) == 1 with input as asked(member, object.union(look, {"effect": ""}), calm, fixed)

test_guests_look_things_up_only if {
	count(steward.deny) == 0 with input as asked(guest, look, calm, fixed)
	count(steward.deny) == 1 with input as asked(guest, fetch, calm, fixed)
	count(steward.deny) == 1 with input as asked(guest, send, calm, fixed)
	count(steward.deny) == 1 with input as asked(guest, note, calm, fixed)
}

access(user, action, kind, name, type) := {"point": "access", "user": user, "action": action, "resource": {"type": type, "owner": {"kind": kind, "name": name}}}

test_access if {
	"it is your own" in steward.allow with input as access(member, "delete", "user", "ann", "home.Note")
	count(steward.allow) == 0 with input as access(member, "read", "user", "bob", "home.Note")
	"you are a member of the group" in steward.allow with input as access(member, "write", "group", "family", "home.Note")
	count(steward.allow) == 0 with input as access(member, "read", "group", "parents", "home.Note")
	"everybody may see it" in steward.allow with input as access(member, "read", "system", "", "tool.Tool")
	count(steward.allow) == 0 with input as access(member, "write", "system", "", "tool.Tool")
	count(steward.allow) == 0 with input as access(member, "read", "system", "", "identity.Key")
	"you are an administrator" in steward.allow with input as access(admin, "write", "system", "", "home.Note")
	count(steward.allow) == 0 with input as access(admin, "read", "user", "ann", "home.Note")
	"guests change nothing" in steward.deny with input as access(guest, "write", "user", "gus", "home.Note")
	count(steward.deny) == 0 with input as access(guest, "read", "user", "gus", "home.Note")
}

test_the_own_user_decides_about_agents if {
	count(steward.allow) == 1 with input as {"point": "agent", "user": object.union(admin, {"name": "local"})}
	count(steward.allow) == 0 with input as {"point": "agent", "user": admin}
	count(steward.allow) == 0 with input as {"point": "agent", "user": member}
}

test_agents_ask_agents if count(steward.allow) == 1 with input as {"point": "delegate", "user": member, "target": "email"}

model(local, labels) := {"point": "model", "user": member, "model": {"provider": "openai", "name": "gpt", "local": local}, "labels": labels}

test_secrets_go_to_no_cloud if {
	count(steward.deny) == 1 with input as model(false, {"private": false, "untrusted": false, "secret": true})
	count(steward.deny) == 0 with input as model(true, {"private": true, "untrusted": true, "secret": true})
	count(steward.deny) == 0 with input as model(false, tainted)
	count(steward.allow) == 1 with input as model(false, tainted)
}
