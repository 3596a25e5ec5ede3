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
			list("play {title}[ by {artist}]|play the song {title}|put on {title}|=I want to hear {title}")},
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
	{"trains", []toolDef{
		{"trains.search_connections", "Look up train connections between two stations.", []paramDef{
			req("origin", `"type":"string","description":"Station where the trip starts"`, "city"),
			req("destination", `"type":"string","description":"Station where the trip ends"`, "city"),
			opt("departure", `"type":"string","format":"date-time","description":"Earliest departure"`, "datetime"),
			opt("passengers", `"type":"integer","minimum":1,"description":"Number of travellers"`, "int:2:8")},
			list("find train connections from {origin} to {destination}|which trains go from {origin} to {destination} {departure}?|search for a train from {origin} to {destination} {departure}[ for {passengers} passengers]|show trains between {origin} and {destination}")},
		{"trains.book_seat", "Reserve a seat on a train.", []paramDef{
			req("train", `"type":"string","description":"Number of the train, like ICE1234"`, "code:ICE"),
			req("class", `"type":"string","enum":["first","second"],"description":"Travel class"`, "map:first class=first|second class=second"),
			opt("window", `"type":"boolean","description":"Whether the seat must be at the window"`, "flag:a window seat=true")},
			list("book a seat in {class} on train {train}|reserve a {class} seat on {train}|get me a {class} seat on the train {train}")},
		{"trains.delays", "Report delays of a train.", []paramDef{req("train", `"type":"string","description":"Number of the train, like ICE1234"`, "code:ICE")},
			list("is train {train} delayed?|how late is {train}?|check the delay of train {train}|does {train} have a delay?")},
	}},
	{"plants", []toolDef{
		{"plants.water", "Water a plant.", []paramDef{
			req("plant", `"type":"string","description":"Name of the plant"`, "words:basil|ficus|orchid|monstera|lemon tree"),
			req("milliliters", `"type":"integer","description":"Amount of water"`, "int:50:900")},
			list("water the {plant} with {milliliters} ml|give the {plant} {milliliters} milliliters of water|pour {milliliters} ml of water on the {plant}")},
		{"plants.add", "Register a new plant with its location.", []paramDef{
			req("name", `"type":"string","description":"Name of the plant"`, "words:basil|ficus|orchid|monstera|lemon tree"),
			req("location", `"type":"string","description":"Where it stands"`, "room"),
			opt("species", `"type":"string","description":"Botanical name"`, "quoted:Ocimum basilicum|Ficus lyrata")},
			list("add a plant called {name} in the {location}|register the plant {name} in the {location}|add a new plant {name} in the {location}[ of species {species}]")},
		{"plants.moisture", "Read the soil moisture of a plant.", []paramDef{req("plant", `"type":"string","description":"Name of the plant"`, "words:basil|ficus|orchid|monstera|lemon tree")},
			list("how moist is the soil of the {plant}?|what's the moisture of the {plant}?|check the soil moisture of the {plant}|is the {plant}'s soil moist?")},
	}},
	{"library", []toolDef{
		{"library.search_books", "Search the catalogue of the library.", []paramDef{
			req("query", `"type":"string","description":"Title, author or subject"`, "quoted:Moby Dick|Roman history|Agatha Christie"),
			opt("language", `"type":"string","description":"Language of the book"`, "words:English|German|Spanish")},
			list("search the library for {query}|find books about {query}[ in {language}]|look up {query} in the library catalogue|does the library have {query}?")},
		{"library.renew_loan", "Extend the loan of a book.", []paramDef{
			req("book_id", `"type":"string","description":"Number on the book"`, "code:BK"),
			opt("weeks", `"type":"integer","minimum":1,"maximum":8,"description":"By how many weeks"`, "int:1:8")},
			list("renew the loan of book {book_id}|extend my loan of {book_id} by {weeks} weeks|renew {book_id}[ for {weeks} weeks]|prolong the loan {book_id}")},
		{"library.pay_fine", "Pay a fine for late books.", []paramDef{req("amount", `"type":"number","description":"Amount in euros"`, "dec:1:40")},
			list("pay a library fine of {amount} euros|pay my fine of {amount} euros|settle the fine of €{amount}")},
	}},
	{"gym", []toolDef{
		{"gym.log_workout", "Record a workout.", []paramDef{
			req("activity", `"type":"string","enum":["running","cycling","rowing","swimming","yoga"],"description":"Kind of exercise"`, "words:running|cycling|rowing|swimming|yoga"),
			req("minutes", `"type":"integer","description":"How long, in minutes"`, "span:60"),
			opt("calories", `"type":"integer","description":"Energy burned in kcal"`, "int:100:900")},
			list("log {minutes} of {activity}|record a {activity} workout of {minutes}|track {minutes} of {activity}[ with {calories} calories]|=I did {minutes} of {activity}, log the workout")},
		{"gym.book_class", "Book a place in a class.", []paramDef{
			req("class", `"type":"string","description":"Name of the class"`, "words:Pilates|Spinning|Boxing|Zumba"),
			req("time", `"type":"string","format":"date-time","description":"When the class begins"`, "datetime")},
			list("book the {class} class {time}|sign me up for the {class} class {time}|reserve a place in {class} {time}")},
		{"gym.set_goal", "Set a weekly training goal.", []paramDef{req("sessions", `"type":"integer","minimum":1,"maximum":14,"description":"Training sessions per week"`, "int:2:9")},
			list("set my weekly goal to {sessions} sessions|=I want to train {sessions} times a week, set the goal|set a goal of {sessions} sessions per week")},
	}},
	{"hotel", []toolDef{
		{"hotel.book_room", "Book a hotel room.", []paramDef{
			req("guest", `"type":"string","description":"Name of the guest"`, "person"),
			req("check_in", `"type":"string","format":"date","description":"Day of arrival"`, "date"),
			req("nights", `"type":"integer","minimum":1,"description":"Number of nights"`, "int:1:14"),
			opt("breakfast", `"type":"boolean","description":"Whether breakfast is included"`, "flag:with breakfast=true|without breakfast=false")},
			list("book a room for {guest} {check_in} for {nights} nights|reserve a hotel room for {guest} for {nights} nights {check_in}[ {breakfast}]|book {nights} nights for {guest} {check_in}")},
		{"hotel.room_service", "Order food or drinks to a room.", []paramDef{
			req("room", `"type":"integer","description":"Number of the room"`, "int:101:599"),
			req("items", `"type":"array","items":{"type":"string"},"description":"What is ordered"`, "items:coffee|club sandwich|orange juice|pancakes|tea")},
			list("bring {items} to room {room}|order {items} to room {room}|=room {room} wants {items}, order it")},
		{"hotel.wake_up_call", "Arrange a wake-up call for a room.", []paramDef{
			req("room", `"type":"integer","description":"Number of the room"`, "int:101:599"),
			req("time", `"type":"string","description":"Time of day, HH:MM"`, "clock")},
			list("wake room {room} at {time}|set a wake-up call for room {room} at {time}|arrange a wake-up call at {time} in room {room}")},
	}},
	{"pets", []toolDef{
		{"pets.feed", "Feed a pet from the dispenser.", []paramDef{
			req("pet", `"type":"string","description":"Name of the pet"`, "words:Rex|Minka|Bella|Fido"),
			req("grams", `"type":"number","description":"How much food"`, "int:20:400")},
			list("feed {pet} {grams} grams|give {pet} {grams} g of food|dispense {grams} grams of food for {pet}")},
		{"pets.vet_appointment", "Make an appointment with the vet.", []paramDef{
			req("pet", `"type":"string","description":"Name of the pet"`, "words:Rex|Minka|Bella|Fido"),
			req("date", `"type":"string","format":"date","description":"Day of the appointment"`, "date"),
			opt("reason", `"type":"string","description":"Why the pet should be seen"`, "quoted:limping|vaccination|yearly check")},
			list("make a vet appointment for {pet} {date}|book the vet for {pet} {date}[ because of {reason}]|schedule a vet appointment {date} for {pet}")},
		{"pets.locate", "Tell where a pet with a collar is.", []paramDef{req("pet", `"type":"string","description":"Name of the pet"`, "words:Rex|Minka|Bella|Fido")},
			list("where is {pet}?|find my pet {pet}|locate {pet}|where's {pet} now?")},
	}},
	{"tickets", []toolDef{
		{"tickets.open", "Open a support ticket.", []paramDef{
			req("title", `"type":"string","description":"Short summary of the problem"`, "quoted:Login fails|Printer on fire|Slow database"),
			opt("priority", `"type":"string","enum":["low","medium","high","urgent"],"description":"How pressing it is"`, "words:low|medium|high|urgent"),
			opt("assignee", `"type":"string","description":"Who takes care of it"`, "person")},
			list("open a ticket {title}|create a support ticket {title} with {priority} priority|file a {priority} priority ticket titled {title}[ for {assignee}]|open a ticket called {title} for {assignee}")},
		{"tickets.close", "Close a support ticket.", []paramDef{req("ticket", `"type":"string","description":"Number of the ticket"`, "code:TK-"),
			opt("comment", `"type":"string","description":"Final remark"`, "quoted:Fixed|Cannot reproduce|Duplicate")},
			list("close ticket {ticket}|close the ticket {ticket} with the comment {comment}|=ticket {ticket} is solved, close it")},
		{"tickets.assign", "Assign a ticket to a colleague.", []paramDef{req("ticket", `"type":"string","description":"Number of the ticket"`, "code:TK-"),
			req("assignee", `"type":"string","description":"Who takes care of it"`, "person")},
			list("assign ticket {ticket} to {assignee}|give {ticket} to {assignee}|hand ticket {ticket} over to {assignee}|let {assignee} handle ticket {ticket}")},
	}},
	{"servers", []toolDef{
		{"server.restart", "Restart a virtual machine.", []paramDef{req("host", `"type":"string","description":"Host name"`, "words:web-01|db-main|mail2|cache-eu"),
			opt("force", `"type":"boolean","description":"Do not wait for running jobs"`, "flag:force=true")},
			list("restart the server {host}|reboot {host}|please bounce {host} and {force} it|restart {host}")},
		{"server.resize", "Change memory and processors of a virtual machine.", []paramDef{
			req("host", `"type":"string","description":"Host name"`, "words:web-01|db-main|mail2|cache-eu"),
			req("memory_gb", `"type":"integer","description":"Memory in gigabytes"`, "int:2:64"),
			opt("cpus", `"type":"integer","description":"Number of processors"`, "int:1:16")},
			list("resize {host} to {memory_gb} GB of memory|give {host} {memory_gb} GB of memory and {cpus} cpus|scale {host} up to {memory_gb} gigabytes")},
		{"server.logs", "Fetch the last lines of a server's log.", []paramDef{
			req("host", `"type":"string","description":"Host name"`, "words:web-01|db-main|mail2|cache-eu"),
			opt("lines", `"type":"integer","description":"How many lines"`, "int:10:500"),
			opt("level", `"type":"string","enum":["debug","info","warning","error"],"description":"Lowest level"`, "words:warning|error|debug")},
			list("show the logs of {host}|get the last {lines} log lines from {host}|tail {lines} lines of the {host} log|fetch the {level} logs of {host}|what do the logs of {host} say?")},
	}},
	{"flights", []toolDef{
		{"flights.status", "Say whether a flight is on time.", []paramDef{req("flight", `"type":"string","description":"Flight number"`, "code:LH"),
			opt("date", `"type":"string","format":"date","description":"Day of departure"`, "date")},
			list("is flight {flight} on time?|what's the status of flight {flight}[ {date}]?|has {flight} landed?|check flight {flight}[ {date}]")},
		{"flights.find", "Search for flights.", []paramDef{
			req("from", `"type":"string","description":"City of departure"`, "city"),
			req("to", `"type":"string","description":"City of arrival"`, "city"),
			req("date", `"type":"string","format":"date","description":"Day of departure"`, "date"),
			opt("nonstop", `"type":"boolean","description":"Only flights without a stop"`, "flag:nonstop=true"),
			opt("max_price", `"type":"number","description":"Most that it may cost, in euros"`, "int:50:900")},
			list("find flights from {from} to {to} {date}|=I want to fly from {from} to {to} {date}|search {nonstop} flights from {from} to {to} {date}|look for flights to {to} from {from} {date} under {max_price} euros|are there flights from {from} to {to} {date}?")},
		{"flights.check_in", "Check a passenger in.", []paramDef{
			req("booking", `"type":"string","description":"Booking code"`, "code:QX"),
			req("passenger", `"type":"string","description":"Name of the passenger"`, "person"),
			opt("seat", `"type":"string","enum":["window","middle","aisle"],"description":"Seat wish"`, "words:window|middle|aisle")},
			list("check {passenger} in for booking {booking}|check in {passenger} with booking {booking}[ in a {seat} seat]|do the check-in for {passenger}, booking {booking}")},
	}},
	{"repos", []toolDef{
		{"repo.create_branch", "Create a branch in a repository.", []paramDef{
			req("repository", `"type":"string","description":"Name of the repository"`, "words:backend|website|docs"),
			req("branch", `"type":"string","description":"Name of the branch"`, "words:fix-login|release-2|experiment")},
			list("create a branch {branch} in {repository}|make a new branch called {branch} in the {repository} repository|open branch {branch} in repository {repository}")},
		{"repo.open_pull_request", "Open a pull request.", []paramDef{
			req("title", `"type":"string","description":"Title of the pull request"`, "quoted:Fix the login|Add tests|Update docs"),
			req("source", `"type":"string","description":"Branch with the changes"`, "words:fix-login|release-2|experiment"),
			opt("target", `"type":"string","description":"Branch to merge into"`, "words:main|develop"),
			opt("reviewers", `"type":"array","items":{"type":"string"},"description":"Who should review"`, "people")},
			list("open a pull request {title} from {source}|create a pull request titled {title} from {source} into {target}|open a pull request {title} from branch {source} with reviewers {reviewers}")},
		{"repo.search_code", "Search the code of a repository.", []paramDef{
			req("pattern", `"type":"string","description":"What to search for"`, "quoted:TODO|func main|password"),
			opt("repository", `"type":"string","description":"Name of the repository"`, "words:backend|website|docs")},
			list("search the code for {pattern}|grep for {pattern} in {repository}|find {pattern} in the code|where is {pattern} used in the code of {repository}?")},
	}},
	{"doctor", []toolDef{
		{"clinic.book_appointment", "Book an appointment with a doctor.", []paramDef{
			req("doctor", `"type":"string","description":"Name of the doctor"`, "words:Dr. Lang|Dr. Okafor|Dr. Silva"),
			req("time", `"type":"string","format":"date-time","description":"When"`, "datetime"),
			opt("reason", `"type":"string","description":"What it is about"`, "quoted:back pain|flu shot|checkup")},
			list("book an appointment with {doctor} {time}|=I need to see {doctor} {time}|make an appointment with {doctor} {time}[ because of {reason}]")},
		{"clinic.refill_prescription", "Ask for more of a medicine.", []paramDef{
			req("medicine", `"type":"string","description":"Name of the medicine"`, "words:Ibuprofen|Amoxicillin|Metformin"),
			opt("packs", `"type":"integer","description":"Number of packs"`, "int:2:5")},
			list("refill my {medicine} prescription|renew the prescription for {medicine}|=I need {packs} packs of {medicine}, refill the prescription|order a refill of {medicine}")},
		{"clinic.record_blood_pressure", "Store a measured blood pressure.", []paramDef{
			req("systolic", `"type":"integer","description":"Upper value"`, "int:100:180"),
			req("diastolic", `"type":"integer","description":"Lower value"`, "int:55:99")},
			list("record a blood pressure of {systolic} over {diastolic}|=my blood pressure is {systolic} to {diastolic}, please record it|save my blood pressure: {systolic}/{diastolic}|note my blood pressure, {systolic} over {diastolic}")},
	}},
	{"tv", []toolDef{
		{"tv.switch_channel", "Switch the television to a channel.", []paramDef{req("channel", `"type":"string","description":"Name of the channel"`, "words:BBC One|Arte|CNN|Eurosport")},
			list("switch to {channel}|put the TV on {channel}|change the channel to {channel}|=I want to watch {channel}")},
		{"tv.record", "Record a programme.", []paramDef{
			req("programme", `"type":"string","description":"Title of the programme"`, "quoted:Evening News|Planet Earth|The Crown"),
			req("start", `"type":"string","format":"date-time","description":"When it begins"`, "datetime"),
			opt("channel", `"type":"string","description":"Name of the channel"`, "words:BBC One|Arte|CNN")},
			list("record {programme} {start}|tape {programme} on {channel} {start}|set up a recording of {programme} {start}")},
		{"tv.subtitles", "Turn subtitles on or off.", []paramDef{req("enabled", `"type":"boolean","description":"Whether subtitles are shown"`, "flag:on=true|off=false")},
			list("turn the subtitles {enabled}|switch {enabled} the subtitles|turn {enabled} subtitles")},
	}},
	{"school", []toolDef{
		{"school.enter_grade", "Enter a grade of a pupil.", []paramDef{
			req("pupil", `"type":"string","description":"Name of the pupil"`, "person"),
			req("subject", `"type":"string","enum":["math","physics","history","art"],"description":"School subject"`, "words:math|physics|history|art"),
			req("grade", `"type":"integer","minimum":1,"maximum":6,"description":"The grade"`, "int:1:6")},
			list("enter a {grade} in {subject} for {pupil}|={pupil} gets a {grade} in {subject}|give {pupil} a grade of {grade} in {subject}|record grade {grade} for {pupil} in {subject}")},
		{"school.report_absence", "Report that a pupil is absent.", []paramDef{
			req("pupil", `"type":"string","description":"Name of the pupil"`, "person"),
			req("date", `"type":"string","format":"date","description":"Day of absence"`, "date"),
			opt("excused", `"type":"boolean","description":"Whether there is an excuse"`, "flag:excused=true")},
			list("report {pupil} absent {date}|mark {pupil} as absent {date}|={pupil} is absent {date}, report it|report an {excused} absence of {pupil} {date}")},
		{"school.timetable", "Show the timetable of a class.", []paramDef{req("class", `"type":"string","description":"Class, like 7B"`, "words:7B|8A|10C")},
			list("show the timetable of class {class}|what lessons does {class} have?|what's the timetable for {class}?|get the {class} timetable")},
	}},
	{"taxi", []toolDef{
		{"taxi.order", "Order a taxi.", []paramDef{
			req("pickup", `"type":"string","description":"Address where the ride starts"`, "quoted:Main Street 4|Airport Terminal 2|Old Mill Lane 9"),
			req("dropoff", `"type":"string","description":"Address where the ride ends"`, "quoted:Grand Hotel|Central Station|City Hospital"),
			opt("passengers", `"type":"integer","description":"How many people ride"`, "int:2:6")},
			list("order a taxi from {pickup} to {dropoff}|get me a cab from {pickup} to {dropoff}[ for {passengers} people]|=I need a taxi from {pickup} to {dropoff}|call a taxi to take {passengers} people from {pickup} to {dropoff}")},
		{"taxi.cancel", "Cancel a taxi ride.", []paramDef{req("ride_id", `"type":"string","description":"Number of the ride"`, "code:T")},
			list("cancel my taxi {ride_id}|cancel ride {ride_id}|=I don't need the taxi {ride_id} anymore, cancel it")},
		{"taxi.tip", "Give the driver of a ride a tip.", []paramDef{
			req("ride_id", `"type":"string","description":"Number of the ride"`, "code:T"),
			req("percent", `"type":"number","minimum":0,"maximum":50,"description":"Tip in percent"`, "int:3:25")},
			list("tip the driver of ride {ride_id} {percent} percent|give a {percent}% tip for ride {ride_id}|add a tip of {percent}% to {ride_id}")},
	}},
	{"photos", []toolDef{
		{"photos.search", "Find photos by what they show, where and when they were taken.", []paramDef{
			opt("subject", `"type":"string","description":"What is on the photo"`, "words:dogs|beach|birthday cake|mountains"),
			opt("place", `"type":"string","description":"Where it was taken"`, "city"),
			opt("year", `"type":"integer","description":"Year in which it was taken"`, "map:2001=2001|2014=2014|2025=2025")},
			list("find photos of {subject}|show me pictures of {subject} in {place}|search my photos for {subject} from {year}|show photos from {place}")},
		{"photos.create_album", "Make an album of photos.", []paramDef{
			req("name", `"type":"string","description":"Name of the album"`, "words:Summer|Wedding|Our Garden|Italy"),
			opt("shared_with", `"type":"array","items":{"type":"string"},"description":"Who may see it"`, "people")},
			list("create an album called {name}|make a photo album named {name} and share it with {shared_with}|=new album {name}|create the album {name}")},
		{"photos.rotate", "Rotate a photo.", []paramDef{
			req("file", `"type":"string","description":"File name of the photo"`, "words:beach.jpg|cat.png|IMG_2041.jpg"),
			req("degrees", `"type":"integer","enum":[90,180,270],"description":"By how many degrees"`, "map:90=90|180=180|270=270")},
			list("rotate {file} by {degrees} degrees|turn the photo {file} {degrees} degrees|rotate the picture {file} {degrees}°")},
	}},
	{"warehouse", []toolDef{
		{"stock.level", "Tell how many pieces of an article are in stock.", []paramDef{req("article", `"type":"string","description":"Article number"`, "code:ART")},
			list("how many {article} do we have in stock?|what's the stock level of {article}?|check the stock of article {article}|show stock for {article}")},
		{"stock.reorder", "Order more pieces of an article from the supplier.", []paramDef{
			req("article", `"type":"string","description":"Article number"`, "code:ART"),
			req("quantity", `"type":"integer","minimum":1,"description":"Number of pieces"`, "int:5:3000")},
			list("reorder {quantity} pieces of {article}|order {quantity} more {article}|restock {article} with {quantity} pieces|buy {quantity} units of article {article}")},
		{"stock.move", "Move an article from one shelf to another.", []paramDef{
			req("article", `"type":"string","description":"Article number"`, "code:ART"),
			req("from_shelf", `"type":"string","description":"Shelf where it lies"`, "code:S"),
			req("to_shelf", `"type":"string","description":"Shelf where it goes"`, "code:R")},
			list("move {article} from shelf {from_shelf} to shelf {to_shelf}|take {article} from {from_shelf} to {to_shelf}|relocate article {article} from {from_shelf} to {to_shelf}")},
	}},
	{"heating", []toolDef{
		{"heating.set_temperature", "Set the target temperature of a room.", []paramDef{
			req("room", `"type":"string","description":"Which room"`, "room"),
			req("celsius", `"type":"number","minimum":5,"maximum":30,"description":"Target temperature in degrees Celsius"`, "dec:10:28")},
			list("set the temperature in the {room} to {celsius} degrees|heat the {room} to {celsius} degrees|make the {room} {celsius} degrees warm|set the {room} heating to {celsius} °C")},
		{"heating.read_temperature", "Measure the temperature of a room.", []paramDef{req("room", `"type":"string","description":"Which room"`, "room")},
			list("how warm is it in the {room}?|what's the temperature in the {room}?|measure the {room} temperature|tell me how warm the {room} is")},
		{"heating.vacation_mode", "Keep the house cool while nobody is there.", []paramDef{
			req("start", `"type":"string","format":"date","description":"First day away"`, "map:2026-07-01=2026-07-01|July 3=2026-07-03|3 July=2026-07-03"),
			req("end", `"type":"string","format":"date","description":"Last day away"`, "map:2026-07-20=2026-07-20|July 24=2026-07-24|24 July=2026-07-24")},
			list("switch on vacation mode from {start} to {end}|activate vacation mode from {start} until {end}|=we are on vacation from {start} to {end}, enable the vacation mode")},
	}},
	{"restaurant", []toolDef{
		{"restaurant.reserve_table", "Reserve a table in a restaurant.", []paramDef{
			req("restaurant", `"type":"string","description":"Name of the restaurant"`, "words:Luigi's|La Boqueria|The Golden Goose|Sakura"),
			req("guests", `"type":"integer","minimum":1,"description":"How many people come"`, "int:2:12"),
			req("time", `"type":"string","format":"date-time","description":"When they come"`, "datetime")},
			list("reserve a table for {guests} at {restaurant} {time}|book a table at {restaurant} for {guests} people {time}|get a table for {guests} guests at {restaurant} {time}")},
		{"restaurant.menu", "Show the menu of a restaurant.", []paramDef{req("restaurant", `"type":"string","description":"Name of the restaurant"`, "words:Luigi's|La Boqueria|The Golden Goose|Sakura"),
			opt("vegetarian", `"type":"boolean","description":"Only vegetarian dishes"`, "flag:vegetarian=true")},
			list("show me the menu of {restaurant}|what's on the menu at {restaurant}?|show the {vegetarian} menu of {restaurant}|get the menu of {restaurant}")},
		{"restaurant.review", "Write a review of a restaurant.", []paramDef{
			req("restaurant", `"type":"string","description":"Name of the restaurant"`, "words:Luigi's|La Boqueria|The Golden Goose|Sakura"),
			req("stars", `"type":"integer","minimum":1,"maximum":5,"description":"Stars from 1 to 5"`, "int:1:5"),
			opt("text", `"type":"string","description":"Text of the review"`, "quoted:Great food!|Too loud.|Friendly staff")},
			list("give {restaurant} {stars} stars|rate {restaurant} with {stars} stars[ saying {text}]|review {restaurant}: {stars} stars|write a review of {restaurant} with {stars} stars")},
	}},
	{"parking", []toolDef{
		{"parking.start", "Start a parking session for a car.", []paramDef{
			req("plate", `"type":"string","description":"License plate"`, "code:KX"),
			req("zone", `"type":"integer","description":"Number of the parking zone"`, "int:100:999"),
			opt("duration_minutes", `"type":"integer","description":"How long in minutes"`, "span:60")},
			list("park {plate} in zone {zone}|start parking for {plate} in zone {zone}[ for {duration_minutes}]|start a parking session in zone {zone} for car {plate}")},
		{"parking.stop", "End a parking session.", []paramDef{req("plate", `"type":"string","description":"License plate"`, "code:KX")},
			list("stop parking for {plate}|end the parking session of {plate}|finish parking {plate}")},
		{"parking.find", "Find free parking near a place.", []paramDef{req("place", `"type":"string","description":"Where to look"`, "quoted:Central Station|Opera House|City Hall"),
			opt("radius_meters", `"type":"integer","description":"How far away at most, in meters"`, "int:100:2000")},
			list("find parking near {place}|where can I park near {place}?|look for free parking near {place} within {radius_meters} meters|find a parking space close to {place}")},
	}},
	{"printers", []toolDef{
		{"printer.print", "Print a file.", []paramDef{
			req("file", `"type":"string","description":"Path of the file"`, "path"),
			opt("copies", `"type":"integer","minimum":1,"description":"Number of copies"`, "int:2:20"),
			opt("color", `"type":"boolean","description":"Print in color"`, "flag:in color=true")},
			list("print {file}|print {copies} copies of {file}|print {file} {color}|please print {file} {copies} times")},
		{"printer.ink_level", "Tell how much ink is left.", []paramDef{opt("color", `"type":"string","enum":["black","cyan","magenta","yellow"],"description":"Which ink"`, "words:black|cyan|magenta|yellow")},
			list("how much ink is left?|check the {color} ink|what's the ink level?|how much {color} ink is left?")},
		{"printer.scan", "Scan a page and send it by e-mail.", []paramDef{
			req("email", `"type":"string","format":"email","description":"Who receives the scan"`, "email"),
			opt("resolution", `"type":"integer","enum":[150,300,600],"description":"Dots per inch"`, "map:300 dpi=300|600 dpi=600")},
			list("scan a page and send it to {email}|scan to {email}|scan this page to {email}")},
	}},
	{"drones", []toolDef{
		{"drone.fly_to", "Fly the drone to coordinates.", []paramDef{
			req("target/latitude", `"type":"number","minimum":-90,"maximum":90,"description":"Latitude in degrees"`, "dec:1:80"),
			req("target/longitude", `"type":"number","minimum":-180,"maximum":180,"description":"Longitude in degrees"`, "dec:1:170"),
			opt("altitude", `"type":"number","description":"Height above ground in meters"`, "int:10:120")},
			list("fly the drone to {target/latitude}, {target/longitude}|send the drone to latitude {target/latitude} and longitude {target/longitude}|fly to latitude {target/latitude}, longitude {target/longitude} at an altitude of {altitude} meters")},
		{"drone.take_photo", "Take pictures with the camera of the drone.", []paramDef{opt("count", `"type":"integer","minimum":1,"description":"How many pictures"`, "int:2:30")},
			list("take a photo with the drone|take {count} pictures with the drone|let the drone take {count} photos|make the drone take {count} pictures")},
		{"drone.land", "Land the drone.", nil, list("land the drone|bring the drone down|let the drone land")},
	}},
	{"museum", []toolDef{
		{"museum.buy_tickets", "Buy tickets for the museum.", []paramDef{
			req("adults", `"type":"integer","minimum":0,"description":"Number of adults"`, "int:1:9"),
			opt("children", `"type":"integer","minimum":0,"description":"Number of children"`, "int:1:9"),
			req("date", `"type":"string","format":"date","description":"Day of the visit"`, "date")},
			list("buy museum tickets for {adults} adults and {children} children {date}|get {adults} adult tickets for the museum {date}|buy tickets for {adults} adults {date}")},
		{"museum.find_exhibit", "Find where an exhibit is shown.", []paramDef{req("exhibit", `"type":"string","description":"Name of the exhibit"`, "quoted:The Blue Vase|Dinosaur Skeleton|Sunflowers")},
			list("where is the exhibit {exhibit}?|find {exhibit} in the museum|in which hall is the exhibit {exhibit}?")},
		{"museum.audio_guide", "Start the audio guide in a language.", []paramDef{req("language", `"type":"string","enum":["en","de","fr","es","ja"],"description":"Language code"`, "map:English=en|German=de|French=fr|Spanish=es|Japanese=ja")},
			list("start the audio guide in {language}|play the {language} audio guide|=I'd like the audio guide in {language}")},
	}},
}
