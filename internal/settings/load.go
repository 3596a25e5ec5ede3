package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/strict"
)

// FileName is the name of the settings files.
const FileName = "steward.yaml"

const maxFile = 1 << 20 // bytes; real ones have a few hundred

// Kind is a kind of source. A later one in the list wins over an earlier one.
type Kind string

// The kinds of sources.
const (
	FromDefault Kind = "default"
	FromUser    Kind = "user file"
	FromProject Kind = "project file"
	FromFile    Kind = "file" // named with --config
	FromEnv     Kind = "environment"
	FromFlag    Kind = "flag"
)

// Source says where a value comes from.
type Source struct {
	Kind  Kind   `json:"kind"`
	Where string `json:"where,omitempty"` // "FILE:LINE", "OPENAI_API_KEY", "--data"
}

func (s Source) String() string {
	if s.Where == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + " " + s.Where
}

// Flag is a setting given on the command line.
type Flag struct {
	Key   string // path of a scalar or list, such as "listen"
	Value string
	Name  string // as the person wrote it, such as "--listen"
}

// Options name the sources of the settings.
type Options struct {
	File    string      // a file named by the person: it replaces the project's file and is trusted
	Dir     string      // the project's folder; empty: the current one
	Environ []string    // as from os.Environ
	Vendors llm.Vendors // of models: what providers are known by name
	Flags   []Flag
}

// Loaded is the result of Load.
type Loaded struct {
	Settings
	Files   []string // the files that were read
	Notices []string // what was ignored, and why
	from    map[string]Source
	folder  string   // of the user's file; empty: there is no place for one
	trusted []string // files that may set everything
}

// loading is the state of a running Load.
type loading struct {
	*Loaded
	vendors llm.Vendors
	env     map[string]string
	dir     string
	home    string
	faults  []string
}

// Load reads all sources and writes nothing. No map of the result is nil. Errors: settings_unreadable, and
// settings_invalid with the faults of all sources in the message and in
// Details["faults"].
func Load(o Options) (*Loaded, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "settings_unreadable", "cannot determine the current folder: %w", err)
	}
	l := &loading{
		Loaded:  &Loaded{Settings: Defaults(), from: map[string]Source{}},
		vendors: o.Vendors,
		env:     environment(o.Environ),
		dir:     dir,
	}
	l.home = l.env["HOME"]
	if d := l.base("XDG_DATA_HOME", ".local/share"); d != "" {
		l.Data = filepath.Join(d, "steward")
	}
	if err := l.files(o.File); err != nil {
		return nil, err
	}
	l.environ()
	for _, f := range o.Flags {
		l.set(f.Key, f.Value, Source{FromFlag, f.Name})
	}
	l.checkCombinations()
	if len(l.faults) > 0 {
		return nil, invalid(l.faults)
	}
	makeMaps(reflect.ValueOf(&l.Settings).Elem())
	return l.Loaded, nil
}

// makeMaps makes the maps that no source has set, so that all of them can be written to.
func makeMaps(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			makeMaps(f)
		case reflect.Map:
			if f.IsNil() {
				f.Set(reflect.MakeMap(f.Type()))
			}
		}
	}
}

func invalid(faults []string) error {
	e := fault.New(fault.Invalid, "settings_invalid", "%s", strings.Join(faults, "\n")).Detail("faults", faults)
	if len(faults) > 1 {
		e.Message = fmt.Sprintf("%d errors in the settings:\n%s", len(faults), e.Message)
	}
	return e
}

func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// base returns an XDG base directory. It ignores relative values, as the
// specification requires.
func (l *loading) base(name, below string) string {
	if d := l.env[name]; filepath.IsAbs(d) {
		return d
	}
	if l.home == "" {
		return ""
	}
	return filepath.Join(l.home, below)
}

// files reads the user's file, and then the named file or else the project's.
func (l *loading) files(named string) error {
	user := ""
	if d := l.base("XDG_CONFIG_HOME", ".config"); d != "" {
		l.folder = filepath.Join(d, "steward")
		user = filepath.Join(l.folder, FileName)
		if err := l.file(user, user, FromUser, true); err != nil {
			return err
		}
	}
	if named == "" {
		named = l.env["STEWARD_CONFIG"]
	}
	if named != "" {
		return l.file(resolve(named, l.dir, l.home), named, FromFile, false)
	}
	project := filepath.Join(l.dir, FileName)
	if same(user, project) {
		return nil
	}
	return l.file(project, FileName, FromProject, true)
}

