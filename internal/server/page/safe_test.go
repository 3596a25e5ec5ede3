package page_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"steward/internal/identity"
	"steward/internal/server/auth"
	"steward/internal/server/page"
)

// street is the page as browsers reach it: behind the guard, by sessions.
type street struct {
	*house
	url string
}

func newStreet(t *testing.T) *street {
	t.Helper()
	h := newHouse(t, scripted{})
	guard := auth.New(auth.Options{People: h.people, Intake: auth.NewIntake(auth.IntakeOptions{}), Logger: slog.New(slog.DiscardHandler)})
	srv := httptest.NewServer(guard.Browser(h.people, h.own, page.Fail(slog.New(slog.DiscardHandler))))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return &street{h, srv.URL}
}

// ask makes a request. headers are "Name: value".
func (s *street) ask(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", s.url)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (s *street) text(res *http.Response) string {
	s.t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// link makes a link that signs a user in.
func (s *street) link(user string) string {
	s.t.Helper()
	link, err := s.people.NewLink(s.t.Context(), "local", user, time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	return link
}

// signIn returns the cookie of a new session, as a header.
func (s *street) signIn(user string, headers ...string) string {
	s.t.Helper()
	res := s.ask("POST", "/in", `{"link":"`+s.link(user)+`"}`, headers...)
	if res.StatusCode != 200 || len(res.Cookies()) != 1 {
		s.t.Fatalf("%s: %s", res.Status, s.text(res))
	}
	c := res.Cookies()[0]
	return "Cookie: " + c.Name + "=" + c.Value
}

// TestAnotherOriginCanDoNothing makes, with the cookie, what the page of another origin could have a browser make.
func TestAnotherOriginCanDoNothing(t *testing.T) {
	s := newStreet(t)
	ada := s.signIn("ada")
	conv := strings.TrimPrefix(s.say("ada", "hello", ""), "/chat/")
	rename := `{"conversation":"` + conv + `","title":"taken"}`
	const evil = "Origin: https://evil.example"
	for name, headers := range map[string][]string{
		"another site":            {evil, "Sec-Fetch-Site: cross-site"},
		"an older browser":        {evil},
		"an opaque origin":        {"Origin: null"},
		"no origin":               {"Origin: "},
		"another port":            {"Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"},
		"a form":                  {evil, "Content-Type: text/plain"},
		"a form of our own":       {"Content-Type: text/plain"},
		"an address that is ours": {"Host: evil.example", evil},
	} {
		for _, path := range []string{"/do/rename", "/do/sign-out", "/import?name=x.json", "/documents?path=/x.md", "/in"} {
			if res := s.ask("POST", path, rename, append([]string{ada}, headers...)...); res.StatusCode != 403 && res.StatusCode != 415 {
				t.Errorf("%s: POST %s: %s", name, path, res.Status)
			}
		}
	}
	// What reads: an event stream, a file, a frame. And a preflight, which would ask for permission.
	for _, path := range []string{"/live?of=chats", "/chat/" + conv, "/chat/" + conv + "/export", "/assets/x/page.js"} {
		res := s.ask("GET", path, "", ada, evil, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
		if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("GET %s: %s %v", path, res.Status, res.Header)
		}
	}
	if res := s.ask("OPTIONS", "/do/rename", "", evil, "Access-Control-Request-Method: POST"); res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight: %s %v", res.Status, res.Header)
	}
	for _, method := range []string{"GET", "HEAD"} { // an action is nothing that can be read
		if res := s.ask(method, "/do/sign-out", "", ada); res.StatusCode != 404 && res.StatusCode != 405 {
			t.Errorf("%s of an action: %s", method, res.Status)
		}
	}
	if text := s.text(s.ask("GET", "/chat/"+conv, "", ada)); !strings.Contains(text, "hello") || strings.Contains(text, "taken") {
		t.Error("the conversation has changed, or the session has ended")
	}
}

// TestWhatEveryAnswerForbids: every answer, also an error, says what a browser may do with it and that it keeps
// nothing of it.
func TestWhatEveryAnswerForbids(t *testing.T) {
	s := newStreet(t)
	ada := s.signIn("ada")
	for _, path := range []string{"/", "/settings", "/nothing", "/chat/nothing", "/live?of=approvals", "/in", "/shared/ada/nothing", "/memory/export"} {
		h := s.ask("GET", path, "", ada, "Accept: text/html").Header
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin"} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: %q is not in %s", path, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("%s: %s", path, csp)
		}
	}
}

