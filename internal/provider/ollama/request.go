package ollama

import (
	"context"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
	"steward/internal/tool"
)

// names are the names of the options.
var names = wire.Names{Temperature: "temperature", TopP: "top_p", Frequency: "frequency_penalty", Presence: "presence_penalty",
	Seed: "seed", MaxTokens: "num_predict", Stop: "stop"}

// body returns the request's body in parts, and notices about what Ollama cannot do.
func (m *model) body(ctx context.Context, r *llm.Request) (parts [][]byte, notices []string, err error) {
	notice := func(s string) { notices = append(notices, s) }
	// Ask what the model can do, if that matters for this request.
	var f facts
	images := hasImage(r.Transcript)
	if images || r.Sampling.Effort != "" {
		f = m.p.known(ctx, m.name)
	}
	newest := wire.Newest(r.Transcript)
	enc := encoder{blind: images && !f.sees()}
	if enc.blind && slices.ContainsFunc(newest, isImage) {
		return nil, nil, m.p.client.Fault(wire.CodeNoImages, m.name+" takes no images", 0).
			WithHint("choose a model that sees, such as one that `ollama show` lists with the capability vision")
	}
	head, tail, err := r.Transcript.Encoded(enc.codec(), enc.group)
	switch {
	case err != nil:
		return nil, nil, err
	case len(head)+len(tail) == 0:
		return nil, nil, fault.New(fault.Invalid, wire.CodeRefused, "%s: the conversation has nothing to answer", provider)
	case r.Schema != nil && !wire.IsObject(r.Schema.JSON):
		return nil, nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema %s is not a JSON object", r.Schema.Name)
	}
	tools := len(r.Tools.Specs()) > 0 && r.ToolChoice != "none"
	loose := r.Schema != nil && tools // Ollama's format would keep the model from calling tools
	system := r.System
	if loose {
		system = llm.InWords(r)
		notice("Ollama cannot hold a model to a schema while it has tools: it is asked in words.")
	}
	start := wire.Append(nil, `{"model":$,"messages":[`, m.name)
	if system != "" {
		start = wire.Append(start, `{"role":"system","content":$},`, system)
	}
	var end []byte
	if _, last := wire.Ends(r.Transcript); last { // cut by length
		end = append(end, `,{"role":"user","content":"Continue exactly where you stopped."}`...)
	}
	// If the context is full, Ollama would drop old messages silently. Steward manages the window
	// itself, so Ollama is told to refuse the request instead.
	end = append(end, `],"stream":true,"truncate":false,"shift":false`...)
	if tools {
		list, err := r.Tools.Encoded("ollama", encodeTools)
		if err != nil {
			return nil, nil, err
		}
		end = wire.Append(end, `,"tools":[$]`, list)
		if r.ToolChoice != "" && r.ToolChoice != "auto" {
			notice("Ollama cannot be told to call a tool: the model chooses.")
		}
	}
	if r.Schema != nil && !loose {
		end = wire.Append(end, `,"format":$`, r.Schema.JSON)
	}
	think, told := m.think(f, r.Sampling.Effort)
	notices = append(notices, told...)
	if think != "" {
		end = append(end, `,"think":`+think...)
	}
	var options wire.Members
	options.Sampling(names, r.Sampling, 0)
	end = append(wire.AppendNested(end, "options", options), '}')
	return [][]byte{start, head, wire.After(head, tail), end}, append(notices, unsendable(newest)...), nil
}

// think returns the member of that name, or nothing: a level for gpt-oss, which cannot stop thinking, a
// boolean for others (https://docs.ollama.com/capabilities/thinking).
func (m *model) think(f facts, effort llm.Effort) (think string, notices []string) {
	levels := strings.Contains(m.name, "gpt-oss")
	switch {
	case effort == "":
	case f.capabilities != nil && !f.capabilities["thinking"]:
		if effort != llm.EffortNone {
			return "", []string{m.name + " does not think: the reasoning effort is not sent."}
		}
	case levels && effort == llm.EffortNone:
		return `"low"`, []string{m.name + " cannot stop thinking: the reasoning effort is low instead."}
	case levels:
		return `"` + string(effort) + `"`, nil
	case effort == llm.EffortNone:
		return "false", nil
	default:
		return "true", []string{m.name + " thinks or does not: it knows no reasoning effort " + string(effort) + "."}
	}
	return "", nil
}

// unsendable returns a notice about a picture or file of the newest turn that Ollama does not accept.
func unsendable(newest []message.Block) []string {
	for _, b := range newest {
		switch b := b.(type) {
		case *message.Image:
			if imageData(b) == nil {
				return []string{"Ollama does not fetch pictures from the web: the model was told only that there is one."}
			}
		case *message.File:
			if _, whole := wire.FileText(b); !whole {
				return []string{"Ollama takes text files only: the model was told only that there is a file."}
			}
		}
	}
	return nil
}

func isImage(b message.Block) bool { _, ok := b.(*message.Image); return ok }

// hasImage reports whether there is a picture in any message.
func hasImage(t *llm.Transcript) bool {
	head, tail := wire.Fold(t, "ollama/images", func(dst []byte, group []*message.Message) []byte {
		for _, m := range group {
			r := m.Result()
			if slices.ContainsFunc(m.Blocks, isImage) || r != nil && slices.ContainsFunc(r.Content, isImage) {
				return append(dst, '1')
			}
		}
		return dst
	})
	return len(head)+len(tail) > 0
}

func encodeTools(specs []tool.Spec) ([]byte, error) {
	return wire.Functions(specs, func(s tool.Spec) ([]byte, error) {
		if len(s.Input) > 0 && !wire.IsObject(s.Input) {
			return nil, fault.New(fault.Invalid, wire.CodeRefused, "the schema of the tool %s is not a JSON object", s.Name)
		}
		return appendParameters(nil, s.Input), nil
	})
}

// appendParameters appends a tool's schema in the form that Ollama reads: always with type and
// properties, and each property an object, because Ollama refuses the schemas true and false.
func appendParameters(dst, schema []byte) []byte {
	return wire.AppendObjectSchema(dst, wire.AdaptSchema(schema, "{}", func(list []wire.Keyword) []wire.Keyword { return list }))
}
