package apis

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The request of generateContent and batchEmbedContents, as far as Steward may
// use it. What is not here is refused (https://ai.google.dev/api/generate-content).
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction *geminiContent  `json:"systemInstruction"`
	Tools             []struct {
		FunctionDeclarations []geminiDeclaration `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig *struct {
		FunctionCallingConfig struct {
			Mode                 string   `json:"mode"`
			AllowedFunctionNames []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	GenerationConfig struct {
		Temperature        *float64       `json:"temperature"`
		TopP               *float64       `json:"topP"`
		FrequencyPenalty   *float64       `json:"frequencyPenalty"`
		PresencePenalty    *float64       `json:"presencePenalty"`
		Seed               *int64         `json:"seed"`
		MaxOutputTokens    *int           `json:"maxOutputTokens"`
		StopSequences      []string       `json:"stopSequences"`
		ResponseMimeType   string         `json:"responseMimeType"`
		ResponseJSONSchema jsontext.Value `json:"responseJsonSchema"`
		ThinkingConfig     *struct {
			IncludeThoughts bool   `json:"includeThoughts"`
			ThinkingBudget  *int   `json:"thinkingBudget"`
			ThinkingLevel   string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`

	Requests []struct { // of batchEmbedContents
		Model   string        `json:"model"`
		Content geminiContent `json:"content"`
	} `json:"requests"`
}

type geminiDeclaration struct {
	Name                 string         `json:"name"`
	Description          string         `json:"description"`
	ParametersJSONSchema jsontext.Value `json:"parametersJsonSchema"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text             *string           `json:"text"`
	Thought          bool              `json:"thought"`
	ThoughtSignature []byte            `json:"thoughtSignature"`
	InlineData       *geminiBlob       `json:"inlineData"`
	FileData         *geminiFile       `json:"fileData"`
	FunctionCall     *geminiCall       `json:"functionCall"`
	FunctionResponse *geminiCallResult `json:"functionResponse"`
}

type geminiBlob struct {
	MimeType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type geminiFile struct {
	MimeType string `json:"mimeType"`
	FileURI  string `json:"fileUri"`
}

type geminiCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args jsontext.Value `json:"args"`
}

type geminiCallResult struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Response jsontext.Value `json:"response"`
	Parts    []struct {
		InlineData *geminiBlob `json:"inlineData"`
	} `json:"parts"`
}

// CheckGemini holds a request's body against Google's published rules on
// order, pairing, names and settings: those of all models.
func CheckGemini(body []byte) error {
	_, err := checkGemini(body)
	return err
}

// CheckGemini3 adds the rule of Gemini 3 and later on thought signatures: in
// the current turn, the first call of each step carries one
// (https://ai.google.dev/gemini-api/docs/thought-signatures).
func CheckGemini3(body []byte) error {
	r, err := checkGemini(body)
	if err != nil {
		return err
	}
	for i := len(r.Contents) - 1; i >= 0; i-- {
		c := r.Contents[i]
		if c.Role == "user" && slices.ContainsFunc(c.Parts, func(p geminiPart) bool { return p.FunctionResponse == nil }) {
			return nil // here the current turn begins
		}
		first := slices.IndexFunc(c.Parts, func(p geminiPart) bool { return p.FunctionCall != nil })
		if first >= 0 && len(c.Parts[first].ThoughtSignature) == 0 {
			return fmt.Errorf("function call %s in the %d. content block is missing a thought_signature", c.Parts[first].FunctionCall.Name, i)
		}
	}
	return nil
}

func checkGemini(body []byte) (*geminiRequest, error) {
	r := &geminiRequest{}
	if err := json.Unmarshal(body, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if r.Requests != nil {
		return r, r.embedding()
	}
	for _, check := range []func() error{r.contents, r.pairing, r.tools, r.config} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *geminiRequest) embedding() error {
	if len(r.Requests) == 0 || len(r.Requests) > 100 {
		return fmt.Errorf("a batch of %d texts", len(r.Requests))
	}
	for _, q := range r.Requests {
		if !strings.Contains(q.Model, "/") {
			return fmt.Errorf("model %q is not of the form models/NAME", q.Model)
		}
		if len(q.Content.Parts) == 0 {
			return errors.New("a content without parts")
		}
	}
	return nil
}

// contents: a multi-turn request begins and ends with the user's turn, and has
// no empty content and no empty part.
func (r *geminiRequest) contents() error {
	n := len(r.Contents)
	if n == 0 {
		return errors.New("contents is not specified")
	}
	if r.Contents[0].Role != "user" || r.Contents[n-1].Role != "user" {
		return errors.New("contents must begin and end with a turn of the user's")
	}
	all := r.Contents
	if s := r.SystemInstruction; s != nil {
		if len(s.Parts) == 0 || s.Parts[0].Text == nil || *s.Parts[0].Text == "" {
			return errors.New("systemInstruction has no text")
		}
	}
	for i, c := range all {
		if c.Role != "user" && c.Role != "model" {
			return fmt.Errorf("content %d: role %q: valid are user and model", i, c.Role)
		}
		if len(c.Parts) == 0 {
			return fmt.Errorf("content %d has no parts", i)
		}
		for j, p := range c.Parts {
			if err := p.check(c.Role); err != nil {
				return fmt.Errorf("content %d, part %d: %w", i, j, err)
			}
		}
	}
	return nil
}

var geminiName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]{0,63}$`)

