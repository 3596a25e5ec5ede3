package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/tokens"
	"steward/internal/tool"
	"steward/internal/worklog"
)

// long measures what is done to one very long conversation, each beside a
// synced write in the same moment.
type long struct {
	ctx    context.Context
	dir    string
	store  *sqlite.Store
	engine *conversation.Engine
	log    *worklog.Engine
	conv   id.ID
	sync   *os.File
	asks   []id.ID // user messages near the end
	inters []id.ID
	turns  int
}

const (
	longWindow = 200_000 // tokens
	longBatch  = 64      // turns to a commit while the conversation is made
)

var anna = store.ForUser("anna")

func runLong(short bool) error {
	total, rounds := 100_000, 101
	if short {
		total, rounds = 4_000, 5
	}
	dir, err := os.MkdirTemp("", "steward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := &long{ctx: context.Background(), dir: dir, conv: id.New()}
	if err := l.open(); err != nil {
		return err
	}
	defer l.store.Close()
	fmt.Printf("\nOne conversation of %d messages; its view is fitted to %d tokens. Medians of %d, each beside a synced write of 4 KB.\n\n", total, longWindow, rounds)
	s, early, err := l.fill(total, rounds)
	if err != nil {
		return err
	}
	fmt.Printf("| what | median ms | 99th percentile ms | a synced write, median ms |\n|---|---|---|---|\n")
	for _, m := range early {
		m.print()
	}
	return l.measure(s, rounds)
}

func (l *long) open() error {
	var err error
	if l.store, err = sqlite.Open(l.ctx, sqlite.Options{Path: filepath.Join(l.dir, "steward.db")}); err != nil {
		return err
	}
	if l.sync, err = os.Create(filepath.Join(l.dir, "sync")); err != nil {
		return err
	}
	reg, err := files()
	if err != nil {
		return err
	}
	l.engine = conversation.New(l.store, conversation.Options{
		Tools: func(_, name string) (tool.Tool, bool) { return reg.Get(name) },
		Names: func(string) []string { return reg.Names() },
	})
	l.log = worklog.New(l.store, func(name string) (tool.Spec, bool) {
		t, ok := reg.Get(name)
		if !ok {
			return tool.Spec{}, false
		}
		return t.Spec(), true
	})
	return nil
}

// files are tools that tidy up after themselves.
func files() (*tool.Registry, error) {
	reg := &tool.Registry{}
	type args struct {
		Path string `json:"path"`
	}
	for _, sp := range []tool.Spec{
		{Name: "files.read", Effect: tool.Query, Description: "Reads.", Log: tool.LogSpec{Summary: "Read {path}"},
			Tidy: []tool.Strategy{{Kind: tool.ByParameters, Parameters: []string{"path"}}}},
		{Name: "files.write", Effect: tool.Action, Description: "Writes.", Log: tool.LogSpec{Summary: "Wrote {path}"},
			Tidy: []tool.Strategy{{Kind: tool.ByTool, Tools: []string{"files.read"}, Parameters: []string{"path"}}}},
	} {
		t, err := tool.New(sp, func(context.Context, tool.Invocation, args) (string, error) { return "", nil })
		if err == nil {
			err = reg.Add(t)
		}
		if err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// words are prose of about n bytes.
func words(n int) string {
	return strings.Repeat("The quick brown fox jumps over the lazy dog near the river bank. ", n/66+1)[:n]
}

// turn makes the messages of one turn: a question, a read or a write of one
// of many files, what came of it, and an answer.
func (l *long) turn() []*message.Message {
	l.turns++
	ask := &message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: "user"}, Text: words(180)}}}
	name := "files.read"
	if l.turns%5 == 0 {
		name = "files.write"
	}
	call := &message.Message{ID: id.New(), Role: message.Assistant, Model: "bench/m", Stop: message.StopTools, Blocks: []message.Block{
		&message.ToolCall{Common: message.Common{Origin: "model:bench/m"}, CallID: "call_" + fmt.Sprint(l.turns), Name: name,
			Args: fmt.Appendf(nil, `{"path":"folder/file%d.txt"}`, l.turns%200)}}}
	result := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{
		&message.ToolResult{Common: message.Common{Origin: "tool:" + name}, Call: message.Ref{Message: call.ID}, CallID: "call_" + fmt.Sprint(l.turns),
			Name: name, Status: message.OK, Content: []message.Block{&message.Text{Text: words(2000)}}}}}
	answer := &message.Message{ID: id.New(), Role: message.Assistant, Model: "bench/m", Stop: message.StopEnd, Final: true, Blocks: []message.Block{
		&message.Text{Common: message.Common{Origin: "model:bench/m"}, Text: words(400)}}}
	return []*message.Message{ask, call, result, answer}
}

func (l *long) begin(s *conversation.Session) error {
	m := l.turn()[0]
	l.asks = append(l.asks, m.ID)
	l.inters = append(l.inters, id.New())
	commit := s.Begin(conversation.Opening{Request: id.New(), Actor: "agent:bench", Interaction: l.inters[len(l.inters)-1], Origin: "user", Message: m,
		Run: record.Run{ID: id.New(), Agent: "bench"}})
	_, err := commit(l.ctx)
	return err
}

