package edge_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// TestTheAgentInReserveAnswersIfPlanningFails: when plans are refused twice, the model is not sure of its plan, or cannot be
// asked, the agent that routing had kept in reserve gets the request, and the person is told. Without one it is as without routing.
func TestTheAgentInReserveAnswersIfPlanningFails(t *testing.T) {
	t.Parallel()
	const words = "Something with plants in several steps"
	bad := object{"analysis": "a", "plan": "p", "confidence": 1, "selected_tools": []string{"no.such"}}
	for name, c := range map[string]struct {
		plan  edge.Reply
		asked int32
		why   string
	}{
		"refused": {edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: bad}}}, 2, "2 plans were not valid"},
		"unsure":  {edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "purpose": "guess", "confidence": 0.3}}}}, 1, "not sure of its plan"},
		"failed":  {edge.Refuse(400, `{"error":{"message":"no","type":"invalid_request_error"}}`), 1, "the model failed (request_refused)"},
	} {
		for _, candidate := range []string{"plants", ""} {
			t.Run(name+candidate, func(t *testing.T) {
				t.Parallel()
				var planned atomic.Int32
				n := newRoutedBy(t, edge.Chooses("planner", 0.97, candidate), func(in edge.Asked) edge.Reply {
					switch {
					case strings.Contains(in.Messages[0].Text(), roles["plants"]):
						if !strings.Contains(in.User(), words) {
							t.Errorf("plants is asked: %s", in.User())
						}
						return edge.Reply{Text: "answered by plants"}
					case planned.Add(1) > 3 || in.Rounds() > 2:
						return edge.Reply{Text: "it cannot be planned"}
					case name == "unsure" && !strings.Contains(in.Messages[0].Text(), roles["planner"]):
						return edge.Reply{Text: "guessed"}
					}
					return c.plan
				})
				n.Serve()
				chat := n.Dial()
				defer chat.Close()
				a := chat.Turn(object{"content": words}, nil)
				var told string
				for _, f := range a.Frames {
					if f.Type == "notice" {
						told += f.Text + "\n"
					}
				}
				var st struct{ Fallbacks int }
				n.JSON(&st, "route", "stats")
				if candidate == "" {
					if strings.Contains(a.Text, "plants") || strings.Contains(told, "instead") || st.Fallbacks != 0 {
						t.Errorf("%q %s, told %q, %+v", a.Text, a.Code, told, st)
					}
					return
				}
				if a.Text != "answered by plants" || !strings.Contains(told, c.why+". The agent plants answers instead.") || planned.Load() != c.asked || st.Fallbacks != 1 {
					t.Errorf("%q %s, told %q, planned %d times, %+v", a.Text, a.Code, told, planned.Load(), st)
				}
				if out := n.Must("route", "stats"); !strings.Contains(out, "planning failed for 1 messages") {
					t.Error(out)
				}
				if out := n.Must("plans", "show", "last"); !inOrder(out, []string{"by Steward, since planning failed", "plants", "Planning has failed: "}) {
					t.Error(out)
				}
				n.Until("the request is over", func() bool { // a moment after the answer
					return inOrder(n.Must("requests", "show", "last"), []string{"✓ " + words, "✓ plan.start"})
				})
			})
		}
	}
}

// TestAFallbackSurvivesACrash: the agent in reserve goes on after a crash, and what it has done is not done again.
func TestAFallbackSurvivesACrash(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1)
	var planned atomic.Int32
	var killed atomic.Bool
	n := newRoutedBy(t, edge.Chooses("planner", 0.97, "timer"), func(in edge.Asked) edge.Reply {
		switch {
		case !strings.Contains(in.Messages[0].Text(), roles["timer"]):
			planned.Add(1)
			return edge.Refuse(400, `{"error":{"message":"no","type":"invalid_request_error"}}`)
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 3600, "name": "tea"}}}}
		case !killed.Load():
			return hangs(begun)
		}
		return edge.Reply{Text: "set it"}
	})
	n.Serve()
	conv := begin(n, "Something with timers in several steps")
	<-begun
	n.Kill()
	killed.Store(true)
	n.Serve()
	n.Until("the answer", func() bool { return last(n, conv) == "set it" })
	var st struct{ Fallbacks int }
	if n.JSON(&st, "route", "stats"); st.Fallbacks != 1 || planned.Load() != 1 {
		t.Errorf("%+v, planned %d times", st, planned.Load())
	}
	if text := n.Must("ask", "-q", "--model", "offline/steward", "List the timers"); strings.Count(text, `"tea"`) != 1 {
		t.Error(text)
	}
}
