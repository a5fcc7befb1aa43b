"""Clean a list of contacts, row by row; a row that cannot be cleaned fails alone and says why.

Run it: `deepline run examples/enrich_contacts.py --input examples/contacts.csv --output clean.csv`.
"""

import re
import time
import unicodedata

COUNTRIES = {"ireland": "IE", "deutschland": "DE", "u.s.a.": "US", "uk": "GB"}
TITLES = re.compile(r"\b(dr|prof|mr|mrs|ms)\.?\s+|\(.*?\)", re.IGNORECASE)
EMAIL = re.compile(r"^[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}$")
LOOKUP_S = 0.08  # stands for a polite request to a company register, which takes about so long


def play(ctx, input):
    """Enrich every row, eight at a time, and say how many worked."""
    rows = input["rows"]
    ctx.log(f"enriching {len(rows)} contacts")
    contacts = ctx.map("contacts", rows, enrich, workers=8)
    domains = ctx.step("domains", lambda: sorted({row["domain"] for row in contacts.outputs}))
    return {
        "rows": len(contacts),
        "enriched": len(contacts.outputs),
        "failed": len(contacts.failures),
        "domains": domains,
    }


def enrich(row):
    """One contact: a tidy name, a valid address, a phone number that can be dialled."""
    time.sleep(LOOKUP_S)
    email = clean_email(row["email"])
    return {
        "full_name": clean_name(row["name"]),
        "clean_email": email,
        "domain": email.rpartition("@")[2],
        "clean_phone": clean_phone(row["phone"]),
        "company_name": " ".join(row["company"].split()).title() or None,
        "country_code": clean_country(row["country"]),
    }


def clean_name(text):
    """`MURPHY, ada` becomes `Ada Murphy`."""
    if text.startswith(("=", "+", "@")):
        raise ValueError("the name is a spreadsheet formula")
    plain = " ".join(TITLES.sub(" ", unicodedata.normalize("NFC", text)).split())
    if "," in plain:
        family, _, given = plain.partition(",")
        plain = f"{given.strip()} {family.strip()}"
    return plain.title()


def clean_email(text):
    """Lower case without decoration; raises for what is no address."""
    email = text.strip().strip("<>").lower()
    if not email:
        raise ValueError("the contact has no email address")
    if not EMAIL.match(email):
        raise ValueError(f"not an email address: {email!r}")
    return email


def clean_phone(text):
    """Digits with an international prefix, or nothing."""
    digits = re.sub(r"[^\d+]", "", text)
    if digits.startswith("00"):
        digits = "+" + digits[2:]
    return digits if len(digits) >= 9 else None


def clean_country(text):
    """A country code of two letters, or nothing."""
    name = text.strip()
    code = COUNTRIES.get(name.lower(), name.upper())
    return code if re.fullmatch(r"[A-Z]{2}", code) else None
