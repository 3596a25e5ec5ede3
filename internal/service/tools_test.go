package service_test

import (
	"context"
	"log/slog"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/service"
	"steward/internal/service/local"
	"steward/internal/tool"
	"steward/test/storetest"
)

// An agent keeps notes and rows that no other agent and no other user has.
func TestOwn(t *testing.T) {
	db := &local.DB{Dir: t.TempDir()}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	openers := service.Openers(local.KV{Store: storetest.NewModel()}, db)
	ctx := context.Background()
	level := func(agent string) *tool.Registry {
		var r tool.Registry
		for name, open := range openers {
			src, err := open(tool.Env{Name: name, Agent: agent, Log: slog.Default()}, func(any) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			a, err := src.Announce(ctx)
			if err != nil || len(a.Refused) > 0 || len(src.Files()) > 0 {
				t.Fatal(a, err)
			}
			for _, s := range a.Specs {
				if err := r.Add(src.Tool(s)); err != nil {
					t.Fatal(err)
				}
			}
			if err := src.Close(); err != nil {
				t.Error(err)
			}
		}
		return &r
	}
	email := level("pa/email")
	for _, c := range []struct{ name, args, want string }{
		{"state.list", `{}`, `[]`},
		{"state.put", `{"key":"city","value":"Graz \"x\""}`, "Kept."},
		{"state.get", `{"key":"city"}`, `Graz "x"`},
		{"state.list", `{"prefix":"c"}`, `["city"]`},
		{"db.exec", `{"sql":"CREATE TABLE t (a TEXT)"}`, `{"changed":0}`},
		{"db.exec", `{"sql":"INSERT INTO t VALUES (?)","args":["x"]}`, `{"changed":1}`},
		{"db.query", `{"sql":"SELECT a FROM t"}`, `{"columns":["a"],"rows":[["x"]]}`},
	} {
		if got := text(t, email, "ann", c.name, c.args); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.args, got, c.want)
		}
	}
	for _, other := range []struct {
		r    *tool.Registry
		user string
	}{{email, "bob"}, {level("pa"), "ann"}} {
		tl, _ := other.r.Get("state.get")
		if _, err := tl.Call(ctx, tool.Invocation{Args: []byte(`{"key":"city"}`), User: other.user}); !fault.Is(err, fault.NotFound) {
			t.Errorf("somebody else's note: %v", err)
		}
	}
	if got := text(t, email, "ann", "state.delete", `{"key":"city"}`); got != "Forgotten." {
		t.Error(got)
	}
	src, _ := openers["db"](tool.Env{Name: "db"}, func(any) error { return nil })
	if _, err := src.Tool(tool.Spec{Name: "db.drop"}).Call(ctx, tool.Invocation{}); !fault.HasCode(err, "tool_changed") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
}

func text(t *testing.T, r *tool.Registry, user, name, args string) string {
	t.Helper()
	tl, ok := r.Get(name)
	if !ok {
		t.Fatalf("there is no %s among %v", name, r.Names())
	}
	res, err := tl.Call(context.Background(), tool.Invocation{Args: []byte(args), User: user})
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return (&message.ToolResult{Content: res.Content}).Text()
}
