package message

import (
	"net/url"
	"path"
	"strings"
)

// DOCX is the media type of Word files.
const DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

// MediaType guesses a media type from the extension of a file name or URL. It
// returns otherwise if the extension is missing or unknown. It does not use the
// system's own table, which differs between machines.
func MediaType(address, otherwise string) string {
	name, _, _ := strings.Cut(address, "?")
	if u, err := url.Parse(address); err == nil && u.Path+u.Host != "" {
		name = u.Path
	}
	switch strings.ToLower(path.Ext(name)) {
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
	case ".wav":
		return "audio/wav"
	case ".mp3":
		return "audio/mpeg"
	case ".m4a":
		return "audio/mp4"
	case ".ogg", ".opus":
		return "audio/ogg"
	case ".flac":
		return "audio/flac"
	case ".docx":
		return DOCX
	}
	return otherwise
}
