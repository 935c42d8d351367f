"""Memories that answer none of the paraphrase questions but use their everyday words: something for recall to be distracted by.

Half of them speak of a town, its clubs and shops. The other half are what the same person might have noted: work on other
parts of the software, colleagues, trips, purchases, the household; but none says what a question asks for. Everything follows
from the seed, and a small number of them is the beginning of a larger one.
"""

from __future__ import annotations

import random
import re

SEED = 2026

_SLOTS = {
    "person": "Marek|Olga|Pavel|Sunniva|Diego|Hanne|Lucia|Bram|Farid|Greta|Milan|Rowan|Selma|Viktor|Zoe|Anton|Carla|Emil",
    "town": "Aldbrook|Fernhill|Harwick|Lowmoor|Northgate|Ostermill|Quayside|Redfield|Stonebridge|Thornton|Upwell|Westerby",
    "place": "the town museum|the old harbour|the village hall|the city library|the botanical garden|the sports ground"
    "|the bus depot|the weather station|the concert hall|the paper mill|the fire brigade|the county archive|the youth hostel"
    "|the observatory|the ferry terminal|the music school|the customs office|the town theatre",
    "club": "the rowing club|the bakers' guild|the photo circle|the historical society|the amateur theatre|the brass band"
    "|the hikers' union|the model railway group|the garden committee|the beekeepers|the film society|the book fair team",
    "firm": "a furniture factory|a shoe company|a toy maker|a textile printer|a dairy|a glass works|a boat yard|a mapmaker"
    "|a publisher|a brewery|a removal business|a spice importer|a lamp manufacturer|a bicycle workshop",
    "thing": "catalogue|floor plan|entrance hall|loading ramp|noticeboard|guest book|boat shed|lighting rig|ticket counter"
    "|storage cellar|roof terrace|water pump|sound system|reading corner|display case|coat rack|clock tower|bell rope",
    "goods": "chairs|lanterns|maps|blankets|ropes|bottles|tiles|ladders|crates|candles|umbrellas|postcards|curtains|helmets",
    "quality": "short|big|old|warm|antique|expensive|strong|newest|foreign|daily|early|spare|borrowed|clean",
    "state": "painted black|moved outside|put aside|closed|being repaired|open again|under review|still missing|on loan|in good order"
    "|sold out|locked|too short|far too warm|half empty|freshly cleaned|back in use|hard to reach",
    "month": "January|February|March|April|May|June|July|August|September|October|November|December",
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "number": "three|four|six|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|sixty|ninety|two hundred",
    "year": "1871|1888|1902|1913|1926|1934|1947|1953|1968|1975|1983|1991|2004|2012",
    "event": "the summer fair|the lantern walk|the harbour race|the winter market|the open day|the spring concert"
    "|the charity auction|the film week|the board meeting|the school play|the flower show|the book sale|the wedding fair",
    "topic": "river trade|early aircraft|old roads|bread ovens|wool prices|folk songs|lighthouses|bird migration|city walls"
    "|town records|railway bridges|street names|water mills|coin finds|glass painting|fishing rights|medical schools",
    "matter": "the plant order|the client list|the credit note|the hosting of guests|the kids' corner|the language course"
    "|the software licence|the environment report|the address book|the payment slips|the test run|the safety rules"
    "|the team photo|the holiday plan|the food stalls|the machine hall|the office move|the route map|the parking contract"
    "|the birthday tree|the dog parade|the reading lamp|the garage doors|the database of coins|the metadata of old prints",
    "manner": "by hand|in the evening|ahead of time|without much noise|for good reasons|at the weekend|in a rush|for the first time"
    "|once a year|on short notice|as a team|in the living room of a member|with borrowed tools|at its own costs",
    "verdict": "a fair deal|a good gift to the town|a waste of money|more work than planned|a quiet success|a matter of taste"
    "|a strong start|an early sign of change|fun for everybody|less dangerous than feared|worth a second look",
    "opinion": "call it|consider it|remember it as|write of it as|mention it as",
    "service": "the search service|the admin panel|the mobile app|the mail gateway|the report builder|the image resizer|the user portal"
    "|the event collector|the survey tool|the map viewer|the chat widget|the file converter|the recommendation engine|the wiki",
    "component": "cache layer|settings page|parser|upload form|importer|scheduler|sidebar|search box|onboarding wizard|websocket handler"
    "|export button|session store|date picker|thumbnail job|webhook sender|permission check|language switch|print view",
    "change": "a progress bar|clearer error texts|a second retry|smaller icons|keyboard shortcuts|a rate of ten frames per second"
    "|an undo button|a stricter validator|lazy loading|a help page|a bigger queue|new colours|an audit trail|tooltips",
    "defect": "race condition|rounding mistake|memory leak|broken link|missing translation|null pointer|time zone slip|double click"
    "|wrong sort order|flickering menu|typo in the footer|deadlock|stale cookie|bad line break|duplicate address",
    "decision": "ship it behind a button|wait for the new design|keep the old layout|split it into two services|write it again in spring"
    "|ask the users first|drop the old browser|measure before changing anything|leave it as it is|give it to the other team",
    "release": "1.4|2.0|2.3|3.1|3.2|4.0|4.5|5.1|6.0|7.2",
    "document": "diagram|cost estimate|user guide|slide deck|short demo|list of open points|data sample|screenshot|test plan|summary",
    "department": "sales|marketing|purchasing|support|research|logistics|quality|facilities|training|public relations",
    "city": "Porto|Ghent|Riga|Turin|Graz|Bergen|Nantes|Basel|Gdansk|Seville|Malmo|Trieste|Bilbao|Tartu",
    "sight": "the cathedral|the tram museum|the market hall|the castle hill|the botanical house|the old lighthouse|the river promenade"
    "|the opera|the modern gallery|the university tower|the zoo|the spice street|the sea fortress",
    "impression": "crowded, yet worth it|a bit dull|better than expected|would do it again|far too expensive|a lovely afternoon"
    "|good with friends|not for children|nice in the evening|best early in the day",
    "dish": "leek soup|mushroom risotto|lentil stew|pumpkin gnocchi|stuffed peppers|potato salad|apple pancakes|aubergine bake"
    "|rice pudding|onion tart|beetroot dumplings",
    "extra": "too much salt|a pinch of nutmeg|roasted almonds|lemon zest|toasted sesame|smoked paprika|fried sage|extra pepper",
    "item": "a rain jacket|a desk lamp|hiking socks|a kettle|a leather belt|a picture frame|a monitor arm|a tea pot|a ladder|two cushions"
    "|a sleeping bag|a cordless drill|a wool scarf|a label printer|a folding table",
    "device": "printer|projector|label scanner|coffee grinder|whiteboard camera|paper shredder|access gate|air conditioning|lift|dishwasher",
    "fault": "jams again|makes a strange noise|needs a new fuse|was replaced|speaks the wrong language|is slow after lunch"
    "|switches itself off at night|blinks red|runs without trouble|is waiting for a spare part|lost its connection",
    "floor": "on the ground floor|on the second floor|in the annex|in the north wing|at the reception|in the basement|beside the stairs",
    "fixture": "shelf|curtain rod|door handle|rug|ceiling light|radiator valve|mirror|window seal|extension cord|coat hook",
    "room": "hallway|guest room|study|attic|cellar|bathroom|laundry room|shed",
}  # fmt: skip

