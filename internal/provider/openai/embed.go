package openai

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/llm"
	"steward/internal/provider/wire"
)

// maxBatch is the number of texts in one request. The API accepts up to 2,048, but counts their tokens
// together.
const maxBatch = 256

type embedder struct {
	*Provider
	model string
}

// Embedder returns an embedder by the provider's own name of the model. Many texts are embedded in
// several requests, one after the other.
func (p *Provider) Embedder(model string) llm.Embedder { return &embedder{p, model} }

// Embed implements llm.Embedder.
func (e *embedder) Embed(ctx context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: e.name + "/" + e.model, Values: make([][]float32, len(texts))}
	for at := 0; at < len(texts); at += maxBatch {
		batch := texts[at:min(at+maxBatch, len(texts))]
		body, err := e.wire.PostAll(ctx, "/embeddings", e.encode(batch))
		if err != nil {
			return llm.Vectors{}, err
		}
		tokens, err := decodeVectors(body, out.Values[at:at+len(batch)])
		if err != nil {
			return llm.Vectors{}, e.wire.Malformed(err)
		}
		out.Tokens += tokens
	}
	for _, v := range out.Values {
		if len(v) == 0 || len(v) != len(out.Values[0]) {
			return llm.Vectors{}, e.wire.Malformed(errors.New("the vectors are missing or of different lengths"))
		}
	}
	return out, nil
}

func (e *embedder) encode(texts []string) []byte {
	input := slices.Clone(texts)
	for i, t := range input {
		input[i] = cmp.Or(t, " ") // the API refuses empty texts
	}
	return wire.Append(nil, `{"model":$,"encoding_format":"base64","input":$}`, e.model, wire.AppendStrings(nil, input))
}

// decodeVectors reads an answer into out, in the order of the vectors' indexes.
func decodeVectors(body []byte, out [][]float32) (tokens int64, err error) {
	var in struct {
		Data []struct {
			Index  *int           `json:"index"`
			Vector jsontext.Value `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Tokens int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, err
	}
	for i, d := range in.Data {
		if d.Index != nil {
			i = *d.Index
		}
		if i < 0 || i >= len(out) {
			return 0, errors.New("a vector has the index " + strconv.Itoa(i))
		}
		if out[i], err = vector(d.Vector); err != nil {
			return 0, err
		}
	}
	return in.Usage.Tokens, nil
}

// vector reads a vector: little-endian float32 in base64 or, from servers that do not support it, a list
// of numbers.
func vector(raw jsontext.Value) (v []float32, err error) {
	if raw.Kind() == '"' {
		var packed []byte
		if json.Unmarshal(raw, &packed) != nil || len(packed)%4 != 0 {
			return nil, errors.New("a vector is not base64 of float32")
		}
		for ; len(packed) > 0; packed = packed[4:] {
			v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(packed)))
		}
	} else if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	for _, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("a vector contains something other than numbers")
		}
	}
	return v, nil
}
