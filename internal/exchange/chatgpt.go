package exchange

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
	order := t.order()
	n := &notes{}
	for range t.cuts {
		n.add("messages that follow each other in a circle are kept, and the circle is cut before the oldest")
	}
	r.assets.renew()
	b := &gptReader{tree: t, notes: n, assets: r.assets, ends: map[string]int{}, model: c.Model}
	for _, id := range order {
		b.node(id)
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
	if at, ok := b.ends[stringOf(in.Current)]; ok && at >= 0 {
		c.Current = last[at]
	}
	if c.Current < 0 {
		return nil, errors.New("its current node is before all messages")
	}
	return c, nil
}

// gptTree is the tree of a conversation's nodes. What nodes say of their
// parents counts; what they say of their children gives the order.
type gptTree struct {
	nodes    map[string]gptNode
	parent   map[string]string
	children map[string][]string
	roots    []string
	cuts     int // circles that were cut
}

func gptTreeOf(nodes map[string]gptNode) *gptTree {
	t := &gptTree{nodes: nodes, parent: map[string]string{}, children: map[string][]string{}}
	ids := sortedKeys(nodes)
	slices.SortStableFunc(ids, func(a, b string) int {
		return cmp.Compare(gptTime(nodes[a]), gptTime(nodes[b]))
	})
	for _, id := range ids {
		if p := stringOf(nodes[id].Parent); p != "" && p != id {
			if _, ok := nodes[p]; ok {
				t.parent[id] = p
			}
		}
	}
	for _, id := range ids {
		for _, c := range nodes[id].Children {
			if _, ok := nodes[c]; ok && t.parent[c] == "" && c != id && len(nodes[c].Parent) == 0 {
				t.parent[c] = id
			}
		}
	}
	t.cut(ids)
	for _, id := range ids {
		for _, c := range nodes[id].Children {
			if t.parent[c] == id && !slices.Contains(t.children[id], c) {
				t.children[id] = append(t.children[id], c)
			}
		}
	}
	for _, id := range ids {
		p := t.parent[id]
		if p == "" {
			t.roots = append(t.roots, id)
		} else if !slices.Contains(t.children[p], id) {
			t.children[p] = append(t.children[p], id)
		}
	}
	return t
}

// cut breaks circles of parents, each before the oldest node on it.
func (t *gptTree) cut(oldestFirst []string) {
	walk := map[string]int{} // by node: the walk that passed it
	for n, id := range oldestFirst {
		var path []string
		at := id
		for at != "" && walk[at] == 0 {
			walk[at] = n + 1
			path = append(path, at)
			at = t.parent[at]
		}
		if at == "" || walk[at] != n+1 {
			continue
		}
		circle := path[slices.Index(path, at):]
		for _, old := range oldestFirst {
			if slices.Contains(circle, old) {
				delete(t.parent, old)
				t.cuts++
				break
			}
		}
	}
}

func gptTime(n gptNode) int64 {
	if t := seconds(n.Message["create_time"]); !t.IsZero() {
		return t.UnixMicro()
	}
	return 0
}

// order returns the nodes, parents before children.
func (t *gptTree) order() []string {
	var out []string
	stack := slices.Clone(t.roots)
	slices.Reverse(stack)
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		out = append(out, id)
		for _, c := range slices.Backward(t.children[id]) {
			stack = append(stack, c)
		}
	}
	return out
}

// gptReader turns nodes into entries.
type gptReader struct {
	tree    *gptTree
	notes   *notes
	assets  *assets
	model   string
	entries []entry
	ends    map[string]int // by node: its entry, or that of the nearest before it; -1: none
}

// node reads one node. One that says nothing stands for the one before it.
func (b *gptReader) node(id string) {
	parent := -1
	if p := b.tree.parent[id]; p != "" {
		parent = b.ends[p]
	}
	b.ends[id] = parent
	o := b.tree.nodes[id].Message
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
	e.parent = parent
	if b.joins(id, parent, e) {
		p := &b.entries[parent]
		p.results[0].content = append(p.results[0].content, e.results[0].content...)
		return
	}
	b.entries = append(b.entries, e)
	b.ends[id] = len(b.entries) - 1
}

// joins reports whether a result is the continuation of the one before it:
// ChatGPT's tools answer a call with as many messages as they like.
func (b *gptReader) joins(id string, parent int, e entry) bool {
	if parent < 0 || e.role != message.Tool || len(b.tree.children[b.tree.parent[id]]) != 1 {
		return false
	}
	p := b.entries[parent]
	return p.role == message.Tool && p.results[0].name == e.results[0].name && b.ends[b.tree.parent[id]] == parent
}
