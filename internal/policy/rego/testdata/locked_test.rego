package steward_test

import data.steward

test_only_admitted_tools if {
	count(steward.deny) == 1 with input as asked(member, fetch, calm, fixed)
	count(steward.deny) == 0 with input as asked(member, look, calm, fixed)
	count(steward.deny) == 0 with input as asked(member, object.union(fetch, {"name": "conversation.search"}), calm, fixed)
}

test_a_second_pair_of_eyes if {
	"a second pair of eyes is needed" in steward.ask with input as asked(member, send, calm, fixed)
	steward.approvers == {"approvers"} with input as asked(member, send, calm, fixed)
	not "a second pair of eyes is needed" in steward.ask with input as asked(member, note, calm, fixed)
}

test_nothing_private_leaves_unasked if "web.fetch could send out what is private" in steward.ask with input as asked(member, fetch, tainted, fixed)

test_private_data_stay_here if {
	count(steward.deny) == 1 with input as model(false, tainted)
	count(steward.deny) == 0 with input as model(true, tainted)
}
