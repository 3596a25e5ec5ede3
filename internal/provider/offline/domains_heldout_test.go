package offline_test

// heldOutDomains were written after the provider's weights had been chosen and
// are looked at as totals only. Do not tune on them: move them to tuningDomains
// and write new ones instead.
var heldOutDomains = []domain{
	{"podcasts", []toolDef{
		{"podcast.subscribe", "Subscribe to a podcast.", []paramDef{req("show", `"type":"string","description":"Name of the podcast"`, "words:Radiolab|The Daily|Science Weekly|Hidden Brain"),
			opt("auto_download", `"type":"boolean","description":"Download new episodes by itself"`, "flag:auto download=true")},
			list("subscribe to {show}|subscribe me to the podcast {show}|follow the podcast {show}[ with {auto_download}]|sign me up for the podcast {show}")},
		{"podcast.play_episode", "Play an episode of a podcast.", []paramDef{
			req("show", `"type":"string","description":"Name of the podcast"`, "words:Radiolab|The Daily|Science Weekly|Hidden Brain"),
			opt("episode", `"type":"integer","minimum":1,"description":"Number of the episode; the newest if left out"`, "int:2:300"),
			opt("speed", `"type":"number","minimum":0.5,"maximum":3,"description":"Playback speed"`, "words2")},
			list("play the latest episode of {show}|play episode {episode} of {show}|start episode {episode} of the podcast {show}|listen to {show}")},
		{"podcast.sleep_timer", "Stop playing after a while.", []paramDef{req("minutes", `"type":"integer","description":"After how many minutes"`, "span:60")},
			list("set the sleep timer to {minutes}|stop playing after {minutes}|set a sleep timer for {minutes}")},
	}},
	{"cars", []toolDef{
		{"rental.search_cars", "Search for rental cars.", []paramDef{
			req("pickup_city", `"type":"string","description":"City where the car is picked up"`, "city"),
			req("from_date", `"type":"string","format":"date","description":"First day"`, "map:July 1=2026-07-01|3 August=2026-08-03|2026-09-10=2026-09-10"),
			req("to_date", `"type":"string","format":"date","description":"Last day"`, "map:July 20=2026-07-20|12 October=2026-10-12|2026-09-30=2026-09-30"),
			opt("category", `"type":"string","enum":["compact","suv","van","convertible"],"description":"Kind of car"`, "words:compact|suv|van|convertible")},
			list("find a rental car in {pickup_city} from {from_date} to {to_date}|search for a {category} in {pickup_city} from {from_date} to {to_date}|=I need a rental car in {pickup_city} from {from_date} until {to_date}|rent a car in {pickup_city} from {from_date} to {to_date}")},
		{"rental.extend", "Extend a rental.", []paramDef{req("contract", `"type":"string","description":"Contract number"`, "code:RC-"),
			req("days", `"type":"integer","minimum":1,"description":"How many days longer"`, "int:2:14")},
			list("extend rental {contract} by {days} days|keep the car of contract {contract} for {days} more days|prolong contract {contract} by {days} days")},
		{"rental.report_damage", "Report damage to a rented car.", []paramDef{req("contract", `"type":"string","description":"Contract number"`, "code:RC-"),
			req("description", `"type":"string","description":"What is broken"`, "quoted:scratch on the left door|flat tire|broken mirror")},
			list("report damage on {contract}: {description}|report {description} for contract {contract}|tell the rental company about {description}, contract {contract}")},
	}},
	{"rooms", []toolDef{
		{"rooms.find_free", "Find a free meeting room.", []paramDef{
			req("start", `"type":"string","format":"date-time","description":"When the meeting begins"`, "datetime"),
			opt("seats", `"type":"integer","description":"How many people must fit in"`, "int:3:30"),
			opt("projector", `"type":"boolean","description":"Whether a projector is needed"`, "flag:projector=true")},
			list("find a free meeting room {start}|which meeting rooms are free {start}?|is there a free room for {seats} people {start}?|look for a meeting room with a {projector} {start}")},
		{"rooms.book", "Book a meeting room.", []paramDef{
			req("room", `"type":"string","description":"Name of the room"`, "words:Mercury|Venus|Jupiter|Saturn"),
			req("start", `"type":"string","format":"date-time","description":"When the meeting begins"`, "datetime"),
			opt("minutes", `"type":"integer","description":"How long, in minutes"`, "span:60"),
			opt("title", `"type":"string","description":"What the meeting is about"`, "quoted:Retro|Quarterly numbers|Onboarding")},
			list("book {room} {start}|reserve the room {room} {start}[ for {minutes}]|book the meeting room {room} {start} for {title}|=I want {room} {start}, book it")},
		{"rooms.release", "Give a booked meeting room back.", []paramDef{req("room", `"type":"string","description":"Name of the room"`, "words:Mercury|Venus|Jupiter|Saturn")},
			list("release the room {room}|free up {room}|=we don't need {room} anymore, release it|give back the meeting room {room}")},
	}},
	{"bakery", []toolDef{
		{"bakery.order_cake", "Order a cake.", []paramDef{
			req("flavor", `"type":"string","enum":["chocolate","vanilla","lemon","carrot"],"description":"Flavor of the cake"`, "words:chocolate|vanilla|lemon|carrot"),
			req("pickup_date", `"type":"string","format":"date","description":"When it will be fetched"`, "date"),
			opt("inscription", `"type":"string","description":"Text on the cake"`, "quoted:Happy Birthday Tom|Congratulations|Welcome home"),
			opt("persons", `"type":"integer","description":"For how many people"`, "int:4:40")},
			list("order a {flavor} cake {pickup_date}|=I'd like a {flavor} cake for {persons} people {pickup_date}|order a {flavor} cake saying {inscription} {pickup_date}|bake a {flavor} cake {pickup_date} with the inscription {inscription}")},
		{"bakery.opening_hours", "Tell when the bakery is open.", []paramDef{opt("date", `"type":"string","format":"date","description":"For which day"`, "date")},
			list("when is the bakery open[ {date}]?|what are the opening hours of the bakery?|is the bakery open {date}?|tell me the bakery's opening hours")},
		{"bakery.cancel_order", "Cancel an order at the bakery.", []paramDef{req("order_number", `"type":"string","description":"Number of the order"`, "code:B")},
			list("cancel my cake order {order_number}|cancel order {order_number} at the bakery|call off the bakery order {order_number}")},
	}},
	{"dictionary", []toolDef{
		{"dictionary.define", "Give the definition of a word.", []paramDef{req("word", `"type":"string","description":"The word"`, "quoted:serendipity|ephemeral|petrichor")},
			list("define {word}|what does {word} mean?|what's the meaning of {word}?|look up the definition of {word}")},
		{"dictionary.synonyms", "List words with the same meaning.", []paramDef{req("word", `"type":"string","description":"The word"`, "quoted:happy|fast|ancient"),
			opt("limit", `"type":"integer","description":"How many at most"`, "int:2:20")},
			list("list synonyms for {word}|give me {limit} synonyms of {word}|find another word for {word}|what are synonyms of {word}?")},
		{"dictionary.spell_check", "Check the spelling of a text.", []paramDef{req("text", `"type":"string","description":"The text"`, "quoted:definately|I recieve mails|neccessary"),
			opt("language", `"type":"string","description":"Language code"`, "map:English=en|German=de|French=fr")},
			list("check the spelling of {text}|is {text} spelled correctly?|spell check {text}[ in {language}]|correct the spelling of {text}")},
	}},
	{"insurance", []toolDef{
		{"insurance.file_claim", "File an insurance claim.", []paramDef{
			req("policy", `"type":"string","description":"Policy number"`, "code:POL"),
			req("amount", `"type":"number","minimum":0,"description":"Damage in euros"`, "int:50:20000"),
			req("date", `"type":"string","format":"date","description":"Day of the damage"`, "map:March 1=2027-03-01|on 2026-02-11=2026-02-11|yesterday=2026-03-03"),
			opt("cause", `"type":"string","enum":["fire","water","theft","storm"],"description":"What caused it"`, "words:fire|water|theft|storm")},
			list("file a claim of {amount} euros on policy {policy} for {date}|file a {cause} claim for policy {policy}, {amount} euros, {date}|claim {amount} euros from policy {policy} for the damage {date}")},
		{"insurance.policy_details", "Show what a policy covers.", []paramDef{req("policy", `"type":"string","description":"Policy number"`, "code:POL")},
			list("show policy {policy}|what does policy {policy} cover?|give me the details of policy {policy}|display the coverage of {policy}")},
		{"insurance.update_address", "Change the address of a policy holder.", []paramDef{
			req("holder", `"type":"string","description":"Name of the policy holder"`, "person"),
			req("address/street", `"type":"string","description":"Street and number"`, "quoted:Oak Street 5|Hill Road 12|Sea View 3"),
			req("address/city", `"type":"string","description":"City"`, "city")},
			list("change the address of {holder} to {address/street} in {address/city}|update {holder}'s address to {address/street}, {address/city}|={holder} moves to {address/street} in {address/city}, update the address")},
	}},
	{"mower", []toolDef{
		{"mower.start", "Let the robot mow the lawn.", []paramDef{opt("zone", `"type":"string","enum":["front","back","side"],"description":"Part of the garden"`, "words:front|back|side"),
			opt("height_mm", `"type":"integer","minimum":20,"maximum":80,"description":"Cutting height in millimeters"`, "int:20:80")},
			list("mow the lawn|start the mower in the {zone} zone|mow the {zone} lawn[ at {height_mm} mm]|let the robot cut the grass")},
		{"mower.dock", "Send the robot back to its charging station.", nil, list("send the mower home|dock the mower|send the robot back to the station|return the mower to its dock")},
		{"mower.schedule", "Set on which days the robot mows.", []paramDef{
			req("days", `"type":"array","items":{"type":"string","enum":["monday","tuesday","wednesday","thursday","friday","saturday","sunday"]},"minItems":1,"description":"Days of the week"`, "days"),
			req("time", `"type":"string","description":"Time of day, HH:MM"`, "clock")},
			list("mow on {days} at {time}|schedule the mower for {days} at {time}|let the robot mow every {days} at {time}")},
	}},
	{"forum", []toolDef{
		{"forum.post", "Post a message in a forum thread.", []paramDef{
			req("thread", `"type":"integer","description":"Number of the thread"`, "int:100:9999"),
			req("message", `"type":"string","description":"Text of the post"`, "quoted:I agree!|Thanks, that worked.|Can you share the logs?")},
			list("post {message} in thread {thread}|reply to thread {thread} with {message}|write {message} in thread {thread}|answer thread {thread}: {message}")},
		{"forum.ban_user", "Ban a user from the forum.", []paramDef{
			req("username", `"type":"string","description":"Login of the user"`, "words:troll_77|spam_bot|max_power"),
			opt("days", `"type":"integer","description":"For how many days; for ever if left out"`, "int:2:60")},
			list("ban {username}|ban the user {username} for {days} days|block {username} from the forum[ for {days} days]|kick {username} out for {days} days")},
		{"forum.search_threads", "Search the threads of the forum.", []paramDef{
			req("query", `"type":"string","description":"Words to look for"`, "words:battery life|wifi problems|firmware update"),
			opt("author", `"type":"string","description":"Who started the thread"`, "person")},
			list("search the forum for {query}|find threads about {query}[ by {author}]|are there any threads about {query}?|look for forum threads on {query}")},
	}},
}
