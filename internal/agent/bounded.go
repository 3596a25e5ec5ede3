package agent

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// Bounds of a reply as it is kept. A provider bounds what may come; these bound what is stored and what the
// model is shown in every later request, so that one reply cannot fill the context window for good.
const (
	maxArgs    = 512 << 10 // bytes of a call's arguments
	maxNesting = 128       // levels of a call's arguments
	maxName    = 128       // bytes of a tool's name
	maxTexts   = 256       // blocks, above which adjacent texts become one
)

// bounded returns the blocks of a reply as they are kept: of the calls beyond the limit only the first, whose
// result says that the others were left out; arguments that are too long or nested too deep as a note in their
// place; and many adjacent texts as one.
func bounded(blocks []message.Block, most int) []message.Block {
	out := make([]message.Block, 0, len(blocks))
	calls := 0
	for _, b := range blocks {
		if call, ok := b.(*message.ToolCall); ok {
			if calls++; calls > most+1 {
				continue
			}
			boundCall(call)
		}
		out = append(out, b)
	}
	if len(out) > maxTexts {
		out = joined(out)
	}
	return out
}

// boundCall bounds one call.
func boundCall(c *message.ToolCall) {
	if len(c.Name) > maxName {
		c.Name = strings.ToValidUTF8(c.Name[:maxName], "")
	}
	why := ""
	switch {
	case len(c.Args) > maxArgs:
		why = fmt.Sprintf("the call's arguments have %d bytes, and at most %d are taken. Send less at once", len(c.Args), maxArgs)
	case isTooDeep(c.Args):
		why = fmt.Sprintf("the call's arguments are nested more than %d levels deep. Nest them less", maxNesting)
	default:
		return
	}
	c.Args, c.Meta, c.Unknown = []byte(leftOutMark+why+"."), message.Meta{}, nil
}

// leftOutMark begins what stands in place of arguments that are not kept. It is no JSON, so that nothing can
// take it for arguments.
const leftOutMark = "(left out) "

// omittedArgs returns why a call's arguments were not kept, if they were not.
func omittedArgs(args []byte) (why string, out bool) {
	return strings.CutPrefix(string(args[:min(len(args), 1<<10)]), leftOutMark)
}

// isTooDeep reports whether JSON is nested too deep. For what is no JSON, its beginning counts.
func isTooDeep(args []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(args), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
		if dec.StackDepth() > maxNesting {
			return true
		}
	}
}

// joined makes adjacent texts without anything beside them one text.
func joined(blocks []message.Block) []message.Block {
	var out []message.Block
	var last *message.Text // the text that is being joined
	var text strings.Builder
	end := func() {
		if last != nil {
			last.Text = text.String()
		}
	}
	for _, b := range blocks {
		t, ok := b.(*message.Text)
		if plain := ok && len(t.Meta.Fields) == 0 && len(t.Unknown) == 0 && len(t.Citations) == 0; !plain {
			end()
			last, out = nil, append(out, b)
			continue
		}
		if last == nil {
			c := *t
			last, out = &c, append(out, &c)
			text.Reset()
		}
		text.WriteString(t.Text)
	}
	end()
	return out
}
