# How to read these files, if you have never seen Rego.
#
# Steward asks the policies before it does something, at six points:
#
#   input.point == "tool"      an agent wants to call a tool
#   input.point == "intent"    an action is about to begin: asked once more
#   input.point == "access"    somebody wants to read, write or delete resources
#   input.point == "agent"     somebody wants to approve an agent or a source of tools
#   input.point == "model"     something is to be sent to a model
#   input.point == "delegate"  an agent wants to ask another agent
#
# What is asked stands in `input`: who, which tool, which arguments, and so on.
# `steward policy show --input` lists it all.
#
# The answer is made of reasons. A rule adds one:
#
#   deny contains "it is late" if {
#           input.tool.name == "light.on"
#           input.time.hour >= 23
#   }
#
# reads: there is the reason "it is late" to deny, IF the tool is light.on AND
# the hour is 23 or later. All lines between the braces must hold; `not` in
# front of a line turns it around. To say OR, write the rule twice.
#
#   any reason to deny          it is denied
#   else any reason to ask      a person is asked
#   else any reason to allow    it is allowed
#   else                        it is denied: what nobody allows does not happen
#
# Where a person is to be asked and nobody is there, it is denied. Nobody is
# there with a user of the role service, who is a program.
#
# So a rule of your own can always forbid and always ask for more. What it
# cannot do is take away a reason that a rule here gives. Where you are meant to
# loosen something, there is a rule to which you can add: `trusted` (actions that
# need no question), `stays_local` (what no cloud model is sent), `everyone_sees`
# (resources of the system that all may read).
#
# Your own files lie in the folder `policies` of the data folder, end in .rego,
# and begin with the line  package steward . They are in force as soon as they
# are saved. Rules may also go with a permission:
#
#   cap contains 2000 if { … }            the model is shown 2000 bytes of a result at most
#   mask contains "/address" if { … }     this field is replaced by "***"
#   approvers contains "parents" if { … } a member of this group answers, not the user
package steward
