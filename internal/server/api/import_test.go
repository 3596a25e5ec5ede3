package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/runtime"
	"steward/internal/server/api"
	"steward/internal/server/httpauth"
)

// Import counts what is in a file and keeps nothing.
func (d *double) Import(_ context.Context, user string, r io.Reader, o importexport.Options) iter.Seq2[conversation.Imported, error] {
	d.asked = fmt.Sprint(user, " ", o.Name, " ", o.Format, " ", o.MaxTotal)
	return func(yield func(conversation.Imported, error) bool) {
		o.Tell("told")
		o.Codecs = runtime.Codecs()
		for c, err := range importexport.Read(r, o) {
			got := conversation.Imported{Conversation: mine, Branches: 1}
			if err == nil {
				got.Conversation.Title, got.Source, got.Stored, got.Notes = c.Title, c.Source, len(c.Nodes), c.Notes
			}
			if !yield(got, err) {
				return
			}
		}
		if d.fail != nil {
			yield(conversation.Imported{}, d.fail)
		}
	}
}

// Convert does what a Node does, which needs none for it.
func (d *double) Convert(doc []byte, from, to string) ([]byte, []string, error) {
	return (&runtime.Node{}).Convert(doc, from, to)
}

// Messages of one vendor come out in another's form, and what is not known is
// said.
func TestConvert(t *testing.T) {
	const in = `{"system":"S","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"hologram"}]}]}`
	status, _, body, err := request(t, &double{}, "ana", "POST", root+"/convert?from=anthropic&to=openai", in)
	want := `{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"[hologram]\n{\"type\":\"hologram\"}"}]}],` +
		`"notes":["content of the type \"hologram\" is kept as text"]}`
	if err != nil || status != 200 || strings.TrimSpace(body) != want {
		t.Errorf("%d %s, %v\nwant %s", status, body, err, want)
	}
	for query, code := range map[string]string{"from=anthropic": "format_unknown", "from=x&to=openai": "format_unknown"} {
		if status, _, body, _ := request(t, &double{}, "ana", "POST", root+"/convert?"+query, in); status != 400 || !strings.Contains(body, code) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

const two = `[{"title":"A","messages":[{"role":"user","content":"hello"},{"role":"critic","content":"hm"}]},{"title":"B","messages":[]},{"title":"C","messages":[{"role":"user","content":"x"}]}]`

func TestImport(t *testing.T) {
	d := &double{}
	status, _, body, err := request(t, d, "ana", "POST", root+"/import?name=x.json&format=openai", two)
	if err != nil || status != 200 {
		t.Fatal(status, body, err)
	}
	if want := fmt.Sprint("ana x.json openai ", api.MaxImport); d.asked != want {
		t.Errorf("asked %q, want %q", d.asked, want)
	}
	var got api.ImportReport
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Imported) != 2 || len(got.Refused) != 1 || got.Refused[0].Code != "import_chat_empty" || got.Refused[0].Remedy == "" ||
		len(got.Notes) != 1 || got.Imported[0].Messages != 2 || len(got.Imported[0].Notes) != 1 || got.Imported[1].Title != "C" || got.Imported[1].ID != mine.ID {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(body, `"notes":[]`) {
		t.Errorf("a list is missing where it is empty: %s", body)
	}
}

func TestImportErrors(t *testing.T) {
	for _, c := range []struct {
		d      *double
		body   string
		status int
		want   string
	}{
		{&double{}, `{"x":1}`, 400, "import_format_unknown"},
		{&double{}, ``, 400, "import_format_unknown"},
		{&double{}, `[{"role":"user","content":"cut`, 400, "import_not_json"},
		{&double{fail: fault.New(fault.Exhausted, "disk_full", "the disk is full")}, two, 200, `"code":"disk_full"`},
		{&double{fail: fault.New(fault.Exhausted, "disk_full", "the disk is full")}, `[{"title":"B","messages":[]}]`, 400, "import_chat_empty"},
	} {
		status, _, body, err := request(t, c.d, "ana", "POST", root+"/import", c.body)
		if err != nil || status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%.40s: got %d %s, %v; want %d %s", c.body, status, body, err, c.status, c.want)
		}
	}
}

func TestImportTooLarge(t *testing.T) {
	d := &double{}
	r, err := http.NewRequest("POST", root+"/import", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = api.MaxImport + 1
	w := serveOne(d, r)
	if w.Code != http.StatusRequestEntityTooLarge || d.asked != "" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// serveOne has the server answer one request of ana's.
func serveOne(d *double, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r = r.WithContext(httpauth.With(r.Context(), httpauth.Caller{User: "ana"}))
	api.Handler(api.Options{Node: d, Logger: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	return w
}