// TestSessionsOfBrowsers: what a cookie is, what a link is good for, and how a session ends.
func TestSessionsOfBrowsers(t *testing.T) {
	s := newStreet(t)
	link := s.link("ada")
	res := s.ask("POST", "/in", `{"link":"`+link+`"}`)
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure || strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("%+v", c)
	}
	for _, wrong := range []string{link, "", "x", strings.Repeat("A", 26)} {
		if res := s.ask("POST", "/in", `{"link":"`+wrong+`"}`); res.StatusCode != 401 || len(res.Cookies()) != 0 {
			t.Errorf("the link %q: %s", wrong, res.Status)
		}
	}
	tls := s.ask("POST", "/in", `{"link":"`+s.link("ada")+`"}`, "X-Forwarded-Proto: https").Cookies()[0]
	if !tls.Secure || !strings.HasPrefix(tls.Name, "__Host-") || tls.Path != "/" || tls.Domain != "" {
		t.Errorf("%+v", tls)
	}
	if res := s.ask("GET", "/", "", "Cookie: "+c.Name+"="+tls.Value, "X-Forwarded-Proto: https"); res.StatusCode != 401 {
		t.Error("over TLS, a cookie counts that anybody can set")
	}
	own := "Cookie: " + c.Name + "=" + c.Value

	// A key is no cookie, and a cookie no key.
	_, key, err := s.people.Create(t.Context(), "local", "ada", "program", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []string{"Authorization: Bearer " + key, "Cookie: " + c.Name + "=" + key, "Authorization: Bearer " + c.Value} {
		if res := s.ask("GET", "/", "", h); res.StatusCode != 401 {
			t.Errorf("%.30s: %s", h, res.Status)
		}
	}

	// A link of somebody else does not sign a browser in that is signed in, unless the person clicks; the session that
	// it replaces has ended.
	hers := s.link("eve")
	if res := s.ask("POST", "/in", `{"link":"`+hers+`"}`, own); res.StatusCode != 409 || len(res.Cookies()) != 0 {
		t.Errorf("the link of somebody else: %s", res.Status)
	}
	if res := s.ask("POST", "/in", `{"link":"`+s.link("ada")+`"}`, "Cookie: "+tls.Name+"="+tls.Value, "X-Forwarded-Proto: https"); res.StatusCode != 200 {
		t.Errorf("another link of one's own: %s", res.Status)
	}
	eve := s.ask("POST", "/in", `{"link":"`+hers+`","sure":true}`, own).Cookies()[0]
	if eve.Value == c.Value {
		t.Error("a session keeps its secret")
	}
	if res := s.ask("GET", "/", "", own); res.StatusCode != 401 {
		t.Errorf("the session that was replaced: %s", res.Status)
	}

	// Nobody ends the session of somebody else, and who signs out keeps nothing.
	ada, other := s.signIn("ada"), s.signIn("ada")
	list, err := s.people.Sessions(t.Context(), "eve")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if res := s.ask("POST", "/do/session-end", `{"id":"`+list[0].ID.String()+`"}`, ada); res.StatusCode != 404 {
		t.Error(res.Status)
	}
	stream := s.ask("GET", "/live?of=chats", "", other)
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	lines.Scan() // it has begun
	mine, err := s.people.Sessions(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range mine {
		if s.ask("GET", "/", "", other).StatusCode != 200 {
			break
		}
		if res := s.ask("POST", "/do/session-end", `{"id":"`+x.ID.String()+`"}`, other); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
	ended := false
	for lines.Scan() { // until the stream ends
		ended = ended || lines.Text() == "event: ended"
	}
	if !ended {
		t.Error("the stream goes on, or does not say that the session has ended")
	}
	last := s.signIn("ada")
	res = s.ask("POST", "/do/sign-out", `{}`, last)
	if got := res.Header.Get("Clear-Site-Data"); !strings.Contains(got, "cache") || !strings.Contains(got, "storage") || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("%q %v", got, res.Cookies())
	}
	if res := s.ask("GET", "/", "", last); res.StatusCode != 401 {
		t.Error(res.Status)
	}
}

// TestAGuestSendsLittleThroughThePage: the bounds of other users hold for the page, too.
func TestAGuestSendsLittleThroughThePage(t *testing.T) {
	s := newStreet(t)
	roles := []string{identity.Roles()[len(identity.Roles())-1]}
	for _, r := range identity.Roles() {
		if r == "guest" {
			roles = []string{r}
		}
	}
	if _, err := s.people.AddUser(t.Context(), "local", "gus", identity.AccountChange{Roles: &roles}); err != nil {
		t.Fatal(err)
	}
	gus := s.signIn("gus")
	if res := s.ask("POST", "/do/send", `{"text":"`+strings.Repeat("a", 7<<20)+`"}`, gus); res.StatusCode != 413 {
		t.Errorf("7 MB: %s", res.Status)
	}
	if res := s.ask("POST", "/do/send", `{"text":"hello","files":[`+strings.Repeat(`{},`, 100_000)+`{}]}`, gus); res.StatusCode != 413 {
		t.Errorf("100,000 files: %s", res.Status)
	}
}

// TestASharedConversation: a link shows what was said, to whoever has it, and nothing else, until it ends.
func TestASharedConversation(t *testing.T) {
	s := newStreet(t)
	at := s.say("ada", "test.put the bins", "")
	q := s.asked("ada", 1)[0]
	s.house.do("ada", "answer", map[string]string{"id": q.ID, "hash": q.Hash, "verdict": "allow"})
	made := s.house.do("ada", "share-new", map[string]string{"conversation": strings.TrimPrefix(at, "/chat/"), "within": "24h"})
	_, rest, _ := strings.Cut(made.html(), "/shared/ada/")
	secret, _, _ := strings.Cut(rest, `"`)
	if len(secret) < 40 {
		t.Fatalf("%q in %s", secret, made.html())
	}
	path := "/shared/ada/" + secret
	res := s.ask("GET", path, "", "Accept: text/html")
	text := s.text(res)
	s.has(text, "the bins", "-data-do", "-<form", "-test.put&#34;", "-id=\"nav\"", "-data-call", "-/file/")
	if res.StatusCode != 200 || !strings.Contains(res.Header.Get("X-Robots-Tag"), "noindex") || res.Header.Get("Referrer-Policy") != "no-referrer" || res.Header.Get("Cache-Control") != "no-store" || len(res.Cookies()) != 0 {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	for _, wrong := range []string{"/shared/eve/" + secret, path + "A", path[:len(path)-1], "/shared/ada/" + identity.NewSecret()} {
		if res := s.ask("GET", wrong, ""); res.StatusCode != 404 {
			t.Errorf("%s: %s", wrong, res.Status)
		}
	}
	if res := s.ask("POST", path, "{}"); res.StatusCode != 404 && res.StatusCode != 405 {
		t.Errorf("POST: %s", res.Status)
	}
	s.house.do("ada", "delete-conversation", map[string]string{"conversation": strings.TrimPrefix(at, "/chat/")})
	if res := s.ask("GET", path, ""); res.StatusCode != 404 {
		t.Errorf("after the conversation was deleted: %s", res.Status)
	}
}

// hostileName tries to run something, to leave its place, and to look like something else.
const hostileName = `<script>ran=1</script><img src=x onerror=ran=1>"'><svg onload=ran=1>` + "\u202eevil\u200b\u0085\u2028" + `<!-- </title><meta http-equiv=refresh content=0;url=//evil.example>`

// TestHostileNamesAreText: titles, names of files, facts, goals, jobs, searches and arguments of an approval.
func TestHostileNamesAreText(t *testing.T) {
	s := newStreet(t)
	ada := s.signIn("ada")
	name, err := json.Marshal(hostileName)
	if err != nil {
		t.Fatal(err)
	}
	conv := strings.TrimPrefix(s.say("ada", "test.put "+hostileName, ""), "/chat/")
	q := s.asked("ada", 1)[0]
	act := func(do, fields string) string { return s.text(s.ask("POST", "/do/"+do, fields, ada)) }
	act("send", `{"text":`+string(name)+`,"files":[{"name":`+string(name)+`,"mime":"text/html","data":"PHNjcmlwdD4="},{"mime":"image/svg+xml","name":"x.svg","data":"PHN2Zy8+"}]}`)
	act("rename", `{"conversation":"`+conv+`","title":`+string(name)+`}`)
	act("fact-save", `{"text":`+string(name)+`,"type":"fact"}`)
	act("effort-save", `{"kind":"goals","title":`+string(name)+`}`)
	var answers []string
	for _, path := range []string{"/", "/chat/" + conv, "/approvals", "/memory", "/goals", "/jobs", "/plans", "/activity", "/activity/log", "/activity/decisions", "/search?q=" + "%3Cscript%3Eran=1%3C/script%3E%E2%80%AE", "/%3Cscript%3Eran=1"} {
		answers = append(answers, path+"\n"+s.text(s.ask("GET", path, "", ada, "Accept: text/html")))
	}
	for do, fields := range map[string]string{"always": `{"id":"` + q.ID + `"}`, "edit-arguments": `{"id":"` + q.ID + `"}`, "rename-ask": `{"conversation":"` + conv + `","title":` + string(name) + `}`,
		"share": `{"conversation":"` + conv + `"}`, "delete-conversation-ask": `{"conversation":"` + conv + `"}`, "effort-remove-ask": `{"kind":"goals","id":"x","title":` + string(name) + `}`,
		"document-remove-ask": `{"id":"x","name":` + string(name) + `}`, "job-remove-ask": `{"name":` + string(name) + `}`, "grant-revoke-ask": `{"id":"x","tool":` + string(name) + `}`, "facts-changed": `{}`} {
		var d done
		if err := json.Unmarshal([]byte(act(do, fields)), &d); err != nil {
			t.Fatal(do, err)
		}
		answers = append(answers, do+"\n"+d.html())
	}
	for _, a := range answers {
		where, text, _ := strings.Cut(a, "\n")
		for _, bad := range []string{"<script>ran", "<img src=x", "<svg onload", "<!-- </title>", "<meta http-equiv"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", where, bad)
			}
		}
		for _, n := range shown(t, text) {
			if strings.ContainsAny(n, "\u202e\u200b\u2028\u0085") {
				t.Errorf("%s shows characters that cannot be seen: %q", where, n)
			}
		}
	}
}

// shown returns the texts that HTML shows, without those of fields, which are the person's to edit.
func shown(t *testing.T, s string) (out []string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "textarea" {
			out = append(out, n.Data)
		}
	}
	return out
}
