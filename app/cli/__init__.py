"""The terminal's front end: `tandem say`, `tandem doctor`. No window, the same engine."""