// geminiTypes are what Gemini reads inline, beside audio/ and video/.
var geminiTypes = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain"}

func geminiReads(mime string) bool {
	return slices.Contains(geminiTypes, mime) || strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

func (p geminiPart) check(role string) error {
	kinds := 0
	for _, there := range []bool{p.Text != nil, p.InlineData != nil, p.FileData != nil, p.FunctionCall != nil, p.FunctionResponse != nil} {
		if there {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("the oneof field data must have one value, has %d", kinds)
	case role == "user" && (p.Thought || p.ThoughtSignature != nil || p.FunctionCall != nil):
		return errors.New("a user's part has what only a model's may have")
	case role == "model" && p.FunctionResponse != nil:
		return errors.New("a function response in a turn of the model's")
	case p.Text != nil && *p.Text == "" && p.ThoughtSignature == nil:
		return errors.New("an empty text")
	case p.InlineData != nil && (len(p.InlineData.Data) == 0 || !geminiReads(p.InlineData.MimeType)):
		return fmt.Errorf("unsupported inline data of type %q", p.InlineData.MimeType)
	case p.FileData != nil && (p.FileData.FileURI == "" || p.FileData.MimeType != "" && !geminiReads(p.FileData.MimeType)):
		return fmt.Errorf("unsupported file %q of type %q", p.FileData.FileURI, p.FileData.MimeType)
	}
	if c := p.FunctionCall; c != nil {
		if !geminiName.MatchString(c.Name) || c.Args.Kind() != '{' {
			return fmt.Errorf("the call of %q with %s: a name of letters, and an object are needed", c.Name, c.Args)
		}
	}
	if f := p.FunctionResponse; f != nil {
		if !geminiName.MatchString(f.Name) || f.Response.Kind() != '{' {
			return fmt.Errorf("the response of %q: a name of letters, and an object are needed", f.Name)
		}
		for _, part := range f.Parts {
			if part.InlineData == nil || !slices.Contains(geminiTypes[:3], part.InlineData.MimeType) && part.InlineData.MimeType != "application/pdf" && part.InlineData.MimeType != "text/plain" {
				return errors.New("a function response takes png, jpeg, webp, pdf and plain text only")
			}
		}
	}
	return nil
}

// pairing: a turn with calls comes right after a turn of the user's, and right
// before one that has as many responses, of the same names in the same order,
// and the same ids, and nothing else.
func (r *geminiRequest) pairing() error {
	var open []geminiCall
	for i, c := range r.Contents {
		var calls []geminiCall
		var results []geminiCallResult
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls = append(calls, *p.FunctionCall)
			}
			if p.FunctionResponse != nil {
				results = append(results, *p.FunctionResponse)
			}
		}
		if len(calls) > 0 && r.Contents[i-1].Role != "user" {
			return fmt.Errorf("content %d: a function call turn comes immediately after a user turn or a function response turn", i)
		}
		if len(results) != len(open) || len(results) > 0 && len(results) != len(c.Parts) {
			return fmt.Errorf("content %d: the number of function response parts (%d of %d parts) is not that of the function call parts (%d)", i, len(results), len(c.Parts), len(open))
		}
		for j, res := range results {
			if res.Name != open[j].Name || res.ID != open[j].ID {
				return fmt.Errorf("content %d: response %q %q answers call %q %q", i, res.Name, res.ID, open[j].Name, open[j].ID)
			}
		}
		open = calls
	}
	return nil
}

