package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/service"
	"steward/internal/strict"
)

// reader reads the folders of agents.
type reader struct {
	names   []string // the node's tools
	readJob func(string, Job) (string, error)
	units   []*unit
	dirs    map[string]bool // to watch
}

// folder reads the agents in a folder.
func (r *reader) folder(dir string) error {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		r.dirs[filepath.Dir(dir)] = true // it may appear
		return nil
	}
	if err != nil {
		return err
	}
	f := folder{root, dir}
	return errors.Join(r.level(f, ".", "", 1), root.Close())
}

// level reads the agents in a folder of agents.
func (r *reader) level(f folder, in, above string, depth int) error {
	list, err := f.entries(in)
	if err != nil {
		return err
	}
	if list == nil && in != "." {
		return nil
	}
	r.dirs[filepath.Join(f.dir, in)] = true
	for _, e := range list {
		if strings.HasPrefix(e.name, ".") || strings.HasPrefix(e.name, "_") || !e.dir && !e.link {
			continue
		}
		if !e.dir && e.link {
			if _, err := f.root.Stat(filepath.Join(in, e.name)); err == nil {
				continue // a link to a file
			}
		}
		r.agent(f, path.Join(in, e.name), e, above, depth)
	}
	return nil
}

// agent reads one agent's folder and those inside it.
func (r *reader) agent(f folder, at string, e entry, above string, depth int) {
	u := &unit{kind: KindAgent, above: above, dir: filepath.Join(f.dir, at), name: visible(e.name)}
	u.file = filepath.Join(u.dir, fileAgent)
	defer func() {
		if u.path = u.name; above != "" {
			u.path = above + "/" + u.name
		}
		r.units = append(r.units, u)
	}()
	if depth > maxDepth {
		u.add(strict.Position{}, "agent_too_deep", "move it to a higher level", "agents are at most %d levels deep", maxDepth)
		return
	}
	root, err := f.root.OpenRoot(filepath.FromSlash(at))
	if err != nil {
		u.unreadable(".", err)
		return
	}
	own := folder{root, u.dir}
	r.dirs[u.dir] = true
	r.read(own, u, e.name)
	if u.name != "" && badName(u.name) == "" {
		full := u.name
		if above != "" {
			full = above + "/" + u.name
		}
		if err := r.level(own, dirAgents, full, depth+1); err != nil {
			u.unreadable(dirAgents, err)
		}
	}
	if err := root.Close(); err != nil {
		u.unreadable(".", err)
	}
}

// read reads an agent's definition and the files beside it.
func (r *reader) read(f folder, u *unit, folderName string) {
	def, ok := r.definition(f, u)
	if !ok {
		return
	}
	u.def = parseDefinition(def.path, def.data, r.names, r.readJob)
	u.problems = append(u.problems, u.def.problems...)
	u.decls = u.def.sources
	switch name := u.def.Name; {
	case name == "" || badName(name) != "":
		if why := badName(strings.TrimSuffix(folderName, "_agent")); why != "" {
			u.add(strict.At(1, 1), "name_invalid", nameRemedy, "invalid folder name “%s”: %s", folderName, why)
		}
	case !matchesFolder(name, folderName):
		if badName(folderName) == "" {
			u.name = folderName
		}
		u.add(u.def.namePlace, "name_mismatch", fmt.Sprintf("rename the folder to %q, or the agent to %q", name, strings.TrimSuffix(folderName, "_agent")),
			"the agent %q is in the folder “%s”", name, folderName)
	default:
		u.name = name
	}
	r.readPrompts(f, u)
	r.skills(f, u)
	r.toolFiles(f, u)
}

// definition finds and reads the file of the definition.
func (r *reader) definition(f folder, u *unit) (pin, bool) {
	var found []pin
	for _, name := range []string{fileAgent, fileConfig} {
		p, err := f.text(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			u.unreadable(name, err)
			return p, false
		}
		found = append(found, p)
	}
	switch len(found) {
	case 0:
		remedy := "steward agents new creates a working one"
		for _, near := range []string{"agent.yml", "agent.json", "Agent.yaml", "tool_config.yml"} {
			if _, err := f.root.Stat(near); err == nil {
				remedy = "rename " + near + " to " + fileAgent
			}
		}
		u.add(strict.Position{}, "definition_missing", remedy, "there is no %s in this folder", fileAgent)
		return pin{}, false
	case 2:
		u.add(strict.Position{}, "definition_twice", "keep one of the two", "both %s and %s exist", fileAgent, fileConfig)
		return pin{}, false
	}
	u.file = found[0].path
	u.pins = append(u.pins, found[0])
	return found[0], true
}

// readPrompts reads PROMPT.md and AGENTS.md.
func (r *reader) readPrompts(f folder, u *unit) {
	for _, name := range []string{filePrompt, fileNotes} {
		p, err := f.text(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			u.unreadable(name, err)
		default:
			u.pins = append(u.pins, p)
			if name == filePrompt && u.def.Prompt != "" {
				u.add(strict.At(1, 1), "prompt_twice", "keep one of the two", "both prompt and %s exist", filePrompt)
			}
		}
	}
}

