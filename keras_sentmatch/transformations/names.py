"""Unambiguous names of people and places to swap, by kind."""

# Within a kind, any name may replace any other.
KINDS = {
    "woman": (
        "Alice Amanda Anna Barbara Betty Catherine Claire Diana Elizabeth Emily Emma Helen Jane Jennifer Jessica "
        "Julia Karen Laura Linda Lucy Margaret Maria Mary Michelle Nancy Patricia Rachel Rebecca Sandra Sarah "
        "Sophie Susan Teresa"
    ).split(),
    "man": (
        "Adam Alan Andrew Anthony Ben Brian Charles Daniel David Edward Eric Fred George Henry James Joe John Joseph "
        "Kevin Larry Louis Michael Mike Paul Peter Philip Richard Robert Roger Sam Simon Stephen Steve Thomas Tim Tom "
        "Walter William"
    ).split(),
    "country": (
        "Afghanistan;Algeria;Argentina;Australia;Austria;Bangladesh;Belgium;Bolivia;Brazil;Bulgaria;Canada;Chile;"
        "China;Colombia;Croatia;Cuba;Denmark;Egypt;Ethiopia;Finland;France;Germany;Ghana;Greece;Hungary;Iceland;"
        "India;Indonesia;Iran;Iraq;Ireland;Israel;Italy;Jamaica;Japan;Kenya;Malaysia;Mexico;Morocco;Nepal;"
        "New Zealand;Nigeria;North Korea;Norway;Pakistan;Peru;Poland;Portugal;Romania;Russia;Saudi Arabia;Serbia;"
        "South Africa;South Korea;Spain;Sri Lanka;Sudan;Sweden;Switzerland;Syria;Thailand;Ukraine;Vietnam"
    ).split(";"),
    "city": (
        "Amsterdam;Athens;Bangalore;Bangkok;Barcelona;Beijing;Berlin;Boston;Brussels;Budapest;Cairo;Chennai;Chicago;"
        "Copenhagen;Dallas;Delhi;Denver;Dublin;Frankfurt;Geneva;Glasgow;Hamburg;Helsinki;Houston;Hyderabad;Istanbul;"
        "Jakarta;Karachi;Kolkata;Lahore;Lisbon;London;Los Angeles;Madrid;Manchester;Manila;Melbourne;Miami;Milan;"
        "Montreal;Moscow;Mumbai;Munich;Nairobi;New Delhi;New York;Oslo;Paris;Philadelphia;Prague;Pune;Rome;"
        "San Francisco;Seattle;Seoul;Shanghai;Stockholm;Sydney;Tokyo;Toronto;Vancouver;Vienna;Warsaw;Zurich"
    ).split(";"),
    "language": (
        "Arabic Bengali Czech Danish Dutch French German Greek Hebrew Hindi Hungarian Italian Japanese Korean "
        "Mandarin Norwegian Persian Polish Portuguese Russian Spanish Swahili Swedish Tamil Turkish Urdu Vietnamese"
    ).split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": (
        "January February April June July August September October November December".split()
    ),
}  # fmt: skip
MONTHS = frozenset([*KINDS["month"], "March", "May"])
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