func (r *geminiRequest) tools() error {
	names := map[string]bool{}
	for _, t := range r.Tools {
		if len(t.FunctionDeclarations) == 0 {
			return errors.New("a tool without function declarations")
		}
		for _, d := range t.FunctionDeclarations {
			if !geminiName.MatchString(d.Name) || names[d.Name] {
				return fmt.Errorf("function name %q is invalid or declared twice", d.Name)
			}
			names[d.Name] = true
			if d.ParametersJSONSchema != nil {
				if err := geminiSchema(d.ParametersJSONSchema); err != nil {
					return fmt.Errorf("%s: %w", d.Name, err)
				}
			}
		}
	}
	if r.ToolConfig == nil {
		return nil
	}
	f := r.ToolConfig.FunctionCallingConfig
	switch {
	case len(names) == 0:
		return errors.New("function calling config is set without function declarations")
	case f.Mode != "AUTO" && f.Mode != "ANY" && f.Mode != "NONE":
		return fmt.Errorf("function calling mode %q", f.Mode)
	case f.AllowedFunctionNames != nil && f.Mode != "ANY":
		return errors.New("allowed_function_names should be set only when the mode is ANY")
	}
	for _, n := range f.AllowedFunctionNames {
		if !names[n] {
			return fmt.Errorf("allowed_function_names has %q, which is not declared", n)
		}
	}
	return nil
}

// geminiSchema: an object schema in which nothing stands beside a $ref.
func geminiSchema(raw jsontext.Value) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("the schema is no object")
	}
	if _, ref := m["$ref"]; !ref && m["type"] != "object" {
		return errors.New("the schema is not that of an object")
	}
	return geminiRefs(v)
}

func geminiRefs(v any) error {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := geminiRefs(e); err != nil {
				return err
			}
		}
	case map[string]any:
		_, ref := v["$ref"].(string)
		for k, e := range v {
			if ref && !strings.HasPrefix(k, "$") {
				return fmt.Errorf("%q stands beside a $ref", k)
			}
			if err := geminiRefs(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *geminiRequest) config() error {
	g := r.GenerationConfig
	switch {
	case g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 2):
		return errors.New("temperature must be in the range [0.0, 2.0]")
	case g.TopP != nil && (*g.TopP < 0 || *g.TopP > 1):
		return errors.New("top_p must be in the range [0.0, 1.0]")
	case g.MaxOutputTokens != nil && *g.MaxOutputTokens < 1:
		return errors.New("max_output_tokens must be positive")
	case len(g.StopSequences) > 5 || slices.Contains(g.StopSequences, ""):
		return errors.New("at most 5 stop sequences, none empty")
	case g.ResponseMimeType != "" && g.ResponseMimeType != "application/json":
		return fmt.Errorf("response_mime_type %q", g.ResponseMimeType)
	case g.ResponseJSONSchema != nil && g.ResponseMimeType != "application/json":
		return errors.New("a response schema needs the response mime type application/json")
	}
	if g.ResponseJSONSchema != nil {
		if err := geminiSchema(g.ResponseJSONSchema); err != nil {
			return err
		}
	}
	if t := g.ThinkingConfig; t != nil {
		switch {
		case t.ThinkingBudget != nil && t.ThinkingLevel != "":
			return errors.New("thinking_budget and thinking_level are not supported together")
		case t.ThinkingBudget != nil && (*t.ThinkingBudget < -1 || *t.ThinkingBudget > 32768):
			return errors.New("the thinking budget is out of range")
		case !slices.Contains([]string{"", "MINIMAL", "LOW", "MEDIUM", "HIGH"}, t.ThinkingLevel):
			return fmt.Errorf("thinking level %q", t.ThinkingLevel)
		}
	}
	return nil
}
