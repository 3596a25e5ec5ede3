package main

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"path/filepath"

	"steward/bench/bare"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/provider/openai"
	"steward/internal/runtime"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/internal/toolkit/builtin"
)

type bareLoop struct {
	*bare.Loop
	folder string
}

func openBare(dir, model string) (contender, error) {
	l, err := bare.Open(filepath.Join(dir, "bare.db"), model)
	return &bareLoop{l, dir}, err
}

func (b *bareLoop) chat(i int) (func(string) (string, error), error) {
	c := b.NewChat(int64(i))
	return func(text string) (string, error) { return c.Turn(context.Background(), text, func(string) {}) }, nil
}

func (b *bareLoop) checkpoint() error { return b.Checkpoint() }
func (b *bareLoop) dir() string       { return b.folder }

// steward is Steward through its runtime: no face, one watcher per
// conversation, as a connected client is.
type steward struct {
	folder string
	store  *sqlite.Store
	node   *runtime.Node
}

func openSteward(dir, model string) (contender, error) {
	s, err := newSteward(dir, model)
	return s, err
}

func newSteward(dir, model string) (*steward, error) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		return nil, err
	}
	models, err := llm.New(llm.Config{
		Providers: []llm.Provider{openai.New(openai.Options{BaseURL: model, Key: "none"})},
		Aliases:   map[string]llm.Alias{"default": {Models: []string{"openai/bench"}}},
	})
	if err != nil {
		return nil, err
	}
	all, err := builtin.Tools(builtin.Options{})
	if err != nil {
		return nil, err
	}
	tools := &tool.Registry{}
	for _, t := range all {
		if t.Spec().Name == "math.multiply" { // the bare loop has this one, too
			err = tools.Add(t)
		}
	}
	if err != nil {
		return nil, err
	}
	node, err := runtime.Open(ctx, runtime.Options{Store: db, Models: models, Tools: tools, Judge: policy.Fixed{}})
	return &steward{dir, db, node}, err
}

func (s *steward) chat(int) (func(string) (string, error), error) {
	ctx := context.Background()
	var conv id.ID
	var next func() (runtime.Frame, error, bool)
	return func(text string) (string, error) {
		acc, err := s.node.Send(ctx, "local", runtime.Turn{Conversation: conv,
			Content: []message.Block{&message.Text{Text: text}}, Attended: true})
		if err != nil {
			return "", err
		}
		if next == nil {
			conv = acc.Conversation
			next, _ = iter.Pull2(s.node.Watch(ctx, "local", conv, runtime.Cursor{Seq: acc.Seq}))
		}
		for {
			f, err, ok := next()
			switch {
			case err != nil:
				return "", err
			case !ok:
				return "", errors.New("the watch ended")
			case f.Kind == runtime.FrameError:
				return "", f.Err
			case f.Kind == runtime.FrameComplete:
				return f.Stored.Text(), nil
			}
		}
	}, nil
}

func (s *steward) dir() string { return s.folder }

// checkpoint moves the WAL of the databases in a folder into them.
func checkpoint(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil {
		return err
	}
	for _, name := range names {
		db, err := sql.Open("sqlite", "file:"+name+"?_pragma=busy_timeout(5000)")
		if err != nil {
			return err
		}
		_, err = db.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	return nil
}
