package apis

import (
	"regexp"
	"strings"
)

// sentNote is what Steward tells a model of when a message was sent.
var sentNote = regexp.MustCompile(`(?m)\n*^\(Sent on \w+, \d{4}-\d\d-\d\d, \d\d:\d\d(, [\w/+-]+)?, UTC[+-]\d\d:\d\d\.\)$`)

// AsWritten returns a user's text as the user wrote it: without what Steward tells the model of when it
// was sent, and of what was recalled for it.
func AsWritten(text string) string {
	for _, recalled := range []string{"(From memory. ", "(From earlier conversations, "} {
		text, _, _ = strings.Cut(text, recalled)
	}
	return sentNote.ReplaceAllString(text, "")
}

// Written returns the text of a user's message as the user wrote it. The content is a string or a list of
// parts, whose texts are joined by line breaks.
func Written(content any) string {
	if text, ok := content.(string); ok {
		return AsWritten(text)
	}
	var texts []string
	parts, _ := content.([]any)
	for _, p := range parts {
		if part, ok := p.(map[string]any); ok {
			if text, _ := part["text"].(string); AsWritten(text) != "" {
				texts = append(texts, AsWritten(text))
			}
		}
	}
	return strings.Join(texts, "\n")
}
