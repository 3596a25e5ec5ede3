package ollama

import (
	"net"
	"strings"
)

// DefaultPort is Ollama's default port.
const DefaultPort = "11434"

// Host returns the base URL for a value of OLLAMA_HOST: a host, host:port, :port, an address, or a URL. As
// in Ollama itself (https://docs.ollama.com/faq), the port is 11434 unless a scheme is given, and
// ollama.com uses https. The unspecified addresses (0.0.0.0, ::), which make a server listen everywhere,
// become loopback.
func Host(value string) string {
	s := strings.Trim(value, " \t\r\n\"'")
	scheme, rest, named := strings.Cut(s, "://")
	port := DefaultPort
	switch {
	case !named:
		scheme, rest = "http", s
		if h, _, _ := strings.Cut(s, "/"); h == "ollama.com" {
			scheme, port = "https", ""
		}
	default:
		port = "" // the scheme's own
	}
	hostport, path, _ := strings.Cut(rest, "/")
	host, p, err := net.SplitHostPort(hostport)
	if err == nil {
		port = p
	} else {
		host = strings.Trim(hostport, "[]")
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	out := scheme + "://"
	switch {
	case port != "":
		out += net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		out += "[" + host + "]"
	default:
		out += host
	}
	if path = strings.Trim(path, "/"); path != "" {
		out += "/" + path
	}
	return out
}
