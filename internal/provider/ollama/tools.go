package ollama

import "context"

// TakesTools reports whether a model can call tools, as far as Ollama tells;
// one of which it tells nothing may.
func (p *Provider) TakesTools(ctx context.Context, model string) bool {
	f, err := p.show(ctx, model)
	return err == nil && (f.capabilities == nil || f.capabilities["tools"])
}
