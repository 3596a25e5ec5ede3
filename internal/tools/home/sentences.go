package home

// The sentences by which people ask for the home. Which device a name means is decided by the tools: a name
// that fits several is answered with the candidates.
var (
	listSentences = []string{
		"which lights are there in the {area=kitchen} => kind=light",
		"(show|list) [me] [all] [my|the] devices [in my home|at home]", "(which|what) devices (do i have|are there) [in my home|at home]",
		"(show|list) [me] [all] [my|the] devices in the {area:label}", "(which|what) devices are [there] in the {area:label}",
		"(which|what) lights are [there] in the {area:label} => kind=light", "(which|what) scenes (are there|do i have) => kind=scene", "(show|list) [me] [all] [my|the] scenes => kind=scene",
		"de: welche Lampen gibt es in der {area=Küche} => kind=light",
		"de: (zeig|zeige) [mir] [alle|meine|die] geräte [zu hause]", "de: welche geräte (habe ich|gibt es) [zu hause]",
		"de: welche geräte (gibt es|sind) (in der|im) {area:label}", "de: welche (lampen|lichter) gibt es (in der|im) {area:label} => kind=light", "de: welche szenen (gibt es|habe ich) => kind=scene",
	}
	stateSentences = []string{
		"is the {device=front door} locked => kind=lock",
		"is the {device:label} (locked|unlocked) [now] => kind=lock",
		"is the {device:label} (open|closed|shut) [now] => kind=door",
		"is the {device:label} in the {area:label} (on|off|locked|open|closed) [now]",
		"is the {device:label} (on|off) [now]", "is the {device:label} turned (on|off) [now]",
		"what is the temperature in the {area=bath} => device=temperature",
		"(what is|what's) the temperature in the {area:label} [now] => device=temperature", "how (warm|cold) is it in the {area:label} [now] => device=temperature",
		"(what is|what's) the humidity in the {area:label} [now] => device=humidity",
		"de: ist die {device=Haustür} abgeschlossen => kind=lock",
		"de: ist (die|das|der) {device:label} (abgeschlossen|zugesperrt|verriegelt|abgesperrt) => kind=lock",
		"de: ist (die|das|der) {device:label} (offen|zu|geschlossen) => kind=door",
		"de: ist (die|das|der) {device:label} (an|aus|eingeschaltet|ausgeschaltet)",
		"de: wie (warm|kalt) ist es (im|in der) {area:label} => device=temperature", "de: (wie ist|was ist) die temperatur (im|in der) {area:label} => device=temperature",
		"de: wie (ist|hoch ist) die luftfeuchtigkeit (im|in der) {area:label} => device=humidity",
	}
	controlSentences = []string{
		"turn on the {device=kitchen light} => action=turn_on",
		"(turn|switch) on [the|my] {device:label} => action=turn_on", "(turn|switch) (the|my) {device:label} on => action=turn_on",
		"(turn|switch) off [the|my] {device:label} => action=turn_off", "(turn|switch) (the|my) {device:label} off => action=turn_off",
		"(turn|switch) on the {device:label} in the {area:label} => action=turn_on", "(turn|switch) off the {device:label} in the {area:label} => action=turn_off",
		"(turn|switch) on all [the] lights in the {area:label} => action=turn_on, device=lights, all=true", "(turn|switch) off all [the] lights in the {area:label} => action=turn_off, device=lights, all=true",
		"(dim|set) [the|my] {device:label} to {brightness:number} percent => action=set",
		"set [the|my] {device:label} to {temperature:number} degrees => action=set",
		"(activate|start) the scene {device:label} => action=activate", "(activate|start) the {device:label} scene => action=activate",
		"de: schalte {device=das Küchenlicht} ein => action=turn_on",
		"de: (schalt|schalte|mach|mache) [den|die|das|mein|meine|meinen] {device:label} (ein|an) => action=turn_on",
		"de: (schalt|schalte|mach|mache) [den|die|das|mein|meine|meinen] {device:label} (aus|ab) => action=turn_off",
		"de: (schalt|schalte|mach|mache) (den|die|das) {device:label} (im|in der) {area:label} (ein|an) => action=turn_on",
		"de: (schalt|schalte|mach|mache) (den|die|das) {device:label} (im|in der) {area:label} (aus|ab) => action=turn_off",
		"de: (dimm|dimme) (den|die|das) {device:label} auf {brightness:number} prozent => action=set",
		"de: (stell|stelle) (den|die|das) {device:label} auf {temperature:number} grad => action=set",
	}
	accessSentences = []string{
		"lock the {device=front door} => action=lock",
		"lock the {device:label} => action=lock", "unlock the {device:label} => action=unlock",
		"de: schließ {device=die Haustür} ab => action=lock",
		"de: (schließ|schließe|sperr|sperre) (den|die|das) {device:label} (ab|zu) => action=lock", "de: (schließ|schließe|sperr|sperre) (den|die|das) {device:label} auf => action=unlock",
	}
)
