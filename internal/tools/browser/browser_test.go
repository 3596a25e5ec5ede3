//go:build long

package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/egress"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/sandbox"
	"steward/internal/tool"
)

// site is set in the environment of the process that serves the pages: an egress.Dialer never
// connects to a port of its own process.
const site = "BROWSER_TEST_SITE"

func TestMain(main *testing.M) {
	if code, mine := sandbox.Inside(os.Args); mine {
		os.Exit(code)
	}
	if os.Getenv(site) != "" {
		serveSite()
		return
	}
	goleak.VerifyTestMain(main)
}

// pages is the site.
var pages = map[string]string{
	"/": `<title>A shop</title><h1>Lamps</h1><p>Rings of <b>glass</b>.</p><p style="display:none">hidden words</p><a href="/lens">The lens</a>
		<a href="file:///etc/passwd">passwd</a><script>document.write("<p>Written by a script.</p>")</script>`,
	"/form": `<title>Order</title><form action="/done"><label>Name <input name="n" value="old"></label><label>Note <textarea name="t"></textarea></label>
		<label>Size <select name="s"><option value="1">Small</option><option value="2">Large</option></select></label>
		<label><input type="checkbox" name="gift" value="yes"> Gift</label><label>Day <input type="date" name="d"></label>
		<label>Picture <input type="file" name="f"></label><label>Fixed <input name="x" readonly></label><button>Order now</button></form>`,
	"/covered": `<title>C</title><button onclick="document.title='clicked'">Under</button><div style="position:fixed;inset:0;background:white">Cookies?</div>
		<button id=h style="visibility:hidden">Hidden</button>`,
	"/popup": `<title>P</title><button onclick="window.open('/lens')">New window</button><button onclick="alert(1);document.title='after'">Alert</button>`,
	"/many":  `<title>M</title><button onclick="for(let i=0;i<30;i++)window.open('/lens?'+i)">Thirty</button>`,
	"/lens":  `<title>Lens</title><h1>The Fresnel lens</h1>`,
	"/steal": `<title>S</title><script>setTimeout(()=>location="file:///etc/passwd",0)</script>`,
	"/deep":  `<title>D</title>` + strings.Repeat("<div role=group aria-label=x>", 3000) + "bottom",
	"/long":  `<title>L</title>` + strings.Repeat("<p>A line of a long page.</p>", 2000),
}

func serveSite() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() //nolint:errcheck // the test has ended
	err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/done":
			fmt.Fprintf(w, "<title>Done</title><p>got %s</p>", r.URL.Query().Encode())
		case "/file":
			w.Header().Set("Content-Disposition", "attachment; filename=x.bin")
			io.WriteString(w, "bytes") //nolint:errcheck // the caller may be gone
		default:
			page, ok := pages[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, page) //nolint:errcheck // the caller may be gone
		}
	}))
	panic(err)
}

// world is a site and the browsers that may open it.
type world struct {
	t     *testing.T
	host  string
	s     *Browsers
	tools map[string]tool.Tool
	in    tool.Invocation
}

// newWorld returns nil if there is no Chromium; the test has then asserted the refusal.
func newWorld(t *testing.T) *world {
	t.Helper()
	path, err := Find("")
	if err != nil || sandbox.Available() != nil {
		if err != nil && fault.Of(err).Remedy == "" {
			t.Error(err)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), site+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() }) //nolint:errcheck // it is over
	host, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	host = strings.TrimSpace(host)
	rule, err := egress.Public(host)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, host: host, s: New(Options{Path: path, Network: rule}), tools: map[string]tool.Tool{},
		in: tool.Invocation{User: "ann", Conversation: conversation()}}
	t.Cleanup(func() {
		if err := w.s.Close(); err != nil {
			t.Error(err)
		}
	})
	list, err := w.s.Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		w.tools[x.Spec().Name] = x
	}
	return w
}

func conversation() resource.URI {
	u, err := resource.Parse("cld:common.Conversation." + id.New().String())
	if err != nil {
		panic(err)
	}
	return u
}

// conversationOf returns the conversation of an open browser.
func conversationOf(s *Browsers) resource.URI {
	for k := range s.open {
		_, c, _ := strings.Cut(k, "\x00")
		if u, err := resource.Parse(c); err == nil {
			return u
		}
	}
	panic("no browser is open")
}

func (w *world) try(name string, args map[string]any) (tool.Result, error) {
	w.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	b, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	in := w.in
	in.Args = b
	ctx := w.t.Context()
	return w.tools["browser."+name].Call(ctx, in)
}

func (w *world) call(name string, args map[string]any) string {
	w.t.Helper()
	res, err := w.try(name, args)
	if err != nil {
		w.t.Fatalf("browser.%s: %v", name, err)
	}
	return text(res)
}

