package settings

import (
	"fmt"
	"slices"

	"steward/internal/llm"
)

// cloud completes where a provider in a cloud is. It returns what is wrong, or "".
func (l *loading) cloud(p *Provider, v llm.Vendor) string {
	if v.Locate == nil {
		return ""
	}
	at, err := v.Locate(llm.Site{BaseURL: p.BaseURL, Project: p.Project, Region: p.Region, Key: p.Key != "" || p.KeyEnv != "" || p.KeyFile != ""},
		func(name string) string { return l.env[name] })
	if err != nil {
		return err.Error()
	}
	p.BaseURL, p.Project, p.Region = at.BaseURL, at.Project, at.Region
	return ""
}

// checkProviderTools returns what is wrong with the tools of a provider, or "".
func checkProviderTools(p Provider, v llm.Vendor) string {
	for _, t := range p.Tools {
		if !slices.Contains(v.Tools, t) {
			return fmt.Sprintf("has no built-in tool %q; its tools are %v", t, v.Tools)
		}
	}
	return ""
}
