package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// maxData bounds the images and files of a result, maxRest the stored text of a result
// that was cut; in bytes. maxParts bounds its parts, each of which costs memory however short it is.
const (
	maxData = 8 << 20
	maxRest = 16 << 20

	maxParts = 256
)

// result builds a result in Steward's own words.
func (c *Call) result(status message.Status, text string) *message.ToolResult {
	own := message.Common{Origin: "system"}
	return &message.ToolResult{Common: own, Call: c.Ref, Name: c.Name, Status: status,
		Content: []message.Block{&message.Text{Common: own, Text: strings.ToValidUTF8(text, "\uFFFD")}}}
}

// interrupted returns the result of a call that was stopped before it was done.
func (c *Call) interrupted() *message.ToolResult {
	return c.result(message.Interrupted, "Stopped before it was done.")
}

func (c *Call) failed(err error) *message.ToolResult { return c.result(message.Failed, explained(err)) }

func (c *Call) denied(reason string) *message.ToolResult {
	if reason == "" {
		reason = "policy does not allow it"
	}
	return c.result(message.DeniedCall, "Denied, nothing was done: "+reason)
}

// expired returns the result of an action whose question expired.
func (c *Call) expired() *message.ToolResult {
	return c.result(message.DeniedCall, "Not done: the approval request expired without an answer.")
}

// unknown returns the result of a call of a tool that does not exist.
func (c *Call) unknown() *message.ToolResult {
	name := c.Name
	if len(name) > 80 {
		name = cut(name, 80) + "…"
	}
	if c.Waits != "" {
		return c.result(message.Failed, fmt.Sprintf("%s waits for the user's approval: steward agents approve %s", name, c.Waits))
	}
	text := fmt.Sprintf("There is no tool named %q.", name)
	if near := tool.SimilarNames(c.Name, c.Near, 3); len(near) > 0 {
		text += " Did you mean " + strings.Join(near, " or ") + "?"
	} else if len(c.Near) > 0 && len(c.Near) <= 40 {
		text += " There are: " + strings.Join(c.Near, ", ") + "."
	} else {
		text += " Use one of the tools that you were given, or answer without."
	}
	return c.result(message.Failed, text)
}

// shaped is a result as the model receives it, and the text that did not fit.
type shaped struct {
	res  *message.ToolResult
	rest string // the whole text, if the cap cut it

	retryable bool // it failed for a reason that may pass
}

// outcome builds the result of a call that has ended.
func (j *toolCall) outcome(res tool.Result, how end) shaped {
	status, shown, sources := message.OK, j.shown(res, how), j.sources(res)
	switch {
	case how.err != nil:
		res = tool.Text(explained(how.err))
		status = message.Failed
		if fault.Is(how.err, fault.Unavailable) {
			status = message.Unavailable
		}
	case res.Stopped:
		status = message.Interrupted
	case res.Failed:
		status = message.Failed
	}
	s := shaped{res: &message.ToolResult{Call: j.c.Ref, Name: j.c.Name, Status: status, Denied: res.Denied}, retryable: isTemporary(how.err)}
	if content, met := j.withMasks(res.Content); met {
		s.res.Origin = "tool:" + j.spec.Name
		if s.res.Content, s.rest = j.content(content); s.rest != "" {
			s.res.Rest = j.restURI().String()
		}
		s.res.Labels = message.LabelsOf(s.res.Content)
	} else {
		j.withhold(s.res, message.LabelsOf(res.Content))
	}
	labelled(s.res, shown)
	s.res.Sources = sources
	return s
}

// addObligations adds a decision's obligations to those that the result must meet. The
// obligations of all decisions about the call accumulate.
func (j *toolCall) addObligations(o policy.Obligations) {
	for _, p := range o.Mask {
		if !slices.Contains(j.obligations.Mask, p) {
			j.obligations.Mask = append(slices.Clip(j.obligations.Mask), p)
		}
	}
	if o.Cap > 0 && (j.obligations.Cap == 0 || o.Cap < j.obligations.Cap) {
		j.obligations.Cap = o.Cap
	}
}

// limit returns how many bytes of the result's text the model is shown.
func (j *toolCall) limit() int {
	n := j.spec.ResultCap
	if n == 0 {
		n = tool.DefaultResultCap
	}
	if j.obligations.Cap > 0 {
		n = min(n, j.obligations.Cap)
	}
	return n
}

