package openai

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/server/auth"
)

// responseRequest is the body of POST /v1/responses
// (https://platform.openai.com/docs/api-reference/responses/create).
type responseRequest struct {
	Model        string           `json:"model"`
	Input        jsontext.Value   `json:"input"`
	Instructions *string          `json:"instructions"`
	Stream       bool             `json:"stream"`
	Tools        []jsontext.Value `json:"tools"`
	ToolChoice   jsontext.Value   `json:"tool_choice"`
	Parallel     *bool            `json:"parallel_tool_calls"`
	Temperature  *float64         `json:"temperature"`
	TopP         *float64         `json:"top_p"`
	MaxOutput    *int             `json:"max_output_tokens"`
	Reasoning    *struct {
		Effort  *string        `json:"effort"`
		Summary jsontext.Value `json:"summary"` // Steward shows what there is
	} `json:"reasoning"`
	Text *struct {
		Format    jsontext.Value `json:"format"`
		Verbosity jsontext.Value `json:"verbosity"`
	} `json:"text"`
	Metadata map[string]string         `json:"metadata"`
	Rest     map[string]jsontext.Value `json:",embed"`
}

// statefulMembers are members by which a request names something that the server is to have kept.
var statefulMembers = []string{"previous_response_id", "conversation", "prompt"}

// ignoredMembers are members without an effect here: nothing is stored, and reasoning is not encrypted.
var ignoredMembers = []string{"store", "include", "stream_options"}

// completion returns a request in the form of chat completions, without messages.
func (q *responseRequest) completion() (*completion, error) {
	if q.Model == "" {
		return nil, bad("model", "the model is missing").WithHint("GET /v1/models lists them")
	}
	if k := q.Input.Kind(); k == 0 || k == 'n' || string(q.Input) == "[]" {
		return nil, bad("input", "the input is missing")
	}
	for _, name := range statefulMembers {
		if v, ok := q.Rest[name]; ok && v.Kind() != 'n' {
			return nil, unsupported(name, "%s is not supported: Steward does not store responses or prompts", name).
				WithHint("send all items of the conversation as input, or continue a conversation of Steward's with metadata.conversation_id")
		}
	}
	c := &completion{Model: q.Model, Stream: q.Stream, Parallel: q.Parallel, Temperature: q.Temperature, TopP: q.TopP,
		MaxCompletion: q.MaxOutput, Metadata: q.Metadata, ToolChoice: q.ToolChoice, Rest: map[string]jsontext.Value{}}
	for name, v := range q.Rest {
		if !slices.Contains(ignoredMembers, name) {
			c.Rest[name] = v
		}
	}
	if strings.Contains(string(q.Rest["include"]), "logprobs") {
		return nil, unsupported("include", "log probabilities are not supported").WithHint("leave them out of include")
	}
	for i, raw := range q.Tools {
		t := toolPart{}
		err := json.Unmarshal(raw, &t)
		if err == nil {
			err = json.Unmarshal(raw, &t.Function) // which is not nested here
		}
		if err != nil {
			return nil, bad(jsonIndex("tools", i), "invalid tool: %w", err)
		}
		c.Tools = append(c.Tools, t)
	}
	if q.ToolChoice.Kind() == '{' {
		var named struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(q.ToolChoice, &named); err != nil {
			return nil, bad("tool_choice", "invalid tool_choice: %w", err)
		}
		c.ToolChoice = encode(map[string]any{"type": named.Type, "function": map[string]string{"name": named.Name}})
	}
	if q.Reasoning != nil {
		c.Effort = q.Reasoning.Effort
	}
	if q.Text != nil && q.Text.Format.Kind() == '{' {
		c.Format = &formatPart{}
		err := json.Unmarshal(q.Text.Format, c.Format)
		if err == nil && c.Format.Type == "json_schema" {
			err = json.Unmarshal(q.Text.Format, &c.Format.Schema) // which is not nested here
		}
		if err != nil {
			return nil, bad("text.format", "invalid format: %w", err)
		}
	}
	return c, nil
}

// renamed gives the parameter that an error of the shared code names its name in this API.
func renamed(err error) error {
	if err == nil {
		return nil
	}
	e := fault.Of(err)
	p, ok := e.Details["param"].(string)
	if !ok {
		return err
	}
	return e.Detail("param", strings.NewReplacer("max_completion_tokens", "max_output_tokens", "reasoning_effort", "reasoning.effort",
		"response_format.json_schema", "text.format", "response_format", "text.format", "messages", "input", ".function.", ".").Replace(p))
}

// respond answers POST /v1/responses. Nothing is stored for later requests.
func (f *server) respond(w http.ResponseWriter, r *http.Request, user string) error {
	var q responseRequest
	body, err := auth.ReadBody(w, r, f.MaxBody)
	if err == nil {
		err = auth.UnmarshalKnown(body, &q)
	}
	if err != nil {
		return err
	}
	c, err := q.completion()
	if err != nil {
		return renamed(err)
	}
	c.size = len(body)
	doc := []byte(q.Input)
	if q.Instructions != nil && *q.Instructions != "" {
		doc = encode(map[string]any{"instructions": *q.Instructions, "input": q.Input})
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a, from, err := f.ask(ctx, w, r, user, c, f.items, doc)
	if err != nil {
		return renamed(err)
	}
	out := &responder{answer: a, object: q.object(a), calls: map[int]*outputItem{}}
	to := newFeed(out, a)
	if q.Stream {
		out.pipe = &pipe{w: w, rc: http.NewResponseController(w)}
		return renamed(f.stream(r, out.pipe, from, to))
	}
	reply, err := a.collect(from)
	if err == nil {
		_, err = to.emit(llm.Event{Kind: llm.Done, Reply: reply})
	}
	if err != nil {
		return renamed(err)
	}
	auth.Reply(w, http.StatusOK, append(encode(out.object), '\n'))
	return nil
}

// object returns the response as it is at the start.
func (q *responseRequest) object(a *answer) responseObject {
	o := responseObject{ID: "resp_" + a.ID, Object: "response", Created: a.Created, Status: "in_progress", Model: a.Model,
		Instructions: q.Instructions, MaxOutput: q.MaxOutput, Metadata: q.Metadata, Parallel: !a.single,
		Temperature: q.Temperature, TopP: q.TopP, ToolChoice: q.ToolChoice, Tools: q.Tools, Truncation: "disabled", Usage: null}
	if k := o.ToolChoice.Kind(); k == 0 || k == 'n' {
		o.ToolChoice = jsontext.Value(`"auto"`)
	}
	return o
}
