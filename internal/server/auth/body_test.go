package auth_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/server/auth"
)

const limit = 1000

// bodies runs a server that answers with the number of bytes read, or the error.
func bodies(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := auth.ReadBody(w, r, limit)
		if err != nil {
			auth.WriteError(w, r, nil, err)
			return
		}
		fmt.Fprint(w, len(b))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestReadBody(t *testing.T) {
	s := bodies(t)
	type unsized struct{ io.Reader } // sent in chunks, without Content-Length
	text := func(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }
	for name, c := range map[string]struct {
		body   io.Reader
		expect bool
		status int
		reused bool // the connection can be reused
	}{
		"empty":                     {text(0), false, 200, true},
		"some":                      {text(10), false, 200, true},
		"the limit":                 {text(limit), false, 200, true},
		"the limit, in chunks":      {unsized{text(limit)}, false, 200, true},
		"one more":                  {text(limit + 1), false, 413, true},
		"one more, in chunks":       {unsized{text(limit + 1)}, false, 413, true},
		"several times":             {text(5 * limit), false, 413, true},
		"much more":                 {text(100 * limit), false, 413, false},
		"much more, in chunks":      {unsized{text(100 * limit)}, false, 413, false},
		"asking first, too much":    {text(2 * limit), true, 413, false},
		"asking first, not so much": {text(10), true, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest("POST", s.URL, c.body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if c.expect {
				r.Header.Set("Expect", "100-continue")
			}
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != c.status {
				t.Fatalf("got %d %s, %v", res.StatusCode, body, err)
			}
			if c.status == 413 && !strings.Contains(string(body), `"code":"too_large"`) {
				t.Errorf("got %s", body)
			}
			if res.Close == c.reused {
				t.Errorf("the connection closes: %v", res.Close)
			}
			if !c.reused {
				return
			}
			next, err := http.NewRequest("GET", s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			var reused bool
			next = next.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
			}))
			res, err = s.Client().Do(next)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if !reused {
				t.Error("the next request needed a connection of its own")
			}
		})
	}
}

func TestReadBodyThatBreaksOff(t *testing.T) {
	r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("abc"), broken{}))
	r.Header.Set("Content-Type", "application/json")
	_, err := auth.ReadBody(httptest.NewRecorder(), r, 0)
	if !fault.HasCode(err, "body_broken") || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if err := auth.Decode(httptest.NewRecorder(), jsonRequest("/", broken{}), 0, new(int)); !fault.HasCode(err, "body_broken") {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestDecode(t *testing.T) {
	type inner struct {
		N int `json:"n"`
	}
	type sample struct {
		Name  string  `json:"name"`
		Inner []inner `json:"inner"`
		Own   own     `json:"own"`
	}
	for in, want := range map[string]string{
		`{"name":"a","inner":[{"n":1}]}`:         "",
		` {"name":"ä€😀"} `:                       "",
		``:                                       "invalid_json",
		`{`:                                      "invalid_json",
		`{"name":"a"}x`:                          "invalid_json",
		`{"name":"a"}{}`:                         "invalid_json",
		`{'name':"a"}`:                           "invalid_json",
		"{\"name\":\"\xff\"}":                    "invalid_utf8 at 9",
		`{"name":"a","name":"b"}`:                "duplicate_member /name",
		`{"Name":"a"}`:                           "unknown_member /Name",
		`{"nаme":"a"}`:                           "unknown_member /nаme", // a Cyrillic а
		`{"inner":[{"n":1},{"m":2}]}`:            "unknown_member /inner/1/m",
		`{"name":1}`:                             "member_invalid /name",
		`{"inner":[{"n":"x"}]}`:                  "member_invalid /inner/0/n",
		`{"inner":[{"n":1e99}]}`:                 "member_invalid /inner/0/n",
		`[]`:                                     "member_invalid ",
		`{"own":"bad"}`:                          "own_code /own",
		`{"` + strings.Repeat("x", 300) + `":1}`: "unknown_member /" + strings.Repeat("x", 199) + "…",
	} {
		var v sample
		err := auth.Decode(httptest.NewRecorder(), jsonRequest("/", strings.NewReader(in)), 0, &v)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", in, err)
			}
			continue
		}
		got := ""
		if err != nil {
			e := fault.Of(err)
			got = e.Code
			if m, ok := e.Details["member"]; ok {
				got += fmt.Sprint(" ", m)
			} else if e.Code == "invalid_utf8" {
				got += fmt.Sprint(" at ", e.Details["position"])
			}
			if e.Kind != fault.Invalid || e.Message == "" {
				t.Errorf("%s: %+v", in, e)
			}
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// own is a type with its own coded error.
type own struct{}

func (*own) UnmarshalJSON([]byte) error {
	return fault.New(fault.Invalid, "own_code", "it does not hold")
}

// Any input is either decoded or refused with a code, and what is decoded encodes to
// the same value.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{`{}`, `[1,2]`, `"x"`, `{"a":{"b":[null,true]}}`, `{"a":1,"a":2}`, "\xff", `{"a":`, "\"\\ud800\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		err := auth.Unmarshal(data, &v)
		if err != nil {
			if e := fault.Of(err); e.Kind != fault.Invalid || e.Code == "" || e.Code == "internal" {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		var again any
		if err := auth.Unmarshal(out, &again); err != nil {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
		if b, err := json.Marshal(again, json.Deterministic(true)); err != nil || !bytes.Equal(b, mustDeterministic(t, v)) {
			t.Fatalf("%q: %q is not %q", data, b, out)
		}
	})
}

func mustDeterministic(t *testing.T, v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUnmarshalKnown(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	if err := auth.UnmarshalKnown([]byte(`{"b":2,"a":1}`), &v); err != nil || v.A != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
	if err := auth.UnmarshalKnown([]byte(`{"b":2,"b":1}`), &v); !fault.HasCode(err, "duplicate_member") {
		t.Errorf("got %v", err)
	}
}

// jsonRequest posts JSON.
func jsonRequest(path string, body io.Reader) *http.Request {
	r := httptest.NewRequest("POST", path, body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestABodyOfAnotherTypeIsRefused(t *testing.T) {
	guard := auth.New(auth.Options{Token: fixed("token")}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v map[string]any
		if err := auth.Decode(w, r, 0, &v); err != nil {
			auth.WriteError(w, r, nil, err)
		}
	}), nil)
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200,
		"application/jsonp": 415, "application/octet-stream": 415, "text/plain": 415, "text/plain; application/json": 415,
		"application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, "": 415, "application/json, text/plain": 415, ";": 415,
	} {
		for _, length := range []int64{2, -1} {
			r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer token")
			r.Header.Set("Content-Type", kind)
			r.ContentLength = length
			w := httptest.NewRecorder()
			guard.ServeHTTP(w, r)
			if w.Code != want || want == 415 && !strings.Contains(w.Body.String(), `"media_type"`) {
				t.Errorf("%q: %d %s", kind, w.Code, w.Body)
			}
		}
	}
}
