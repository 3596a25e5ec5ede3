package email

import (
	"net/mail"
	"net/textproto"
	"strings"
	"unicode"

	"github.com/emersion/go-message"
)

// automatic reports whether a program sent an e-mail (RFC 3834, RFC 2919, RFC 3464). Whoever answers one
// answers a program, which may answer back.
func automatic(h message.Header, from string) bool {
	if auto := strings.ToLower(strings.TrimSpace(h.Get("Auto-Submitted"))); auto != "" && auto != "no" {
		return true
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Precedence"))) {
	case "bulk", "list", "junk", "auto_reply":
		return true
	}
	for _, name := range []string{"List-Id", "List-Unsubscribe", "List-Post", "X-Autoreply", "X-Autorespond", "X-Failed-Recipients", "Feedback-Id"} {
		if h.Has(name) {
			return true
		}
	}
	if strings.TrimSpace(h.Get("Return-Path")) == "<>" {
		return true
	}
	if media, _, err := h.ContentType(); err == nil && media == "multipart/report" {
		return true
	}
	name, _, _ := strings.Cut(strings.ToLower(from), "@")
	switch strings.NewReplacer("-", "", "_", "", ".", "").Replace(name) {
	case "mailerdaemon", "postmaster", "noreply", "donotreply", "bounce", "bounces":
		return true
	}
	return false
}

// senderOf returns the only address in From. Programs show one of several, and not all the same.
func senderOf(h message.Header) (*mail.Address, bool) {
	fields := h.FieldsByKey("From")
	n := 0
	for fields.Next() {
		n++
	}
	list, err := mail.ParseAddressList(h.Get("From"))
	if err != nil || len(list) == 0 {
		return nil, false
	}
	return list[0], n == 1 && len(list) == 1
}

// unproven says why the sender of an e-mail may be forged; empty: the server in trust vouches for the
// domain.
func unproven(h message.Header, trust, from string) string {
	if trust == "" {
		return "no mail server is trusted to check senders (setting: trust)"
	}
	domain := strings.ToLower(from[strings.LastIndexByte(from, '@')+1:])
	fields := h.FieldsByKey(textproto.CanonicalMIMEHeaderKey("Authentication-Results"))
	for fields.Next() { // from the top
		name, results, ok := authenticationResults(fields.Value())
		if !ok || !strings.EqualFold(name, trust) {
			continue
		}
		verdict := ""
		for _, r := range results {
			if r["method"] != "dmarc" {
				continue
			}
			if verdict != "" {
				return "DMARC: there are two results"
			}
			switch verdict = r["result"]; {
			case verdict != "pass":
				return "DMARC: " + verdict
			case !strings.EqualFold(r["header.from"], domain):
				return "DMARC: no alignment"
			}
		}
		if verdict == "" {
			return "DMARC: not checked"
		}
		return ""
	}
	return "DMARC: not checked by " + trust
}

// authenticationResults reads a field (RFC 8601, section 2.2): the name of the server, and for each result
// its properties, with method and result among them. Values in quotation marks and comments are what a
// sender may have chosen, so what looks like a result within them is none; a field that is not well-formed
// is not read at all.
func authenticationResults(value string) (name string, results []map[string]string, ok bool) {
	var parts [][]string // of tokens, by semicolon
	var part []string
	var token strings.Builder
	end := func() {
		if token.Len() > 0 {
			part = append(part, token.String())
			token.Reset()
		}
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\' && (depth > 0 || quoted):
			if i++; quoted && i < len(value) {
				token.WriteByte(value[i])
			}
		case quoted:
			if c == '"' {
				quoted = false
			} else {
				token.WriteByte(c)
			}
		case c == '(':
			depth++
			end()
		case c == ')':
			if depth--; depth < 0 {
				return "", nil, false
			}
		case depth > 0:
		case c == '"':
			quoted = true
		case c == ';':
			end()
			parts, part = append(parts, part), nil
		case c == '=':
			end()
			part = append(part, "=")
		case unicode.IsSpace(rune(c)):
			end()
		default:
			token.WriteByte(c)
		}
	}
	if depth != 0 || quoted {
		return "", nil, false
	}
	end()
	parts = append(parts, part)
	if len(parts[0]) == 0 || len(parts[0]) > 2 {
		return "", nil, false
	}
	for _, p := range parts[1:] {
		r := map[string]string{}
		for i := 0; i+2 < len(p); i++ {
			if p[i+1] != "=" {
				continue
			}
			key := strings.ToLower(p[i])
			if len(r) == 0 {
				key, r["result"] = "method", strings.ToLower(p[i+2])
				r[key], _, _ = strings.Cut(strings.ToLower(p[i]), "/")
			} else if _, there := r[key]; there || key == "method" || key == "result" {
				return "", nil, false
			} else {
				r[key] = p[i+2]
			}
			i += 2
		}
		if len(r) > 0 {
			results = append(results, r)
		}
	}
	return parts[0][0], results, true
}
