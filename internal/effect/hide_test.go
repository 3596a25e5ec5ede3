package effect

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
)

// Secrets are hidden in arguments, results, files and progress before anything is recorded
// or sent.
func TestHide(t *testing.T) {
	e := &Engine{opt: Options{Mask: strings.NewReplacer("hunter22", "«secret:P»", "123456", "«secret:N»").Replace}}
	none := &Engine{}
	res := &message.ToolResult{Content: []message.Block{&message.Text{Text: "it is hunter22"}, &message.File{Data: []byte("x hunter22 y")}, &message.Image{Data: []byte{1}}}}
	if none.hide(res).Text() != "it is hunter22" {
		t.Error("something is hidden although there are no secrets")
	}
	if got := e.hide(res); got.Text() != "it is «secret:P»" || string(got.Content[1].(*message.File).Data) != "x «secret:P» y" || e.hide(nil) != nil {
		t.Errorf("%+v", got)
	}
	if got, err := e.canonical([]byte(`{"b":1,"a":"hunter22"}`)); err != nil || string(got) != `{"a":"«secret:P»","b":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := e.canonical([]byte(`{"n":123456}`)); !fault.HasCode(err, "args_secret") {
		t.Errorf("arguments with a secret number: %s, %v", got, err)
	}
	var told string
	c := e.masked(Call{Notify: func(p Progress) { told += p.Message }})
	c.notify(Progress{Message: "with hunter22"})
	if told != "with «secret:P»" {
		t.Errorf("%q", told)
	}
}
