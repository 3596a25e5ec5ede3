package node

import (
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/settings"
)

// TestAccountsOfOneName: a mailbox and calendars with one name are connected together.
func TestAccountsOfOneName(t *testing.T) {
	set := &settings.Loaded{}
	set.Mail = map[string]settings.Mail{"work": {OAuth: "google"}}
	set.Calendars = map[string]settings.Calendar{"work": {OAuth: "google"}, "odd": {OAuth: "other"}}
	set.Contacts = map[string]settings.Contacts{"odd": {OAuth: "google"}}
	if service, uses, err := usesOf(set, "work"); service != "google" || strings.Join(uses, " ") != "mail calendar" || err != nil {
		t.Errorf("%s %v %v", service, uses, err)
	}
	if _, _, err := usesOf(set, "odd"); !fault.HasCode(err, "account_ambiguous") {
		t.Errorf("%v", err)
	}
}
