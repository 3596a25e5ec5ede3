package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/store"
)

// Limits of the screen of the home.
const (
	devicesShown = 200
	homeEvery    = time.Second     // between two looks at the states, which are in memory
	homeWithin   = 2 * time.Second // the screen is shown without devices if connecting takes longer
)

// homeScreen shows the rooms of the home with their devices.
func (v *visit) homeScreen() (content, error) {
	query, shown := v.r.URL.Query().Get("query"), max(devicesShown, v.number("shown"))
	ctx, cancel := context.WithTimeout(v.ctx(), homeWithin)
	defer cancel()
	home, err := v.api().Home(ctx, query, shown)
	main := v.rooms(&home, query, shown)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		main = Div(ID("home"), P(Class("empty"), v.icon("spin"), g.Text(" "+v.t("Connecting to Home Assistant …"))))
	case err != nil:
		main = v.noHome(err)
	}
	live := url.Values{"of": {"home"}, "query": {query}, "shown": {strconv.Itoa(shown)}}
	return content{title: v.t("Home"), nav: "home", live: live.Encode(), main: Div(
		head(v.t("Home"), Form(Data("get", ""), Action("/home"), Role("search"), Class("row"),
			Input(Type("search"), Name("query"), Value(query), Aria("label", v.t("Search devices and rooms")), Placeholder(v.t("Search devices and rooms"))), Button(Type("submit"), g.Text(v.t("Search"))))),
		main)}, nil
}

// noHome says why no devices are shown, and what to do.
func (v *visit) noHome(err error) g.Node {
	if fault.HasCode(err, "home_off") {
		return Div(ID("home"), Class("connect"),
			H2(g.Text(v.t("No home is connected"))),
			P(g.Text(v.t("Steward sees and switches what Home Assistant exposes: lights, plugs, heating, sensors and, each time with your approval, locks and garage doors."))),
			Ol(Li(g.Text(v.t("In Home Assistant, open your profile, go to Security, and create a long-lived access token."))),
				Li(g.Text(v.t("On the computer where Steward runs, type this. It asks for the token:")), Pre(Code(g.Text("steward home connect")))),
				Li(g.Text(v.t("Start Steward again.")))))
	}
	f := fault.Of(err)
	return Div(ID("home"), Div(Class("failure"), Role("alert"), P(ownText(f.Message)), g.If(f.Remedy != "", P(Class("quiet"), ownText(f.Remedy))),
		P(Class("quiet"), g.Text(v.t("Steward keeps trying to reach Home Assistant. The devices are shown again as soon as it answers.")))))
}

func (v *visit) rooms(h *client.Home, query string, shown int) g.Node {
	if len(h.Areas) == 0 {
		if query != "" {
			return Div(ID("home"), empty(v.t("No device fits.")))
		}
		return Div(ID("home"), empty(v.t("Home Assistant exposes no device. Expose some there under Settings, Voice assistants, Expose.")))
	}
	more := h.Total - shown
	next := url.Values{"query": {query}, "shown": {strconv.Itoa(min(1000, shown+devicesShown))}}
	return Div(ID("home"), g.Map(h.Areas, func(a client.HomeArea) g.Node {
		return Section(H2(ownText(cmp.Or(a.Name, v.t("No room")))), Div(Class("devices"), g.Map(a.Devices, func(d client.HomeDevice) g.Node { return v.device(&d) })))
	}), g.If(more > 0 && shown < 1000, P(A(Class("button"), Href("/home?"+next.Encode()), g.Text(v.t("{n} more", strconv.Itoa(more)))))))
}

func deviceID(d *client.HomeDevice) string { return "device-" + d.ID }