// Folder returns the folder of the user's settings; empty: there is no place for one.
func (l *Loaded) Folder() string { return l.folder }

// Private returns the existing places that belong to Steward alone: the data folder, the folder of the
// user's settings, and the settings files that lie elsewhere or are links.
func (l *Loaded) Private() []string {
	var out []string
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.ContainsFunc(out, func(o string) bool { return within(real, o) }) {
			out = append(out, real)
		}
	}
	for _, path := range append([]string{l.folder, l.Data, l.Backup.Folder}, l.trusted...) {
		if path != "" {
			add(path)
		}
	}
	return out
}

// KeyFiles returns the files named by the settings, besides those in Private, that may hold keys.
func (l *Loaded) KeyFiles() []string {
	files := slices.Clone(l.MCP)
	for _, p := range l.Providers {
		if p.KeyFile != "" {
			files = append(files, p.KeyFile)
		}
	}
	slices.Sort(files)
	return files
}

// within reports whether a path is a folder or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// userFileName names the user's file in messages.
func (l *loading) userFileName() string {
	d := l.base("XDG_CONFIG_HOME", ".config")
	if d == "" {
		return "your own settings"
	}
	file := filepath.Join(d, "steward", FileName)
	if rest, ok := strings.CutPrefix(file, l.home+"/"); ok && l.home != "" {
		return "~/" + rest
	}
	return file
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func (l *loading) file(path, shown string, kind Kind, optional bool) error {
	text, err := strict.ReadText(path, maxFile)
	switch {
	case optional && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fault.New(fault.Invalid, "settings_unreadable", "%s cannot be read: %w", shown, err).
			WithHint("fix or move the file, or name another with --config")
	}
	d := decoder{file: shown, dir: filepath.Dir(path), kind: kind, home: l.home, from: l.from, own: l.userFileName()}
	d.decodeFile(text, &l.Settings)
	l.faults = append(l.faults, d.faults...)
	l.Notices = append(l.Notices, d.notices...)
	l.Files = append(l.Files, path)
	if kind != FromProject {
		l.trusted = append(l.trusted, path)
	}
	return nil
}

// set applies one value of the environment or a flag, like a file that contains
// only this key. The value is given as text, whatever its type.
func (l *loading) set(key, text string, src Source) {
	n := &strict.Node{Kind: strict.Text, Text: text}
	parts := strings.Split(key, ".")
	for _, name := range slices.Backward(parts) {
		n = &strict.Node{Kind: strict.Map, Fields: []strict.Field{{Key: name, Value: n}}}
	}
	d := decoder{dir: l.dir, kind: src.Kind, home: l.home, from: l.from, bare: &src}
	d.structure(n, reflect.ValueOf(&l.Settings).Elem(), "")
	l.faults = append(l.faults, d.faults...)
}

// checkCombinations checks the constraints that involve several values.
func (l *loading) checkCombinations() {
	for _, name := range sortedKeys(reflect.ValueOf(l.Providers)) {
		l.provider(name)
	}
	if l.Workspace == "off" || l.home == "" && strings.HasPrefix(l.Workspace, "~/") {
		l.Workspace = ""
	}
	l.Workspace = resolve(l.Workspace, l.dir, l.home)
	seen := map[string]bool{}
	for i, f := range l.Folders {
		where := l.from["folders"].Where
		switch {
		case f.Name == "" || f.Path == "":
			l.faults = append(l.faults, fmt.Sprintf("%s: folders[%d] needs a name and a path", where, i))
		case seen[f.Name]:
			l.faults = append(l.faults, fmt.Sprintf("%s: two folders are called %q; rename one", where, f.Name))
		}
		seen[f.Name] = true
	}
	for i, f := range l.Documents.Folders {
		if f.Path == "" {
			l.faults = append(l.faults, fmt.Sprintf("%s: documents.folders[%d] needs a path", l.from["documents.folders"].Where, i))
		}
	}
	for _, name := range sortedKeys(reflect.ValueOf(l.Service.Tool.Endpoints)) {
		e, path := l.Service.Tool.Endpoints[name], join("service.tool.endpoints", name)
		if e.Host == "" {
			l.faults = append(l.faults, fmt.Sprintf("%s: %s needs host, the address of its server", l.where(path), path))
		}
		if e.Call == "" && (e.Name != "" || e.Effect != "") {
			l.faults = append(l.faults, fmt.Sprintf("%s: %s sets name or effect, which apply to one method only; set call too", l.where(path), path))
		}
	}
	l.checkAliasCycles()
	l.checkCluster()
}

// provider checks a provider and fetches its key.
func (l *loading) provider(name string) {
	p := l.Providers[name]
	path := join("providers", name)
	known, _ := l.vendors.Named(name)
	if l.vendors.Index(name) < 0 { // the address of a vendor is its client's affair
		p.BaseURL = cmp.Or(p.BaseURL, known.BaseURL)
	}
	if known.Locate != nil {
		p.Dialect = cmp.Or(p.Dialect, name)
	}
	if p.Off && known.Access != llm.BuiltIn {
		return
	}
	v := l.vendors.For(name, p.Dialect)
	for _, wrong := range []string{l.cloud(&p, v), checkProviderTools(p, v)} {
		if wrong != "" {
			l.faults = append(l.faults, fmt.Sprintf("%s: %s %s", l.where(path), path, wrong))
		}
	}
	l.Providers[name] = p
	switch {
	case known.Access == llm.BuiltIn:
		l.faults = append(l.faults, fmt.Sprintf("%s: %s has no settings; remove it", l.where(path), known.Title))
	case l.vendors.Index(name) < 0 && p.BaseURL == "" && p.Project == "" && known.Locate == nil:
		say := fmt.Sprintf("%s: %s needs a base_url: it is not a known provider", l.where(path), path)
		if w := Suggest(name, l.providerNames()); w != "" {
			say += fmt.Sprintf("; did you mean %q?", w)
		}
		l.faults = append(l.faults, say)
	}
	named := p.KeyEnv != "" && l.from[path+".key"].Kind == FromEnv // a variable named here wins over the vendor's
	if p.Key != "" && !named {
		return
	}
	switch {
	case p.KeyEnv != "":
		key := strings.TrimSpace(l.env[p.KeyEnv])
		if key == "" {
			l.Notices = append(l.Notices, fmt.Sprintf("%s.key_env names %s, which is not set", path, p.KeyEnv))
			return
		}
		p.Key = Secret(key)
		l.from[path+".key"] = Source{FromEnv, p.KeyEnv}
	case p.KeyFile != "":
		text, err := strict.ReadText(p.KeyFile, maxFile)
		if err != nil {
			l.faults = append(l.faults, fmt.Sprintf("%s: %s.key_file cannot be read: %v", l.where(path), path, err))
			return
		}
		p.Key = Secret(strings.TrimSpace(string(text)))
		l.from[path+".key"] = Source{l.from[path+".key_file"].Kind, p.KeyFile}
	default:
		return
	}
	l.Providers[name] = p
}

// providerNames returns the names of providers that need no base_url.
func (l *loading) providerNames() (list []string) {
	for v := range l.vendors.All() {
		if (v.BaseURL != "" || v.Locate != nil) && v.Access != llm.BuiltIn {
			list = append(list, v.Name)
		}
	}
	return list
}

// where names the first source below a path, for a fault of the whole section.
func (l *loading) where(path string) string {
	var keys []string
	for k := range l.from {
		if strings.HasPrefix(k, path+".") || k == path {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return path
	}
	slices.Sort(keys)
	return l.from[keys[0]].Where
}

// checkAliasCycles refuses aliases that lead back to themselves.
func (l *loading) checkAliasCycles() {
	state := map[string]int{} // 1: being visited, 2: done
	var visit func(name string) bool
	visit = func(name string) bool {
		switch state[name] {
		case 1:
			return false
		case 2:
			return true
		}
		state[name] = 1
		for _, next := range l.Models[name].Use {
			if _, ok := l.Models[next]; ok && !visit(next) {
				return false
			}
		}
		state[name] = 2
		return true
	}
	for _, name := range sortedKeys(reflect.ValueOf(l.Models)) {
		if !visit(name) {
			l.faults = append(l.faults, fmt.Sprintf("%s: the alias %q refers to itself", l.where(join("models", name)), name))
			return
		}
	}
}
