package catalog

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"steward/internal/service"
	"steward/internal/strict"
	"steward/internal/tool"
)

// warnings returns what a person should look at before approving. Called under mu.
func (c *Catalog) warnings(u *unit, specs []tool.Spec, refused, more []string) []string {
	w := &warner{hides: c.opt.Confined != nil && c.opt.Confined() == nil}
	for _, r := range refused {
		w.warnf("refused: %s", r)
	}
	for _, m := range more {
		w.warnf("%s", m)
	}
	for _, p := range slices.Concat(u.pins, u.run) {
		if at := hiddenAt(p.data); at != "" {
			w.warnf("%s contains invisible characters: %s", visible(p.name), at)
		}
	}
	var names []string
	if c.opt.Names != nil {
		names = c.opt.Names()
	}
	for _, d := range u.decls {
		w.declaration(u, d)
	}
	for _, l := range u.loose {
		w.warnf("not pinned, so it may change after you approve: %s", l)
	}
	w.warnLookAlikes(u, c.units, names)
	if u.def != nil {
		w.services(u.def)
		w.hooks(u.def)
		w.jobs(u.def, c.opt.Jobs)
		w.missing(u, specs, names)
	}
	foreign := c.foreign(u, names)
	var acts []string
	for _, s := range specs {
		w.tool(s, foreign)
		if s.Effect == tool.Action && !s.Asks {
			acts = append(acts, s.Name)
		}
	}
	if len(acts) > 0 {
		w.warnf("these tools change things, and ask first only if a policy requires it: %s", listed(acts))
	}
	return w.list
}

type warner struct {
	list  []string
	hides bool // Steward's data and settings are hidden from unconfined programs too
}

const maxWarnings = 200

func (w *warner) warnf(format string, args ...any) {
	text := visible(fmt.Sprintf(format, args...))
	if len(w.list) < maxWarnings && !slices.Contains(w.list, text) {
		w.list = append(w.list, text)
	}
}

func listed(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// hiddenAt names the first hidden characters of a text.
func hiddenAt(text []byte) string {
	var out []string
	line := 1
	for i, r := range string(text) {
		if r == '\n' {
			line++
		}
		if r == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			continue
		}
		if hidden(r) {
			if out = append(out, fmt.Sprintf("U+%04X on line %d", r, line)); len(out) == 3 {
				return strings.Join(out, ", ") + ", …"
			}
		}
	}
	return strings.Join(out, ", ")
}

// suspiciousPhrases match descriptions that address the model instead of describing the tool.
var suspiciousPhrases = []struct {
	re  *regexp.Regexp
	say string
}{
	{regexp.MustCompile(`(?i)\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|other|all)\b.{0,40}\b(instructions?|prompts?|rules|messages|tools?)\b`), "tells the model to ignore its instructions"},
	{regexp.MustCompile(`(?i)\b(do not|don't|never|without)\b.{0,20}\b(tell|telling|mention|mentioning|inform|informing|reveal|revealing|show|showing|notify|notifying|ask|asking)\b.{0,30}\b(user|person|human|anyone|them)\b`), "tells the model to hide something from the user"},
	{regexp.MustCompile(`(?i)<\s*/?\s*(important|system|instructions?|secret|admin|assistant|hidden)\b`), "imitates the markers of instructions"},
	{regexp.MustCompile(`(?i)\bsystem prompt\b|\byour (previous |original )?instructions\b`), "mentions the model's instructions"},
	{regexp.MustCompile(`(?i)\b(before|after|instead of|whenever)\b.{0,30}\b(using|calling|use|call)\b.{0,20}\b(any|this|every|all|another|other)\b.{0,20}\btools?\b`), "gives instructions about other tools"},
	{regexp.MustCompile(`(?i)\byou (must|should|have to|shall) (always|first|never|also|now)\b`), "gives the model instructions"},
	{regexp.MustCompile(`(?i)~/\.|\.ssh\b|id_rsa|id_ed25519|\.env\b|/etc/(passwd|shadow)|\bmcp\.json\b|\.aws/|\.netrc|\bprivate keys?\b|\bapi[ _-]?keys?\b|\bpasswords?\b|\bcredentials?\b`), "mentions secrets or where they are stored"},
}

