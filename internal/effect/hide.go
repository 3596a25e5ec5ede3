package effect

import (
	"bytes"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// mask hides the secrets in a text.
func (e *Engine) mask(text string) string {
	if e.opt.Mask == nil {
		return text
	}
	return e.opt.Mask(text)
}

// maskJSON hides the secrets in arguments. A secret outside of a string, such as a number,
// cannot be hidden; such arguments are refused (args_secret).
func (e *Engine) maskJSON(args []byte) ([]byte, error) {
	if e.opt.Mask == nil {
		return args, nil
	}
	text := string(args)
	masked := e.opt.Mask(text)
	if masked == text {
		return args, nil
	}
	again, err := tool.Canonical([]byte(masked))
	if err != nil {
		return nil, fault.New(fault.Denied, "args_secret", "the arguments hold a secret").WithHint("call the tool without it")
	}
	return again, nil
}

// masked returns the call with secrets hidden in its progress messages.
func (e *Engine) masked(c Call) Call {
	if e.opt.Mask == nil || c.Notify == nil {
		return c
	}
	tell := c.Notify
	c.Notify = func(p Progress) {
		p.Message = e.opt.Mask(p.Message)
		tell(p)
	}
	return c
}

// hide returns the result with its secrets hidden. A result without secrets is returned
// unchanged.
func (e *Engine) hide(res *message.ToolResult) *message.ToolResult {
	if e.opt.Mask == nil || res == nil {
		return res
	}
	var out *message.ToolResult
	for i, b := range res.Content {
		var other message.Block
		switch v := b.(type) {
		case *message.Text:
			if text := e.opt.Mask(v.Text); text != v.Text {
				t := *v
				t.Text, other = text, &t
			}
		case *message.File:
			if data := []byte(e.opt.Mask(string(v.Data))); !bytes.Equal(data, v.Data) {
				f := *v
				f.Data, other = data, &f
			}
		}
		if other == nil {
			continue
		}
		if out == nil {
			c := *res
			c.Content = append([]message.Block{}, res.Content...)
			out = &c
		}
		out.Content[i] = other
	}
	if out == nil {
		return res
	}
	return out
}
