package intent

import (
	"net/url"
	"strings"
)

// Folder returns the glob of all files that lie in the same folder as a path, but not in folders below.
// ok is false if there is none that covers the path itself.
func Folder(path string) (glob string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 || i == len(path)-1 {
		return "", false
	}
	glob = literal(path[:i+1]) + "*"
	return glob, like(glob, path)
}

// Host returns the glob of all addresses that lead to the same scheme, host and port as an address. ok is
// false if there is none that covers the address itself.
func Host(address string) (glob string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", false
	}
	origin := u.Scheme + "://" + u.Host + "/"
	if !strings.HasPrefix(address, origin) { // it has no path, or is written otherwise
		return "", false
	}
	glob = literal(origin) + "**"
	return glob, like(glob, address)
}

// literal returns the glob that matches only a text.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(text)
}
