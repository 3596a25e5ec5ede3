package search

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// ToolName is the name of the tool with which a model searches.
const ToolName = "conversation.search"

// What a model gets by default.
const (
	toolHits      = 5
	toolThreshold = 0.7
)

type toolArgs struct {
	Query            string       `json:"query" minlen:"1" maxlen:"1000" jsonschema:"a question or words; rare words count more. \"a phrase\" in quotes must occur, -word must not"`
	MatchCount       int          `json:"match_count,omitzero" min:"1" max:"20" default:"5" jsonschema:"how many messages at most"`
	MatchThreshold   *float64     `json:"match_threshold,omitzero" min:"0" max:"1" default:"0.7" jsonschema:"leave out messages that match less than this share of the best one"`
	Order            Order        `json:"order,omitzero" enum:"best,newest" default:"best" jsonschema:"newest: all words must occur as they are written"`
	Role             message.Role `json:"role,omitzero" enum:"user,assistant,tool" jsonschema:"only what this one said"`
	Since            time.Time    `json:"since,omitzero" jsonschema:"only messages of this time or later"`
	Until            time.Time    `json:"until,omitzero" jsonschema:"only messages before this time"`
	ThisConversation bool         `json:"this_conversation,omitzero" jsonschema:"search the present conversation only" default:"false"`
	Cursor           string       `json:"cursor,omitzero" jsonschema:"where to go on, from an earlier answer to the same query"`
}

// NewTool returns the tool with which a model searches earlier messages, in the scope
// that scope returns for a call. It leaves out the turn that makes the call.
func NewTool(ix Index, scope func(tool.Invocation) store.Scope) (tool.Tool, error) {
	return tool.New(tool.Spec{
		Name: ToolName, Effect: tool.Query, Version: "1", Yields: message.Private,
		Description: "Searches the text of the user's earlier conversations and of this one: messages and tool results. " +
			"Use it when the user refers to an earlier conversation. Best match first. If two messages contradict each other, the newer one holds.",
		Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"query", "match_count", "match_threshold", "order", "role", "since", "until", "this_conversation", "cursor"}}},
		Log:  tool.LogSpec{Summary: "Search conversations for {query}", Parameters: []string{"query", "this_conversation"}},
	}, func(ctx context.Context, in tool.Invocation, args toolArgs) (tool.Result, error) {
		q := Query{Text: args.Query, Order: args.Order, Role: args.Role, Since: args.Since, Until: args.Until, Limit: args.MatchCount,
			Threshold: toolThreshold, After: Cursor(args.Cursor), Around: 1, Except: in.Call.Message}
		if q.Limit == 0 {
			q.Limit = toolHits
		}
		if args.MatchThreshold != nil {
			q.Threshold = *args.MatchThreshold
		}
		if args.ThisConversation {
			if q.Conversation = conversationOf(in); q.Conversation.Zero() {
				return tool.Result{}, fault.New(fault.Invalid, "conversation_missing", "this call does not belong to a conversation").
					WithHint("leave this_conversation out")
			}
		}
		page, err := ix.Search(ctx, scope(in), q)
		if err != nil {
			return tool.Result{}, err
		}
		return answer(page, args.Query, conversationOf(in)), nil
	})
}

func conversationOf(in tool.Invocation) id.ID {
	if in.Conversation == (resource.URI{}) {
		return id.ID{}
	}
	return record.IDOf(in.Conversation, record.TypeConversation)
}

// answer returns the hits for a model, with the labels of everything that it shows.
func answer(page Page, query string, here id.ID) tool.Result {
	var b strings.Builder
	var labels message.Labels
	if len(page.Hits) == 0 {
		fmt.Fprintf(&b, "No message was found for %q.", query)
	}
	for i, h := range page.Hits {
		labels |= h.Labels
		if i > 0 {
			b.WriteByte('\n')
		}
		where := fmt.Sprintf("in %q", h.Title)
		if h.Conversation == here {
			where = "in this conversation"
		}
		fmt.Fprintf(&b, "%d. %s %s, message %s\n", i+1, h.At.UTC().Format("2006-01-02 15:04 MST"), where, h.Message)
		for _, l := range h.Before {
			fmt.Fprintf(&b, "   before, %s: %s\n", l.Speaker(), l.Text)
		}
		fmt.Fprintf(&b, "   %s: %s\n", h.Speaker(), Marked(h.Text, h.Spans, "**", "**"))
		for _, l := range h.After {
			fmt.Fprintf(&b, "   after, %s: %s\n", l.Speaker(), l.Text)
		}
	}
	if page.Next != "" {
		fmt.Fprintf(&b, "There are more: search again with the cursor %q.", page.Next)
	}
	if page.Behind > 0 {
		b.WriteString("\nThe results are not complete: recent messages are still being indexed. Search again later.")
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: b.String()}}, Labels: labels}
}

// Speaker returns who wrote a line: "user", "assistant", or "tool NAME".
func (l *Line) Speaker() string {
	if l.Role == message.Tool && l.Tool != "" {
		return "tool " + l.Tool
	}
	return string(l.Role)
}

// Marked returns a text with markers before and after each of its spans.
func Marked(text string, spans []Span, before, after string) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s.From < at || s.To > len(text) || s.To < s.From {
			continue // it is not a span of this text
		}
		b.WriteString(text[at:s.From])
		b.WriteString(before)
		b.WriteString(text[s.From:s.To])
		b.WriteString(after)
		at = s.To
	}
	b.WriteString(text[at:])
	return b.String()
}
