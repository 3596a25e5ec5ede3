package work

import (
	"context"
	"slices"
	"strings"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
)

// undoneActions returns the actions that an agent wanted for a task and that were not done, each as "TOOL
// (STATE)", sorted: also those of agents that it asked in turn. What was denied, withdrawn, not answered in
// time or is uncertain stays undone, whatever else was done. What failed is made good by a later action of
// its kind, such as another of files: an agent may reach the same in another way. A question to the person
// is not counted: a task continues without its answer.
func (e *Engine) undoneActions(ctx context.Context, user string, conv id.ID) ([]string, error) {
	sc := store.ForUser(user)
	var out []string
	var visit func(conv id.ID, depth int) error
	visit = func(conv id.ID, depth int) error {
		at := record.ConversationURI(conv)
		var wanted, open []intent.Intent
		for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: at, Type: effect.TypeIntent}) {
			if err != nil {
				return err
			}
			in, err := intent.Decode(it.Body)
			if err != nil {
				return err
			}
			wanted = append(wanted, in)
		}
		slices.SortStableFunc(wanted, func(a, b intent.Intent) int { return a.Created.Compare(b.Created) })
		for _, in := range wanted {
			switch in.State {
			case intent.Done:
				open = slices.DeleteFunc(open, func(x intent.Intent) bool { return x.State == intent.Failed && category(x.Tool) == category(in.Tool) })
			case intent.Denied, intent.Expired, intent.Cancelled, intent.Awaiting, intent.Unknown, intent.Failed:
				if in.Tool != requests.AskPersonTool {
					open = append(open, in)
				}
			}
		}
		for _, in := range open {
			out = message.JoinSources(out, []string{in.Tool + " (" + strings.ReplaceAll(string(in.State), "_", " ") + ")"})
		}
		if depth == maxDepth {
			return nil
		}
		for m, err := range requests.MessagesUnder(ctx, e.store, sc, at) {
			if err != nil {
				return err
			}
			for _, c := range m.Calls() {
				if strings.HasSuffix(c.Name, ".ask") {
					if err := visit(record.AskedConversation(c.Ref), depth+1); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}
	return out, visit(conv, 0)
}

// category returns the part of a tool's name that says what it is about.
func category(name string) string {
	before, _, _ := strings.Cut(name, ".")
	return before
}
