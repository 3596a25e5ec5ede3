package search

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Vectors finds messages by vectors alone. An Index that has vectors implements it, too.
type Vectors interface {
	// QueryItems returns the messages in the scope's readable spaces whose vectors are most
	// similar to the query's, best first. Error codes: search_empty, search_too_long,
	// query_ambiguous, vector_invalid, embed_dimensions, scope_missing, search_unavailable,
	// and those of the embedding model and the store.
	QueryItems(ctx context.Context, sc store.Scope, q ItemQuery) (ItemPage, error)
}

// ItemQuery says what to compare with: Text, or Vector. The other fields narrow the answer;
// their zero values do not.
type ItemQuery struct {
	Text         string
	Vector       []float32 // of the model that the owner's messages have vectors of
	Model        string    // of Vector, as "provider/model"; empty: it is taken to be that one
	Conversation id.ID
	Role         message.Role
	Since        time.Time
	Until        time.Time
	Except       id.ID   // a message whose whole interaction is left out
	Threshold    float64 // least similarity, from -1 to 1
	Limit        int     // at most MaxLimit; zero means DefaultItems
	MaxTokens    int64   // of the messages' texts together
}

// DefaultItems is how many items an answer has if the query does not say.
const DefaultItems = 5

// ItemPage is an answer to an ItemQuery.
type ItemPage struct {
	Items []Item
	// Models are the models of the vectors that were compared, and By is BySemantic or
	// ByLexical. There are none if nothing has vectors yet.
	Models []string
	By     string
	// Behind is the number of log entries and messages that have no vectors yet.
	Behind uint64
}

// Item is a message with the part of its text that is most similar.
type Item struct {
	URI          resource.URI
	Score        float64 // similarity: the cosine, from -1 to 1
	Conversation id.ID
	Interaction  id.ID
	Message      id.ID
	Seq          uint64 // the message's position in the log
	Role         message.Role
	At           time.Time
	Labels       message.Labels
	Tokens       int64  // of the whole text, estimated
	Place        Span   // of the part, in the text that is searched (Read)
	Text         string // the beginning of the part, in one line
}

// SimilarToolName is the name of the tool that calls QueryItems. Its alias is
// search_similar_content.
const SimilarToolName = "conversation.similar"

type similarArgs struct {
	Text   string    `json:"text,omitzero" maxlen:"4000" jsonschema:"what to look for, in any words"`
	Vector []float32 `json:"vector,omitzero" maxlen:"4096" jsonschema:"a query vector instead of a text, made by the embedding model of this Steward"`
	Filter struct {
		Threshold float64 `json:"threshold,omitzero" min:"-1" max:"1" jsonschema:"leave out what is less similar than this"`
		Limit     int     `json:"limit,omitzero" min:"1" max:"20" default:"5" jsonschema:"how many messages at most"`
	} `json:"filter,omitzero"`
}

// NewSimilarTool returns the tool with which a model finds messages by vectors, in the scope
// that scope returns for a call. It leaves out the turn that makes the call.
func NewSimilarTool(ix Vectors, scope func(tool.Invocation) store.Scope) (tool.Tool, error) {
	return tool.New(tool.Spec{
		Name: SimilarToolName, Effect: tool.Query, Version: "1", Yields: message.Private,
		Description: "Searches for similar content by vectors: messages and tool results of the user's conversations that mean about the same. " +
			"Give it a text, or a vector. Most similar first. " + ToolName + " also finds exact words.",
		Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"text", "vector", "filter"}}},
		Log:  tool.LogSpec{Summary: "Search for content similar to {text}", Parameters: []string{"text"}},
	}, func(ctx context.Context, in tool.Invocation, args similarArgs) (tool.Result, error) {
		page, err := ix.QueryItems(ctx, scope(in), ItemQuery{Text: args.Text, Vector: args.Vector, Threshold: args.Filter.Threshold,
			Limit: args.Filter.Limit, Except: in.Call.Message})
		if err != nil {
			return tool.Result{}, err
		}
		return page.answer(), nil
	})
}

// answer returns the items for a model, with the labels of everything that it shows.
func (p *ItemPage) answer() tool.Result {
	var b strings.Builder
	var labels message.Labels
	if len(p.Items) == 0 {
		b.WriteString("No similar message was found.")
	}
	for i, x := range p.Items {
		labels |= x.Labels
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%d. similarity %.2f, %s, %s\n   %s: %s\n", i+1, x.Score, x.At.UTC().Format("2006-01-02 15:04 MST"), x.URI, x.Role, x.Text)
	}
	if p.Behind > 0 {
		b.WriteString("\nThe results are not complete: recent messages are still being indexed. Search again later.")
	}
	return tool.Result{Content: []message.Block{&message.Text{Text: b.String()}}, Labels: labels}
}

// Check returns an error if the query has nothing to compare with, or two things.
func (q *ItemQuery) Check() error {
	switch {
	case q.Text != "" && len(q.Vector) > 0:
		return fault.New(fault.Invalid, "query_ambiguous", "the query has both a text and a vector").WithHint("give it one of them")
	case strings.TrimSpace(q.Text) == "" && len(q.Vector) == 0:
		return fault.New(fault.Invalid, "search_empty", "the query has neither a text nor a vector").WithHint("give it one of them")
	}
	for _, x := range q.Vector {
		if x != 0 {
			return nil
		}
	}
	if len(q.Vector) > 0 {
		return fault.New(fault.Invalid, "vector_invalid", "the vector has no direction: all its numbers are 0").WithHint("embed the query again")
	}
	return nil
}
