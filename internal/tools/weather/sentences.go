package weather

// forecastSentences are the sentences by which people ask for the weather.
var forecastSentences = []string{
	"what's the weather in {place=Graz}",
	"(what is|what's|how is|how's) the weather [like|going to be|looking] [{days:days}] [in {place:place}|for {place:place}|at {place:place}] [{days:days}]",
	"(what will|how will) the weather be [like] [{days:days}] [in {place:place}] [{days:days}]",
	"(what is|what's) the (forecast|weather forecast|temperature) [for {days:days}|{days:days}] [in {place:place}|for {place:place}] [{days:days}]",
	"(will|is) it [going to] (rain|snow|be sunny|be cold|be warm|be hot|be windy|raining|snowing) [{days:days}] [in {place:place}] [{days:days}]",
	"how (warm|cold|hot) (is|will) it [be|get] [{days:days}] [in {place:place}] [{days:days}]",
	"(do|will) i need (an umbrella|a coat|a jacket) [{days:days}] [in {place:place}] [{days:days}]",
	"(show|give|tell|check) [me] the weather [forecast] [{days:days}] [in {place:place}|for {place:place}] [{days:days}]", "check weather [in {place:place}] [{days:days}]",
	"weather [forecast] [in|for] {place:place} [{days:days}]", "weather [forecast] [{days:days}] [in {place:place}]",
	"de: wie wird das Wetter {days:days} in {place:place}",
	"de: wie (ist|wird) das wetter [{days:days}] [in {place:place}] [{days:days}]",
	"de: (regnet|schneit) es [{days:days}] [in {place:place}] [{days:days}]", "de: wird es [{days:days}] [in {place:place}] [{days:days}] (regnen|schneien|warm|kalt|heiß)",
	"de: brauche ich [{days:days}] [in {place:place}] einen (schirm|regenschirm)", "de: wie (warm|kalt|heiß) (ist|wird) es [{days:days}] [in {place:place}] [{days:days}]",
	"de: wetter [in] {place:place} [{days:days}]", "de: wetter [{days:days}]", "de: (zeig|zeige|sag|sage) [mir] das wetter [{days:days}] [in {place:place}]",
}
