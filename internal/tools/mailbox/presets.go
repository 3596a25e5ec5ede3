package mailbox

import (
	"slices"
	"strings"
)

// Preset is where the mail of a large provider is, and what its users need to know.
type Preset struct {
	Name       string
	Domains    []string // of its addresses
	IMAP, SMTP string   // HOST:PORT
	OAuth      string   // the service of the settings that it wants instead of a password; empty: it takes one
	Password   string   // which password it takes, and where it is
}

// Presets are the providers that are known, as their own pages about other mail programs have it
// (read 2026-11).
func Presets() []Preset {
	return []Preset{
		{"Gmail", []string{"gmail.com", "googlemail.com"}, "imap.gmail.com:993", "smtp.gmail.com:465", "", "an app password: https://myaccount.google.com/apppasswords"},
		{"Outlook", []string{"outlook.com", "outlook.de", "hotmail.com", "hotmail.de", "live.com", "live.de", "msn.com"}, "outlook.office365.com:993", "smtp-mail.outlook.com:587", "microsoft", ""},
		{"iCloud", []string{"icloud.com", "me.com", "mac.com"}, "imap.mail.me.com:993", "smtp.mail.me.com:587", "", "an app-specific password: https://account.apple.com"},
		{"Yahoo", []string{"yahoo.com", "yahoo.de", "yahoo.co.uk", "yahoo.fr", "yahoo.it", "yahoo.es", "ymail.com", "rocketmail.com"}, "imap.mail.yahoo.com:993", "smtp.mail.yahoo.com:465", "", "an app password: https://login.yahoo.com/account/security"},
		{"AOL", []string{"aol.com", "aol.de"}, "imap.aol.com:993", "smtp.aol.com:465", "", "an app password: https://login.aol.com/account/security"},
		{"Fastmail", []string{"fastmail.com", "fastmail.fm"}, "imap.fastmail.com:993", "smtp.fastmail.com:465", "", "an app password: https://app.fastmail.com/settings/security"},
		{"GMX", []string{"gmx.de", "gmx.net", "gmx.at", "gmx.ch"}, "imap.gmx.net:993", "mail.gmx.net:465", "", "your password; first allow IMAP in the settings of GMX"},
		{"GMX", []string{"gmx.com", "gmx.us", "gmx.co.uk"}, "imap.gmx.com:993", "mail.gmx.com:465", "", "your password; first allow IMAP in the settings of GMX"},
		{"WEB.DE", []string{"web.de"}, "imap.web.de:993", "smtp.web.de:587", "", "your password; first allow IMAP in the settings of WEB.DE"},
		{"T-Online", []string{"t-online.de", "magenta.de"}, "secureimap.t-online.de:993", "securesmtp.t-online.de:465", "", "the password for mail programs, which the customer centre sets"},
		{"Posteo", []string{"posteo.de", "posteo.net", "posteo.at", "posteo.ch"}, "posteo.de:993", "posteo.de:465", "", "your password, or an app password"},
		{"mailbox.org", []string{"mailbox.org"}, "imap.mailbox.org:993", "smtp.mailbox.org:465", "", "your password, or an app password"},
		{"Zoho", []string{"zoho.com", "zohomail.com"}, "imap.zoho.com:993", "smtp.zoho.com:465", "", "an app password: https://accounts.zoho.com"},
		{"Zoho", []string{"zoho.eu", "zohomail.eu"}, "imap.zoho.eu:993", "smtp.zoho.eu:465", "", "an app password: https://accounts.zoho.eu"},
		{"Proton", []string{"proton.me", "protonmail.com", "pm.me"}, "127.0.0.1:1143", "127.0.0.1:1025", "", "the password that Proton Mail Bridge shows, which has to run on this machine"},
	}
}

// PresetFor returns what is known of the provider of an address.
func PresetFor(address string) (Preset, bool) {
	domain := strings.ToLower(address[strings.LastIndexByte(address, '@')+1:])
	for _, p := range Presets() {
		if slices.Contains(p.Domains, domain) {
			return p, true
		}
	}
	return Preset{}, false
}
