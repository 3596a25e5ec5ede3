// Package wire is what the adapters of several services share: whether a request can have reached its
// service, and where Markdown is cut into messages.
//
// A message must not be posted twice, so an adapter has to know what became of a request that failed.
// Begin watches one request. As long as no connection was found for it, nothing can have been posted;
// from then on the service may have received it, whatever the error says.
package wire

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"steward/internal/channel"
)

// Request is one request to a service.
type Request struct{ connected atomic.Bool }

// Begin returns a context for one request, which is watched.
func Begin(ctx context.Context) (context.Context, *Request) {
	r := &Request{}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { r.connected.Store(true) }}), r
}

// Failed returns the coded error of a request that posts something and got no answer.
func (r *Request) Failed(service string, err error) error {
	if r.connected.Load() {
		return channel.Uncertain(service, err)
	}
	return channel.Unreachable(service, err)
}

// maxFence bounds the line that opens a block of code, which is repeated where the block is cut.
const maxFence = 60

// Cut cuts Markdown into parts of at most most units, as size counts them: between paragraphs if possible,
// else between lines, else between words, and never inside a character. A block of code that is cut is
// closed and opened again. Control characters are dropped.
func Cut(markdown string, most int, size func(string) int) (parts []string) {
	rest := strings.Trim(Clean(markdown), "\n")
	for strings.TrimSpace(rest) != "" {
		if size(rest) <= most {
			return append(parts, strings.TrimRight(rest, " \t\n"))
		}
		lead := 0 // the line that opens a block of code is not worth a part of its own
		if first := strings.IndexByte(rest, '\n'); first > 0 && first <= 2*maxFence && fenceLine(rest[:first]) {
			lead = first + 1
		}
		head := prefix(rest, lead, most, size)
		head = head[:breakOf(head, rest, lead)]
		if _, fence := openFence(head); fence != "" { // it needs room to be closed
			head = prefix(rest, lead, most-len(fence)-1, size)
			head = head[:breakOf(head, rest, lead)]
		}
		after := strings.TrimLeft(rest[len(head):], "\n")
		opened, fence := openFence(head)
		if head = strings.TrimRight(head, " \t\n"); fence != "" {
			head, after = head+"\n"+fence, opened+"\n"+after
		}
		if head != "" {
			parts = append(parts, head)
		}
		rest = after
	}
	return parts
}

// Clean returns valid UTF-8 without control characters other than tabs and line feeds.
func Clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// Runes counts characters as Unicode does.
func Runes(s string) (n int) {
	for range s {
		n++
	}
	return n
}

// UTF16 counts characters as services do that are written in JavaScript or Java.
func UTF16(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// prefix returns the longest beginning of text with at most most units that ends between two characters
// as people see them. If that is not beyond lead, a character is too long, and is cut between its code
// points.
func prefix(text string, lead, most int, size func(string) int) string {
	end, n := 0, 0
	for end < len(text) {
		cluster, _ := ansi.FirstGraphemeCluster(text[end:], ansi.GraphemeWidth)
		if n += size(cluster); cluster == "" || n > most {
			break
		}
		end += len(cluster)
	}
	if end > lead {
		return text[:end]
	}
	end, n = 0, 0
	for i, r := range text {
		if n += size(string(r)); n > most {
			break
		}
		end = i + len(string(r))
	}
	return text[:end]
}

// breakOf returns where to cut after lead: head is a beginning of text.
func breakOf(head, text string, lead int) int {
	lead = min(lead, len(head))
	if _, fence := openFence(head); fence == "" && strings.HasPrefix(text[len(head):], "\n") {
		return len(head)
	}
	some := func(at int) bool { return at >= lead && strings.TrimSpace(head[lead:at]) != "" }
	for at := strings.LastIndex(head, "\n\n"); at >= 0 && some(at); at = strings.LastIndex(head[:at], "\n\n") {
		if _, fence := openFence(head[:at]); fence == "" {
			return at
		}
	}
	if at := strings.LastIndexByte(head, '\n'); at >= 0 && some(at) {
		return at
	}
	if at := strings.LastIndexAny(head, " \t"); at >= 0 && some(at) {
		return at + 1
	}
	return len(head)
}

// openFence returns the line that opened the block of code in which text ends, and the line that closes
// it; both are empty outside of one.
func openFence(text string) (opened, fence string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		bare := strings.TrimLeft(line, " \t")
		run := bare[:len(bare)-len(strings.TrimLeft(bare, bare[:min(1, len(bare))]))]
		switch {
		case fence != "" && len(run) == len(bare) && strings.HasPrefix(run, fence):
			opened, fence = "", ""
		case fence == "" && fenceLine(line):
			if opened, fence = bare, run; len(opened) > maxFence {
				opened = fence
			}
		}
	}
	return opened, fence
}

// fenceLine reports whether a line opens a block of code.
func fenceLine(line string) bool {
	bare := strings.TrimLeft(line, " \t")
	mark := bare[:min(1, len(bare))]
	if mark != "`" && mark != "~" {
		return false
	}
	info := strings.TrimLeft(bare, mark)
	run := len(bare) - len(info)
	return run >= 3 && run <= maxFence/2 && !strings.Contains(info, "`")
}

// Line returns a text of a service as one short line for an error.
func Line(text string) string {
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if cut := prefix(text, 0, 200, Runes); cut != text {
		return cut + "…"
	}
	return text
}

// Key returns 22 letters and digits that derive from a text, where a service wants a short key.
func Key(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.NewReplacer("-", "a", "_", "b").Replace(base64.RawURLEncoding.EncodeToString(sum[:16]))
}
