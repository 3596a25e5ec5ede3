package catalog

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/tool"
)

// The files of an agent's folder.
const (
	fileAgent  = "agent.yaml"
	fileConfig = "tool_config.yaml"
	filePrompt = "PROMPT.md"
	fileNotes  = "AGENTS.md"
	fileSkill  = "SKILL.md"
	dirSkills  = "skills"
	dirTools   = "tools"
	dirHooks   = "hooks"
	dirAgents  = "agents"
)

// definition is agent.yaml.
type definition struct {
	Name         string          `yaml:"name"`
	Description  string          `yaml:"description"`
	Version      string          `yaml:"version"`
	Config       json.RawMessage `yaml:"config"`
	Capabilities []string        `yaml:"capabilities"`
	Metadata     *node           `yaml:"metadata"`
	Prompt       string          `yaml:"prompt"`
	Model        string          `yaml:"model"`
	Sampling     sampling        `yaml:"sampling"`
	Limits       Limits          `yaml:"limits"`
	Parameters   json.RawMessage `yaml:"parameters"`
	Examples     []Example       `yaml:"examples"`
	Persona      bool            `yaml:"persona"`
	Secrets      []string        `yaml:"secrets"`
	Services     service.Configs `yaml:"services"`
	Hooks        *node           `yaml:"hooks"`
	Tools        []string        `yaml:"tools"`
	MCP          *node           `yaml:"mcp"`
	GRPC         *node           `yaml:"grpc"`
	Process      *node           `yaml:"process"`
	Domains      *node           `yaml:"domains"`

	metadata resource.Metadata
}

type sampling struct {
	Temperature *float64 `yaml:"temperature"`
	MaxTokens   int      `yaml:"max_tokens"`
	Stop        []string `yaml:"stop"`
	Effort      string   `yaml:"effort"`
}

// decl is a source or a hook that a level declares.
type decl struct {
	kind string // of the opener; hooks: the place
	name string
	declaration
}

// parsed is a definition as read, with what it declares.
type parsed struct {
	definition
	sources  []decl
	hooks    []decl
	problems []Problem

	namePlace, servicesPlace place
}

// parseDefinition reads agent.yaml or tool_config.yaml. names are the node's
// tools; nil: not known.
func parseDefinition(file string, text []byte, names []string) *parsed {
	d := &parsed{namePlace: place{1, 1}}
	bad := reporter(file, &d.problems)
	root := readYAML(text, bad)
	if len(d.problems) > 0 {
		return d
	}
	if root == nil {
		bad(place{1, 1}, "definition_empty", "write at least name and description", "the definition is empty")
		return d
	}
	decoder{bad: bad}.decode(root, &d.definition)
	c := checker{bad: bad, root: root, names: names}
	d.namePlace, d.servicesPlace = c.at("name"), c.at("services")
	c.definition(&d.definition)
	d.sources = slices.Concat(
		c.sources("mcp", d.MCP, file), c.sources("grpc", d.GRPC, file),
		c.sources("process", d.Process, file), c.sources("domain", d.Domains, file))
	d.hooks = c.hooks(d.Hooks, file)
	return d
}

// checker says what is wrong with values.
type checker struct {
	bad   report
	root  *node
	names []string
}

// at is the place of a value of the definition.
func (c checker) at(keys ...string) place {
	n := c.root
	for _, k := range keys {
		next := n.get(k)
		if next == nil {
			break
		}
		n = next
	}
	if n == nil {
		return place{1, 1}
	}
	return n.place
}

func (c checker) definition(d *definition) {
	if d.Name == "" {
		c.bad(c.at("name"), "name_missing", "write name: as the folder is called", "the agent has no name")
	} else if why := badName(d.Name); why != "" {
		c.bad(c.at("name"), "name_invalid", nameRemedy, "%q is no name: %s", clip(d.Name), why)
	}
	if strings.TrimSpace(d.Description) == "" {
		c.bad(c.at("description"), "description_missing", "say what it does and when to ask it", "the agent has no description: the level above chooses by it")
	}
	c.most("description", d.Description, 4<<10)
	c.most("version", d.Version, 64)
	c.metadata(d)
	c.model(d)
	c.limits(d)
	c.parameters(d)
	for i, e := range d.Examples {
		if strings.TrimSpace(e.Say) == "" {
			c.bad(c.item("examples", i), "value_invalid", "write say: what a person would say", "examples[%d] says nothing", i)
		}
	}
	for i, s := range d.Secrets {
		if !secretName.MatchString(s) {
			c.bad(c.item("secrets", i), "value_invalid", "use letters, digits, '_', '-' and '.'", "%q is no name of a secret", clip(s))
		}
	}
	for i, t := range d.Tools {
		c.uses(c.item("tools", i), t)
	}
	c.services(d)
}

