package reminder

// The sentences by which people ask for reminders and timers.
var (
	setReminder = []string{
		"remind me to {text=call mum} in {in_minutes:minutes}",
		"remind me [to|about|of|that] {text} (in {in_minutes:minutes}|{at:when})",
		"remind me (in {in_minutes:minutes}|{at:when}) [to|about|of|that] {text}",
		"(set|create|add|make) [me] a reminder [to|about|of|that|for] {text} (in {in_minutes:minutes}|{at:when})",
		"(set|create|add|make) [me] a reminder (in {in_minutes:minutes}|[for] {at:when}) [to|about|of|that|for] {text}",
		"don't let me forget [to] {text} (in {in_minutes:minutes}|{at:when})",
		"in {in_minutes:minutes} remind me [to|about|of|that] {text}",
		"i need a reminder [to|about|of|that|for] {text} (in {in_minutes:minutes}|{at:when})",
		"(don't forget|do not forget|remember) to remind me [to|about|of|that] {text} (in {in_minutes:minutes}|{at:when})",
		"reminder [to|about|for] {text} (in {in_minutes:minutes}|{at:when})",
		"(set|create|make) [me] [an|the] alarm (in {in_minutes:minutes}|[for] {at:waking}) => text=Alarm", "alarm (in {in_minutes:minutes}|[for] {at:waking}) => text=Alarm",
		"wake me [up] (in {in_minutes:minutes}|{at:waking}) => text=Wake up",
		"remind me (every day|each day|daily) {at:time} [to|about|of] {text} => repeat=daily",
		"remind me [to|about|of] {text} (every day|each day|daily) {at:time} => repeat=daily",
		"remind me (every weekday|on weekdays) {at:time} [to|about|of] {text} => repeat=weekdays",
		"remind me [to|about|of] {text} (every weekday|on weekdays) {at:time} => repeat=weekdays",
		"remind me every {at:weekly} [to|about|of] {text} => repeat=weekly", "remind me [to|about|of] {text} every {at:weekly} => repeat=weekly",
		"de: erinnere mich in {in_minutes:minutes} daran, {text=Mama anzurufen}",
		"de: erinner mich (in {in_minutes:minutes}|{at:when}) [daran|an] [den|die|das|meinen|meine|mein|dass] {text}",
		"de: erinnere mich (in {in_minutes:minutes}|{at:when}) [daran|an] [den|die|das|meinen|meine|mein|dass] {text}",
		"de: erinnere mich (daran|an) [den|die|das|meinen|meine|mein] {text} (in {in_minutes:minutes}|{at:when})",
		"de: erinnere mich daran (in {in_minutes:minutes}|{at:when}) {text}",
		"de: mich (in {in_minutes:minutes}|{at:when}) daran erinnern {text}",
		"de: mich (in {in_minutes:minutes}|{at:when}) an [den|die|das|meinen|meine|mein] {text} erinnern",
		"de: (stell|stelle|setz|setze) [mir] [den|einen] wecker [auf|für] {at:waking} => text=Wecker",
		"de: (weck|wecke) mich (in {in_minutes:minutes}|{at:waking}) [auf] => text=Aufwachen",
		"de: erinnerung [an] [den|die|das|meinen|meine|mein] {text} (in {in_minutes:minutes}|{at:when})",
		"de: (erinnere|erinner) mich (jeden tag|täglich) {at:time} [daran|an] [den|die|das|meinen|meine|mein] {text} => repeat=daily",
		"de: (erinnere|erinner) mich jeden {at:weekly} [daran|an] [den|die|das|meinen|meine|mein] {text} => repeat=weekly",
	}
	listReminders = []string{
		"show my reminders",
		"(show|list) [me] [all] [my|the] reminders",
		"(what|which) reminders (do i have|are set|are there)",
		"what are my reminders", "when is my next reminder", "(what is|what's) my next reminder", "do i have [any] reminders", "my reminders",
		"de: zeig mir meine Erinnerungen",
		"de: (zeig|zeige) [mir] [alle|die|meine] erinnerungen", "de: welche erinnerungen (habe ich|gibt es) [noch]", "de: meine erinnerungen",
	}
	cancelReminder = []string{
		"cancel the reminder about {which=the rent}",
		"(cancel|delete|remove) [my|the] reminder (about|to|for|of) [the|my] {which}",
		"(cancel|delete|remove) [my|the] {which:label} reminder",
		"(cancel|delete|remove) (my|the) reminder",
		"de: lösche die Erinnerung an {which=die Miete}",
		"de: (lösch|lösche|streich|streiche) (die|meine) erinnerung [an] [den|die|das|meinen|meine] {which}", "de: (lösch|lösche) (die|meine) erinnerung",
	}
	setTimer = []string{
		"set a timer for {seconds:seconds}",
		"(set|start|create|make) [me] [a|the] timer (for|of) {seconds:seconds} [for [the|my] {name:label}|(called|named) {name:label}]",
		"(set|start|create|make) [me] [a|an] {seconds:seconds} timer [for [the|my] {name:label}|(called|named) {name:label}]",
		"(set|start|create|make) [me] [a|an|the] {name:label} timer (for|of) {seconds:seconds}",
		"(set|start|create|make) [me] [a] timer (called|named) {name:label} for {seconds:seconds}",
		"(set|start|create|make) [me] [a] timer for [the|my] {name:label} (for|of) {seconds:seconds}",
		"(start|begin) a countdown (of|for) {seconds:seconds}",
		"timer [for] {seconds:seconds}", "[a] {seconds:seconds} timer [for [the|my] {name:label}]",
		"de: stell einen Timer auf {seconds:seconds}",
		"de: (stell|stelle|setz|setze|start|starte|mach) [mir] [einen|den] timer (auf|für|von|über|mit) {seconds:seconds} [für (den|die|das) {name:label}]",
		"de: (stell|stelle|setz|setze|start|starte|mach) [mir] [einen|den] timer für (den|die|das) {name:label} (auf|von) {seconds:seconds}",
		"de: (einen|den) timer (auf|für|von) {seconds:seconds} [stellen|starten|setzen]",
		"de: timer [auf|für|von] {seconds:seconds}",
	}
	listTimers = []string{
		"how much time is left on the timer",
		"how (much time|long) is left [on (the|my) (timer|timers)]", "how long (will|does) the timer [still] run",
		"(what|which) timers (are running|are set|do i have|are there)", "(show|list) [me] [all] [my|the] timers", "is (a|the|my) timer running", "my timers",
		"de: wie lange läuft der Timer noch",
		"de: wie lange (läuft|geht) (der|mein) timer [noch]", "de: welche timer (laufen|habe ich) [gerade|noch]", "de: wie viel zeit ist noch [übrig]", "de: (zeig|zeige) [mir] [alle|die|meine] timer",
	}
	cancelTimer = []string{
		"cancel the timer",
		"(cancel|stop|delete|end) [my|the] timer", "(cancel|stop|delete|end) [my|the] {which:label} timer", "(cancel|stop|delete|end) [my|the] timer [called|named|for] [the|my] {which:label}",
		"de: stopp den Timer",
		"de: (stopp|stoppe|stop|lösch|lösche|beende) (den|meinen) timer", "de: brich den timer ab",
	}
)
