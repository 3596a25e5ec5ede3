package llm

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// Tested is what a test found about a model. A missing ability could not be tested.
type Tested struct {
	At   time.Time                 `json:"at"`
	Can  map[Ability]bool          `json:"can"`
	Took map[Ability]time.Duration `json:"took_ns"`
	Errs map[Ability]error         `json:"-"`
}

// probeTokens bounds the answer to one question of a test. Models that reason need some of it.
const probeTokens = 2048

// Probe asks a model for a tool call, for the colours of an image, and for an answer in a form, or only
// for what the given abilities mean. Each is a small request through the provider's client, with the same
// budgets and retries as any other, but without what adapts requests to models. user is whose budget
// counts.
func (m *Models) Probe(ctx context.Context, full, user string, only ...Ability) (Tested, error) {
	m = m.now()
	p, err := m.provider(full)
	if err != nil {
		return Tested{}, err
	}
	_, name, _ := strings.Cut(full, "/")
	model := m.guarded(full, &large{p.Model(name), m.large}).model
	out := Tested{At: time.Now().UTC().Truncate(time.Second), Can: map[Ability]bool{}, Took: map[Ability]time.Duration{}, Errs: map[Ability]error{}}
	for _, a := range adaptable {
		if len(only) > 0 && !slices.Contains(only, a.ability) {
			continue
		}
		r, good := question(a.ability)
		r.User, r.Sampling.MaxTokens = user, probeTokens
		begun := time.Now()
		reply, err := Answer(ctx, model, r)
		out.Took[a.ability] = time.Since(begun)
		switch {
		case err == nil:
			out.Can[a.ability] = good(reply)
		case fault.HasCode(err, a.code), fault.HasCode(err, "request_refused"), fault.HasCode(err, codeEmpty):
			out.Can[a.ability] = false
		default:
			out.Errs[a.ability] = err
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
	}
	return out, nil
}

// question returns the request that tests an ability, and what tells whether the reply shows it.
func question(a Ability) (*Request, func(*Reply) bool) {
	ask := func(text string, more ...message.Block) *Request {
		blocks := append([]message.Block{&message.Text{Text: text}}, more...)
		return &Request{Transcript: NewTranscript(&message.Message{ID: id.New(), Role: message.User, Blocks: blocks})}
	}
	switch a {
	case CanTools:
		r := ask("Use the tool note_number to note the number 417. Do not answer in words.")
		r.Tools = NewToolset(tool.Spec{Name: "note_number", Description: "Notes a number.",
			Input: []byte(`{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]}`)})
		return r, func(reply *Reply) bool {
			var in struct {
				Number int `json:"number"`
			}
			for _, c := range (&message.Message{Role: message.Assistant, Blocks: reply.Blocks}).Calls() {
				if c.Name == "note_number" && json.Unmarshal(c.Args, &in) == nil && in.Number == 417 {
					return true
				}
			}
			return false
		}
	case CanSchema:
		r := ask("How many legs do three spiders have together?")
		r.Schema = &Schema{Name: "legs", JSON: []byte(`{"type":"object","properties":{"legs":{"type":"integer"}},"required":["legs"],"additionalProperties":false}`)}
		return r, func(reply *Reply) bool {
			var out struct {
				Legs *int `json:"legs"`
			}
			text := (&message.Message{Blocks: reply.Blocks}).Text()
			return json.Unmarshal([]byte(text), &out, json.RejectUnknownMembers(true)) == nil && out.Legs != nil
		}
	}
	words, picture := flag()
	r := ask("Which two colours does this picture have, from left to right? Answer with the two words alone.", &message.Image{MIME: "image/png", Data: picture})
	return r, func(reply *Reply) bool {
		said := strings.ToLower((&message.Message{Blocks: reply.Blocks}).Text())
		left, right := strings.Index(said, words[0]), strings.Index(said, words[1])
		return left >= 0 && left < right
	}
}

// flag returns the names of two colours and a picture of them, left and right. They differ from test
// to test, so that a model that sees nothing hardly guesses them.
func flag() (words [2]string, picture []byte) {
	names := []string{"red", "green", "blue", "yellow", "black", "white"}
	colours := []color.Color{color.RGBA{R: 255, A: 255}, color.RGBA{G: 160, A: 255}, color.RGBA{B: 255, A: 255}, color.RGBA{R: 255, G: 230, A: 255}, color.Black, color.White}
	pick := rand.Perm(len(names))
	img := image.NewRGBA(image.Rect(0, 0, 128, 64))
	for x := range 128 {
		for y := range 64 {
			img.Set(x, y, colours[pick[x/64]])
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(fmt.Sprintf("llm: a small picture cannot be encoded: %v", err))
	}
	return [2]string{names[pick[0]], names[pick[1]]}, b.Bytes()
}
