package effect

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
)

// lister is an action whose argument "list" holds several, separated by commas.
type lister struct{ preview string }

func (l lister) Spec() tool.Spec {
	return tool.Spec{Name: "list.do", Effect: tool.Action, Version: "1"}
}

func (l lister) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Result{}, nil
}

func (l lister) Preview(context.Context, tool.Invocation) (string, error) {
	if l.preview == "" {
		return "", fault.New(fault.NotFound, "file_not_found", "there is no file")
	}
	return l.preview, nil
}

func (l lister) Parts(args []byte) (string, []tool.Part, bool) {
	var a struct {
		List string `json:"list"`
	}
	if json.Unmarshal(args, &a) != nil || strings.Contains(a.List, "?") {
		return "list", nil, false
	}
	var out []tool.Part
	for p := range strings.SplitSeq(a.List, ",") {
		out = append(out, tool.Part{Args: []byte(`{"list":"` + p + `"}`), Whole: strings.HasPrefix(p, "!")})
	}
	return "list", out, true
}

func TestAGrantCoversEachPart(t *testing.T) {
	like := func(glob string) intent.Pattern { return intent.Pattern{"list": {Like: glob}} }
	is := intent.Pattern{"list": {Is: []byte(`"a,b"`)}}
	for _, c := range []struct {
		p    intent.Pattern
		list string
		want bool
	}{
		{like("a**"), "a", true}, {like("a**"), "ab,ac", true}, {like("a**"), "a,b", false}, {like("a**"), "b,a", false}, {like("a**"), "a?", false},
		{like("**"), "a,b", true}, {like("**"), "a,!b", false}, {like("!b"), "!b", false}, {intent.Pattern{"list": {Any: true}}, "!b", false}, {intent.Pattern{"list": {Is: []byte(`"!b"`)}}, "!b", true},
		{is, "a,b", true}, {is, "a", false}, {is, "a,b,c", false}, {intent.Pattern{"list": {Any: true}}, "a,b", true}, {intent.Pattern{"list": {Any: true}}, "a?", false},
	} {
		if got := coversCall(c.p, lister{}, []byte(`{"list":"`+c.list+`"}`)); got != c.want {
			t.Errorf("%v, %s: %v", c.p, c.list, got)
		}
	}
	in := &intent.Intent{Tool: "list.do", Version: "1", Args: `{"list":"a?"}`}
	if why := grantable(in, lister{}); why == "" {
		t.Error("what cannot be told apart can be granted")
	}
	in.Args = `{"list":"a"}`
	if why := grantable(in, lister{}); why != "" {
		t.Error(why)
	}
}

func TestPreviews(t *testing.T) {
	e := New(Options{Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "•••") }})
	in := &intent.Intent{Tool: "list.do", Args: `{"list":"a"}`}
	for was, want := range map[string]string{"": "At present it would fail: there is no file", "+hunter2": "+•••", "\xff": "\uFFFD",
		strings.Repeat("x", maxPreview+1): strings.Repeat("x", maxPreview) + "\n[Cut here.]"} {
		if got, _, err := e.preview(t.Context(), lister{was}, in); err != nil || got != want {
			t.Errorf("%.50q: %.50q, %v", was, got, err)
		}
	}
	in.Undoes = "cld:x"
	if got, _, _ := e.preview(t.Context(), lister{"x"}, in); got != "" {
		t.Errorf("an undo shows %q", got)
	}
	in.Undoes = ""
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := e.preview(ctx, lister{"x"}, in); err == nil {
		t.Error("a preview without an end")
	}
}

// What the person has said before, which is recalled with the label private, takes no standing approval away.
// Text of others, and what is private of anything else, does.
func TestAGrantCoversWhatWasRecalled(t *testing.T) {
	g := &Grant{Tool: "lamp.set", Standing: Always, User: "ann", Pattern: intent.Pattern{"list": {Any: true}}}
	in := &intent.Intent{Tool: "lamp.set", User: "ann", Args: `{"list":"a"}`}
	for _, c := range []struct {
		labels  message.Labels
		sources []string
		want    bool
	}{
		{0, nil, true},
		{message.Private, []string{message.SourceMemory}, true},
		{message.Private, []string{"calendar"}, false},
		{message.Private, []string{"calendar", message.SourceMemory}, false},
		{message.Private, nil, false},
		{message.Private, []string{message.UnknownSource}, false},
		{message.Private | message.Untrusted, []string{message.SourceMemory}, false},
		{message.Private | message.Secret, []string{message.SourceMemory}, false},
		{message.Untrusted, nil, false},
	} {
		if got := g.covers(lister{}, in, "", c.labels, c.sources, time.Now()); got != c.want {
			t.Errorf("%v of %v: %v", c.labels, c.sources, got)
		}
	}
}
