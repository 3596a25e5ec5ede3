// Package fact lets an agent remember facts about the user, which package memory stores.
//
// memory.search is a query. Its result has the labels of the facts that it shows, so a fact that comes from a
// page makes the conversation untrusted again. memory.save and memory.forget are deferred actions: the model
// is told that they are queued, and they are carried out when the turn ends. What is saved has the labels of
// everything that the model had been shown, and stays a quotation if any of that came from others. A repeated
// call changes nothing, and saving can be undone. Forgetting cannot: it erases the fact.
package fact

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Name is the first word of the tools' names.
const Name = "memory"

// SaveName is the name of the tool that saves a fact.
const SaveName = Name + ".save"

// Options configure the tools. Memory is required.
type Options struct {
	local.Options
	Memory *memory.Engine
}

type saveArgs struct {
	Content    string   `json:"content" jsonschema:"The fact, as one sentence" minlen:"1" maxlen:"500"`
	Subject    string   `json:"subject,omitzero" jsonschema:"Whom or what it is about, user unless given" maxlen:"80"`
	Type       string   `json:"memory_type,omitzero" enum:"fact,preference,person,place,event,instruction"`
	Importance *float64 `json:"importance,omitzero" jsonschema:"0 to 1" min:"0" max:"1"`
	Replaces   []string `json:"replaces,omitzero" jsonschema:"Ids of facts that are no longer true" maxlen:"10"`
}

type searchArgs struct {
	Query     string   `json:"query" minlen:"1" maxlen:"500"`
	Count     int      `json:"match_count,omitzero" jsonschema:"5 unless given" min:"1" max:"50"`
	Threshold *float64 `json:"match_threshold,omitzero" jsonschema:"Least similarity, 0.7 unless given" min:"0" max:"1"`
	Earlier   bool     `json:"earlier,omitzero" jsonschema:"Also what is no longer true"`
}

type forgetArgs struct {
	Which string `json:"which" jsonschema:"Id or text of a fact" minlen:"1" maxlen:"500"`
}

// Add adds the tools to a kit named "memory".
func Add(k *local.Kit, opt Options) {
	s := service{opt}
	stale := tool.Strategy{Kind: tool.ByTool, Tools: []string{Name + ".search"}}
	local.Query(k, tool.Spec{Name: "search", Yields: message.Private, Tidy: []tool.Strategy{stale},
		Description: "Searches what is remembered about the user.", Log: tool.LogSpec{Summary: "Search the memory for {query}"}}, s.search)
	own := func(_ context.Context, user string) (changes, error) { return changes{s, user}, nil }
	local.Change(k, tool.Spec{Name: "save", Delivery: tool.Deferred, Yields: message.Private, Tidy: []tool.Strategy{stale}, Sentences: saveFact,
		Description: "Remembers a fact or a standing instruction of the user for later conversations.",
		Log:         tool.LogSpec{Summary: "Remember: {content}", Does: "remembers a fact"},
		Widths:      []tool.Width{{Name: "remember any fact", Any: []string{"content", "subject", "memory_type", "importance", "replaces"}}}},
		own, s.save, tool.Text)
	local.Change(k, tool.Spec{Name: "forget", Delivery: tool.Deferred, Yields: message.Private, Tidy: []tool.Strategy{stale},
		Description: "Forgets a fact for good.",
		Log:         tool.LogSpec{Summary: "Forget {which}", Does: "forgets a fact for good"}},
		own, s.forget, tool.Text)
}

type service struct{ Options }

// callID returns the id under which a call changes facts.
func callID(key string) id.ID { return id.Derive("fact", "call", key) }

func (s service) save(ctx context.Context, in tool.Invocation, a saveArgs, _ changes) (string, error) {
	by := record.FactAuthor{Call: callID(local.Key(in)), Actor: "agent:" + in.Agent, Labels: in.Labels}
	if record.IDOf(in.Message, record.TypeMessage) == in.Call.Message {
		by.Source = in.Message.String()
	}
	if in.Agent == "" {
		by.Actor = "agent:assistant"
	}
	if in.Labels.Has(message.Private) {
		by.Sources = in.Sources
	}
	source, err := s.Memory.SaidBefore(ctx, in.User, in.Conversation, in.Call.Message)
	if err != nil {
		return "", err
	}
	by.Source = source
	input := client.FactInput{Text: &a.Content, Importance: a.Importance, Replaces: a.Replaces}
	if a.Subject != "" {
		input.Subject = &a.Subject
	}
	if a.Type != "" {
		input.Type = &a.Type
	}
	saved, err := s.Memory.Save(ctx, in.User, input, by)
	if err != nil {
		return "", err
	}
	return reply(&saved.Fact, saved.How), nil
}

func reply(f *record.Fact, how string) string {
	text := fmt.Sprintf("%s: %s", map[string]string{client.FactAdded: "Remembered", client.FactMerged: "Remembered, together with what was known",
		client.FactSuperseded: "Remembered instead of what was true before", client.FactDropped: "This is known already"}[how], f.Text)
	if f.Foreign() {
		text += " (as a quotation: it comes from text of others)"
	}
	return text
}

func (s service) forget(ctx context.Context, in tool.Invocation, a forgetArgs, _ changes) (string, error) {
	f, err := s.Memory.Forget(ctx, in.User, a.Which)
	if err != nil {
		return "", err
	}
	return "The fact " + f.ID.String() + " is forgotten.", nil
}

func (s service) search(ctx context.Context, in tool.Invocation, a searchArgs) (tool.Result, error) {
	threshold := memory.MatchThreshold
	if a.Threshold != nil {
		threshold = *a.Threshold
	}
	hits, err := s.Memory.Search(ctx, in.User, a.Query, a.Count, threshold, a.Earlier)
	if err != nil {
		return tool.Result{}, err
	}
	list := make([]record.Fact, len(hits))
	for i := range hits {
		list[i] = hits[i].Fact
	}
	labels, _ := memory.LabelsOf(list)
	res := tool.Text("Nothing like that is remembered.")
	if len(list) > 0 {
		zone := s.Location(in.User)
		res = tool.Text(local.List(hits, 50, func(h memory.Hit) string { return "- " + Line(&h.Fact, zone) }) + "\n")
	}
	res.Labels = message.Private | labels
	return res, nil
}

// Line shows a fact in a line.
func Line(f *record.Fact, zone *time.Location) string {
	text := f.Text
	if f.Foreign() {
		text = fmt.Sprintf("others wrote %q", text)
	}
	about := []string{"since " + f.From.In(zone).Format(time.DateOnly)}
	if !f.Until.IsZero() {
		about = append(about, "until "+f.Until.In(zone).Format(time.DateOnly))
	}
	return fmt.Sprintf("%s (%s, id %s)", text, strings.Join(about, ", "), f.ID.String())
}

// changes are the changes of a user's facts. It implements local.Changes.
type changes struct {
	service
	user string
}

// Applied implements local.Changes.
func (c changes) Applied(ctx context.Context, key string) (string, bool, error) {
	f, how, err := c.Memory.ChangedBy(ctx, c.user, callID(key))
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return reply(&f, how), err == nil, err
}

// Revert implements local.Changes.
func (c changes) Revert(ctx context.Context, key string) (string, error) {
	_, err := c.Memory.Undo(ctx, c.user, callID(key), id.Derive("fact", "undo", key))
	if fault.Is(err, fault.NotFound) {
		return "", local.NotApplied()
	}
	return "It is as it was before.", err
}
