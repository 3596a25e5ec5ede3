package web

// The sentences by which people ask for the web.
var (
	fetchSentences = []string{
		"read {url:url}",
		"(read|open|fetch|show|get|visit|go to|load) [me] [the] [page|website|site|article|link] [at] {url:url}", "(what is|what's|what does it say) (on|at) {url:url}", "what does {url:url} say",
		"de: lies {url:url}",
		"de: (lies|lese|öffne|zeig|zeige|lade|hol|hole) [mir] [die|den] [seite|artikel|webseite] {url:url}", "de: was steht auf {url:url}",
	}
	searchSentences = []string{
		"search the web for {query=mountain huts}",
		"(search|look on|check) [the] (web|internet|net) for {query:any}", "(look up|search for|look for|find) {query:any} (on the web|on the internet|online)", "(search|look) online for {query:any}",
		"(google|websearch) [for] {query:any}", "web search [for] {query:any}", "look up {query:any}",
		"de: such im Internet nach {query=Berghütten}",
		"de: (such|suche|schau) (im internet|im web|im netz|online) nach {query:any}", "de: (such|suche) [nach] {query:any} (im internet|im web|im netz|online)", "de: (google|googel) [nach] {query:any}",
	}
)
