package settings

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/fault"
)

// Values that people type become values of the file, which is read as it was typed.
func TestSettingsAreChangedAndUnset(t *testing.T) {
	file := filepath.Join(t.TempDir(), FileName)
	const before = "# mine\nlimits:\n  cost: 1 # a dollar\n  time: 5m\nrouting: auto\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]string{{"limits.cost", "2.50"}, {"limits.day_tokens", " 1000000 "}, {"memory.read", "false"}, {"limits.time", "90s"}, {"profile.location", "Graz: the old town"}, {"routing", "off"}, {"heartbeat.cost", "0"}, {UserLimit("ann", "day_cost"), "0"}, {UserLimit("bob.b", "day_tokens"), "5000000"}} {
		c, err := Setting(x[0], x[1])
		if err != nil {
			t.Fatal(x, err)
		}
		if err := Edit(file, c); err != nil {
			t.Fatal(x, err)
		}
	}
	set, err := Load(Options{File: file, Dir: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if set.Limits.Cost != 2.5 || set.Limits.DayTokens != 1_000_000 || set.Memory.Read || set.Limits.Time.String() != "1m30s" || set.Profile.Location != "Graz: the old town" || set.Routing != "off" || set.Heartbeat.Cost != 0 || *set.Limits.Users["ann"].DayCost != 0 || set.Limits.Users["ann"].DayTokens != nil || *set.Limits.Users["bob.b"].DayTokens != 5_000_000 {
		t.Errorf("%+v", set.Settings)
	}
	for _, key := range []string{"limits.cost", "limits.time", "limits.day_tokens", "memory.read", "memory.rest", "profile.location", "heartbeat.cost", UserLimit("ann", "day_cost"), UserLimit("bob.b", "day_tokens")} {
		if err := Edit(file, Change{Key: key, Unset: true}); err != nil {
			t.Error(key, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "# mine\nlimits:\n  users:\n    \"bob.b\":\n    ann:\nrouting: \"off\"\nmemory:\nprofile:\nheartbeat:\n" {
		t.Errorf("%v %q", err, b)
	}
	if _, err := Load(Options{File: file, Dir: t.TempDir()}); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("limits: {cost: 1, tokens: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Edit(file, Change{Key: "limits.cost", Unset: true}); !fault.HasCode(err, "settings_uneditable") {
		t.Error("another setting would be lost:", err)
	}
}

func TestWrongValuesOfSettings(t *testing.T) {
	for _, x := range [][3]string{{"limits.cost", "much", "setting_invalid"}, {"limits.cost", "-1", "setting_invalid"}, {"limits.cost", "", "setting_invalid"}, {"limits.time", "5", "setting_invalid"},
		{"routing", "sometimes", "setting_invalid"}, {"routing", "", "setting_invalid"}, {"workspace", "relative", "setting_invalid"}, {"profile.location", "a\nb", "setting_invalid"},
		{"limits.users.Ann.day_cost", "1", "setting_invalid"}, {"limits.users.ann.day", "1", "setting_unknown"}, {"limits", "1", "setting_unknown"}, {"limits.costs", "1", "setting_unknown"}, {"limits.cost.x", "1", "setting_unknown"}, {"hosts", "a", "setting_unknown"}, {"notify.ntfy.token", "x", "setting_unknown"}, {"providers.openai.key", "x", "setting_unknown"}} {
		if c, err := Setting(x[0], x[1]); !fault.HasCode(err, x[2]) {
			t.Error(x, c, err)
		}
	}
}

// Nothing that could start a program, name a key or open Steward to others is changed through the API.
func TestWhoMayChangeSettings(t *testing.T) {
	for key, want := range map[string]Right{"limits.day_cost": ByAdmin, "routing": ByAdmin, "profile.units": ByAdmin, "workspace": ByOwner, "approve": ByOwner,
		"listen": ByNobody, "hosts": ByNobody, "open": ByNobody, "data": ByNobody, "agents": ByNobody, "mcp": ByNobody, "shell.sandbox": ByNobody, "audit.anchor_file": ByNobody, "models_url": ByNobody, "web.url": ByNobody,
		"providers.openai.key": ByNobody, "channels.door.token": ByNobody, "home.url": ByNobody, "service.tool.endpoints": ByNobody} {
		if got := RightOf(key); got != want {
			t.Errorf("%s: %q", key, got)
		}
	}
}
