"""The terminal's front end: `tandem say`, `tandem models`, `tandem doctor`. No window, the same engine."""