_TOWN = (
    "{person} of {club} says that the {quality} {thing} at {place} is {state}.",
    "{place} in {town} keeps its {quality} {goods} in the {thing}.",
    "{club} met on a {weekday} to talk about {matter} and {event}.",
    "The {thing} of {place} in {town} was built in {year} and is {state}.",
    "{firm} in {town} makes {number} {quality} {goods} a day.",
    "{event} in {town} takes place in {month}; {matter} is {state}.",
    "{person} gave a lecture on {topic} at {place} in {month}.",
    "For {event}, {club} ordered {number} {goods} from {firm}.",
    "Visitors to {place} {opinion} {verdict}.",
    "{matter} for {event} was finished {manner} by {person}.",
    "In {year} {firm} from {town} bought {place} for {number} thousand crowns.",
    "The {weekday} tour of {place} shows {topic} and the {quality} {thing}.",
    "{club} and {place} share a {thing}, which is {state}.",
    "{person} found {number} {quality} {goods} behind the {thing} of {place}.",
    "A book about {topic} by a writer from {town} came out in {year}.",
    "Members of {club} look after {matter} {manner}.",
    "Rain stopped {event} in {town}, so the {goods} were {state}.",
    "{person} and {firm} disagree on {matter}; the town would {opinion} {verdict}.",
    "{place} opens at {number} past the hour in {month}, said {person}.",
    "The poster for {event} lists {topic}, {goods} and {matter}.",
    "According to {club}, {topic} in {town} changed after {year}.",
    "{firm} lends {goods} to {club} each {month}, mostly {manner}.",
    "School classes from {town} draw the {thing} of {place} {manner}.",
    "The price of {goods} at {event} rose by {number} percent in {year}.",
)  # fmt: skip

