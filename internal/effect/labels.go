package effect

import (
	"strings"

	"steward/internal/message"
	"steward/internal/tool"
)

// shown returns the labels of all that a call was shown, which its result has
// whether it tells of it or not. What an agent had read that did not end in
// time is not known: the worst is assumed.
func (j *job) shown(res tool.Result, how end) message.Labels {
	if how.abandoned && strings.HasPrefix(j.spec.Origin, "agent:") {
		return j.spec.Yields | message.Private | message.Untrusted
	}
	return j.spec.Yields | res.Labels
}

// labelled puts labels on a result and all that it holds.
func labelled(res *message.ToolResult, labels message.Labels) {
	res.Labels |= labels
	for _, b := range res.Content {
		b.Base().Labels |= labels
	}
}

// sources returns whose private data a result may hold; nil: it is not known,
// or none are private.
func (j *job) sources(res tool.Result) []string {
	own := j.spec.Source()
	extra := res.Labels
	for _, b := range res.Content {
		if b != nil { // what a result cannot hold is left out
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