// withMasks returns a result's content with the fields masked that policy hides. It returns
// false if the content is not of a form in which the fields can be found.
func (j *toolCall) withMasks(in []message.Block) ([]message.Block, bool) {
	if len(j.obligations.Mask) == 0 {
		return in, true
	}
	out := make([]message.Block, 0, len(in))
	for _, b := range in {
		t, ok := b.(*message.Text)
		if !ok {
			return nil, false
		}
		text, _, ok := policy.Mask(t.Text, j.obligations.Mask)
		if !ok {
			return nil, false
		}
		c := *t
		c.Text = text
		out = append(out, &c)
	}
	return out, true
}

// withhold makes a result that contains nothing of the tool's output, because policy wants
// fields of it masked that cannot be found.
func (j *toolCall) withhold(res *message.ToolResult, labels message.Labels) {
	wants := "policy requires masking (" + strings.Join(j.obligations.Mask, ", ") + "), but the result is not JSON"
	text := "The call ended; its result is withheld: " + wants + "."
	if j.spec.Effect == tool.Query {
		res.Status = message.DeniedCall
		text = "Denied, the result is withheld: " + wants + "."
	}
	b, c := j.note(text)
	c.Origin = "system"
	res.Origin, res.Labels, res.Content = "system", j.spec.Yields|labels, []message.Block{b}
}