var (
	secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)
	modelName  = regexp.MustCompile(`^[^\s/]+(/\S+)?$`)
)

// key is the place of a key inside one of the definition's maps.
func (c checker) key(in, key string) place {
	if n := c.root.get(in); n != nil {
		for _, f := range n.fields {
			if f.key == key {
				return f.place
			}
		}
	}
	return c.at(in)
}

// item is the place of an element of a list.
func (c checker) item(key string, i int) place {
	if n := c.root.get(key); n != nil && i < len(n.list) {
		return n.list[i].place
	}
	return c.at(key)
}

func (c checker) most(key, text string, most int) {
	if len(text) > most {
		c.bad(c.at(key), "value_too_long", fmt.Sprintf("keep it below %d bytes", most), "%s has %d bytes", key, len(text))
	}
}

// metadata takes the four parts; others are facts about the agent, for people.
func (c checker) metadata(d *definition) {
	if d.Metadata == nil || d.Metadata.kind == kindNull {
		return
	}
	if d.Metadata.kind != kindMap {
		c.bad(d.Metadata.place, "value_invalid", "write purpose, instructions, applicability, evaluation, author, created", "metadata: keys and their values are expected, not %s", d.Metadata.says())
		return
	}
	parts := map[string]*string{"purpose": &d.metadata.Purpose, "instructions": &d.metadata.Instructions,
		"applicability": &d.metadata.Applicability, "evaluation": &d.metadata.Evaluation}
	for _, f := range d.Metadata.fields {
		switch into := parts[f.key]; {
		case into != nil && f.value.kind != kindText && f.value.kind != kindNull:
			c.bad(f.value.place, "value_invalid", "write a text", "metadata.%s: a text is expected, not %s", f.key, f.value.says())
		case into != nil:
			*into = f.value.text
		default:
			if w := likely(f.key, []string{"purpose", "instructions", "applicability", "evaluation"}); w != "" {
				c.bad(f.place, "key_unknown", fmt.Sprintf("did you mean %q?", w), "there is no key %q in metadata", clip(f.key))
			}
		}
	}
}

func (c checker) model(d *definition) {
	if d.Model != "" && !modelName.MatchString(d.Model) {
		c.bad(c.at("model"), "value_invalid", "write an alias, or provider/model", "%q is no model", clip(d.Model))
	}
	s := d.Sampling
	if s.Temperature != nil && (*s.Temperature < 0 || *s.Temperature > 2) {
		c.bad(c.at("sampling", "temperature"), "value_invalid", "give a number from 0 to 2", "sampling.temperature is out of range")
	}
	if s.MaxTokens < 0 {
		c.bad(c.at("sampling", "max_tokens"), "value_invalid", "give a number of 1 or more", "sampling.max_tokens is negative")
	}
	efforts := []string{"", "none", "low", "medium", "high"}
	if !slices.Contains(efforts, s.Effort) {
		c.bad(c.at("sampling", "effort"), "value_invalid", "choose one of none, low, medium, high", "sampling.effort %q is not known", clip(s.Effort))
	}
}

func (c checker) limits(d *definition) {
	l := d.Limits
	for key, negative := range map[string]bool{"iterations": l.Iterations < 0, "tokens": l.Tokens < 0, "cost": l.Cost < 0} {
		if negative {
			c.bad(c.at("limits", key), "value_invalid", "give a number that is not negative", "limits.%s is negative", key)
		}
	}
}

// parameters must be a schema that a tool can have.
func (c checker) parameters(d *definition) {
	if d.Parameters == nil {
		return
	}
	_, _, err := tool.CheckSpec(tool.Spec{Name: "agent.ask", Description: "ask", Input: d.Parameters, Effect: tool.Query})
	if err != nil {
		c.bad(c.at("parameters"), "value_invalid", "write a JSON Schema with type: object", "parameters: %v", err)
	}
}

