package identity

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"golang.org/x/text/language"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Profile is what users say about themselves, so that answers fit them. All members
// are optional.
type Profile struct {
	TimeZone string `json:"time_zone,omitzero"` // IANA name, "Europe/Madrid"
	Location string `json:"location,omitzero"`  // in words: "Graz, Austria"
	Locale   string `json:"locale,omitzero"`    // BCP 47, "de-AT"
	Units    Units  `json:"units,omitzero"`

	Personas map[string]Persona `json:"personas,omitzero"` // the user's own, by name
	Persona  map[string]string  `json:"persona,omitzero"`  // the name of the one that an agent has, by the agent's path
}

// Units is a system of units.
type Units string

// The systems of units.
const (
	Metric   Units = "metric"
	Imperial Units = "imperial"
)

const maxLocation = 200 // characters

// Check returns the profile with its locale in canonical form. Errors:
// time_zone_unknown, location_invalid, locale_invalid, units_unknown,
// persona_invalid.
func (p Profile) Check() (Profile, error) {
	if p.TimeZone == "Local" { // Go's name for the server's zone
		return p, fault.New(fault.Invalid, "time_zone_unknown", "the time zone %q is ambiguous", p.TimeZone).WithHint(zoneHint)
	}
	if p.TimeZone != "" {
		if _, err := time.LoadLocation(p.TimeZone); err != nil {
			return p, fault.New(fault.Invalid, "time_zone_unknown", "unknown time zone %.80q", p.TimeZone).WithHint(zoneHint)
		}
	}
	if err := checkText("location_invalid", "a location", p.Location, maxLocation); err != nil {
		return p, err
	}
	if p.Locale != "" {
		tag, err := language.Parse(p.Locale)
		if err != nil {
			return p, fault.New(fault.Invalid, "locale_invalid", "%.80q is not a locale", p.Locale).
				WithHint("give a language and, if needed, a region, such as en-GB")
		}
		p.Locale = tag.String()
	}
	if err := p.checkPersonas(); err != nil {
		return p, err
	}
	switch p.Units {
	case "", Metric, Imperial:
		return p, nil
	}
	return p, fault.New(fault.Invalid, "units_unknown", "unknown units %.80q", string(p.Units)).
		WithHint("use metric or imperial")
}

const zoneHint = "give its name in the IANA database, such as Europe/Madrid, or UTC"

// Profile returns the profile of a user, or an empty one. It is cached: a change by
// another process is seen within ten seconds.
func (r *Registry) Profile(ctx context.Context, user string) (Profile, error) {
	who, err := r.person(ctx, user)
	if err != nil || who.profile == nil {
		return Profile{}, err
	}
	var p Profile
	if err := json.Unmarshal(who.profile, &p); err != nil {
		return Profile{}, broken(resource.Root(TypeUser, user), err)
	}
	return p, nil
}

// readProfile returns the stored profile of a user, or nil.
func (r *Registry) readProfile(ctx context.Context, user string) ([]byte, error) {
	res, err := r.store.Get(ctx, store.ForUser(user), resource.Root(TypeUser, user))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return res.Body, err
}

// SetProfile replaces the profile of a user and returns it as stored.
// Errors: user_invalid, those of Profile.Check, and the store's.
func (r *Registry) SetProfile(ctx context.Context, user string, p Profile) (Profile, error) {
	if err := CheckUser(user); err != nil {
		return Profile{}, err
	}
	p, err := p.Check()
	if err != nil {
		return Profile{}, err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return Profile{}, fault.New(fault.Internal, "profile_unwritable", "the profile cannot be written: %w", err)
	}
	_, err = r.store.Commit(ctx, store.ForUser(user), store.Batch{Changes: []store.Change{
		{URI: resource.Root(TypeUser, user), Body: body},
	}})
	if err != nil {
		return Profile{}, err
	}
	r.changed()
	return p, nil
}

// About returns a user's profile. For the machine's own user, what the settings say fills in what it lacks.
func (r *Registry) About(ctx context.Context, user string, set Profile) (Profile, error) {
	p, err := r.Profile(ctx, user)
	if err != nil || user != Local {
		return p, err
	}
	for _, f := range []struct{ own, from *string }{
		{&p.TimeZone, &set.TimeZone}, {&p.Location, &set.Location},
		{&p.Locale, &set.Locale}, {(*string)(&p.Units), (*string)(&set.Units)},
	} {
		if *f.own == "" {
			*f.own = *f.from
		}
	}
	p.Personas, p.Persona = merged(set.Personas, p.Personas), merged(set.Persona, p.Persona)
	return p, nil
}

// merged returns a map with everything of both; what is in own counts.
func merged[V any](set, own map[string]V) map[string]V {
	all := maps.Clone(set)
	if all == nil {
		return own
	}
	maps.Copy(all, own)
	return all
}
