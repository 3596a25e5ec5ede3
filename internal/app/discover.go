package app

import (
	"context"
	"io"
	"log"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/mdns"
)

// homeService is the name by which Home Assistant announces itself
// (https://github.com/home-assistant/core/blob/dev/homeassistant/components/zeroconf).
const homeService = "_home-assistant._tcp"

// Limits of a search.
const (
	discoverFor = 2 * time.Second
	maxHomes    = 20
)

// FoundHome is a Home Assistant that has announced itself. Anybody in the network can announce anything, so a person
// decides whether it is the right one.
type FoundHome struct{ Name, URL string }

// FindHomes asks the local network by mDNS for Home Assistants. It takes two seconds. A network that does not
// answer has none.
func FindHomes(ctx context.Context) []FoundHome {
	entries := make(chan *mdns.ServiceEntry, 4*maxHomes) // what does not fit is dropped
	err := mdns.QueryContext(ctx, &mdns.QueryParam{Service: homeService, Domain: "local", Timeout: discoverFor, Entries: entries, Logger: log.New(io.Discard, "", 0)})
	if err != nil {
		return nil
	}
	var found []FoundHome
	for range len(entries) {
		if h, ok := homeOf(<-entries); ok && len(found) < maxHomes && !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found
}

// homeOf reads an announcement.
func homeOf(e *mdns.ServiceEntry) (FoundHome, bool) {
	if !strings.HasSuffix(strings.TrimSuffix(e.Name, "."), "."+homeService+".local") {
		return FoundHome{}, false
	}
	told := map[string]string{}
	for _, f := range e.InfoFields {
		if key, value, ok := strings.Cut(f, "="); ok {
			told[key] = value
		}
	}
	at := ""
	if e.AddrV4 != nil && e.Port > 0 {
		at = "http://" + net.JoinHostPort(e.AddrV4.String(), strconv.Itoa(e.Port))
	}
	for _, key := range []string{"internal_url", "base_url"} {
		if u, err := url.Parse(told[key]); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil {
			at = strings.TrimSuffix(u.String(), "/")
			break
		}
	}
	return FoundHome{Name: told["location_name"], URL: at}, at != ""
}
