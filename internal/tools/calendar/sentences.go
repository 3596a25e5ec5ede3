package calendar

// The sentences by which people ask for the calendar.
var (
	addSentences = []string{
		"add {title=dentist} to my calendar {start:moment}",
		"(add|put|enter|book) [a|an|the] {title} (to|in|on|into) [my|the] calendar {start:moment} [for {duration_minutes:minutes}]",
		"(add|put|enter|book) [a|an|the] {title} {start:moment} (to|in|on|into) [my|the] calendar",
		"(add|put|enter|book) [a|an|the] {title} (to|in|on|into) [my|the] calendar {start:date} => all_day=true",
		"(add|put|enter|book) [a|an|the] {title} {start:date} (to|in|on|into) [my|the] calendar => all_day=true",
		"schedule [a|an|the] {title} {start:moment} [for {duration_minutes:minutes}]",
		"(add|create|make) (a calendar entry|an event|the event|an appointment|a calendar event) [for|called|named] [a|an|the] {title} {start:moment} [for {duration_minutes:minutes}]",
		"(add|create|make) (a calendar entry|an event|an appointment|a calendar event) [for|called|named] [a|an|the] {title} {start:date} => all_day=true",
		"i have [a|an|the] {title} {start:moment} [and|so] [can you|could you] (add|put) (it|that|this) (to|on|in|into) [my|the] calendar",
		"i have [a|an|the] {title} {start:date} [and|so] [can you|could you] (add|put) (it|that|this) (to|on|in|into) [my|the] calendar => all_day=true",
		"de: trag {start:moment} {title=Friseur} in den Kalender ein",
		"de: (trag|trage) {start:moment} [den|die|das|einen|eine|ein] {title} ein", "de: (trag|trage) [den|die|das|einen|eine|ein] {title} {start:moment} ein",
		"de: (trag|trage|schreib|schreibe|setz|setze) {start:moment} [den|die|das|einen|eine|ein] {title} (in|im) (den|meinen|meinem) kalender [ein]",
		"de: (trag|trage|schreib|schreibe|setz|setze) [den|die|das|einen|eine|ein] {title} {start:moment} (in|im) (den|meinen|meinem) kalender [ein]",
		"de: (trag|trage|schreib|schreibe|setz|setze) [den|die|das|einen|eine|ein] {title} {start:date} in (den|meinen) kalender [ein] => all_day=true",
		"de: (trag|trage|schreib|schreibe|setz|setze) {start:date} [den|die|das|einen|eine|ein] {title} in (den|meinen) kalender [ein] => all_day=true",
		"de: [ein|einen] (neuer|neuen) termin {start:moment} {title}",
	}
	listSentences = []string{
		"what is on my calendar {date:date}",
		"(what is|what's) (on|in) [my|the] (calendar|schedule) [this week|for {date+until:span}|{date+until:span}]",
		"what do i have [on|planned|scheduled|going on] this week", "(what is|what's) (on|happening|going on|planned|coming up) this week", "(when is|what is|what's) my next (appointment|meeting|event)",
		"what do i have [on|planned|scheduled|going on] {date+until:span}", "what do i have (planned|scheduled|going on|on) {date+until:span}",
		"do i have (anything|something|any meetings|any appointments|any events|a meeting|an appointment) [on|planned|scheduled] {date+until:span}",
		"(show|list) [me] [all] [my|the] (calendar|events|appointments|meetings|schedule) [for {date+until:span}|{date+until:span}]",
		"(what|which) (appointments|meetings|events) do i have [{date+until:span}]", "(what is|what's) my schedule [like] [for] {date+until:span}",
		"(what is|what's) (planned|scheduled) [for] {date+until:span}", "(what is|what's) (on|happening|going on) [in my calendar] {date+until:span}",
		"de: was steht {date:date} in meinem Kalender",
		"de: was (steht|ist) [{date+until:span}] (in meinem|im) kalender [{date+until:span}]", "de: was habe ich diese woche [vor]", "de: was steht diese woche an", "de: (wann|was) ist mein nächster termin", "de: was habe ich {date+until:span} [vor]", "de: was steht {date+until:span} an",
		"de: (welche|was für) termine habe ich [{date+until:span}]", "de: (habe|hab) ich {date+until:span} [einen|irgendeinen|irgendwelche] (termin|termine|etwas vor|was vor)",
		"de: (zeig|zeige) [mir] (meine|alle|die) termine [{date+until:span}]", "de: (zeig|zeige) [mir] (meinen|den) kalender [für {date+until:span}|{date+until:span}]",
	}
	freeSentences = []string{
		"am I free {date+from+to:hour}",
		"am i (free|busy|available) {date+from+to:hour}", "am i (free|busy|available) {date:date}", "do i have [any|free] time {date+from+to:hour}", "do i have [any|free] time {date:date}",
		"when am i free {date:date}",
		"de: habe ich {date+from+to:hour} Zeit",
		"de: (habe|hab) ich {date+from+to:hour} [noch] (zeit|frei|was vor|etwas vor|einen termin)", "de: (habe|hab) ich {date:date} [noch] (zeit|frei)",
		"de: bin ich {date+from+to:hour} [noch] frei", "de: bin ich {date:date} [noch] frei", "de: wann (habe ich|bin ich) {date:date} (zeit|frei)",
	}
	searchSentences = []string{
		"when is my {query=dentist appointment}",
		"when is my [next] {query}", "when do i have [my|the] {query}", "(search|look in) [my|the] calendar for [my|the] {query:any}", "(find|look up) [my|the] {query} in [my|the] calendar",
		"de: wann ist mein {query=Zahnarzttermin}",
		"de: wann (ist|habe ich) (mein|meine|den|die|das) [nächster|nächste|nächstes] {query}", "de: (such|suche) [in] (meinem|im) kalender nach {query:any}",
	}
	moveSentences = []string{
		"move {event=the dentist} to {start:moment}",
		"(move|reschedule|postpone) [my|the] [event|meeting|appointment] {event} to {start:moment}",
		"de: verschieb {event=den Zahnarzt} auf {start:moment}",
		"de: (verschieb|verschiebe|verleg|verlege) [den|die|das|meinen|meine|mein] {event} auf {start:moment}",
	}
	removeSentences = []string{
		"remove {event=dentist} from my calendar",
		"(remove|delete|cancel) [the|my] {event} (from|in) [my|the] calendar", "(remove|delete|cancel) (the|my) {event} (meeting|appointment|event)",
		"(remove|delete|cancel) [the|my] (meeting|appointment|event) [with|called|named|about] [the] {event}",
		"de: lösche {event=Friseur} aus meinem Kalender",
		"de: (lösch|lösche|entfern|entferne|streich|streiche) [den|die|das|meinen|meine|mein] {event} aus (dem|meinem) kalender", "de: (lösch|lösche) [den|meinen] termin {event}",
	}
)
