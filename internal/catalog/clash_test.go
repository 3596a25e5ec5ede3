package catalog

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

// An unapproved unit never takes a name from an approved one.
func TestANewcomerTakesNoNameFromWhatIsApproved(t *testing.T) {
	w := newWorld(t)
	servers := w.write(w.data+"/mcp.json", `{"mcpServers":{"docs":{"command":["x"]}}}`)
	more := w.write(w.data+"/more.json", `{"mcpServers":{}}`)
	other := w.data + "/other"
	w.mkdir(other)
	w.opt.Servers, w.opt.Folders = []string{servers, more}, append(w.opt.Folders, other)
	w.agent("kin", "mcp: {child: {command: [x]}}\n")
	w.agent("email", "services: {state: {offering: serve}}\n")
	w.agent("email/agents/spam", "")
	w.edge.offer("docs", spec("docs.find", "Finds."))
	w.edge.offer("child", spec("child.add", "Adds."))
	c := w.open()
	for _, path := range []string{"mcp:docs", "kin", "email", "email/spam"} {
		approve(t, c, path)
	}
	good := func(when string) {
		t.Helper()
		rescan(t, c)
		for _, path := range []string{"mcp:docs", "kin", "email", "email/spam"} {
			if u, err := c.find(path); err != nil || u.grant == nil || len(u.faults()) > 0 {
				t.Errorf("%s: %s: %v %+v", when, path, err, u)
			}
		}
		if _, err := call(t, c, "", "docs.find"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := call(t, c, "kin", "child.add"); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	good("before")

	w.agent("docs", "")             // an agent with the name of a server
	w.agent("kin/agents/child", "") // a child with the name of a source
	w.write(more, `{"mcpServers":{"docs":{"command":["evil"]}}}`)
	w.write("email_agent/agent.yaml", "name: email\ndescription: Me.\n")
	w.write(other+"/email/agent.yaml", "name: email\ndescription: Me too.\nservices: {state: {source: parent, offering: none}}\n")
	good("after")
	for _, path := range []string{"docs", "kin/child"} {
		if l := listing(t, c, path); l.Status != Invalid || l.Problems[0].Code != "name_taken" {
			t.Errorf("%+v", l)
		}
		if _, err := c.Approve(t.Context(), "local", path, listing(t, c, path).Hash, nil); !fault.HasCode(err, "agent_invalid") {
			t.Errorf("%s can be approved: %v", path, err)
		}
	}
	invalid := 0
	for _, l := range c.Listings() {
		if l.Status == Invalid && (l.Path == "email" || l.Path == "mcp:docs") {
			invalid++
		}
	}
	if invalid != 3 {
		t.Errorf("%d of 3 doubles are invalid", invalid)
	}

	// They stay invalid after a restart, and get the name once it is free.
	must.Do(t, c.Close())
	c = w.open()
	good("after a restart")
	must.Get(c.Revoke(t.Context(), "local", "kin", ""))
	w.agent("kin", "")
	rescan(t, c)
	if l := listing(t, c, "kin/child"); l.Status != Pending {
		t.Errorf("%+v", l)
	}
}

// A new tool of a source is off until it is approved, and does not stop the others. A tool that
// disappears is off until it comes back.
func TestANewToolIsOffAndTheOthersGoOn(t *testing.T) {
	w := newWorld(t)
	w.agent("calc", "mcp: {box: {command: [x]}}\n")
	add, sub, evil := spec("box.add", "Adds."), spec("box.sub", "Subtracts."), spec("box.evil", "Does.")
	w.edge.offer("box", add, sub)
	c := w.approved("calc")
	held, _ := c.Tree().ByPath["calc"].Tools.Get("box.add")
	gone, _ := c.Tree().ByPath["calc"].Tools.Get("box.sub")
	changed := func(what string, waiting, missing []string, specs ...tool.Spec) {
		t.Helper()
		w.edge.offer("box", specs...)
		w.edge.last("box").env.Changed()
		until(t, c, what, func() bool {
			l := listing(t, c, "calc")
			return slices.Equal(l.Waiting, waiting) && slices.Equal(l.Gone, missing)
		})
		if l := listing(t, c, "calc"); l.Status != Approved || !l.Usable || l.NeedsDecision() != (len(waiting) > 0) {
			t.Errorf("%s: %+v", what, l)
		}
		if _, err := held.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); err != nil {
			t.Errorf("%s: what a turn held before cannot be called: %v", what, err)
		}
		if _, err := call(t, c, "calc", "box.add"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, ok := c.Tree().ByPath["calc"].Tools.Get("box.evil"); ok {
			t.Errorf("%s: the new tool is offered", what)
		}
	}
	changed("there is one more", []string{"box.evil"}, nil, add, sub, evil)
	first := waits(c)["calc"]
	changed("one vanishes", []string{"box.evil"}, []string{"box.sub"}, add, evil)
	if _, err := gone.Call(t.Context(), tool.Invocation{Args: []byte("{}")}); !fault.HasCode(err, "tool_changed") || !tool.CertainlyNotDone(err) {
		t.Errorf("a tool that vanished: %v", err)
	}
	changed("it comes back", []string{"box.evil"}, nil, add, sub, evil)
	if again := waits(c)["calc"]; first == "" || again != first {
		t.Errorf("the question was %q and is %q", first, again)
	}
	if n := strings.Count(w.log.String(), "box.evil"); n != 1 {
		t.Errorf("told %d times: %s", n, w.log)
	}
	approve(t, c, "calc")
	if l := listing(t, c, "calc"); l.NeedsDecision() || len(l.Tools) != 3 {
		t.Errorf("%+v", l)
	}
	must.Get(call(t, c, "calc", "box.evil"))
}

// A source that changes once more while it is being compared is compared again.
func TestAChangeDuringAComparisonIsNotLost(t *testing.T) {
	w := newWorld(t)
	w.agent("calc", "mcp: {box: {command: [x]}}\n")
	add, evil := spec("box.add", "Adds."), spec("box.evil", "Does.")
	w.edge.offer("box", add)
	c := w.approved("calc")
	changed := w.edge.last("box").env.Changed
	w.edge.mu.Lock()
	w.edge.during = func() {
		w.edge.offer("box", evil)
		changed()
	}
	w.edge.mu.Unlock()
	changed()
	until(t, c, "both changes are seen", func() bool {
		l := listing(t, c, "calc")
		return slices.Equal(l.Waiting, []string{"box.evil"}) && slices.Equal(l.Gone, []string{"box.add"})
	})
}

// Settings of an approval apply to tools by name or glob. Only the most specific one counts, and one that
// matches no tool is refused.
func TestSettingsByGlob(t *testing.T) {
	w := newWorld(t)
	w.agent("calc", "mcp: {box: {command: [x]}}\n")
	long := spec("box.short_0123456789", "Is long.")
	long.FullName = "box.long_name"
	long.Effect = tool.Action
	act := func(name string) tool.Spec { s := spec(name, "Acts."); s.Effect, s.Asks = tool.Action, true; return s }
	w.edge.offer("box", act("box.look"), act("box.pay"), act("box.pay_all"), long)
	c := w.open()
	no := false
	hash := inspect(t, c, "calc").Hash
	if _, err := c.Approve(t.Context(), "local", "calc", hash, map[string]ToolSetting{"box.*": {Effect: tool.Query}, "bax.*": {Off: true}}); !fault.HasCode(err, "tool_unknown") {
		t.Errorf("a glob that means nothing: %v", err)
	}
	l, err := c.Approve(t.Context(), "local", "calc", hash, map[string]ToolSetting{"box.*": {Effect: tool.Query, Asks: &no}, "box.pay*": {Effect: tool.Action}, "box.pay_all": {Off: true}, "box.long_*": {Off: true}})
	if err != nil || !slices.Equal(l.Tools, []string{"box.look", "box.pay"}) {
		t.Fatalf("%+v %v", l, err)
	}
	specs := c.Tree().ByPath["calc"].Tools.Specs()
	if specs[0].Effect != tool.Query || specs[0].Asks || specs[1].Effect != tool.Action || !specs[1].Asks {
		t.Errorf("%+v", specs)
	}
}

// Listing reads nothing while nothing changes.
func TestListingIsFromMemory(t *testing.T) {
	w := newWorld(t)
	w.opt.Watch = true
	for _, name := range []string{"one", "two", "three"} {
		w.agent(name, "")
	}
	read := make(chan struct{}, 100)
	w.opt.Names = func() []string { read <- struct{}{}; return nil }
	c := w.open()
	for range 2 { // on opening, and by the watch
		<-read
	}
	before := c.scans.Load()
	for range 100 {
		if list, err := c.List(t.Context()); err != nil || len(list) != 3 {
			t.Fatalf("%v %v", list, err)
		}
	}
	if n := c.scans.Load() - before; n != 0 {
		t.Errorf("a hundred listings read the folders %d times", n)
	}
	w.agent("four", "")
	until(t, c, "the fourth is listed", func() bool { return len(c.Listings()) == 4 })
}

// Below an agent, only those of Steward's own tools shadow a name that the agent uses.
func TestNamesOfToolsThatAnAgentDoesNotUse(t *testing.T) {
	w := newWorld(t)
	w.agent("home", "tools: [math.*]\n")
	w.agent("home/agents/math", "")
	w.agent("home/agents/files", "")
	w.agent("files", "")
	c := w.open()
	for path, invalid := range map[string]bool{"home/math": true, "home/files": false, "files": true} {
		if l := listing(t, c, path); (l.Status == Invalid) != invalid {
			t.Errorf("%+v", l)
		}
	}
}