// fill makes the conversation, fitting its view to the window as it grows. It
// measures the append of a message when there are few.
func (l *long) fill(total, rounds int) (*conversation.Session, []timing, error) {
	s := l.engine.Create(anna, record.Conversation{ID: l.conv, Owner: "anna"})
	if err := l.begin(s); err != nil {
		return nil, nil, err
	}
	early, err := l.time("append a message, to the first thousand", rounds, func() error { return l.append(s) })
	if err != nil {
		return nil, nil, err
	}
	for n := 1 + rounds; n < total; n += 4 * longBatch {
		var batch []*message.Message
		for range longBatch {
			batch = append(batch, l.turn()...)
		}
		if _, err := s.Append(l.ctx, batch...); err != nil {
			return nil, nil, err
		}
		l.asks = append(l.asks, batch[0].ID)
		if s.Transcript().Tokens() > longWindow {
			if _, err := s.Fit(l.ctx, conversation.Window{Tokens: longWindow, Count: tokens.Message}); err != nil {
				return nil, nil, err
			}
		}
	}
	_, err = s.Finish(l.ctx, nil, "answered", "")
	return s, []timing{early}, err
}

func (l *long) append(s *conversation.Session) error {
	_, err := s.Append(l.ctx, l.turn()[3])
	return err
}

// timing is what was measured.
type timing struct {
	what      string
	own, sync []time.Duration
}

func (t timing) print() {
	at := func(d []time.Duration, part float64) float64 {
		return float64(d[int(part*float64(len(d)-1))].Microseconds()) / 1000
	}
	fmt.Printf("| %s | **%.2f** | %.2f | %.2f |\n", t.what, at(t.own, 0.5), at(t.own, 0.99), at(t.sync, 0.5))
}

// time measures something, in turns with a synced write.
func (l *long) time(what string, rounds int, do func() error) (timing, error) {
	t := timing{what: what}
	page := make([]byte, 4096)
	for range rounds {
		began := time.Now()
		if _, err := l.sync.WriteAt(page, 0); err != nil {
			return t, err
		}
		if err := l.sync.Sync(); err != nil {
			return t, err
		}
		t.sync = append(t.sync, time.Since(began))
		began = time.Now()
		if err := do(); err != nil {
			return t, fmt.Errorf("%s: %w", what, err)
		}
		t.own = append(t.own, time.Since(began))
	}
	slices.Sort(t.own)
	slices.Sort(t.sync)
	return t, nil
}

func (l *long) measure(s *conversation.Session, rounds int) error {
	var branches []string
	shown, marked := 0, 0
	if err := l.begin(s); err != nil {
		return err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"append a message, to the last thousand", func() error { return l.append(s) }},
		{"the fitted view, warm (open in memory)", func() error {
			shown = len(s.Transcript().Messages())
			if s.Transcript().Tokens() > longWindow {
				return fmt.Errorf("it does not fit")
			}
			return nil
		}},
		{"the fitted view, cold (read from the store)", func() error {
			o, err := l.engine.Open(l.ctx, anna, l.conv)
			if err == nil && len(o.Transcript().Messages()) < 100 {
				err = fmt.Errorf("only %d messages", len(o.Transcript().Messages()))
			}
			return err
		}},
		{"find a message by its id", func() error {
			_, err := l.engine.Find(l.ctx, anna, l.conv, l.asks[len(l.asks)/2])
			return err
		}},
		{"edit a message far back (a new branch)", func() error {
			b, err := l.engine.Fork(l.ctx, anna, l.conv, conversation.Fork{Message: l.asks[len(l.asks)/2], Before: true})
			branches = append(branches, b.ID)
			return err
		}},
		{"switch to another branch", func() error {
			b := branches[len(branches)%5]
			branches = append(branches, b)
			return l.engine.Switch(l.ctx, anna, l.conv, b)
		}},
		{"switch back, and the fitted view of it, cold", func() error {
			if err := l.engine.Switch(l.ctx, anna, l.conv, record.MainBranch); err != nil {
				return err
			}
			_, err := l.engine.Open(l.ctx, anna, l.conv)
			return err
		}},
		{"mark a message as invalid", func() error {
			marked++
			return l.engine.Mark(l.ctx, anna, l.conv, conversation.Verdict{State: record.Invalidated, Reason: "bench"}, l.asks[marked])
		}},
		{"a page of 50 of the work log", func() error {
			page, _, err := l.log.Log(l.ctx, anna, worklog.Filter{Conversation: l.conv}, "", 50)
			if err == nil && len(page) != 50 {
				err = fmt.Errorf("%d entries", len(page))
			}
			return err
		}},
		{"a page of 100 messages, newest first", func() error {
			_, _, err := l.engine.Messages(l.ctx, anna, l.conv, "", 100, true)
			return err
		}},
	}
	for i, step := range steps {
		if i == 4 { // what follows is done to a conversation at rest
			if _, err := s.Finish(l.ctx, nil, "answered", ""); err != nil {
				return err
			}
		}
		t, err := l.time(step.what, rounds, step.do)
		if err != nil {
			return err
		}
		t.print()
	}
	open, idle, err := l.memory()
	fmt.Printf("\nThe view has %d messages. An open conversation holds %.1f MB, an idle one that was let go %.2f MB.\n", shown, open, idle)
	return err
}

// memory measures what an open conversation holds, and what is left of it.
func (l *long) memory() (open, idle float64, err error) {
	before := live()
	s, err := l.engine.Open(l.ctx, anna, l.conv)
	if err != nil {
		return 0, 0, err
	}
	open = live() - before
	runtime.KeepAlive(s)
	s = nil
	return open, live() - before, nil
}

// live returns the live heap in MB.
func live() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
