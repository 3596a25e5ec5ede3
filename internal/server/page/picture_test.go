package page

import (
	"math"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/id"
	"steward/internal/turn"
)

// A picture is bounded, keeps its nodes apart and within its frame, and is the same each time.
func TestPicturesAreArranged(t *testing.T) {
	draw := func() *picture {
		p := newPicture("0")
		for i := range 2 * pictureNodes {
			p.edge(p.node("0", "middle"), p.node(strconv.Itoa(i), "x"), "knows")
		}
		p.edge(p.node("0", ""), p.node("1", ""), "likes")
		p.edge(p.node("0", ""), p.node("1", ""), "likes")
		p.arrange()
		return p
	}
	p := draw()
	if len(p.nodes) != pictureNodes || len(p.edges) != pictureNodes-1 || p.edges[0].words != "knows, likes" {
		t.Fatal(len(p.nodes), len(p.edges), p.edges[0])
	}
	if m := p.nodes[0]; m.x != pictureWidth/2 || m.y != pictureHeight/2 {
		t.Error(m)
	}
	for i, n := range p.nodes {
		if !(n.x >= 0 && n.x <= pictureWidth && n.y >= 0 && n.y <= pictureHeight) {
			t.Error(n)
		}
		for _, o := range p.nodes[:i] {
			if math.Hypot(n.x-o.x, n.y-o.y) < 5 {
				t.Errorf("%v lies on %v", n, o)
			}
		}
	}
	for i, n := range draw().nodes {
		if n != p.nodes[i] {
			t.Fatal("another picture")
		}
	}
	newPicture("").arrange()
}

// A list that has more than it shows goes on.
func TestListsGoOn(t *testing.T) {
	v := &visit{lang: "en"}
	if more := text(Div(v.showMore("/memory", url.Values{"q": {"tea"}}, 100, 250))); !strings.Contains(more, "/memory?q=tea&amp;shown=200") || !strings.Contains(more, "100 of 250") {
		t.Error(more)
	}
	if more := v.showMore("/memory", url.Values{}, 100, 100); more != nil {
		t.Error(more)
	}
}

// Frames about facts become lines: one for a recall, one for each fact that was saved, whose undoing takes its place.
func TestFramesOfMemory(t *testing.T) {
	v := &visit{server: &server{}, r: httptest.NewRequest("GET", "/", nil), lang: "en"}
	facts := []client.FactNews{{ID: "a", Text: "I like <b>tea</b>", Change: "c1"}, {ID: "b", Text: "I like milk"}}
	saved := v.memoryFrame(&turn.Frame{Kind: turn.FrameMemory, Memory: &turn.MemoryView{Did: client.MemorySaved, Facts: facts}})
	if len(saved) != 2 || saved[0].ID != "f-a" || saved[0].In != threadID || !strings.Contains(saved[0].HTML, `data-field-change="c1"`) || strings.Contains(saved[0].HTML, "<b>") || strings.Contains(saved[1].HTML, "button") {
		t.Errorf("%+v", saved)
	}
	gone := v.memoryFrame(&turn.Frame{Memory: &turn.MemoryView{Did: client.MemoryForgotten, Facts: facts[:1]}})
	if len(gone) != 1 || gone[0].ID != "f-a" || strings.Contains(gone[0].HTML, "tea") {
		t.Errorf("%+v", gone)
	}
	m := id.New()
	recalled := v.memoryFrame(&turn.Frame{Message: m, Memory: &turn.MemoryView{Did: client.MemoryRecalled, Facts: facts}})
	if len(recalled) != 1 || recalled[0].ID != "r-"+m.String() || !strings.Contains(recalled[0].HTML, "Facts recalled: 2") {
		t.Errorf("%+v", recalled)
	}
	if none := v.memoryFrame(&turn.Frame{}); none != nil {
		t.Errorf("%+v", none)
	}
}