_NOTES = (
    "{service} got {change} in its {component} with release {release}.",
    "{person} fixed a {defect} in the {component} of {service}.",
    "Visited {sight} in {city} with {person} in {month}: {impression}.",
    "Meeting with {person} about {service}: {decision}.",
    "Bought {item} in {city} for {number} euros; {impression}.",
    "The {device} {floor} {fault}.",
    "Cooked {dish} with {extra} for {person} and {club}; {impression}.",
    "{person} from {department} asked for a {document} of {service} by {weekday}.",
    "The {room} needs a {fixture}; the old one is {state}.",
    "Load test of {service} in {month}: {number} users at a time, a {defect} and nothing else.",
    "Idea for {service}: give the {component} {change}.",
    "{person} recommended a shop near {sight} in {city} for {item}.",
    "Since release {release} {service} shares its {component} with {service}.",
    "Walking from {sight} to {sight} in {city} takes {number} minutes.",
    "{person} lent me {item}; it goes back to {place} in {month}.",
    "Told {person} in {department} that for the {component} we {decision}.",
    "{person} moved from {department} to {department} in {month} and now works on {service}.",
    "The {defect} in {service} came back on a {weekday} after release {release}.",
    "{person} showed {service} to {club} in {city}: {impression}.",
    "Photos of {event} and of {sight} lie in the {room}, {number} of them.",
    "{person} wants {item} for {event}; {department} pays.",
    "The {document} for {service} has {number} pages and is {state}.",
    "Saw {person} at {sight} on a {weekday}; talked about {topic}.",
    "Dreamt up {change} for {service} while waiting at {place}.",
)  # fmt: skip

_ALL = tuple(template for pair in zip(_TOWN, _NOTES, strict=True) for template in pair)
_SLOT = re.compile(r"\{(\w+)\}")
_CHOICES = {name: tuple(words.split("|")) for name, words in _SLOTS.items()}


def distractors(count: int, seed: int = SEED) -> list[str]:
    """Return `count` different memories."""
    draw = random.Random(seed)  # noqa: S311  # repeatable on purpose
    found: dict[str, None] = {}
    while len(found) < count:
        template = _ALL[len(found) % len(_ALL)]
        text = _filled(template, draw)
        found[text[0].upper() + text[1:]] = None
    return list(found)


def _filled(template: str, draw: random.Random) -> str:
    # Each kind of word is shuffled once per text, so that nobody meets himself and nothing leads to where it starts.
    orders: dict[str, list[str]] = {}

    def word(match: re.Match[str]) -> str:
        kind = match.group(1)
        if kind not in orders:
            orders[kind] = draw.sample(_CHOICES[kind], len(_CHOICES[kind]))
        return orders[kind].pop()

    return _SLOT.sub(word, template)