// device shows a device: its state, and what can be done with it.
func (v *visit) device(d *client.HomeDevice) g.Node {
	at := deviceID(d)
	actions := slices.Clone(d.Actions)
	if len(d.Modes) > 0 { // off is one of them
		actions = slices.DeleteFunc(actions, func(a string) bool { return a == "turn_on" || a == "turn_off" })
	}
	var toggle g.Node
	if slices.Contains(actions, "turn_on") && slices.Contains(actions, "turn_off") && (d.State == "on" || d.State == "off") {
		actions = slices.DeleteFunc(actions, func(a string) bool { return a == "turn_on" || a == "turn_off" || a == "toggle" })
		next := "turn_on"
		if d.State == "on" {
			next = "turn_off"
		}
		toggle = Button(Type("button"), ID(at+"-switch"), Class("switch"), Role("switch"), Aria("checked", strconv.FormatBool(d.State == "on")), Aria("label", visible(d.Name)),
			Data("do", "home-do"), Data("field-device", d.ID), Data("field-action", next), Span())
	}
	class := "item device"
	if slices.Contains([]string{"on", "open", "unlocked", "heat", "cool", "playing", "opening", "unlocking"}, d.State) {
		class += " lit"
	}
	if d.State == "unavailable" {
		class += " gone"
	}
	return Div(ID(at), Class(class),
		Div(Class("device-head"), Div(Class("names"), P(Class("device-name"), ownText(d.Name), g.If(d.Guard != "" && len(d.Actions) > 0, v.guard(d))), P(Class("says"), g.Text(v.stateWords(d)), g.If(d.Current != 0, g.Text(" · "+strconv.FormatFloat(d.Current, 'f', -1, 64)+"°")))), toggle),
		g.Iff(d.Setting != nil, func() g.Node { return v.slider(d) }),
		g.If(len(d.Modes) > 0, Select(ID(at+"-mode"), Aria("label", v.t("Mode of {name}", visible(d.Name))), Data("change", "home-mode"), Data("field-device", d.ID),
			g.If(!slices.Contains(d.Modes, d.Mode), Option(Value(""), Selected(), g.Text("–"))),
			g.Map(d.Modes, func(m string) g.Node { return choice(m, visible(strings.ReplaceAll(m, "_", " ")), d.Mode) }))),
		g.If(len(actions) > 0, Div(Class("row"), g.Map(actions, func(a string) g.Node {
			return v.button("home-do", v.actionWords(a), "", "device", d.ID, "action", a)
		}))))
}

// guard is the mark of devices that are changed only with an approval.
func (v *visit) guard(d *client.HomeDevice) g.Node {
	label := v.t("Steward asks you each time, because {why}", d.Guard)
	return Span(Class("guard"), Role("img"), Aria("label", label), Title(label), v.icon("hand"))
}

func (v *visit) slider(d *client.HomeDevice) g.Node {
	s := d.Setting
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	unit := " %"
	if s.Name == "temperature" {
		unit = "°"
	} else if d.Kind == "number" || d.Kind == "input_number" {
		unit = ""
	}
	label := map[string]string{"brightness": v.t("Brightness"), "temperature": v.t("Temperature"), "position": v.t("Position"), "value": v.t("Value")}[s.Name]
	if d.Kind == "media_player" {
		label = v.t("Volume")
	}
	return Label(Class("slider"), Span(g.Text(label+" "+number(s.Now)+unit)),
		Input(Type("range"), ID(deviceID(d)+"-range"), Min(number(s.Min)), Max(number(s.Max)), Step(number(s.Step)), Value(number(s.Now)), Data("change", "home-set"), Data("field-device", d.ID), Data("field-name", s.Name)))
}

// stateWords says a state in the person's language, if it is a common one.
func (v *visit) stateWords(d *client.HomeDevice) string {
	words := map[string]string{"on": v.t("on"), "off": v.t("off"), "open": v.t("open"), "closed": v.t("closed"), "locked": v.t("locked"), "unlocked": v.t("unlocked"),
		"not reachable": v.t("not reachable"), "unknown": v.t("unknown"), "can be used": v.t("can be used"), "heat": v.t("heats"), "cool": v.t("cools"), "motion": v.t("motion"), "no motion": v.t("no motion"),
		"armed away": v.t("armed"), "disarmed": v.t("disarmed"), "playing": v.t("plays"), "paused": v.t("paused")}
	return cmp.Or(words[d.Says], visible(d.Says))
}

