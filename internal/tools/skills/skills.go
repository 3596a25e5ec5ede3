// Package skills keeps skills: folders with a SKILL.md, instructions that a model reads when it needs them
// (https://agentskills.io/specification). A skill comes from a folder, a .zip or a git repository. A
// person approves its whole content, which is then copied and pinned by a hash. A skill grants nothing:
// what its head says about tools is ignored.
package skills

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	json "github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/diff"

	"steward/internal/fault"
	"steward/internal/strict"
	"steward/internal/tool"
)

// Limits of skills.
const (
	maxBytes   = 20 << 20 // of one source, unpacked
	maxFiles   = 500
	maxSkills  = 64
	maxText    = 256 << 10 // of a file that a model reads
	maxListed  = 8000      // bytes of all names and descriptions: about 2,000 tokens
	maxDeep    = 8         // folders
	fileSkill  = "SKILL.md"
	fileRecord = "skill.json"
)

// Skill is a skill with its content.
type Skill struct {
	Name        string
	Description string
	Source      string            // where it came from
	Files       map[string]string // by their path in the skill
}

// Record says what was approved.
type Record struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Source      string    `json:"source"`
	Hash        string    `json:"hash"`
	Approved    time.Time `json:"approved"`
}

// Hash returns the hash over the names and contents of all files.
func (s *Skill) Hash() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		fmt.Fprintf(sum, "%q %d\n%s", name, len(s.Files[name]), s.Files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Diff shows all of the skill that differs from an approved one; nil: there is none.
func (s *Skill) Diff(old *Skill) string {
	was := map[string]string{}
	if old != nil {
		was = old.Files
	}
	names := maps.Clone(was)
	maps.Copy(names, s.Files)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, now := was[name], s.Files[name]
		_, stays := s.Files[name]
		switch {
		case before == now && stays:
		case !stays:
			fmt.Fprintf(&b, "%s is removed\n", name)
		case !utf8.ValidString(before) || !utf8.ValidString(now):
			fmt.Fprintf(&b, "%s: %d bytes that are not text, sha256 %x\n", name, len(now), sha256.Sum256([]byte(now)))
		default:
			d := diff.Diff(name+" (approved)", []byte(before), name, []byte(now))
			_, d, _ = bytes.Cut(d, []byte("\n")) // the first line repeats the names
			b.Write(d)
		}
	}
	return b.String()
}

var goodName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parse makes a skill of its files.
func parse(files map[string]string) (*Skill, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "skill_invalid", "the skill cannot be used: "+format, args...).
			WithHint("its SKILL.md begins with ---, name:, description: and ---")
	}
	text := string(strict.Unmarked([]byte(files[fileSkill])))
	head, _, line, ok := strict.FrontMatter([]byte(text))
	if !ok || len(text) > maxText || !utf8.ValidString(text) {
		return nil, bad("its SKILL.md has no front matter, or is longer than %d bytes", maxText)
	}
	var wrong []string
	report := func(p strict.Position, _, _, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("line %d: ", p.Line+line-1)+fmt.Sprintf(format, args...))
	}
	var front struct {
		Name        string `yaml:"name"`
		Description string `yaml:"description"`
	}
	strict.Decoder{Bad: report, Lenient: true}.Decode(strict.ReadFront(head, "name", "description"), &front)
	front.Description = strings.Join(strings.Fields(front.Description), " ")
	switch {
	case len(wrong) > 0:
		return nil, bad("%s", strings.Join(wrong, "; "))
	case !goodName.MatchString(front.Name) || len(front.Name) > 64:
		return nil, bad("%q is not a valid name; use a-z, 0-9 and single '-'", strict.Clip(front.Name))
	case front.Description == "" || utf8.RuneCountInString(front.Description) > 1024:
		return nil, bad("its description is missing, or longer than 1024 characters")
	}
	return &Skill{Name: front.Name, Description: front.Description, Files: files}, nil
}

// Store keeps approved skills in a folder.
type Store struct{ Dir string }

