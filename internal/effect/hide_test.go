package effect

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
)

// Secrets are hidden in arguments, results, files and errors before anything
// is recorded or told; what has none is not even copied.
func TestHide(t *testing.T) {
	e := &Engine{opt: Options{Mask: func(s string) string { return strings.ReplaceAll(s, "hunter22", "«secret:P»") }}}
	res := &message.ToolResult{Name: "a.b", Content: []message.Block{
		&message.Text{Text: "it is hunter22"}, &message.Text{Text: "nothing"}, &message.File{Data: []byte("x hunter22 y")}, &message.Image{Data: []byte{1}},
	}}
	got := e.hide(res)
	if got == res || got.Content[0].(*message.Text).Text != "it is «secret:P»" || string(got.Content[2].(*message.File).Data) != "x «secret:P» y" ||
		got.Content[1] != res.Content[1] || got.Content[3] != res.Content[3] || got.Name != "a.b" {
		t.Errorf("%+v", got)
	}
	if res.Content[0].(*message.Text).Text != "it is hunter22" {
		t.Error("the tool's own result was changed")
	}
	clean := &message.ToolResult{Content: res.Content[1:2]}
	if e.hide(clean) != clean || e.hide(nil) != nil {
		t.Error("what has no secrets is copied")
	}
	if got, err := e.maskJSON([]byte(`{"a":"hunter22","b":1}`)); err != nil || string(got) != `{"a":"«secret:P»","b":1}` {
		t.Errorf("%s, %v", got, err)
	}
	var told []string
	c := e.masked(Call{Notify: func(p Progress) { told = append(told, p.Message) }})
	c.notify(Progress{Message: "with hunter22"})
	none := &Engine{}
	if none.masked(c); strings.Join(told, "") != "with «secret:P»" {
		t.Errorf("%q", told)
	}
	if none.hide(res) != res || none.mask("hunter22") != "hunter22" {
		t.Error("without a mask something is hidden")
	}
	numbers := &Engine{opt: Options{Mask: func(s string) string { return strings.ReplaceAll(s, "123456", "«secret:N»") }}}
	if got, err := numbers.maskJSON([]byte(`{"n":123456}`)); !fault.HasCode(err, "args_secret") {
		t.Errorf("arguments with a secret number: %s, %v", got, err)
	}
	if got, err := none.maskJSON([]byte("{}")); err != nil || string(got) != "{}" {
		t.Errorf("%s, %v", got, err)
	}
}
