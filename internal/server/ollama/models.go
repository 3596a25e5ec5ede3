package ollama

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/server/auth"
)

// agentPrefix begins the names of the models that are agents. In Ollama's words the agent is a tag of the model
// "agent".
const agentPrefix = "agent:"

// latest is the tag of a name that has none.
const latest = ":latest"

// named is a model that a request names: an alias or an agent.
type named struct {
	Name  string // as the client wrote it, which answers repeat
	Agent string // the agent's path; "": an alias
	Alias string
}

// find returns the model of a name, with or without the tag "latest".
func (s *server) find(r *http.Request, name string) (named, error) {
	if name == "" {
		return named{}, bad("model is required")
	}
	if path, ok := strings.CutPrefix(name, agentPrefix); ok {
		for _, a := range s.Node.Agents(r.Context()) {
			if a.Path == path {
				return named{Name: name, Agent: path}, nil
			}
		}
	} else if alias := strings.TrimSuffix(name, latest); slices.Contains(s.Node.Aliases(), alias) {
		return named{Name: name, Alias: alias}, nil
	}
	return named{}, fault.New(fault.NotFound, "model_not_found", "model '%.100s' not found", name)
}

// modelObject is a model of /api/tags.
type modelObject struct {
	Name     string  `json:"name"`
	Model    string  `json:"model"`
	Modified string  `json:"modified_at"` // RFC 3339
	Size     int64   `json:"size"`
	Digest   string  `json:"digest"`
	Details  details `json:"details"`
}

// details describe a model. It has no file, so most are empty.
type details struct {
	Parent        string   `json:"parent_model"`
	Format        string   `json:"format"`
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`
	Quantization  string   `json:"quantization_level"`
}

func family(kind string) details {
	return details{Format: "steward", Family: kind, Families: []string{kind}}
}

// tags answers GET /api/tags. It asks no provider, because clients wait only for seconds.
func (s *server) tags(w http.ResponseWriter, r *http.Request, _ auth.Caller) error {
	var out struct {
		Models []modelObject `json:"models"`
	}
	add := func(name, kind string) {
		sum := sha256.Sum256([]byte(name))
		out.Models = append(out.Models, modelObject{Name: name, Model: name, Modified: s.began.Format(time.RFC3339Nano),
			Digest: hex.EncodeToString(sum[:]), Details: family(kind)})
	}
	for _, alias := range s.Node.Aliases() {
		if alias != llm.EmbedAlias {
			add(alias+latest, "model")
		}
	}
	for _, a := range s.Node.Agents(r.Context()) {
		add(agentPrefix+a.Path, "agent")
	}
	return reply(w, out)
}

// show answers POST /api/show.
func (s *server) show(w http.ResponseWriter, r *http.Request, _ auth.Caller) error {
	var in struct {
		Model string                    `json:"model"`
		Name  string                    `json:"name"` // as older clients call it
		Rest  map[string]jsontext.Value `json:",embed"`
	}
	if _, err := s.read(w, r, &in); err != nil {
		return err
	}
	m, err := s.find(r, cmp.Or(in.Model, in.Name))
	if err != nil {
		return err
	}
	out := struct {
		Modelfile    string         `json:"modelfile"`
		Parameters   string         `json:"parameters"`
		Template     string         `json:"template"`
		Details      details        `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
		Modified     string         `json:"modified_at"`
	}{Details: family("agent"), Info: map[string]any{"general.architecture": "steward"},
		Capabilities: []string{"completion"}, Modified: s.began.Format(time.RFC3339Nano)}
	if m.Agent == "" {
		out.Details, out.Capabilities = family("model"), []string{"completion", "tools"}
		x, err := s.Node.Resolve(m.Alias)
		if err != nil {
			return err
		}
		if n := s.Node.Window(x.Models); n > 0 {
			out.Info["steward.context_length"] = n
		}
	}
	b, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return err
	}
	auth.Reply(w, http.StatusOK, append(b, '\n'))
	return nil
}

// running answers GET /api/ps. Nothing is loaded here: the providers do that.
func (s *server) running(w http.ResponseWriter, _ *http.Request, _ auth.Caller) error {
	return reply(w, struct {
		Models []modelObject `json:"models"`
	}{})
}

// version answers GET /api/version.
func (s *server) version(w http.ResponseWriter, _ *http.Request, _ auth.Caller) error {
	return reply(w, struct {
		Version string `json:"version"`
	}{Version})
}

