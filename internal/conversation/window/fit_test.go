package window_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/conversation/window"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	_ "steward/test/seed"
)

// count estimates tokens: one for four bytes.
func count(m *message.Message) int64 {
	n := 8
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			n += len(b.Text)
		case *message.ToolCall:
			n += 64 + len(b.Args)
		case *message.ToolResult:
			n += 32 + len(b.Text())
			for _, c := range b.Content {
				if _, ok := c.(*message.Image); ok {
					n += 6000
				}
			}
		case *message.Image:
			n += 6000
		}
	}
	return int64(n+3) / 4
}

func sum(msgs []*message.Message) (n int64) {
	for _, m := range msgs {
		n += count(m)
	}
	return n
}

func budgets(items []window.Item) *rapid.Generator[window.Budget] {
	return rapid.Custom(func(t *rapid.T) window.Budget {
		b := window.Budget{
			Window: rapid.OneOf(rapid.Int64Range(1, 500), rapid.Int64Range(500, 20000)).Draw(t, "window"),
			Clip:   rapid.SampledFrom([]int{0, 0, 600, 4096}).Draw(t, "clip"),
			Cut:    rapid.Bool().Draw(t, "cut"),
		}
		b.Target = rapid.SampledFrom([]int64{0, b.Window, b.Window / 2, 2 * b.Window}).Draw(t, "target")
		if rapid.Bool().Draw(t, "with a summary") {
			b.SummaryTokens = rapid.Int64Range(1, 1+b.Window/4).Draw(t, "summary")
		}
		if rapid.Bool().Draw(t, "has a summary") {
			b.Summary, b.Cut = &message.Message{ID: id.Derive("summary"), Role: message.User, Blocks: []message.Block{text("system", "What was before.")}}, true
		}
		if rapid.Bool().Draw(t, "begins later") {
			b.Start = items[rapid.IntRange(0, len(items)-1).Draw(t, "start")].Pos
		}
		return b
	})
}

// A plan that fits also fits without the summary: if the window is too small for
// any summary, the notice takes its place and may be longer.
func TestFitsWithoutTheSummary(t *testing.T) {
	items := []window.Item{
		{Pos: 1, Message: &message.Message{ID: id.Derive("1"), Role: message.User, Blocks: []message.Block{text("user", strings.Repeat("long ", 100))}}},
		{Pos: 2, Message: &message.Message{ID: id.Derive("2"), Role: message.Assistant, Blocks: []message.Block{text("model", "yes")}}},
		{Pos: 3, Message: &message.Message{ID: id.Derive("3"), Role: message.User, Blocks: []message.Block{text("user", "and now?")}}},
	}
	for most := int64(1); most < 60; most++ {
		b := window.Budget{Window: most, Target: most, SummaryTokens: 1}
		p := window.Fit(items, b, count)
		kept, o := applied(p, items, b)
		if n := sum(window.Render(kept, o)); p.Fits && n > most {
			t.Errorf("it is said to fit %d tokens and takes %d", most, n)
		}
	}
}

// tokensOf returns the tokens of a plan, and its messages as rendered.
func tokensOf(items []window.Item, b window.Budget, p window.Plan) (int64, []*message.Message) {
	kept, o := applied(p, items, b)
	if p.StartIndex > 0 && b.SummaryTokens > 0 {
		notice := window.Render(kept, o)[0] // shown if no summary can be made
		o.Summary = &message.Message{ID: id.Derive("new"), Role: message.User, Blocks: []message.Block{text("system", "x")}}
		msgs := window.Render(kept, o)
		return sum(msgs[1:]) + max(b.SummaryTokens, count(notice)), msgs
	}
	msgs := window.Render(kept, o)
	return sum(msgs), msgs
}

// wholeGroups pins all items before the start of a view, as in a view that Fit has
// made. If the start is inside a group, it moves the start to the beginning.
func wholeGroups(items []window.Item, b *window.Budget) {
	start := slices.IndexFunc(items, func(it window.Item) bool { return it.Pos == b.Start })
	leads := map[id.ID]int{}
	for i, it := range items {
		leads[it.Message.ID] = i
	}
	for i, it := range items {
		if r := it.Message.Result(); r != nil && i >= start {
			if lead, ok := leads[r.Call.Message]; ok && lead < start {
				b.Start = 0
				return
			}
		}
	}
	for i := range max(start, 0) {
		items[i].Pinned = true
	}
}

