package gemini

import (
	"net/http"
	"strings"
	"time"

	"steward/internal/provider/wire"
)

// explain reads Google's error JSON: {"error": {code, message, status,
// details}}, alone or in a list (https://ai.google.dev/gemini-api/docs/troubleshooting,
// details as in google/rpc/error_details.proto).
func explain(status int, body []byte) wire.Refusal {
	e := readError(body)
	r := wire.Refusal{Message: e.message, After: e.after}
	switch {
	case e.reason == "API_KEY_INVALID", e.status == "UNAUTHENTICATED", e.status == "PERMISSION_DENIED":
		r.Code = wire.CodeAuth
	case e.status == "RESOURCE_EXHAUSTED":
		r.Code = wire.CodeRate
	case e.status == "UNAVAILABLE":
		r.Code = wire.CodeOverloaded
	case e.status == "INTERNAL", e.status == "DEADLINE_EXCEEDED", e.status == "UNKNOWN":
		r.Code = wire.CodeProvider
	case e.status == "NOT_FOUND":
		r.Code = wire.CodeNoModel
	case status == http.StatusBadRequest:
		r.Code = codeOfMessage(strings.ToLower(e.message))
	}
	return r
}

// codeOfMessage tells refusals apart that Google marks INVALID_ARGUMENT alike.
func codeOfMessage(m string) string {
	has := func(s string) bool { return strings.Contains(m, s) }
	switch {
	case has("api key not valid"), has("api key expired"):
		return wire.CodeAuth
	case has("token count") && has("exceeds"):
		return wire.CodeContext
	case has("json mode is not enabled"), has("response mime type") && has("unsupported"):
		return wire.CodeNoSchema
	case has("function calling is not enabled"), has("tool use with function calling is unsupported"):
		return wire.CodeNoTools
	case has("image input modality is not enabled"):
		return wire.CodeNoImages
	}
	return "" // by the status
}

type apiError struct {
	code                    int
	message, status, reason string
	after                   time.Duration
}

func readError(body []byte) (e apiError) {
	d := wire.Decode(body)
	member := func(key []byte) {
		if string(key) == "error" {
			e.read(d)
		}
	}
	if d.IsArray() {
		d.Array(func(int) { d.Object(member) })
	} else {
		d.Object(member)
	}
	return e // as far as it could be read: the status tells the rest
}

func (e *apiError) read(d *wire.Decoder) {
	d.Object(func(key []byte) {
		switch string(key) {
		case "code":
			e.code = int(d.Int())
		case "message":
			e.message = d.String()
		case "status":
			e.status = d.String()
		case "details":
			d.Array(func(int) {
				d.Object(func(key []byte) {
					switch string(key) {
					case "reason":
						e.reason = d.String()
					case "retryDelay": // of a google.rpc.RetryInfo: "34.07s"
						if after, err := time.ParseDuration(d.String()); err == nil {
							e.after = after
						}
					}
				})
			})
		}
	})
}
