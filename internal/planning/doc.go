// Package planning has requests planned and carries the plans out. Package plan decides what
// happens to the tasks of a plan; this package does it, with models, agents and the store.
//
// # From a request to a tree of tasks
//
// The planner is an agent with one tool, plan.start. Its prompt lists the tools and agents that
// there are (Engine.PlannableTools), plans of similar requests that succeeded, and what was done for
// the user last (Engine.HistoryPrompt). It calls plan.start with a whole plan. If a person wants to
// see plans first, this call waits for the person's approval, and the person may edit the plan
// in it (Engine.StartTool).
//
// plan.start checks the plan against what the assistant itself could do and what policy does
// not deny to the user in any case. If something does not hold, the reasons are the call's
// result, and the planner corrects the plan. Otherwise the plan becomes a tree of tasks, which
// is recorded below the message of the call.
//
// If planning fails for good (the model fails, two plans are refused, or the planner is not
// sure), the agent that routing has kept in reserve gets the whole request. Steward then writes
// a plan of one task for it, which is carried out like any other (Engine.AfterPlan). The answer
// of a plan of one task is the answer of the agent that had the task.
//
// # Carrying out
//
// One worker works on a tree (treeWorker, which implements plan.Worker), under a lease that is
// recorded with the tree. Everything that the tasks and their agents commit is committed under
// this lease. If it is lost, for example because the process was suspended for too long, the
// worker takes it again and continues from what is stored.
//
// A task is given to an agent as if the planner had called the agent's tool NAME.ask. So policy
// decides about it, what the agent reads is labelled, and a repeated attempt after a crash finds
// the same conversation. The agent is the one that the plan names, or one of the catalog that
// the task is certainly for and that has the tools the plan selected, or one that is designed
// for the task: with the plan's prompt, and with those of the assistant's tools that the plan
// selected. A designed agent can ask about the plan (plan.ask), read on in the output of another
// task (plan.read), and ask the person (person.ask).
//
// A task with subtasks is judged by a model when they are over (treeWorker.Judge). If it falls
// short, the judge names subtasks that correct it, for at most plan.MaxRounds rounds. When a
// subtask has failed for good, a model decides which of the others still make sense
// (treeWorker.Steer). A task that an attempt has begun is told what was called then, so that
// nothing is done twice.
//
// A person can pause, resume, cancel, retry and edit tasks while their tree is worked on
// (Engine.OrderTask). The agents and their actions ask for approval like in any turn; their
// questions are passed up to the conversation of the planner.
//
// When all tasks are over, one commit has the last changes, the record of the plan with what
// became of it and what it has used, and the end of the lease. Then plan.start returns the
// outputs of the tasks, and the planner writes the answer.
//
// # What always holds
//
//   - A change of a task is durable before anything relies on it. After a crash the planner's
//     turn is resumed and calls plan.start again, which finds the tree and continues: what is
//     done stays done.
//   - A change names the version of the task that it replaces. A worker that has lost its lease
//     changes nothing.
//   - Authority only shrinks. No task can use what the assistant could not, and an agent that is
//     designed for a task is found under its path only.
//   - A task is bound by its own limits, by those of the tasks above it, and by the turn's budget
//     without the tenth that is kept for the answer.
//   - What tasks bring, and what they say of themselves, is data. It is fenced in every prompt,
//     and its labels go where it goes.
//
// An agent of the catalog whose definition has a measure for its answers is judged by it, too,
// in any turn (Engine.Review).
package planning