// TestFitKeeps: a plan has the right number of tokens, obeys the rules, and keeps
// everything that must stay.
func TestFitKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := unique(mess(t, draw(t)))
		if len(items) == 0 {
			return
		}
		b := budgets(items).Draw(t, "budget")
		wholeGroups(items, &b)
		p := window.Fit(items, b, count)
		if again := window.Fit(items, b, count); !reflect.DeepEqual(p, again) {
			t.Fatalf("two plans:\n%+v\n%+v", p, again)
		}
		tokens, msgs := tokensOf(items, b, p)
		if err := message.CheckView(msgs); err != nil {
			t.Fatal(err)
		}
		if tokens != p.Tokens || p.Fits != (tokens <= b.Window) {
			t.Fatalf("%+v costs %d\n%s", p, tokens, told(msgs))
		}
		in := map[id.ID]bool{}
		for _, m := range msgs {
			in[m.ID] = true
		}
		visible := shown(items)
		if b.Summary != nil {
			for i := range items {
				visible[i] = visible[i] && items[i].Message.ID != b.Summary.ID
			}
		}
		checkKept(t, items, visible, in)
		checkPlan(t, items, b, p)
	})
}

func unique(items []window.Item) []window.Item {
	seen := map[id.ID]bool{}
	return slices.DeleteFunc(items, func(it window.Item) bool {
		again := seen[it.Message.ID]
		seen[it.Message.ID] = true
		return again
	})
}

func checkKept(t *rapid.T, items []window.Item, shown []bool, in map[id.ID]bool) {
	newest, last := -1, -1
	for i, it := range items {
		m := it.Message
		switch {
		case !shown[i]:
			if in[m.ID] {
				t.Fatalf("message %d is in view now", i)
			}
			continue
		case it.Pinned && !in[m.ID]:
			t.Fatalf("the pinned message %d is not in view", i)
		case m.Role == message.User && slices.ContainsFunc(m.Blocks, func(b message.Block) bool {
			return b.Base().Origin == "user" || b.Base().Origin == ""
		}):
			newest = i
		}
		last = i
		if r := m.Result(); r != nil && in[m.ID] != in[r.Call.Message] {
			t.Fatalf("the result %d is parted from its call", i)
		}
	}
	if newest >= 0 && !in[items[newest].Message.ID] {
		t.Fatalf("the newest message of a person (%d) is not in view", newest)
	}
	if last >= 0 && items[last].Message.Role != message.User && items[last].Message.Role != message.System && !in[items[last].Message.ID] {
		t.Fatalf("the last message (%d) is not in view", last)
	}
}

func checkPlan(t *rapid.T, items []window.Item, b window.Budget, p window.Plan) {
	if b.Target == 0 || b.Target > b.Window {
		b.Target = b.Window / 10 * 7
	}
	if b.Clip > 0 && (p.Clip == 0 || p.Clip > max(b.Clip, window.MinClip)) {
		t.Fatalf("the clip grew to %d", p.Clip)
	}
	if p.StartIndex == 0 {
		if p.Start != b.Start || p.Summarize != (window.Span{}) {
			t.Fatalf("the start stays, and %+v", p)
		}
	} else if p.Start != items[p.StartIndex].Pos || p.Summarize.To != p.StartIndex || p.Summarize.From >= p.Summarize.To {
		t.Fatalf("the start moves, and %+v", p)
	}
	if p.Tokens <= b.Target {
		return
	}
	// Above the target, only the minimum that must stay is left.
	least := b
	least.Window, least.Target = 1, 1
	q := window.Fit(items, least, count)
	if q.StartIndex != p.StartIndex && !(p.Fits && p.StartIndex > q.StartIndex) { // or less, if that is the only way to fit
		t.Fatalf("%+v is above the target %d, and the view could start at %d", p, b.Target, q.StartIndex)
	}
	if p.Tokens > b.Window && q.Tokens < p.Tokens {
		t.Fatalf("%+v is above the window, and %d tokens are possible", p, q.Tokens)
	}
}

// TestFitSettles: Fit does not change a view that it has fitted.
func TestFitSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := draw(t)
		b := window.Budget{Window: rapid.Int64Range(500, 20000).Draw(t, "window")}
		p := window.Fit(items, b, count)
		kept, o := applied(p, items, b)
		pins := len(p.Pins)
		for i := range pins {
			kept[i].Pinned = true
		}
		b.Start, b.Clip, b.Cut = p.Start, o.Clip, o.Cut
		q := window.Fit(kept, b, count)
		if p.Tokens <= b.Window*7/10-1 && (q.StartIndex != 0 || q.Clip != p.Clip || q.Tokens != p.Tokens || len(q.Pins) != pins) {
			t.Fatalf("%+v became %+v", p, q)
		}
	})
}

