package page

import (
	"encoding/json"
	"slices"
	"strings"

	"steward/internal/fault"
)

// forAdmins reports whether an action is only for administrators. The API refuses everybody else as well; this
// refuses the dialogs, too, which ask nothing of the API.
func forAdmins(name string) bool {
	list := []string{"invite", "pair", "pair-ask", "unpair", "unpair-ask", "models-again", "model-ask", "model-test", "model-use", "group-ask", "group-add", "group-remove-ask", "group-remove"}
	families := []string{"provider-", "user-", "key-", "agent-", "policy-", "server-", "channel-", "budget-", "setting-", "start-", "sign-in-", "skill-"}
	return slices.Contains(list, name) || slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(name, f) })
}

// adminOnly returns an action that refuses everybody but administrators.
func adminOnly(do action) action {
	return func(v *visit, in json.RawMessage) (*reply, error) {
		if !v.caller.Admin {
			return nil, fault.New(fault.Denied, "admin_only", "only admins do this").WithHint("ask an admin")
		}
		return do(v, in)
	}
}
