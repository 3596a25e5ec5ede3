package crossing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/resource"
	"steward/internal/server/api"
	"steward/internal/server/mcp"
	"steward/internal/server/openai"
	"steward/internal/server/rpc"
	"steward/internal/server/services"
	"steward/internal/server/websocket"
)

// table holds the calls to make to a server or the command line.
type table struct {
	name    string
	entries []entry
	serves  func(*world) []string // the routes that it declares
	local   bool                  // it serves only the local user
}

func tables() []table {
	return []table{
		{"apiRoutes", apiRoutes(), func(*world) []string { return api.Routes() }, false},
		{"openaiRoutes", openaiRoutes(), func(*world) []string { return openai.Routes() }, false},
		{"serviceRoutes", serviceRoutes(), func(*world) []string { return services.Routes() }, false},
		{"methods", methods(), func(*world) []string { return rpc.Methods() }, false},
		{"mcpMethods", mcpMethods(), func(*world) []string { return mcp.Methods() }, false},
		{"frameTypes", frameTypes(), func(*world) []string { return websocket.Frames() }, false},
		{"toolNames", toolNames(), (*world).tools, false},
		{"commandLines", commandLines(), (*world).pages, true},
	}
}

// tools returns the tools of the node and of its agents, for any user.
func (w *world) tools() (all []string) {
	for _, agent := range []string{"", "desk", "keeper"} {
		var out struct{ Tools []struct{ Name string } }
		body := w.do(bob, post("/tool.Tool/ListTools", `{"agent":"`+agent+`"}`), nil).body
		if err := json.Unmarshal([]byte(body), &out); err != nil {
			w.T.Fatalf("%v: %s", err, body)
		}
		for _, t := range out.Tools {
			all = append(all, agent+" "+t.Name)
		}
	}
	return all
}

// TestNothingCrosses requests ann's things as other users. Then it makes the
// same calls as ann, since a server that took everybody for ann would answer
// like that. The checks must notice each of these answers, or they would miss a
// leak.
func TestNothingCrosses(t *testing.T) {
	w := newWorld(t)
	hers := w.made(ann)
	w.task = hers.Task
	each := func(name string, do func(t *testing.T, tab table, e entry)) {
		for _, tab := range tables() {
			t.Run(name+" "+tab.name, func(t *testing.T) {
				for _, e := range tab.entries {
					t.Run(e.route, func(t *testing.T) {
						defer func(t testing.TB) { w.T = t }(w.T)
						w.T = t
						do(t, tab, e)
					})
				}
			})
		}
	}
	for _, tab := range tables() {
		for _, f := range tab.lacks(tab.serves(w)) {
			t.Error(f)
		}
	}
	each("others", func(t *testing.T, tab table, e entry) {
		for _, f := range w.crossed(tab, e, hers) {
			t.Error(f)
		}
	})
	locals := w.made(local)
	for when := first; when <= last; when++ {
		each("hers", func(t *testing.T, tab table, e entry) {
			if e.turn != when || e.open != "" {
				return
			}
			if f := w.unfound(tab, e, hers, locals); f != "" {
				t.Error(f)
			}
		})
	}
}

