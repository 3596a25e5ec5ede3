package rpc

import (
	"net/http"
	"strings"
)

// Talks reports whether a request is a conversation, whose caller may be silent
// between what he sends. Of what the server serves that is reflection alone: all
// of Steward's own methods, and health, take one message.
func Talks(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/grpc.reflection.") }