// pull answers POST /api/pull, which clients send before they use a model: one that is there needs no download, and
// others cannot be had.
func (s *server) pull(w http.ResponseWriter, r *http.Request, _ auth.Caller) error {
	var in struct {
		Model  string                    `json:"model"`
		Name   string                    `json:"name"`
		Stream *bool                     `json:"stream"`
		Rest   map[string]jsontext.Value `json:",embed"`
	}
	if _, err := s.read(w, r, &in); err != nil {
		return err
	}
	if _, err := s.find(r, cmp.Or(in.Model, in.Name)); err != nil {
		return fault.Of(err).WithHint("Steward downloads no models; GET /api/tags lists its own")
	}
	w.Header().Set("Content-Type", ndjson)
	_, err := w.Write(line(struct {
		Status string `json:"status"`
	}{"success"}))
	return err
}

// maxInputs is the largest number of texts in one request for embeddings.
const maxInputs = 2048

// embed answers POST /api/embed.
func (s *server) embed(w http.ResponseWriter, r *http.Request, _ auth.Caller) error {
	var in struct {
		Model      string                    `json:"model"`
		Input      jsontext.Value            `json:"input"`
		Dimensions int                       `json:"dimensions"`
		Rest       map[string]jsontext.Value `json:",embed"`
	}
	if _, err := s.read(w, r, &in); err != nil {
		return err
	}
	if in.Dimensions != 0 { // vectors of another length would be wrong
		return fault.New(fault.Unsupported, "unsupported_parameter", "dimensions is not supported").WithHint("leave it out")
	}
	var texts []string
	if len(in.Input) > 0 {
		texts = make([]string, 1)
		var into any = &texts
		if in.Input.Kind() == '"' {
			into = &texts[0]
		}
		if err := json.Unmarshal(in.Input, into); err != nil {
			return bad("invalid input type: input must be a text or a list of texts")
		}
	}
	if len(texts) > maxInputs {
		return bad("input has %d texts; the limit is %d", len(texts), maxInputs)
	}
	began := time.Now()
	out := struct {
		Model      string      `json:"model"`
		Embeddings [][]float32 `json:"embeddings"`
		Total      int64       `json:"total_duration"`
		Load       int64       `json:"load_duration"`
		Count      int64       `json:"prompt_eval_count"`
	}{Model: in.Model}
	v, err := s.vectors(r, in.Model, texts)
	if err != nil {
		return err
	}
	out.Embeddings, out.Count, out.Total = v.Values, v.Tokens, time.Since(began).Nanoseconds()
	return reply(w, out)
}

// embedOne answers POST /api/embeddings, the older form.
func (s *server) embedOne(w http.ResponseWriter, r *http.Request, _ auth.Caller) error {
	var in struct {
		Model  string                    `json:"model"`
		Prompt string                    `json:"prompt"`
		Rest   map[string]jsontext.Value `json:",embed"`
	}
	if _, err := s.read(w, r, &in); err != nil {
		return err
	}
	var out struct {
		Embedding []float32 `json:"embedding"`
	}
	var texts []string
	if in.Prompt != "" {
		texts = []string{in.Prompt}
	}
	v, err := s.vectors(r, in.Model, texts)
	if err != nil {
		return err
	}
	if len(v.Values) > 0 {
		out.Embedding = v.Values[0]
	}
	return reply(w, out)
}

// vectors embeds texts with an alias of the settings. Without texts it only checks the model.
func (s *server) vectors(r *http.Request, model string, texts []string) (llm.Vectors, error) {
	m, err := s.find(r, model)
	if err != nil && strings.TrimSuffix(model, latest) == llm.EmbedAlias {
		m, err = named{Alias: llm.EmbedAlias}, nil // its own error says how to set it
	}
	if err != nil {
		return llm.Vectors{}, err
	}
	if m.Agent != "" {
		return llm.Vectors{}, fault.New(fault.Unsupported, "no_embeddings", "%s does not support embeddings", model).
			WithHint("use an alias of a model for embeddings, such as %s", llm.EmbedAlias)
	}
	if len(texts) == 0 {
		return llm.Vectors{}, nil
	}
	ctx, leave, err := s.enter(r.Context())
	if err != nil {
		return llm.Vectors{}, err
	}
	defer leave()
	return s.Node.Embed(ctx, m.Alias, texts)
}
