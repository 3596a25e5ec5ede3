package worklog

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"steward/internal/fault"
	"steward/internal/store"
)

// place is what a cursor says: the last message that was looked at, in a rope
// (Branch, In and Pos) or in the log (Seq).
type place struct {
	Branch string `json:"b,omitzero"` // whose rope it is
	In     string `json:"i,omitzero"` // in whose list the message stands
	Pos    int64  `json:"p,omitzero"`
	Seq    uint64 `json:"s,omitzero"`
	Block  int    `json:"n,omitzero"` // its calls from this block on are told; 0: all
	Sum    uint32 `json:"f"`          // of the filter
}

// sum tells filters apart. Times are left out: those of "the last 24 hours"
// move from page to page.
func (f *Filter) sum() uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s %v %s %q %q", f.Conversation, f.AllBranches, f.Interaction, f.Tool, string(f.Outcome))
	return h.Sum32()
}

func (f *Filter) cursor(p place) (store.Cursor, error) {
	p.Sum = f.sum()
	b, err := json.Marshal(p)
	return store.Cursor(base64.RawURLEncoding.EncodeToString(b)), err
}

func openCursor(f *Filter, c store.Cursor) (place, error) {
	var p place
	if c == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(string(c))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	rope := p.Branch != "" && p.In != "" && p.Pos > 0 && p.Seq == 0
	switch {
	case err != nil, p.Block < 0, !rope && (p.Seq == 0 || p.Branch != ""):
		return p, badCursor("it is damaged")
	case p.Sum != f.sum():
		return p, badCursor("it belongs to another query")
	}
	return p, nil
}

func badCursor(why string) error {
	return fault.New(fault.Invalid, "cursor_invalid", "the cursor cannot be used: %s", why).
		With("start again without a cursor")
}