func (v *visit) actionWords(a string) string {
	words := map[string]string{"turn_on": v.t("Turn on"), "turn_off": v.t("Turn off"), "activate": v.t("Activate"), "run": v.t("Run"), "press": v.t("Press"), "lock": v.t("Lock"), "unlock": v.t("Unlock"),
		"open": v.t("Open"), "close": v.t("Close"), "stop": v.t("Stop"), "start": v.t("Start"), "pause": v.t("Pause"), "play": v.t("Play"), "next": v.t("Next"), "previous": v.t("Previous"),
		"return_to_base": v.t("Back to the base"), "arm_home": v.t("Arm (home)"), "arm_away": v.t("Arm (away)"), "arm_night": v.t("Arm (night)"), "disarm": v.t("Disarm")}
	return cmp.Or(words[a], strings.ReplaceAll(a, "_", " "))
}

// liveHome follows the devices that are shown.
func (v *visit) liveHome() subject {
	query, shown := v.r.URL.Query().Get("query"), max(devicesShown, v.number("shown"))
	return subject{name: "home " + strconv.Itoa(shown) + " " + query, pause: homeEvery, look: func(ctx context.Context, _ cause) ([]patch, time.Duration, error) {
		h, err := v.api().Home(ctx, query, shown)
		if fault.HasCode(err, "home_off") { // until Steward is started again
			return []patch{put("home", "", v.noHome(err))}, 0, nil
		}
		if err != nil {
			return []patch{put("home", "", v.noHome(err))}, homeEvery, ctx.Err()
		}
		var names []string
		list := []patch{put("home", "", v.rooms(&h, query, shown))}
		for _, a := range h.Areas {
			names = append(names, a.Name)
			for _, d := range a.Devices {
				names = append(names, d.ID)
				tile := put(deviceID(&d), "", v.device(&d))
				tile.within = true
				list = append(list, tile)
			}
		}
		list[0].shape = strings.Join(names, "\n") + "\n" + strconv.Itoa(h.Total)
		return list, homeEvery, nil
	}}
}

func (v *visit) homeDo(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Device, Action string }](in)
	if err != nil {
		return nil, err
	}
	return v.homeCommand(client.HomeCommand{Device: x.Device, Action: x.Action})
}

func (v *visit) homeMode(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Device, Value string }](in)
	if err != nil {
		return nil, err
	}
	return v.homeCommand(client.HomeCommand{Device: x.Device, Action: "set", Mode: x.Value})
}

// homeSet sets a number, which a slider says.
func (v *visit) homeSet(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Device, Name, Value string }](in)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseFloat(x.Value, 64)
	if err != nil {
		return nil, badField("value", x.Value)
	}
	whole := int(math.Round(n))
	c := client.HomeCommand{Device: x.Device, Action: "set"}
	switch x.Name {
	case "brightness":
		c.Brightness = &whole
	case "temperature":
		c.Temperature = &n
	case "position":
		c.Action, c.Position = "set_position", &whole
	default:
		c.Value = &n
	}
	return v.homeCommand(c)
}

// command has a device do something. If a person has to decide, the question is shown at once.
func (v *visit) homeCommand(c client.HomeCommand) (*reply, error) {
	done, err := v.api().ControlHome(v.ctx(), c)
	if err != nil {
		return nil, err
	}
	switch done.Status {
	case "ok":
		return &reply{Toast: v.t("Done")}, nil
	case "running":
		return &reply{Toast: v.t("It takes longer. The state here says when it is done.")}, nil
	case "waiting":
		q, err := v.Node.Effects.Question(v.ctx(), store.ForUser(v.caller.User), done.Approval, nil)
		if err != nil {
			return nil, err
		}
		return v.dialog(v.t("Approval"), Div(v.question(&q), Div(Class("row end"), Button(Type("button"), Data("js", "close"), g.Text(v.t("Later")))))), nil
	}
	return nil, fault.New(fault.Conflict, "home_not_done", "%s", done.Text)
}
