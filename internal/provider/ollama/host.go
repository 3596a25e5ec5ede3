package ollama

import (
	"net"
	"net/url"
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
	port := "" // the scheme's own
	if !named {
		scheme, rest, port = "http", s, DefaultPort
	}
	hostport, path, _ := strings.Cut(rest, "/")
	if !named && hostport == "ollama.com" {
		scheme, port = "https", ""
	}
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
	u := url.URL{Scheme: scheme, Host: strings.TrimSuffix(net.JoinHostPort(host, port), ":"), Path: strings.Trim(path, "/")}
	return u.String()
}
