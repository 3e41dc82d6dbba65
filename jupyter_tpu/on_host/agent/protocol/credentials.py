"""How files are called that usually have keys, passwords or tokens."""

CREDENTIALS = (
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx",
    "*.jks", "*.kdbx", "*.keytab", "*credential*", "*password*", "secret", "secrets",
    "secret[-_.]*", "secrets[-_.]*", "*[-_.]secret*", "*service_account*",
    "*service-account*", "*serviceaccount*", "kaggle.json", "netrc", "_netrc", "token", "tokens",
    "*.token", "*[-_]token", "*[-_]token.*",
)  # fmt: skip
