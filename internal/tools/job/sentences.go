package job

// The sentences by which people ask for jobs.
var (
	createJob = []string{
		"every weekday {at:waking=at 7:00} tell me {text=what is in my mail} => every=weekday",
		"(every weekday|on weekdays) {at:waking} [please] (tell|show) me {text} => every=weekday",
		"(every day|each day|daily) {at:waking} [please] (tell|show) me {text} => every=day",
		"de: (sag|sage|zeig|zeige) mir jeden Tag {at:waking} {text=was in meiner Post ist} => every=day",
		"de: jeden Tag {at:waking} (sag|sage|zeig|zeige) mir {text} => every=day",
		"de: (sag|sage|zeig|zeige) mir (jeden Werktag|werktags) {at:waking} {text} => every=weekday",
	}
	listJobs = []string{
		"show my jobs",
		"(show|list) [me] [all] [my|the] jobs",
		"(what|which) jobs (do i have|are there|are set)",
		"de: zeige meine Aufträge",
	}
)
