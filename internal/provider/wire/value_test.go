package wire_test

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/provider/wire"
)

// TestValue: what is asked for is there, or a fault that names the place.
func TestValue(t *testing.T) {
	doc := wire.Document([]byte(` {"list":[1,"x",{"deep":true}],"none":null,"text":"a\u0062","off":false,"data":"AA","object":{"a":1}} `))
	if !doc.Is('{') || doc.At() != "" || doc.Get("nothing").At() != "nothing" {
		t.Errorf("the document is at %q", doc.At())
	}
	if s := doc.Get("text").Text(); s != "ab" {
		t.Errorf("text: %q", s)
	}
	list := doc.Get("list")
	var at []string
	for _, v := range list.Items() {
		at = append(at, v.At()+"="+string(v.Raw()))
	}
	if got := strings.Join(at, " "); got != `list[0]=1 list[1]="x" list[2]={"deep":true}` {
		t.Errorf("items: %s", got)
	}
	for _, v := range list.Items() {
		if !v.Is('0') || v.Is('"') {
			t.Errorf("the first is %s", v.Raw())
		}
		break
	}
	names := ""
	for name := range doc.Members() {
		if names += name + " "; name == "text" {
			break
		}
	}
	if names != "list text " { // null is as good as nothing
		t.Errorf("members: %q", names)
	}
	for i, v := range list.Each() {
		if i == 2 && !v.Get("deep").Flag() {
			t.Error("deep is not true")
		}
	}
	for i, v := range doc.Get("object").Each() {
		if i != 0 || v.Get("a").At() != "object.a" {
			t.Errorf("each: %d %s", i, v.At())
		}
	}
	if b := doc.Get("data").Base64(); len(b) != 1 {
		t.Errorf("data: %v", b)
	}
	if doc.Get("off").Flag() || doc.Get("none").Flag() || doc.Get("none").Object() != nil || doc.Get("none").Text() != "" ||
		string(doc.Get("object").Object()) != `{"a":1}` || doc.Get("none").Is('n') != false {
		t.Error("what is not there is something")
	}
	for range doc.Get("none").Items() {
		t.Error("nothing has an item")
	}
	if err := doc.Err(); err != nil {
		t.Error(err)
	}
}

func TestValueFaults(t *testing.T) {
	const in = `{"m":[{"text":5,"flag":"x","object":[],"list":{},"data":"?","n":1}]}`
	for at, read := range map[string]func(wire.Value){
		"m[0].text":   func(v wire.Value) { v.Get("text").Text() },
		"m[0].flag":   func(v wire.Value) { v.Get("flag").Flag() },
		"m[0].object": func(v wire.Value) { v.Get("object").Object() },
		"m[0].data":   func(v wire.Value) { v.Get("data").Base64() },
		"m[0].list": func(v wire.Value) {
			for range v.Get("list").Items() {
				t.Error("an object has an item")
			}
		},
		"m[0].n": func(v wire.Value) {
			for range v.Get("n").Members() {
				t.Error("a number has a member")
			}
		},
	} {
		doc := wire.Document([]byte(in))
		for _, v := range doc.Get("m").Items() {
			read(v)
			v.Get("text").Fault("later", "a second fault")
			if v.Get("text").Text() != "" {
				t.Error("something is read after a fault")
			}
		}
		err := doc.Err()
		if !fault.HasCode(err, wire.CodeHistory) || fault.Of(err).Details["at"] != at || !strings.Contains(err.Error(), at+": ") {
			t.Errorf("%s: %v", at, err)
		}
	}
	for _, bad := range []string{"", "{", `{"a":1,"a":2}`, "[] []", "\"\xff\"", `"\ud800"`} {
		doc := wire.Document([]byte(bad))
		if !fault.HasCode(doc.Err(), wire.CodeHistory) {
			t.Errorf("%q: %v", bad, doc.Err())
		}
		for range doc.Items() {
			t.Errorf("%q has items", bad)
		}
	}
	if doc := wire.Document([]byte("5")); doc.Is('0') {
		doc.Fault(wire.CodeRole, "no list")
		if err := doc.Err(); err.Error() != "the document: no list" {
			t.Error(err)
		}
	}
}
