package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"steward/internal/embed"
	"steward/internal/provider/wire"
)

// maxBatch is how many texts go in one request; the API takes up to 2,048,
// but counts their tokens together.
const maxBatch = 256

type embedder struct {
	*Provider
	model string
}

// Embedder returns an embedder by the provider's own name of the model. Many
// texts are asked for in several requests, one after the other.
func (p *Provider) Embedder(model string) embed.Embedder { return &embedder{p, model} }

// Embed implements embed.Embedder.
func (e *embedder) Embed(ctx context.Context, texts []string) (embed.Vectors, error) {
	out := embed.Vectors{Model: e.name + "/" + e.model, Values: make([][]float32, len(texts))}
	for at := 0; at < len(texts); at += maxBatch {
		batch := texts[at:min(at+maxBatch, len(texts))]
		body, err := e.wire.PostAll(ctx, "/embeddings", e.encode(batch))
		if err != nil {
			return embed.Vectors{}, err
		}
		tokens, err := decodeVectors(body, out.Values[at:at+len(batch)])
		if err != nil {
			return embed.Vectors{}, e.wire.Malformed(err)
		}
		out.Tokens += tokens
	}
	for _, v := range out.Values {
		if len(v) == 0 || len(v) != len(out.Values[0]) {
			return embed.Vectors{}, e.wire.Malformed(errors.New("the vectors are missing or of different lengths"))
		}
	}
	return out, nil
}

func (e *embedder) encode(texts []string) []byte {
	b := wire.AppendString([]byte(`{"model":`), e.model)
	b = append(b, `,"encoding_format":"base64","input":[`...)
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		if t == "" {
			t = " " // the API refuses empty ones
		}
		b = wire.AppendString(b, t)
	}
	return append(b, "]}"...)
}

// decodeVectors reads an answer into out, by the vectors' indexes.
func decodeVectors(body []byte, out [][]float32) (tokens int64, err error) {
	d := wire.Decode(body)
	d.Object(func(key []byte) {
		switch string(key) {
		case "data":
			d.Array(func(i int) {
				at, v := int64(i), []float32(nil)
				d.Object(func(key []byte) {
					switch string(key) {
					case "index":
						at = d.Int()
					case "embedding":
						v, err = vector(d, err)
					}
				})
				if at < 0 || at >= int64(len(out)) {
					err = errors.New("a vector has the index " + strconv.FormatInt(at, 10))
					return
				}
				out[at] = v
			})
		case "usage":
			d.Object(func(key []byte) {
				if string(key) == "prompt_tokens" {
					tokens = d.Int()
				}
			})
		}
	})
	if e := d.End(); e != nil {
		err = e
	}
	return tokens, err
}

// vector reads a vector: little-endian float32 in base64, or, from servers
// that do not know that, a list of numbers.
func vector(d *wire.Decoder, err error) ([]float32, error) {
	var v []float32
	if d.IsString() {
		raw, e := base64.StdEncoding.DecodeString(d.String())
		if e != nil || len(raw)%4 != 0 {
			return nil, errors.New("a vector is not base64 of float32")
		}
		v = make([]float32, len(raw)/4)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	} else {
		d.Array(func(int) { v = append(v, float32(d.Float())) })
	}
	for _, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("a vector holds what is no number")
		}
	}
	return v, err
}
