package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/server/httpauth"
)

// models answers GET /v1/models: the aliases and the agents, then all models of all
// providers. A provider that does not answer has none.
func (f *server) models(w http.ResponseWriter, r *http.Request, _ string) error {
	found, aliases := f.Node.Models(r.Context())
	aliases = append(slices.Clone(aliases), f.agents(r.Context())...)
	dst := []byte(`{"object":"list","data":[`)
	for i, name := range aliases {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendModel(dst, name, "steward", time.Time{})
	}
	for i, m := range found.Models {
		if i > 0 || len(aliases) > 0 {
			dst = append(dst, ',')
		}
		dst = appendModel(dst, m.Full(), m.Provider, m.Created)
	}
	httpauth.Reply(w, http.StatusOK, append(dst, "]}\n"...))
	return nil
}

// model answers GET /v1/models/{id}.
func (f *server) model(w http.ResponseWriter, r *http.Request, _ string) error {
	name := r.PathValue("id")
	if slices.Contains(f.agents(r.Context()), name) {
		httpauth.Reply(w, http.StatusOK, append(appendModel(nil, name, "steward", time.Time{}), '\n'))
		return nil
	}
	if _, err := f.Node.Resolve(name); err != nil {
		return fault.Of(err).Detail("param", "model")
	}
	found, aliases := f.Node.Models(r.Context())
	reply := func(owner string, created time.Time) error {
		httpauth.Reply(w, http.StatusOK, append(appendModel(nil, name, owner, created), '\n'))
		return nil
	}
	for _, a := range aliases {
		if a == name {
			return reply("steward", time.Time{})
		}
	}
	for _, m := range found.Models {
		if m.Full() == name {
			return reply(m.Provider, m.Created)
		}
	}
	for provider, err := range found.Errors {
		if len(name) > len(provider) && name[:len(provider)+1] == provider+"/" {
			return err // it may be there: nobody knows
		}
	}
	return fault.New(fault.NotFound, "model_not_found", "there is no model %.100q", name).
		WithHint("GET /v1/models lists them").Detail("param", "model")
}

func appendModel(dst []byte, name, owner string, created time.Time) []byte {
	dst = quote(append(dst, `{"id":`...), name)
	dst = append(dst, `,"object":"model","created":`...)
	var at int64
	if !created.IsZero() {
		at = created.Unix()
	}
	dst = strconv.AppendInt(dst, at, 10)
	dst = quote(append(dst, `,"owned_by":`...), owner)
	return append(dst, '}')
}

// maxInputs is how many texts may be embedded at once, as at OpenAI.
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
	if err := httpauth.Decode(w, r, f.MaxBody, &e); err != nil {
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
	if len(v.Values) != len(texts) {
		return fault.New(fault.Internal, "embedding_count", "%s gave %d vectors for %d texts", v.Model, len(v.Values), len(texts))
	}
	dst := []byte(`{"object":"list","data":[`)
	for i, vec := range v.Values {
		if slices.ContainsFunc(vec, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }) {
			return fault.New(fault.Internal, "embedding_broken", "%s gave a vector with a number that is none", v.Model)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		dst = append(appendVector(dst, vec, e.Format == "base64"), '}')
	}
	dst = quote(append(dst, `],"model":`...), e.Model)
	dst = strconv.AppendInt(append(dst, `,"usage":{"prompt_tokens":`...), v.Tokens, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), v.Tokens, 10)
	httpauth.Reply(w, http.StatusOK, append(dst, "}}\n"...))
	return nil
}

func (e *embeddingRequest) texts() ([]string, error) {
	switch {
	case e.Model == "":
		return nil, bad("model", "a model is needed").WithHint("GET /v1/models lists them")
	case e.Format != "" && e.Format != "float" && e.Format != "base64":
		return nil, bad("encoding_format", "the encoding is float or base64, not %.40q", e.Format)
	case len(e.Dimensions) > 0 && e.Dimensions.Kind() != 'n': // vectors of another length are not what was asked for
		return nil, unsupported("dimensions", "dimensions is not supported").WithHint("leave it out")
	}
	var texts []string
	switch e.Input.Kind() {
	case '"':
		texts = []string{""}
		if err := json.Unmarshal(e.Input, &texts[0]); err != nil {
			return nil, bad("input", "the input cannot be read: %w", err)
		}
	case '[':
		if err := json.Unmarshal(e.Input, &texts); err != nil {
			return nil, unsupported("input", "the input is a text or a list of texts").WithHint("send text, not tokens")
		}
	default:
		return nil, bad("input", "the input is a text or a list of texts")
	}
	if len(texts) == 0 || len(texts) > maxInputs {
		return nil, bad("input", "the input has %d texts, and may have 1 to %d", len(texts), maxInputs)
	}
	for i, t := range texts {
		if t == "" {
			return nil, bad(jsonIndex("input", i), "the text is empty")
		}
	}
	return texts, nil
}

// appendVector appends numbers, or the base64 of their little-endian float32.
func appendVector(dst []byte, vec []float32, packed bool) []byte {
	if packed {
		raw := make([]byte, 0, 4*len(vec))
		for _, x := range vec {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, raw)
		return append(dst, '"')
	}
	dst = append(dst, '[')
	for i, x := range vec {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(x), 'g', -1, 32)
	}
	return append(dst, ']')
}