// changeVerbs matches names that suggest a change, for tools that claim to only read.
var changeVerbs = regexp.MustCompile(`(^|[._])(delete|remove|write|send|create|update|set|put|post|execute|exec|drop|move|kill|buy|pay|transfer|install)(_|$)|[._]run_`)

// tool checks the texts of a tool that the model reads.
func (w *warner) tool(s tool.Spec, foreign map[string]string) {
	text := s.Description + "\n" + s.Metadata.Description() + "\n" + string(s.Input)
	if at := hiddenAt([]byte(text)); at != "" {
		w.warnf("the description of the tool %s contains invisible characters: %s", s.Name, at)
	}
	for _, t := range suspiciousPhrases {
		if found := t.re.FindString(text); found != "" {
			w.warnf("the description of %s %s: “%s”", s.Name, t.say, strict.Clip(strings.Join(strings.Fields(found), " ")))
		}
	}
	for _, word := range toolWord.FindAllString(text, 1000) {
		if whose := foreign[tool.FromWire(word)]; whose != "" && tool.FromWire(word) != s.Name {
			w.warnf("the description of %s mentions %s, which is %s", s.Name, word, whose)
		}
	}
	if s.Effect == tool.Query && changeVerbs.MatchString(s.Name) {
		w.warnf("%s is declared as a query, but its name suggests an action: set its effect to action if it changes something", s.Name)
	}
}

var toolWord = regexp.MustCompile(`[a-z][a-z0-9_]*(\.|__)[a-z0-9_.]*[a-z0-9]`)

// foreign returns the names of other units' tools and of Steward's own, with their owners. Called
// under mu.
func (c *Catalog) foreign(u *unit, names []string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = "Steward's own"
	}
	for _, o := range c.units {
		rec := c.records[o.path]
		if o == u || rec == nil || rec.Approved == nil {
			continue
		}
		for _, s := range rec.Approved.Tools {
			out[s.Name] = "a tool of " + o.path
		}
	}
	return out
}

// declaration warns of what a source may do.
func (w *warner) declaration(u *unit, d decl) {
	box := d.node.Get("sandbox")
	yes := func(key string) bool { return d.node.Get(key).Is("true") || box.Get(key).Is("true") }
	if yes("unsandboxed") || u.kind == KindSource && d.node.Get("command") != nil && box == nil {
		say := "%s runs unconfined, with the files and the network that you have: %s"
		if !w.hides {
			say = "%s runs unconfined, with all the rights that you have, and can answer in your name: Steward's data and settings cannot be hidden from it here (see steward doctor): %s"
		}
		w.warnf(say, d.name, strict.Clip(commandLine(d.node)))
		if w.hides {
			w.warnf("%s can act as you: it sees neither Steward's data nor its settings, but can change your other files and start programs", d.name)
		}
	}
	for _, n := range []*strict.Node{d.node.Get("network"), box.Get("network")} {
		if hosts := texts(n); len(hosts) > 0 {
			w.warnf("%s may connect only to these hosts: %s", d.name, strings.Join(hosts, ", "))
		} else if n.Is("true") {
			w.warnf("%s may reach the network: any public host", d.name)
		}
	}
	for _, key := range []string{"read", "write"} {
		if paths := texts(box.Get(key)); len(paths) > 0 {
			w.warnf("%s may %s files outside its own folder: %s", d.name, key, listed(paths))
		}
	}
	w.hosts(d.name, d.node, "")
}

// texts returns the texts of a list, or a single text.
func texts(n *strict.Node) (out []string) {
	if n == nil {
		return nil
	}
	for _, e := range append([]*strict.Node{n}, n.List...) {
		if e.Kind == strict.Text {
			out = append(out, strict.Clip(e.Text))
		}
	}
	return out
}

// commandLine returns the command with its secrets masked.
func commandLine(n *strict.Node) string {
	var words []string
	for _, key := range []string{"command", "args"} {
		switch v := n.Get(key); {
		case v == nil:
		case v.Kind == strict.List:
			for _, e := range mask(v, key).([]any) {
				words = append(words, fmt.Sprint(e))
			}
		default:
			words = append(words, v.Text)
		}
	}
	return strings.Join(words, " ")
}

