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

// canonical returns arguments in their canonical form, with secrets hidden. A secret outside
// of a string, such as a number, cannot be hidden; such arguments are refused (args_secret).
func (e *Engine) canonical(raw []byte) ([]byte, error) {
	args, err := tool.Canonical(raw)
	if err != nil {
		return nil, err
	}
	masked := e.mask(string(args))
	if masked == string(args) {
		return args, nil
	}
	if args, err = tool.Canonical([]byte(masked)); err != nil {
		return nil, fault.New(fault.Denied, "args_secret", "the arguments hold a secret").WithHint("call the tool without it")
	}
	return args, nil
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

// hide hides the secrets in a result, whose blocks are Steward's own copies.
func (e *Engine) hide(res *message.ToolResult) *message.ToolResult {
	if e.opt.Mask == nil || res == nil {
		return res
	}
	for _, b := range res.Content {
		switch v := b.(type) {
		case *message.Text:
			v.Text = e.opt.Mask(v.Text)
		case *message.File:
			if data := []byte(e.opt.Mask(string(v.Data))); !bytes.Equal(data, v.Data) {
				v.Data = data
			}
		}
	}
	return res
}
