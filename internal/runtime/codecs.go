package runtime

import (
	"strings"

	"steward/internal/exchange"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// Codecs are the forms in which the vendors of models take the messages of a
// conversation: those that their clients write requests with.
func Codecs() map[string]llm.Codec {
	return map[string]llm.Codec{
		exchange.OpenAI:    openai.New(openai.Options{}).Codec(""),
		exchange.Anthropic: anthropic.New(anthropic.Options{}).Codec(""),
		exchange.Gemini:    gemini.New(gemini.Options{}).Codec(""),
		exchange.Ollama:    ollama.New(ollama.Options{}).Codec(""),
	}
}

// Convert reads messages in the form of one vendor and writes them in that of
// another. What is not known is kept as text, and said in notes. Error codes:
// format_unknown, history_….
func (n *Node) Convert(doc []byte, from, to string) (list []byte, notes []string, err error) {
	codecs := Codecs()
	for _, name := range []string{from, to} {
		if codecs[name] == nil {
			return nil, nil, fault.New(fault.Invalid, "format_unknown", "there is no form of messages called %.40q", name).
				With("say from and to: each one of %s", strings.Join(exchange.Vendors(), ", "))
		}
	}
	got, err := codecs[from].Import(doc)
	if err != nil {
		return nil, nil, err
	}
	list, err = codecs[to].Encode(got.Messages)
	return list, got.Notes, err
}
