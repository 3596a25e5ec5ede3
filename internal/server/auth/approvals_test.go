package auth_test

import (
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/server/auth"
)

func TestAServiceApprovesNothing(t *testing.T) {
	service := auth.Caller{User: "bot", Roles: []string{policy.RoleService}}
	if _, err := (auth.Answer{Hash: "h"}).Verdict(service, "q", true); !fault.HasCode(err, "approval_unattended") {
		t.Errorf("approved: %v", err)
	}
	if v, err := (auth.Answer{Hash: "h", Reason: "no"}).Verdict(service, "q", false); err != nil || v.Approve || v.Reason != "no" || v.ID != "q" {
		t.Errorf("denied: %+v, %v", v, err)
	}
	if _, err := (auth.GrantChange{}).Edit(service); !fault.HasCode(err, "approval_unattended") {
		t.Errorf("changed a grant: %v", err)
	}
}

func TestAnswersAreRead(t *testing.T) {
	ana := auth.Caller{User: "ana"}
	v, err := (auth.Answer{Hash: "h", Standing: "once", Until: "never", Args: []byte("null")}).Verdict(ana, "q", true)
	if err != nil || v.Standing != "" || !v.Until.IsZero() || v.Args != nil {
		t.Errorf("%+v, %v", v, err)
	}
	v, err = (auth.Answer{Hash: "h", Standing: "always", Until: "2030-01-02T03:04:05+01:00"}).Verdict(ana, "q", true)
	if err != nil || v.Standing != "always" || !v.Until.Equal(time.Date(2030, 1, 2, 2, 4, 5, 0, time.UTC)) {
		t.Errorf("%+v, %v", v, err)
	}
	none, some := []string{}, []string{"private", "untrusted"}
	for labels, want := range map[*[]string]message.Labels{&none: 0, &some: message.Private | message.Untrusted} {
		if ed, err := (auth.GrantChange{Labels: labels}).Edit(ana); err != nil || ed.Labels == nil || *ed.Labels != want {
			t.Errorf("%v: %+v, %v", *labels, ed, err)
		}
	}
}
