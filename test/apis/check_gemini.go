package apis

import (
	"errors"
	"fmt"
	"slices"
)

type geminiCall struct{ ID, Name string }

type geminiRequest struct {
	Contents []struct {
		Role  string
		Parts []struct {
			FunctionCall, FunctionResponse *geminiCall
			ThoughtSignature               string
		}
	}
	Tools      []struct{ FunctionDeclarations []named }
	ToolConfig struct {
		FunctionCallingConfig struct{ AllowedFunctionNames []string }
	}
}

// CheckGemini checks a request's body against those of Google's published rules that hold for all
// models.
func CheckGemini(body []byte) error { return (&geminiRequest{}).check(body) }

// CheckGemini3 adds the rule of Gemini 3 and later about thought signatures: in the current turn, the
// first call of each step has one (https://ai.google.dev/gemini-api/docs/thought-signatures).
func CheckGemini3(body []byte) error {
	r := &geminiRequest{}
	if err := r.check(body); err != nil {
		return err
	}
	for i, c := range slices.Backward(r.Contents) {
		checked := false
		for _, p := range c.Parts {
			if c.Role == "user" && p.FunctionResponse == nil {
				return nil // start of the current turn
			}
			if p.FunctionCall != nil && !checked && p.ThoughtSignature == "" {
				return fmt.Errorf("function call %s in the %d. content block is missing a thought_signature", p.FunctionCall.Name, i)
			}
			checked = checked || p.FunctionCall != nil
		}
	}
	return nil
}

// check verifies that a turn with calls directly follows a turn of the user and
// directly precedes a turn that has only their responses, in the same order.
func (r *geminiRequest) check(body []byte) error {
	if err := read(geminiSchema(), body, r); err != nil {
		return err
	}
	var declared []string
	for _, t := range r.Tools {
		for _, d := range t.FunctionDeclarations {
			declared = append(declared, d.Name)
		}
	}
	tools, err := names(declared...)
	if err != nil {
		return err
	}
	for _, n := range r.ToolConfig.FunctionCallingConfig.AllowedFunctionNames {
		if !tools[n] {
			return fmt.Errorf("allowed_function_names has %q, which is not declared", n)
		}
	}
	var open []geminiCall
	for i, c := range r.Contents {
		var calls, results []geminiCall
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls = append(calls, *p.FunctionCall)
			}
			if p.FunctionResponse != nil {
				results = append(results, *p.FunctionResponse)
			}
		}
		switch {
		case len(calls) > 0 && r.Contents[i-1].Role != "user":
			return fmt.Errorf("content %d: a function call turn comes immediately after a user turn or a function response turn", i)
		case !slices.Equal(results, open) || len(results) > 0 && len(results) != len(c.Parts):
			return fmt.Errorf("content %d: the function responses %v (of %d parts) answer the calls %v", i, results, len(c.Parts), open)
		}
		open = calls
	}
	if n := len(r.Contents); n > 0 && r.Contents[n-1].Role != "user" {
		return errors.New("contents must begin and end with a turn of the user")
	}
	return nil
}
