package plan

// Schema is the JSON Schema of a plan: seed fields of a designed agent, and
// subtasks of the same form.
const Schema = `{"type":"object","properties":{` + taskProperties + `,` +
	`"confidence":{"type":"number","minimum":0,"maximum":1,"description":"how sure you are that this plan does what the request asks for"}},` +
	`"required":["analysis","plan","confidence"],"additionalProperties":false,"$defs":{"task":` + taskSchema + `}}`

const taskSchema = `{"type":"object","properties":{` +
	`"name":{"type":"string","maxLength":40,"description":"a short name, like find_lodging; other tasks refer to it"},` +
	`"applicability":{"type":"string","description":"when the task is not needed"},` +
	`"after":{"type":"array","maxItems":50,"items":{"type":"string"},"description":"names of tasks beside this one whose outputs it needs; leave it out, and they run at the same time"},` +
	taskProperties + `},"required":["name","purpose"],"additionalProperties":false}`

const taskProperties = `"analysis":{"type":"string","description":"what is asked for, and what it takes"},` +
	`"purpose":{"type":"string","description":"what is to be achieved"},` +
	`"instructions":{"type":"string","description":"how, and everything that has to be known for it"},` +
	`"evaluation":{"type":"string","description":"by what one sees that it is achieved; left out where that is plain"},` +
	`"assistant":{"type":"string","description":"an agent of the list that is made for this; left out: one is found, or designed from the members below"},` +
	`"plan":{"type":"string","description":"the steps, in words"},` +
	`"selected_tools":{"type":"array","maxItems":60,"items":{"type":"string"},"description":"names of tools that are really needed, few"},` +
	`"agent_system_prompt":{"type":"string","description":"who the agent is that does it, and how it works"},` +
	`"guidance_notes":{"type":"string","description":"what it has to mind"},` +
	`"max_iterations":{"type":"integer","description":"5 for one step, 10 for several, 15 for much"},` +
	`"max_tokens":{"type":"integer"},"max_cost":{"type":"number"},"max_seconds":{"type":"number"},` +
	`"reflection":{"type":"boolean","description":"true: the agent looks over its answer before it gives it"},` +
	`"subtasks":{"type":"array","maxItems":50,"items":{"$ref":"#/$defs/task"},"description":"only where the work really divides"}`

// Verdict is what a judge says of a task's output.
type Verdict struct {
	Achieved bool    `json:"achieved"`
	Reasons  string  `json:"reasons"`
	Subtasks []Draft `json:"subtasks,omitzero"` // corrective ones
}

// VerdictSchema is the JSON Schema of a Verdict.
const VerdictSchema = `{"type":"object","properties":{` +
	`"achieved":{"type":"boolean"},"reasons":{"type":"string","description":"what is missing or wrong; short"},` +
	`"subtasks":{"type":"array","maxItems":10,"items":{"$ref":"#/$defs/task"},"description":"if it is not achieved: what is still to be done, and nothing that was done"}},` +
	`"required":["achieved","reasons"],"additionalProperties":false,"$defs":{"task":` + taskSchema + `}}`