// shown returns the labels of everything a call was shown. The result carries them whether
// it quotes that content or not. It is unknown what an agent that did not end in time had
// read, so the worst case is assumed.
func (j *toolCall) shown(res tool.Result, how end) message.Labels {
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
func (j *toolCall) sources(res tool.Result) []string {
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

// maxDetails bounds the error details that a model is shown, in bytes.
const maxDetails = 1000

// explained returns the text of a tool's error for the model: what happened and what to
// do. For a coded error a second line holds the facts that a program would get. It says
// whether a retry helps only for errors that the call itself did not cause.
func explained(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) || e.Code == "" {
		return err.Error()
	}
	facts := message.FactsMark + e.Code
	if e.Kind != fault.Invalid || e.Recoverable() {
		facts += fmt.Sprintf("; recoverable: %t; retry_strategy: %s", e.Recoverable(), strategy(e))
	}
	if len(e.Details) > 0 {
		if b, err := json.Marshal(e.Details); err == nil && len(b) <= maxDetails {
			facts += "; details: " + string(b)
		}
	}
	return err.Error() + "\n" + facts + "]"
}

// isTemporary reports whether the cause of an error may pass by itself.
func isTemporary(err error) bool {
	if err == nil {
		return false
	}
	switch e := fault.Of(err); e.Kind {
	case fault.Unavailable, fault.Timeout, fault.RateLimited, fault.Exhausted, fault.NoSpace:
		return true
	default:
		return e.Recoverable()
	}
}

func strategy(e *fault.Error) string {
	switch e.Retry {
	case "":
		return string(fault.RetryNone)
	case fault.RetryAfter:
		return fmt.Sprintf("%s %s", e.Retry, e.After.Round(time.Millisecond))
	}
	return string(e.Retry)
}

// content copies a tool's blocks, labels them with their origin, and cuts their text to
// the cap. whole is the complete text if it was cut, or empty.
func (j *toolCall) content(in []message.Block) (out []message.Block, whole string) {
	limit := j.limit()
	var texts []string
	data := 0
	for _, b := range joinTexts(in) {
		var c *message.Common
		switch v := b.(type) {
		case *message.Text:
			t := *v
			t.Text = j.e.mask(strings.ToValidUTF8(t.Text, "\uFFFD"))
			texts = append(texts, t.Text)
			b, c = &t, &t.Common
		case *message.Image:
			t := *v
			data += len(t.Data)
			b, c = &t, &t.Common
		case *message.File:
			t := *v
			data += len(t.Data)
			b, c = &t, &t.Common
		}
		if c == nil || !canHold(b) {
			b, c = j.note("[The tool returned something that a result cannot hold.]")
		}
		if data > maxData {
			b, c = j.note(fmt.Sprintf("[An image or a file was left out: a result holds at most %d MB of them.]", maxData>>20))
			data = 0
		}
		*c = message.Common{Origin: "tool:" + j.spec.Name, Labels: c.Labels | j.spec.Yields}
		out = append(out, b)
	}
	if len(out) == 0 {
		b, _ := j.note("(no output)")
		out = append(out, b)
	}
	if whole = strings.Join(texts, "\n"); len(whole) <= limit {
		return out, ""
	}
	if j.obligations.Cap > 0 && j.obligations.Cap <= limit { // policy's cap: the model may not read the rest
		return j.cap(out, whole, limit, "Policy does not allow reading more."), ""
	}
	return j.cap(out, whole, limit, fmt.Sprintf("Read on with %s: uri %q, offset %d.", ReadToolName, j.restURI().String(), len(cut(whole, limit)))), whole
}

// joinTexts joins the texts of a result that has too many parts, and leaves out what else is too many.
func joinTexts(in []message.Block) []message.Block {
	if len(in) <= maxParts {
		return in
	}
	joined, left := &message.Text{}, 0
	var text strings.Builder
	out := slices.Clone(in[:maxParts])
	for _, b := range in[maxParts:] {
		t, ok := b.(*message.Text)
		if b != nil {
			joined.Labels |= b.Base().Labels
		}
		if !ok {
			left++
			continue
		}
		text.WriteString(t.Text + "\n")
	}
	if left > 0 {
		fmt.Fprintf(&text, "[%d more images and files were left out.]", left)
	}
	joined.Text = text.String()
	return append(out, joined)
}

// canHold reports whether a message can hold the block.
func canHold(b message.Block) bool {
	if _, plain := b.(*message.Text); plain {
		return true
	}
	return message.Validate(&message.Message{ID: id.Derive("probe"), Role: message.User, Blocks: []message.Block{b}}) == nil
}

func (j *toolCall) note(text string) (message.Block, *message.Common) {
	t := &message.Text{Common: message.Common{Origin: "tool:" + j.spec.Name, Labels: j.spec.Yields}, Text: text}
	return t, &t.Common
}

// cap replaces the text blocks by a single one, which holds the beginning and says how to
// read on.
func (j *toolCall) cap(blocks []message.Block, whole string, limit int, more string) []message.Block {
	var labels message.Labels
	var out []message.Block
	at := -1
	for _, b := range blocks {
		if t, ok := b.(*message.Text); ok {
			labels |= t.Labels
			if at < 0 {
				at = len(out)
				out = append(out, nil)
			}
			continue
		}
		out = append(out, b)
	}
	shown := cut(whole, limit)
	b, c := j.note(fmt.Sprintf("%s\n[Cut after %d of %d bytes. %s]", shown, len(shown), len(whole), more))
	c.Labels |= labels
	out[at] = b
	return out
}

// cut returns the first n bytes of s, or a few less, so that no character is split.
func cut(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (j *toolCall) restURI() resource.URI {
	if at := j.intentURI(); isSuccessor(at) {
		return at.Child("tool.Overflow", "0")
	}
	return j.c.Message.Child("tool.Overflow", fmt.Sprint(j.c.Ref.Block))
}

// restHead is the first line of a tool.Overflow resource; the text follows.
type restHead struct {
	Tool    string         `json:"tool"`
	Labels  message.Labels `json:"labels,omitzero"`
	Sources []string       `json:"sources,omitzero"`
}

// keep returns the store change that keeps the whole text of a cut result.
func (j *toolCall) keep(s shaped) store.Change {
	head, err := json.Marshal(restHead{Tool: j.spec.Name, Labels: s.res.Labels, Sources: s.res.Sources})
	if err != nil {
		panic(err) // it holds only strings and a number
	}
	text := s.rest
	if len(text) > maxRest {
		text = cut(text, maxRest) + "\n[The rest was not stored.]"
	}
	return store.Change{Op: store.Put, URI: j.restURI(), Body: append(append(head, '\n'), text...)}
}

// keepRest stores the whole text of a cut result. A query's result is useful without it,
// so if the store refuses, the model is told instead.
func (j *toolCall) keepRest(ctx context.Context, s shaped) (*message.ToolResult, error) {
	if s.rest == "" {
		return s.res, nil
	}
	_, err := j.e.opt.Store.Commit(context.WithoutCancel(ctx), j.c.Scope,
		store.Batch{Request: j.c.Request.ID, Changes: []store.Change{j.keep(s)}})
	if err != nil {
		j.e.log.ErrorContext(ctx, "cannot store the rest of a long result", "tool", j.spec.Name, "error", err)
		s.res.Rest = ""
		b, _ := j.note("[The rest could not be stored: " + err.Error() + "]")
		s.res.Content = append(s.res.Content, b)
	}
	return s.res, nil
}

// encodeResult encodes a result as an intent stores it.
func encodeResult(res *message.ToolResult) []byte {
	return message.AppendBlocks(nil, []message.Block{res})
}

// DecodeResult decodes a tool result that is stored by itself (error code intent_broken).
func DecodeResult(b []byte) (*message.ToolResult, error) {
	blocks, err := message.DecodeBlocks(b)
	if err == nil && len(blocks) == 1 {
		if res, ok := blocks[0].(*message.ToolResult); ok {
			return res, nil
		}
	}
	return nil, fault.New(fault.Internal, "intent_broken", "a recorded result cannot be read: %w", errors.Join(err, errors.New("it is not one tool result")))
}