func text(res tool.Result) string {
	var out []string
	for _, b := range res.Content {
		if x, ok := b.(*message.Text); ok {
			out = append(out, x.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (w *world) open(path string) string {
	w.t.Helper()
	return w.call("open", map[string]any{"url": "http://" + w.host + path})
}

// refused asserts that a call fails with a code, before anything was done.
func (w *world) refused(code, name string, args map[string]any) {
	w.t.Helper()
	res, err := w.try(name, args)
	if !fault.HasCode(err, code) {
		w.t.Errorf("browser.%s %v: %v %q, want %s", name, args, err, text(res), code)
	}
	if name == "click" && !tool.CertainlyNotDone(err) {
		w.t.Errorf("browser.%s %v: it may have happened", name, args)
	}
}

// idOf returns the id of the element whose line contains a text.
func idOf(t *testing.T, outline, line string) string {
	t.Helper()
	for l := range strings.Lines(outline) {
		if _, rest, ok := strings.Cut(l, "["); ok && strings.Contains(l, line) {
			return rest[:strings.IndexByte(rest, ']')]
		}
	}
	t.Fatalf("no %s in\n%s", line, outline)
	return ""
}

func TestAPageIsReadAsAnOutline(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.refused("browser_closed", "read", nil)
	got := w.open("/")
	for _, want := range []string{"A shop\nhttp://" + w.host + "/\n", `- heading "Lamps"`, `"Rings of"`, `- link "The lens" [e`, "] http://" + w.host + "/lens", `"Written by a script."`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "hidden words") {
		t.Errorf("hidden text in\n%s", got)
	}
	if again := w.call("read", nil); again != got {
		t.Errorf("%s\nthen\n%s", got, again)
	}
	res, err := w.try("screenshot", nil)
	if err != nil {
		t.Fatal(err)
	}
	shot, ok := res.Content[0].(*message.Image)
	if !ok || http.DetectContentType(shot.Data) != "image/jpeg" || res.Labels != message.Untrusted {
		t.Errorf("%T %v", res.Content[0], res.Labels)
	}
	w.open("/long")
	first := w.call("read", nil)
	if _, rest, ok := strings.Cut(first, "read on from "); !ok || len(first) > shown+1000 {
		t.Errorf("%d bytes, %q", len(first), first[len(first)-100:])
	} else if next := w.call("read", map[string]any{"from": shown}); !strings.Contains(next, "A line of a long page.") || rest == "" {
		t.Errorf("%q", next)
	}
	if deep := w.open("/deep"); len(deep) < 100 {
		t.Error(deep)
	}
	w.call("close", nil)
	w.refused("browser_closed", "read", nil)
}

func TestAFormIsFilledInAndSent(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	page := w.open("/form")
	f := func(name, role, text string) map[string]any {
		return map[string]any{"element": idOf(t, page, "- "+role+` "`+name+`"`), "name": name, "text": text}
	}
	fill := func(fields ...map[string]any) map[string]any { return map[string]any{"site": w.host, "fields": fields} }
	got, err := w.try("fill", fill(f("Name", "textbox", "Ann & Bob"), f("Note", "textbox", "two\nlines"), f("Size", "combobox", "Large"),
		f("Gift", "checkbox", "yes"), f("Day", "Date", "2030-01-02")))
	if err != nil || got.Labels != message.Untrusted|message.Private || !strings.Contains(text(got), `value="Ann & Bob"`) {
		t.Fatalf("%v %v\n%s", err, got.Labels, text(got))
	}
	for _, bad := range []map[string]any{f("Size", "combobox", "Huge"), f("Fixed", "textbox", "x"), f("Picture", "button", "/etc/passwd"), f("Gift", "checkbox", "perhaps")} {
		if res, err := w.try("fill", fill(bad)); err != nil || !res.Failed {
			t.Errorf("%v: %v %q", bad, err, text(res))
		}
	}
	order := idOf(t, page, `"Order now"`)
	click := func(site, element, name string) map[string]any {
		return map[string]any{"site": site, "element": element, "name": name}
	}
	w.refused("page_changed", "click", click("example.org", order, "Order now"))
	w.refused("element_changed", "click", click(w.host, order, "Look inside"))
	w.refused("element_gone", "click", click(w.host, "e999999", "Order now"))
	done := w.call("click", click(w.host, order, "Order now"))
	if want := "got d=2030-01-02&amp;f=&amp;gift=yes&amp;n=Ann+%26+Bob&amp;s=2&amp;t=two%0D%0Alines&amp;x="; !strings.Contains(strings.ReplaceAll(done, "&", "&amp;"), want) {
		t.Errorf("%s\nwant %s", done, want)
	}
	w.refused("element_gone", "click", click(w.host, order, "Order now"))
}

func TestWhatAPageDoesAgainstClicks(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	click := func(page, name string) map[string]any {
		return map[string]any{"site": w.host, "element": idOf(t, page, `"`+name+`"`), "name": name}
	}
	page := w.open("/covered")
	w.refused("element_covered", "click", click(page, "Under"))
	page = w.open("/popup")
	if got := w.call("click", click(page, "Alert")); !strings.HasPrefix(got, "after\n") {
		t.Error(got)
	}
	if got := w.call("click", click(page, "New window")); !strings.Contains(got, "The Fresnel lens") {
		t.Error(got)
	}
	page = w.open("/many")
	w.call("click", click(page, "Thirty"))
	for _, b := range w.s.open {
		b.state.Lock()
		if n := len(b.pages); n > maxPages {
			t.Errorf("%d pages", n)
		}
		b.state.Unlock()
	}
}

func TestABrowserReachesOnlyWhatItMay(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	for code, urls := range map[string][]string{
		"url_invalid":    {"file:///etc/passwd", "chrome://version", "javascript:alert(1)", "http://user:pass@example.org/", "view-source:http://x"},
		"network_denied": {"http://169.254.169.254/latest", "http://127.0.0.1:1/", "http://[::1]:9/", "http://10.0.0.1/"},
	} {
		for _, u := range urls {
			w.refused(code, "open", map[string]any{"url": u})
		}
	}
	if res, err := w.try("open", map[string]any{"url": "http://" + w.host + "/file"}); !fault.HasCode(err, "page_download") {
		t.Errorf("%v %s", err, text(res))
	}
	page := w.open("/")
	got := w.call("click", map[string]any{"site": w.host, "element": idOf(t, page, `"passwd"`), "name": "passwd"})
	if strings.Contains(got, "root:") || !strings.HasPrefix(got, "A shop\n") {
		t.Error(got)
	}
	if got := w.open("/steal"); strings.Contains(got, "root:") {
		t.Error(got)
	}
	for _, b := range w.s.open { // what the page's own scripts may connect to is the same
		p, err := b.shown()
		if err != nil {
			t.Fatal(err)
		}
		var res struct{ Result struct{ Value string } }
		if err := b.call(t.Context(), p.session, "Runtime.evaluate", m{"awaitPromise": true, "returnByValue": true,
			"expression": `Promise.all(["http://127.0.0.1:1/","http://169.254.169.254/","file:///etc/passwd"].map(u=>fetch(u,{mode:"no-cors"}).then(r=>r.text(),e=>"refused"))).then(a=>a.join())`}, &res); err != nil || strings.Contains(res.Result.Value, "root:") || strings.Count(res.Result.Value, "refused") < 2 {
			t.Errorf("%v %q", err, res.Result.Value)
		}
	}
}

func TestBrowsersAreBounded(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.open("/lens")
	w.in.Conversation = conversation()
	w.refused("browser_closed", "read", nil) // another conversation's page
	bob := w.in
	bob.User, bob.Conversation, bob.Args = "bob", conversationOf(w.s), []byte("{}")
	if _, err := w.tools["browser.read"].Call(t.Context(), bob); !fault.HasCode(err, "browser_closed") { // another user's
		t.Error(err)
	}
	for range maxBrowsers - 1 {
		w.open("/lens")
		w.in.Conversation = conversation()
	}
	w.refused("browser_limit", "open", map[string]any{"url": "http://" + w.host + "/lens"})
}

func TestAnIdleBrowserEnds(t *testing.T) {
	w := newWorld(t)
	if w == nil {
		return
	}
	w.s.opt.Idle = time.Millisecond
	w.open("/lens")
	for _, b := range w.s.open {
		<-b.done
	}
	w.refused("browser_ended", "read", nil)
}

func TestABrowserThatCannotStart(t *testing.T) {
	if sandbox.Available() != nil {
		return
	}
	s := New(Options{Path: "/bin/false"})
	defer s.Close() //nolint:errcheck // it never fails
	_, _, err := s.acquire(t.Context(), tool.Invocation{User: "ann"}, true)
	if !fault.HasCode(err, "browser_failed") || fault.Of(err).Remedy == "" {
		t.Error(err)
	}
	if _, err := Find("/no/such/program"); !fault.HasCode(err, "browser_missing") || fault.Of(err).Remedy == "" {
		t.Error(err)
	}
}

func FuzzOutline(f *testing.F) {
	f.Add([]byte(`[{"nodeId":"1","role":{"value":"RootWebArea"},"name":{"value":"T"},"childIds":["2","1"]},{"nodeId":"2","parentId":"1","role":{"value":"link"},"backendDOMNodeId":7,"properties":[{"name":"url","value":{"value":"http://x"}}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var nodes []node
		if json.Unmarshal(data, &nodes) != nil {
			return
		}
		if got := outline(nodes); strings.Count(got, "\n") > len(nodes) {
			t.Errorf("%d lines of %d nodes", strings.Count(got, "\n"), len(nodes))
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"result\":{}}\x00{\"method\":\"x\"}\x00rest"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		c := conn{waiting: map[int]chan frame{1: make(chan frame, 1)}}
		_ = c.read(strings.NewReader(string(data)), func(frame) {}) // it must end
	})
}
