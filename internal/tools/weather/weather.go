// Package weather returns forecasts from Open-Meteo.
package weather

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Where Open-Meteo has its services (open-meteo.com/en/docs, …/docs/geocoding-api). They need no
// key for use that is not commercial; the data is under CC BY 4.0.
const (
	ForecastURL = "https://api.open-meteo.com/v1/forecast"
	PlacesURL   = "https://geocoding-api.open-meteo.com/v1/search"
)

const (
	forecastTimeout = 15 * time.Second
	maxForecast     = 1 << 20 // bytes of an answer
	maxDays         = 14
)

// ForecastOptions configure the forecast. Transport is required.
type ForecastOptions struct {
	Transport        http.RoundTripper // connects only where it is allowed; see egress.Dialer
	Forecast, Places string            // addresses of the services; empty: ForecastURL, PlacesURL
	// Profile returns where a user is, in words, and whether the user has imperial units. It may
	// be nil.
	Profile func(user string) (place string, imperial bool)
}

type forecastArgs struct {
	Place string `json:"place,omitzero" jsonschema:"Town or place, such as Graz or Portland, Oregon; where the user is unless given" maxlen:"100"`
	Days  int    `json:"days,omitzero" jsonschema:"How many days, from today on" min:"1" max:"14" default:"3"`
}

// AddForecast adds the tool forecast to a kit.
func AddForecast(k *local.Kit, opt ForecastOptions) {
	f := forecaster{opt}
	f.Forecast, f.Places = cmp.Or(f.Forecast, ForecastURL), cmp.Or(f.Places, PlacesURL)
	host := ""
	if u, err := url.Parse(f.Forecast); err == nil {
		host = u.Host
	}
	local.Query(k, tool.Spec{Name: "forecast", Yields: message.Untrusted, Reach: tool.ReachOut, Host: host, Timeout: 2*forecastTimeout + 5*time.Second,
		Description: "Tells the weather in a place now and on the coming days: temperature, rain, wind, sunrise and sunset.",
		Sentences:   forecastSentences,
		Tidy:        append(local.ReplacesEarlier("place", "days"), tool.Strategy{Kind: tool.ByAge, MaxAge: time.Hour}),
		Log:         tool.LogSpec{Summary: "Look up the weather in {place|your place}"}}, f.tool)
}

type forecaster struct{ ForecastOptions }

func (f forecaster) tool(ctx context.Context, in tool.Invocation, a forecastArgs) (string, error) {
	imperial := false
	if f.Profile != nil {
		var home string
		home, imperial = f.Profile(in.User)
		a.Place = cmp.Or(a.Place, home)
	}
	if strings.TrimSpace(a.Place) == "" {
		return "", fault.New(fault.Invalid, "place_missing", "the user's location is unknown").
			WithHint("name the place, or set profile.location in the settings")
	}
	p, err := f.find(ctx, a.Place)
	if err != nil {
		return "", err
	}
	q := url.Values{"latitude": {fmt.Sprint(p.Latitude)}, "longitude": {fmt.Sprint(p.Longitude)}, "timezone": {"auto"}, "forecast_days": {strconv.Itoa(min(cmp.Or(a.Days, 3), maxDays))},
		"current": {"temperature_2m,apparent_temperature,precipitation,weather_code,wind_speed_10m"},
		"daily":   {"weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,precipitation_probability_max,wind_speed_10m_max,sunrise,sunset"}}
	u := units{"°C", "mm", "km/h"}
	if imperial {
		u = units{"°F", "in", "mph"}
		q.Set("temperature_unit", "fahrenheit")
		q.Set("wind_speed_unit", "mph")
		q.Set("precipitation_unit", "inch")
	}
	var w weatherAnswer
	if err := f.get(ctx, f.Forecast, q, &w); err != nil {
		return "", err
	}
	return w.text(p.displayName(), u), nil
}

// place is a place as the geocoding service describes it.
type place struct {
	Name, Admin1, Country string
	Latitude, Longitude   float64
}

func (p place) displayName() string {
	parts := []string{p.Name}
	for _, s := range []string{p.Admin1, p.Country} {
		if s != "" && s != p.Name {
			parts = append(parts, s)
		}
	}
	return strings.Join(strings.Fields(strings.Join(parts, ", ")), " ")
}

