package importexport

import (
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// gptChat is a conversation in ChatGPT's conversations.json. The names are
// those of exports seen in 2023 to 2026.
type gptChat struct {
	Title    jsontext.Value     `json:"title"`
	ID       jsontext.Value     `json:"id"`
	ChatID   jsontext.Value     `json:"conversation_id"`
	Created  jsontext.Value     `json:"create_time"`
	Updated  jsontext.Value     `json:"update_time"`
	Model    jsontext.Value     `json:"default_model_slug"`
	Current  jsontext.Value     `json:"current_node"`
	SafeURLs jsontext.Value     `json:"safe_urls"` // repeats what messages say
	Mapping  map[string]gptNode `json:"mapping"`
	Rest     object             `json:",embed"`
}

type gptNode struct {
	Message  object         `json:"message"`
	Parent   jsontext.Value `json:"parent"`
	Children []string       `json:"children"`
}

// chatgpt reads one conversation: a tree of nodes, of which current_node is
// the newest.
func (r *reader) chatgpt(raw []byte) (*Chat, error) {
	var in gptChat
	if err := json.Unmarshal(raw, &in, lenient()); err != nil {
		return nil, err
	}
	c := &Chat{Title: valid(stringOf(in.Title)), Source: ChatGPT, SourceID: valid(stringOf(in.ChatID)),
		Created: stamp(in.Created), Updated: stamp(in.Updated), Model: modelName("openai", stringOf(in.Model))}
	if c.SourceID == "" {
		c.SourceID = valid(stringOf(in.ID))
	}
	t := gptTreeOf(in.Mapping)
	n := &notes{}
	n.circles(t.cuts)
	r.assets.renew()
	b := &gptReader{gptTree: t, notes: n, assets: r.assets, ends: make([]int, len(t.ids)), model: c.Model}
	for _, i := range t.order {
		b.node(i)
	}
	n.left(in.Rest)
	if len(b.entries) == 0 {
		return nil, emptyChat(c.Title)
	}
	nodes, last, err := weave(ChatGPT, b.entries, n)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, emptyChat(c.Title)
	}
	c.Nodes, c.Notes = nodes, n.list
	c.Current = last[len(last)-1]
	if at, ok := t.at[stringOf(in.Current)]; ok && b.ends[at] >= 0 {
		c.Current = last[b.ends[at]]
	}
	if c.Current < 0 {
		return nil, errors.New("its current node is before all messages")
	}
	return c, nil
}

// gptTree is the tree of a conversation's nodes, numbered oldest first. What
// nodes say of their parents counts; what they say of their children gives the
// order.
type gptTree struct {
	ids    []string
	nodes  map[string]gptNode
	at     map[string]int // by id: its number
	parent []int          // -1: none
	kids   []int          // how many children a node has
	order  []int          // parents before children
	cuts   int            // circles that were cut
}

func gptTreeOf(nodes map[string]gptNode) *gptTree {
	t := &gptTree{ids: sortedKeys(nodes), nodes: nodes, at: map[string]int{}, kids: make([]int, len(nodes))}
	slices.SortStableFunc(t.ids, func(a, b string) int {
		return cmp.Compare(gptTime(nodes[a]), gptTime(nodes[b]))
	})
	rank := make([]int, len(t.ids)) // its place among its parent's children
	for i, id := range t.ids {
		t.at[id], rank[i] = i, len(t.ids)
	}
	for i, id := range t.ids {
		p, ok := t.at[stringOf(nodes[id].Parent)]
		if !ok || p == i {
			p = -1
		}
		t.parent = append(t.parent, p)
	}
	for i, id := range t.ids {
		for k, name := range nodes[id].Children {
			c, ok := t.at[name]
			if ok && t.parent[c] < 0 && c != i && len(nodes[name].Parent) == 0 {
				t.parent[c] = i
			}
			if ok && t.parent[c] == i {
				rank[c] = min(rank[c], k)
			}
		}
	}
	t.order, t.cuts = treeOrder(t.parent, rank)
	for _, p := range t.parent {
		if p >= 0 {
			t.kids[p]++
		}
	}
	return t
}

func gptTime(n gptNode) int64 {
	if t := seconds(n.Message["create_time"]); !t.IsZero() {
		return t.UnixMicro()
	}
	return 0
}

// gptReader turns nodes into entries.
type gptReader struct {
	*gptTree
	notes   *notes
	assets  *assets
	model   string
	entries []entry
	ends    []int // by node: its entry, or that of the nearest before it; -1: none
}

// node reads one node. One that says nothing stands for the one before it.
func (b *gptReader) node(i int) {
	before := -1
	if p := b.parent[i]; p >= 0 {
		before = b.ends[p]
	}
	b.ends[i] = before
	o := b.nodes[b.ids[i]].Message
	if o == nil {
		return
	}
	m := &gptMessage{gptReader: b, o: o, content: objectOf(o.take("content")), meta: objectOf(o["metadata"])}
	author := objectOf(o.take("author"))
	m.role, m.name = author.text("role"), author.text("name")
	m.recipient = o.text("recipient")
	e, ok := m.entry()
	if !ok {
		return
	}
	e.parent = before
	if b.joins(i, before, e) {
		p := &b.entries[before]
		p.results[0].content = append(p.results[0].content, e.results[0].content...)
		return
	}
	b.entries = append(b.entries, e)
	b.ends[i] = len(b.entries) - 1
}

// joins reports whether a result is the continuation of the one before it:
// ChatGPT's tools answer a call with as many messages as they like.
func (b *gptReader) joins(i, before int, e entry) bool {
	if before < 0 || e.role != message.Tool || b.kids[b.parent[i]] != 1 {
		return false
	}
	p := b.entries[before]
	return p.role == message.Tool && p.results[0].name == e.results[0].name
}
