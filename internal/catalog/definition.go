package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/strict"
	"steward/internal/tool"
)

// maxConfig bounds an agent's config as JSON, in bytes. It stands in the prompt, and in the environment of
// the agent's programs.
const maxConfig = 16 << 10

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
	Metadata     *strict.Node    `yaml:"metadata"`
	Prompt       string          `yaml:"prompt"`
	Model        string          `yaml:"model"`
	Sampling     sampling        `yaml:"sampling"`
	Limits       Limits          `yaml:"limits"`
	Parameters   json.RawMessage `yaml:"parameters"`
	Examples     []Example       `yaml:"examples"`
	Jobs         map[string]Job  `yaml:"jobs"`
	Persona      bool            `yaml:"persona"`
	Secrets      []string        `yaml:"secrets"`
	Services     service.Configs `yaml:"services"`
	Hooks        *strict.Node    `yaml:"hooks"`
	Tools        []string        `yaml:"tools"`
	Deferred     []string        `yaml:"deferred"`
	Checks       []Check         `yaml:"checks"`
	MCP          *strict.Node    `yaml:"mcp"`
	GRPC         *strict.Node    `yaml:"grpc"`
	Process      *strict.Node    `yaml:"process"`
	Domains      *strict.Node    `yaml:"domains"` // no longer used

	metadata resource.Metadata
}

type sampling struct {
	Temperature *float64 `yaml:"temperature"`
	MaxTokens   int      `yaml:"max_tokens"`
	Stop        []string `yaml:"stop"`
	Effort      string   `yaml:"effort"`
}

// decl is a declared source or hook.
type decl struct {
	kind string // of the opener; of a hook: its point (tool.BeforeTool, …)
	name string
	declaration
}

// parsed is a definition as read, with its declarations.
type parsed struct {
	definition
	sources  []decl
	hooks    []decl
	problems []Problem

	namePlace, servicesPlace strict.Position
}

// parseDefinition reads agent.yaml or tool_config.yaml. names are the node's tools; nil: unknown. readJob says when a
// job begins; nil: it is not checked.
func parseDefinition(file string, text []byte, names []string, readJob func(string, Job) (string, error)) *parsed {
	d := &parsed{namePlace: strict.At(1, 1)}
	bad := reporter(file, &d.problems)
	root := strict.ReadYAML(text, bad)
	if len(d.problems) > 0 {
		return d
	}
	if root == nil {
		bad(strict.At(1, 1), "definition_empty", "write at least name and description", "the definition is empty")
		return d
	}
	strict.Decoder{Bad: bad}.Decode(root, &d.definition)
	c := checker{bad: bad, root: root, names: names, readJob: readJob}
	d.namePlace, d.servicesPlace = c.at("name"), c.at("services")
	c.definition(&d.definition)
	d.sources = slices.Concat(
		c.sources("mcp", d.MCP, file), c.sources("grpc", d.GRPC, file),
		c.sources("process", d.Process, file), c.ownTools(d.Services, file))
	d.hooks = c.hooks(d.Hooks, file)
	return d
}

// checker reports invalid values of a definition.
type checker struct {
	bad   strict.Report
	root  *strict.Node
	names []string

	readJob func(string, Job) (string, error)
}

// at returns the position of a value of the definition.
func (c checker) at(keys ...string) strict.Position {
	n := c.root
	for _, k := range keys {
		next := n.Get(k)
		if next == nil {
			break
		}
		n = next
	}
	if n == nil {
		return strict.At(1, 1)
	}
	return n.Position
}

func (c checker) definition(d *definition) {
	if d.Name == "" {
		c.bad(c.at("name"), "name_missing", "write name: with the name of the folder", "the agent has no name")
	} else if why := badName(d.Name); why != "" {
		c.bad(c.at("name"), "name_invalid", nameRemedy, "%q is not a valid name: %s", strict.Clip(d.Name), why)
	}
	if strings.TrimSpace(d.Description) == "" {
		c.bad(c.at("description"), "description_missing", "describe what it does and when to ask it", "the agent has no description, which the level above needs to choose it")
	}
	c.most("description", d.Description, 4<<10)
	c.most("version", d.Version, 64)
	c.metadata(d)
	c.model(d)
	c.limits(d)
	c.parameters(d)
	for i, e := range d.Examples {
		if strings.TrimSpace(e.Say) == "" {
			c.bad(c.item("examples", i), "value_invalid", "write say: with what a person would say", "examples[%d] has no text", i)
		}
	}
	for i, s := range d.Secrets {
		if !secretName.MatchString(s) {
			c.bad(c.item("secrets", i), "value_invalid", "use letters, digits, '_', '-' and '.'", "%q is not a secret name", strict.Clip(s))
		}
	}
	if len(d.Config) > maxConfig {
		c.bad(c.at("config"), "value_too_long", "keep large data in a file of the folder", "the config has %d bytes as JSON: at most %d", len(d.Config), maxConfig)
	}
	for i, t := range d.Tools {
		c.uses(c.item("tools", i), t)
	}
	for i, t := range d.Deferred {
		if _, err := path.Match(t, ""); err != nil || t == "" {
			c.bad(c.item("deferred", i), "value_invalid", "write a name, or a glob such as todo.*", "%q is not a tool pattern", strict.Clip(t))
		}
	}
	c.checks(d)
	for _, f := range c.fields(d.Domains, "write tools: and names of Steward's own tools", "names") {
		remedy := "see docs/guides/agents.md for the sources of tools"
		if instead := formerDomains[f.Key]; instead != "" {
			remedy = "write " + instead
		}
		c.bad(f.Position, "domain_removed", remedy, "agents no longer have domains: %q is not supported", strict.Clip(f.Key))
	}
	c.services(d)
	c.jobs(d)
}

