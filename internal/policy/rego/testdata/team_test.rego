package steward_test

import data.steward

program := {"name": "bot", "roles": ["service"], "groups": []}

maintainer := {"name": "mia", "roles": ["member"], "groups": ["family", "maintainers"]}

test_what_was_fixed_is_done_at_once if {
	steward.trusted with input as asked(member, send, tainted, fixed)
	not steward.trusted with input as asked(member, send, tainted, open)
}

test_maintainers_delete_what_is_shared if {
	count(steward.deny) == 1 with input as access(member, "delete", "group", "family", "home.Note")
	count(steward.deny) == 0 with input as access(member, "write", "group", "family", "home.Note")
	count(steward.deny) == 0 with input as access(maintainer, "delete", "group", "family", "home.Note")
}

test_programs_change_nothing if {
	count(steward.deny) == 1 with input as asked(program, send, calm, fixed)
	count(steward.deny) == 0 with input as asked(program, note, calm, fixed)
	count(steward.deny) == 0 with input as asked(program, look, calm, fixed)
}

test_long_results_are_cut if {
	steward.cap == {16384} with input as asked(member, fetch, calm, fixed)
	count(steward.cap) == 0 with input as asked(member, look, calm, fixed)
}
