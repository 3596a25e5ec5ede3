package weather

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Answers as open-meteo.com/en/docs and …/docs/geocoding-api show them.
const (
	vienna = `{"results":[{"id":2761369,"name":"Vienna","latitude":48.20849,"longitude":16.37208,"elevation":171.0,"country_code":"AT","timezone":"Europe/Vienna","country":"Austria","admin1":"Vienna"},` +
		`{"id":4791160,"name":"Vienna","latitude":38.90122,"longitude":-77.26526,"country":"United States","admin1":"Virginia"}],"generationtime_ms":0.7}`
	days = `{"latitude":48.2,"longitude":16.38,"timezone":"Europe/Vienna","current_units":{"time":"iso8601"},"current":{"time":"2026-11-24T02:15","interval":900,"temperature_2m":3.25,"apparent_temperature":-0.4,"precipitation":0.00,"weather_code":3,"wind_speed_10m":14.8},` +
		`"daily":{"time":["2026-11-24","2026-11-25"],"weather_code":[61,95],"temperature_2m_max":[7.1,6.0],"temperature_2m_min":[2.0,null],"precipitation_sum":[1.2,0.0],"precipitation_probability_max":[80,10],"wind_speed_10m_max":[20.1,9],"sunrise":["2026-11-24T07:15","2026-11-25T07:16"],"sunset":["2026-11-24T16:06","2026-11-25T16:05"]}}`
)

func forecast(t *testing.T, home string, imperial bool, serve http.HandlerFunc, args string) (string, error) {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	k := local.NewKit(tool.Env{Name: "weather"}, "domain:weather")
	AddForecast(k, ForecastOptions{Transport: http.DefaultTransport, Forecast: s.URL + "/v1/forecast", Places: s.URL + "/v1/search",
		Profile: func(string) (string, bool) { return home, imperial }})
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	res, err := list[0].Call(t.Context(), tool.Invocation{Args: json.RawMessage(args), User: "ann"})
	if err != nil {
		return "", err
	}
	return res.Content[0].(*message.Text).Text, nil
}

func TestForecast(t *testing.T) {
	var asked []string
	serve := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.FormValue("name")+r.FormValue("latitude")+" "+r.FormValue("forecast_days")+r.FormValue("temperature_unit"))
		io.WriteString(w, map[bool]string{true: vienna, false: days}[r.URL.Path == "/v1/search"]) //nolint:errcheck // the caller may be gone
	}
	got, err := forecast(t, "Vienna, Austria", false, serve, `{}`)
	want := "Vienna, Austria, Tue 24 Nov 02:15 (Europe/Vienna): overcast, 3.3°C (feels like -0.4°C), 0 mm in the last quarter of an hour, wind 14.8 km/h.\n" +
		"- Tue 24 Nov: rain, 2 to 7.1°C, 1.2 mm of rain or snow (chance 80 %), wind up to 20.1 km/h, sun 07:15 to 16:06\n" +
		"- Wed 25 Nov: thunderstorm, unknown to 6°C, 0 mm of rain or snow (chance 10 %), wind up to 9 km/h, sun 07:16 to 16:05\n" +
		"Weather data by Open-Meteo.com."
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	got, err = forecast(t, "", true, serve, `{"place":"Vienna, Virginia","days":7}`)
	if err != nil || !strings.HasPrefix(got, "Vienna, Virginia, United States, ") || !strings.Contains(got, "3.3°F") || !strings.Contains(got, "mph") {
		t.Errorf("%v %s", err, got)
	}
	if want := "Vienna |48.20849 3|Vienna |38.90122 7fahrenheit"; strings.Join(asked, "|") != want {
		t.Errorf("asked %q, want %q", strings.Join(asked, "|"), want)
	}
}

func TestAForecastThatCannotBeHad(t *testing.T) {
	for args, c := range map[string]struct{ code, answer string }{
		`{}`:              {"place_missing", ""},
		`{"place":"Xyz"}`: {"place_unknown", `{"generationtime_ms":0.5}`},
		`{"place":"X"}`:   {"weather_unavailable", `<html>`},
		`{"place":"Y"}`:   {"weather_unavailable", strings.Repeat(" ", maxForecast) + "{}"},
	} {
		_, err := forecast(t, "", false, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.answer) }, args) //nolint:errcheck // the caller may be gone
		if !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
			t.Errorf("%s: %v, want %s", args, err, c.code)
		}
	}
	if _, err := forecast(t, "", false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, `{"place":"X"}`); !fault.HasCode(err, "weather_unavailable") {
		t.Error(err)
	}
}
