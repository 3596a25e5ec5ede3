// Package turn runs turns. A turn is all that happens from a message to a conversation until
// the agent has answered it.
//
// The message comes from a person, or from a tool, an agent or an alarm (Input.Origin).
// Instead of a message there can be the request to generate an answer again. A turn has one
// interaction, below which its messages are recorded, and one run, which pins the agent and
// the models that answer. What the run leads to and what goes on without it, such as calls in
// the background, belongs to package work; see the interface Work. A turn of the planner
// carries out its plan with package planning; see the interface Plans.
//
// # The life of a turn
//
// Engine.Send reads attached files, masks secrets and checks the message. The id of the
// message derives from the client's own id, so a message that is sent again is recognized: its
// sender gets what the first one got, and no second turn begins.
//
// The sender waits for the turn lock of the conversation (Conversation.Lock), which is granted
// in order. A message with Input.Steer does not wait: the run that is active takes it at its
// next safe point, as a further message of the same turn. If no run takes it, it begins a turn
// of its own like any other.
//
// The sender that holds the lock opens the conversation. If it has a run that was interrupted,
// this run is resumed first, and the sender waits for the lock again (ErrResumed). Then it finds
// the agent: the one that the message names, or the one that routing chooses, or the
// conversation's. Interaction, run, message and the turn's requests are committed in one batch.
// The model is asked while this commit takes place, which hides its latency, but nothing of the
// reply is recorded or shown until it has succeeded (agent.Job.Ready). If it fails, there was no
// turn, and only the sender learns of it.
//
// From Engine.Launch on the run owns the lock. It runs the loop of package agent: it fits the
// request to the context window (fitter), asks the model, and makes the calls (Calls), each
// between the hooks of the agent, until there is an answer. It waits for models that cannot be
// reached (awaitModel).
//
// Journal.Finish commits the end: the last message, the outcome of the run, and the answer to
// the request that the run works on, if there is one. Only then is the end shown, are the
// consequences recorded (Work), and is the lock released. Actions that were queued are executed
// after that, without the lock.
//
// A stop (Engine.Stop) cancels the run's context with request.ErrStop: the run records what has
// arrived, and ends as stopped. When the node closes, the cause is request.ErrSuspend: the run
// records nothing and stays open in the store, and the next start resumes it from its messages.
// There is no other checkpoint.
//
// # What a call sends
//
// Budget divides the model's window among the system prompt, the profile, what is recalled, the tools, the
// messages and the answer, and says what is cut first. agent.Job.Request makes the request. Engine.Context has
// the next one made without sending it, and takes it apart for a person (steward context).
//
// # What always holds
//
//   - One run at a time. A run of a conversation holds its turn lock from before its first
//     commit until after its last. Whoever changes messages in another way takes the lock, too
//     (Engine.Alone, Engine.IfIdle). If the run works for a task of a plan, its context carries
//     the lease of the plan, and all that it commits is under this lease.
//   - Durable before visible. A message, a result or an end is committed before watchers see it
//     and before the next step relies on it. There is one exception: the text of a message that
//     is still being written is shown from memory. If it does not become a message, a FrameReset
//     withdraws it.
//   - A run that ends answers its request in the same commit, so that no crash can come between
//     the two.
//   - After an error of a commit, the session is dropped and read from the store again: what is
//     in memory may differ from what is durable.
//   - All that a turn uses is counted against its budget, also what is in none of its messages
//     (Account), and also what the agents use that it asks.
//
// # Watching
//
// Engine.Watch yields frames: what is durable after the watcher's Cursor, then the state that is
// in flight, then everything as it happens. A Feed has the state in flight of one conversation
// and a bounded list of frames; a watcher that falls further behind reads the store again. No
// frame is repeated or missing, whatever cursor a watcher comes back with.
//
// A conversation stays in memory while anybody uses it (Engine.Enter, Engine.Exit) and for a
// while after (Options.IdleFor, IdleBytes, IdleChats), so that its next turn need not read it.
package turn
