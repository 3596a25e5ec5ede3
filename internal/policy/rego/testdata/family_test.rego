package steward_test

import data.steward

child := {"name": "kim", "roles": ["member"], "groups": ["family", "children"]}

light := {"name": "light.on", "effect": "action", "origin": "domain:home", "out": false, "asks": false}

test_what_was_fixed_is_done_at_once if {
	count(steward.ask) == 0 with input as asked(member, send, tainted, fixed)
	count(steward.ask) == 2 with input as asked(member, send, tainted, open)
	count(steward.ask) == 1 with input as asked(member, object.union(send, {"asks": true}), calm, fixed)
}

test_a_parent_answers_for_children if {
	"a parent is asked" in steward.ask with input as asked(child, light, calm, fixed)
	steward.approvers == {"parents"} with input as asked(child, light, calm, fixed)
	count(steward.approvers) == 0 with input as asked(member, light, calm, fixed)
	count(steward.ask) == 0 with input as asked(child, note, calm, fixed)
}

test_children_send_nothing_out if "children send nothing out" in steward.deny with input as asked(child, send, calm, fixed)
