package edge_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// judgedAgents is a node with two agents that differ in their metadata.
func judgedAgents(t *testing.T, reply func(edge.Asked) edge.Reply) *edge.Node {
	n := edge.New(t, edge.Options{Model: edge.Script(t, reply)})
	for name, metadata := range map[string]string{"poet": "metadata: {purpose: Writes verse, evaluation: it rhymes}\n", "plain": "metadata: {purpose: Writes verse}\n"} {
		n.Write("name: "+name+"\ndescription: Writes verse\ntools: [timer.*]\n"+metadata, "data", "agents", name, "agent.yaml")
		n.Write("You are the agent "+name+".", "data", "agents", name, "PROMPT.md")
		n.Must("agents", "approve", name, "--yes")
	}
	return n
}

// TestAnAnswerIsJudgedByTheMeasureOfItsAgent: what falls short goes back to the agent with the reasons, twice at most, and
// is then given as it is, with a notice beside it. What an agent without a measure answers is not judged.
func TestAnAnswerIsJudgedByTheMeasureOfItsAgent(t *testing.T) {
	t.Parallel()
	var judged, wrote atomic.Int32
	n := judgedAgents(t, func(in edge.Asked) edge.Reply {
		if strings.Contains(in.Messages[0].Text(), "You judge an answer") {
			judged.Add(1)
			if u := in.User(); !strings.Contains(u, "THE MEASURE:\nit rhymes") || !strings.Contains(u, "A ") {
				t.Errorf("judged by: %s", u)
			}
			if strings.Contains(in.User(), "in time") {
				return edge.Reply{Text: `{"achieved":true,"reasons":"it does"}`}
			}
			return edge.Reply{Text: `{"achieved":false,"reasons":"nothing rhymes with month"}`}
		}
		wrote.Add(1)
		switch u := in.User(); {
		case strings.Contains(u, "nothing rhymes with month") && !strings.Contains(string(in.Body), "A verse of doom"):
			return edge.Reply{Text: "a rhyme in time"}
		case strings.Contains(u, "A plain question"):
			return edge.Reply{Text: "in time: " + in.Messages[len(in.Messages)-2].Text()}
		}
		return edge.Reply{Text: "a month in prose"}
	})
	n.Serve()
	c := n.Dial()
	defer c.Close()
	expect := func(agent, words string, answers, verdicts int32, text, notice string) edge.Answer {
		t.Helper()
		judged.Store(0)
		wrote.Store(0)
		a := c.Turn(object{"content": words, "agent": agent}, nil)
		told := ""
		for _, f := range a.Frames {
			if f.Type == "notice" {
				told += f.Text + "\n"
			}
		}
		if got := last(n, a.Conversation); got != text || wrote.Load() != answers || judged.Load() != verdicts || !strings.Contains(told, notice) {
			t.Errorf("%s: %q, told %q, after %d answers and %d verdicts", words, got, told, wrote.Load(), judged.Load())
		}
		return a
	}
	expect("plain", "A verse", 1, 0, "a month in prose", "")
	expect("poet", "A verse", 2, 2, "a rhyme in time", "The answer falls short and is corrected: nothing rhymes with month")
	expect("poet", "A verse of doom", 3, 3, "a month in prose", "The answer was judged and falls short: nothing rhymes with month")
	if out := n.Must("ask", "-q", "--agent", "poet", "A verse"); !strings.HasSuffix(strings.TrimSpace(out), "a rhyme in time") {
		t.Error(out)
	}
}

// TestAnAnswerThatCannotBeJudgedHasNoRemark: neither the offline model, nor one that answers in no verdict, leaves a
// word about it in the answer or beside it.
func TestAnAnswerThatCannotBeJudgedHasNoRemark(t *testing.T) {
	t.Parallel()
	n := judgedAgents(t, func(in edge.Asked) edge.Reply {
		if strings.Contains(in.Messages[0].Text(), "You judge an answer") {
			return edge.Reply{Text: "no verdict"}
		}
		return edge.Reply{Text: "a month in prose"}
	})
	if r := n.Run("ask", "--agent", "poet", "A verse"); r.Code != 0 || strings.TrimSpace(r.Out) != "a month in prose" || strings.Contains(r.Out+r.Err, "judge") {
		t.Errorf("%d: %q, %q", r.Code, r.Out, r.Err)
	}
	if r := n.Run("ask", "--agent", "poet", "--model", "offline/steward", "Set a timer for ten minutes"); r.Code != 0 || strings.Contains(r.Out+r.Err, "judge") {
		t.Errorf("offline %d: %q, %q", r.Code, r.Out, r.Err)
	}
}

