package app

import (
	"errors"
	"strings"

	"steward/internal/llm"
	"steward/internal/search/similar"
	"steward/internal/search/vector"
	"steward/internal/settings"
)

// embedding returns how messages get vectors: by the model of models.embed or, if that is
// not set, by an embedding model that runs on this machine or its own network. A remote
// model that is not named in the settings is not sent a person's messages.
func (l *Local) embedding(set *settings.Loaded) vector.Options {
	local := Places(set)
	_, chosen := set.Models[llm.EmbedAlias]
	return vector.Options{PerMinute: set.Embed.PerMinute, DayCost: set.Embed.DayCost, Allow: ModelGate(l.Judge, local),
		Model: func(name string) (vector.Model, error) {
			e, err := l.Found.Models.Embedder(name)
			if err != nil {
				return vector.Model{}, err
			}
			provider, _, _ := strings.Cut(e.Name, "/")
			vendor, _ := Vendors().Named(provider)
			builtIn := vendor.Access == llm.BuiltIn
			switch {
			case builtIn && chosen:
				return vector.Lexical(), nil
			case builtIn, name == "" && !chosen && (!local(e.Name) || vendor.Access != llm.ByLocal):
				// Only servers of this machine that list an embedding model are asked without being named: others may
				// not have the one that is usual for their vendor.
				return vector.Model{}, errNoEmbedder
			}
			price, _ := l.Found.Models.Price(e.Name)
			return vector.Model{Name: e.Name, Embedder: e.Embedder, Price: price.Input}, nil
		}}
}

// similarity returns how agents are found for tasks, and tools for requests: by the embedding model that messages
// get vectors of. One that is made of words knows less than the words themselves.
func similarity(o vector.Options) similar.Options {
	return similar.Options{Allow: o.Allow, Model: func() (similar.Model, error) {
		m, err := o.Model("")
		if err == nil && m.Lexical {
			err = errNoEmbedder
		}
		return similar.Model{Name: m.Name, Embedder: m.Embedder}, err
	}}
}

var errNoEmbedder = errors.New("no embedding model is set up (models.embed)")

// noModels is the option of an index that is opened without any models.
func noModels(string) (vector.Model, error) {
	return vector.Model{}, errors.New("models are not asked by this command")
}