// uses looks at one of the node's tools that the agent names.
func (c checker) uses(p place, pattern string) {
	glob := strings.TrimPrefix(pattern, "!")
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		c.bad(p, "value_invalid", "write a name, or a glob such as math.*", "%q is no pattern for tools", clip(pattern))
		return
	}
	if c.names == nil || strings.ContainsAny(glob, `*?[\`) || slices.Contains(c.names, glob) {
		return
	}
	remedy := "tools are category.name; a glob such as math.* takes all of a category"
	if near := tool.Near(glob, c.names, 3); len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	c.bad(p, "tool_unknown", remedy, "Steward has no tool %q", clip(glob))
}

func (c checker) services(d *definition) {
	names := []string{string(service.LLM), string(service.DB), string(service.Logging), string(service.State), string(service.User)}
	for _, name := range sortedKeys(d.Services) {
		s, p := d.Services[name], c.at("services", string(name))
		oneOf := func(key, value string, words ...string) {
			if value != "" && !slices.Contains(words, value) {
				c.bad(c.at("services", string(name), key), "value_invalid", "choose one of "+strings.Join(words, ", "), "services.%s.%s %q is not known", name, key, clip(value))
			}
		}
		if !slices.Contains(names, string(name)) {
			remedy := "the services are " + strings.Join(names, ", ")
			if w := likely(string(name), names); w != "" {
				remedy = fmt.Sprintf("did you mean %q?", w)
			}
			c.bad(c.key("services", string(name)), "key_unknown", remedy, "there is no service %q", clip(string(name)))
		}
		oneOf("source", string(s.Source), "local", "remote", "parent")
		oneOf("offering", string(s.Offering), "none", "serve")
		oneOf("fallback", string(s.Fallback), "local")
		switch {
		case s.Source == service.Remote && s.URL == "":
			c.bad(p, "value_invalid", "give url", "services.%s is remote and has no url", name)
		case s.Source != service.Remote && s.URL != "":
			c.bad(p, "value_invalid", "write source: remote, or leave url out", "services.%s has a url and is not remote", name)
		}
	}
}

// sources lists what is declared under one of the keys of sources.
func (c checker) sources(kind string, n *node, file string) []decl {
	var out []decl
	if n == nil || n.kind == kindNull {
		return nil
	}
	if n.kind != kindMap {
		c.bad(n.place, "value_invalid", "write NAME: and its declaration", "names and their declarations are expected, not %s", n.says())
		return nil
	}
	for _, f := range n.fields {
		if why := badName(f.key); why != "" {
			c.bad(f.place, "name_invalid", nameRemedy, "%q is no name for a source of tools: %s", clip(f.key), why)
			continue
		}
		k := kind
		if kind == "domain" {
			k += ":" + f.key
		}
		if f.value.kind == kindNull { // a fault of it is told where its name is
			f.value.place = f.place
		}
		out = append(out, decl{k, f.key, declaration{file: file, node: f.value}})
	}
	return out
}

// hooks lists what is declared under hooks: by place, one or several.
func (c checker) hooks(n *node, file string) []decl {
	if n == nil || n.kind == kindNull {
		return nil
	}
	if n.kind != kindMap {
		c.bad(n.place, "value_invalid", "write before_tool: and what is to be called", "hooks: places and hooks are expected, not %s", n.says())
		return nil
	}
	var out []decl
	for _, f := range n.fields {
		if !slices.Contains(hookPlaces, f.key) {
			remedy := "hooks are called " + strings.Join(hookPlaces, ", ")
			if w := likely(f.key, hookPlaces); w != "" {
				remedy = fmt.Sprintf("did you mean %q?", w)
			}
			c.bad(f.place, "key_unknown", remedy, "there is no place %q for hooks", clip(f.key))
			continue
		}
		list := []*node{f.value}
		if f.value.kind == kindList {
			list = f.value.list
		}
		for i, e := range list {
			out = append(out, decl{f.key, fmt.Sprintf("hook_%s_%d", f.key, i+1), declaration{file: file, node: e}})
		}
	}
	return out
}

var hookPlaces = []string{tool.BeforeRequest, tool.BeforeModel, tool.AfterModel, tool.BeforeTool, tool.AfterTool, tool.AfterRequest}

func (s sampling) llm() llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort)}
}

// forAbove compiles what the level above is told of an agent.
func (d *definition) forAbove() string {
	parts := []string{strings.TrimSpace(d.Description)}
	if len(d.Capabilities) > 0 {
		parts = append(parts, "Capabilities: "+strings.Join(d.Capabilities, ", ")+".")
	}
	if m := d.metadata.Description(); m != "" {
		parts = append(parts, m)
	}
	if len(d.Examples) > 0 {
		var say []string
		for _, e := range d.Examples[:min(len(d.Examples), 5)] {
			say = append(say, "“"+strings.TrimSpace(e.Say)+"”")
		}
		parts = append(parts, "For example: "+strings.Join(say, ", ")+".")
	}
	text := strings.Join(parts, "\n")
	const most = 4 << 10
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
