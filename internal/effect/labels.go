package effect

import (
	"strings"

	"steward/internal/message"
	"steward/internal/tool"
)

// shown returns the labels of everything a call was shown. The result carries them whether
// it quotes that content or not. It is unknown what an agent that did not end in time had
// read, so the worst case is assumed.
func (j *job) shown(res tool.Result, how end) message.Labels {
	if how.abandoned && strings.HasPrefix(j.spec.Origin, "agent:") {
		return j.spec.Yields | message.Private | message.Untrusted
	}
	return j.spec.Yields | res.Labels
}

// labelled adds labels to a result and to all of its content.
func labelled(res *message.ToolResult, labels message.Labels) {
	res.Labels |= labels
	for _, b := range res.Content {
		b.Base().Labels |= labels
	}
}

// sources returns whose private data a result may hold. Nil means that this is unknown, or
// that nothing in it is private.
func (j *job) sources(res tool.Result) []string {
	own := j.spec.Source()
	extra := res.Labels
	for _, b := range res.Content {
		if b != nil { // blocks that a result cannot hold are left out
			extra |= b.Base().Labels
		}
	}
	switch extra &^= j.spec.Yields; {
	case own == "" || extra.Has(message.Private):
		return res.Sources
	case !j.spec.Yields.Has(message.Private):
		return nil
	}
	return []string{own}
}
