package offline_test

// tuningDomains are those on which the provider's weights were chosen.
var tuningDomains = []domain{
	{"lamps", []toolDef{
		{"lamps.switch_on", "Switch on the lamp of a room.", []paramDef{req("room", `"type":"string","description":"Name of the room"`, "room")},
			list("turn on the {room} lamp|switch on the light in the {room}|turn the lamp in the {room} on|switch the {room} light on")},
		{"lamps.switch_off", "Switch off the lamp of a room.", []paramDef{req("room", `"type":"string","description":"Name of the room"`, "room")},
			list("turn off the {room} lamp|switch off the light in the {room}|turn the lamp in the {room} off|switch the {room} light off")},
		{"lamps.set_brightness", "Set how bright a lamp shines.", []paramDef{
			req("room", `"type":"string","description":"Name of the room"`, "room"),
			req("level", `"type":"integer","minimum":0,"maximum":100,"description":"Brightness in percent"`, "int:5:100")},
			list("set the brightness of the {room} lamp to {level} percent|dim the {room} lamp to {level}%|set the lamp in the {room} to {level} percent brightness|change the {room} lamp's brightness to {level}%")},
		{"lamps.set_color", "Change the color of a lamp.", []paramDef{
			req("room", `"type":"string","description":"Name of the room"`, "room"),
			req("color", `"type":"string","enum":["red","green","blue","warm white","yellow"],"description":"The new color"`, "words:red|green|blue|warm white|yellow")},
			list("make the {room} lamp {color}|change the color of the {room} lamp to {color}|set the {room} light to {color}|turn the lamp in the {room} {color}")},
	}},
	{"parcels", []toolDef{
		{"parcels.track", "Find out where a parcel is.", []paramDef{req("tracking_number", `"type":"string","description":"The carrier's tracking number"`, "code:PX")},
			list("where is my parcel {tracking_number}?|track the parcel {tracking_number}|what's the status of package {tracking_number}?|locate shipment {tracking_number}")},
		{"parcels.ship", "Ship a parcel to somebody.", []paramDef{
			req("recipient", `"type":"string","description":"Who gets the parcel"`, "person"),
			req("weight_kg", `"type":"number","description":"Weight in kilograms"`, "dec:1:30"),
			opt("express", `"type":"boolean","description":"Whether to deliver overnight"`, "flag:express=true"),
			req("city", `"type":"string","description":"City to which it goes"`, "city")},
			list("ship a {weight_kg} kg parcel to {recipient} in {city}|send a package of {weight_kg} kilograms to {recipient} in {city}[ by {express}]|ship a parcel weighing {weight_kg} kg to {recipient} in {city}")},
		{"parcels.schedule_pickup", "Have the courier collect parcels at an address.", []paramDef{
			req("address", `"type":"string","description":"Street address of the pickup"`, "quoted:12 Hill Road|5 Lake Street|77 Market Square"),
			req("date", `"type":"string","format":"date","description":"Day of the pickup"`, "date")},
			list("schedule a pickup at {address} {date}|arrange a parcel pickup {date} at {address}|have the courier pick up my parcels at {address} {date}")},
	}},
	{"recipes", []toolDef{
		{"recipes.search", "Search the cookbook for recipes.", []paramDef{
			req("query", `"type":"string","description":"What to look for"`, "words:lasagna|pumpkin soup|vegan curry|apple pie|fish tacos"),
			opt("max_minutes", `"type":"integer","description":"Longest cooking time in minutes"`, "int:10:90")},
			list("find a recipe for {query}|search recipes for {query}[ under {max_minutes} minutes]|look for a {query} recipe|find me recipes for {query} that take at most {max_minutes} minutes")},
		{"recipes.scale", "Scale a recipe to another number of servings.", []paramDef{
			req("recipe", `"type":"string","description":"Title of the recipe"`, "quoted:Grandma's Stew|Green Pancakes|Sunday Roast"),
			req("servings", `"type":"integer","minimum":1,"description":"Number of servings wanted"`, "int:2:24")},
			list("scale the recipe {recipe} to {servings} servings|scale {recipe} for {servings} people|adjust recipe {recipe} to {servings} servings")},
		{"recipes.add_to_shopping_list", "Put ingredients on the shopping list.", []paramDef{
			req("items", `"type":"array","items":{"type":"string"},"minItems":1,"description":"The ingredients"`, "items:milk|eggs|bread|butter|tomatoes|olive oil|brown sugar")},
			list("add {items} to my shopping list|put {items} on the shopping list")},
	}},
	{"invoices", []toolDef{
		{"invoices.create", "Create an invoice for a customer.", []paramDef{
			req("customer", `"type":"string","description":"Name of the customer"`, "person"),
			req("amount", `"type":"number","description":"Amount to be paid"`, "int:20:9000"),
			opt("currency", `"type":"string","enum":["EUR","USD","GBP"],"description":"Currency of the amount"`, "map:euros=EUR|dollars=USD|pounds=GBP"),
			opt("due_date", `"type":"string","format":"date","description":"When it is due"`, "date")},
			list("create an invoice for {customer} over {amount} {currency}|bill {customer} {amount} {currency}|make a new invoice of {amount} {currency} for {customer}[ due {due_date}]|invoice {customer} for {amount} {currency}")},
		{"invoices.mark_paid", "Mark an invoice as paid.", []paramDef{req("invoice_id", `"type":"string","description":"Number of the invoice"`, "code:INV-")},
			list("mark invoice {invoice_id} as paid|set invoice {invoice_id} to paid")},
		{"invoices.list_overdue", "List the invoices that are overdue.", []paramDef{opt("limit", `"type":"integer","description":"How many at most"`, "int:2:20")},
			list("show all overdue invoices|which invoices are overdue?|list {limit} overdue invoices|list the overdue invoices")},
	}},
	{"calculator", []toolDef{
		{"math.multiply", "Multiply two numbers.", []paramDef{req("a", `"type":"number"`, "int:2:999"), req("b", `"type":"number"`, "dec:1:50")},
			list("multiply {a} by {b}|what is {a} times {b}?|what's {a} * {b}?|compute {a} x {b}|calculate the product of {a} and {b}")},
		{"math.add", "Add two numbers.", []paramDef{req("a", `"type":"number"`, "int:2:5000"), req("b", `"type":"number"`, "int:2:5000")},
			list("add {a} and {b}|what is {a} plus {b}?|what's {a} + {b}?|calculate the sum of {a} and {b}")},
		{"math.subtract", "Subtract the second number from the first.", []paramDef{req("a", `"type":"number"`, "int:100:999"), req("b", `"type":"number"`, "int:2:99")},
			list("what is {a} minus {b}?|subtract {b} from {a}|calculate {a} - {b}")},
		{"math.divide", "Divide one number by another.", []paramDef{req("dividend", `"type":"number"`, "int:100:999"), req("divisor", `"type":"number"`, "int:2:99")},
			list("divide {dividend} by {divisor}|what is {dividend} divided by {divisor}?|compute {dividend} / {divisor}")},
		{"math.average", "Average of a list of numbers.", []paramDef{req("numbers", `"type":"array","items":{"type":"number"},"description":"The numbers"`, "ints")},
			list("what's the average of {numbers}?|average {numbers}|calculate the mean of {numbers}")},
	}},
	{"calendar", []toolDef{
		{"calendar.create_event", "Create an event in the calendar.", []paramDef{
			req("title", `"type":"string","description":"What the event is called"`, "quoted:Team lunch|Budget review|Dentist|Yoga class"),
			req("start", `"type":"string","format":"date-time","description":"When it begins"`, "datetime"),
			opt("duration_minutes", `"type":"integer","description":"How long it lasts, in minutes"`, "span:60"),
			opt("attendees", `"type":"array","items":{"type":"string"},"description":"Who else comes"`, "people")},
			list("create an event {title} {start}|schedule {title} {start}[ for {duration_minutes}]|put {title} in my calendar {start}|add an event called {title} {start} with {attendees}")},
		{"calendar.delete_event", "Delete an event from the calendar.", []paramDef{req("title", `"type":"string","description":"Title of the event"`, "quoted:Team lunch|Budget review|Dentist|Yoga class")},
			list("delete the event {title}|remove {title} from my calendar|cancel the event {title}")},
		{"calendar.list_day", "List what is in the calendar on a day.", []paramDef{req("date", `"type":"string","format":"date","description":"The day"`, "date")},
			list("what's on my calendar {date}?|show my calendar {date}|list my events {date}|what events do I have {date}?")},
	}},
	{"notes", []toolDef{
		{"notes.create", "Write a note.", []paramDef{
			req("text", `"type":"string","description":"What the note says"`, "words:buy new tires|the plumber comes on the third floor|call the landlord about the heating|wifi password is on the fridge"),
			opt("tag", `"type":"string","description":"A tag to find it by"`, "words:home|work|ideas")},
			list("make a note: {text}|write a note saying {text}|take a note: {text}")},
		{"notes.search", "Search the notes.", []paramDef{req("query", `"type":"string","description":"Words to look for"`, "words:landlord|holiday plans|tax return|wifi password")},
			list("search my notes for {query}|find notes about {query}|look for {query} in my notes|do I have notes about {query}?")},
		{"notes.remind", "Remind the user of something at a time.", []paramDef{
			req("task", `"type":"string","description":"What to remind of"`, "words:call mom|take out the trash|water the tomatoes|send the report"),
			req("time", `"type":"string","format":"date-time","description":"When to remind"`, "datetime")},
			list("remind me to {task} {time}|remind me {time} to {task}|set a reminder to {task} {time}")},
	}},
	{"weather", []toolDef{
		{"weather.current", "Current weather at a place.", []paramDef{req("location", `"type":"string","description":"City or place"`, "city"),
			opt("units", `"type":"string","enum":["celsius","fahrenheit"],"description":"Unit of temperature"`, "words:celsius|fahrenheit")},
			list("what's the weather in {location}?|how is the weather in {location}?|show the current weather in {location}|get the weather for {location} in {units}|what is the weather like in {location}?")},
		{"weather.forecast", "Weather forecast for the coming days.", []paramDef{
			req("location", `"type":"string","description":"City or place"`, "city"),
			req("days", `"type":"integer","minimum":1,"maximum":14,"description":"How many days"`, "int:2:14")},
			list("give me a {days}-day forecast for {location}|show the forecast for {location} for the next {days} days|what's the weather forecast for {location} for {days} days?")},
	}},
	{"files", []toolDef{
		{"files.read", "Read the content of a file.", []paramDef{req("path", `"type":"string","description":"Path of the file"`, "path")},
			list("read {path}|show me the content of {path}|open the file {path}|what's in {path}?")},
		{"files.write", "Write text to a file.", []paramDef{req("path", `"type":"string","description":"Path of the file"`, "path"),
			req("content", `"type":"string","description":"What to write"`, "quoted:hello world|Dear Sir or Madam|a,b,c")},
			list("write {content} to {path}|save {content} in {path}|create a file {path} with the content {content}")},
		{"files.copy", "Copy a file.", []paramDef{req("source", `"type":"string","description":"File to copy"`, "path"), req("destination", `"type":"string","description":"Where the copy goes"`, "path")},
			list("copy {source} to {destination}|make a copy of {source} at {destination}|duplicate {source} as {destination}")},
		{"files.delete", "Delete a file for good.", []paramDef{req("path", `"type":"string","description":"Path of the file"`, "path")},
			list("delete {path}|remove the file {path}|get rid of {path}")},
	}},
	{"music", []toolDef{
		{"music.play", "Play a song.", []paramDef{req("title", `"type":"string","description":"Title of the song"`, "words:Hey Jude|Bohemian Rhapsody|Smoke on the Water|Clair de Lune"),
			opt("artist", `"type":"string","description":"Who performs it"`, "person")},
			list("play {title}[ by {artist}]|play the song {title}|put on {title}|I want to hear {title}")},
		{"music.set_volume", "Set the volume of the speakers.", []paramDef{req("volume", `"type":"integer","minimum":0,"maximum":100,"description":"Volume in percent"`, "int:1:100")},
			list("set the volume to {volume}|turn the volume to {volume} percent|change the speaker volume to {volume}%")},
		{"music.create_playlist", "Create an empty playlist.", []paramDef{req("name", `"type":"string","description":"Name of the playlist"`, "words:Jazz Evenings|Roadtrip|Morning Run|Deep Focus")},
			list("create a playlist called {name}|make a new playlist named {name}|start a playlist {name}")},
		{"music.pause", "Pause the music.", nil, list("pause the music|pause the song|hold the music")},
	}},
	{"money", []toolDef{
		{"money.convert", "Convert an amount between currencies.", []paramDef{
			req("amount", `"type":"number","description":"How much"`, "int:5:5000"),
			req("from", `"type":"string","description":"Currency code, like USD"`, "map:dollars=USD|euros=EUR|yen=JPY|USD=USD|EUR=EUR"),
			req("to", `"type":"string","description":"Currency code, like EUR"`, "map:francs=CHF|CHF=CHF|PLN=PLN|CAD=CAD|GBP=GBP")},
			list("convert {amount} {from} to {to}|how much is {amount} {from} in {to}?|exchange {amount} {from} into {to}|what are {amount} {from} in {to}?")},
		{"money.transfer", "Transfer money to somebody.", []paramDef{
			req("recipient", `"type":"string","description":"Who receives the money"`, "person"),
			req("amount", `"type":"number","description":"Amount in euros"`, "int:5:2000"),
			opt("reference", `"type":"string","description":"Text on the statement"`, "quoted:rent|birthday gift|dinner")},
			list("transfer {amount} euros to {recipient}|send {recipient} {amount} euros|pay {recipient} €{amount}[ with the reference {reference}]|wire {amount} euros to {recipient}")},
	}},
	{"contacts", []toolDef{
		{"contacts.add", "Add a contact to the address book.", []paramDef{
			req("name", `"type":"string","description":"Full name"`, "person"),
			req("email", `"type":"string","format":"email","description":"E-mail address"`, "email"),
			opt("address/city", `"type":"string","description":"City"`, "city")},
			list("add {name} with the email {email} to my contacts|save the contact {name}, {email}|add a contact {name} with email {email}[ in {address/city}]|store {name}'s email address {email} in my contacts")},
		{"contacts.find", "Look up a contact.", []paramDef{req("name", `"type":"string","description":"Name or part of it"`, "person")},
			list("find the contact {name}|look up {name} in my contacts|show me the contact details of {name}|what's {name}'s contact?")},
		{"contacts.send_email", "Send an e-mail.", []paramDef{
			req("to", `"type":"string","format":"email","description":"Address of the receiver"`, "email"),
			req("subject", `"type":"string","description":"Subject line"`, "quoted:Hello|Meeting notes|Your order"),
			req("body", `"type":"string","description":"Text of the mail"`, "quoted:See you soon.|Please find it attached.|Thanks for everything!")},
			list("send an email to {to} with subject {subject} and body {body}|email {to} with the subject {subject} and the text {body}|mail {to}, subject {subject}, body {body}")},
	}},
	{"clock", []toolDef{
		{"time.now", "Tell the current time in a time zone.", []paramDef{opt("timezone", `"type":"string","description":"IANA time zone, like Europe/Paris"`, "zone")},
			list("what time is it in {timezone}?|what's the time in {timezone}?|tell me the time in {timezone}|what time is it?|show me the current time in {timezone}")},
		{"timer.start", "Start a countdown timer.", []paramDef{req("seconds", `"type":"integer","description":"Length in seconds"`, "span:1"),
			opt("label", `"type":"string","description":"Name of the timer"`, "words:pasta|tea|laundry")},
			list("start a timer for {seconds}|set a timer for {seconds}|set a {label} timer for {seconds}|start a countdown of {seconds}")},
		{"alarm.set", "Set an alarm.", []paramDef{req("time", `"type":"string","description":"Time of day as HH:MM"`, "clock")},
			list("set an alarm for {time}|set the alarm to {time}|create an alarm at {time}")},
	}},
	{"text", []toolDef{
		{"text.hash", "Compute a checksum of a text.", []paramDef{
			req("text", `"type":"string","description":"The text"`, "quoted:hello|secret stuff|The quick brown fox"),
			opt("algorithm", `"type":"string","enum":["sha256","sha512","md5"],"description":"Hash function"`, "words:sha256|sha512|md5")},
			list("hash {text}[ with {algorithm}]|compute the {algorithm} of {text}|what is the checksum of {text}?|calculate the {algorithm} hash of {text}")},
		{"text.translate", "Translate a text to another language.", []paramDef{
			req("text", `"type":"string","description":"The text"`, "quoted:good morning|where is the station?|cheers"),
			req("language", `"type":"string","description":"Target language"`, "words:French|German|Japanese|Spanish")},
			list("translate {text} into {language}|how do you say {text} in {language}?|translate {text} to {language}")},
		{"text.count_words", "Count the words of a text.", []paramDef{req("text", `"type":"string","description":"The text"`, "quoted:one two three|to be or not to be")},
			list("count the words in {text}|how many words are in {text}?")},
	}},
}
