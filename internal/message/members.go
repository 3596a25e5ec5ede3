package message

import "time"

// member is a member of the stored form of a message or a block: its name and
// a pointer to its value. Lists of members are in the order of the stored form
// and drive both the encoder and the decoder.
type member struct {
	name string
	at   any // a pointer to one of the types of appendValue and decodeValue
}

// Types that select a stored form where the Go type alone does not determine it.
type (
	argsText  []byte        // as a string
	data      []byte        // in base64
	object    []byte        // a JSON object, unchanged
	micros    time.Time     // as microseconds since 1970
	millis    time.Duration // as milliseconds
	blockList []Block       // the blocks of a message
	content   []Block       // the content of a result
)

// maxMembers is the maximum number of members. Callers append the lists to a buffer
// on their stack, so that the codec does not allocate for them.
const maxMembers = 13

type buffer [maxMembers]member

func (m *Message) members(dst []member) []member {
	return append(dst, member{"id", &m.ID}, member{"role", &m.Role}, member{"at", (*micros)(&m.At)}, member{"prev", &m.Prev},
		member{"blocks", (*blockList)(&m.Blocks)}, member{"final", &m.Final}, member{"model", &m.Model}, member{"stop", &m.Stop},
		member{"usage", &m.Usage}, member{"approach", &m.Approach}, member{"took_ms", (*millis)(&m.Took)}, member{"turn_usage", &m.Turn},
		member{"meta", &m.Meta})
}

// members appends the members of a block, except its type.
func members(b Block, dst []member) []member {
	switch b := b.(type) {
	case *Text:
		dst = append(dst, member{"text", &b.Text}, member{"citations", &b.Citations})
	case *Vendor:
		dst = append(dst, member{"kind", &b.Kind})
	case *Reasoning:
		dst = append(dst, member{"text", &b.Text})
	case *ToolCall:
		dst = append(dst, member{"call_id", &b.CallID}, member{"name", &b.Name}, member{"args", (*argsText)(&b.Args)})
	case *ToolResult:
		dst = append(dst, member{"call", &b.Call}, member{"call_id", &b.CallID}, member{"name", &b.Name}, member{"status", &b.Status},
			member{"content", (*content)(&b.Content)}, member{"rest", &b.Rest}, member{"denied", &b.Denied})
	case *Image:
		dst = append(dst, member{"mime", &b.MIME}, member{"url", &b.URL}, member{"data", (*data)(&b.Data)})
	case *File:
		dst = append(dst, member{"mime", &b.MIME}, member{"name", &b.Name}, member{"url", &b.URL}, member{"data", (*data)(&b.Data)})
	}
	c := b.Base()
	return append(dst, member{"origin", &c.Origin}, member{"labels", &c.Labels}, member{"sources", &c.Sources}, member{"meta", &c.Meta})
}

func (c *Citation) members(dst []member) []member {
	return append(dst, member{"url", &c.URL}, member{"title", &c.Title}, member{"text", &c.Text})
}

func (u *Usage) members(dst []member) []member {
	return append(dst, member{"input", &u.Input}, member{"output", &u.Output}, member{"reasoning", &u.Reasoning},
		member{"cache_read", &u.CacheRead}, member{"cache_write", &u.CacheWrite},
		member{"searches", &u.Searches})
}

func (m *Meta) members(dst []member) []member {
	return append(dst, member{"provider", &m.Provider}, member{"fields", (*object)(&m.Fields)})
}

func find(list []member, name []byte) *member {
	for i := range list {
		if list[i].name == string(name) {
			return &list[i]
		}
	}
	return nil
}
