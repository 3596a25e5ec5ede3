package httpauth

import (
	"net/url"
	"path"
	"strings"
)

// MediaType guesses the media type of what is at a URL from its ending: who
// names a file by its address seldom says what it is. Not the system's own
// table, which differs from machine to machine.
func MediaType(address, otherwise string) string {
	u, err := url.Parse(address)
	if err != nil {
		return otherwise
	}
	switch strings.ToLower(path.Ext(u.Path)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".pdf":
		return "application/pdf"
	case ".txt":
		return "text/plain"
	case ".md":
		return "text/markdown"
	case ".csv":
		return "text/csv"
	case ".html", ".htm":
		return "text/html"
	case ".json":
		return "application/json"
	}
	return otherwise
}