// hosts warns of addresses on other machines.
func (w *warner) hosts(name string, n *strict.Node, key string) {
	switch key {
	case "url", "host", "address", "base_url", "endpoint":
		if host := hostOf(n.Text); n.Kind == strict.Text && host != "" && !loopback(host) {
			w.warnf("%s is on another machine: %s", name, strict.Clip(host))
		}
	}
	for _, f := range n.Fields {
		w.hosts(name, f.Value, f.Key)
	}
	for _, e := range n.List {
		w.hosts(name, e, key)
	}
}

// hostOf returns the host of a URL or an address.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Hostname()
	}
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return strings.Trim(text, "[]")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "unix:")
}

// missing warns of tools that the agent names and that are not there: a glob or an alias may stand for
// nothing, which is not an error of the definition.
func (w *warner) missing(u *unit, specs []tool.Spec, names []string) {
	if names == nil {
		return
	}
	there := func(pattern string, names []string) bool {
		real, alias := tool.Alias(pattern)
		return slices.ContainsFunc(names, func(n string) bool { return tool.PatternMatches(pattern, n) || alias && tool.PatternMatches(real, n) })
	}
	own := u.uses(names)
	for _, p := range u.def.Tools {
		if glob := strings.TrimPrefix(p, "!"); !there(glob, names) {
			w.warnf("it names the tool %s, which does not exist", glob)
		}
		if real, alias := tool.Alias(p); alias {
			own = append(own, p, real)
		}
	}
	for _, s := range specs {
		own = append(own, s.Name)
	}
	if len(u.sources) > 0 && u.announced == nil {
		return // its own tools are not known yet
	}
	for _, p := range u.def.Deferred {
		if !there(p, own) {
			w.warnf("deferred names %s, which is not one of its tools", p)
		}
	}
	for _, c := range u.def.Checks {
		if !there(c.Query, own) {
			w.warnf("the check %s asks %s, which is not one of its tools", c.Name, c.Query)
		}
	}
	for _, e := range u.def.Examples {
		for _, name := range e.Tools {
			if !there(name, own) && !strings.HasSuffix(name, ".ask") {
				w.warnf("an example expects the tool %s, which it does not have", name)
			}
		}
	}
}

func (w *warner) services(d *parsed) {
	for _, name := range sortedKeys(d.Services) {
		s := d.Services[name]
		if host := hostOf(s.URL); s.Source == service.Remote && !loopback(host) {
			w.warnf("its service %s is on another machine: %s", name, strict.Clip(host))
		}
	}
}

func (w *warner) hooks(d *parsed) {
	var places []string
	for _, h := range d.hooks {
		if !slices.Contains(places, h.kind) {
			places = append(places, h.kind)
		}
	}
	if len(places) > 0 {
		w.warnf("its own programs run as hooks: %s", strings.Join(places, ", "))
	}
}

// warnLookAlikes warns of names on the unit's levels that can be mistaken for each other.
func (w *warner) warnLookAlikes(u *unit, units []*unit, names []string) {
	var level []string // of u itself
	for _, o := range units {
		if o != u && o.above == u.above {
			level = append(level, o.name)
		}
	}
	if u.above == "" {
		level = append(level, rootName)
		for _, n := range names {
			level = append(level, category(n))
		}
	}
	for _, o := range level {
		if looksAlike(u.name, o) {
			w.warnf("its name, %s, is easily confused with %s", u.name, o)
		}
	}
	if u.kind != KindAgent {
		return
	}
	for i, d := range u.decls {
		for _, o := range u.decls[i+1:] {
			if looksAlike(d.name, o.name) {
				w.warnf("the sources %s and %s are easily confused", d.name, o.name)
			}
		}
		for _, n := range names {
			if d.name == category(n) || looksAlike(d.name, category(n)) {
				w.warnf("the source %s is easily confused with Steward's own %s", d.name, n)
			}
		}
	}
}
