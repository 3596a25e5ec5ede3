package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
)

// cut reads a body in pieces of the given sizes, over and over.
type cut struct {
	data  []byte
	sizes []int
	n     int
	end   error // instead of io.EOF
}

func (c *cut) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		if c.end != nil {
			return 0, c.end
		}
		return 0, io.EOF
	}
	size := min(len(c.data), len(b))
	if len(c.sizes) > 0 {
		size = min(size, c.sizes[c.n%len(c.sizes)])
		c.n++
	}
	copy(b, c.data[:size])
	c.data = c.data[size:]
	return size, nil
}

func answerOf(r io.Reader) *Answer {
	return &Answer{
		client: New(Options{Name: "test", BaseURL: "http://x"}), ctx: context.Background(),
		cancel: func(error) {}, timer: time.NewTimer(time.Hour), body: io.NopCloser(r),
	}
}

func readEvents(r io.Reader) (out []string, err error) {
	for ev, e := range answerOf(r).Events() {
		if e != nil {
			return out, e
		}
		out = append(out, string(ev.Type)+"|"+string(ev.Data))
	}
	return out, nil
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []string{"|a"}},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"two spaces", "data:  a\n\n", []string{"| a"}},
		{"typed", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		{"type last", "data: a\nevent: x\n\n", []string{"x|a"}},
		{"several lines", "data: a\ndata: b\ndata\ndata: c\n\n", []string{"|a\nb\n\nc"}},
		{"empty data", "data\n\ndata:\n\n", []string{"|", "|"}},
		{"comments", ": hello\n\n:\ndata: a\n: between\n\n: end\n\n", []string{"|a"}},
		{"fields to ignore", "id: 1\nretry: 10\nfoo: bar\nfoo\ndata: a\n\n", []string{"|a"}},
		{"no data", "event: x\n\ndata: a\n\n", []string{"|a"}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []string{"|a\nb", "|c"}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"|a\nb", "|c"}},
		{"mixed ends", "data: a\r\n\ndata: b\r\n\rdata: c\n\r\n", []string{"|a", "|b", "|c"}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		{"only one mark", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n", []string{"|b"}},
		{"part of a mark", "\xEF\xBBdata: a\n\ndata: b\n\n", []string{"|b"}},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		{"colon in the data", "data: {\"a\":1}\n\n", []string{`|{"a":1}`}},
		{"cut off", "data: a\n\ndata: b\n", []string{"|a"}},
		{"cut off in the line", "data: a\n\ndata: b", []string{"|a"}},
		{"long", "data: " + long + "\ndata: " + long + "\n\ndata: b\n\n", []string{"|" + long + "\n" + long, "|b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, sizes := range [][]int{nil, {1}, {2}, {3}, {7, 1}, {1, 4096}} {
				got, err := readEvents(&cut{data: []byte(c.in), sizes: sizes})
				if err != nil || !slices.Equal(got, c.want) {
					t.Fatalf("in pieces of %v: %.200q, %v; want %.200q", sizes, got, err, c.want)
				}
			}
		})
	}
}

// plainEvents follows the standard's text word by word.
func plainEvents(in string) (out []string) {
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(in, "\n")
	typ, data := "", ""
	for _, l := range lines[:len(lines)-1] {
		if l == "" {
			if data != "" {
				out = append(out, typ+"|"+strings.TrimSuffix(data, "\n"))
			}
			typ, data = "", ""
			continue
		}
		name, value, _ := strings.Cut(l, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data += value + "\n"
		case "event":
			typ = value
		}
	}
	return out
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\nevent: x\r\ndata: b\rdata: c\n\n", byte(3))
	f.Add("\xEF\xBB\xBF: c\r\n\r\n", byte(1))
	f.Fuzz(func(t *testing.T, in string, size byte) {
		whole, err := readEvents(strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		pieces, err := readEvents(&cut{data: []byte(in), sizes: []int{1 + int(size)%17}})
		if err != nil || !slices.Equal(whole, pieces) {
			t.Errorf("%q: whole %q, in pieces %q, %v", in, whole, pieces, err)
		}
		if in = strings.TrimPrefix(in, "\xEF\xBB\xBF"); !slices.Equal(whole, plainEvents(in)) {
			t.Errorf("%q: %q, want %q", in, whole, plainEvents(in))
		}
	})
}

func readLines(r io.Reader) (out []string, err error) {
	for l, e := range answerOf(r).Lines() {
		if e != nil {
			return out, e
		}
		out = append(out, string(l))
	}
	return out, nil
}

func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"":                          nil,
		"{}\n{}\n":                  {"{}", "{}"},
		"{}\r\n\r\n {\"a\":1} \r\n": {"{}", `{"a":1}`},
		"{}\n{\"b\"":                {"{}", `{"b"`},
		"\n\n\n":                    nil,
		strings.Repeat("y", 70_000): {strings.Repeat("y", 70_000)},
	} {
		for _, sizes := range [][]int{nil, {1}, {5}} {
			got, err := readLines(&cut{data: []byte(in), sizes: sizes})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%.50q in pieces of %v: %.50q, %v; want %.50q", in, sizes, got, err, want)
			}
		}
	}
}

func TestBrokenStreams(t *testing.T) {
	for _, read := range []func(io.Reader) ([]string, error){readEvents, readLines} {
		got, err := read(&cut{data: []byte("data: {}\n\ndata: {"), end: io.ErrUnexpectedEOF})
		f := fault.Of(err)
		if err == nil || f.Code != CodeBroken || !f.Recoverable() || !errors.Is(err, io.ErrUnexpectedEOF) || len(got) == 0 {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestStopping(t *testing.T) {
	a := answerOf(strings.NewReader("data: 1\n\ndata: 2\n\n"))
	for range a.Events() {
		break
	}
	a = answerOf(strings.NewReader("1\n2\n"))
	for range a.Lines() {
		break
	}
	// A buffer that was given back serves the next stream.
	if got, err := readLines(strings.NewReader("3\n")); err != nil || fmt.Sprint(got) != "[3]" {
		t.Errorf("%v, %v", got, err)
	}
}

// endless says the same for ever.
type endless struct{ what []byte }

func (e endless) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		n += copy(b[n:], e.what)
	}
	return n, nil
}

func TestTooLong(t *testing.T) {
	_, err := readEvents(io.MultiReader(strings.NewReader("data: "), endless{[]byte("x")}))
	if fault.Of(err).Code != CodeTooLarge || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("%v", err)
	}
	// Comments without end are not gathered.
	n := 0
	comment := ": " + strings.Repeat("keep-alive ", 100) + "\n\n"
	a := answerOf(io.MultiReader(strings.NewReader(strings.Repeat(comment, 17<<20/len(comment))), strings.NewReader("data: a\n\n")))
	for ev, err := range a.Events() {
		if err != nil || string(ev.Data) != "a" {
			t.Fatalf("%s, %v", ev.Data, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d events", n)
	}
}

func BenchmarkEvents(b *testing.B) {
	in := bytes.Repeat([]byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"}}]}`+"\n\n"), 10)
	a := answerOf(nil)
	r := bytes.NewReader(in)
	a.body = io.NopCloser(r)
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(in)
		a.read = 0
		for _, err := range a.Events() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
