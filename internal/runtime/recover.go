package runtime

import (
	"context"
	"strings"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// unfinished takes up a run of the conversation that had been interrupted and
// is not running: errResumed. Without one it gives the session back.
func (n *Node) unfinished(ctx context.Context, c *chat, s *conversation.Session) (*conversation.Session, bool, error) {
	runs, err := n.conversations.OpenRuns(ctx, store.ForUser(c.user), record.ConversationURI(c.id))
	if err != nil || len(runs) == 0 {
		return s, false, err
	}
	launched, err := n.resume(ctx, c, s, runs[0])
	if err == nil {
		err = errResumed
	}
	return nil, launched, err
}

// resume goes on with a run that had not ended. It reports whether the run
// was launched; if not, the run was recorded as failed, or the node is
// closing, or there is an error.
func (n *Node) resume(ctx context.Context, c *chat, s *conversation.Session, r conversation.OpenRun) (bool, error) {
	reqID := id.New()
	s.Resume(r, reqID, actor(&r.Run))
	job, err := n.job(ctx, c, s, &r.Run, reqID)
	if err != nil {
		n.log.Warn("an interrupted run cannot go on", "conversation", c.id.String(), "error", err)
		_, err := s.Finish(ctx, nil, string(agent.Failure), fault.Of(err).Code)
		return false, err
	}
	c.feed.resumed(r.Interaction, message.Dangling(s.Transcript().Messages()))
	return n.launch(c, s, job), nil
}

// recover goes on with all runs that had not ended.
func (n *Node) recover(ctx context.Context) error {
	runs, err := n.conversations.OpenRuns(ctx, store.ForNode(resource.System), resource.URI{})
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := n.recoverRun(ctx, r); err != nil {
			n.log.Error("an interrupted run cannot go on", "run", r.URI.String(), "error", err)
		}
	}
	return nil
}

func (n *Node) recoverRun(ctx context.Context, r conversation.OpenRun) error {
	c := n.enter(strings.TrimPrefix(string(r.Space), "user:"), r.Conversation)
	defer n.exit(c)
	if err := c.await(ctx, n.life); err != nil {
		return err
	}
	s, err := n.conversations.Open(ctx, store.ForUser(c.user), c.id)
	launched := false
	if err == nil {
		c.feed.settle(s.Seq())
		launched, err = n.resume(ctx, c, s, r)
	}
	if !launched {
		c.release()
	}
	return err
}
