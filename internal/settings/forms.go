package settings

import (
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// check returns what is wrong with a value, worded as the end of the sentence
// "KEY: VALUE …", or "" if it is valid.
func check(form, value string) string {
	switch form {
	case "":
		return ""
	case "listen":
		return checkListen(value)
	case "url":
		return checkURL(value)
	case "file_url":
		if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return "is not a URL of a file; write one such as https://example.com/models.json"
		}
		return ""
	case "origin":
		return checkOrigin(value)
	case "host":
		return checkHost(value)
	case "nats":
		return checkNATS(value)
	case "path":
		if strings.ContainsRune(value, 0) {
			return "is not a path: it contains a zero byte"
		}
		return ""
	case "workspace":
		if strings.ContainsRune(value, 0) || value != "off" && !filepath.IsAbs(value) && !strings.HasPrefix(value, "~/") {
			return "is not a workspace; write an absolute path, one that begins with ~/, or off"
		}
		return ""
	case "peer":
		if _, err := netip.ParsePrefix(value); err == nil {
			return ""
		}
		if a, err := netip.ParseAddr(value); err != nil || a.Zone() != "" {
			return "is not an address or a network; write one such as 192.168.1.20 or 192.168.1.0/24"
		}
		return ""
	case "zone":
		return checkZone(value)
	case "json_object":
		if json.Unmarshal([]byte(value), &map[string]json.RawMessage{}) != nil {
			return "is not a JSON object; write it like '{\"seed\": 1}'"
		}
		return ""
	case "locale":
		if _, err := language.Parse(value); err != nil {
			return "is not a language tag; write one such as en-GB or de-AT"
		}
		return ""
	}
	p, ok := patterns[form]
	if !ok {
		panic("settings: unknown form " + form)
	}
	if !p.re.MatchString(value) {
		return p.say
	}
	return ""
}

type pattern struct {
	re  *regexp.Regexp
	say string
}

// patterns is read-only.
var patterns = map[string]pattern{
	"clock":     {regexp.MustCompile(`^([01]?[0-9]|2[0-3]):[0-5][0-9]$`), "is not a time of day; write one such as 08:00"},
	"hours":     {regexp.MustCompile(`^(([01]?[0-9]|2[0-3]):[0-5][0-9]-([01]?[0-9]|2[0-3]):[0-5][0-9])?$`), "are not two times of day; write them like 22:00-07:00"},
	"word":      {regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`), "is not a valid name; use lower-case letters, digits, '-' and '_'"},
	"provider":  {regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`), "is not a provider name; use lower-case letters, digits, '-' and '_'"},
	"user":      {regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`), "is not the name of a user; use lower-case letters, digits and . _ - @"},
	"alias":     {regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`), "is not a valid alias; use lower-case letters, digits, '.', '-' and '_'"},
	"model":     {regexp.MustCompile(`^[^\s/]+(/\S+)?$`), "is not a model; write provider/model or an alias"},
	"tool":      {regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`), "is not a tool name; write category.name"},
	"source":    {regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`), "is not a source name; use lower-case letters, digits and single '_'"},
	"tool_word": {regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`), "is not a tool name; use lower-case letters, digits and single '_'"},
	"method":    {regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$`), "is not a method; write package.Service.Method"},
	"metadata":  {regexp.MustCompile(`^[a-z0-9_.-]{1,100}$`), "is not a metadata name; use lower-case letters, digits, '.', '-' and '_'"},
	"audited":   {regexp.MustCompile(`^(cld:\S+|[a-z][A-Za-z0-9_.]*\*?)$`), "is not a type or a URI; write a type (email.Message), the beginning of one (email.*) or a URI (cld:…)"},
	"need":      {regexp.MustCompile(`^(channels|home|user:[a-z0-9][a-z0-9._@-]{0,63})$`), "is not what labels are needed for; write channels, home or user:NAME"},
	"host_port": {regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$`), "is not HOST:PORT"},
	"topic":     {regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`), "is not a valid topic; use letters, digits, '-' and '_'"},
	"cloud":     {regexp.MustCompile(`^[a-z0-9][a-z0-9:.-]{0,99}$`), "is not a project or region; use lower-case letters, digits and '-'"},
	"header":    {regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`), "is not a header name"},
	"variable":  {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "is not the name of an environment variable"},
}

func checkListen(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "is not an address; write HOST:PORT, for example 127.0.0.1:7420"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "has no port from 0 to 65535; write HOST:PORT, for example 127.0.0.1:7420"
	}
	if host != "" && checkHost(host) != "" {
		return "has no valid host; write HOST:PORT, for example 127.0.0.1:7420"
	}
	return ""
}

func checkHost(v string) string {
	if _, err := netip.ParseAddr(v); err == nil {
		return ""
	}
	if v == "" || len(v) > 253 || strings.ContainsAny(v, "/:@?#%\\ \t*") {
		return "is not a host name; write a name such as steward.example.org, without scheme and port"
	}
	return ""
}

func checkURL(v string) string {
	u, err := url.Parse(v)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "is not a URL; write one such as http://127.0.0.1:8080/v1"
	case u.User != nil:
		return "contains a user name or password; put the key into key or key_env"
	case u.RawQuery != "", u.Fragment != "":
		return "must end with its path, without '?' and '#'"
	}
	return ""
}

func checkOrigin(v string) string {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "is not a web origin; write SCHEME://HOST[:PORT], for example https://steward.example.org"
	}
	return ""
}

func checkZone(v string) string {
	if v == "Local" || v == "" {
		return "is not a time zone; write an IANA name such as Europe/Vienna"
	}
	if _, err := time.LoadLocation(v); err != nil {
		return "is not a known time zone; write an IANA name such as Europe/Vienna"
	}
	return ""
}
