package wire

import (
	"strings"
	"time"
)

// APIError is the content of an error's body, in any of the forms that vendors and compatible
// servers use: {"error":{…}}, alone or in a list, {"error":"…"} (Ollama, some proxies),
// {"object":"error","message":…} (old versions of vLLM), {"detail":…} (FastAPI).
type APIError struct {
	Message string
	Type    string        // Anthropic's, OpenAI's
	Code    string        // OpenAI's
	Number  int           // a code that is a status: Google's, OpenRouter's
	Param   string        // OpenAI's
	Status  string        // Google's
	Reason  string        // Google's, of the details
	After   time.Duration // Google's: when to try again
	Window  int           // llama.cpp: the model's window

	raw string // OpenRouter: what the server behind it said
}

// ReadAPIError reads as much of an error's body as possible. ok is false if the body is not JSON.
func ReadAPIError(body []byte) (e APIError, ok bool) {
	d := Decode(body)
	member := func(key []byte) {
		switch string(key) {
		case "error":
			e.Read(d)
		case "message", "detail", "msg", "error_msg":
			if e.Message == "" {
				e.Message = d.String()
			}
		case "code":
			if e.Code == "" && d.IsString() {
				e.Code = d.String()
			}
		}
	}
	if d.IsArray() {
		d.Array(func(int) { d.Object(member) })
	} else {
		d.Object(member)
	}
	return e, d.End() == nil
}

// Read reads the next value as an error.
func (e *APIError) Read(d *Decoder) {
	defer func() {
		if e.raw != "" && !strings.Contains(e.Message, e.raw) {
			e.Message += ": " + e.raw
		}
	}()
	if d.IsString() {
		e.Message = d.String()
		return
	}
	d.Object(func(key []byte) {
		switch string(key) {
		case "message":
			e.Message = d.String()
		case "type":
			e.Type = d.String()
		case "param":
			e.Param = d.String()
		case "status":
			e.Status = d.String()
		case "n_ctx":
			e.Window = int(d.Int())
		case "code":
			if d.IsString() {
				e.Code = d.String()
			} else {
				e.Number = int(d.Int())
			}
		case "metadata": // OpenRouter: what the server behind it said
			d.Object(func(key []byte) {
				if string(key) == "raw" {
					e.raw = d.String()
				}
			})
		case "details":
			d.Array(func(int) { d.Object(func(key []byte) { e.detail(d, string(key)) }) })
		}
	})
}

func (e *APIError) detail(d *Decoder, key string) {
	switch key {
	case "reason":
		e.Reason = d.String()
	case "retryDelay": // of a google.rpc.RetryInfo: "34.07s"
		if after, err := time.ParseDuration(d.String()); err == nil {
			e.After = after
		}
	}
}

// MessageContains reports whether the message contains one of the words, which must be lower case.
func (e *APIError) MessageContains(words ...string) bool {
	text := strings.ToLower(e.Message)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
