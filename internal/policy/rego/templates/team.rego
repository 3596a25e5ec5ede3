# for people who work together: what your own words fixed is done at once; deleting what is shared is for maintainers
#
# Make a group `maintainers` (steward groups).
package steward

# What somebody asked for in his own words, or what a plan made of them, is done
# without another question, as long as nothing that others wrote had a say in it.
trusted if {
	input.flow.fixed
	not input.tool.asks
}

# What belongs to a group is read and written by its members. It is deleted by
# those who are maintainers as well.
deny contains "only maintainers delete what is shared" if {
	shared
	input.action == "delete"
	not "maintainers" in input.user.groups
}

# Programs look things up. They change nothing but their own notes.
deny contains "programs change nothing" if {
	action
	"service" in input.user.roles
	not own_notes
}

# Long results of foreign tools: the model sees 16 kB at most, and can read on.
cap contains 16384 if {
	call
	not built_in
}