// entries returns the entries of a folder in an agent's folder, without hidden ones. If there are any, the folder
// is watched.
func (r *reader) entries(f folder, u *unit, name string) []entry {
	list, err := f.entries(name)
	if err != nil {
		u.unreadable(name, err)
		return nil
	}
	if len(list) > 0 {
		r.dirs[filepath.Join(u.dir, name)] = true
	}
	return slices.DeleteFunc(list, func(e entry) bool { return strings.HasPrefix(e.name, ".") })
}

// toolFiles reads tools/*.yaml, one process tool each.
func (r *reader) toolFiles(f folder, u *unit) {
	for _, e := range r.entries(f, u, dirTools) {
		if e.dir || !strings.HasSuffix(e.name, ".yaml") {
			continue
		}
		p, err := f.text(path.Join(dirTools, e.name))
		if err != nil {
			u.unreadable(path.Join(dirTools, e.name), err)
			continue
		}
		u.pins = append(u.pins, p)
		u.toolFile(p)
	}
}

func (u *unit) toolFile(p pin) {
	before := len(u.problems)
	bad := reporter(p.path, &u.problems)
	n := strict.ReadYAML(p.data, bad)
	if len(u.problems) > before {
		return
	}
	name := n.Get("name")
	if n == nil || n.Kind != strict.Map || name == nil {
		bad(strict.At(1, 1), "name_missing", "write name: and the other keys of a process tool", "the tool has no name")
		return
	}
	if why := badName(name.Text); name.Kind != strict.Text || why != "" {
		bad(name.Position, "name_invalid", nameRemedy, "%q is not a valid name for a tool's file: %s", strict.Clip(name.Text), why)
		return
	}
	u.decls = append(u.decls, decl{"process", name.Text, declaration{file: p.path, node: n, known: []string{"name"}}})
}

// check refuses names that shadow Steward's own, and sources of one agent that shadow each other.
// Names that two agents or sources claim are settled once it is known which of them is approved
// (settleNames).
func (r *reader) check() {
	for _, u := range r.units {
		if u.isBroken() {
			continue
		}
		if u.kind == KindAgent && u.path == rootName {
			u.add(u.namePlace(), "name_taken", "give it another name", "an agent cannot be called %q: that is the name of the root agent", u.name)
		}
		if why := nameConflict(u.name, r.ownTools(u)); why != "" && badName(u.name) == "" {
			u.add(u.namePlace(), "name_taken", "give it another name", "%s %s cannot be called %q: %s", article(u.kind), u.kind, u.name, why)
		}
		if u.def != nil {
			r.sourceNames(u)
		}
	}
}

func article(word string) string {
	if strings.HasPrefix(word, "a") {
		return "an"
	}
	return "a"
}

// namePlace returns the position of a unit's name.
func (u *unit) namePlace() strict.Position {
	switch {
	case u.def != nil:
		return u.def.namePlace
	case u.kind == KindSource:
		return u.decls[0].node.Position
	}
	return strict.At(1, 1)
}

// bind resolves the services of all agents through their levels, so that a service that the level
// above does not offer is reported now, not at the first call. An agent's own model is also the
// one that its programs get. The units are sorted by path. Levels are distinguished by their
// folders: of two agents with one name, only one is used.
func (r *reader) bind() {
	bound := map[string]service.Bindings{}
	models := map[string]string{} // of the agents, or of those above them
	for _, u := range r.units {
		if u.kind != KindAgent || u.def == nil || len(u.problems) > 0 {
			continue
		}
		in := filepath.Dir(filepath.Dir(u.dir))
		above, ok := bound[in]
		if !ok { // the agent above is invalid, so this one cannot be used anyway
			above = service.Root()
		}
		b, errs := service.Resolve(u.path, u.def.Services, above)
		for _, err := range errs {
			e := fault.Of(err)
			u.add(u.def.servicesPlace, e.Code, e.Remedy, "%s", withoutRemedy(e))
		}
		models[u.dir] = cmp.Or(u.def.Model, models[in])
		if m := b[service.LLM]; m.Source == service.Local && m.Owner == u.path && m.Model == "" {
			m.Model = models[u.dir]
			b[service.LLM] = m
		}
		if len(errs) == 0 {
			u.bindings, bound[u.dir] = b, b
		}
	}
}

// ownTools returns the names of Steward's own tools on the level that a unit belongs to: all of
// them above all agents, and below an agent those that it uses.
func (r *reader) ownTools(u *unit) []string {
	if u.above == "" {
		return r.names
	}
	for _, parent := range r.units {
		if parent.path == u.above && parent.def != nil {
			return parent.uses(r.names)
		}
	}
	return nil
}

// sourceNames refuses sources of an agent that shadow each other or Steward's own tools.
func (r *reader) sourceNames(u *unit) {
	seen := map[string]bool{}
	for _, d := range u.decls {
		bad := reporter(d.file, &u.problems)
		if seen[d.name] {
			bad(d.node.Position, "name_taken", "rename one of the two", "there are two sources called %q", d.name)
		}
		seen[d.name] = true
		if why := nameConflict(d.name, u.uses(r.names)); why != "" {
			bad(d.node.Position, "name_taken", "give it another name", "a source cannot be called %q: %s", d.name, why)
		}
	}
}

// uses returns the node's tools that the agent uses.
func (u *unit) uses(names []string) []string {
	var out []string
	for _, n := range names {
		for _, pattern := range u.def.Tools {
			if ok, err := path.Match(pattern, n); ok && err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