// checks reports invalid checks.
func (c checker) checks(d *definition) {
	if len(d.Checks) > maxChecks {
		c.bad(c.at("checks"), "value_too_long", "leave some out", "there are %d checks: at most %d", len(d.Checks), maxChecks)
		return
	}
	seen := map[string]bool{}
	for i, x := range d.Checks {
		at := c.item("checks", i)
		switch {
		case badName(x.Name) != "" || len(x.Name) > 64:
			c.bad(at, "value_invalid", "write name: with a word such as unread", "checks[%d] has no valid name: %q", i, strict.Clip(x.Name))
		case seen[x.Name]:
			c.bad(at, "value_invalid", "give each check a name of its own", "there are two checks %s", x.Name)
		case x.Query == "":
			c.bad(at, "value_invalid", "write query: with a tool of the agent that only reads", "the check %s has no query", x.Name)
		case x.Part != "" && x.Part[0] != '/':
			c.bad(at, "value_invalid", "write a JSON pointer such as /unread", "the part of the check %s does not begin with /", x.Name)
		case len(x.Args) > 4<<10:
			c.bad(at, "value_too_long", "use fewer arguments", "the arguments of the check %s have %d bytes: at most %d", x.Name, len(x.Args), 4<<10)
		}
		seen[x.Name] = true
	}
}

// formerDomains names, for each domain of earlier versions, what to write instead of it.
var formerDomains = map[string]string{
	"calendar":  "tools: [calendar.*]",
	"db":        "services: {db: {tools: true}}",
	"document":  "tools: [files.*]",
	"email":     "tools: [mail.*]",
	"state":     "services: {state: {tools: true}}",
	"task":      "tools: [todo.*]",
	"timer":     "tools: [timer.*]",
	"weather":   "tools: [weather.*]",
	"websearch": "tools: [web.*]",
}

var (
	secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)
	modelName  = regexp.MustCompile(`^[^\s/]+(/\S+)?$`)
)

// key returns the position of a key in one of the definition's maps.
func (c checker) key(in, key string) strict.Position {
	if n := c.root.Get(in); n != nil {
		for _, f := range n.Fields {
			if f.Key == key {
				return f.Position
			}
		}
	}
	return c.at(in)
}

// item returns the position of an element of a list.
func (c checker) item(key string, i int) strict.Position {
	if n := c.root.Get(key); n != nil && i < len(n.List) {
		return n.List[i].Position
	}
	return c.at(key)
}

func (c checker) most(key, text string, most int) {
	if len(text) > most {
		c.bad(c.at(key), "value_too_long", fmt.Sprintf("keep it below %d bytes", most), "%s has %d bytes", key, len(text))
	}
}

// metadata reads the four known parts. Other keys are facts about the agent for people.
func (c checker) metadata(d *definition) {
	parts := map[string]*string{"purpose": &d.metadata.Purpose, "instructions": &d.metadata.Instructions,
		"applicability": &d.metadata.Applicability, "evaluation": &d.metadata.Evaluation}
	for _, f := range c.fields(d.Metadata, "write purpose, instructions, applicability, evaluation, author, created", "metadata: keys and their values") {
		switch into := parts[f.Key]; {
		case into != nil && f.Value.Kind != strict.Text && f.Value.Kind != strict.Null:
			c.bad(f.Value.Position, "value_invalid", "write a text", "metadata.%s: expected a text, found %s", f.Key, f.Value)
		case into != nil:
			*into = f.Value.Text
		default:
			if remedy := suggestion(f.Key, sortedKeys(parts), ""); remedy != "" {
				c.bad(f.Position, "key_unknown", remedy, "unknown key %q in metadata", strict.Clip(f.Key))
			}
		}
	}
}