// List returns what was approved, by name.
func (s Store) List() ([]Record, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var out []Record
	for _, e := range entries {
		if !e.IsDir() || !goodName.MatchString(e.Name()) {
			continue
		}
		r, err := s.record(e.Name())
		switch {
		case fault.Is(err, fault.NotFound): // it is just being replaced or removed
			continue
		case err != nil:
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (s Store) record(name string) (r Record, err error) {
	if !goodName.MatchString(name) {
		return r, unknown(name)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, name, fileRecord))
	if os.IsNotExist(err) {
		return r, unknown(name)
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fault.New(fault.Internal, "skill_broken", "the record of the skill %s cannot be read: %w", name, err).WithHint("remove it, and add it again")
	}
	return r, nil
}

func unknown(name string) error {
	return fault.New(fault.NotFound, "skill_not_found", "there is no skill %s", strict.Clip(name)).WithHint("steward skills list shows them")
}

// Get returns an approved skill. It refuses one whose files are not what was approved (skill_changed).
func (s Store) Get(ctx context.Context, name string) (*Skill, Record, error) {
	r, err := s.record(name)
	if err != nil {
		return nil, r, err
	}
	found, err := folder(ctx, filepath.Join(s.Dir, name, "files"))
	if err != nil {
		return nil, r, err
	}
	if len(found) != 1 || found[0].Hash() != r.Hash || found[0].Name != name {
		return nil, r, fault.New(fault.Conflict, "skill_changed", "the files of the skill %s differ from what was approved", name).WithHint("steward skills update %s shows what has changed", name)
	}
	found[0].Source = r.Source
	return found[0], r, nil
}

// Folder returns the folder with the files of a skill, which are what was approved.
func (s Store) Folder(ctx context.Context, name string) (string, error) {
	if _, _, err := s.Get(ctx, name); err != nil {
		return "", err
	}
	return filepath.Join(s.Dir, name, "files"), nil
}

// Approve stores a skill in place of an earlier one of its name.
func (s Store) Approve(sk *Skill, now time.Time) error {
	temp, err := s.write(sk, now)
	if err != nil {
		return fault.New(fault.Unavailable, "skill_unwritten", "the skill cannot be stored: %w", err)
	}
	defer os.RemoveAll(temp) // what is left of it, or the former skill
	at := filepath.Join(s.Dir, sk.Name)
	if err := os.Rename(at, filepath.Join(temp, "former")); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Rename(filepath.Join(temp, "new"), at)
}

// write writes a skill to a temporary folder.
func (s Store) write(sk *Skill, now time.Time) (temp string, err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", err
	}
	if temp, err = os.MkdirTemp(s.Dir, ".new-"); err != nil {
		return "", err
	}
	for name, data := range sk.Files {
		at := filepath.Join(temp, "new", "files", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return temp, err
		}
		if err := os.WriteFile(at, []byte(data), 0o600); err != nil {
			return temp, err
		}
	}
	b, err := json.Marshal(Record{sk.Name, sk.Description, sk.Source, sk.Hash(), now.UTC()})
	if err != nil {
		return temp, err
	}
	return temp, os.WriteFile(filepath.Join(temp, "new", fileRecord), b, 0o600)
}

// Remove removes a skill.
func (s Store) Remove(name string) error {
	if _, err := s.record(name); fault.Is(err, fault.NotFound) {
		return err
	}
	return os.RemoveAll(filepath.Join(s.Dir, name))
}

type readArgs struct {
	Name string `json:"name" jsonschema:"the name of the skill" minlen:"1" maxlen:"64"`
	File string `json:"file,omitzero" jsonschema:"a file of the skill, such as reference.md; the skill itself unless given" maxlen:"500"`
}

// For returns who may use the skills: the machine's own user, who has approved them.
func For() *tool.Audience { return tool.OwnedBy(nil, nil) }

// Tools returns skills.read.
func Tools(s Store) ([]tool.Tool, error) {
	t, err := tool.New(tool.Spec{Name: "skills.read", Effect: tool.Query, Version: "2", Reach: tool.ReachHere, For: For(),
		Description: "Reads one of the skills that your instructions list. Read it before you do the kind of work that it is for.",
		Log:         tool.LogSpec{Summary: "Read the skill {name}"}},
		func(ctx context.Context, _ tool.Invocation, a readArgs) (string, error) { return s.read(ctx, a) })
	return []tool.Tool{t}, err
}

// About returns, for a model, the names and descriptions of the approved skills. Without any it says nothing.
func (s Store) About() (string, error) {
	list, err := s.List()
	if err != nil || len(list) == 0 {
		return "", err
	}
	about := "Skills are instructions for kinds of work, to be read with skills.read:"
	for i, r := range list {
		line := "\n- " + r.Name + ": " + r.Description
		if len(about)+len(line) > maxListed || i == maxSkills {
			about += fmt.Sprintf("\n%d more.", len(list)-i)
			break
		}
		about += line
	}
	return about, nil
}

func (s Store) read(ctx context.Context, a readArgs) (string, error) {
	sk, _, err := s.Get(ctx, a.Name)
	if err != nil {
		return "", err
	}
	name := path.Clean(a.File)
	if a.File == "" {
		name = fileSkill
	}
	text, ok := sk.Files[name]
	text = string(strict.Unmarked([]byte(text)))
	switch {
	case !ok:
		return "", fault.New(fault.NotFound, "skill_file_not_found", "the skill %s has no file %s", a.Name, strict.Clip(a.File)).
			WithHint("its files are %s", strings.Join(slices.Sorted(maps.Keys(sk.Files)), ", "))
	case !utf8.ValidString(text) || len(text) > maxText:
		return "", fault.New(fault.Invalid, "not_a_text", "%s is not text, or longer than %d bytes", name, maxText)
	case a.File == "" && len(sk.Files) > 1:
		text += "\n\nFiles of this skill, which commands and programs find in /skills/" + a.Name + ": " + strings.Join(slices.Sorted(maps.Keys(sk.Files)), ", ")
	}
	return text, nil
}
