# Agents: who approves them, and whom they may ask.
package steward

# An agent, or a source of tools, is used only when it was approved as it is.
# Its programs run on this machine, so the machine's own user decides. A rule
# of your own can let others decide too.
allow contains "the machine's own user decides about agents" if {
	input.point == "agent"
	input.user.name == "local"
	"admin" in input.user.roles
}

# An agent may ask those below it. What they do on its behalf is judged for it
# as well as for them: nobody gets more by asking another one.
allow contains "agents may ask the agents below them" if input.point == "delegate"
