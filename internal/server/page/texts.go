package page

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// The texts of the page are written in English where they are used: v.t("Send"). german.go translates them;
// a test compares both.

// fromHeader chooses the language of a browser.
func fromHeader(accept string) string {
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil {
		return "en"
	}
	_, i, _ := language.NewMatcher([]language.Tag{language.English, language.German}).Match(tags...)
	return []string{"en", "de"}[i]
}

func languageOf(r *http.Request) string {
	if c, err := r.Cookie("language"); err == nil && (c.Value == "en" || c.Value == "de") {
		return c.Value
	}
	return fromHeader(r.Header.Get("Accept-Language"))
}

// translations makes the map of german once.
var translations = sync.OnceValue(german)

// t returns a text in the person's language. values take the places of what stands in {braces}, in the order of
// the English text.
func (v *visit) t(english string, values ...string) string {
	s := english
	if v.lang == "de" {
		if d, ok := translations()[english]; ok {
			s = d
		}
	}
	rest := english
	var pairs []string
	for _, value := range values {
		var name string
		_, rest, _ = strings.Cut(rest, "{")
		name, rest, _ = strings.Cut(rest, "}")
		pairs = append(pairs, "{"+name+"}", visible(value))
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// clientTexts are the texts that the modules in the browser use.
func (v *visit) clientTexts() string {
	out := map[string]string{}
	for _, s := range []string{"Copied", "Copy", "Not connected. Trying again …", "That did not work", "Remove", "Signing in …", "Sign in", "just now", "The file is too large.",
		"The file cannot be read.", "Wait until what you have sent is read.", "read at the next step", "sent after the answer", "Sending …", "Take back", "Connected again", "Notifications are on", "Notifications are off", "Your browser refuses notifications. Allow them in its settings for this page.", "Nothing was remembered here that can be undone.", "Copying is not possible here.",
		"Write what is to be planned after /plan.", "There is nothing to do that with.", "Steward cannot be reached. Nothing was sent.", "Added"} {
		out[s] = v.t(s)
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // a map of strings: cannot fail
	}
	return string(b)
}
