package identity

import (
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
)

// Persona is how an agent speaks. It adds lines to the prompt of the agent that talks with the user, and
// changes no rights and no tools. All members are optional.
type Persona struct {
	Name     string `json:"name,omitzero"` // what the agent is called
	Tone     string `json:"tone,omitzero"`
	Language string `json:"language,omitzero"`
	Voice    string `json:"voice,omitzero"` // how it puts things: "short sentences, no exclamation marks"
}

// NoPersona is chosen to have none.
const NoPersona = "off"

// AnyAgent stands for all agents without a choice of their own.
const AnyAgent = "*"

// Bounds of a profile's personas.
const (
	maxPersonas = 50
	maxPersona  = 200 // characters of a member
)

// builtInPersonas are there for everybody. A user's own of the same name replaces one.
func builtInPersonas() map[string]Persona {
	return map[string]Persona{
		"brief":  {Tone: "matter-of-fact", Voice: "as few words as possible, no introduction, no repetition"},
		"formal": {Tone: "polite and formal", Voice: "complete sentences, no jokes, no slang"},
		"warm":   {Tone: "friendly and encouraging", Voice: "plain words, as to a friend"},
	}
}

// AllPersonas returns the personas that the user can choose, by their names.
func (p Profile) AllPersonas() map[string]Persona {
	all := builtInPersonas()
	maps.Copy(all, p.Personas)
	return all
}

// PersonaLines returns what the chosen persona adds to the prompt of the agent that talks with the
// user; empty: nothing. agent is empty if none does.
func (p Profile) PersonaLines(agent string) string {
	if agent == "" {
		return ""
	}
	name, ok := p.Persona[agent]
	if !ok {
		name = p.Persona[AnyAgent]
	}
	x := p.AllPersonas()[name]
	var b strings.Builder
	for _, f := range [][2]string{{"name", x.Name}, {"tone", x.Tone}, {"language", x.Language}, {"phrasing", x.Voice}} {
		if f[1] != "" {
			b.WriteString("\n- Your " + f[0] + ": " + f[1])
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "The user wants you to speak as follows. This does not change what you may do:" + b.String()
}

func (p Profile) checkPersonas() error {
	if len(p.Personas) > maxPersonas || len(p.Persona) > maxPersonas {
		return fault.New(fault.Invalid, "persona_invalid", "a profile has at most %d personas and %d choices", maxPersonas, maxPersonas).WithHint("remove some")
	}
	for name, x := range p.Personas {
		for what, text := range map[string]string{"the name of a persona": name, "the agent's name": x.Name, "a tone": x.Tone, "a language": x.Language, "a voice": x.Voice} {
			if err := checkText("persona_invalid", what, text, maxPersona); err != nil {
				return err
			}
		}
		if name == "" || name == NoPersona {
			return fault.New(fault.Invalid, "persona_invalid", "invalid persona name %q", name).WithHint("choose another name")
		}
	}
	for agent, name := range p.Persona {
		if err := checkText("persona_invalid", "a choice of a persona", agent+name, maxPersona); err != nil {
			return err
		}
	}
	return nil
}

// CheckPersona returns persona_unknown unless the user can choose a persona of this name.
func (p Profile) CheckPersona(name string) error {
	all := p.AllPersonas()
	if _, ok := all[name]; ok || name == NoPersona {
		return nil
	}
	return fault.New(fault.Invalid, "persona_unknown", "unknown persona %.80q", name).
		WithHint("the personas are %s and %s", strings.Join(slices.Sorted(maps.Keys(all)), ", "), NoPersona)
}

// ChoosePersona sets the persona of one of a user's agents, and returns the profile as About does.
// Errors: persona_unknown, persona_invalid, and the store's.
func (r *Registry) ChoosePersona(ctx context.Context, user string, set Profile, agent, name string) (Profile, error) {
	all, err := r.About(ctx, user, set)
	if err != nil {
		return all, err
	}
	if err := all.CheckPersona(name); err != nil {
		return all, err
	}
	stored, err := r.Profile(ctx, user)
	if err != nil {
		return all, err
	}
	stored.Persona = merged(stored.Persona, map[string]string{agent: name})
	if _, err := r.SetProfile(ctx, user, stored); err != nil {
		return all, err
	}
	return r.About(ctx, user, set)
}