// TestAJudgedAnswerSurvivesACrash: a crash while an answer is judged repeats nothing that was done, and the answer comes.
func TestAJudgedAnswerSurvivesACrash(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	var killed atomic.Bool
	n := judgedAgents(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You judge an answer") && !killed.Load():
			return hangs(begun)
		case strings.Contains(in.Messages[0].Text(), "You judge an answer"):
			return edge.Reply{Text: `{"achieved":true,"reasons":"it does"}`}
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 3600, "name": "tea"}}}}
		}
		return edge.Reply{Text: "time for tea"}
	})
	n.Serve()
	c := n.Dial()
	c.Send(object{"type": "message", "content": "A verse, in an hour", "agent": "poet"})
	conversation := ""
	for conversation == "" {
		if f := c.Read(); f.Type == "accepted" {
			conversation = f.Conversation
		}
	}
	<-begun
	c.Close()
	n.Kill()
	killed.Store(true)
	n.Serve()
	n.Until("the answer", func() bool { return last(n, conversation) == "time for tea" })
	if text := n.Must("ask", "-q", "--model", "offline/steward", "List the timers"); strings.Count(text, `"tea"`) != 1 {
		t.Error(text)
	}
}

// TestOnlyTheAcceptedAnswerIsGiven: what was judged to fall short reaches neither standard output nor whoever watches
// the answer come. The calls for judging count in the usage of the turn, of its request, and of the day.
func TestOnlyTheAcceptedAnswerIsGiven(t *testing.T) {
	t.Parallel()
	n := judgedAgents(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You judge an answer"):
			return edge.Reply{Input: 1000, Text: `{"achieved":` + strconv.FormatBool(strings.Contains(in.User(), "in time")) + `,"reasons":"nothing rhymes with month"}`}
		case strings.Contains(in.User(), "nothing rhymes with month"):
			return edge.Reply{Input: 100, Text: "a rhyme in time"}
		}
		return edge.Reply{Input: 100, Text: "a month in prose"}
	})
	out := n.Run("ask", "--agent", "poet", "A verse")
	if out.Out != "a rhyme in time\n" || !strings.Contains(out.Err, "The answer falls short and is corrected") {
		t.Errorf("%+v", out)
	}
	var told struct {
		Answer string
		Usage  struct{ Input int }
	}
	n.JSON(&told, "ask", "--agent", "poet", "A verse")
	if told.Answer != "a rhyme in time" || told.Usage.Input != 2200 {
		t.Errorf("ask --json tells %+v", told)
	}
	n.Serve()
	a := n.Dial().Turn(object{"content": "A verse", "agent": "poet"}, nil)
	var shown struct{ Usage struct{ Input int } }
	n.JSON(&shown, "requests", "show", a.Frames[len(a.Frames)-1].Interaction)
	if shown.Usage.Input != 2200 {
		t.Errorf("the request tells %+v", shown)
	}
	for _, f := range a.Frames {
		if f.Type == "token" && strings.Contains(f.Text, "prose") {
			t.Errorf("a rejected answer is shown as it comes: %s", f.Raw)
		}
	}
}

// TestAnEmptyAnswerCounts: what a model charged for an empty answer is in the usage of the turn.
func TestAnEmptyAnswerCounts(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply {
		if asked.Add(1)%2 == 1 {
			return edge.Reply{Input: 1000, Text: " "}
		}
		return edge.Reply{Input: 100, Text: "an answer"}
	})})
	var told struct {
		Answer string
		Usage  struct{ Input int }
	}
	n.JSON(&told, "ask", "A question")
	if told.Answer != "an answer" || told.Usage.Input != 1100 {
		t.Errorf("%+v", told)
	}
}
