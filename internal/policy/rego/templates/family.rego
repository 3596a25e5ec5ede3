# for a household: what your own words fixed is done at once; parents answer for children
#
# Make a group `children` and a group `parents` (steward groups), and put the
# children's users into the first and your own into the second.
package steward

# What somebody asked for in his own words, or what a plan made of them, is done
# without another question, as long as nothing that others wrote had a say in it.
trusted if {
	input.flow.fixed
	not input.tool.asks
	not child
}

child if "children" in input.user.groups

# Children are asked about each action, and a parent answers.
ask contains "a parent is asked" if {
	action
	child
	not own_notes
}

approvers contains "parents" if {
	call
	child
}

# Children write to nobody outside of the house.
deny contains "children send nothing out" if {
	action
	child
	input.tool.out
}

# Example of a time of day: no actions of children at night.
#
#   deny contains "it is night" if {
#           action
#           child
#           input.time.hour >= 21
#   }