// find returns the best known place of a name. The service knows names alone, so that of
// "Portland, Oregon" the first part is looked up, and the rest chooses among the results.
func (f forecaster) find(ctx context.Context, name string) (place, error) {
	first, rest, _ := strings.Cut(name, ",")
	var a struct{ Results []place }
	err := f.get(ctx, f.Places, url.Values{"name": {strings.TrimSpace(first)}, "count": {"10"}, "language": {"en"}, "format": {"json"}}, &a)
	if err != nil {
		return place{}, err
	}
	for _, p := range a.Results {
		if local.HasWords(p.Admin1+" "+p.Country, rest) {
			return p, nil
		}
	}
	if len(a.Results) == 0 {
		return place{}, fault.New(fault.NotFound, "place_unknown", "no place is called %.100q", name).WithHint("write the name of a town, with its country or state after a comma")
	}
	return a.Results[0], nil
}

// units are the units of an answer.
type units struct{ temperature, rain, wind string }

// weatherAnswer is the forecast as the service answers it. A figure may be null.
type weatherAnswer struct {
	Timezone string
	Current  struct {
		Time        string
		Temperature *float64 `json:"temperature_2m"`
		Feels       *float64 `json:"apparent_temperature"`
		Rain        *float64 `json:"precipitation"`
		Code        *int     `json:"weather_code"`
		Wind        *float64 `json:"wind_speed_10m"`
	}
	Daily struct {
		Time            []string
		Code            []*int     `json:"weather_code"`
		Max             []*float64 `json:"temperature_2m_max"`
		Min             []*float64 `json:"temperature_2m_min"`
		Rain            []*float64 `json:"precipitation_sum"`
		Chance          []*float64 `json:"precipitation_probability_max"`
		Wind            []*float64 `json:"wind_speed_10m_max"`
		Sunrise, Sunset []string
	}
}

// text returns the forecast for a model.
func (w weatherAnswer) text(where string, u units) string {
	var b strings.Builder
	c := w.Current
	fmt.Fprintf(&b, "%s, %s (%s): %s, %s (feels like %s), %s in the last quarter of an hour, wind %s.\n", where, moment(c.Time, "Mon 2 Jan 15:04"), w.Timezone,
		weatherWords(c.Code), figure(c.Temperature, u.temperature), figure(c.Feels, u.temperature), figure(c.Rain, " "+u.rain), figure(c.Wind, " "+u.wind))
	d := w.Daily
	for i, day := range d.Time {
		name := day
		if t, err := time.Parse(time.DateOnly, day); err == nil {
			name = t.Format("Mon 2 Jan")
		}
		fmt.Fprintf(&b, "- %s: %s, %s to %s, %s of rain or snow (chance %s), wind up to %s, sun %s to %s\n", name, weatherWords(at(d.Code, i)),
			figure(at(d.Min, i), ""), figure(at(d.Max, i), u.temperature), figure(at(d.Rain, i), " "+u.rain), figure(at(d.Chance, i), " %"), figure(at(d.Wind, i), " "+u.wind),
			moment(at(d.Sunrise, i), "15:04"), moment(at(d.Sunset, i), "15:04"))
	}
	b.WriteString("Weather data by Open-Meteo.com.")
	return b.String()
}

// at returns an element of a list, or the zero value if the list is too short.
func at[T any](list []T, i int) (none T) {
	if i < len(list) {
		return list[i]
	}
	return none
}

func figure(v *float64, unit string) string {
	if v == nil || math.IsInf(*v, 0) || math.IsNaN(*v) {
		return "unknown"
	}
	return strconv.FormatFloat(math.Round(*v*10)/10, 'f', -1, 64) + unit
}

// moment writes a time of the service in another layout.
func moment(text, layout string) string {
	t, err := time.Parse("2006-01-02T15:04", text)
	if err != nil {
		return "unknown"
	}
	return t.Format(layout)
}

// weatherWords returns the words for a weather code of the WMO (code table 4677, as Open-Meteo uses it).
func weatherWords(code *int) string {
	if code == nil {
		return "unknown sky"
	}
	for _, s := range []struct {
		most int
		name string
	}{{0, "clear"}, {1, "mostly clear"}, {2, "partly cloudy"}, {3, "overcast"}, {48, "fog"}, {57, "drizzle"}, {65, "rain"}, {67, "freezing rain"}, {77, "snow"},
		{82, "rain showers"}, {86, "snow showers"}, {99, "thunderstorm"}} {
		if *code >= 0 && *code <= s.most {
			return s.name
		}
	}
	return "unknown sky"
}

// get asks one of the services.
func (f forecaster) get(ctx context.Context, service string, q url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, service+"?"+q.Encode(), nil)
	if err != nil {
		return fault.New(fault.Invalid, "weather_url_invalid", "the address of the weather service is invalid: %w", err).WithHint("correct weather in the settings")
	}
	resp, body, err := local.Ask(f.Transport, req, maxForecast, "weather_unavailable")
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "weather_unavailable", "the weather service %s returned an unexpected answer: %w", req.URL.Host, err).WithHint("try again later")
	}
	return nil
}
