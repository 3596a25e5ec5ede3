package files

import (
	"context"
	"testing"

	"steward/internal/tool"
	"steward/test/localtest"
)

func TestWhatReadingAndWritingMakeObsolete(t *testing.T) {
	_, r := sandbox(t)
	s := localtest.NewSession(t, r)
	const (
		a, b     = `{"path":"notes/a.txt"}`, `{"path":"notes/sub/b.txt"}`
		page     = `{"path":"notes/a.txt","lines":3}`
		top, sub = `{"path":"notes"}`, `{"path":"notes/sub"}`
	)
	s.Expect("files.read", a)
	s.Expect("files.read", b)
	s.Expect("files.read", page) // reading the whole file does not make a page obsolete
	s.Expect("files.read", a, "files.read"+a)
	s.Expect("files.list", top)
	s.Expect("files.list", sub)
	s.Expect("files.list", `{}`)
	s.Expect("files.list", top, "files.list"+top)
	s.Expect("files.write", `{"path":"notes/a.txt","content":"x"}`) // the file exists: the write is refused, and nothing becomes obsolete
	s.Expect("files.write", `{"path":"notes/a.txt","content":"x","overwrite":true}`, "files.read"+a, "files.read"+page, "files.list"+top)
	s.Expect("files.list", top)
	s.Expect("files.read", a)
	s.Expect("files.write", `{"path":"notes/sub/new.txt","content":"x"}`, "files.list"+sub) // the listing of the folder above is unchanged
	s.Expect("files.write", `{"path":"notes/fresh/new.txt","content":"x"}`, "files.list"+top)
	s.Expect("files.list", `{"path":"notes/"}`)
	s.Expect("files.write", `{"path":"notes/c.txt","content":"x"}`, `files.list{"path":"notes/"}`)
	s.Expect("files.list", `{}`, "files.list{}")
	s.Expect("files.read", b, "files.read"+b)
}

func TestAListingThatCannotBeUnderstoodStays(t *testing.T) {
	_, r := sandbox(t)
	w, _ := r.Get("files.write")
	o, ok := tool.OptimizerOf(w)
	if !ok {
		t.Fatal("files.write is no optimizer")
	}
	earlier := []tool.PastCall{{Name: "files.list", Args: []byte(`{"path":`)}, {Name: "files.read", Args: []byte(`{"path":"notes"}`)}}
	got, err := o.Obsolete(context.Background(), tool.PastCall{Args: []byte(`{"path":"notes/a.txt"}`)}, earlier)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := o.Obsolete(context.Background(), tool.PastCall{Args: []byte(`[]`)}, earlier); err == nil {
		t.Error("a call without a path was understood")
	}
}
