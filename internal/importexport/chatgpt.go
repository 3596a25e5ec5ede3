package importexport

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// gptChat is a conversation in ChatGPT's conversations.json, with the names of exports
// seen from 2023 to 2026.
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

func (n gptNode) at() int64 { return max(0, seconds(n.Message["create_time"]).UnixMicro()) }

// chatgpt reads one conversation: a tree of nodes with current_node as the newest.
func (r *reader) chatgpt(raw []byte) (*Chat, error) {
	var in gptChat
	if err := json.Unmarshal(raw, &in, lenient()); err != nil {
		return nil, err
	}
	c := &Chat{Title: valid(stringOf(in.Title)), Source: ChatGPT, SourceID: valid(cmp.Or(stringOf(in.ChatID), stringOf(in.ID))),
		Created: stamp(in.Created), Updated: stamp(in.Updated), Model: modelName("openai", stringOf(in.Model))}
	r.assets.renew()
	b := &gptReader{treeBuilder: treeBuilder{source: ChatGPT}, assets: r.assets, model: c.Model}
	current := b.nodes(in.Mapping, stringOf(in.Current))
	b.notes.noteDropped(in.Rest)
	return b.chat(c, current)
}

// gptReader turns nodes into entries.
type gptReader struct {
	treeBuilder
	assets *assets
	model  string
}

// nodes reads the nodes, oldest first, and returns the entry with which the current
// one ends, or -1. A node's parent is the one that it names, or else the one that
// names it as a child.
func (b *gptReader) nodes(nodes map[string]gptNode, current string) int {
	ids := sortedKeys(nodes)
	slices.SortStableFunc(ids, func(x, y string) int { return cmp.Compare(nodes[x].at(), nodes[y].at()) })
	number, parents := map[string]int{}, map[string]string{}
	for i, id := range ids {
		number[id] = i
		for _, child := range nodes[id].Children {
			if parents[child] == "" && len(nodes[child].Parent) == 0 {
				parents[child] = id
			}
		}
	}
	parent, kids := make([]int, len(ids)), make([]int, len(ids))
	for i, id := range ids {
		p, ok := number[cmp.Or(stringOf(nodes[id].Parent), parents[id])]
		if parent[i] = p; !ok || p == i {
			parent[i] = -1
		}
	}
	for _, p := range parent {
		if p >= 0 {
			kids[p]++
		}
	}
	ends := b.tree(parent, func(i, before int) int {
		alone := parent[i] >= 0 && kids[parent[i]] == 1
		return b.node(nodes[ids[i]].Message, before, alone)
	})
	if i, ok := number[current]; ok {
		return ends[i]
	}
	return -1
}

// node reads one node after an entry, and returns the entry with which it ends. An
// empty node adds nothing. ChatGPT's tools may answer with several messages: one that
// continues the result of the same tool becomes part of it.
func (b *gptReader) node(o object, before int, alone bool) int {
	if o == nil {
		return before
	}
	m := &gptMessage{gptReader: b, o: o, content: objectOf(o.take("content")), meta: objectOf(o["metadata"])}
	author := objectOf(o.take("author"))
	m.role, m.name, m.recipient = author.text("role"), author.text("name"), o.text("recipient")
	e, ok := m.entry()
	if !ok {
		return before
	}
	if e.parent = before; alone && before >= 0 && e.role == message.Tool {
		if p := &b.entries[before]; p.role == message.Tool && p.result.name == e.result.name {
			p.result.content = append(p.result.content, e.result.content...)
			return before
		}
	}
	b.entries = append(b.entries, e)
	return len(b.entries) - 1
}
