package rego

// InputField is a member of the input that policies see.
type InputField struct {
	Path  string `json:"path"`  // below input: "tool.name"
	About string `json:"about"` // what it is, in a line
}

// Input describes all fields of a question that policies see.
func Input() []InputField {
	about := map[string]string{
		"point":             `what is decided: "tool", "intent", "access", "agent", "model" or "delegate"`,
		"user.name":         "on whose behalf it is done",
		"user.roles":        `"admin", "member", "guest", "service"`,
		"user.groups":       "names of the user's groups",
		"agent":             "the agent that acts: its path, such as email/filter",
		"lineage":           "the agents on whose behalf that one acts, the outermost first",
		"action":            `access: "read", "write" or "delete"; a call that takes back what was done: "undo"`,
		"resource.uri":      "access: of a single resource that is written or deleted",
		"resource.type":     "access: such as home.Note; agent: agent.Agent or tool.Source",
		"resource.space":    `whose it is: "user:ann", "group:family", "system"`,
		"resource.owner":    `the same in parts: {"kind": "group", "name": "family"}`,
		"resource.metadata": "its purpose, instructions, applicability and evaluation",
		"tool.name":         "such as mail.send",
		"tool.full_name":    "the same, and the whole of it where it was too long for models",
		"tool.effect":       `"query" reads, "action" changes something`,
		"tool.origin":       `where it comes from: "" Steward itself, "own" the agent's own notes, "mcp:files", "domain:mail", "agent:email"`,
		"tool.description":  "what it says of itself, to models",
		"tool.version":      "changes when the tool does",
		"tool.reach":        `"here" or "out": where what it is given goes`,
		"tool.out":          "whether what it is given leaves this machine",
		"tool.targets":      "names of the arguments that say to whom or where to",
		"tool.delivery":     `"inline", or "deferred": done when the turn ends`,
		"tool.asks":         "whether it wants to be asked about each time",
		"tool.async":        "whether its result may come later",
		"tool.dedupes":      "whether doing it twice by mistake is impossible",
		"tool.yields":       "labels of what it returns: {private, untrusted, secret}",
		"tool.metadata":     "its purpose, instructions, applicability and evaluation",
		"args":              "the arguments of the call, as the tool will get them",
		"labels.private":    "whether the model has read something private",
		"labels.untrusted":  "whether it has read what others wrote",
		"labels.secret":     "whether it has read something secret",
		"flow.fixed":        "whether the call was fixed before anything untrusted was read",
		"flow.open":         `what of it was not: "/to" is an argument, "" the call itself`,
		"flow.why":          "why not, in words",
		"flow.to":           `where a query goes: such as "example.org" or "web.search"`,
		"flow.cleared":      "whether the user has said yes to a query that goes there in this turn",
		"flow.refused":      "whether the user has said no to one",
		"attended":          "whether a person is there who can be asked",
		"model.provider":    `model: such as "openai"`,
		"model.name":        "model: the provider's name of it",
		"model.local":       "model: whether it runs on this machine or in its own network",
		"target":            "delegate: the agent that is asked; agent: what is to be approved",
		"budget.tokens":     "tokens that the request may still use; not there without a bound",
		"budget.cost":       "US dollars that it may still cost; not there without a bound",
		"time.hour":         "0 to 23, where the user lives",
		"time.minute":       "0 to 59",
		"time.weekday":      `"monday" to "sunday"`,
		"time.date":         `such as "2026-03-01"`,
		"time.rfc3339":      `such as "2026-03-01T18:30:00+01:00"; rules that read it are evaluated again each time`,
	}
	var out []InputField
	for _, f := range Fields() {
		out = append(out, InputField{f, about[f]})
	}
	return out
}
