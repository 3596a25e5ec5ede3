# Resources: who may read, write and delete what Steward keeps.
#
# That is conversations, notes, agents, tools and all else. Each belongs to a
# user, a group or the system.
package steward

access if input.point == "access"

# Your own things.
yours if {
	access
	input.resource.owner.kind == "user"
	input.resource.owner.name == input.user.name
	input.user.name != ""
}

# Things of a group that you are in.
shared if {
	access
	input.resource.owner.kind == "group"
	input.resource.owner.name in input.user.groups
}

# Things of the system.
of_the_system if {
	access
	input.resource.owner.kind == "system"
}

allow contains "it is your own" if yours

allow contains "you are a member of the group" if shared

# What of the system everybody may read: types of resources. Add your own:
#
#   everyone_sees contains "example.Notice"
everyone_sees contains "agent.Agent"

everyone_sees contains "tool.Tool"

allow contains "everybody may see it" if {
	of_the_system
	input.action == "read"
	input.resource.type in everyone_sees
}

allow contains "you are an administrator" if {
	of_the_system
	"admin" in input.user.roles
}

deny contains "guests change nothing" if {
	access
	guest
	input.action != "read"
}
