package page

import (
	"math"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"
)

// picture is a part of the graph that is drawn: at most pictureNodes nodes, the same for the same graph.
//
// The nodes begin on a circle around the middle. Then each pushes all others away, and each edge pulls its ends
// together (Fruchterman and Reingold), a little less in every round.
type picture struct {
	middle string // the id of the node in the middle; empty: none
	nodes  []drawn
	edges  []edge
	at     map[string]int // nodes by their ids
}

type drawn struct {
	id, label string
	x, y      float64
}

type edge struct {
	from, to int
	words    string
}

// The size of a picture, and how often its nodes are moved.
const (
	pictureWidth, pictureHeight = 1000.0, 620.0
	pictureRounds               = 180
)

func newPicture(middle string) *picture { return &picture{middle: middle, at: map[string]int{}} }

// node returns a node, and adds it if there is room; -1: there is none.
func (p *picture) node(id, label string) int {
	if i, ok := p.at[id]; ok {
		return i
	}
	if len(p.nodes) >= pictureNodes {
		return -1
	}
	p.at[id] = len(p.nodes)
	p.nodes = append(p.nodes, drawn{id: id, label: label})
	return len(p.nodes) - 1
}

// edge connects two nodes. What connects the same ones is one edge with all words.
func (p *picture) edge(from, to int, words string) {
	if from < 0 || to < 0 || from == to {
		return
	}
	for i := range p.edges {
		e := &p.edges[i]
		if e.from == from && e.to == to {
			if !slices.Contains(strings.Split(e.words, ", "), words) {
				e.words += ", " + words
			}
			return
		}
	}
	p.edges = append(p.edges, edge{from, to, words})
}

// arrange places the nodes.
func (p *picture) arrange() {
	n := len(p.nodes)
	for i := range p.nodes {
		angle := 2 * math.Pi * float64(i) / float64(n)
		p.nodes[i].x, p.nodes[i].y = pictureWidth/2+pictureWidth*.4*math.Cos(angle), pictureHeight/2+pictureHeight*.4*math.Sin(angle)
	}
	apart := .75 * math.Sqrt(pictureWidth*pictureHeight/float64(n))
	move := make([][2]float64, n)
	for round := range pictureRounds {
		clear(move)
		push := func(i, j int, force func(distance float64) float64) {
			dx, dy := p.nodes[i].x-p.nodes[j].x, p.nodes[i].y-p.nodes[j].y
			d := max(math.Hypot(dx, dy), .01)
			f := force(d) / d
			move[i][0], move[i][1] = move[i][0]+dx*f, move[i][1]+dy*f
			move[j][0], move[j][1] = move[j][0]-dx*f, move[j][1]-dy*f
		}
		for i := range n {
			for j := range i {
				push(i, j, func(d float64) float64 { return apart * apart / d })
			}
		}
		for _, e := range p.edges {
			push(e.from, e.to, func(d float64) float64 { return -d * d / apart })
		}
		most := 90 * (1 - float64(round)/pictureRounds)
		for i := range p.nodes {
			x := &p.nodes[i]
			if x.id == p.middle && p.middle != "" {
				x.x, x.y = pictureWidth/2, pictureHeight/2
				continue
			}
			d := max(math.Hypot(move[i][0], move[i][1]), .01)
			step := min(d, most) / d
			x.x = min(max(x.x+move[i][0]*step, 70), pictureWidth-70)
			x.y = min(max(x.y+move[i][1]*step, 25), pictureHeight-35)
		}
	}
}

// wordsShown is how many edges a picture has at most whose words are written in it.
const wordsShown = 24

// picture draws the graph. Each node is a link to its own picture.
func (v *visit) picture(p *picture, label string) g.Node {
	p.arrange()
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	var lines, words, nodes g.Group
	for _, e := range p.edges {
		a, b := p.nodes[e.from], p.nodes[e.to]
		lines = append(lines, g.El("line", g.Attr("x1", number(a.x)), g.Attr("y1", number(a.y)), g.Attr("x2", number(b.x)), g.Attr("y2", number(b.y)),
			g.El("title", g.Text(visible(a.label+" – "+e.words+" – "+b.label)))))
		if len(p.edges) <= wordsShown {
			words = append(words, g.El("text", Class("words"), g.Attr("x", number((a.x+b.x)/2)), g.Attr("y", number((a.y+b.y)/2-3)), g.Text(short(e.words, 24))))
		}
	}
	for _, n := range p.nodes {
		class, r := "dot", "7"
		if n.id == p.middle {
			class, r = "dot middle", "11"
		}
		nodes = append(nodes, g.El("a", g.Attr("href", entityLink(n.id)), Class(class), Aria("label", short(n.label, 80)),
			g.El("circle", g.Attr("cx", number(n.x)), g.Attr("cy", number(n.y)), g.Attr("r", r)),
			g.El("text", g.Attr("x", number(n.x)), g.Attr("y", number(n.y+24)), g.Attr("unicode-bidi", "isolate"), g.Text(short(n.label, 22)))))
	}
	return Div(Class("scroll-x picture"), TabIndex("0"), Role("region"), Aria("label", label),
		SVG(ID("picture"), g.Attr("viewBox", "0 0 1000 620"), lines, words, nodes))
}

// pictureTable says in words what a picture shows.
func (v *visit) pictureTable(p *picture) g.Node {
	return Details(Class("fold"), Summary(g.Text(v.t("As a table"))), Div(Class("scroll-x"), TabIndex("0"), Role("region"), Aria("label", v.t("Relations")), Table(Class("wide-table"),
		THead(Tr(Th(g.Text(v.t("Who or what"))), Th(g.Text(v.t("Relation"))), Th(g.Text(v.t("With"))))),
		TBody(g.Map(p.edges, func(e edge) g.Node {
			a, b := p.nodes[e.from], p.nodes[e.to]
			return Tr(Td(A(Href(entityLink(a.id)), ownText(a.label))), Td(ownText(e.words)), Td(A(Href(entityLink(b.id)), ownText(b.label))))
		})))))
}
