// Package work does what outlives a turn or takes place outside of one: agents that are asked,
// calls that continue in the background, actions that are queued until their turn ends, actions
// that a person repeats or resolves, and calls from outside any conversation. It also resumes
// what a crash or a close has interrupted.
//
// # Requests
//
// Each of these is a record.Request below the turn that led to it; a call from outside stands
// apart. Package requests keeps them. A request is open while its own work goes on, answered
// when that is over, and closed when everything below it is closed as well. Every change that
// may be the last one checks the request above (requests.Engine.CloseDone), so that requests
// close from the bottom up, whatever the order in which they end.
//
// One owner at a time works on a request: it holds the lease of the request (leases.go). The leases
// are in memory, because one process works on a user. What has no owner when the process ends, or
// when it lets the user go, is taken up by the next start, or by the node that takes the user.
//
// # Asked agents
//
// A tool NAME.ask (Engine.AskTool) sends a message to an agent, in a conversation of its own.
// The ids of this conversation and of its interaction derive from the call. So a call that is
// repeated after a crash finds the same conversation, and either waits for the run that is
// active, or resumes it, or reads the answer that is there. While the call waits, questions to a
// person and progress are passed on to it (relay). A turn that ends stops the agents that it
// asked and that still work. The turn takes over the labels of all that the agent has read, even
// if the agent has failed, since that alone may reveal it.
//
// # Background calls and the delivery of their results
//
// Engine.CallTool executes the calls of a turn. A call continues in the background if its tool
// says so (tool.Spec.Async, AsyncAfter). The request is recorded first, and then the model gets
// the result "accepted". From then on the call no longer depends on its turn: the engine follows
// it, records its result in the request, and delivers the result (deliver.go).
//
// The delivery opens a turn of its own in the conversation that made the call. If this is the
// conversation of an agent that was asked, the agent's answer to the result is delivered to the
// conversation above in the same way, level by level, up to the person's. The interaction of
// each level has an id that derives from the call and the level, so that a delivery which a
// crash has interrupted continues where it was. The call is closed when the last level has
// answered. maxChain bounds how many background calls may follow from one another without a
// person.
//
// # Queued actions
//
// A deferred action is queued by its turn and executed when the turn has ended, adjacent ones of
// a tool together (Engine.Settle). A turn that was stopped cancels its queue. Only what did not
// go as it was queued is delivered.
//
// # Calls from outside
//
// Engine.ExecuteTool calls a tool for a program. A query ends with its caller. An action is
// recorded before it is executed, and continues if its caller goes away; the same id of the
// caller finds its outcome and never executes it twice.
//
// # Recovery
//
// A start first resumes the runs that had not ended (Engine.Recover), and then continues the
// requests that were not closed (Engine.RecoverRequests; for one user, where several nodes share the
// store: Engine.RecoverUser, Engine.RecoverRequestsOf): background calls run again through
// their intents or are delivered, queues are settled, and requests whose run is gone are
// answered. A run that an agent was asked for is resumed by the asking turn, when it makes its
// call again, so that both continue or neither does.
//
// A turn that crashes the process would do so at every start. Therefore a run counts the
// consecutive crashes during which it was active. After record.MaxCrashes of them it is parked
// (parked.go): it stays open, watchers are notified, and it continues when a person resumes it,
// or ends when a person cancels it. An orderly close resets the count.
//
// # What always holds
//
//   - A request is recorded before anybody relies on it: before a model reads "accepted" or
//     "queued", and before an agent that is asked begins.
//   - A result is stored in its request until the turn that delivers it is durable, so that it
//     is neither lost nor delivered twice.
//   - What can fail for a while, such as a full disk, is retried until the node closes
//     (turn.Engine.Retry). What is left then is found by the next start.
//   - Effects go through package effect. Nothing here calls a tool directly.
package work
