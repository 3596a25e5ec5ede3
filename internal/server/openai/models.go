package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/server/auth"
)

// modelObject is one of a list of models.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

// list is OpenAI's object "list".
type list[T any] struct {
	Object string         `json:"object"`
	Data   []T            `json:"data"`
	Model  string         `json:"model,omitzero"`
	Usage  jsontext.Value `json:"usage,omitzero"`
}

func reply(w http.ResponseWriter, v any) error {
	auth.Reply(w, http.StatusOK, append(encode(v), '\n'))
	return nil
}

// listed returns the aliases and the agents, then all models of all providers, and the errors of
// providers that did not answer.
func (f *server) listed(ctx context.Context) (all []modelObject, silent map[string]error) {
	found, aliases := f.Node.Models(ctx)
	for _, name := range append(slices.Clone(aliases), f.agents(ctx)...) {
		all = append(all, modelObject{ID: name, Object: "model", Owner: "steward"})
	}
	for _, m := range found.Models {
		o := modelObject{ID: m.Full(), Object: "model", Owner: m.Provider}
		if !m.Created.IsZero() {
			o.Created = m.Created.Unix()
		}
		all = append(all, o)
	}
	return all, found.Errors
}

// models answers GET /v1/models.
func (f *server) models(w http.ResponseWriter, r *http.Request, _ string) error {
	all, _ := f.listed(r.Context())
	return reply(w, list[modelObject]{Object: "list", Data: all})
}

// model answers GET /v1/models/{id}.
func (f *server) model(w http.ResponseWriter, r *http.Request, _ string) error {
	name := r.PathValue("id")
	all, silent := f.listed(r.Context())
	for _, m := range all {
		if m.ID == name {
			return reply(w, m)
		}
	}
	if _, err := f.Node.Resolve(name); err != nil {
		return fault.Of(err).Detail("param", "model")
	}
	for provider, err := range silent {
		if strings.HasPrefix(name, provider+"/") {
			return err // the model may exist
		}
	}
	return fault.New(fault.NotFound, "model_not_found", "there is no model %.100q", name).
		WithHint("GET /v1/models lists them").Detail("param", "model")
}

// maxInputs is the largest number of texts in one request for embeddings, as in OpenAI's API.
const maxInputs = 2048

type embeddingRequest struct {
	Model      string         `json:"model"`
	Input      jsontext.Value `json:"input"`
	Format     string         `json:"encoding_format"`
	Dimensions jsontext.Value `json:"dimensions"`
	User       *string        `json:"user"`
}

// embeddings answers POST /v1/embeddings.
func (f *server) embeddings(w http.ResponseWriter, r *http.Request, _ string) error {
	var e embeddingRequest
	if err := auth.Decode(w, r, f.MaxBody, &e); err != nil {
		return err
	}
	texts, err := e.texts()
	if err != nil {
		return err
	}
	v, err := f.Node.Embed(r.Context(), e.Model, texts)
	if err != nil {
		if fault.HasCode(err, "model_not_found") {
			err = fault.Of(err).Detail("param", "model")
		}
		return err
	}
	type embedding struct {
		Object string `json:"object"`
		Index  int    `json:"index"`
		Vector any    `json:"embedding"`
	}
	out := list[embedding]{Object: "list", Data: make([]embedding, len(v.Values)), Model: e.Model}
	for i, vec := range v.Values {
		out.Data[i] = embedding{"embedding", i, vec}
		if e.Format == "base64" {
			out.Data[i].Vector = packed(vec)
		}
	}
	out.Usage = fmt.Appendf(nil, `{"prompt_tokens":%[1]d,"total_tokens":%[1]d}`, v.Tokens)
	return reply(w, out)
}

func (e *embeddingRequest) texts() ([]string, error) {
	switch {
	case e.Model == "":
		return nil, bad("model", "the model is missing").WithHint("GET /v1/models lists them")
	case e.Format != "" && e.Format != "float" && e.Format != "base64":
		return nil, bad("encoding_format", "the encoding must be float or base64, not %.40q", e.Format)
	case len(e.Dimensions) > 0 && e.Dimensions.Kind() != 'n': // vectors of another length would be wrong
		return nil, unsupported("dimensions", "dimensions is not supported").WithHint("leave it out")
	}
	texts, err := oneOrMore(e.Input)
	switch {
	case err != nil && e.Input.Kind() == '[':
		return nil, unsupported("input", "the input must be a text or a list of texts").WithHint("send text, not tokens")
	case err != nil:
		return nil, bad("input", "the input must be a text or a list of texts")
	}
	if len(texts) == 0 || len(texts) > maxInputs {
		return nil, bad("input", "the input has %d texts; it must have 1 to %d", len(texts), maxInputs)
	}
	for i, t := range texts {
		if t == "" {
			return nil, bad(jsonIndex("input", i), "the text is empty")
		}
	}
	return texts, nil
}

// oneOrMore reads a text, or a list of texts.
func oneOrMore(v jsontext.Value) (texts []string, err error) {
	if v.Kind() == '"' {
		texts = make([]string, 1)
		return texts, json.Unmarshal(v, &texts[0])
	}
	if len(v) == 0 {
		return nil, nil
	}
	return texts, json.Unmarshal(v, &texts)
}

// packed is the base64 of numbers as little-endian float32.
func packed(vec []float32) string {
	raw := make([]byte, 0, 4*len(vec))
	for _, x := range vec {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
