package settings

import (
	"cmp"
	"fmt"
	"slices"
)

// The dialects of clouds that offer models of others.
const (
	Vertex       = "vertex"        // Gemini on Google's Vertex AI
	VertexClaude = "vertex-claude" // Claude there
	Bedrock      = "bedrock"       // Claude on Amazon's Bedrock
)

// cloud fills in what a provider in a cloud leaves to its dialect. It returns what is wrong, or "".
func (l *loading) cloud(p *Provider) string {
	switch p.Dialect {
	case Bedrock:
		p.Region = cmp.Or(p.Region, l.env["AWS_REGION"], l.env["AWS_DEFAULT_REGION"], "us-east-1")
		p.BaseURL = cmp.Or(p.BaseURL, "https://bedrock-runtime."+p.Region+".amazonaws.com/anthropic")
		if p.Key == "" && p.KeyEnv == "" && p.KeyFile == "" {
			return "needs a Bedrock API key: set AWS_BEARER_TOKEN_BEDROCK, or key; AWS's access keys are not used"
		}
		return ""
	case Vertex, VertexClaude:
	default:
		return ""
	}
	p.Region = cmp.Or(p.Region, "global")
	p.Project = cmp.Or(p.Project, l.env["GOOGLE_CLOUD_PROJECT"])
	if p.Project == "" {
		return "needs a project: the Google Cloud project to bill"
	}
	host := p.Region + "-aiplatform.googleapis.com"
	switch p.Region {
	case "global":
		host = "aiplatform.googleapis.com"
	case "us", "eu":
		host = "aiplatform." + p.Region + ".rep.googleapis.com"
	}
	publisher := map[string]string{Vertex: "google", VertexClaude: "anthropic"}[p.Dialect]
	p.BaseURL = cmp.Or(p.BaseURL, "https://"+host) + "/v1/projects/" + p.Project + "/locations/" + p.Region + "/publishers/" + publisher
	return ""
}

// checkProviderTools returns what is wrong with the tools of a provider, or "".
func checkProviderTools(name string, p Provider) string {
	has := []string{"web_search", "code_interpreter", "file_search"}
	switch {
	case name == "anthropic":
		has = []string{"web_search", "web_fetch", "code_execution"}
	case name == "gemini":
		has = []string{"google_search", "url_context", "code_execution"}
	case slices.Contains([]string{Vertex, VertexClaude, Bedrock}, p.Dialect):
		has = nil
	}
	for _, t := range p.Tools {
		if !slices.Contains(has, t) {
			return fmt.Sprintf("has no built-in tool %q; its tools are %v", t, has)
		}
	}
	return ""
}
