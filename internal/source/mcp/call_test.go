package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

func TestResults(t *testing.T) {
	w := start(t, "friendly")
	wantText(t, w.tool(t, "srv.echo"), `{"a":12345678901234567890}`, `{"a":12345678901234567890}`)
	wantText(t, w.tool(t, "srv.structured"), `{}`, `{"n":1}`)

	r := must.Get(call(t.Context(), w.tool(t, "srv.everything"), `{}`))
	var kinds []string
	for _, b := range r.Content {
		switch b := b.(type) {
		case *message.Text:
			kinds = append(kinds, b.Text)
		case *message.Image:
			kinds = append(kinds, "image "+b.MIME+" "+string(b.Data))
		case *message.File:
			kinds = append(kinds, "file "+b.MIME+" "+b.Name+" "+string(b.Data))
		}
	}
	want := []string{"hello", "image image/png " + png, "file audio/wav audio.wav wav", "file application/octet-stream image ?", "[The image (image/png) has no data]",
		"[resource a: test://a, to be read with srv.read_resource; A; text/plain; 7 bytes]", "[test://a]\nwithin", "file application/zip b.bin blob"}
	if !slices.Equal(kinds, want) {
		t.Errorf("%q", kinds)
	}

	if r, err := call(t.Context(), w.tool(t, "srv.drop_all"), `{}`); err != nil || !r.Failed || text(r) != "there is nothing to drop" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := call(t.Context(), w.tool(t, "srv.refuse"), `{}`); err == nil && !r.Failed {
		t.Errorf("a failure passes for a success: %+v", r)
	}
}

func TestResourcesAndPrompts(t *testing.T) {
	w := start(t, "friendly")
	wantText(t, w.tool(t, "srv.list_resources"), `{}`,
		`{"resources":[{"description":"the first","mimeType":"text/plain","name":"a","uri":"test://a"},{"name":"b","uri":"test://b.bin"}],"templates":[{"name":"any","uriTemplate":"test://{x}"}]}`)
	read := w.tool(t, "srv.read_resource")
	wantText(t, read, `{"uri":"test://a"}`, "[test://a]\nthe text of test://a")
	if r, err := call(t.Context(), read, `{"uri":"test://b.bin"}`); err != nil || string(r.Content[0].(*message.Image).Data) != gif {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := call(t.Context(), read, `{"uri":"other://a"}`); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
	wantText(t, w.tool(t, "srv.list_prompts"), `{}`, `{"prompts":[{"arguments":[{"name":"who","required":true}],"description":"greets","name":"greet"}]}`)
	get := w.tool(t, "srv.get_prompt")
	r, err := call(t.Context(), get, `{"name":"greet","arguments":{"who":"Ada"}}`)
	if err != nil || text(r) != "user: Greet Ada" || len(r.Content) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, tl := range []tool.Tool{get, read} {
		_, err := call(t.Context(), tl, `{"uri":1,"name":1}`)
		wantCode(t, err, fault.Invalid, "args_invalid")
	}
}

func TestMetaAndProgress(t *testing.T) {
	w := start(t, "friendly")
	req, parent := id.New(), id.New()
	r, err := w.tool(t, "srv.meta").Call(t.Context(), tool.Invocation{Args: []byte(`{}`), Request: req, Parent: parent, Trace: "00-trace-span-01"})
	var got map[string]any
	if err != nil || json.Unmarshal([]byte(text(r)), &got) != nil || got["traceparent"] != "00-trace-span-01" ||
		got["steward/request_id"] != req.String() || got["steward/parent_request_id"] != parent.String() {
		t.Errorf("%s, %v", text(r), err)
	}
	steps := make(chan tool.Progress, 10)
	must.Get(w.tool(t, "srv.steps").Call(t.Context(), tool.Invocation{Args: []byte(`{}`), Progress: func(p tool.Progress) { steps <- p }}))
	for _, want := range []tool.Progress{{Message: "step 1", Fraction: -1}, {Message: "step 2", Fraction: 2.0 / 3}, {Message: "step 3", Fraction: 1}} {
		if p := <-steps; p != want {
			t.Errorf("%+v; want %+v", p, want)
		}
	}
	(&progress{}).report(nil) // without a listener: does nothing
}

func TestCancel(t *testing.T) {
	w := start(t, "friendly")
	wait, was := w.tool(t, "srv.wait"), w.tool(t, "srv.was_cancelled")
	stop := errors.New("stopped by a person")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	in := tool.Invocation{Args: []byte(`{}`), Progress: func(tool.Progress) { cancel(stop) }} // the server has received the call
	if _, err := wait.Call(ctx, in); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	wantText(t, was, `{}`, "yes")
}

func TestErrors(t *testing.T) {
	w := start(t, "error", func(e *tool.Env, d *Decl) {
		e.Secret = func(string) (string, bool) { return "sesame-secret", true }
		d.Env["X"] = "${X}"
	})
	work := w.tool(t, "srv.work")
	_, err := call(t.Context(), work, `{}`)
	wantCode(t, err, fault.Unavailable, "mcp_server_error")
	if tool.CertainlyNotDone(err) || strings.Contains(err.Error(), "sesame") {
		t.Error(err)
	}
	_, err = call(t.Context(), work, `{"refuse":1}`)
	wantCode(t, err, fault.Invalid, "mcp_refused")
	if !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
}
