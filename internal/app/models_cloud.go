package app

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/provider/anthropic"
	"steward/internal/provider/cloud"
	"steward/internal/provider/gemini"
	providerwire "steward/internal/provider/wire"
	"steward/internal/settings"
)

// cloudOf returns the client of a cloud that offers models of others. Requests to Google are signed
// last, after secrets were masked in them.
func (a *App) cloudOf(name string, p settings.Provider, t settings.Timeouts, client *http.Client) llm.Provider {
	if p.Dialect == settings.Bedrock {
		client = adding(client, p, "")
		return anthropic.New(anthropic.Options{Name: name, BaseURL: p.BaseURL, Key: p.Key.Reveal(), HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle,
			List: profiles(name, p, client)})
	}
	masking, _ := client.Transport.(discreet) // as modelClient makes it
	masking.RoundTripper = &cloud.Google{Base: masking.RoundTripper, Key: p.Key.Reveal(), Getenv: a.Getenv}
	signing := *client
	signing.Transport = masking
	client = adding(&signing, p, "")
	if p.Dialect == settings.Vertex {
		return gemini.New(gemini.Options{Name: name, BaseURL: p.BaseURL, HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle, List: presetsOf(name, p)})
	}
	return anthropic.New(anthropic.Options{Name: name, BaseURL: p.BaseURL, HTTP: client, FirstByte: t.FirstByte, Idle: t.Idle,
		Head: `"anthropic_version":"vertex-2023-10-16","stream":true`, List: presetsOf(name, p),
		Path: func(model string) string { return "/models/" + model + ":streamRawPredict" }})
}

// presetsOf lists the models that are known without asking: Vertex lists those of a project in no
// stable version of its API.
func presetsOf(name string, p settings.Provider) func(context.Context) ([]llm.Info, error) {
	known := settings.ServerNamed(name)
	return func(context.Context) (list []llm.Info, _ error) {
		for _, model := range []string{p.Model, known.Model, known.Fast, known.Strong} {
			if model != "" && !slices.ContainsFunc(list, func(i llm.Info) bool { return i.Name == model }) {
				list = append(list, llm.Info{Name: model})
			}
		}
		return list, nil
	}
}

// profiles lists the inference profiles of Claude that a region has.
//
// Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_ListInferenceProfiles.html.
func profiles(name string, p settings.Provider, client *http.Client) func(context.Context) ([]llm.Info, error) {
	base := strings.TrimSuffix(strings.Replace(p.BaseURL, "://bedrock-runtime.", "://bedrock.", 1), "/anthropic")
	control := providerwire.New(providerwire.Options{Name: name, HTTP: client, BaseURL: base,
		Header: http.Header{"Authorization": {"Bearer " + p.Key.Reveal()}}, Secrets: []string{p.Key.Reveal()}})
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
			return nil, fault.New(fault.Unavailable, "provider_error", "%s: the list of models is not what the API documents: %w", name, err)
		}
		for _, x := range page.Profiles {
			if strings.Contains(x.ID, "anthropic.claude") {
				list = append(list, llm.Info{Name: x.ID, Created: x.Created})
			}
		}
		return list, nil
	}
}
