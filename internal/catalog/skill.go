package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

// skill is a folder with a SKILL.md: instructions that an agent reads on demand
// (https://agentskills.io/specification).
type skill struct {
	name, description string
	body              string
	files             map[string]string // the other text files, by name
}

var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// skills reads skills/*/SKILL.md and the files beside them.
func (r *reader) skills(f folder, u *unit) {
	for _, e := range r.entries(f, u, dirSkills) {
		if !e.dir {
			continue
		}
		if len(u.skills) == maxSkills {
			u.add(strict.At(1, 1), "skills_too_many", "remove some", "an agent has at most %d skills", maxSkills)
			return
		}
		r.skill(f, u, e.name)
	}
}

func (r *reader) skill(f folder, u *unit, name string) {
	in := path.Join(dirSkills, name)
	r.dirs[filepath.Join(u.dir, in)] = true
	p, err := f.text(path.Join(in, fileSkill))
	if errors.Is(err, fs.ErrNotExist) {
		reporter(filepath.Join(u.dir, in), &u.problems)(strict.Position{}, "skill_missing", "write one, or remove the folder", "there is no %s in it", fileSkill)
		return
	}
	if err != nil {
		u.unreadable(path.Join(in, fileSkill), err)
		return
	}
	s := u.frontMatter(p, name)
	u.pins = append(u.pins, p)
	s.files = map[string]string{}
	files := map[string]bool{}
	if err := f.walkAll(in, files, 0); err != nil {
		u.unreadable(in, err)
	}
	for _, file := range sortedKeys(files) {
		if file == p.name {
			continue
		}
		beside, err := f.text(file)
		if err != nil { // not a text, or too long: only its hash is pinned
			if beside, err = f.bytes(file); err != nil {
				u.unreadable(file, err)
				continue
			}
			u.pins = append(u.pins, beside)
			continue
		}
		u.pins = append(u.pins, beside)
		s.files[strings.TrimPrefix(file, in+"/")] = string(beside.data)
	}
	u.skills = append(u.skills, s)
}

// walkAll returns all regular files below a folder.
func (f folder) walkAll(name string, into map[string]bool, depth int) error {
	list, err := f.entries(name)
	if err != nil {
		return err
	}
	for _, e := range list {
		inner := path.Join(name, e.name)
		switch {
		case depth > 8 || len(into) > maxFiles:
			return errors.New("it has too many files")
		case e.dir && !e.link:
			if err := f.walkAll(inner, into, depth+1); err != nil {
				return err
			}
		case !e.dir:
			into[inner] = true
		}
	}
	return nil
}

// frontMatter reads the head of a SKILL.md.
func (u *unit) frontMatter(p pin, folderName string) skill {
	s := skill{name: folderName}
	bad := reporter(p.path, &u.problems)
	head, body, line, ok := strict.FrontMatter(p.data)
	if !ok {
		bad(strict.At(1, 1), "skill_invalid", "begin it with ---, name:, description: and ---", "the skill has no front matter")
		return s
	}
	s.body = strings.TrimSpace(body)
	down := func(p strict.Position, code, remedy, format string, args ...any) {
		bad(strict.At(p.Line+line-1, p.Column), code, remedy, format, args...)
	}
	n := strict.ReadFront(head, "name", "description")
	var front struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	strict.Decoder{Bad: down, Lenient: true}.Decode(n, &front)
	s.description = strings.Join(strings.Fields(front.Description), " ")
	switch {
	case front.Name != folderName:
		down(n.Position, "skill_invalid", fmt.Sprintf("rename the folder to %q, the name of the skill", strict.Clip(front.Name)), "the skill %q is in the folder %q", strict.Clip(front.Name), visible(folderName))
	case !skillName.MatchString(front.Name) || len(front.Name) > 64:
		down(n.Position, "skill_invalid", "use a-z, 0-9 and single '-'", "%q is not a skill name", strict.Clip(front.Name))
	}
	switch {
	case s.description == "":
		down(n.Position, "skill_invalid", "describe what it is for and when to use it", "the skill has no description")
	case utf8.RuneCountInString(s.description) > 1024:
		down(n.Position, "skill_invalid", "keep it to 1024 characters", "the description of the skill has %d characters", utf8.RuneCountInString(s.description))
	}
	return s
}

// prompt returns the agent's system prompt.
func (u *unit) prompt() string {
	text := func(name string) string {
		for _, p := range u.pins {
			if p.name == name {
				return strings.TrimSpace(string(p.data))
			}
		}
		return ""
	}
	var parts []string
	switch own := text(filePrompt); {
	case own != "":
		parts = append(parts, own)
	case strings.TrimSpace(u.def.Prompt) != "":
		parts = append(parts, strings.TrimSpace(u.def.Prompt))
	default:
		parts = append(parts, fmt.Sprintf("You are %s: %s", strings.ReplaceAll(u.name, "_", " "), strings.TrimSpace(u.def.Description)))
		if m := u.def.metadata.Instructions; m != "" {
			parts = append(parts, m)
		}
	}
	if notes := text(fileNotes); notes != "" {
		parts = append(parts, notes)
	}
	if len(u.skills) > 0 {
		list := "You have skills. Before you do what one is for, read it with the tool " + skillTool + ":"
		for _, s := range u.skills {
			list += "\n- " + s.name + ": " + s.description
		}
		parts = append(parts, list)
	}
	return strings.Join(parts, "\n\n")
}

// skillTool is the name of the tool by which an agent reads its skills.
const skillTool = "skill.read"

// skillReader is that tool: a query that reads the approved text.
type skillReader struct{ skills []skill }

// Spec implements tool.Tool.
func (t skillReader) Spec() tool.Spec {
	names := make([]string, len(t.skills))
	for i, s := range t.skills {
		names[i] = s.name
	}
	input, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"name"}, "additionalProperties": false,
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "enum": names, "description": "Name of the skill"},
			"file": map[string]any{"type": "string", "description": "A file that the skill names, such as reference.md; left out: the skill itself"},
		}})
	if err != nil {
		panic(err) // plain values: cannot fail
	}
	return tool.Spec{Name: skillTool, Effect: tool.Query, Input: input, Origin: "skills", Reach: tool.ReachHere,
		Description: "Reads one of your skills: instructions for a kind of work. Read it before you do that work.",
		Log:         tool.LogSpec{Summary: "Read the skill {name}"}}
}

// Call implements tool.Tool.
func (t skillReader) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var args struct{ Name, File string }
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Result{}, fault.New(fault.Invalid, "args_invalid", "the arguments cannot be read: %w", err)
	}
	i := slices.IndexFunc(t.skills, func(s skill) bool { return s.name == args.Name })
	if i < 0 {
		return tool.Result{}, fault.New(fault.NotFound, "skill_not_found", "there is no skill %s", strict.Clip(args.Name))
	}
	s := t.skills[i]
	if args.File == "" || args.File == fileSkill {
		text := s.body
		if len(s.files) > 0 {
			text += "\n\nFiles of this skill: " + strings.Join(sortedKeys(s.files), ", ")
		}
		return tool.Text(text), nil
	}
	text, ok := s.files[path.Clean(args.File)]
	if !ok {
		return tool.Result{}, fault.New(fault.NotFound, "skill_file_not_found", "the skill %s has no file %s", s.name, strict.Clip(args.File)).
			WithHint("its files are %s", strings.Join(sortedKeys(s.files), ", "))
	}
	return tool.Text(text), nil
}
