package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/cloud"
	"steward/internal/provider/wire"
)

// Vendor describes Anthropic, and the clouds that offer its models.
func Vendor() llm.Vendor {
	return llm.Vendor{
		Name: "anthropic", Title: "Anthropic", Access: llm.ByKey,
		BaseURL: DefaultBaseURL, URLEnv: "ANTHROPIC_BASE_URL", KeyEnv: []string{"ANTHROPIC_API_KEY"}, KeyPrefixes: []string{"sk-ant-"},
		Presets:   llm.Presets{Standard: "claude-sonnet-5", Fast: "claude-haiku-4-5", Strong: "claude-opus-5"},
		Documents: []string{"application/pdf"},
		Tools:     []string{"web_search", "web_fetch", "code_execution"},
		Formats: []llm.Format{{Name: "anthropic", Codec: New(Options{}).Codec(""), List: "messages", Answers: [][]string{{"message"}},
			System: "system", EncodeSystem: encodeSystem}},
		Servers: []llm.Vendor{vertex(), bedrock()},
		Open: func(e llm.Endpoint) llm.Provider {
			o := options(e)
			o.Tools = e.Tools
			return New(o)
		},
	}
}

func options(e llm.Endpoint) Options {
	return Options{Name: e.Name, BaseURL: e.BaseURL, Key: e.Key, HTTP: e.HTTP, FirstByte: e.FirstByte, Idle: e.Idle}
}

// encodeSystem writes one text as a string, and several as blocks.
func encodeSystem(texts []string) json.RawMessage {
	if len(texts) == 1 {
		return wire.Append(nil, `$`, texts[0])
	}
	list := []byte(`[`)
	for _, t := range texts {
		list = wire.Append(wire.Comma(list), `{"type":"text","text":$}`, t)
	}
	return append(list, ']')
}

// vertex is Claude on Google's Vertex AI.
//
// Source: https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai, read 2026-11-26.
func vertex() llm.Vendor {
	presets := llm.Presets{Standard: "claude-sonnet-4-6", Fast: "claude-haiku-4-5@20251001", Strong: "claude-opus-4-6"}
	return llm.Vendor{
		Name: "vertex-claude", Title: "Claude on Vertex AI", Traced: "gcp.vertex_ai", Access: llm.ByServer,
		Locate: cloud.Vertex("anthropic"), SignIn: cloud.Sign, Presets: presets,
		Open: func(e llm.Endpoint) llm.Provider {
			o := options(e)
			o.Key = "" // SignIn has it
			o.Head = `"anthropic_version":"vertex-2023-10-16","stream":true`
			o.Path = func(model string) string { return "/models/" + model + ":streamRawPredict" }
			o.List = presets.List(e.Model)
			return New(o)
		},
	}
}

// bedrock is Claude on Amazon's Bedrock.
//
// Source: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html, read 2026-11-27.
func bedrock() llm.Vendor {
	return llm.Vendor{
		Name: "bedrock", Title: "Claude on Amazon Bedrock", Traced: "aws.bedrock", Access: llm.ByServer, KeyEnv: []string{"AWS_BEARER_TOKEN_BEDROCK"},
		Locate: func(at llm.Site, getenv func(string) string) (llm.Site, error) {
			at.Region = cmp.Or(at.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), "us-east-1")
			at.BaseURL = cmp.Or(at.BaseURL, "https://bedrock-runtime."+at.Region+".amazonaws.com/anthropic")
			if !at.Key {
				return at, errors.New("needs a Bedrock API key: set AWS_BEARER_TOKEN_BEDROCK, or key; AWS's access keys are not used")
			}
			return at, nil
		},
		Open: func(e llm.Endpoint) llm.Provider {
			o := options(e)
			o.List = profiles(e)
			return New(o)
		},
	}
}

// profiles lists the inference profiles of Claude that a region has.
//
// Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListInferenceProfiles.html.
func profiles(e llm.Endpoint) func(context.Context) ([]llm.Info, error) {
	base := strings.TrimSuffix(strings.Replace(e.BaseURL, "://bedrock-runtime.", "://bedrock.", 1), "/anthropic")
	control := wire.New(wire.Options{Name: e.Name, HTTP: e.HTTP, BaseURL: base,
		Header: http.Header{"Authorization": {"Bearer " + e.Key}}, Secrets: []string{e.Key}})
	return func(ctx context.Context) (list []llm.Info, err error) {
		text, err := control.Get(ctx, "/inference-profiles?maxResults=1000")
		if err != nil {
			return nil, err
		}
		var page struct {
			Profiles []struct {
				ID      string    `json:"inferenceProfileId"`
				Created time.Time `json:"createdAt"`
			} `json:"inferenceProfileSummaries"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fault.New(fault.Unavailable, "provider_error", "%s: the list of models is not what the API documents: %w", e.Name, err)
		}
		for _, x := range page.Profiles {
			if strings.Contains(x.ID, "anthropic.claude") {
				list = append(list, llm.Info{Name: x.ID, Created: x.Created})
			}
		}
		return list, nil
	}
}