// TestFitExamples: the order of preference.
func TestFitExamples(t *testing.T) {
	long := strings.Repeat("0123456789", 200) // 500 tokens
	turns := func(c *chat, n int) {
		for i := range n {
			c.user(fmt.Sprintf("Read %d.", i))
			c.calls(fmt.Sprint(i))
			c.result(fmt.Sprint(i), long)
			c.says("Done.")
		}
	}
	for name, c := range map[string]struct {
		make func(c *chat)
		b    window.Budget
		want window.Plan // Tokens aside
	}{
		"it fits": {func(c *chat) { turns(c, 4) }, window.Budget{Window: 10000}, window.Plan{Fits: true}},
		"what was recorded suffices": {func(c *chat) {
			turns(c, 10)
			for i := range 9 {
				state(&c.items[4*i+2], record.Invalidated, "read again")
			}
		}, window.Budget{Window: 3000}, window.Plan{Fits: true}},
		"clipping suffices":            {func(c *chat) { turns(c, 4) }, window.Budget{Window: 2500, Target: 2100}, window.Plan{Clip: 1024, Fits: true}},
		"the clip that there is stays": {func(c *chat) { turns(c, 4) }, window.Budget{Window: 2500, Clip: 700}, window.Plan{Clip: 700, Fits: true}},
		"whole turns go": {func(c *chat) { turns(c, 40) }, window.Budget{Window: 16384 * 10 / 7}, window.Plan{StartIndex: 40, Start: 41,
			Summarize: window.Span{From: 0, To: 40}, Fits: true}},
		"a long turn is cut, and its question stays": {func(c *chat) {
			turns(c, 2)
			c.user("Read all of it.")
			for i := range 60 {
				x := fmt.Sprint("all", i)
				c.calls(x)
				c.result(x, long)
			}
		}, window.Budget{Window: 16384 * 10 / 7}, window.Plan{StartIndex: 69, Start: 70, Pins: []int{8}, Summarize: window.Span{From: 0, To: 69}, Fits: true}},
		"what a person says in between stays with the question": {func(c *chat) {
			c.user("Read all of it.")
			c.calls("a")
			c.result("a", long)
			c.user("Hurry up.")
			for i := range 20 {
				x := fmt.Sprint("all", i)
				c.calls(x)
				c.result(x, long)
			}
		}, window.Budget{Window: 4000, Clip: 512}, window.Plan{StartIndex: 10, Start: 11, Clip: 512, Pins: []int{0, 3}, Summarize: window.Span{From: 0, To: 10}, Fits: true}},
		"pinned messages stay, with their groups": {func(c *chat) {
			c.system("Be brief.")
			turns(c, 20)
			c.items[2].Pinned = true
		}, window.Budget{Window: 3000, Clip: 512}, window.Plan{StartIndex: 37, Start: 38, Clip: 512, Pins: []int{0, 3}, Summarize: window.Span{From: 0, To: 37}, Fits: true}},
		"the least is too much": {func(c *chat) {
			turns(c, 3)
			c.user(strings.Repeat(long, 10))
		}, window.Budget{Window: 3000}, window.Plan{StartIndex: 12, Start: 13, Summarize: window.Span{From: 0, To: 12}}},
		"what was never answered goes when a person has written since": {func(c *chat) {
			c.user("Read.")
			var all []string
			for i := range 40 {
				all = append(all, fmt.Sprint("x", i))
			}
			c.calls(all...)
			for _, x := range all {
				c.result(x, long)
			}
			c.user("And now?")
		}, window.Budget{Window: 1000}, window.Plan{StartIndex: 42, Start: 43, Pins: []int{0}, Summarize: window.Span{From: 0, To: 42}, Fits: true}},
		"the least is clipped": {func(c *chat) {
			turns(c, 3)
			c.user("Read.")
			c.calls("x")
			c.result("x", strings.Repeat(long, 10))
		}, window.Budget{Window: 300}, window.Plan{StartIndex: 12, Start: 13, Clip: 512, Summarize: window.Span{From: 0, To: 12}, Fits: true}},
		"the start of the view is not on the branch any more": {func(c *chat) {
			turns(c, 3)
			c.items[0].Pinned = true
		}, window.Budget{Window: 10000, Start: 99}, window.Plan{Start: 99, Fits: true}},
		"nothing": {func(*chat) {}, window.Budget{Window: 100, Start: 7}, window.Plan{Start: 7, Fits: true}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &chat{}
			c.make(x)
			got := window.Fit(x.items, c.b, count)
			tokens, _ := tokensOf(x.items, c.b, got)
			if tokens != got.Tokens {
				t.Errorf("%d tokens, counted %d", tokens, got.Tokens)
			}
			c.want.Tokens = got.Tokens
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestPersons: user messages that were imported or have no origin count as a
// person's; those that Steward inserted do not.
func TestPersons(t *testing.T) {
	for origin, want := range map[string]bool{"user": true, "": true, "import:chatgpt": true, "system": false, "tool:a.b": false} {
		c := &chat{}
		c.add(&message.Message{Role: message.User, Blocks: []message.Block{text(origin, "first")}})
		c.calls("1")
		c.result("1", strings.Repeat("x", 100))
		p := window.Fit(c.items, window.Budget{Window: 60}, count)
		if got := len(p.Pins) == 1; got != want || p.StartIndex != 1 {
			t.Errorf("origin %q: %+v", origin, p)
		}
	}
}