func (c checker) model(d *definition) {
	if d.Model != "" && !modelName.MatchString(d.Model) {
		c.bad(c.at("model"), "value_invalid", "write an alias, or provider/model", "%q is not a model", strict.Clip(d.Model))
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
		c.bad(c.at("sampling", "effort"), "value_invalid", "choose one of none, low, medium, high", "sampling.effort %q is invalid", strict.Clip(s.Effort))
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

// uses checks a name or glob of the node's own tools.
func (c checker) uses(p strict.Position, pattern string) {
	glob := strings.TrimPrefix(pattern, "!")
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		c.bad(p, "value_invalid", "write a name, or a glob such as math.*", "%q is not a tool pattern", strict.Clip(pattern))
		return
	}
	_, alias := tool.Alias(glob)
	if c.names == nil || alias || tool.IsGlob(glob) || slices.Contains(c.names, glob) {
		return
	}
	remedy := "tool names have the form category.name; a glob such as math.* selects a whole category"
	if near := tool.SimilarNames(glob, c.names, 3); len(near) > 0 {
		remedy = "did you mean " + strings.Join(near, " or ") + "?"
	}
	c.bad(p, "tool_unknown", remedy, "Steward has no tool %q", strict.Clip(glob))
}

func (c checker) services(d *definition) {
	names := []string{string(service.LLM), string(service.DB), string(service.Logging), string(service.State), string(service.User)}
	for _, name := range sortedKeys(d.Services) {
		s, p := d.Services[name], c.at("services", string(name))
		oneOf := func(key, value string, words ...string) {
			if value != "" && !slices.Contains(words, value) {
				c.bad(c.at("services", string(name), key), "value_invalid", "choose one of "+strings.Join(words, ", "), "services.%s.%s %q is invalid", name, key, strict.Clip(value))
			}
		}
		if !slices.Contains(names, string(name)) {
			c.unknown(c.key("services", string(name)), string(name), "service %q", names, "the services are "+strings.Join(names, ", "))
		}
		oneOf("source", string(s.Source), "local", "remote", "parent")
		oneOf("offering", string(s.Offering), "none", "serve")
		oneOf("fallback", string(s.Fallback), "local")
		if s.Tools && name != service.State && name != service.DB {
			c.bad(c.at("services", string(name), "tools"), "value_invalid", "leave tools out", "only state and db have tools; services.%s does not", name)
		}
		switch {
		case s.Source == service.Remote && s.URL == "":
			c.bad(p, "value_invalid", "give url", "services.%s is remote and has no url", name)
		case s.Source != service.Remote && s.URL != "":
			c.bad(p, "value_invalid", "write source: remote, or leave url out", "services.%s has a url but is not remote", name)
		}
	}
}

// fields returns the fields of a map. It reports anything other than a map.
func (c checker) fields(n *strict.Node, remedy, expected string) []strict.Field {
	switch {
	case n == nil || n.Kind == strict.Null:
		return nil
	case n.Kind != strict.Map:
		c.bad(n.Position, "value_invalid", remedy, "expected %s, found %s", expected, n)
		return nil
	}
	return n.Fields
}

// unknown reports an unknown key, with the known one that was probably meant.
func (c checker) unknown(p strict.Position, key, what string, known []string, remedy string) {
	c.bad(p, "key_unknown", suggestion(key, known, remedy), "there is no "+what, strict.Clip(key))
}

// suggestion returns a remedy that names the known word closest to a wrong one, or else the given one.
func suggestion(word string, known []string, otherwise string) string {
	if w := strict.Suggest(word, known); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	return otherwise
}

// sources lists what is declared under one of the keys of sources.
func (c checker) sources(kind string, n *strict.Node, file string) []decl {
	var out []decl
	for _, f := range c.fields(n, "write NAME: and its declaration", "names and their declarations") {
		if why := badName(f.Key); why != "" {
			c.bad(f.Position, "name_invalid", nameRemedy, "%q is not a valid source name: %s", strict.Clip(f.Key), why)
			continue
		}
		if f.Value.Kind == strict.Null { // its faults are reported at its name
			f.Value.Position = f.Position
		}
		out = append(out, decl{kind, f.Key, declaration{file: file, node: f.Value}})
	}
	return out
}

// ownTools returns the sources of the tools for the agent's own services.
func (c checker) ownTools(services service.Configs, file string) []decl {
	var out []decl
	for _, name := range []service.Name{service.State, service.DB} {
		if services[name].Tools {
			at := &strict.Node{Kind: strict.Map, Position: c.at("services", string(name), "tools")}
			out = append(out, decl{string(name), string(name), declaration{file: file, node: at}})
		}
	}
	return out
}

// hooks lists the declared hooks: one or several for each point of a turn.
func (c checker) hooks(n *strict.Node, file string) []decl {
	var out []decl
	for _, f := range c.fields(n, "write before_tool: with the program to call", "hooks: places and hooks") {
		if !slices.Contains(hookPlaces, f.Key) {
			c.unknown(f.Position, f.Key, "unknown kind of hook %q", hookPlaces, "the kinds of hooks are "+strings.Join(hookPlaces, ", "))
			continue
		}
		list := []*strict.Node{f.Value}
		if f.Value.Kind == strict.List {
			list = f.Value.List
		}
		for i, e := range list {
			out = append(out, decl{f.Key, fmt.Sprintf("hook_%s_%d", f.Key, i+1), declaration{file: file, node: e}})
		}
	}
	return out
}

var hookPlaces = []string{tool.BeforeRequest, tool.BeforeModel, tool.AfterModel, tool.BeforeTool, tool.AfterTool, tool.AfterRequest}

func (s sampling) llm() llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort)}
}

// forAbove returns the description of an agent for the level above.
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
	return slices.Sorted(maps.Keys(m))
}
