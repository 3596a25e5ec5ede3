# Calls of tools: what is done, what is asked about, and what is not done.
#
# A tool is either a query, which reads, or an action, which changes something.
package steward

# The rules of this file are about calls, whether they are planned (tool) or
# about to begin (intent).
call if input.point == "tool"

call if input.point == "intent"

query if {
	call
	input.tool.effect == "query"
}

action if {
	call
	input.tool.effect == "action"
}

# An agent's own notes: nobody else has them.
own_notes if input.tool.origin == "own"

# What Steward itself brings along.
built_in if input.tool.origin in {"", "own"}

guest if "guest" in input.user.roles

# --- What needs no question ---------------------------------------------------

# Actions that you trust are done without asking. Add your own, in a file of
# your own:
#
#   trusted if input.tool.name == "light.on"
default trusted := false

# With the setting `approve: unfixed`, actions are trusted that were fixed by
# your own words, or by a plan that was made of them, before anything was read
# that others wrote. A tool that wants to be asked about each time still is.
trusted if {
	data.settings.approve == "unfixed"
	input.flow.fixed
	not input.tool.asks
}

allow contains "queries change nothing" if query

allow contains "it changes nothing but the agent's own notes" if {
	action
	own_notes
}

allow contains "it is trusted" if {
	action
	trusted
}

# --- What a person is asked about ---------------------------------------------

ask contains sprintf("%s changes something", [input.tool.name]) if {
	action
	not own_notes
	not trusted
}

# Three things together are dangerous: something private, the words of others,
# and a way out. Those words may ask for the private thing to be sent to them.
# What was fixed before they were read cannot have been their idea.
three_dangers if {
	call
	input.labels.private
	input.labels.untrusted
	input.tool.out
	not input.flow.fixed
}

ask contains sprintf("%s could send out what is private, after something was read that others wrote%s", [input.tool.name, because]) if {
	three_dangers
	action
}

# Of queries, one answer counts for all further ones to the same place in the
# turn: to the same host, or of the same tool.
ask contains sprintf("%s could send out what is private, after something was read that others wrote%s; the answer counts for all reads of %s in this turn", [input.tool.name, because, place]) if {
	three_dangers
	query
	not input.flow.cleared
}

deny contains sprintf("the user said no to reads of %s in this turn", [place]) if {
	three_dangers
	query
	input.flow.refused
}

place := input.flow.to if {
	input.flow.to != ""
} else := input.tool.name

# What is secret is asked about in any case, whoever's idea it was.
ask contains sprintf("%s could send out what is secret", [input.tool.name]) if {
	call
	input.labels.secret
	input.tool.out
}

# What is written down does not say any more that it is secret: also an agent's
# own notes are read again later, by whatever model then answers.
ask contains sprintf("%s could write down what is secret, where nothing tells any more that it is", [input.tool.name]) if {
	action
	input.labels.secret
}

because := sprintf(": %s", [input.flow.why]) if input.flow.why != ""

because := "" if input.flow.why == ""

# --- What is not done ----------------------------------------------------------

deny contains "the tool says neither that it reads nor that it changes something" if {
	call
	not input.tool.effect in {"query", "action"}
}

# Guests talk, and look things up. They change nothing, and they use nothing
# that was added to Steward.
deny contains sprintf("%s changes something, and guests change nothing", [input.tool.name]) if {
	action
	guest
}

deny contains sprintf("%s does not belong to Steward itself, and guests use nothing else", [input.tool.name]) if {
	query
	guest
	not built_in
}
