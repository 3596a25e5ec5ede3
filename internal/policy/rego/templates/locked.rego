# for a company with strict rules: listed tools only, a second pair of eyes for each action, private data stay here
#
# Make a group `approvers` (steward groups). Its members answer for everybody.
package steward

# Tools that do not belong to Steward itself are used only if they are listed.
# Add your own by name, or by the first part of their names.
admitted contains "conversation.search"

deny contains sprintf("%s is not on the list of admitted tools", [input.tool.name]) if {
	call
	not built_in
	not input.tool.name in admitted
	not split(input.tool.name, ".")[0] in admitted
}

# Each action needs a second pair of eyes.
ask contains "a second pair of eyes is needed" if {
	action
	not own_notes
}

approvers contains "approvers" if call

# Nothing private leaves unasked, whoever thought of it.
ask contains sprintf("%s could send out what is private", [input.tool.name]) if {
	call
	input.labels.private
	input.tool.out
}

# Private data are shown to no model in the cloud.
stays_local contains "private"

# Example of hiding what may be a key, in results that are JSON.
#
#   mask contains "/*/token" if {
#           call
#           input.tool.name == "crm.list_customers"
#   }
