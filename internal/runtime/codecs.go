package runtime

import (
	"strings"

	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/llm"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/gemini"
	"steward/internal/provider/ollama"
	"steward/internal/provider/openai"
)

// Codecs returns the codecs of the model vendors' message formats, by vendor. The
// providers' clients use the same codecs for their requests.
func Codecs() map[string]llm.Codec {
	return map[string]llm.Codec{
		importexport.OpenAI:    openai.New(openai.Options{}).Codec(""),
		importexport.Anthropic: anthropic.New(anthropic.Options{}).Codec(""),
		importexport.Gemini:    gemini.New(gemini.Options{}).Codec(""),
		importexport.Ollama:    ollama.New(ollama.Options{}).Codec(""),
	}
}

// Convert converts messages from one vendor's format to another's. It keeps what
// it does not know as text, and lists it in notes. Error codes: format_unknown,
// history_….
func (n *Node) Convert(doc []byte, from, to string) (list []byte, notes []string, err error) {
	codecs := Codecs()
	for _, name := range []string{from, to} {
		if codecs[name] == nil {
			return nil, nil, fault.New(fault.Invalid, "format_unknown", "there is no form of messages called %.40q", name).
				WithHint("say from and to: each one of %s", strings.Join(importexport.Vendors(), ", "))
		}
	}
	got, err := codecs[from].Import(doc)
	if err != nil {
		return nil, nil, err
	}
	list, err = codecs[to].Encode(got.Messages)
	return list, got.Notes, err
}
