package llm

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// A vendor refuses a whole request for the schema of one tool. leftOut are the tools that a model's server has
// refused so; they are not sent to it again. It is safe for concurrent use.
type leftOut struct {
	mu    sync.Mutex
	tools map[string]bool // by name and schema; bounded
	from  *Toolset        // the last set that was reduced, and what it became
	to    *Toolset
}

// maxLeftOut bounds how many tools are left out of one request.
const maxLeftOut = 16

func keyOf(s tool.Spec) string { return s.Name + "\x00" + string(s.Input) }

// reduce returns a set without the tools that are left out.
func (l *leftOut) reduce(set *Toolset) *Toolset {
	l.mu.Lock()
	defer l.mu.Unlock()
	specs := set.Specs()
	out := func(s tool.Spec) bool { return l.tools[keyOf(s)] }
	switch {
	case len(l.tools) == 0 || !slices.ContainsFunc(specs, out):
		return set
	case l.from != set:
		l.from, l.to = set, NewToolset(slices.DeleteFunc(slices.Clone(specs), out)...)
	}
	return l.to
}

func (l *leftOut) add(s tool.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tools == nil || len(l.tools) >= maxDirect {
		l.tools = map[string]bool{}
	}
	l.tools[keyOf(s)], l.from = true, nil
}

var (
	// aboutTools match refusals that can be of a tool's schema.
	aboutTools = regexp.MustCompile(`(?i)tool|function|schema|propert|parameters|items`)
	// toolPlace is the place of a tool in the words of the vendors: tools.3.custom.input_schema, tools[3].function,
	// tools[0].function_declarations[3].
	toolPlace = regexp.MustCompile(`(?i)(?:function_?declarations|tools)[.\[](\d+)`)
)

// refusedTool returns the tool whose schema a request was refused for, if that is the reason: the one that the
// refusal names or, if it names none, the one that is found by asking with fewer.
func (m *adapted) refusedTool(ctx context.Context, r *Request, err error) (tool.Spec, bool) {
	specs := r.Tools.Specs()
	text := fault.Of(err).Message
	if len(specs) == 0 || !fault.HasCode(err, "request_refused") && !fault.HasCode(err, "schema_unsupported") || !aboutTools.MatchString(text) {
		return tool.Spec{}, false
	}
	named := namedTool(specs, text)
	suspects := specs
	if named >= 0 {
		suspects = specs[named : named+1]
	}
	// The refusal may be of something else: the request of the tools alone must be refused, too.
	if !m.refuses(ctx, r, suspects) {
		return tool.Spec{}, false
	}
	for len(suspects) > 1 {
		if half := suspects[:len(suspects)/2]; m.refuses(ctx, r, half) {
			suspects = half
		} else {
			suspects = suspects[len(half):]
		}
	}
	return suspects[0], ctx.Err() == nil
}

// namedTool returns the index of the tool that a refusal names, or -1.
func namedTool(specs []tool.Spec, text string) int {
	best, longest := -1, 0
	for i, s := range specs {
		for _, name := range []string{s.Name, tool.WireName(s.Name)} {
			at := strings.Index(text, name)
			if at >= 0 && len(name) > longest && !wordAt(text, at-1) && !wordAt(text, at+len(name)) {
				best, longest = i, len(name)
			}
		}
	}
	if best >= 0 {
		return best
	}
	places := toolPlace.FindAllStringSubmatch(text, -1)
	if len(places) == 0 {
		return -1
	}
	n, err := strconv.Atoi(places[len(places)-1][1])
	if err != nil || n >= len(specs) {
		return -1
	}
	return n
}

// wordAt reports whether a name may go on at a place of a text.
func wordAt(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	c := text[at]
	return c == '_' || c == '-' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// refuses reports whether a small request with the tools is refused, on behalf of another request. It is left
// as soon as the answer begins.
func (m *adapted) refuses(ctx context.Context, asked *Request, specs []tool.Spec) bool {
	r := &Request{Tools: NewToolset(specs...), Sampling: Sampling{MaxTokens: minOutput}, User: asked.User, Meter: asked.Meter,
		Transcript: NewTranscript(&message.Message{ID: id.New(), Role: message.User, Blocks: []message.Block{&message.Text{Text: "Hello"}}})}
	for ev, err := range m.next.Stream(ctx, r) {
		if err != nil {
			return fault.HasCode(err, "request_refused") || fault.HasCode(err, "schema_unsupported")
		}
		if ev.Kind != Notice {
			return false
		}
	}
	return false
}