// TestARouteWithoutAnEntry checks that a route without an entry is an error.
func TestARouteWithoutAnEntry(t *testing.T) {
	tab := table{name: "some", entries: []entry{{route: "GET /a"}, {route: "GET /b"}, {route: "GET /b"}}}
	got := strings.Join(tab.lacks([]string{"GET /a", "GET /new"}), "\n")
	for _, want := range []string{"GET /new is served, and nobody has asked", "has GET /b twice", "has GET /b, which is not served any more"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// lacks compares a table with the routes that the server declares.
func (tab table) lacks(serves []string) (faults []string) {
	known := map[string]bool{}
	for _, e := range tab.entries {
		if known[e.route] {
			faults = append(faults, fmt.Sprintf("%s has %s twice", tab.name, e.route))
		} else if !slices.Contains(serves, e.route) {
			faults = append(faults, fmt.Sprintf("%s has %s, which is not served any more: delete its entry", tab.name, e.route))
		}
		known[e.route] = true
	}
	for _, r := range serves {
		if !known[r] {
			faults = append(faults, fmt.Sprintf("%s is served, and nobody has asked what it tells a foreigner: add an entry to %s of test/crossing, with "+
				"calls that name things of ann's (make them in things_test.go) and the codes with which others are refused", r, tab.name))
		}
	}
	return faults
}

// foreign returns the calls that a user must be refused: ann's things for
// everybody else, and the family's for those outside it.
func (e entry) foreign(who string, x things) []step {
	if who == local && (e.admin || e.ruled) {
		return nil
	}
	list := e.calls(x)
	if e.shared != nil && who != bob {
		list = append(list, e.shared(x)...)
	}
	return list
}

// crossed makes the calls as each foreigner and returns the answers that they
// should not have got.
func (w *world) crossed(tab table, e entry, hers things) (faults []string) {
	for _, who := range []string{bob, eve, local} {
		if tab.local && who != local {
			continue
		}
		none := e.foreign(who, hers.nobodys())
		for i, s := range e.foreign(who, hers) {
			tell := func(got answer, format string, args ...any) {
				faults = append(faults, fmt.Sprintf("%s: %s\n%s\n%s", who, s, fmt.Sprintf(format, args...), cut(got.body)))
			}
			got, finds := w.asked(ann, who, s, e.live)
			for _, f := range finds {
				tell(got, "it %s", f)
			}
			if !slices.Contains(e.want, got.code) {
				tell(got, "it is answered with %q, wanted one of %q", got.code, e.want)
			}
			if e.live || e.apart || tab.local {
				continue
			}
			if made := w.do(who, none[i], nil); made.code != got.code {
				tell(made, "it is answered with %q, and for what is nobody's with %q: it tells whether something is there", got.code, made.code)
			}
		}
	}
	return faults
}

// unfound makes the calls as ann, or as the admin, and must find something;
// calls for the family's things are made as a member. Commands run as the local
// user and are made for the local user's things.
func (w *world) unfound(tab table, e entry, hers, locals things) string {
	who := ann
	if e.admin {
		who = local
	}
	if tab.local {
		return w.silent(e, local, local, e.calls(locals))
	}
	fault := w.silent(e, ann, who, e.calls(hers))
	if fault == "" && e.shared != nil {
		member := bob
		if e.managed {
			member = ann
		}
		fault = w.silent(e, ann, member, e.shared(hers))
	}
	return fault
}

// silent returns a fault if nothing was found although something is there.
func (w *world) silent(e entry, owner, who string, steps []step) string {
	var all []string
	for _, s := range steps {
		got, finds := w.asked(owner, who, s, e.live)
		if len(finds) > 0 || w.ours("", s, got.body) || strings.Contains(got.body, w.known) || !slices.Contains(e.want, got.code) {
			return ""
		}
		all = append(all, fmt.Sprintf("%s\n%s %s", s, got.code, cut(got.body)))
	}
	if len(steps) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is told nothing either, and changes nothing: the entry of %s would find no leak, or it needs a reason why there can be none (open)\n%s",
		who, e.route, strings.Join(all, "\n"))
}

// asked makes a step and returns what it reveals or changes of the owner's
// data.
func (w *world) asked(owner, who string, s step, live bool) (got answer, finds []string) {
	if s.endless() {
		acc, _ := w.turn(who, "", "", "and I?")
		w.marker = text(acc, "conversation_id")
	}
	spaces := []resource.Space{resource.UserSpace(owner), resource.GroupSpace(family), resource.System}
	before := make([]uint64, len(spaces))
	for i, sp := range spaces {
		_, before[i] = w.entries(sp, w.seen[sp])
		w.seen[sp] = before[i]
	}
	var meanwhile func()
	if live {
		meanwhile = func() {
			w.turn(owner, "", "", w.mark(owner, "meanwhile"))
			acc, _ := w.turn(who, "", "", "and I?")
			w.marker = text(acc, "conversation_id")
		}
	}
	got = w.do(who, s, meanwhile)
	if strings.Contains(got.body, w.canary[owner]) {
		finds = append(finds, "tells what is "+owner+"'s")
	}
	if member := who == ann || who == bob; !member && w.ours(who, s, got.body) {
		finds = append(finds, "tells what the family has")
	} else if !member && who != local && strings.Contains(got.body, w.known) {
		finds = append(finds, "tells who the others are")
	}
	for _, x := range uuid.FindAllString(s.String(), -1) {
		w.named[who+x] = true
	}
	for _, x := range uuid.FindAllString(got.body, -1) {
		if w.ids[owner][x] && !w.named[who+x] {
			finds = append(finds, "names what is "+owner+"'s: "+x)
			break
		}
	}
	for i, sp := range spaces {
		list, last := w.entries(sp, before[i])
		list = slices.DeleteFunc(list, func(x resource.Entry) bool {
			if x.URI.Type() == "llm.Calibration" { // the node saves what it has learned about models a minute after its start
				return true
			}
			return x.URI.ID() == w.task && !strings.Contains(s.String(), w.task) // a task continues by itself
		})
		if w.seen[sp] = last; len(list) > 0 && !live {
			finds = append(finds, fmt.Sprintf("changes the space %s: %v %s", sp, list[0].Op, list[0].URI))
		}
	}
	return got, finds
}

// ours reports whether an answer reveals something of the family that the
// caller did not name.
func (w *world) ours(who string, s step, body string) bool {
	return strings.Contains(body, w.shared) || slices.ContainsFunc(uuid.FindAllString(body, -1), func(x string) bool {
		return w.ids[family][x] && !strings.Contains(s.String(), x) && !w.named[who+x]
	})
}

func cut(s string) string { return s[:min(len(s), 1000)] }
